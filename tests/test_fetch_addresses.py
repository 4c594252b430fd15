"""Which addresses are public."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.fetch.addresses import CONTAINING_IPV4, NOT_PUBLIC_IPV4, NOT_PUBLIC_IPV6, is_public, parse_address

STRICTER = [
    ipaddress.ip_network(network)
    for network in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32", "2001::/23", "3fff::/20", "fec0::/10")
]
"""What we refuse although some version of Python calls it global."""


def edges(networks: tuple[str, ...] | list[str]) -> list[int]:
    """The first and last addresses of networks and their neighbours, as numbers."""
    parsed = [ipaddress.ip_network(network) for network in networks]
    ends = [int(end) for network in parsed for end in (network.network_address, network.broadcast_address)]
    return [end + step for end in ends for step in (-1, 0, 1) if 0 <= end + step < 2 ** parsed[0].max_prefixlen]


IPV4 = (st.sampled_from(edges(NOT_PUBLIC_IPV4)) | st.integers(0, 2**32 - 1)).map(ipaddress.IPv4Address)
IPV6 = (
    st.sampled_from(edges([*NOT_PUBLIC_IPV6, "2000::/3", "fc00::/7", "fe80::/10", "ff00::/8", "64:ff9b:1::/48"]))
    | st.integers(0x2000 << 112, (0x4000 << 112) - 1)
    | st.integers(0, 2**128 - 1)
).map(ipaddress.IPv6Address)


@given(IPV4 | IPV6)
def test_python_agrees(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """Python's own table is an independent oracle: nothing it refuses is public for us, in whatever version, and what
    only we refuse is in a short list."""
    if any(address in network for network in map(ipaddress.ip_network, CONTAINING_IPV4)):
        return
    python = address.is_global and not address.is_multicast and not address.is_reserved
    assert not is_public(address) or python
    assert is_public(address) or not python or any(address in network for network in STRICTER)


@given(IPV4)
def test_a_contained_address_decides(address: ipaddress.IPv4Address) -> None:
    """An IPv4 address is as public in IPv6 as it is by itself, wherever a gateway would take it; in forms that no
    server on the internet has, it never is."""
    number = int(address)
    for contained in (0xFFFF << 32 | number, 0x64_FF9B << 96 | number, 0x2002 << 112 | number << 80 | 0x1234):
        assert is_public(ipaddress.IPv6Address(contained)) is is_public(address)
    teredo = 0x2001 << 112 | number << 64 | (number ^ 0xFFFFFFFF)
    for never in (number, 0xFFFF << 48 | number, 0x64_FF9B_0001 << 80 | number, teredo):
        assert not is_public(ipaddress.IPv6Address(never))


@pytest.mark.parametrize(
    ("address", "public"),
    [
        *((address, True) for address in ("93.184.216.34", "2606:4700::1111", "64:ff9b::5db8:d822", "192.31.196.1")),
        *(
            (address, False)
            for address in ("0.0.0.0", "127.8.8.8", "10.0.0.1", "100.64.0.1", "172.16.0.1", "224.0.0.1")
        ),
        *((address, False) for address in ("192.168.0.1", "198.18.0.1", "240.0.0.1", "255.255.255.255", "192.0.0.8")),
        *((address, False) for address in ("::", "::1", "::7f00:1", "fc00::1", "fe80::1", "fe80::1%eth0", "fec0::1")),
        *((address, False) for address in ("ff02::1", "2001:db8::1", "3fff::1", "5f00::1", "100::1", "4000::1")),
        *((address, False) for address in ("::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001::1")),
        # metadata services of Amazon, Google and others, Alibaba, Oracle, Azure
        *((address, False) for address in ("169.254.169.254", "fd00:ec2::254", "fd20:ce::254", "100.100.100.200")),
        *((address, False) for address in ("192.0.0.192", "168.63.129.16", "64:ff9b::a83f:8110", "::ffff:c000:c0")),
    ],
)
def test_known_addresses(address: str, public: bool) -> None:
    """Only addresses out on the internet pass, also when they are contained in IPv6; no metadata service of a cloud."""
    parsed = parse_address(address)
    assert parsed is not None
    assert is_public(parsed) is public
