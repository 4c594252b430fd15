"""Network addresses: which may be connected to, and which hosts the settings reroute."""

from __future__ import annotations

import ipaddress
from fnmatch import fnmatchcase
from typing import NamedTuple

from opilio.errors import SettingsError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

MAX_ROUTES = 10_000  # hosts whose route is cached; matching the patterns again costs microseconds

PROXY_SCHEMES = ("http://", "https://", "socks5h://")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # RFC 6052: the last four bytes are an IPv4 address


class Endpoint(NamedTuple):
    """An address and a port; port 0 means that of the URL."""

    address: str
    port: int = 0


def parse_address(text: str) -> IPAddress | None:
    """`text` as an address (an IPv6 address may have brackets), or None if it is a name."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_public(address: IPAddress) -> bool:
    """Whether `address` is on the public internet: not loopback, private, link-local, reserved or multicast.

    For an IPv6 address that wraps an IPv4 one (mapped, 6to4, NAT64), the wrapped address decides.
    """
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        wrapped = address.ipv4_mapped or address.sixtofour
        if wrapped is not None:
            return is_public(wrapped)
        if address.is_site_local or address.teredo is not None:
            return False
    return address.is_global and not address.is_multicast and not address.is_reserved


def is_local_name(name: str) -> bool:
    """Whether `name` always means the local machine (RFC 6761)."""
    name = name.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost")


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
            f"[fetch] proxy: {proxy!r} is not the URL of a proxy", f"Known: {', '.join(PROXY_SCHEMES)}..."
        )
    return proxy
