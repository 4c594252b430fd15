"""Where queued URLs are: hot ones in memory, cold ones in the database only, and those that are tried again later.

No cold URL is better than a hot one. Each topic has a floor, which no priority of its cold URLs exceeds, and a URL
found with a priority below it stays cold. Whoever raises the estimate of a cold URL therefore brings it into memory
first (`warm`).

Every queued URL has a row in the database, the hot ones too: to spill a URL is to forget it here.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from opilio.frontier.hosts import Host
from opilio.frontier.queue import Lane, QueuedUrl, TopicQueue
from opilio.frontier.strategies import DatabaseStrategy, LearningStrategy, Strategy
from opilio.model import Outcome, OutcomeKind
from opilio.settings import Settings

SPILL_TO = 0.8  # share of a full hot queue that stays when it spills: one sort per 20 % of its size
REFILL_BELOW = 0.2  # a hot queue with less than this share, while URLs of its topic are cold, needs a refill
SPARE_NOTES = 1_000  # notes of priorities that may be out of date before all of them are rebuilt
SQL_BATCH = 1_000  # URLs taken at a time from an order of the database: the size of BINGO's outgoing queue
LEAST_MOVE = 0.02
"""A URL is not moved for a smaller change of its priority, as a share of it: that would seldom change its turn."""


class FrontierListener(Protocol):
    """Who records what the frontier decides."""

    def duplicate(self, url: QueuedUrl) -> tuple[Outcome, int] | None:
        """Called just before a URL is leased. If it duplicates a stored page: by which step, and which page."""
        ...

    def leased(self, url: QueuedUrl) -> None:
        """A queued URL goes to a worker."""
        ...

    def dropped(self, url: QueuedUrl, outcome: Outcome) -> None:
        """A queued URL will not be fetched."""
        ...

    def priorities_changed(self, urls: Sequence[QueuedUrl]) -> None:
        """The priorities of these queued URLs changed in memory, and have to be written to the database."""
        ...


class NoListener:
    """A listener that records nothing and knows no duplicates."""

    def duplicate(self, url: QueuedUrl) -> tuple[Outcome, int] | None:
        """There are none."""
        return None

    def leased(self, url: QueuedUrl) -> None:
        """Nothing is recorded."""

    def dropped(self, url: QueuedUrl, outcome: Outcome) -> None:
        """Nothing is recorded."""

    def priorities_changed(self, urls: Sequence[QueuedUrl]) -> None:
        """Nothing is recorded."""


class Retries:
    """URLs that wait for the time of their next try."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, QueuedUrl]] = []
        self.oids: set[int] = set()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def urls(self) -> list[QueuedUrl]:
        """All of them."""
        return [url for _, _, url in self._heap]

    def add(self, url: QueuedUrl, at_s: float) -> None:
        """Try a URL again at `at_s`."""
        heapq.heappush(self._heap, (at_s, url.oid, url))
        self.oids.add(url.oid)

    def remove(self, oid: int) -> QueuedUrl | None:
        """Take a URL out before its time; None when it is not here."""
        for index, (_, _, url) in enumerate(self._heap):
            if url.oid == oid:
                del self._heap[index]
                heapq.heapify(self._heap)
                self.oids.discard(oid)
                return url
        return None

    def next_s(self) -> float | None:
        """When the next one is due."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_s: float) -> list[QueuedUrl]:
        """Take out those whose time has come."""
        due = []
        while self._heap and self._heap[0][0] <= now_s:
            url = heapq.heappop(self._heap)[2]
            self.oids.discard(url.oid)
            due.append(url)
        return due


class Tiers:
    """Queued URLs, hot and cold, in the order of a strategy. Knows nothing of leases, and of hosts only their boost."""

    def __init__(
        self, settings: Settings, strategy: Strategy, listener: FrontierListener, topics: Iterable[int] = (0,)
    ) -> None:
        self._hot_urls = settings.frontier.hot_urls
        self._max_queued = settings.frontier.max_queued
        self._listener = listener
        self.queues = {topic: TopicQueue(topic) for topic in topics}
        self.cold = dict.fromkeys(self.queues, 0)
        """By topic: how many URLs are queued in the database only."""
        self.not_admitted = dict.fromkeys(self.queues, 0)
        """By topic: how many more are there that the present strategy does not admit."""
        self._floor = dict.fromkeys(self.queues, float("-inf"))
        """By topic: no cold URL has a better priority than this."""
        self.holds_back = False
        """While this is set, links stay cold when they are found: only seeds and examples are fetched."""
        self.retries = Retries()
        self._hot: dict[int, QueuedUrl] = {}
        """URLs in the hot queues, by oid."""
        self._worst: list[tuple[float, int, QueuedUrl]] = []
        self._raised: Mapping[int, float] = {}
        """Estimates that were raised lately: a refill under way may have read the old ones."""
        self.batch: set[int] = set()
        """The URLs of the present batch of a Best-N-First strategy that have not ended."""
        self._random = random.Random(settings.run.seed)
        self._order_by(strategy)

    def _order_by(self, strategy: Strategy) -> None:
        self.strategy = strategy
        self.learner = strategy if isinstance(strategy, LearningStrategy) else None
        """The strategy, when it learns."""
        self.in_database = isinstance(strategy, DatabaseStrategy)
        """Whether only the database knows the order."""
        self._pool = {topic: TopicQueue(topic) for topic in self.queues} if strategy.batch else {}

    # -- what is queued

    @property
    def hot(self) -> int:
        """Queued URLs in memory."""
        return len(self._hot) + len(self.retries)

    @property
    def waiting(self) -> int:
        """All queued URLs."""
        return self.hot + sum(self.cold.values()) + sum(self.not_admitted.values())

    def waiting_of(self, topic: int) -> int:
        """Queued URLs of one topic, without those that wait for another try."""
        in_memory = len(self.queues[topic]) + (len(self._pool[topic]) if self._pool else 0)
        return self.cold[topic] + self.not_admitted[topic] + in_memory

    def is_hot(self, oid: int) -> bool:
        """Whether a URL is in a hot queue."""
        return oid in self._hot

    @property
    def hot_oids(self) -> Iterable[int]:
        """The URLs in the hot queues."""
        return self._hot.keys()

    @property
    def hot_queued(self) -> Iterable[QueuedUrl]:
        """The URLs in the hot queues, in no particular order."""
        return self._hot.values()

    def priority_of(self, oid: int) -> float | None:
        """The priority of a hot URL as it is now, when the strategy changes priorities."""
        url = self._hot.get(oid) if self.learner is not None else None
        return None if url is None else url.priority

    def add_topic(self, topic: int) -> None:
        """Give a new topic its queue."""
        if topic not in self.queues:
            self.queues[topic] = TopicQueue(topic)
            self.cold[topic] = self.not_admitted[topic] = 0
            self._floor[topic] = float("-inf")
            if self._pool:
                self._pool[topic] = TopicQueue(topic)

    # -- URLs come in

    def prioritise(self, urls: Sequence[QueuedUrl]) -> None:
        """Give URLs their priorities."""
        if not self.in_database:
            for url, priority in zip(urls, self.strategy.priorities(urls), strict=True):
                url.priority = priority

    def prioritise_observed(self, new: Sequence[QueuedUrl], linked: Iterable[int]) -> None:
        """Give `new` URLs their priorities after a strategy observed pages; hot ones that are `linked` move."""
        learner, hot = self.learner, self._hot
        if learner is None:  # the strategy was changed since the pages were observed
            self.prioritise(new)
            return
        others = [hot[oid] for oid in learner.outdated(linked) if oid in hot]
        priorities = learner.priorities([*new, *others])
        for url, priority in zip(new, priorities, strict=False):
            url.priority = priority
        for url, priority in zip(others, priorities[len(new) :], strict=True):
            if abs(priority - url.priority) > LEAST_MOVE * abs(url.priority):
                self._home(url.topic).move(url, priority)
                self._note_worst(url)

    def add(self, url: QueuedUrl) -> None:
        """Queue a URL: in memory when it is good enough, else in the database only."""
        topic, holds_back = url.topic, self.holds_back
        if holds_back and url.depth:
            self._floor[topic] = float("inf")
        is_first = holds_back and not url.depth  # the target of an example that was redirected
        is_worse = url.turn < self._floor[topic] and not is_first
        if not self.strategy.admits(url):
            self.not_admitted[topic] += 1
            return
        if self.in_database or is_worse:
            self.cold[topic] += 1
            return
        self.push(url)
        if self._max_queued:
            self._evict()
        else:
            self._spill_when_full(topic)

    def push(self, url: QueuedUrl) -> None:
        """Put a URL into its hot queue."""
        url.has_left = False
        self._home(url.topic).push(url)
        self._hot[url.oid] = url
        if self._max_queued:
            self._note_worst(url)

    # -- between memory and database

    def refill(self, topic: int, urls: Sequence[QueuedUrl], cold_before: int | None) -> None:
        """Take in URLs that were cold, best first.

        `cold_before` is given when the database has no others: how many of the topic were cold when it was queried.
        Those found since are still to come.
        """
        if self.in_database:
            self.cold[topic] += len(self.queues[topic])
            self._empty(self.queues[topic])
        # URLs that were found and committed since the oids in memory were listed may come a second time.
        urls = [url for url in urls if url.oid not in self._hot]
        for url in urls:
            url.relevance = max(url.relevance, self._raised.get(url.oid, 0.0))
        self.prioritise(urls)
        for rank, url in enumerate(urls):
            if self.in_database:
                url.priority = -float(rank)
            self.push(url)
        gone = len(urls) if cold_before is None else max(cold_before, len(urls))
        self.cold[topic] = max(0, self.cold[topic] - gone)
        if self.in_database:
            return
        self._floor[topic] = float("-inf") if cold_before is not None or not urls else urls[-1].turn

    def count_not_admitted(self, topic: int, count: int) -> None:
        """A refill found that `count` cold URLs of a topic are not admitted by the strategy."""
        self.not_admitted[topic] += max(0, count)

    @property
    def refill_size(self) -> int:
        """How many URLs a refill of one topic brings."""
        return min(self._hot_urls, SQL_BATCH) if self.in_database else max(1, int(self._hot_urls * SPILL_TO))

    def wants_refill(self) -> list[int]:
        """Topics whose hot queue runs low while URLs of theirs are cold."""
        if self.holds_back:
            return []
        low = REFILL_BELOW * self.refill_size
        return [topic for topic, cold in self.cold.items() if cold > 0 and len(self._home(topic)) < low]

    def set_cold_counts(self, counts: Mapping[int, int]) -> None:
        """Set the number of cold URLs of each topic, as after a restart; a refill brings the best."""
        for topic, count in counts.items():
            self.cold[topic], self.not_admitted[topic] = count, 0
            self._floor[topic] = float("inf")

    def forget_cold(self, topic: int) -> None:
        """One cold URL of a topic is queued no longer."""
        if not self.cold[topic] and self.not_admitted[topic]:
            self.not_admitted[topic] -= 1
        else:
            self.cold[topic] -= 1

    def _spill_when_full(self, topic: int) -> None:
        queue = self._home(topic)
        if self._max_queued or len(queue) <= self._hot_urls:
            return
        spilled = queue.spill(int(self._hot_urls * SPILL_TO))
        self.cold[topic] += len(spilled)
        if spilled:
            self._floor[topic] = max(self._floor[topic], spilled[0].turn)
        if self.learner is not None:
            self._listener.priorities_changed(spilled)
        for url in spilled:
            del self._hot[url.oid]

    # -- URLs rise

    def warm(self, urls: Iterable[QueuedUrl]) -> None:
        """Bring some cold URLs into memory: they are about to rise. Those that came meanwhile are left alone."""
        if self.in_database or self.holds_back:
            return  # the order of the database sees what rises there; and nothing should be fetched yet
        cold = [url for url in urls if url.oid not in self._hot and url.oid not in self.retries.oids]
        cold = [url for url in cold if self.strategy.admits(url)]
        self.prioritise(cold)
        for url in cold:
            self.cold[url.topic] = max(0, self.cold[url.topic] - 1)
            self.push(url)

    def raise_urls(self, relevance: Mapping[int, float], hub_scores: Mapping[int, float] | None = None) -> int:
        """Raise the estimates of queued URLs that hubs recommend; returns how many rose in memory. None ever falls.

        A learning strategy gets the hubs' scores too. Then each URL moves to where the strategy now puts it.
        """
        self._raised = dict(relevance)
        if self.learner is not None:
            self.learner.recommend(relevance, hub_scores or {})
        urls = [self._hot[oid] for oid in relevance if oid in self._hot]
        before = [url.relevance for url in urls]
        for url in urls:
            url.relevance = max(url.relevance, relevance[url.oid])
        if not self.in_database:
            self._move(urls, self.strategy.priorities(urls))
        return sum(url.relevance > was for url, was in zip(urls, before, strict=True))

    def bring_forward(self, oids: Sequence[int]) -> int:
        """Let queued URLs come first, as seeds do; returns how many of them are in memory."""
        urls = [self._hot[oid] for oid in oids if oid in self._hot]
        self._raised = {**self._raised, **dict.fromkeys(oids, 1.0)}
        for url in urls:
            url.relevance, url.depth = 1.0, 0
        if not self.in_database:
            self._move(urls, [self.strategy.priority(url) for url in urls])
        return len(urls)

    def _move(self, urls: Sequence[QueuedUrl], priorities: Sequence[float]) -> None:
        """Give hot URLs other priorities, except those of the present batch."""
        moved = []
        for url, priority in zip(urls, priorities, strict=True):
            if url.oid not in self.batch:
                self._home(url.topic).move(url, priority)
                self._note_worst(url)
                moved.append(url)
        if self.learner is not None:
            self._listener.priorities_changed(moved)
        for topic in {url.topic for url in moved}:
            self._spill_when_full(topic)

    # -- order

    def change_strategy(self, strategy: Strategy) -> None:
        """Order by another strategy from now on: all hot URLs become cold, and a refill brings the best.

        While links are held back, hot URLs stay hot: no refill would bring them, and they are what is waited for.
        """
        kept = list(self._hot.values()) if self.holds_back else []
        if self.learner is not None:
            self._listener.priorities_changed(list(self._hot.values()))
        for topic, queue in self.queues.items():
            self.cold[topic] += self.not_admitted[topic] + len(queue) + (len(self._pool[topic]) if self._pool else 0)
            self.not_admitted[topic] = 0
            queue.clear()
            self._floor[topic] = float("inf")
        self._order_by(strategy)
        self.batch.clear()
        self._worst.clear()
        self._hot.clear()
        self.prioritise(kept)
        for url in kept:
            self.cold[url.topic] -= 1
            self.push(url)

    def reprioritise(self) -> None:
        """Let a learning strategy give all hot URLs new priorities, when it is time for that."""
        if self.learner is None:
            return
        found = self.learner.reprioritise(self._hot.values())
        if found is None:
            return
        by_topic: dict[int, tuple[list[QueuedUrl], list[float]]] = {topic: ([], []) for topic in self.queues}
        for url, priority in zip(self._hot.values(), found, strict=True):
            of_topic, priorities = by_topic[url.topic]
            of_topic.append(url)
            priorities.append(priority)
        for topic, (of_topic, priorities) in by_topic.items():
            self._home(topic).reorder(of_topic, priorities)

    def start_batch(self) -> bool:
        """When the last batch of a Best-N-First strategy has ended, let the next N best take part, in random order.

        Returns whether there is a new batch.
        """
        if not self._pool or self.batch or any(len(queue) for queue in self.queues.values()):
            return False
        batch: list[QueuedUrl] = []
        pools = deque(pool for pool in self._pool.values() if len(pool))
        while pools and len(batch) < self.strategy.batch:
            lane = pools[0].best_ready()
            if lane is None:
                pools.popleft()
                continue
            batch.append(pools[0].pop(lane))
            pools.rotate(-1)
        self._random.shuffle(batch)
        for place, url in enumerate(batch):
            self.batch.add(url.oid)
            self.queues[url.topic].push(url, (float(place), url.oid, url))
        return bool(batch)

    # -- URLs leave

    def pop(self, queue: TopicQueue, lane: Lane) -> QueuedUrl:
        """Take out the best URL of a lane that is ready."""
        url = queue.pop(lane)
        url.has_left = True  # for the notes of the worst
        self._hot.pop(url.oid, None)
        return url

    def drop_lane(self, queue: TopicQueue, lane: Lane, outcome: Outcome) -> None:
        """Drop all URLs of an origin that nothing more is fetched from."""
        for url in list(lane):
            queue.drop(url)
            self._hot.pop(url.oid, None)
            self.drop(url, outcome)
        lane.heap.clear()
        queue.make_ready(lane)

    def drop_host(self, host: Host, outcome: Outcome) -> None:
        """Drop all URLs of a host in the hot queues."""
        for queue in (*self.queues.values(), *self._pool.values()):
            for origin in host.origins.values():
                if origin in queue.lanes:
                    self.drop_lane(queue, queue.lanes[origin], outcome)

    def drop_some(self, host: Host, outcome: Outcome, is_dropped: Callable[[str], bool]) -> None:
        """Drop some URLs of a host in the hot queues."""
        for queue in (*self.queues.values(), *self._pool.values()):
            for origin in host.origins.values():
                lane = queue.lanes.get(origin)
                for url in [url for url in lane if is_dropped(url.url)] if lane is not None else ():
                    queue.drop(url)
                    self._hot.pop(url.oid, None)
                    self.drop(url, outcome)

    def hand_over(self, source: QueuedUrl, target: QueuedUrl | int) -> None:
        """A URL leads to another one, which takes over all that is known of it: a redirect, or a duplicate.

        `target` is the oid of a URL that was known before, or a new one that has the attributes of `source` already.
        """
        oid = target.oid if isinstance(target, QueuedUrl) else target
        url = self._hot.get(oid)
        if self.learner is not None:
            self.learner.hand_over(source.oid, oid, target if isinstance(target, QueuedUrl) else url)
        if url is not None:
            url.relevance, url.steps = max(url.relevance, source.relevance), min(url.steps, source.steps)
            if not self.in_database:
                self._move([url], self.strategy.priorities([url]))

    def drop(self, url: QueuedUrl, outcome: Outcome) -> None:
        """A URL that is in no queue any more will not be fetched. Why not says nothing of its page."""
        self.batch.discard(url.oid)
        if self.learner is not None:
            self.learner.settle(url.oid, None)
        self._listener.dropped(url, outcome)

    def settle(self, oid: int, outcome: Outcome, relevance: float | None) -> None:
        """A URL has its final outcome. A learning strategy learns from it, unless it says nothing of the page."""
        if self.learner is not None:
            if relevance is None and outcome.is_dead:
                self.learner.settle_dead(oid)
                return
            if relevance is None and outcome.kind is OutcomeKind.FAILED:
                relevance = 0.0
            self.learner.settle(oid, relevance)

    def _evict(self) -> None:
        """Keep the number of queued URLs below the limit: the one with the least priority is dropped for good."""
        while self.waiting > self._max_queued and self._worst:
            priority, _, url = heapq.heappop(self._worst)
            if priority != url.priority and self.learner is not None and self._hot.get(url.oid) is url:
                heapq.heappush(self._worst, (url.priority, -url.oid, url))  # its priority has changed since
            elif not url.has_left and priority == url.priority and url.oid not in self.batch:
                self._home(url.topic).drop(url)
                self._hot.pop(url.oid, None)
                self.drop(url, Outcome.EVICTED)

    def _note_worst(self, url: QueuedUrl) -> None:
        if not self._max_queued:
            return
        heapq.heappush(self._worst, (url.priority, -url.oid, url))
        if len(self._worst) > 2 * len(self._hot) + SPARE_NOTES:  # most are of URLs that are gone
            self._worst = [(one.priority, -one.oid, one) for one in self._hot.values()]
            heapq.heapify(self._worst)

    def _home(self, topic: int) -> TopicQueue:
        """The hot queue of a topic: the pool, when a strategy takes URLs in batches."""
        return self._pool[topic] if self._pool else self.queues[topic]

    def _empty(self, queue: TopicQueue) -> None:
        for url in queue:
            del self._hot[url.oid]
        queue.clear()
