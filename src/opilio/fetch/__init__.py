"""Fetching: one request at a time, from a lease to bytes and a `model.Fetch` record.

The engine decides when to send a request to which host; this package carries out one lease. Invariants:

- *What the web does is a value.* `fetch` raises no exception for anything a server, a name server or a proxy can do;
  every request ends in an `Outcome` with one line of detail.
- *Only checked addresses are connected to.* Names are resolved (`resolver.py`), each address is checked
  (`addresses.py`), and the connection is pinned to it. So DNS rebinding has no effect, and loopback, private and
  reserved addresses are never contacted unless the settings allow it. A proxy is given only names that passed the same
  check, unless the settings leave all of that to the proxy.
- *Everything is bounded.* A body that exceeds the limit of its type, as received or as decoded, is cut off while it
  arrives (`transfer.py`, `decoding.py`); every wait has a timeout; every cache has a size.
- *One lease, one request.* The engine decides about redirects, retries and the rules of robots.txt: a redirect is an
  outcome that names its target. libcurl, which sends a request again at once when a connection used before turns out
  to be closed, is kept from it: the client does so, on a new connection, after the delay of the host. The one exception
  is robots.txt itself, whose redirects are followed (RFC 9309).

`Transport` (`transport.py`) is the seam. Its implementation for the real web is `Client` (`client.py`), on libcurl: the
resolver finds an address; a `Transfer` collects head and body and checks them as they arrive (`headers.py`); when it
ends, it becomes an outcome and a `Response` (`transport.py`), in the same way for live and recorded responses. The
first contact with a host is `contact_host`, whose report becomes `RobotsRules` (`robots.py`). `parse_sitemap`
(`sitemaps.py`) reads URLs from a sitemap.

The engine uses only the rules of robots.txt, so the names below are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process import loader

if TYPE_CHECKING:
    from opilio.fetch.client import Client
    from opilio.fetch.robots import RobotsRules, contact_host
    from opilio.fetch.sitemaps import parse_sitemap
    from opilio.fetch.transport import Response, Transport

__all__ = ["Client", "Response", "RobotsRules", "Transport", "contact_host", "parse_sitemap"]

_MODULES = {
    "Client": "client",
    "Response": "transport",
    "RobotsRules": "robots",
    "Transport": "transport",
    "contact_host": "robots",
    "parse_sitemap": "sitemaps",
}

__getattr__ = loader(__name__, _MODULES)
