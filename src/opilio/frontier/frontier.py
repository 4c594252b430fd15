"""The frontier: offered links in, leases out; scores and politeness together."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from opilio.frontier.arrays import RecentKeys
from opilio.frontier.filters import ScopeFilter, TrapGuard
from opilio.frontier.hosts import Host, HostState, HostTable, delay_s
from opilio.frontier.queue import Lane, QueuedUrl, TopicQueue
from opilio.frontier.strategies import Strategy
from opilio.frontier.tiers import Drop, Levels
from opilio.model import Lease, LeaseKind, Outcome, host_of
from opilio.settings import Settings

LEAST_MOVE = 0.02
"""A URL is not moved for a smaller change of its priority, as a share of it: that would seldom change its turn."""


class Frontier(Levels):
    """Known URLs, hosts and hot queues. Knows no network, no database and no clock: time is an argument."""

    def __init__(
        self, settings: Settings, strategy: Strategy, scope: ScopeFilter, on_drop: Drop, topics: Iterable[int] = (0,)
    ) -> None:
        super().__init__(settings, strategy, on_drop, topics)
        self._table = HostTable(settings.fetch, scope)
        self.hosts = self._table.hosts
        self.host_states = self._table.states
        self.boosts = self._table.boosts
        self.known = RecentKeys()
        self.refuses: Callable[[QueuedUrl], Outcome | None] = lambda url: None
        """A last look before a URL is leased (duplicates); set by the engine."""
        self.traps = TrapGuard(settings.traps)
        self._random = random.Random(settings.run.seed)

    def host(self, name: str, scheme: str = "http") -> Host:
        """The host of that name, made when it is new."""
        return self._table.get(name, scheme)

    @property
    def in_flight(self) -> int:
        """Requests under way, of all kinds."""
        return self._table.in_flight

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

    def weigh(self, new: Sequence[QueuedUrl], linked: Iterable[int]) -> None:
        """Pages were shown to a strategy that learns: `new` URLs get priorities, others that are `linked` move."""
        hot = self._hot
        others = [hot[oid] for oid in self.strategy.to_weigh(linked) if oid in hot]
        priorities = self.strategy.priorities([*new, *others])
        for url, priority in zip(new, priorities, strict=False):
            url.priority = priority
        for url, priority in zip(others, priorities[len(new) :], strict=True):
            if abs(priority - url.priority) > LEAST_MOVE * abs(url.priority):
                self._home(url.topic).move(url, priority)
                self._note_worst(url)

    def look_anew(self) -> None:
        """Let the strategy look at all waiting URLs again, when it wants to."""
        if not (self.strategy.learns and self.strategy.is_due()):
            return
        urls = list(self._hot.values())
        by_topic: dict[int, tuple[list[QueuedUrl], list[float]]] = {topic: ([], []) for topic in self.queues}
        for url, priority in zip(urls, self.strategy.look_anew(urls), strict=True):
            of_topic, priorities = by_topic[url.topic]
            of_topic.append(url)
            priorities.append(priority)
        for topic, (of_topic, priorities) in by_topic.items():
            self._home(topic).reorder(of_topic, priorities)

    def take_back(self, oid: int) -> QueuedUrl | None:
        """Take out a URL that waits for another try: its answer came by another way."""
        for index, (_, _, url) in enumerate(self._later):
            if url.oid == oid:
                del self._later[index]
                heapq.heapify(self._later)
                self._later_oids.discard(oid)
                return url
        return None

    def retry(self, url: QueuedUrl, at_s: float) -> None:
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
        if host.refusal is not None:
            self._drop_lane(queue, lane, host.refusal)
            return None
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

    def _last_look(self, url: QueuedUrl) -> Outcome | None:
        host = url.host
        if host.refusal is not None:
            return host.refusal
        if host.rules is not None and not host.rules.allows(url.url):
            return Outcome.ROBOTS
        return self.refuses(url)

    def give_up(self, url: QueuedUrl, outcome: Outcome) -> None:
        """Drop a URL that is no longer in any queue, and tell the engine."""
        self._batch.discard(url.oid)
        self.on_drop(url, outcome)

    def _lease(self, host: Host, lease: Lease) -> Lease:
        self._table.begin(host)
        return lease

    # -- requests end

    def ended(self, lease: Lease, outcome: Outcome, now_s: float, retry_after_s: float = 0.0) -> QueuedUrl | None:
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

    # -- the user steers

    def lock(self, domains: Iterable[str]) -> tuple[list[Host], list[Host]]:
        """Lock these domains and no others: hosts now locked, whose URLs in memory are dropped, and hosts now free."""
        closed, opened = self._table.lock(domains)
        for host in closed:
            for queue in (*self.queues.values(), *self._pool.values()):
                if host.sid in queue.lanes:
                    self._drop_lane(queue, queue.lanes[host.sid], Outcome.LOCKED)
        sids = {host.sid for host in closed}
        for url in [url for _, _, url in self._later if url.host.sid in sids]:
            self.take_back(url.oid)
            self.give_up(url, Outcome.LOCKED)
        return closed, opened

    def boost(self, name: str, factor: float) -> list[Host]:
        """Let a host, and all below it, have their turn sooner: all that waits is ordered anew."""
        touched = self._table.boost(name, factor)
        self._order_anew()
        return touched

    def take_up(self, topics: Iterable[int]) -> None:
        """URLs of these topics, one for each, wait in the database that did not before: all is ordered anew."""
        for topic in topics:
            if topic in self.queues:
                self.cold[topic] += 1
        self._order_anew()

    def _order_anew(self) -> None:
        if self.waiting and not self.holds_back:  # else what is in memory is all that should be fetched for now
            self.change_strategy(self.strategy)

    # -- order

    def _start_batch(self) -> bool:
        """When the last batch of a Best-N-First strategy is done, let the next N best take part, in random order.

        Whether there is a new batch.
        """
        if not self._pool or self._batch or any(len(queue) for queue in self.queues.values()):
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
            self._batch.add(url.oid)
            self.queues[url.topic].push(url, (float(place), url.oid, url))
        return bool(batch)

    def _drop_lane(self, queue: TopicQueue, lane: Lane, outcome: Outcome) -> None:
        """Give up all URLs of a host that will not be asked again."""
        for url in list(lane):
            queue.drop(url)
            self._hot.pop(url.oid, None)
            self.give_up(url, outcome)
        lane.heap.clear()
        queue.make_ready(lane)
