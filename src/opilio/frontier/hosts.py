"""Hosts and their politeness clocks: pure decisions about when a host may be asked next.

A host may be asked when it is not bad, has a free place (`per_host`; one when a delay is set, so that the delay counts
from the end of one request to the start of the next), its registered domain has one (`per_domain`), and its time has
come. Every request counts, robots.txt and sitemaps included.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Protocol

from opilio.model import Lease, Outcome, registered_domain
from opilio.settings import Fetching


class HostState(StrEnum):
    """What the crawl thinks of a host (BINGO 4.2)."""

    OK = "ok"
    SLOW = "slow"
    BAD = "bad"


class Rules(Protocol):
    """What a host's robots.txt allows; the engine hands it in."""

    def allows(self, url: str) -> bool:
        """Whether the URL may be asked for."""
        ...


class Parked(Protocol):
    """A lane of a queue that waits for its host."""

    def wake(self) -> None:
        """Go back to the queue: the host may be asked."""
        ...


class Domain:
    """A registered domain: the requests open to all its hosts together."""

    __slots__ = ("in_flight", "waiting")

    def __init__(self) -> None:
        self.in_flight = 0
        self.waiting: deque[Host] = deque()  # hosts that only lack a place in the domain


class Host:
    """One host (name and port) and all the frontier knows about it. Changed by the frontier only."""

    __slots__ = (
        "boost", "bytes", "crawl_delay_s", "domain", "domain_name", "errands", "failures", "in_domain_queue",
        "in_flight", "in_timer", "ip", "meeting", "met_s", "name", "next_s", "pages", "parked", "queued_pages",
        "refusal", "requests", "robots_status", "rules", "scheme", "sid", "state",
    )  # fmt: skip

    def __init__(self, sid: int, name: str, scheme: str, domain: Domain) -> None:
        self.sid = sid
        self.name = name
        self.scheme = scheme
        self.domain = domain
        self.domain_name = registered_domain(name)
        self.ip = ""
        self.state = HostState.OK
        self.failures = 0  # in a row
        self.pages = 0
        self.queued_pages = 0  # leased now, counted against the limit of pages per host
        self.requests = 0
        self.bytes = 0
        self.in_flight = 0
        self.next_s = 0.0
        self.crawl_delay_s = 0.0
        self.robots_status = 0
        self.rules: Rules | None = None
        self.met_s = 0.0  # when robots.txt was read; 0: never
        self.meeting = False
        self.refusal: Outcome | None = None  # why nothing of this host may be asked
        self.boost = 1.0  # how much sooner its URLs have their turn than their priorities say
        self.errands: deque[Lease] = deque()  # sitemaps
        self.parked: list[Parked] = []  # lanes that wait until the host may be asked
        self.in_timer = False
        self.in_domain_queue = False  # whether it waits for a place in its domain


def delay_s(host: Host, fetching: Fetching) -> float:
    """Seconds between two requests to `host`: what we set, or what its robots.txt asks for when that is more."""
    return max(fetching.host_delay_s, host.crawl_delay_s)


def places(host: Host, fetching: Fetching) -> int:
    """Requests that may be open to `host` at once."""
    if delay_s(host, fetching) > 0 or host.state is HostState.SLOW or host.meeting or not host.met_s:
        return 1
    return fetching.per_host


def next_fetch_s(host: Host, ended_s: float, fetching: Fetching) -> float:
    """When a host whose request ended at `ended_s` may be asked again. Failures in a row double the wait."""
    wait_s = min(delay_s(host, fetching), max(fetching.max_crawl_delay_s, fetching.host_delay_s))
    if host.failures:
        wait_s = max(wait_s, min(fetching.backoff_s * 2 ** (host.failures - 1), fetching.max_backoff_s))
    return ended_s + wait_s


def blame(host: Host, outcome: Outcome, fetching: Fetching) -> None:
    """Count an outcome for or against the host: `slow` after a failure, `bad` after `host_tries` in a row."""
    if outcome is Outcome.WORKER_LOST:  # that says nothing of the host
        return
    if outcome.blames_host:
        host.failures += 1
        host.state = HostState.BAD if host.failures >= fetching.host_tries else HostState.SLOW
    elif host.state is not HostState.BAD:
        host.failures = 0
        host.state = HostState.OK
