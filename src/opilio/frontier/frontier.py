"""The frontier: offered links in, leases out; scores and politeness together."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.frontier.filters import ScopeFilter, TrapGuard
from opilio.frontier.host_table import HostTable
from opilio.frontier.hosts import Host, HostState, delay_s
from opilio.frontier.keymap import RecentKeys
from opilio.frontier.queue import Lane, TopicQueue, Waiting
from opilio.frontier.strategies import Strategy
from opilio.model import Document, Judgement, Lease, LeaseKind, Outcome, host_of
from opilio.settings import Settings

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

    Oids: TypeAlias = npt.NDArray[np.int64]


SPILL_TO = 0.8  # share of a full hot queue that stays when it spills: one sort per 20 % of its size
REFILL_BELOW = 0.2  # a hot queue with less than this share, and URLs waiting in the database, asks for more
SQL_BATCH = 1_000  # URLs taken at a time in a SQL order: the size of BINGO's outgoing queue


Drop = Callable[[Waiting, Outcome], None]
"""Called when a waiting URL is given up before it was asked for; the engine records it."""


class Frontier:
    """Known URLs, hosts and hot queues. Knows no network, no database and no clock: time is an argument."""

    def __init__(
        self, settings: Settings, strategy: Strategy, scope: ScopeFilter, on_drop: Drop, topics: Iterable[int] = (0,)
    ) -> None:
        self.settings = settings
        self.strategy = strategy
        self._table = HostTable(settings.fetch, scope)
        self.hosts = self._table.hosts
        self.host_states = self._table.states
        self.known = RecentKeys()
        self.on_drop = on_drop
        self.refuses: Callable[[Waiting], Outcome | None] = lambda url: None
        """A last look before a URL is leased (duplicates); set by the engine."""
        self.on_spill: Callable[[Sequence[Waiting]], None] = lambda urls: None
        """Told of URLs that were moved in memory, and wait in the database only from now on; set by the engine."""
        self.traps = TrapGuard(settings.traps)
        self.queues = {topic: TopicQueue(topic) for topic in topics}
        self.cold = dict.fromkeys(self.queues, 0)
        """URLs of a topic that wait in the database only."""
        self._floor = dict.fromkeys(self.queues, float("-inf"))
        """No URL that waits in the database only is better than its topic's floor."""
        self.holds_back = False
        """While this is set, links found wait in the database: only seeds and examples are asked for."""
        self._later: list[tuple[float, int, Waiting]] = []
        self._worst: list[tuple[float, int, Waiting]] = []
        self._turns = deque(self.queues.values())
        self._batch: set[int] = set()
        self._pool = {topic: TopicQueue(topic) for topic in topics} if strategy.batch else {}
        self._random = random.Random(settings.run.seed)
        self._later_oids: set[int] = set()
        self._hot: dict[int, Waiting] = {}
        """URLs in the hot queues by oid, as long as the strategy learns: only then they are moved."""
        self.leased: dict[int, Waiting] = {}

    # -- what the frontier holds

    @property
    def hot(self) -> int:
        """Waiting URLs in memory."""
        return sum(len(q) for q in self.queues.values()) + sum(len(q) for q in self._pool.values()) + len(self._later)

    @property
    def waiting(self) -> int:
        """Waiting URLs in all."""
        return self.hot + sum(self.cold.values())

    def waiting_of(self, topic: int) -> int:
        """Waiting URLs of one topic, those that wait for another try left out."""
        return self.cold[topic] + len(self.queues[topic]) + (len(self._pool[topic]) if self._pool else 0)

    def holds(self, oid: int) -> bool:
        """Whether a URL is leased, or waits for another try."""
        return oid in self.leased or oid in self._later_oids

    def oids_in_memory(self) -> Oids:
        """The oids a refill must leave out. A SQL order is asked for anew, so its queued URLs may come again."""
        oids = [url.oid for _, _, url in self._later] + list(self.leased)
        if not self.strategy.uses_sql:
            oids += [url.oid for q in (*self.queues.values(), *self._pool.values()) for url in q]
        return np.array(oids, dtype=np.int64)

    def host(self, name: str, scheme: str = "http") -> Host:
        """The host of that name, made when it is new."""
        return self._table.get(name, scheme)

    @property
    def in_flight(self) -> int:
        """Requests under way, of all kinds."""
        return self._table.in_flight

    def add_topic(self, topic: int) -> None:
        """Give a topic that is new its queue."""
        if topic not in self.queues:
            self.queues[topic] = TopicQueue(topic)
            self.cold[topic] = 0
            self._floor[topic] = float("-inf")
            self._turns.append(self.queues[topic])
            if self._pool:
                self._pool[topic] = TopicQueue(topic)

    # -- URLs come in

    def judge_new(self, url: str, depth: int) -> tuple[Host, Outcome | None]:
        """The host of a URL met for the first time, and why it may not be asked, if it may not."""
        host = self.host(host_of(url), url[: url.index(":")])
        refusal = host.refusal or self.traps.refusal(url, host.sid)
        limits = self.settings.limits
        if refusal is None and limits.max_depth and depth > limits.max_depth:
            refusal = Outcome.TOO_DEEP
        if refusal is None and host.state is HostState.BAD:
            refusal = Outcome.BAD_HOST
        return host, refusal

    def prioritise(self, urls: Sequence[Waiting]) -> None:
        """Give URLs their priorities."""
        if not self.strategy.uses_sql:
            for url, priority in zip(urls, self.strategy.priorities(urls), strict=True):
                url.priority = priority

    def observe(
        self,
        page: Waiting,
        judgement: Judgement | None,
        document: Document,
        oids: Sequence[int],
        sids: Sequence[int],
        new: Sequence[Waiting],
    ) -> None:
        """Let a strategy that learns see a page: `new` URLs get their priorities, other waiting ones move.

        `oids` and `sids` say where the links of the document lead, ABSENT for one that is not followed.
        """
        self.strategy.observe(page, judgement, document, oids, sids)
        linked = [self._hot[oid] for oid in dict.fromkeys(oids) if oid in self._hot]
        priorities = self.strategy.priorities([*new, *linked])
        for url, priority in zip(new, priorities, strict=False):
            url.priority = priority
        for url, priority in zip(linked, priorities[len(new) :], strict=True):
            self._home(url.topic).move(url, priority)
            self._note_worst(url)

    def priority_of(self, oid: int) -> float | None:
        """The priority of a URL in memory as it is now, when the strategy changes priorities."""
        url = self._hot.get(oid)
        return None if url is None else url.priority

    def look_anew(self) -> None:
        """Let the strategy look at all waiting URLs again, when it wants to."""
        if not (self.strategy.learns and self.strategy.is_due()):
            return
        urls = list(self._hot.values())
        by_topic: dict[int, list[tuple[Waiting, float]]] = {topic: [] for topic in self.queues}
        for url, priority in zip(urls, self.strategy.look_anew(urls), strict=True):
            by_topic[url.topic].append((url, priority))
        for topic, pairs in by_topic.items():
            self._home(topic).reorder([url for url, _ in pairs], [priority for _, priority in pairs])

    def add(self, url: Waiting) -> None:
        """Let a URL wait: in memory when it is good enough, else in the database only."""
        if self.holds_back and url.depth:
            self._floor[url.topic] = float("inf")
        is_first = self.holds_back and not url.depth  # where an example was redirected to
        if self.strategy.uses_sql or (url.priority < self._floor[url.topic] and not is_first):
            self.cold[url.topic] += 1
            return
        self._push(url)
        if self.settings.frontier.max_waiting:
            self._evict()
        elif len(self._home(url.topic)) > self.settings.frontier.hot_urls:
            self._spill(url.topic)

    def refill(self, topic: int, urls: Sequence[Waiting], cold_before: int | None) -> None:
        """Take URLs that waited in the database, best first.

        `cold_before` is given when there were no others: how many of the topic waited there when the database was
        asked, for those found since are still to come.
        """
        if self.strategy.uses_sql:
            self.cold[topic] += len(self.queues[topic])
            self.queues[topic].clear()
        # What was found, and committed, since the oids in memory were listed may come a second time.
        hot = {url.oid for queue in (self.queues, self._pool) if queue for url in queue[topic]}
        urls = [url for url in urls if url.oid not in hot]
        self.prioritise(urls)
        for rank, url in enumerate(urls):
            if self.strategy.uses_sql:
                url.priority = -float(rank)
            self._push(url)
        gone = len(urls) if cold_before is None else max(cold_before, len(urls))
        self.cold[topic] = max(0, self.cold[topic] - gone)
        if self.strategy.uses_sql:
            return
        self._floor[topic] = float("-inf") if cold_before is not None or not urls else urls[-1].priority

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
            self.cold[topic] = count
            self._floor[topic] = float("inf")

    def forget_cold(self, topic: int) -> None:
        """One URL of a topic no longer waits in the database."""
        self.cold[topic] -= 1

    def change_strategy(self, strategy: Strategy) -> None:
        """Order by another strategy from now on: all hot URLs go back to the database's order."""
        if self.strategy.learns:
            self.on_spill(list(self._hot.values()))
        for topic, queue in self.queues.items():
            self.cold[topic] += len(queue) + (len(self._pool[topic]) if self._pool else 0)
            queue.clear()
            self._floor[topic] = float("inf")
        self.strategy = strategy
        self._pool = {topic: TopicQueue(topic) for topic in self.queues} if strategy.batch else {}
        self._batch.clear()
        self._worst.clear()
        self._hot.clear()

    def take_back(self, oid: int) -> Waiting | None:
        """Take out a URL that waits for another try: its answer came by another way."""
        for index, (_, _, url) in enumerate(self._later):
            if url.oid == oid:
                del self._later[index]
                heapq.heapify(self._later)
                self._later_oids.discard(oid)
                return url
        return None

    def retry(self, url: Waiting, at_s: float) -> None:
        """Let a URL wait until `at_s`, then offer it again."""
        heapq.heappush(self._later, (at_s, url.oid, url))
        self._later_oids.add(url.oid)

    # -- leases go out

    def take(self, now_s: float, limit: int) -> list[Lease]:
        """The best URLs whose hosts may be asked now, at most `limit`; hosts met for the first time come first."""
        self._wake(now_s)
        self._start_batch()
        leases = self._take_ready(now_s, limit)
        while not leases and self._start_batch():  # the whole batch was refused: the next has its turn
            leases = self._take_ready(now_s, limit)
        return leases

    def _take_ready(self, now_s: float, limit: int) -> list[Lease]:
        leases: list[Lease] = []
        turns = deque(queue for queue in self._turns if len(queue))
        while turns and len(leases) < limit:
            queue = turns[0]
            lane = queue.best_ready()
            if lane is None:
                turns.popleft()
                continue
            lease = self._take_from(queue, lane, now_s)
            if lease is not None:
                leases.append(lease)
                turns.rotate(-1)
        self._turns.rotate(-len(leases))
        return leases

    def next_event_s(self) -> float | None:
        """When a host's or a URL's waiting time ends next; None when nothing waits for time."""
        times = [self._table.next_s(), self._later[0][0] if self._later else None]
        return min((time_s for time_s in times if time_s is not None), default=None)

    def _take_from(self, queue: TopicQueue, lane: Lane, now_s: float) -> Lease | None:
        host = lane.host
        if host.state is HostState.BAD:
            self._drop_lane(queue, lane, Outcome.BAD_HOST)
            return None
        if self._asks_too_much(host):
            self._drop_lane(queue, lane, Outcome.ROBOTS)
            return None
        if not self._table.may_ask(host, now_s):
            queue.park(lane)
            return None
        max_age_s = self.settings.robots.max_age_s
        if not host.met_s or (self.settings.robots.obey and host.met_s + max_age_s < now_s):
            queue.park(lane)
            host.meeting = True
            return self._lease(host, Lease(-1 - host.sid, f"{host.scheme}://{host.name}/robots.txt", LeaseKind.HOST))
        if host.errands:
            return self._lease(host, host.errands.popleft())
        max_pages = self.settings.limits.max_pages_per_host
        if max_pages and host.pages + host.queued_pages >= max_pages:
            if host.pages >= max_pages:
                self._drop_lane(queue, lane, Outcome.HOST_LIMIT)
            else:
                queue.park(lane)  # what is under way decides
            return None
        url = queue.pop(lane)
        url.dropped = True  # for the eviction heap
        self._hot.pop(url.oid, None)
        refusal = self._last_look(url)
        if refusal is not None:
            self.give_up(url, refusal)
            return None
        host.queued_pages += 1
        self.leased[url.oid] = url
        lease = Lease(
            url.oid, url.url, LeaseKind.PAGE, url.etag, url.last_modified, url.numtries + 1, url.anchor, url.neighbours
        )
        return self._lease(host, lease)

    def _asks_too_much(self, host: Host) -> bool:
        """Whether a host's robots.txt asks for a longer delay than we are ready to wait for."""
        fetching = self.settings.fetch
        return delay_s(host, fetching) > max(fetching.max_crawl_delay_s, fetching.host_delay_s)

    def _last_look(self, url: Waiting) -> Outcome | None:
        host = url.host
        if host.refusal is not None:
            return host.refusal
        if host.rules is not None and not host.rules.allows(url.url):
            return Outcome.ROBOTS
        return self.refuses(url)

    def give_up(self, url: Waiting, outcome: Outcome) -> None:
        """Drop a URL that is no longer in any queue, and tell the engine."""
        self._batch.discard(url.oid)
        self.on_drop(url, outcome)

    def _lease(self, host: Host, lease: Lease) -> Lease:
        self._table.begin(host)
        return lease

    # -- requests end

    def ended(self, lease: Lease, outcome: Outcome, now_s: float, retry_after_s: float = 0.0) -> Waiting | None:
        """A lease came back: free its host. Returns the URL of a page lease, None for a host or a sitemap."""
        url = self.leased.pop(lease.oid, None) if lease.kind is LeaseKind.PAGE else None
        host = url.host if url is not None else self.host(host_of(lease.url))
        if url is not None:
            host.queued_pages -= 1
            self._batch.discard(url.oid)
        if lease.kind is LeaseKind.HOST:
            host.meeting = False
        self._table.end(host, outcome, now_s, retry_after_s)
        return url

    def _wake(self, now_s: float) -> None:
        """Wake the hosts and URLs whose time has come."""
        self._table.wake(now_s)
        while self._later and self._later[0][0] <= now_s:
            url = heapq.heappop(self._later)[2]
            self._later_oids.discard(url.oid)
            self._push(url)

    # -- order

    def _home(self, topic: int) -> TopicQueue:
        """The queue in which a topic's URLs wait for their turn: the pool, when turns come in batches."""
        return self._pool[topic] if self._pool else self.queues[topic]

    def _push(self, url: Waiting) -> None:
        url.dropped = False
        self._home(url.topic).push(url)
        if self.strategy.learns:
            self._hot[url.oid] = url
        self._note_worst(url)

    def _note_worst(self, url: Waiting) -> None:
        if self.settings.frontier.max_waiting:
            heapq.heappush(self._worst, (url.priority, -url.oid, url))

    def _start_batch(self) -> bool:
        """When the last batch of a Best-N-First strategy is done, let the next N best take part, in random order.

        Whether there is a new batch.
        """
        if not self._pool or self._batch or any(len(queue) for queue in self.queues.values()):
            return False
        batch: list[Waiting] = []
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
            self._batch.add(url.oid)
            self.queues[url.topic].push(url, (float(place), url.oid, url))
        return bool(batch)

    def _spill(self, topic: int) -> None:
        keep = int(self.settings.frontier.hot_urls * SPILL_TO)
        home = self._home(topic)
        spilled = home.spill(keep)
        self.cold[topic] += len(spilled)
        if spilled:
            self._floor[topic] = max(self._floor[topic], spilled[0].priority)
        if self.strategy.learns:
            self.on_spill(spilled)
            for url in spilled:
                del self._hot[url.oid]

    def _evict(self) -> None:
        """Keep at most `max_waiting` URLs: the one with the least priority goes, for good."""
        while self.waiting > self.settings.frontier.max_waiting and self._worst:
            priority, _, url = heapq.heappop(self._worst)
            if not url.dropped and priority == url.priority and url.oid not in self._batch:
                self._home(url.topic).drop(url)
                self._hot.pop(url.oid, None)
                self.on_drop(url, Outcome.EVICTED)

    def _drop_lane(self, queue: TopicQueue, lane: Lane, outcome: Outcome) -> None:
        """Give up all URLs of a host that will not be asked again."""
        for url in list(lane):
            queue.drop(url)
            self._hot.pop(url.oid, None)
            self.give_up(url, outcome)
        lane.heap.clear()
        queue.make_ready(lane)
