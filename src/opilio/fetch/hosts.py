"""The first visit to a host: its address, and what its robots.txt asks of us."""

from __future__ import annotations

import msgspec

from opilio.fetch.robots import parse_robots, product_token
from opilio.fetch.transport import Response, Transport
from opilio.model import Fetch, HostReport, Lease, Outcome, normalize
from opilio.settings import Settings

MAX_ROBOTS_REDIRECTS = 5  # RFC 9309, 2.3.1.2
MAX_SITEMAPS = 100  # of one robots.txt

_NOT_TO_BE_HAD = frozenset(
    {Outcome.CLIENT_ERROR, Outcome.TOO_MANY_REQUESTS, Outcome.BAD_REDIRECT, Outcome.TOO_MANY_REDIRECTS}
)


async def meet_host(client: Transport, lease: Lease, settings: Settings) -> tuple[Response, HostReport]:
    """Carry out a lease of the kind HOST, whose URL is that of robots.txt.

    The response is the last one in a row of redirects, but its address is that of the host we came to meet.
    """
    response = await client.fetch(lease)
    ip = response.fetch.ip
    if not settings.robots.obey:
        return response, HostReport(robots_status=-1)
    for _ in range(MAX_ROBOTS_REDIRECTS):
        if response.fetch.outcome is not Outcome.REDIRECT:
            break
        response = await client.fetch(msgspec.structs.replace(lease, url=response.fetch.redirect_url))
    fetch = msgspec.structs.replace(response.fetch, ip=ip)
    if fetch.outcome is Outcome.REDIRECT:
        detail = f"robots.txt is redirected more than {MAX_ROBOTS_REDIRECTS} times"
        fetch = msgspec.structs.replace(fetch, outcome=Outcome.TOO_MANY_REDIRECTS, detail=detail)
    return response._replace(fetch=fetch), _report(fetch, response.body, lease.url, settings)


def _report(fetch: Fetch, body: bytes, url: str, settings: Settings) -> HostReport:
    if fetch.outcome is Outcome.OK:
        return _read(fetch.status, body, url, settings)
    reached = fetch.outcome in _NOT_TO_BE_HAD or fetch.outcome is Outcome.SERVER_ERROR
    return HostReport(robots_status=fetch.status if reached else 0)


def _read(status: int, body: bytes, url: str, settings: Settings) -> HostReport:
    if len(body) >= settings.robots.max_bytes:
        body = body[: body.rfind(b"\n") + 1]  # half a rule could mean anything
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    rules = parse_robots(text, settings.user_agent)
    sitemaps = dict.fromkeys(normalize(sitemap, base=url) for sitemap in rules.sitemaps)
    return HostReport(
        robots_status=status,
        robots=text,
        crawl_delay_s=rules.crawl_delay(product_token(settings.user_agent)) or 0.0,
        sitemaps=[sitemap for sitemap in sitemaps if sitemap][:MAX_SITEMAPS],
    )
