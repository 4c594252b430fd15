"""The seam of this package: a `Transport` turns a lease into a `Response`."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from opilio.model import Fetch, Lease


class Response(NamedTuple):
    """What came back for one lease. The bodies are empty if the response failed or was rejected."""

    fetch: Fetch
    body: bytes = b""
    """Decoded: without content encodings."""
    headers: dict[str, str] = {}
    """Lower-case names; repeated headers joined by a comma."""
    raw_head: bytes = b""
    """Status line and headers as received; an HTTP/2 status line is written in the form of HTTP/1.1."""
    raw_body: bytes = b""
    """As received, without chunking but still with content encodings."""
    request_head: bytes = b""
    """As sent; a request over HTTP/2 or a proxy is written as if over HTTP/1.1 to the origin."""


class Transport(Protocol):
    """Carries out leases, on the web or on a recording of it."""

    async def fetch(self, lease: Lease) -> Response:
        """Make one request. Raises no exception for what the web does; a redirect is an outcome and is not followed.

        For a lease of the kind HOST, the body is cut at the size limit of robots.txt; if robots.txt is not obeyed, only
        the host name is resolved. For a lease of the kind SITEMAP, any type is accepted.
        """

    async def aclose(self) -> None:
        """Close connections and cancel open requests."""
