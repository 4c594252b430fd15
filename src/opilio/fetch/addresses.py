"""Addresses: which of them are on the public internet.

The table is our own, made from the IANA registries of special-purpose addresses (RFC 6890 and its updates), so that
what is refused does not depend on the version of Python. What is not globally reachable is refused, and so are
anycast services and multicast, where no web server is, and addresses at which clouds answer their own machines only.

Of IPv6, only 2000::/3 is in use for global unicast (RFC 4291); all else is refused. Some IPv6 addresses contain an IPv4
address to which a gateway or this machine itself would pass the connection on: the contained address decides.
"""

from __future__ import annotations

import ipaddress

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

NOT_PUBLIC_IPV4 = (
    "0.0.0.0/8",  # this network (RFC 791)
    "10.0.0.0/8",  # private (RFC 1918)
    "100.64.0.0/10",  # shared by carriers (RFC 6598); Alibaba's metadata at 100.100.100.200
    "127.0.0.0/8",  # loopback (RFC 1122)
    "168.63.129.16/32",  # Azure's services for its own machines
    "169.254.0.0/16",  # link-local (RFC 3927); metadata of most clouds at 169.254.169.254
    "172.16.0.0/12",  # private (RFC 1918)
    "192.0.0.0/24",  # protocol assignments (RFC 6890); Oracle's metadata at 192.0.0.192
    "192.0.2.0/24",  # documentation (RFC 5737)
    "192.88.99.0/24",  # relays of 6to4, given up (RFC 7526)
    "192.168.0.0/16",  # private (RFC 1918)
    "198.18.0.0/15",  # benchmarks (RFC 2544)
    "198.51.100.0/24",  # documentation (RFC 5737)
    "203.0.113.0/24",  # documentation (RFC 5737)
    "224.0.0.0/4",  # multicast (RFC 5771)
    "240.0.0.0/4",  # reserved, and broadcast (RFC 1112)
)
"""Loopback, private and special ranges of IPv4."""
GLOBAL_UNICAST_IPV6 = "2000::/3"
NOT_PUBLIC_IPV6 = (
    "2001::/23",  # protocol assignments (RFC 2928): Teredo, benchmarks, ORCHID, anycast services
    "2001:db8::/32",  # documentation (RFC 3849)
    "3fff::/20",  # documentation (RFC 9637)
)
"""Special ranges within the global unicast addresses of IPv6."""
CONTAINING_IPV4 = {
    "::ffff:0:0/96": 0,  # IPv4-mapped (RFC 4291): the last 32 bits
    "64:ff9b::/96": 0,  # NAT64 (RFC 6052): the last 32 bits
    "2002::/16": 80,  # 6to4 (RFC 3056): the 32 bits after the prefix
}
"""Ranges of IPv6 whose addresses contain an IPv4 address, and how many bits follow it. (A Teredo address contains one
as well, but is always refused.)"""

_Range = tuple[int, int]


def _range(network: str) -> _Range:
    """The first and the last address of a network, as numbers."""
    parsed = ipaddress.ip_network(network)
    return int(parsed.network_address), int(parsed.broadcast_address)


_IPV4 = tuple(map(_range, NOT_PUBLIC_IPV4))
_UNICAST = _range(GLOBAL_UNICAST_IPV6)
_IPV6 = tuple(map(_range, NOT_PUBLIC_IPV6))
_CONTAINING = tuple((_range(network), shift) for network, shift in CONTAINING_IPV4.items())


def parse_address(text: str) -> IPAddress | None:
    """`text` as an address (an IPv6 address may have brackets), or None if it is a name."""
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def is_public(address: IPAddress) -> bool:
    """Whether `address` is on the public internet: not loopback, private, link-local, reserved or multicast."""
    number = int(address)
    if address.version == 4:
        return not _is_in(number, _IPV4)
    for (first, last), shift in _CONTAINING:
        if first <= number <= last:
            return not _is_in(number >> shift & 0xFFFFFFFF, _IPV4)
    return _UNICAST[0] <= number <= _UNICAST[1] and not _is_in(number, _IPV6)


def _is_in(number: int, ranges: tuple[_Range, ...]) -> bool:
    return any(first <= number <= last for first, last in ranges)


def is_local_name(name: str) -> bool:
    """Whether `name` always means the local machine (RFC 6761)."""
    name = name.rstrip(".").lower()
    return name == "localhost" or name.endswith(".localhost")
