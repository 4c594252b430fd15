"""The seam of this package: whatever turns a lease into a response is a `Transport`."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from opilio.model import Fetch, Lease


class Response(NamedTuple):
    """What came back for one lease. Bodies are empty when they were not read to an end we accept."""

    fetch: Fetch
    body: bytes = b""
    """Content encodings undone."""
    headers: dict[str, str] = {}
    """Lower-case names; repeated headers joined by a comma."""
    raw_head: bytes = b""
    """Status line and headers as received; the status line of HTTP/2 is written as one of HTTP/1.1."""
    raw_body: bytes = b""
    """As transferred, but for the chunking: content encodings are still on."""
    request_head: bytes = b""
    """As sent; a request over HTTP/2 or a proxy is written as one over HTTP/1.1 to the origin."""


class Transport(Protocol):
    """Something that carries out leases: the web, or a recording of it."""

    async def fetch(self, lease: Lease) -> Response:
        """Make one request. Raises for nothing the web does; a redirect is an outcome, not followed.

        A lease of the kind HOST is answered in full up to the size limit of robots.txt and cut there; when robots.txt
        is not obeyed, only the host's name is resolved. A lease of the kind SITEMAP may have any type.
        """

    async def aclose(self) -> None:
        """Give back connections. Requests still open are cancelled."""
