"""The two levels of the frontier: hot URLs in memory, cold ones in the database only.

What is cold is never better than what is hot: each topic has a floor, the best priority that was ever spilled, and what
is found below it stays cold. A cold URL whose estimate rises is therefore brought into memory by whoever raises it.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.frontier.queue import QueuedUrl, TopicQueue
from opilio.frontier.strategies import Strategy
from opilio.model import Outcome
from opilio.settings import Settings

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

    Oids: TypeAlias = npt.NDArray[np.int64]


SPILL_TO = 0.8  # share of a full hot queue that stays when it spills: one sort per 20 % of its size
REFILL_BELOW = 0.2  # a hot queue with less than this share, and URLs waiting in the database, asks for more
SPARE_NOTES = 1_000  # notes of priorities that may be out of date before they are all made anew
SQL_BATCH = 1_000  # URLs taken at a time in a SQL order: the size of BINGO's outgoing queue


Drop = Callable[[QueuedUrl, Outcome], None]
"""Called when a waiting URL is given up before it was asked for; the engine records it."""


class Levels:
    """Where URLs wait: the half of `Frontier` that knows no hosts and no leases."""

    def __init__(self, settings: Settings, strategy: Strategy, on_drop: Drop, topics: Iterable[int]) -> None:
        self.settings = settings
        self.strategy = strategy
        self.on_drop = on_drop
        self.on_spill: Callable[[Sequence[QueuedUrl]], None] = lambda urls: None
        """Told of URLs whose priorities changed in memory, and are to be written down now; set by the engine."""
        self.queues = {topic: TopicQueue(topic) for topic in topics}
        self.cold = dict.fromkeys(self.queues, 0)
        """URLs of a topic that wait in the database only."""
        self.barred = dict.fromkeys(self.queues, 0)
        """... and are to stay there as long as this strategy orders, which does not admit them."""
        self._floor = dict.fromkeys(self.queues, float("-inf"))
        """No URL that waits in the database only is better than its topic's floor."""
        self.holds_back = False
        """While this is set, links found wait in the database: only seeds and examples are asked for."""
        self.leased: dict[int, QueuedUrl] = {}
        self._later: list[tuple[float, int, QueuedUrl]] = []
        self._later_oids: set[int] = set()
        self._worst: list[tuple[float, int, QueuedUrl]] = []
        self._turns = deque(self.queues.values())
        self._batch: set[int] = set()
        self._pool = {topic: TopicQueue(topic) for topic in self.queues} if strategy.batch else {}
        self._hot: dict[int, QueuedUrl] = {}
        """URLs in the hot queues by oid."""
        self._raised: Mapping[int, float] = {}
        """Estimates that rose lately: a refill under way may have read the old ones."""

    # -- what waits

    @property
    def hot(self) -> int:
        """Waiting URLs in memory."""
        return len(self._hot) + len(self._later)

    @property
    def waiting(self) -> int:
        """Waiting URLs in all."""
        return self.hot + sum(self.cold.values()) + sum(self.barred.values())

    def waiting_of(self, topic: int) -> int:
        """Waiting URLs of one topic, those that wait for another try left out."""
        in_memory = len(self.queues[topic]) + (len(self._pool[topic]) if self._pool else 0)
        return self.cold[topic] + self.barred[topic] + in_memory

    def holds(self, oid: int) -> bool:
        """Whether a URL is leased, or waits for another try."""
        return oid in self.leased or oid in self._later_oids

    def is_hot(self, oid: int) -> bool:
        """Whether a URL waits in a hot queue."""
        return oid in self._hot

    def oids_in_memory(self) -> Oids:
        """The oids a refill must leave out. A SQL order is asked for anew, so its queued URLs may come again."""
        oids = [url.oid for _, _, url in self._later] + list(self.leased)
        if not self.strategy.uses_sql:
            oids += list(self._hot)
        return np.array(oids, dtype=np.int64)

    def priority_of(self, oid: int) -> float | None:
        """The priority of a URL in memory as it is now, when the strategy changes priorities."""
        url = self._hot.get(oid) if self.strategy.learns else None
        return None if url is None else url.priority

    def add_topic(self, topic: int) -> None:
        """Give a topic that is new its queue."""
        if topic not in self.queues:
            self.queues[topic] = TopicQueue(topic)
            self.cold[topic] = self.barred[topic] = 0
            self._floor[topic] = float("-inf")
            self._turns.append(self.queues[topic])
            if self._pool:
                self._pool[topic] = TopicQueue(topic)

    # -- URLs come in

    def prioritise(self, urls: Sequence[QueuedUrl]) -> None:
        """Give URLs their priorities."""
        if not self.strategy.uses_sql:
            for url, priority in zip(urls, self.strategy.priorities(urls), strict=True):
                url.priority = priority

    def add(self, url: QueuedUrl) -> None:
        """Let a URL wait: in memory when it is good enough, else in the database only."""
        if self.holds_back and url.depth:
            self._floor[url.topic] = float("inf")
        is_first = self.holds_back and not url.depth  # where an example was redirected to
        is_worse = url.turn < self._floor[url.topic] and not is_first
        if not self.strategy.admits(url):
            self.barred[url.topic] += 1
            return
        if self.strategy.uses_sql or is_worse:
            self.cold[url.topic] += 1
            return
        self._push(url)
        if self.settings.frontier.max_queued:
            self._evict()
        else:
            self._spill_when_full(url.topic)

    def refill(self, topic: int, urls: Sequence[QueuedUrl], cold_before: int | None) -> None:
        """Take URLs that waited in the database, best first.

        `cold_before` is given when there were no others: how many of the topic waited there when the database was
        asked, for those found since are still to come.
        """
        if self.strategy.uses_sql:
            self.cold[topic] += len(self.queues[topic])
            self._empty(self.queues[topic])
        # What was found, and committed, since the oids in memory were listed may come a second time.
        urls = [url for url in urls if url.oid not in self._hot]
        for url in urls:
            url.relevance = max(url.relevance, self._raised.get(url.oid, 0.0))
        self.prioritise(urls)
        for rank, url in enumerate(urls):
            if self.strategy.uses_sql:
                url.priority = -float(rank)
            self._push(url)
        gone = len(urls) if cold_before is None else max(cold_before, len(urls))
        self.cold[topic] = max(0, self.cold[topic] - gone)
        if self.strategy.uses_sql:
            return
        self._floor[topic] = float("-inf") if cold_before is not None or not urls else urls[-1].turn

    def bar(self, topic: int, count: int) -> None:
        """Of the URLs of a topic that wait in the database, so many were found not to be admitted."""
        self.barred[topic] += max(0, count)

    @property
    def refill_size(self) -> int:
        """How many URLs a refill of one topic asks for."""
        hot_urls = self.settings.frontier.hot_urls
        return min(hot_urls, SQL_BATCH) if self.strategy.uses_sql else max(1, int(hot_urls * SPILL_TO))

    def wants_refill(self) -> list[int]:
        """Topics whose hot queue runs low while URLs wait in the database."""
        if self.holds_back:
            return []
        low = REFILL_BELOW * self.refill_size
        return [topic for topic, cold in self.cold.items() if cold > 0 and len(self._home(topic)) < low]

    def wait_in_database(self, counts: Mapping[int, int]) -> None:
        """Say how many URLs of each topic wait in the database, as after a restart; a refill brings the best."""
        for topic, count in counts.items():
            self.cold[topic], self.barred[topic] = count, 0
            self._floor[topic] = float("inf")

    def forget_cold(self, topic: int) -> None:
        """One URL of a topic no longer waits in the database."""
        if not self.cold[topic] and self.barred[topic]:
            self.barred[topic] -= 1
        else:
            self.cold[topic] -= 1

    # -- URLs rise

    def warm(self, urls: Iterable[QueuedUrl]) -> None:
        """Bring some cold URLs into memory: they are about to rise. Those that came meanwhile are left alone."""
        if self.strategy.uses_sql or self.holds_back:
            return  # the database's order sees what rises there; and nothing should be fetched yet
        cold = [url for url in urls if url.oid not in self._hot and not self.holds(url.oid)]
        cold = [url for url in cold if self.strategy.admits(url)]
        self.prioritise(cold)
        for url in cold:
            self.cold[url.topic] = max(0, self.cold[url.topic] - 1)
            self._push(url)

    def raise_urls(self, relevance: Mapping[int, float], hub_scores: Mapping[int, float] | None = None) -> int:
        """Raise the estimates of waiting URLs that hubs recommend; returns how many rose in memory. None ever falls.

        A strategy whose priorities are learned is told of the hubs' scores. Then each URL moves to where the strategy
        now puts it.
        """
        self._raised = dict(relevance)
        if self.strategy.learns:
            self.strategy.recommend(relevance, hub_scores or {})
        urls = [self._hot[oid] for oid in relevance if oid in self._hot]
        before = [url.relevance for url in urls]
        for url in urls:
            url.relevance = max(url.relevance, relevance[url.oid])
        if not self.strategy.uses_sql:
            self._move(urls, self.strategy.priorities(urls))
        return sum(url.relevance > was for url, was in zip(urls, before, strict=True))

    def bring_forward(self, oids: Sequence[int]) -> int:
        """Let waiting URLs come first, as seeds do; returns how many of them are in memory."""
        urls = [self._hot[oid] for oid in oids if oid in self._hot]
        self._raised = {**self._raised, **dict.fromkeys(oids, 1.0)}
        for url in urls:
            url.relevance, url.depth = 1.0, 0
        if not self.strategy.uses_sql:
            self._move(urls, [self.strategy.priority(url) for url in urls])
        return len(urls)

    def _move(self, urls: Sequence[QueuedUrl], priorities: Sequence[float]) -> None:
        """Give hot URLs other priorities, but those of the batch that is being asked for."""
        moved = []
        for url, priority in zip(urls, priorities, strict=True):
            if url.oid not in self._batch:
                self._home(url.topic).move(url, priority)
                self._note_worst(url)
                moved.append(url)
        if self.strategy.learns:
            self.on_spill(moved)
        for topic in {url.topic for url in moved}:
            self._spill_when_full(topic)

    # -- order

    def change_strategy(self, strategy: Strategy) -> None:
        """Order by another strategy from now on: all hot URLs go back to the database's order.

        While links are held back, what is hot stays: no refill would bring it, and it is what is waited for.
        """
        kept = list(self._hot.values()) if self.holds_back else []
        if self.strategy.learns:
            self.on_spill(list(self._hot.values()))
        for topic, queue in self.queues.items():
            self.cold[topic] += self.barred[topic] + len(queue) + (len(self._pool[topic]) if self._pool else 0)
            self.barred[topic] = 0
            queue.clear()
            self._floor[topic] = float("inf")
        self.strategy = strategy
        self._pool = {topic: TopicQueue(topic) for topic in self.queues} if strategy.batch else {}
        self._batch.clear()
        self._worst.clear()
        self._hot.clear()
        self.prioritise(kept)
        for url in kept:
            self.cold[url.topic] -= 1
            self._push(url)

    def _home(self, topic: int) -> TopicQueue:
        """The queue in which a topic's URLs wait for their turn: the pool, when turns come in batches."""
        return self._pool[topic] if self._pool else self.queues[topic]

    def _push(self, url: QueuedUrl) -> None:
        url.dropped = False
        self._home(url.topic).push(url)
        self._hot[url.oid] = url
        self._note_worst(url)

    def _empty(self, queue: TopicQueue) -> None:
        for url in queue:
            del self._hot[url.oid]
        queue.clear()

    def _note_worst(self, url: QueuedUrl) -> None:
        if not self.settings.frontier.max_queued:
            return
        heapq.heappush(self._worst, (url.priority, -url.oid, url))
        if len(self._worst) > 2 * len(self._hot) + SPARE_NOTES:  # most are of URLs that are gone
            self._worst = [(one.priority, -one.oid, one) for one in self._hot.values()]
            heapq.heapify(self._worst)

    def _spill_when_full(self, topic: int) -> None:
        if self.settings.frontier.max_queued or len(self._home(topic)) <= self.settings.frontier.hot_urls:
            return
        spilled = self._home(topic).spill(int(self.settings.frontier.hot_urls * SPILL_TO))
        self.cold[topic] += len(spilled)
        if spilled:
            self._floor[topic] = max(self._floor[topic], spilled[0].turn)
        if self.strategy.learns:
            self.on_spill(spilled)
        for url in spilled:
            del self._hot[url.oid]

    def _evict(self) -> None:
        """Keep at most `max_queued` URLs: the one with the least priority goes, for good."""
        while self.waiting > self.settings.frontier.max_queued and self._worst:
            priority, _, url = heapq.heappop(self._worst)
            if priority != url.priority and self.strategy.learns and self._hot.get(url.oid) is url:
                heapq.heappush(self._worst, (url.priority, -url.oid, url))  # its strategy thought otherwise since
            elif not url.dropped and priority == url.priority and url.oid not in self._batch:
                self._home(url.topic).drop(url)
                self._hot.pop(url.oid, None)
                self.on_drop(url, Outcome.EVICTED)
