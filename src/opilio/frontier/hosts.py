"""Hosts and their politeness: pure decisions about when a host may be fetched from next.

A host is a name with its port; http and https on it are two *origins*. Each origin has its own robots.txt, its own
failures and state. Politeness is the host's: it has one clock, one count of open requests and the longest delay that
one of its origins asks for, so that a site is not fetched from twice as fast because it has two origins.

A host is ready when it has a free place (`per_host`; one when a delay is set, so that the delay counts from the end of
one request to the start of the next), its registered domain has one (`per_domain`), and its next allowed time has come.
Every request counts, robots.txt and sitemaps included.

`HostTable` has all hosts of a crawl. It knows how busy they are, which are ready, and when to wake the others.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol

from opilio.frontier.filters import ScopeFilter, covering
from opilio.model import Lease, Outcome, Right, registered_domain
from opilio.model.url import host_name
from opilio.settings import FetchSettings


class HostState(StrEnum):
    """What the crawl thinks of an origin or of a host (BINGO 4.2), the best first."""

    OK = "ok"
    SLOW = "slow"
    BAD = "bad"


_BY_QUALITY = list(HostState)


class Rules(Protocol):
    """What an origin's robots.txt allows; the engine passes it in."""

    def allows(self, url: str) -> bool:
        """Whether the URL may be fetched."""
        ...


class Reservations(Rules, Protocol):
    """What an origin reserves in files; the engine passes it in."""

    def rights(self, url: str) -> list[Right]:
        """What the files say of a URL."""
        ...


class Parked(Protocol):
    """A lane of a queue that waits for its host."""

    def wake(self) -> None:
        """Go back to the queue: the host is ready."""
        ...


HOSTS_PER_RELEVANT, PAGES_PER_HOST, PAGES_PER_SITEMAP = 4, 4, 10
"""A domain may have 4 more hosts for each relevant page, one more for each 4 pages, and one more sitemap for each 10.
Pages alone must not pay for a host each: wildcard subdomains can give a page each without end."""
MIN_GRACE_S = 2.0
"""A domain that has used up its hosts gets so long, and 3 delays, to give pages that allow for more."""


class Domain:
    """A registered domain: the open requests to all its hosts together, and what it has given."""

    __slots__ = ("contacted_s", "hosts", "in_flight", "pages", "relevant", "sitemaps", "waiting")

    def __init__(self) -> None:
        self.in_flight = 0
        self.waiting: deque[Host] = deque()  # hosts that need nothing but a place in the domain
        self.hosts = 0  # contacted
        self.contacted_s = 0.0  # when the latest of them was
        self.sitemaps = 0  # requested
        self.pages = 0
        self.relevant = 0  # pages, as they were judged when they were fetched

    def has_room_for_host(self, limit: int) -> bool:
        """Whether another host may be contacted; `limit` is how many may be at first, 0: any number."""
        return not limit or self.hosts < limit + HOSTS_PER_RELEVANT * self.relevant + self.pages // PAGES_PER_HOST

    def has_room_for_sitemap(self, limit: int) -> bool:
        """Whether another sitemap may be read; `limit` is how many may be at first, 0: any number."""
        return not limit or self.sitemaps < limit + self.pages // PAGES_PER_SITEMAP


class Origin:
    """http or https on a host: what its robots.txt says, and whether it works. Changed only in the engine's loop."""

    __slots__ = (
        "contacted_s", "crawl_delay_s", "failures", "host", "in_first_contact", "pending_files", "problem", "rights",
        "robots_status", "rules", "scheme", "state",
    )  # fmt: skip

    def __init__(self, host: Host, scheme: str) -> None:
        self.host = host
        self.scheme = scheme
        self.state = HostState.OK  # `change` keeps the counts right
        self.failures = 0  # in a row
        self.problem: Outcome | None = None  # the outcome of the latest of them
        self.crawl_delay_s = 0.0
        self.robots_status = 0
        self.rules: Rules | None = None
        self.contacted_s = 0.0  # when robots.txt was last read; 0: never
        self.in_first_contact = False
        self.rights: Reservations | None = None
        self.pending_files: deque[Lease] = deque()  # sitemaps, and before them files in which it reserves rights

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host.name}"

    def rejection(self, url: str) -> Outcome | None:
        """Why the files of the origin forbid fetching one of its URLs; None when they do not."""
        if self.rules is not None and not self.rules.allows(url):
            return Outcome.ROBOTS
        if self.rights is not None and not self.rights.allows(url):
            return Outcome.RESERVED
        return None

    def change(self, state: HostState, failures: int, problem: Outcome | None) -> None:
        """Rate the origin."""
        with self.host.counted():
            self.state, self.failures, self.problem = state, failures, problem

    def give_up(self, problem: Outcome) -> None:
        """Fetch nothing more from it."""
        self.change(HostState.BAD, self.failures, problem)


