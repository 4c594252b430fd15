"""Outages: when no host answers any more, it is our network that is down, and no host is to blame.

A request that gets no answer says little by itself: the host may be dead, or the network. So such a visit is *held*
until something explains it:

- A host answers a later request: the network works, and the visit is absorbed like any other. In a crawl of many hosts
  that takes a moment. A name that could not be resolved is explained only by the answer to a request that had to
  resolve a name: known addresses answer for a while when name servers are down.
- No host answers for `QUIET_S`: hosts that answered before are probed, with their names looked up again. If one
  answers, the network works. If none does, there is an outage: the crawl pauses with a notice, all that was held goes
  back to the queue, and the probes go on until one is answered or `fetch.outage_timeout_s` is over.
- No host has ever answered, as at the start of a crawl: then the failing hosts themselves are probed, when there are at
  least `MIN_HOSTS` of them. Fewer can be dead together.

`OutageDetector` decides, without I/O: time is an argument. `OutageWatch` is the background task that sends the probes
and pauses the crawl. Probes are polite: they keep the delay of their host and count as requests to it.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from opilio.crawl.absorb import Absorber
from opilio.crawl.background import BackgroundTask
from opilio.crawl.worker_pool import Workers
from opilio.model import Fetch, Lease, LeaseKind, Outcome, Visit, host_of
from opilio.model.url import origin_of
from opilio.settings import Settings

QUIET_S = 2.0
"""A failure that no answer has explained for so long is looked into."""
MIN_HOSTS = 3
"""So many hosts must fail before any has answered: fewer may be misspelt or dead."""
MAX_PROBES = 3
"""Hosts that are probed at a time."""
REMEMBERED = 16
"""Origins that answered last, which are probed."""
FIRST_WAIT_S, MAX_WAIT_S = 1.0, 30.0
"""Between two rounds of probes in an outage: it doubles from the first to the longest."""
PROBE_OID = -(2**41)
"""Leases of probes have oids below this."""
START_TIMEOUT_S = 15.0
"""The longest wait when no host has ever answered: the addresses may be wrong, and somebody looks on."""
NOTICE = "network"

_SILENT = frozenset({Outcome.DNS_FAILED, Outcome.CONNECT_FAILED, Outcome.TIMED_OUT, Outcome.BROKEN, Outcome.TLS_FAILED})


def is_answer(fetch: Fetch) -> bool:
    """Whether a host answered a request, with whatever status."""
    return fetch.status > 0 or fetch.outcome is Outcome.OK


def is_silence(fetch: Fetch) -> bool:
    """Whether a request got no answer, which a network that is down would explain."""
    return fetch.status == 0 and fetch.outcome in _SILENT


class HeldVisit(NamedTuple):
    """A visit that got no answer, and when it came back."""

    visit: Visit
    came_s: float


class SortedVisits(NamedTuple):
    """What becomes of visits that came back."""

    absorbed: list[Visit]
    """To be absorbed: answers, and failures that are the fault of their hosts."""
    put_back: list[Visit]
    """To be queued again: nobody's fault but the network's."""


@dataclass
class ProbeRound:
    """Some probes that were sent together."""

    sent_s: float = 0.0
    is_answered: bool = False
    has_unresolved: bool = False
    """The name of a host could not be resolved."""
    _page_came: bool = False

    def note_answer(self, sent_s: float) -> None:
        """A request that is no probe was answered; it was sent at `sent_s`."""
        self._page_came |= sent_s >= self.sent_s

    @property
    def shows_network(self) -> bool:
        """Whether the network works: a probe was answered, or, where names are no problem, anything else was."""
        return self.is_answered or (self._page_came and not self.has_unresolved)


class OutageDetector:
    """Tells hosts that fail from a network that is down."""

    def __init__(self, answered: Iterable[str] = ()) -> None:
        """`answered` are origins that have answered in earlier runs, the latest last."""
        self._answered = dict.fromkeys(answered)  # in the order of their last answers
        self._silent: dict[str, str] = {}  # hosts without an answer since the last answer, and the origin of each
        self.held: list[HeldVisit] = []
        self.down_s: float | None = None
        """Since when the network is down; None: it is not."""
        self._probing: set[int] = set()
        self._round = ProbeRound()
        self._next_s = 0.0
        self._wait_s = FIRST_WAIT_S

    @property
    def is_down(self) -> bool:
        """Whether there is an outage."""
        return self.down_s is not None

    def sort(self, visits: Iterable[Visit], now_s: float) -> SortedVisits:
        """Take visits that came back, in their order, and tell what becomes of them and of those that were held."""
        found = SortedVisits([], [])
        for visit in visits:
            if visit.lease.kind is LeaseKind.PROBE:
                self._end_probe(visit, now_s, found)
            elif is_silence(visit.fetch):
                self.held.append(HeldVisit(visit, now_s))
                if len(self._silent) < REMEMBERED:
                    self._silent[host_of(visit.lease.url)] = origin_of(visit.lease.url)
            else:
                if is_answer(visit.fetch):
                    self._answer(visit, found)
                found.absorbed.append(visit)
        if self.is_down:
            found.put_back.extend(self.release())
        return found

    def release(self) -> list[Visit]:
        """All visits that are held, which are held no more."""
        held, self.held = self.held, []
        return [one.visit for one in held]

    def probes_due(self, now_s: float) -> list[str]:
        """The origins of which some should be probed now, the best first."""
        if self._probing or now_s < self._next_s or not (self.is_down or self._is_quiet(now_s)):
            return []
        return list(reversed(self._answered)) or self._failing()

    @property
    def has_answers(self) -> bool:
        """Whether any host has ever answered."""
        return bool(self._answered)

    def is_inexplicable(self, now_s: float) -> bool:
        """Whether visits are held that no probe can explain: nobody has answered yet, and too few hosts fail."""
        return not self.is_down and self._is_quiet(now_s) and not self._answered and not self._failing()

    def begin_probes(self, oids: Iterable[int], now_s: float) -> None:
        """A round of probes was sent."""
        self._probing.update(oids)
        self._round = ProbeRound(now_s)

    def forget(self, origin: str) -> None:
        """An origin cannot be probed any more."""
        self._answered.pop(origin, None)
        self._silent = {host: silent for host, silent in self._silent.items() if silent != origin}

    def _is_quiet(self, now_s: float) -> bool:
        return bool(self.held) and now_s >= self.held[0].came_s + QUIET_S

    def _failing(self) -> list[str]:
        return list(self._silent.values()) if self.is_down or len(self._silent) >= MIN_HOSTS else []

    def _answer(self, visit: Visit, found: SortedVisits) -> None:
        """A host answered: requests that were sent before, and got no answer, failed because of their hosts."""
        origin, sent_s = origin_of(visit.lease.url), visit.fetch.started_s
        has_resolved = visit.fetch.looked_up or visit.lease.kind is LeaseKind.PROBE
        self._answered.pop(origin, None)
        self._answered[origin] = None
        if len(self._answered) > REMEMBERED:
            del self._answered[next(iter(self._answered))]
        if self.is_down:
            return
        self._silent.clear()
        self._round.note_answer(sent_s)
        if self.held:
            explained = [
                held
                for held in self.held
                if held.visit.fetch.started_s <= sent_s
                and (has_resolved or held.visit.fetch.outcome is not Outcome.DNS_FAILED)
            ]
            self.held = [held for held in self.held if held not in explained]
            found.absorbed.extend(held.visit for held in explained)

    def _end_probe(self, visit: Visit, now_s: float, found: SortedVisits) -> None:
        self._probing.discard(visit.lease.oid)
        if is_answer(visit.fetch):
            if self.is_down:
                found.put_back.extend(self.release())
                self.down_s = None
            self._wait_s, self._next_s = FIRST_WAIT_S, 0.0
            self._round.is_answered = True
            self._answer(visit, found)
            return
        self._round.has_unresolved |= visit.fetch.outcome is Outcome.DNS_FAILED
        if self._probing or self._round.shows_network:
            return
        if self.is_down:
            self._wait_s = min(2 * self._wait_s, MAX_WAIT_S)
        elif self.held:
            self.down_s = now_s
        self._next_s = now_s + self._wait_s


class OutageWatch(BackgroundTask):
    """Passes visits on to the absorber, sends probes, and pauses the crawl during an outage."""

    def __init__(
        self,
        settings: Settings,
        absorber: Absorber,
        workers: Workers,
        now_s: Callable[[], float],
        end: Callable[[str], None],
    ) -> None:
        """`now_s` is the clock of the engine; `end` ends the crawl, for a reason, unless it ends already."""
        self._timeout_s = settings.fetch.outage_timeout_s
        self._absorber = absorber
        self._frontier = absorber.frontier
        self._workers = workers
        self._now_s = now_s
        self._end = end
        origins = [origin for host in self._frontier.hosts for origin in host.origins.values() if origin.contacted_s]
        latest = heapq.nlargest(REMEMBERED, origins, key=lambda origin: origin.contacted_s)
        self._detector = OutageDetector(map(str, reversed(latest)))
        self._probes = 0
        self._paused_s = 0.0
        self._is_closing = False
        self.has_ended_crawl = False
        """Whether the crawl ended because the network did not come back."""

    # -- as a background task

    @property
    def is_busy(self) -> bool:
        """The crawl is not over because nothing can be fetched now."""
        return self._detector.is_down

    @property
    def pauses_fetching(self) -> bool:
        """Nothing but probes is sent during an outage."""
        return self._detector.is_down

    @property
    def paused_s(self) -> float:
        """Seconds of this run during which the network was down."""
        since_s = self._detector.down_s
        return self._paused_s + (self._now_s() - since_s if since_s is not None else 0.0)

    def look(self) -> None:
        """Send probes when they are due, or end the crawl when the network has been down for too long."""
        now_s, detector = self._now_s(), self._detector
        if detector.down_s is not None and now_s - detector.down_s >= self._longest_wait_s:
            self.has_ended_crawl = True
            silent_s = now_s - detector.down_s
            self._end(f"the network is down: no host has answered for {silent_s:.0f} s")
        elif detector.is_inexplicable(now_s):
            self._absorber.absorb_all(detector.release(), now_s)
        else:
            self._probe(detector.probes_due(now_s), now_s)

    @property
    def _longest_wait_s(self) -> float:
        return self._timeout_s if self._detector.has_answers else min(self._timeout_s, START_TIMEOUT_S)

    def stop(self) -> None:
        """The crawl ends: what nothing has explained so far goes back to the queue."""
        self._is_closing = True
        self.absorb([])

    async def close(self, at_once: asyncio.Event) -> None:
        """Nothing is under way but requests."""

    # -- visits

    def absorb(self, visits: Sequence[Visit]) -> None:
        """Have visits absorbed, or put back when the network is to blame."""
        now_s, detector, was_down_s = self._now_s(), self._detector, self._detector.down_s
        for visit in visits:
            if visit.lease.kind is LeaseKind.PROBE:
                self._absorber.absorb_probe(visit, now_s)
        found = detector.sort(visits, now_s)
        if self._is_closing:
            found.put_back.extend(detector.release())
        if found.absorbed:
            self._absorber.absorb_all(found.absorbed, now_s)
        if found.put_back:
            self._absorber.put_back(found.put_back, now_s)
        if was_down_s is None and detector.is_down:
            self._say_down(found.put_back)
        elif was_down_s is not None and not detector.is_down:
            self._paused_s += now_s - was_down_s
            self._absorber.notice(NOTICE, f"the network is back after {now_s - was_down_s:.0f} s: the crawl goes on")

    def _say_down(self, failed: Sequence[Visit]) -> None:
        hosts = {host_of(visit.lease.url) for visit in failed}
        detail = failed[-1].fetch.detail if failed else ""
        self._absorber.notice(
            NOTICE,
            f"no host answers ({len(hosts):,} tried; the last: {detail}), so the network seems to be down: the crawl "
            f"pauses, and goes on when a host answers again. It waits for at most {self._longest_wait_s:g} s. "
            "No URL is lost, and no host is blamed",
            "Check the connection, and if you set them, fetch.dns_servers and fetch.proxy.",
        )

    def _probe(self, origins: Sequence[str], now_s: float) -> None:
        leases: dict[str, Lease] = {}
        failed = Counter(host_of(held.visit.lease.url) for held in self._detector.held) if origins else Counter()
        last_s = {host_of(held.visit.lease.url): held.came_s for held in self._detector.held} if origins else {}
        for name in origins:
            origin = self._frontier.origin(f"{name}/")
            host = origin.host.name
            if origin.host.rejection is not None:
                self._detector.forget(name)
            elif host not in leases and len(leases) < MAX_PROBES:
                lease = self._frontier.probe(
                    origin, PROBE_OID - self._probes, now_s, failed[host], last_s.get(host, 0.0)
                )
                if lease is not None:
                    self._probes += 1
                    leases[host] = lease
        if leases:
            self._detector.begin_probes([lease.oid for lease in leases.values()], now_s)
            self._workers.submit(list(leases.values()))
