"""Fetching: one polite request at a time, from a lease to bytes and a `model.Fetch` record.

The engine decides which host is asked when; this package carries out one lease and says what came of it. What holds
throughout:

- *What the web does is a value.* `fetch` raises for nothing a server, a name server or a proxy can do; every end is an
  `Outcome` with one line of detail.
- *No address is connected to that was not checked.* Names are resolved here (`resolver.py`), each address is looked at
  (`addresses.py`), and the connection is pinned to it. A name that changes its address in between (rebinding) changes
  nothing, and a loopback, private or reserved address is never asked unless the settings say so.
- *Nothing grows without a bound.* A body is cut off when it passes the limit of its type, as received or as decoded,
  while it arrives (`transfer.py`, `decoding.py`); every wait has a timeout; every cache has a size.
- *One lease, one request.* Redirects, retries and rules of robots.txt are the engine's to decide about: a redirect is
  an outcome that names its target. The one exception is robots.txt itself, whose redirects RFC 9309 wants followed.

A lease goes through `Client` (`client.py`), the `Transport` that asks the real web with libcurl: the resolver finds an
address, a pooled `Transfer` collects head and body and judges them as they come (`mime.py`, `headers.py`), and its end
becomes an outcome (`ending.py`), the same way for an answer that was recorded (`replay.py`). The first visit to a host
is `meet_host` (`hosts.py`), whose report becomes `RobotsRules` (`robots.py`); a sitemap's bytes become URLs in
`parse_sitemap` (`sitemaps.py`).

The engine needs the rules of robots.txt and nothing else of this package; so the names below are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process import loader

if TYPE_CHECKING:
    from opilio.fetch.client import Client
    from opilio.fetch.robots import RobotsRules, meet_host
    from opilio.fetch.sitemaps import parse_sitemap
    from opilio.fetch.transport import Response, Transport

__all__ = ["Client", "Response", "RobotsRules", "Transport", "meet_host", "parse_sitemap"]

_MODULES = {
    "Client": "client",
    "Response": "transport",
    "RobotsRules": "robots",
    "Transport": "transport",
    "meet_host": "robots",
    "parse_sitemap": "sitemaps",
}

__getattr__ = loader(__name__, _MODULES)