class Host:
    """One host (name and port) and all the frontier knows about it. Changed only in the engine's loop."""

    __slots__ = (
        "boost", "bytes", "domain", "domain_name", "in_domain_queue", "in_flight", "in_timer", "ip", "is_contacted",
        "leased_pages", "missing", "name", "next_s", "origins", "pages", "parked", "rejection", "requests", "sid",
        "states",
    )  # fmt: skip

    def __init__(self, sid: int, name: str, domain: Domain, states: dict[HostState, int]) -> None:
        self.sid = sid
        self.name = name
        self.domain = domain
        self.domain_name = registered_domain(name)
        self.origins: dict[str, Origin] = {}  # by scheme
        self.states = states  # how many hosts are in each state
        self.ip = ""
        self.is_contacted = False  # counted among the hosts of its domain
        self.missing = ""  # a URL to request that should not exist: what does the host answer to it?
        self.pages = 0
        self.leased_pages = 0  # counted against the limit of pages per host
        self.requests = 0
        self.bytes = 0
        self.in_flight = 0
        self.next_s = 0.0
        self.rejection: Outcome | None = None  # why nothing may be fetched from this host
        self.boost = 1.0  # how much more the priorities of its URLs count
        self.parked: list[Parked] = []  # lanes that wait until the host is ready
        self.in_timer = False
        self.in_domain_queue = False  # whether it waits for a place in its domain
        states[self.state] += 1

    def origin(self, scheme: str) -> Origin:
        """The origin of that scheme, created when it is new."""
        origin = self.origins.get(scheme)
        if origin is None:
            with self.counted():
                origin = self.origins[scheme] = Origin(self, scheme)
        return origin

    def note_contact(self, now_s: float) -> None:
        """It is contacted: from now on it counts among the hosts of its domain."""
        if not self.is_contacted:
            self.is_contacted = True
            self.domain.hosts += 1
            self.domain.contacted_s = max(self.domain.contacted_s, now_s)

    def add_pages(self, pages: int, relevant: int) -> None:
        """Pages of it were stored, some of them relevant."""
        self.pages += pages
        self.domain.pages += pages
        self.domain.relevant += relevant

    @property
    def state(self) -> HostState:
        """That of its best origin: a host is bad when nothing can be fetched from it."""
        return min((origin.state for origin in self.origins.values()), key=_BY_QUALITY.index, default=HostState.OK)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Keep the counts by state right while an origin is changed."""
        self.states[self.state] -= 1
        yield
        self.states[self.state] += 1


def delay_s(host: Host, fetching: FetchSettings) -> float:
    """Seconds between two requests to `host`: our setting, or what a robots.txt of it demands when that is more."""
    return max(fetching.host_delay_s, *(origin.crawl_delay_s for origin in host.origins.values()), 0.0)


def bounded_delay_s(host: Host, fetching: FetchSettings) -> float:
    """The same, but no longer than we are ready to wait."""
    return min(delay_s(host, fetching), max(fetching.max_crawl_delay_s, fetching.host_delay_s))


def places(origin: Origin, fetching: FetchSettings) -> int:
    """Requests that may be open to the host of `origin`, at most, when one to `origin` follows."""
    if origin.state is HostState.SLOW or origin.in_first_contact or not origin.contacted_s:
        return 1
    return 1 if delay_s(origin.host, fetching) > 0 else fetching.per_host


def next_fetch_s(origin: Origin, ended_s: float, fetching: FetchSettings) -> float:
    """When the next request to a host may follow one to `origin` that ended at `ended_s`.

    Failures in a row double the delay.
    """
    wait_s = bounded_delay_s(origin.host, fetching)
    if origin.failures:
        wait_s = max(wait_s, min(fetching.backoff_s * 2 ** (origin.failures - 1), fetching.max_backoff_s))
    return ended_s + wait_s


def blame(origin: Origin, outcome: Outcome, fetching: FetchSettings, *, is_contact: bool = False) -> None:
    """Count an outcome for or against an origin: `slow` after a failure, `bad` after `host_tries` in a row.

    A first contact (`is_contact`) that does not tell the rules is a failure; one that no retry can mend ends it.
    """
    if outcome is Outcome.WORKER_LOST:  # which says nothing about the origin
        return
    if outcome.blames_host or (is_contact and not outcome.tells_rules):
        failures = origin.failures + 1
        is_bad = failures >= fetching.host_tries or not outcome.may_retry
        origin.change(HostState.BAD if is_bad else HostState.SLOW, failures, outcome)
    elif origin.failures and origin.state is not HostState.BAD:
        origin.change(HostState.OK, 0, None)


WAKE_HOSTS = 8  # hosts woken for one free place in their domain: a domain of 10,000 hosts must not wake them all


class HostTable:
    """Hosts by name and by number, their open requests, and the times at which they are ready again."""

    def __init__(self, fetching: FetchSettings, scope: ScopeFilter) -> None:
        self.hosts: list[Host] = []
        self.states = dict.fromkeys(HostState, 0)
        self.in_flight = 0
        self._fetching = fetching
        self._scope = scope
        self._by_name: dict[str, Host] = {}
        self._domains: dict[str, Domain] = {}
        self._timer: list[tuple[float, int, Host]] = []
        self.boosts: dict[str, float] = {}
        """Factors by which the priorities of hosts, and of all hosts below them, count for more."""

    def get(self, name: str) -> Host:
        """The host of that name, created when it is new."""
        host = self._by_name.get(name)
        if host is None:
            domain = self._domains.setdefault(registered_domain(name), Domain())
            host = self._by_name[name] = Host(len(self.hosts), name, domain, self.states)
            host.rejection = self._scope.rejection(name)
            host.boost = self._boost_of(host)
            self.hosts.append(host)
        return host

    def lock(self, domains: Iterable[str], urls: Iterable[str]) -> tuple[list[Host], list[Host]]:
        """Lock these domains and URLs and no others.

        Returns the hosts that are locked now, and those of which more may be fetched than before.
        """
        urls_before = self._scope.locked_urls
        self._scope.lock(domains, urls)
        closed, opened = [], []
        for host in self.hosts:
            before, host.rejection = host.rejection, self._scope.rejection(host.name)
            if host.rejection is before:
                if before is None and {*urls_before.get(host.name, ())} - {*self.locked_urls.get(host.name, ())}:
                    opened.append(host)
            elif host.rejection is Outcome.LOCKED:
                for origin in host.origins.values():
                    origin.pending_files.clear()
                closed.append(host)
            elif host.rejection is None:
                opened.append(host)
        return closed, opened

    @property
    def locked_urls(self) -> Mapping[str, tuple[str, ...]]:
        """By host: beginnings of URLs that are locked."""
        return self._scope.locked_urls

    def is_locked(self, url: str) -> bool:
        """Whether a URL begins as one that is locked."""
        return self._scope.is_locked(url)

    def boost(self, name: str, factor: float) -> list[Host]:
        """Raise the priorities of a host and of all below it; 1 undoes that. Returns the known hosts among them."""
        self.boosts.pop(name, None)
        if factor != 1.0:
            self.boosts[name] = factor
        touched = [host for host in self.hosts if covering(host_name(host.name), {name})]
        for host in touched:
            host.boost = self._boost_of(host)
        return touched

    def _boost_of(self, host: Host) -> float:
        return self.boosts.get(covering(host_name(host.name), self.boosts), 1.0) if self.boosts else 1.0

    def is_ready(self, origin: Origin, now_s: float) -> bool:
        """Whether a request to `origin` may be sent now; if not, its host is woken when it may."""
        host = origin.host
        if host.in_flight >= places(origin, self._fetching):
            return False  # woken when its request ends
        if host.next_s > now_s:
            self._wake_at(host, host.next_s)
            return False
        if host.domain.in_flight >= self._fetching.per_domain:
            if not host.in_domain_queue:
                host.in_domain_queue = True
                host.domain.waiting.append(host)
            return False
        return True

    def waits_for_domain(self, host: Host, now_s: float) -> bool:
        """Whether a host for which its domain has no room may wait for pages of the others; it is woken then."""
        end_s = host.domain.contacted_s + MIN_GRACE_S + 3 * delay_s(host, self._fetching)
        if now_s < end_s:
            self._wake_at(host, end_s)
        return now_s < end_s

    def _wake_at(self, host: Host, at_s: float) -> None:
        if not host.in_timer:
            host.in_timer = True
            heapq.heappush(self._timer, (at_s, host.sid, host))

    def begin(self, host: Host) -> None:
        """A request to a host goes out."""
        host.in_flight += 1
        host.requests += 1
        host.domain.in_flight += 1
        self.in_flight += 1

    def end(self, origin: Origin, now_s: float, retry_after_s: float = 0.0) -> None:
        """A request to an origin ended, and the origin was rated: set the clock, and wake what waited for the place."""
        host = origin.host
        host.in_flight -= 1
        host.domain.in_flight -= 1
        self.in_flight -= 1
        host.next_s = max(host.next_s, next_fetch_s(origin, now_s, self._fetching))
        if retry_after_s:
            host.next_s = max(host.next_s, now_s + min(retry_after_s, self._fetching.max_backoff_s))
        _wake_lanes(host)
        self._wake_domain(host.domain)

    def wake(self, now_s: float) -> None:
        """Wake the hosts whose time has come."""
        while self._timer and self._timer[0][0] <= now_s:
            host = heapq.heappop(self._timer)[2]
            host.in_timer = False
            _wake_lanes(host)

    def next_s(self) -> float | None:
        """When the next host has to be woken."""
        return self._timer[0][0] if self._timer else None

    def _wake_domain(self, domain: Domain) -> None:
        """Wake some hosts that wait for a place in their domain; all of them when no request to it is open."""
        count = WAKE_HOSTS if domain.in_flight else len(domain.waiting)
        for _ in range(min(count, len(domain.waiting))):
            host = domain.waiting.popleft()
            host.in_domain_queue = False
            _wake_lanes(host)


def _wake_lanes(host: Host) -> None:
    parked, host.parked = host.parked, []
    for lane in parked:
        lane.wake()
