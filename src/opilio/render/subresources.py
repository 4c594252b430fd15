"""What the scripts of a page may request, and how it is requested: the same care as for pages.

A request is refused, with a reason, when it is not for a web address, goes to another port than the page's own or the
usual one, to a locked domain or URL, to another domain for something that `render.third_party` does not name, or when
the page has used up its requests or bytes. robots.txt of every origin applies; the worker reads it once. Redirects are
followed here, and each step is checked in the same way.

Requests to one host go out one after the other, with a Crawl-delay that its robots.txt demands between them. The engine
lets the host rest afterwards, one delay for each request. Scripts and stylesheets are kept for the next pages, also
those that could not be fetched: so a site with one program for all its pages gives it once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import ada_url

from opilio.fetch import Response, RobotsRules, Transport, contact_host
from opilio.frontier import ScopeFilter
from opilio.model import Lease, LeaseKind, Outcome, Subrequest, host_of, registered_domain
from opilio.model.url import origin_of
from opilio.render.messages import PageRequest, RequestAnswer
from opilio.settings import MIB, ScopeSettings, Settings

MAX_REDIRECTS = 5
UNREAD_S = 300.0
"""A robots.txt that could not be read closes its origin for so long; then it is requested again."""
MAX_ORIGINS, MAX_HOSTS = 1000, 1000
KEPT_BYTES = 64 * MIB
KEPT_S = 3600.0
MAX_KEPT_BYTES = 8 * MIB  # of one file
_KEPT_KINDS = ("script", "stylesheet")
_ACCEPT = {"script": "*/*", "stylesheet": "text/css,*/*;q=0.1"}
_NOT_PASSED = frozenset(
    [
        *(
            "content-encoding",
            "content-length",
            "transfer-encoding",
            "connection",
            "keep-alive",
            "set-cookie",
            "alt-svc",
        ),
        *("strict-transport-security", "report-to", "nel", "link", "refresh", "public-key-pins", "clear-site-data"),
    ]
)

_ANSWERS = frozenset({Outcome.OK, Outcome.CLIENT_ERROR, Outcome.SERVER_ERROR, Outcome.TOO_MANY_REQUESTS})
"""Outcomes that a script is told of, with the response; of others there is no whole response."""

Keep = Callable[[Lease, Response], Response]
"""Writes a response to the archive."""


def passed_headers(headers: dict[str, str]) -> dict[str, str]:
    """The headers of a response that the browser is given: none about the transfer, cookies or other requests."""
    return {name: value for name, value in headers.items() if name not in _NOT_PASSED}


class OriginRules(NamedTuple):
    """What the robots.txt of an origin says."""

    rules: RobotsRules
    problem: str
    """Why nothing may be requested, when that is not what it says: it could not be read."""
    delay_s: float
    read_s: float


class Kept:
    """Scripts and stylesheets of earlier pages, by URL."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._responses: OrderedDict[str, tuple[float, Response]] = OrderedDict()
        self._bytes = 0

    def get(self, url: str) -> Response | None:
        """The response, unless it is too old."""
        kept_s, response = self._responses.get(url, (0.0, None))
        if response is None or self._clock() - kept_s > KEPT_S:
            return None
        self._responses.move_to_end(url)
        return response

    def put(self, url: str, response: Response) -> None:
        """Keep a response; the least used ones leave."""
        if len(response.body) > MAX_KEPT_BYTES:
            return
        self._remove(url)
        self._responses[url] = (self._clock(), response._replace(raw_body=b""))
        self._bytes += len(response.body)
        while self._bytes > KEPT_BYTES:
            self._remove(next(iter(self._responses)))

    def _remove(self, url: str) -> None:
        _, old = self._responses.pop(url, (0.0, None))
        self._bytes -= len(old.body) if old is not None else 0


class HostTurn:
    """The turns of one host: one request at a time."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.ended_s = 0.0


class Subresources:
    """What all pages of a worker share: robots.txt of origins, the turns of hosts, and what is kept."""

    def __init__(self, settings: Settings, transport: Transport) -> None:
        self.settings = settings
        self.transport = transport
        scope = settings.scope
        self.scope = ScopeFilter(ScopeSettings(scope.locked_domains, scope.locked_urls, scope.only_domains))
        self.kept = Kept()
        self._origins: OrderedDict[str, OriginRules] = OrderedDict()
        self._turns: OrderedDict[str, HostTurn] = OrderedDict()

    def turn(self, host: str) -> HostTurn:
        """The turns of a host."""
        turn = self._turns.get(host)
        if turn is None:
            turn = self._turns[host] = HostTurn()
            while len(self._turns) > MAX_HOSTS and not next(iter(self._turns.values())).lock.locked():
                self._turns.popitem(last=False)
        self._turns.move_to_end(host)
        return turn

    def known_rules(self, url: str) -> OriginRules | None:
        """The rules of a URL's origin, if they were read not too long ago."""
        found = self._origins.get(origin_of(url))
        if found is None:
            return None
        max_age_s = UNREAD_S if found.problem else self.settings.robots.max_age_s
        return found if time.monotonic() - found.read_s <= max_age_s else None

    async def read_rules(self, url: str) -> tuple[OriginRules, Lease, Response]:
        """Read the robots.txt of a URL's origin."""
        lease = Lease(-1, f"{origin_of(url)}/robots.txt", LeaseKind.HOST)
        response, report = await contact_host(self.transport, lease, self.settings)
        outcome = response.fetch.outcome
        problem = "" if outcome.tells_rules else f"robots.txt: {outcome.value}"
        problem = outcome.value if outcome is Outcome.PRIVATE_ADDRESS else problem
        rules = RobotsRules(report, self.settings.user_agent)
        found = OriginRules(rules, problem, report.crawl_delay_s, time.monotonic())
        self._origins[origin_of(url)] = found
        if len(self._origins) > MAX_ORIGINS:
            self._origins.popitem(last=False)
        return found, lease, response


