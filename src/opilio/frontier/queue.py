"""The hot queues: the part of the frontier that is in memory, one queue per topic, one lane per origin in it.

A lane is a heap of queued URLs of one topic on one origin. A queue keeps the lanes whose host is ready in a heap by
their best URL; lanes of busy hosts are parked at the host and come back when it is ready. So the best URL whose host is
ready is found in logarithmic time, however many hosts there are.

Invariants: a URL is in at most one lane; a lane that is not empty is either ready (in its queue's heap) or parked (at
its host), never both.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from opilio.frontier.hosts import Host, Origin
from opilio.model.url import scheme_of

LIFT = 0.001  # added to a priority for each 1 that a boost is above 1: else no factor would raise 0
Rank: TypeAlias = "tuple[Any, ...]"
"""Priority, oid and `QueuedUrl`; oids differ, so URLs are never compared. The type does not say how long the tuple is:
mypyc copies tuples of known length, and it matters which of several equal ones an entry is."""


class QueuedUrl:
    """A URL that is queued to be fetched."""

    __slots__ = ("anchor", "depth", "entry", "etag", "has_left", "hops", "host", "last_modified", "neighbours",
                 "numtries", "oid", "priority", "relevance", "sought", "steps", "stored_s", "topic", "url")  # fmt: skip

    def __init__(
        self, oid: int, url: str, host: Host, topic: int, depth: int, relevance: float, hops: int = 0, numtries: int = 0
    ) -> None:
        self.oid = oid
        self.url = url
        self.host = host
        self.topic = topic
        self.sought = topic  # the topic of the page that led to it, whatever its own page is judged to be about
        self.depth = depth
        self.relevance = relevance
        self.hops = hops
        self.numtries = numtries
        self.priority = 0.0
        self.steps = 0  # links followed since the last relevant page
        self.has_left = False  # evicted or leased: a heap that still has it skips it
        self.entry: Rank | None = None  # its valid entry in a lane's heap: others have former priorities
        self.etag = ""
        self.last_modified = ""
        self.stored_s = 0.0  # when the page that is stored was fetched
        self.anchor = ""
        self.neighbours = b""

    @property
    def origin(self) -> Origin:
        """http or https on its host."""
        return self.host.origin(scheme_of(self.url))

    @property
    def turn(self) -> float:
        """The priority with the boost of the host."""
        boost = self.host.boost
        return self.priority if boost == 1.0 else boosted(self.priority, boost)

    @property
    def rank(self) -> Rank:
        """What heaps order by: higher `turn` first, then earlier discovery."""
        boost = self.host.boost
        return (-self.priority if boost == 1.0 else -boosted(self.priority, boost), self.oid, self)


def boosted(priority: float, boost: float) -> float:
    """A priority raised by a factor, whatever its sign; a priority of 0 rises too."""
    return priority / boost if priority < 0 else priority * boost + LIFT * (boost - 1.0)


def _counts(rank: Rank) -> bool:
    """Whether an entry of a heap is valid."""
    url: QueuedUrl = rank[2]
    return url.entry is rank and not url.has_left


class Lane:
    """The queued URLs of one topic on one origin, best first."""

    __slots__ = ("heap", "is_parked", "origin", "queue", "stamp")

    def __init__(self, origin: Origin, queue: TopicQueue) -> None:
        self.origin = origin
        self.queue = queue
        self.heap: list[Rank] = []
        self.is_parked = False
        self.stamp = 0  # number of the lane's valid entry in the ready heap

    def __iter__(self) -> Iterator[QueuedUrl]:
        return (rank[2] for rank in self.heap if _counts(rank))

    def wake(self) -> None:
        """Go back to the queue: the host is ready."""
        self.queue.make_ready(self)


class TopicQueue:
    """All hot URLs of one topic."""

    def __init__(self, topic: int) -> None:
        self.topic = topic
        self.lanes: dict[Origin, Lane] = {}
        self.count = 0
        self._ready: list[tuple[Rank, int, Lane]] = []
        self._stamps = 0

    def __len__(self) -> int:
        return self.count

    def push(self, url: QueuedUrl, rank: Rank | None = None) -> None:
        """Add a URL, in its own rank or another one; its lane becomes ready unless it is parked."""
        origin = url.origin
        lane = self.lanes.get(origin)
        if lane is None:
            lane = self.lanes[origin] = Lane(origin, self)
        heap = lane.heap
        was_first = heap[0] if heap else None
        url.entry = rank or url.rank
        heapq.heappush(heap, url.entry)
        self.count += 1
        if not lane.is_parked and heap[0] is not was_first:
            self.make_ready(lane)

    def move(self, url: QueuedUrl, priority: float) -> None:
        """Give a URL in this queue another priority."""
        url.priority = priority
        self.count -= 1
        self.push(url)

    def reorder(self, urls: Iterable[QueuedUrl], priorities: Iterable[float]) -> None:
        """Give all URLs in this queue new priorities."""
        for lane in self.lanes.values():
            lane.heap.clear()
        lanes = self.lanes
        for url, priority in zip(urls, priorities, strict=True):
            url.priority = priority
            host = url.host
            url.entry = rank = (-priority if host.boost == 1.0 else -boosted(priority, host.boost), url.oid, url)
            lanes[url.origin].heap.append(rank)
        self._ready.clear()
        for lane in self.lanes.values():
            heapq.heapify(lane.heap)
            if not lane.is_parked:
                self.make_ready(lane)

    def make_ready(self, lane: Lane) -> None:
        """Put a lane into the ready heap under its present best URL."""
        lane.is_parked = False
        self._skip_invalid(lane)
        if lane.heap:
            self._stamps += 1
            lane.stamp = self._stamps
            heapq.heappush(self._ready, (lane.heap[0], lane.stamp, lane))

    def best_ready(self) -> Lane | None:
        """The ready lane with the best URL, without removing anything; None when no host of this topic is ready."""
        ready = self._ready
        while ready:
            first, stamp, lane = ready[0]
            if stamp == lane.stamp and not lane.is_parked:
                if _counts(first):
                    return lane
                heapq.heappop(ready)
                self.make_ready(lane)
            else:
                heapq.heappop(ready)
        return None

    def park(self, lane: Lane) -> None:
        """Take a lane out of the ready heap until its host is ready; the host wakes it."""
        lane.is_parked = True
        lane.stamp = 0
        lane.origin.host.parked.append(lane)

    def pop(self, lane: Lane) -> QueuedUrl:
        """Remove the best URL of a ready lane; the lane stays ready for the next."""
        url: QueuedUrl = heapq.heappop(lane.heap)[2]
        url.entry = None
        self.count -= 1
        lane.stamp = 0
        if lane.heap:
            self.make_ready(lane)
        else:
            self._forget(lane)
        return url

    def drop(self, url: QueuedUrl) -> None:
        """Forget a URL wherever it is in its lane."""
        url.has_left = True
        self.count -= 1

    def spill(self, keep: int) -> list[QueuedUrl]:
        """Keep the best `keep` URLs and forget the others; returns those, best first."""
        ranks = sorted([rank for lane in self.lanes.values() for rank in lane.heap if _counts(rank)])
        self.count = min(keep, len(ranks))
        if len(ranks) <= keep:
            return []
        worst = ranks[keep]
        self._ready.clear()
        for lane in list(self.lanes.values()):
            lane.heap = [rank for rank in lane.heap if rank < worst and _counts(rank)]
            lane.stamp = 0
            if not lane.heap:
                self._forget(lane)
            else:
                heapq.heapify(lane.heap)
                if not lane.is_parked:
                    self.make_ready(lane)
        return [url for _, _, url in ranks[keep:]]

    def clear(self) -> None:
        """Forget all URLs; parked lanes stay parked, empty."""
        for lane in self.lanes.values():
            lane.heap.clear()
            lane.stamp = 0
        self.lanes = {origin: lane for origin, lane in self.lanes.items() if lane.is_parked}
        self._ready.clear()
        self.count = 0

    def __iter__(self) -> Iterator[QueuedUrl]:
        for lane in self.lanes.values():
            yield from lane

    def _skip_invalid(self, lane: Lane) -> None:
        heap = lane.heap
        while heap and not _counts(heap[0]):
            heapq.heappop(heap)

    def _forget(self, lane: Lane) -> None:
        """An empty lane that is not parked need not be remembered."""
        if not lane.is_parked and self.lanes.get(lane.origin) is lane:
            del self.lanes[lane.origin]
