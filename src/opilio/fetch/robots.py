"""robots.txt (RFC 9309): the first contact with an origin, which fetches it, and the rules that it sets for us."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import msgspec
from protego import Protego

from opilio.model import Fetch, HostReport, Lease, Outcome, normalize
from opilio.model.url import host_of, path_of
from opilio.settings import Settings

if TYPE_CHECKING:  # with libcurl, which the engine does without
    from opilio.fetch.transport import Response, Transport

MAX_ANSWERS = 10_000  # answers cached for one host
MAX_ROBOTS_REDIRECTS = 5  # RFC 9309, 2.3.1.2
MAX_SITEMAPS = 100  # of one robots.txt
TOO_MANY_REQUESTS = 429

_LINE = re.compile(r"\s*([a-z -]+?)\s*:\s*([^#]*)", re.IGNORECASE)
_AGENT_NAMES = frozenset({"user-agent", "useragent", "user agent"})
_SITE_WIDE = frozenset({"sitemap", "sitemaps", "site-map", "host"})
_TOKEN = re.compile(r"[a-z0-9_-]+|\*", re.IGNORECASE)


def product_token(user_agent: str) -> str:
    """The name by which robots.txt knows a crawler: `Opilio` of `Opilio/0.1 (+https://...)`."""
    words = user_agent.partition("/")[0].split()
    return words[0] if words else "*"


def parse_robots(text: str, user_agent: str) -> Protego:
    """The rules that apply to `user_agent`, and the sitemaps."""
    return Protego.parse(_relevant(text, product_token(user_agent).lower()))


def _relevant(text: str, token: str) -> str:
    """`text` without the groups that name neither `token` nor `*`.

    A file may list thousands of crawlers with thousands of rules; a parser that copies all rules to each crawler then
    takes minutes. Names are also reduced to their product tokens here (`Opilio/1.0` means us).
    """
    kept: list[str] = []
    in_agents = concerns_us = False
    for line in text.splitlines():
        found = _LINE.match(line)
        if not found:
            continue
        name, value = found.group(1).lower(), found.group(2).strip()
        if name in _AGENT_NAMES:
            agent = _TOKEN.match(value)
            ours = agent is not None and agent.group().lower() in (token, "*")
            concerns_us = ours or (in_agents and concerns_us)
            if not in_agents:
                kept.append("User-agent:")  # ends the previous group, even if this one is not kept
            in_agents = True
            if ours and agent is not None:
                kept.append(f"User-agent: {agent.group()}")
        elif name in _SITE_WIDE:
            kept.append(f"{name}: {value}")
        else:
            in_agents = False
            if concerns_us:
                kept.append(f"{name}: {value}")
    return "\n".join(kept)


class RobotsRules:
    """Which URLs of one origin we may fetch, by the result of fetching its robots.txt."""

    def __init__(self, report: HostReport, user_agent: str) -> None:
        status = report.robots_status
        self._token = product_token(user_agent)
        self._rules = parse_robots(report.robots, user_agent) if 200 <= status < 300 and report.robots else None
        # RFC 9309: unavailable (4xx, or too many redirects) allows everything; unreachable (5xx, no answer) forbids
        # everything, until it is reached. -1: robots.txt is not obeyed.
        self._otherwise = status < 0 or (200 <= status < 500 and status != TOO_MANY_REQUESTS)
        self._answers: dict[str, bool] = {}

    def allows(self, url: str) -> bool:
        """Whether `url`, a URL of this origin in normal form, may be fetched."""
        if self._rules is None:
            return self._otherwise
        path = path_of(url)
        answer = self._answers.get(path)
        if answer is None:
            answer = bool(self._rules.can_fetch(url, self._token))
            if len(self._answers) >= MAX_ANSWERS:
                self._answers.clear()
            self._answers[path] = answer
        return answer


async def contact_host(client: Transport, lease: Lease, settings: Settings) -> tuple[Response, HostReport]:
    """Carry out a lease of the kind HOST, whose URL is that of robots.txt.

    Redirects are followed: the response is the last one, but with the address of the leased host.
    """
    if not settings.robots.obey:
        return await client.fetch(lease), HostReport(robots_status=-1)
    response = await fetch_site_file(client, lease, settings)
    return response, report_of(response.fetch, response.body, lease.url, settings)


async def fetch_site_file(client: Transport, lease: Lease, settings: Settings) -> Response:
    """Request robots.txt, or another file that a site keeps at a fixed place, and follow redirects.

    Another request to the same host keeps the delay. The response is the last one, with the address of the first host.
    """
    response = await client.fetch(lease)
    ip, url = response.fetch.ip, lease.url
    for _ in range(MAX_ROBOTS_REDIRECTS):
        if response.fetch.outcome is not Outcome.REDIRECT:
            break
        if host_of(response.fetch.redirect_url) == host_of(url):
            await asyncio.sleep(settings.fetch.host_delay_s)
        url = response.fetch.redirect_url
        response = await client.fetch(msgspec.structs.replace(lease, url=url))
    fetch = msgspec.structs.replace(response.fetch, ip=ip)
    if fetch.outcome is Outcome.REDIRECT:
        detail = f"{path_of(lease.url)} is redirected more than {MAX_ROBOTS_REDIRECTS} times"
        fetch = msgspec.structs.replace(fetch, outcome=Outcome.TOO_MANY_REDIRECTS, detail=detail)
    return response._replace(fetch=fetch)


def report_of(fetch: Fetch, body: bytes, url: str, settings: Settings) -> HostReport:
    """What a host says about itself, by the last response to a request for its robots.txt."""
    if fetch.outcome is Outcome.OK:
        return _read(fetch.status, body, url, settings)
    is_answer = fetch.outcome.tells_rules or fetch.outcome in (Outcome.SERVER_ERROR, Outcome.TOO_MANY_REQUESTS)
    return HostReport(robots_status=fetch.status if is_answer else 0)


def _read(status: int, body: bytes, url: str, settings: Settings) -> HostReport:
    if len(body) >= settings.robots.max_bytes:
        body = body[: body.rfind(b"\n") + 1]  # drop the last rule, which may be incomplete
    text = body.decode("utf-8", "replace").removeprefix("\ufeff")
    rules = parse_robots(text, settings.user_agent)
    sitemaps = dict.fromkeys(normalize(sitemap, base=url) for sitemap in rules.sitemaps)
    return HostReport(
        robots_status=status,
        robots=text,
        crawl_delay_s=rules.crawl_delay(product_token(settings.user_agent)) or 0.0,
        sitemaps=[sitemap for sitemap in sitemaps if sitemap][:MAX_SITEMAPS],
    )
