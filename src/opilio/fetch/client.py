"""The transport to the real web: libcurl transfers in the event loop, with pooled handles and open connections."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pycurl

from opilio.fetch.addresses import is_local_name, is_public, parse_address
from opilio.fetch.certificates import ca_certificates, set_trust
from opilio.fetch.decoding import ACCEPT_ENCODING
from opilio.fetch.headers import is_text, request_head, safe_value
from opilio.fetch.resolver import Endpoint, Resolver, Routes, check_proxy
from opilio.fetch.transfer import BodyLimits, Ending, Transfer
from opilio.fetch.transport import Response, body_limits, outcome_of_error, response_of
from opilio.model import Fetch, Lease, LeaseKind, Outcome, host_of
from opilio.model.url import host_name, path_of
from opilio.settings import FetchSettings, Settings

MAX_IDLE_CONNECTIONS = 1024
MAX_ADDRESSES_TRIED = 3
NEW_CONNECTIONS_S = 600.0
"""A host that closed a connection which we wanted to use again gets a new one for each request for so long."""
MAX_CLOSING_HOSTS = 10_000
MAX_RESEND_DELAY_S = 10.0
"""A lost request to a host with a longer delay fails: the engine tries it again, and no worker waits for so long."""
_UNCHECKED = "; the proxy is not given a name whose address is unknown here (fetch.proxy_resolves_names)"
_CLOSED = (Outcome.BROKEN, "the server closed the connection before it answered")
_SUPPRESS_CONNECT_HEADERS = 265  # CURLOPT_SUPPRESS_CONNECT_HEADERS, which pycurl does not name


class TransferStart(NamedTuple):
    """When work on a lease began: by the wall clock for the record, by the monotonic clock for durations."""

    epoch_s: float
    monotonic_s: float


class Handle:
    """A reusable libcurl handle. Options that never change are set once."""

    def __init__(self, fetching: FetchSettings, own_certificates: str = "") -> None:
        self.curl: Any = pycurl.Curl()
        self.transfer = Transfer(BodyLimits())
        self.started_s = 0.0
        self.stalled = False
        self.sends = 0
        """How often libcurl has come to send the request. When a connection that was used before turns out to be
        closed, libcurl sends it again at once, on its own. The host may have had it, so we wait for its delay first."""
        self._pinned = ""
        self._route = ""
        self._reuses = True
        self._headers: list[str] = []
        self._proxy = fetching.proxy
        self._set_limits(fetching)
        set_trust(self.curl, own_certificates, verify=fetching.verify_tls)
        self.curl.setopt(pycurl.HEADERFUNCTION, self._on_header)
        self.curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        self.curl.setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)
        self.curl.setopt(pycurl.PREREQFUNCTION, self._on_request)

    def prepare(
        self, url: str, endpoint: Endpoint | None, headers: list[str], limits: BodyLimits, *, reuses: bool = True
    ) -> None:
        """Set up one transfer that can only connect to `endpoint`; None: to the proxy.

        Unless it `reuses` connections, it has one of its own.
        """
        curl = self.curl
        self.transfer = Transfer(limits)
        self.stalled = False
        self.sends = 0
        curl.setopt(pycurl.URL, url)
        if reuses != self._reuses:
            curl.setopt(pycurl.FRESH_CONNECT, not reuses)
            curl.setopt(pycurl.FORBID_REUSE, not reuses)
            self._reuses = reuses
        if headers != self._headers:
            curl.setopt(pycurl.HTTPHEADER, [header.encode("latin-1", "replace") for header in headers])
            self._headers = headers
        route = ""
        self._pinned = ""
        if endpoint is not None:
            self._pinned = endpoint.address
            address = f"[{endpoint.address}]" if ":" in endpoint.address else endpoint.address
            route = f"::{address}:{endpoint.port or ''}"
        if route != self._route:
            if route:
                curl.setopt(pycurl.CONNECT_TO, [route])
            else:
                curl.unsetopt(pycurl.CONNECT_TO)
            self._route = route
        if self._proxy:
            curl.setopt(pycurl.PROXY, "" if endpoint else self._proxy)
        self.started_s = time.monotonic()

    @property
    def sent_s(self) -> float:
        """When the request was sent (monotonic); 0 while connecting."""
        if not self.curl.getinfo(pycurl.REQUEST_SIZE):
            return 0.0
        return self.started_s + float(self.curl.getinfo(pycurl.PRETRANSFER_TIME))

    def _set_limits(self, fetching: FetchSettings) -> None:
        curl = self.curl
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, max(int(fetching.connect_timeout_s * 1000), 1))
        curl.setopt(pycurl.TIMEOUT_MS, max(int(fetching.total_timeout_s * 1000), 1))
        curl.setopt(_SUPPRESS_CONNECT_HEADERS, 1)
        curl.setopt(pycurl.PROXY, fetching.proxy)  # set even if empty, so that the environment is ignored

    def _on_header(self, line: bytes) -> int | None:
        return self.transfer.on_header(line)

    def _on_body(self, data: bytes) -> int | None:
        return self.transfer.on_body(data)

    def _on_request(self, *_: object) -> int:
        """A connection is there, and the request is about to be sent."""
        self.sends += 1
        return int(pycurl.PREREQFUNC_OK if self.sends == 1 else pycurl.PREREQFUNC_ABORT)

    def _open_socket(self, purpose: int, address: Any) -> Any:
        """The last check before a connection: only the pinned address passes."""
        family, kind, protocol, peer = address
        if self._pinned not in ("", peer[0]) and parse_address(peer[0]) != parse_address(self._pinned):
            return pycurl.SOCKET_BAD
        return socket.socket(family, kind, protocol)


class LocatedHost(NamedTuple):
    """Where to connect for a URL."""

    endpoints: Sequence[Endpoint | None]
    """Checked addresses in the order to try them; None: the proxy."""
    refusal: Ending | None = None
    """Why not to connect."""
    looked_up: bool = False
    """The name was not known before."""


class Client:
    """A `Transport` to the web, bound to the event loop in which it is first used."""

    def __init__(self, settings: Settings) -> None:
        fetching = settings.fetch
        self._settings = fetching
        self._obey_robots = settings.robots.obey
        check_proxy(fetching.proxy)
        self._own_certificates = ca_certificates(fetching.ca_file)
        self._routes = Routes(fetching.connect_to)
        self._resolver = Resolver(
            fetching.dns_servers, fetching.dns_timeout_s, fetching.dns_cache_hosts, fetching.dns_max_ttl_s
        )
        self._unchecked = _UNCHECKED if fetching.proxy else ""
        self._limits = body_limits(settings)
        self._headers = _standing_headers(settings)
        self._multi: Any = pycurl.AsyncCurlMulti()
        self._multi.setopt(pycurl.M_MAXCONNECTS, MAX_IDLE_CONNECTIONS)
        self._idle: list[Handle] = []
        self._busy: set[Handle] = set()
        self._closing_hosts: dict[str, float] = {}
        """Hosts, or the proxy, that closed such a connection, and until when they get new ones."""
        self._watch: asyncio.TimerHandle | None = None
        self._watch_every_s = min(max(fetching.read_timeout_s / 4, 0.02), 1.0)

    async def fetch(self, lease: Lease) -> Response:
        """Make one request; see `Transport.fetch`."""
        start = TransferStart(time.time(), time.monotonic())
        if lease.kind is LeaseKind.PROBE:
            self._resolver.forget(host_name(host_of(lease.url)))
        host = await self._locate(lease.url)
        if host.refusal is not None:
            response = Response(_record(start, *host.refusal))
        elif lease.kind is LeaseKind.HOST and not self._obey_robots:
            response = Response(_record(start, Outcome.OK, "", host.endpoints[0]))
        else:
            for endpoint in host.endpoints[:MAX_ADDRESSES_TRIED]:
                response = await self._request(lease, endpoint, start)
                if response.fetch.outcome is not Outcome.CONNECT_FAILED:
                    break
        if response.fetch.outcome is Outcome.NOT_MODIFIED and not (lease.etag or lease.last_modified):
            # Nothing is stored that could be unchanged.
            detail = "status 304, though the request named no version"
            response = response._replace(
                fetch=msgspec.structs.replace(response.fetch, outcome=Outcome.BROKEN, detail=detail)
            )
        if host.looked_up:
            response = response._replace(fetch=msgspec.structs.replace(response.fetch, looked_up=True))
        return response

    async def aclose(self) -> None:
        """Close connections and the resolver, and cancel open requests."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._resolver.close()
        await self._multi.aclose()
        for handle in self._idle:
            handle.curl.close()
        self._idle.clear()

    async def _locate(self, url: str) -> LocatedHost:
        """Where to connect for `url`, or why not."""
        host = host_of(url)
        name = host_name(host)
        mapped = self._routes.find(host, name)
        if mapped is not None:
            return LocatedHost([mapped])
        literal, looked_up = parse_address(name), False
        if literal is not None:
            addresses: tuple[str, ...] = (str(literal),)
        elif self._settings.proxy and self._settings.proxy_resolves_names:
            if is_local_name(name) and not self._settings.allow_private_addresses:
                return LocatedHost([], (Outcome.PRIVATE_ADDRESS, f"{name} is this machine or the proxy's"))
            return LocatedHost([None])
        else:
            answer = self._resolver.cached(name)
            if answer is None:
                answer, looked_up = await self._resolver.resolve(name), True
            if answer.error:
                refusal = (Outcome.DNS_FAILED, f"{name}: {answer.error}{self._unchecked}")
                return LocatedHost([], refusal, looked_up)
            addresses = answer.addresses
        if not self._settings.allow_private_addresses:
            public = [text for text in addresses if (ip := parse_address(text)) and is_public(ip)]
            if not public:
                refusal = (Outcome.PRIVATE_ADDRESS, f"{name} is at {', '.join(addresses)}, which is not public")
                return LocatedHost([], refusal, looked_up)
            addresses = tuple(public)
        endpoints = [None] if self._settings.proxy else [Endpoint(address) for address in addresses]
        return LocatedHost(endpoints, looked_up=looked_up)

    async def _request(self, lease: Lease, endpoint: Endpoint | None, start: TransferStart) -> Response:
        handle = self._idle.pop() if self._idle else Handle(self._settings, self._own_certificates)
        headers = self._headers if not (lease.etag or lease.last_modified) else self._headers + _conditions(lease)
        if lease.accept:
            headers = [
                *(one for one in headers if not one.startswith("Accept:")),
                f"Accept: {safe_value(lease.accept)}",
            ]
        peer = host_of(lease.url) if endpoint else self._settings.proxy
        reuses = time.monotonic() >= self._closing_hosts.get(peer, 0.0)
        handle.prepare(lease.url, endpoint, headers, self._limits[lease.kind], reuses=reuses)
        try:
            failure = await self._perform(handle)
            if failure == _CLOSED:  # compiled, it is not the same object
                self._note_closing(peer)
                if lease.delay_s <= MAX_RESEND_DELAY_S:
                    await asyncio.sleep(lease.delay_s)
                    handle.prepare(lease.url, endpoint, headers, self._limits[lease.kind], reuses=False)
                    failure = await self._perform(handle)
        except BaseException:
            handle.curl.close()  # its transfer may still be active
            raise
        if handle.transfer.was_cut:
            failure = None  # we stopped the transfer, and libcurl reports that as an error
        elif failure is not None:
            failure = handle.transfer.rejection or failure
        self._idle.append(handle)
        return response_of(
            handle.transfer,
            lease,
            ip=endpoint.address if endpoint else "",
            started_s=start.epoch_s,
            took_ms=(time.monotonic() - start.monotonic_s) * 1000,
            failure=failure,
            request=request_head(host_of(lease.url), path_of(lease.url), headers),
        )

    def _note_closing(self, peer: str) -> None:
        """Give a host new connections, since it closes those that it has."""
        if len(self._closing_hosts) >= MAX_CLOSING_HOSTS:
            self._closing_hosts.clear()
        self._closing_hosts[peer] = time.monotonic() + NEW_CONNECTIONS_S

    async def _perform(self, handle: Handle) -> Ending | None:
        """Run the transfer; None if it succeeded, else what went wrong."""
        self._busy.add(handle)
        if self._watch is None:
            self._watch = asyncio.get_running_loop().call_later(self._watch_every_s, self._sweep)
        try:
            await self._multi.add_handle(handle.curl)
        except pycurl.error as error:
            if handle.sends > 1 and not handle.transfer.lines:
                return _CLOSED
            code, message = error.args[0], str(error.args[1]) if len(error.args) > 1 else ""
            return outcome_of_error(code, message, handle.sent_s > 0)
        except asyncio.CancelledError:
            with contextlib.suppress(RuntimeError, pycurl.error):
                self._multi.remove_handle(handle.curl)
            task = asyncio.current_task()
            if not handle.stalled or (task is not None and task.cancelling()):
                raise
            return Outcome.TIMED_OUT, f"read timeout: no data for {self._settings.read_timeout_s:g} s"
        finally:
            self._busy.discard(handle)
        return None

    def _sweep(self) -> None:
        """Stop transfers that have been silent for too long. Runs about once a second."""
        self._watch = None
        silent_since_s = time.monotonic() - self._settings.read_timeout_s
        for handle in list(self._busy):
            heard_s = handle.transfer.active_s or handle.sent_s
            if 0 < heard_s < silent_since_s:
                handle.stalled = True
                with contextlib.suppress(RuntimeError, pycurl.error):
                    self._multi.remove_handle(handle.curl)
        if self._busy:
            self._watch = asyncio.get_running_loop().call_later(self._watch_every_s, self._sweep)