class PageRequests:
    """The requests of one page, with its budget."""

    def __init__(self, shared: Subresources, lease: Lease, keep: Keep, deadline_s: float) -> None:
        self._shared = shared
        self._page = lease
        self._host = host_of(lease.url)
        self._domain = registered_domain(self._host)
        self._keep = keep
        self._deadline_s = deadline_s
        self._bytes = 0
        self._asked_to_wait: set[str] = set()
        """Hosts that have answered with status 429: the page requests nothing more from them."""
        self.is_over = False
        """The page is finished: nothing more is requested."""
        self.sent: list[Subrequest] = []
        """Requests that went out, robots.txt included."""
        self.refused: Counter[str] = Counter()
        """Others, by the reason."""
        shared.turn(self._host).ended_s = time.monotonic()  # the page itself was just requested

    async def answer(self, request: PageRequest) -> RequestAnswer:
        """The answer to a request of the page."""
        response, reason = await self._requested(request)
        if response is None:
            self.refused[reason] += 1
            return RequestAnswer(request.page, request.request)
        headers = passed_headers(response.headers) | {
            # Servers send these only to requests that name an origin. Without cookies, they give nothing away.
            "access-control-allow-origin": request.origin or "*",
            "access-control-allow-credentials": "true",
            "access-control-expose-headers": "*",
        }
        return RequestAnswer(request.page, request.request, response.fetch.status, headers, response.body)

    async def _requested(self, request: PageRequest) -> tuple[Response | None, str]:
        """The response to a request after its redirects, or why there is none."""
        url = _address(request.url)
        for _ in range(MAX_REDIRECTS):
            reason = self._refusal(url, request.kind)
            if reason:
                return None, reason
            response, reason = await self._turn(url, request)
            if response is None:
                return None, reason
            fetch = response.fetch
            if fetch.outcome is not Outcome.REDIRECT:
                return (response, "") if fetch.outcome in _ANSWERS else (None, fetch.outcome.value)
            url = fetch.redirect_url
        return None, Outcome.TOO_MANY_REDIRECTS.value

    def _refusal(self, url: str, kind: str) -> str:
        """Why a URL is not requested, as far as that is known without robots.txt; '' when it is."""
        if not url:
            return "no web address"
        host = host_of(url)
        if ":" in host.rpartition("]")[2] and host != self._host:
            return "another port"
        rejection = self._shared.scope.rejection(host)
        if rejection is not None or self._shared.scope.is_locked(url):
            return (rejection or Outcome.LOCKED).value
        if registered_domain(host) != self._domain:
            if self._shared.settings.scope.stay_on_seed_domains:
                return Outcome.OUT_OF_SCOPE.value
            if kind not in self._shared.settings.render.third_party:
                return "third party"
        return ""

    def _has_budget(self) -> str:
        """Why no more may be requested; '' when more may be."""
        if len(self.sent) >= self._shared.settings.render.max_requests:
            return "too many requests"
        if self._bytes >= self._shared.settings.render.max_bytes:
            return "too many bytes"
        return "too late" if self.is_over or time.monotonic() > self._deadline_s else ""

    async def _turn(self, url: str, request: PageRequest) -> tuple[Response | None, str]:
        """Request one URL when it is the turn of this request at its host."""
        shared, is_kept = self._shared, request.kind in _KEPT_KINDS
        turn = shared.turn(host_of(url))
        async with turn.lock:
            kept = shared.kept.get(url) if is_kept else None
            if kept is not None:
                return kept, ""
            reason = self._has_budget()
            if host_of(url) in self._asked_to_wait:
                reason = Outcome.TOO_MANY_REQUESTS.value
            if reason:
                return None, reason
            try:
                known = shared.known_rules(url)
                if known is None:
                    known, lease, response = await shared.read_rules(url)
                    if shared.settings.robots.obey:
                        self._note(lease, response)
                    turn.ended_s = time.monotonic()
                if not known.rules.allows(url) or known.delay_s > shared.settings.fetch.max_crawl_delay_s:
                    return None, known.problem or Outcome.ROBOTS.value
                wait_s = turn.ended_s + known.delay_s - time.monotonic()
                if time.monotonic() + wait_s > self._deadline_s:
                    return None, "too late"
                await asyncio.sleep(max(0.0, wait_s))
                reason = self._has_budget()
                if reason:
                    return None, reason
                accept = _ACCEPT.get(request.kind) or request.accept or "*/*"
                lease = Lease(self._page.oid, url, LeaseKind.SUBRESOURCE, accept=accept)
                response = self._note(lease, await shared.transport.fetch(lease))
            finally:
                turn.ended_s = time.monotonic()
            if response.fetch.outcome is Outcome.TOO_MANY_REQUESTS:
                self._asked_to_wait.add(host_of(url))
            elif is_kept:
                shared.kept.put(url, response)
        return response, ""

    def _note(self, lease: Lease, response: Response) -> Response:
        """Keep a response, and count it, unless nothing was sent."""
        self._bytes += response.fetch.received_bytes
        if response.fetch.outcome is Outcome.PRIVATE_ADDRESS:
            return response
        response = self._keep(lease, response)
        self.sent.append(Subrequest(lease.url, response.fetch))
        return response


def _address(url: str) -> str:
    """A URL without its fragment and credentials; '' if it is not of the web. What it asks for stays as it is."""
    try:
        parsed = ada_url.URL(url)
    except ValueError:
        return ""
    if parsed.protocol not in ("http:", "https:"):
        return ""
    parsed.hash = parsed.username = parsed.password = ""
    return str(parsed.href)
