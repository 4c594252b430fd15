"""From the name of a host to an address that may be connected to.

The settings may reroute a host (`Routes`). Else its name is resolved by DNS, with c-ares and a bounded cache. The
client checks each address (`addresses.py`): by default only public ones are used.

Concurrent lookups of one name share a single query. c-ares tries the next server if one does not answer in time; it
runs in its own thread, which touches the event loop only through `call_soon_threadsafe`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import pycares

from opilio.errors import SettingsError
from opilio.fetch.addresses import parse_address
from opilio.settings.files import hide_password

NEGATIVE_TTL_S = 5.0  # how long it is cached that a name has no address
MIN_TTL_S = 1.0  # an answer with TTL 0 must outlive the requests that wait for it
ROUNDS = 2  # how often each server is tried
MAX_ROUTES = 10_000  # hosts whose route is cached; matching the patterns again costs microseconds
PROXY_SCHEMES = ("http://", "https://", "socks5h://")
_ANSWERS = (pycares.errno.ARES_ENOTFOUND, pycares.errno.ARES_ENODATA)  # other errors: no server has answered
_NO_SORT = 1 << 7  # ARES_AI_NOSORT: sorting opens a socket for each address


class DnsAnswer(NamedTuple):
    """What a name resolved to: addresses, IPv4 first, or an error as one line."""

    addresses: tuple[str, ...]
    error: str = ""


class Resolver:
    """An asynchronous resolver with a cache, bound to the event loop of its first lookup."""

    def __init__(
        self,
        servers: Sequence[str] = (),
        timeout_s: float = 3.0,
        max_hosts: int = 100_000,
        max_ttl_s: float = 3600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._servers = tuple(servers)
        self._timeout_s = timeout_s
        self._max_hosts = max(max_hosts, 1)
        self._max_ttl_s = max_ttl_s
        self._clock = clock
        self._cache: OrderedDict[str, tuple[float, DnsAnswer]] = OrderedDict()
        self._open: dict[str, asyncio.Future[DnsAnswer]] = {}
        self._channel: pycares.Channel | None = None
        self._lookups: Counter[pycares.Channel] = Counter()
        """How many are under way in each channel: the one in use, and those that were replaced."""

    def __len__(self) -> int:
        return len(self._cache)

    def cached(self, name: str) -> DnsAnswer | None:
        """The cached answer, if it has not expired."""
        entry = self._cache.get(name)
        if entry is None:
            return None
        expires_s, answer = entry
        if self._clock() >= expires_s:
            del self._cache[name]
            return None
        self._cache.move_to_end(name)
        return answer

    def forget(self, name: str) -> None:
        """Ask a server when the name is looked up next, whatever is cached here or in c-ares."""
        self._cache.pop(name, None)
        self._replace_channel()

    async def resolve(self, name: str) -> DnsAnswer:
        """The addresses of `name`."""
        known = self.cached(name)
        if known is not None:
            return known
        future = self._open.get(name)
        if future is None:
            future = self._query(name)
        return await asyncio.shield(future)  # a cancelled waiter must not cancel the others

    def close(self) -> None:
        """Cancel open lookups."""
        self._replace_channel()
        for channel in self._lookups:
            channel.close()
        self._lookups.clear()
        for future in self._open.values():
            future.cancel()
        self._open.clear()

    def _query(self, name: str) -> asyncio.Future[DnsAnswer]:
        self._ensure_channel()  # may raise, so it comes before a future is registered
        future: asyncio.Future[DnsAnswer] = asyncio.get_running_loop().create_future()
        self._open[name] = future
        self._ask(name, is_first=True)
        return future

    def _ask(self, name: str, *, is_first: bool) -> None:
        channel, loop = self._ensure_channel(), asyncio.get_running_loop()

        def from_thread(result: Any, error: int | None) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(self._answered, name, result, error, channel, is_first)

        self._lookups[channel] += 1
        try:
            channel.getaddrinfo(
                name, None, family=socket.AF_UNSPEC, type=socket.SOCK_STREAM, flags=_NO_SORT, callback=from_thread
            )
        except (pycares.AresError, UnicodeError, ValueError) as error:
            self._end_lookup(channel)
            self._remember(name, DnsAnswer((), f"not a valid host name: {error}"), NEGATIVE_TTL_S)

    def _answered(self, name: str, result: Any, error: int | None, channel: pycares.Channel, is_first: bool) -> None:
        self._end_lookup(channel)
        if result is None:
            if error == pycares.errno.ARES_ECONNREFUSED and is_first and name in self._open:
                # A channel may go on failing when its servers are back.
                if channel is self._channel:
                    self._replace_channel()
                self._ask(name, is_first=False)
                return
            reason = pycares.errno.strerror(error) if error is not None else "no answer"
            self._remember(name, DnsAnswer((), str(reason)), NEGATIVE_TTL_S if error in _ANSWERS else 0.0)
            return
        nodes = sorted(result.nodes, key=lambda node: bool(node.family != socket.AF_INET))
        addresses = tuple(dict.fromkeys(node.addr[0].decode("ascii") for node in nodes))
        if not addresses:
            self._remember(name, DnsAnswer((), "no address"), NEGATIVE_TTL_S)
            return
        ttl_s = min(max(min(node.ttl for node in nodes), MIN_TTL_S), self._max_ttl_s)
        self._remember(name, DnsAnswer(addresses), ttl_s)

    def _remember(self, name: str, answer: DnsAnswer, ttl_s: float) -> None:
        self._cache[name] = (self._clock() + ttl_s, answer)
        self._cache.move_to_end(name)
        while len(self._cache) > self._max_hosts:
            self._cache.popitem(last=False)
        future = self._open.pop(name, None)
        if future is not None and not future.done():
            future.set_result(answer)

    def _ensure_channel(self) -> pycares.Channel:
        if self._channel is None:
            self._channel = self._new_channel()
        return self._channel

    def _new_channel(self) -> pycares.Channel:
        try:
            # No search domains: host names in URLs are complete.
            return pycares.Channel(
                flags=pycares.ARES_FLAG_NOSEARCH,
                timeout=self._timeout_s,
                tries=ROUNDS,
                lookups="fb",
                servers=[_server(server) for server in self._servers] or None,
            )
        except pycares.AresError as error:
            raise SettingsError(
                f"[fetch] dns_servers: {', '.join(self._servers)}: {error}", 'For example: ["9.9.9.9:53"]'
            ) from None

    def _replace_channel(self) -> None:
        """Use another channel from now on, which has no answers and no failures of old."""
        channel, self._channel = self._channel, None
        if channel is not None and not self._lookups[channel]:
            self._lookups.pop(channel, None)
            channel.close()

    def _end_lookup(self, channel: pycares.Channel) -> None:
        """Close a replaced channel after its last lookup."""
        if channel in self._lookups:
            self._lookups[channel] -= 1
            if channel is not self._channel and not self._lookups[channel]:
                del self._lookups[channel]
                channel.close()


def _server(server: str) -> str:
    """A server address for c-ares, which wants brackets around a bare IPv6 address."""
    return f"[{server}]" if server.count(":") > 1 and not server.startswith("[") else server


class Endpoint(NamedTuple):
    """An address and a port; port 0 means that of the URL."""

    address: str
    port: int = 0


class Routes:
    """The setting `fetch.connect_to`: host patterns, and the endpoint to connect to instead."""

    def __init__(self, connect_to: dict[str, str]) -> None:
        self._patterns = [(pattern.lower(), _endpoint(pattern, to)) for pattern, to in connect_to.items()]
        self._known: dict[str, Endpoint | None] = {}

    def find(self, host: str, name: str) -> Endpoint | None:
        """Where to connect for `host`. A pattern matches the host with its port or the bare `name`; the first wins."""
        if not self._patterns:
            return None
        if host not in self._known:
            if len(self._known) >= MAX_ROUTES:
                self._known.clear()
            self._known[host] = self._match(host, name)
        return self._known[host]

    def _match(self, host: str, name: str) -> Endpoint | None:
        for pattern, endpoint in self._patterns:
            if fnmatchcase(name, pattern) or fnmatchcase(host, pattern):
                return endpoint
        return None


def _endpoint(pattern: str, to: str) -> Endpoint:
    address_text, _, port_text = to.rpartition(":")
    address = parse_address(address_text)
    if address is None or not port_text.isdecimal() or not 0 < int(port_text) < 2**16:
        raise SettingsError(
            f"[fetch] connect_to, {pattern!r}: {to!r} is not address:port", 'For example: "127.0.0.1:8800"'
        )
    return Endpoint(str(address), int(port_text))


def check_proxy(proxy: str) -> str:
    """`proxy` itself, or a SettingsError if its kind is not supported."""
    if proxy and not proxy.startswith(PROXY_SCHEMES):
        raise SettingsError(
            f"[fetch] proxy: {hide_password(proxy)!r} is not the URL of a proxy",
            f"Known: {', '.join(PROXY_SCHEMES)}...",
        )
    return proxy