def _standing_headers(settings: Settings) -> list[str]:
    """The headers that are sent with every request."""
    headers = [
        f"User-Agent: {safe_value(settings.user_agent)}",
        f"Accept: {', '.join([*filter(_is_named, settings.fetch.accept), '*/*;q=0.1'])}",
        f"Accept-Encoding: {ACCEPT_ENCODING}",
    ]
    if settings.fetch.accept_language:
        headers.append(f"Accept-Language: {safe_value(settings.fetch.accept_language)}")
    return headers


def _is_named(mime_type: str) -> bool:
    """Whether to list a type in the Accept header: text and PDF, between which servers may choose."""
    return is_text(mime_type) or mime_type == "application/pdf"


def _conditions(lease: Lease) -> list[str]:
    """The headers that make a request conditional."""
    conditions = (("If-None-Match", lease.etag), ("If-Modified-Since", lease.last_modified))
    return [f"{name}: {safe_value(value)}" for name, value in conditions if value]


def _record(start: TransferStart, outcome: Outcome, detail: str, endpoint: Endpoint | None = None) -> Fetch:
    """The record of a lease that got no response."""
    return Fetch(
        outcome=outcome,
        ip=endpoint.address if endpoint else "",
        started_s=start.epoch_s,
        took_ms=(time.monotonic() - start.monotonic_s) * 1000,
        detail=detail,
    )
