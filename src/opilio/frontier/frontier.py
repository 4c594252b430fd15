"""The frontier: offered links in, leases out; priorities and politeness together."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np

from opilio.frontier.arrays import RecentKeys
from opilio.frontier.filters import RepeatGuard, ScopeFilter, TrapGuard
from opilio.frontier.hosts import Host, HostState, HostTable, Origin, blame, bounded_delay_s, delay_s
from opilio.frontier.queue import Lane, QueuedUrl, TopicQueue
from opilio.frontier.strategies import LearningStrategy, Strategy
from opilio.frontier.tiers import FrontierListener, NoListener, Tiers
from opilio.model import Lease, LeaseKind, Outcome, host_of
from opilio.model.url import scheme_of
from opilio.settings import Settings

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

    Oids: TypeAlias = npt.NDArray[np.int64]

MISSING_OID = -(2**42)  # leases of URLs that should not exist have oids below this


class Frontier:
    """Known URLs, hosts and queues. Knows no network, no database and no clock: time is an argument.

    `tiers` has the queued URLs; this class knows the hosts, and which URLs are leased.
    """

    def __init__(
        self,
        settings: Settings,
        strategy: Strategy,
        scope: ScopeFilter,
        listener: FrontierListener | None = None,
        topics: Iterable[int] = (0,),
    ) -> None:
        self.settings = settings
        self._listener = listener or NoListener()
        self.tiers = Tiers(settings, strategy, self._listener, topics)
        self._turns = deque(self.tiers.queues.values())
        self._table = HostTable(settings.fetch, scope)
        self.hosts = self._table.hosts
        self.host_states = self._table.states
        self.boosts = self._table.boosts
        self.leased: dict[int, QueuedUrl] = {}
        self.known = RecentKeys()
        """The oid of every URL that was ever found, by its key."""
        self.traps = TrapGuard(settings.traps)
        self.repeats = RepeatGuard(settings.traps)

    def host(self, name: str) -> Host:
        """The host of that name, created when it is new."""
        return self._table.get(name)

    def origin(self, url: str) -> Origin:
        """The origin of a URL, created when it is new."""
        return self._table.get(host_of(url)).origin(scheme_of(url))

    @property
    def in_flight(self) -> int:
        """Requests under way, of all kinds."""
        return self._table.in_flight

    @property
    def hot(self) -> int:
        """Queued URLs in memory."""
        return self.tiers.hot

    @property
    def waiting(self) -> int:
        """All queued URLs."""
        return self.tiers.waiting

    def is_taken(self, oid: int) -> bool:
        """Whether a URL is leased, or waits for another try."""
        return oid in self.leased or oid in self.tiers.retries.oids

    def oids_in_memory(self) -> Oids:
        """The oids that a refill must leave out: those in memory. A strategy that only the database can compute is an
        exception: its hot URLs are queried again with each refill, and take their new places."""
        oids = [*self.tiers.retries.oids, *self.leased]
        if not self.tiers.in_database:
            oids += self.tiers.hot_oids
        return np.array(oids, dtype=np.int64)

    # -- the order

    @property
    def strategy(self) -> Strategy:
        """The order in force."""
        return self.tiers.strategy

    @property
    def learner(self) -> LearningStrategy | None:
        """The order in force, when it learns."""
        return self.tiers.learner

    def change_strategy(self, strategy: Strategy) -> None:
        """Order by another strategy from now on."""
        self.tiers.change_strategy(strategy)

    # -- URLs come in

    def screen(self, url: str, depth: int, *, counts: bool = True) -> tuple[Host, Outcome | None]:
        """The host of a new URL, and why the URL is rejected; None when it may be queued.

        Unless it `counts`, it leaves the room for others that limits of traps give.
        """
        origin = self.origin(url)
        host = origin.host
        rejection = host.rejection or (Outcome.LOCKED if self._table.is_locked(url) else None)
        rejection = rejection or self.traps.rejection(url, host.sid, host.pages, counts=counts)
        if rejection is None:
            max_depth = self.settings.limits.max_depth
            if max_depth and depth > max_depth:
                return host, Outcome.TOO_DEEP
            if origin.state is HostState.BAD:
                return host, origin.problem
        return host, rejection

    def add_topic(self, topic: int) -> None:
        """Give a new topic its queue."""
        if topic not in self.tiers.queues:
            self.tiers.add_topic(topic)
            self._turns.append(self.tiers.queues[topic])

    def retry(self, url: QueuedUrl, at_s: float) -> None:
        """Queue a URL again at `at_s`."""
        self.tiers.retries.add(url, at_s)

    def warm(self, urls: Iterable[QueuedUrl]) -> None:
        """Bring some cold URLs into memory: they are about to rise. Those in memory already are left alone."""
        self.tiers.warm([url for url in urls if url.oid not in self.leased])

    # -- leases go out

    def take(self, now_s: float, limit: int) -> list[Lease]:
        """Lease the best URLs whose hosts are ready, at most `limit`; a new host's robots.txt comes first."""
        self._table.wake(now_s)
        for url in self.tiers.retries.pop_due(now_s):
            self.tiers.push(url)
        self.tiers.start_batch()
        leases = self._take_ready(now_s, limit)
        while not leases and self.tiers.start_batch():  # the whole batch was rejected: the next has its turn
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

    def request(self, lease: Lease, now_s: float) -> Lease | Outcome | None:
        """Request something that is no URL of the crawl, with the politeness of every request.

        Returns the lease, or that of the host's robots.txt, which comes first; why it may not be requested; or None
        when the host is not ready.
        """
        origin = self.origin(lease.url)
        closed = self._closed(origin)
        if closed is not None:
            return closed
        if self._table.is_locked(lease.url):
            return Outcome.LOCKED
        if (forbidden := origin.rejection(lease.url)) is not None:
            return forbidden
        if not origin.host.is_contacted and not self._has_room(origin.host):
            return Outcome.DOMAIN_LIMIT
        if not self._table.is_ready(origin, now_s):
            return None
        if self._must_contact(origin, now_s):
            return self.lease_contact(origin, now_s)
        return self._lease(origin.host, lease)

    def _has_room(self, host: Host) -> bool:
        """Whether the domain of a host that was never contacted may have another host."""
        return host.domain.has_room_for_host(self.settings.limits.max_hosts_per_domain)

    def has_queued(self, host: Host) -> bool:
        """Whether URLs of a host are queued in memory."""
        lanes = (queue.lanes.get(origin) for queue in self._turns for origin in host.origins.values())
        return any(lane.heap for lane in lanes if lane is not None)

    def _must_contact(self, origin: Origin, now_s: float) -> bool:
        """Whether an origin's robots.txt is to be read first: it never was, or too long ago."""
        max_age_s = self.settings.robots.max_age_s
        return not origin.contacted_s or (self.settings.robots.obey and origin.contacted_s + max_age_s < now_s)

    def next_event_s(self) -> float | None:
        """When a host is ready again or a URL is due for another try; None when nothing waits for time."""
        times = (self._table.next_s(), self.tiers.retries.next_s())
        return min((time_s for time_s in times if time_s is not None), default=None)

    def _take_from(self, queue: TopicQueue, lane: Lane, now_s: float) -> Lease | None:
        origin, host, tiers = lane.origin, lane.origin.host, self.tiers
        closed = self._closed(origin)
        if closed is not None:
            tiers.drop_lane(queue, lane, closed)
            return None
        if not self._table.is_ready(origin, now_s):
            queue.park(lane)
            return None
        if not host.is_contacted and not self._has_room(host) and all(url.depth for url in lane):
            if self._table.waits_for_domain(host, now_s):
                queue.park(lane)
            else:
                tiers.drop_lane(queue, lane, Outcome.DOMAIN_LIMIT)
            return None
        if self._must_contact(origin, now_s):
            queue.park(lane)
            return self.lease_contact(origin, now_s)
        if origin.pending_files and self._may_lease_file(origin.pending_files[0], host):
            return self.lease_file(origin, origin.pending_files[0])
        if host.missing and origin.scheme == scheme_of(host.missing):
            return self.lease_missing(origin)
        return self._take_page(queue, lane)

    def _closed(self, origin: Origin) -> Outcome | None:
        """Why nothing may be fetched from an origin; None when it may."""
        if origin.host.rejection is not None:
            return origin.host.rejection
        if origin.state is HostState.BAD and origin.problem is not None:
            return origin.problem
        return Outcome.ROBOTS if self._wants_too_long_a_delay(origin) else None

    def _may_lease_file(self, lease: Lease, host: Host) -> bool:
        max_sitemaps = self.settings.robots.max_sitemaps
        return lease.kind is not LeaseKind.SITEMAP or host.domain.has_room_for_sitemap(max_sitemaps)

    def _take_page(self, queue: TopicQueue, lane: Lane) -> Lease | None:
        """Lease the best URL of a lane whose host is ready, unless something rejects it."""
        origin, host, tiers = lane.origin, lane.origin.host, self.tiers
        max_pages = self.settings.limits.max_pages_per_host
        if max_pages and host.pages + host.leased_pages >= max_pages:
            if host.pages >= max_pages:
                tiers.drop_lane(queue, lane, Outcome.HOST_LIMIT)
            else:
                queue.park(lane)  # the requests under way decide
            return None
        url = tiers.pop(queue, lane)
        if self._table.is_locked(url.url):
            tiers.drop(url, Outcome.LOCKED)
            return None
        if (forbidden := origin.rejection(url.url)) is not None:
            tiers.drop(url, forbidden)
            return None
        if url.depth and not url.stored_s and self.repeats.rejects(url.url, host.sid):
            tiers.drop(url, Outcome.REPETITIVE)
            return None
        found = self._listener.duplicate(url)
        if found is not None:
            outcome, twin = found
            tiers.hand_over(url, twin)
            tiers.drop(url, outcome)
            return None
        return self.lease_page(url)

    def lease_page(self, url: QueuedUrl) -> Lease:
        """Lease a URL that is in no queue."""
        url.host.leased_pages += 1
        self.leased[url.oid] = url
        self._listener.leased(url)
        lease = Lease(
            url.oid, url.url, LeaseKind.PAGE, url.etag, url.last_modified, url.numtries + 1, url.anchor, url.neighbours,
            url.stored_s,
        )  # fmt: skip
        return self._lease(url.host, lease)

    def lease_contact(self, origin: Origin, now_s: float) -> Lease:
        """Lease the robots.txt of an origin."""
        origin.in_first_contact = True
        origin.host.note_contact(now_s)
        return self._lease(origin.host, Lease.first_contact(origin.host.sid, origin.scheme, origin.host.name))

    def lease_file(self, origin: Origin, lease: Lease) -> Lease:
        """Lease one of the pending files of an origin. No page is fetched before its files of rights are read."""
        origin.pending_files.remove(lease)
        origin.in_first_contact = lease.kind is LeaseKind.RIGHTS
        if lease.kind is LeaseKind.SITEMAP:
            origin.host.domain.sitemaps += 1
        return self._lease(origin.host, lease)

    def lease_missing(self, origin: Origin) -> Lease:
        """Lease the URL of a host that should not exist."""
        lease = Lease(MISSING_OID - origin.host.sid, origin.host.missing, LeaseKind.MISSING)
        origin.host.missing = ""
        return self._lease(origin.host, lease)

    def _wants_too_long_a_delay(self, origin: Origin) -> bool:
        """Whether an origin's robots.txt demands a longer delay than we are ready to wait for."""
        fetching = self.settings.fetch
        return origin.crawl_delay_s > max(fetching.max_crawl_delay_s, fetching.host_delay_s)

    def _lease(self, host: Host, lease: Lease) -> Lease:
        self._table.begin(host)
        return msgspec.structs.replace(lease, delay_s=bounded_delay_s(host, self.settings.fetch))

    def probe(self, origin: Origin, oid: int, now_s: float, held: int = 0, held_s: float = 0.0) -> Lease | None:
        """The lease that finds out whether an origin answers; None when it may not be asked now.

        `held` requests to its host have failed, the last at `held_s`, and were not reported by `ended` so far.
        """
        host = origin.host
        free_s = max(host.next_s, held_s + delay_s(host, self.settings.fetch) if held else 0.0)
        if host.rejection is not None or host.in_flight > held or now_s < free_s:
            return None
        return self._lease(host, Lease(oid, f"{origin}/robots.txt", LeaseKind.PROBE))

    # -- requests end

    def ended(self, lease: Lease, outcome: Outcome, now_s: float, retry_after_s: float = 0.0) -> QueuedUrl | None:
        """A lease came back: rate its origin and free its host. Returns the URL of a page lease, else None."""
        url, origin = self._returned(lease)
        blame(origin, outcome, self.settings.fetch, is_contact=lease.kind is LeaseKind.HOST)
        self._table.end(origin, now_s, retry_after_s)
        return url

    def charge(self, name: str, requests: int, now_s: float, retry_after_s: float = 0.0) -> Host:
        """Requests were made to a host that no lease was for: it rests for as many delays. Returns the host."""
        host, fetching = self._table.get(name), self.settings.fetch
        host.requests += requests
        host.next_s = max(host.next_s, now_s) + requests * delay_s(host, fetching)
        host.next_s = max(host.next_s, now_s + min(retry_after_s, fetching.max_backoff_s))
        return host

    def put_back(self, lease: Lease, now_s: float) -> QueuedUrl | None:
        """A lease came back that says nothing about its host: what it was for, unless it was a probe, is queued again.

        Returns the URL of a page lease, else None.
        """
        url, origin = self._returned(lease)
        self._table.end(origin, now_s)
        if url is not None:
            self.tiers.push(url)
        elif lease.kind in (LeaseKind.SITEMAP, LeaseKind.RIGHTS):
            origin.pending_files.appendleft(lease)
            origin.host.domain.sitemaps -= lease.kind is LeaseKind.SITEMAP
        elif lease.kind is LeaseKind.MISSING:
            origin.host.missing = lease.url
        return url

    def _returned(self, lease: Lease) -> tuple[QueuedUrl | None, Origin]:
        url = self.leased.pop(lease.oid, None) if lease.kind is LeaseKind.PAGE else None
        origin = url.origin if url is not None else self.origin(lease.url)
        if url is not None:
            origin.host.leased_pages -= 1
            self.tiers.batch.discard(url.oid)
        if lease.kind in (LeaseKind.HOST, LeaseKind.RIGHTS):
            origin.in_first_contact = False
        return url, origin

    # -- the user steers

    def lock(self, domains: Iterable[str], urls: Iterable[str] = ()) -> tuple[list[Host], list[Host]]:
        """Lock these domains and URLs that begin so, and no others; URLs in memory that are locked now are dropped.

        Returns the hosts that are locked now, and those of which more may be fetched than before.
        """
        closed, opened = self._table.lock(domains, urls)
        for host in closed:
            self.tiers.drop_host(host, Outcome.LOCKED)
        is_locked = self._table.is_locked
        for host in [host for host in self.hosts if host.name in self._table.locked_urls]:
            self.tiers.drop_some(host, Outcome.LOCKED, is_locked)
        sids = {host.sid for host in closed}
        for url in [url for url in self.tiers.retries.urls if url.host.sid in sids or is_locked(url.url)]:
            self.tiers.retries.remove(url.oid)
            self.tiers.drop(url, Outcome.LOCKED)
        return closed, opened

    def boost(self, name: str, factor: float) -> list[Host]:
        """Let a host, and all below it, have their turn sooner: all queued URLs are reordered."""
        touched = self._table.boost(name, factor)
        self._reorder()
        return touched

    def requeue(self, topics: Iterable[int]) -> None:
        """URLs are queued in the database again; `topics` has the topic of each. All queued URLs are reordered."""
        for topic in topics:
            if topic in self.tiers.queues:
                self.tiers.cold[topic] += 1
        self._reorder()

    def _reorder(self) -> None:
        if self.waiting and not self.tiers.holds_back:  # else the URLs in memory are all that should be fetched for now
            self.change_strategy(self.strategy)
