"""The first visit to a host, and what its rules allow."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetch_servers import DnsServer, WebServer, closed_port, html, reply, to_server
from opilio import settings as settings_module
from opilio.fetch import Client, Response, RobotsRules, contact_host
from opilio.fetch.robots import product_token
from opilio.model import HostReport, Lease, LeaseKind, Outcome

AGENT = "Opilio/0.1 (+https://c.test/bot)"
RULES = b"""\xef\xbb\xbf# hello
User-agent: *
Disallow: /private
Crawl-delay: 2.5
Allow: /private/open
Disallow: /*.cgi$

User-agent: OtherBot
Disallow: /
Sitemap: /map.xml
sitemap: http://www.a.test/map.xml
Sitemap: not a scheme:
"""


def meet(config: settings_module.Settings, url: str = "http://a.test/robots.txt") -> tuple[Response, HostReport]:
    """Meet one host."""

    async def run() -> tuple[Response, HostReport]:
        client = Client(config)
        try:
            return await contact_host(client, Lease(7, url, LeaseKind.HOST), config)
        finally:
            await client.aclose()

    return asyncio.run(run())


def meet_with(answer: Any, **routes: bytes) -> tuple[Response, HostReport]:
    """Meet a host whose robots.txt is `answer`."""
    with WebServer({"/robots.txt": answer} | {f"/{name}": body for name, body in routes.items()}) as server:
        return meet(to_server(server.address))


def rules(text: str, status: int = 200, agent: str = AGENT) -> RobotsRules:
    """The rules of a text."""
    return RobotsRules(HostReport(status, text), agent)


def test_rules_delay_and_sitemaps() -> None:
    """A good robots.txt gives its text, the delay meant for us and sitemaps in normal form."""
    response, report = meet_with(reply(RULES, Content_Type="application/octet-stream"))
    assert (response.fetch.outcome, response.fetch.ip) == (Outcome.OK, "127.0.0.1")
    assert (report.robots_status, report.crawl_delay_s) == (200, 2.5)
    assert report.robots.startswith("# hello")
    assert report.sitemaps[:2] == ["http://a.test/map.xml", "http://www.a.test/map.xml"]
    checked = RobotsRules(report, AGENT)
    answers = {path: checked.allows(f"http://a.test{path}") for path in ("/", "/private", "/private/open", "/x.cgi")}
    assert answers == {"/": True, "/private": False, "/private/open": True, "/x.cgi": False}


@pytest.mark.parametrize(
    ("answer", "status", "outcome", "allowed"),
    [
        (reply(status="404 Not Found"), 404, Outcome.CLIENT_ERROR, True),
        (reply(status="403 Forbidden"), 403, Outcome.CLIENT_ERROR, True),
        (reply(status="429 Slow"), 429, Outcome.TOO_MANY_REQUESTS, False),  # it asks us to come back later
        (reply(status="500 Oops"), 500, Outcome.SERVER_ERROR, False),
        (reply(status="503 Busy"), 503, Outcome.SERVER_ERROR, False),
        (reply(status="302 Found"), 302, Outcome.BAD_REDIRECT, True),
        (reply(status="302 Found", Location="/robots.txt"), 302, Outcome.TOO_MANY_REDIRECTS, True),
        (b"nonsense\r\n\r\n", 0, Outcome.BROKEN, False),
        (reply(b""), 200, Outcome.OK, True),
        (html(b"<html>welcome"), 200, Outcome.OK, True),
        (reply(b"\x00\xff\xfe" * 100), 200, Outcome.OK, True),
        (reply(b"Disallow: /\n"), 200, Outcome.OK, True),
    ],
)
def test_what_rfc_9309_asks(answer: bytes, status: int, outcome: Outcome, allowed: bool) -> None:
    """No robots.txt allows all, one that cannot be reached forbids all, one that says nothing allows all."""
    response, report = meet_with(answer)
    assert (response.fetch.outcome, report.robots_status) == (outcome, status)
    assert RobotsRules(report, AGENT).allows("http://a.test/x") is allowed


def test_unreachable_host_forbids_all() -> None:
    """A refused connection and an unknown name give the status 0."""
    with closed_port() as port, DnsServer({}) as dns_server:
        config = to_server(f"127.0.0.1:{port}", dns_servers=(dns_server.address,))
        for url in ("http://a.test/robots.txt", "http://none.example/robots.txt"):
            response, report = meet(config, url)
            assert report.robots_status == 0
            assert response.fetch.outcome.blames_host
            assert not RobotsRules(report, AGENT).allows(url[:-10])


def test_redirects_are_followed_also_to_other_hosts() -> None:
    """Five redirects are followed; the address reported is that of the host we came to meet."""
    hops = {f"hop{n}": reply(status="301 Moved", Location=f"http://h{n}.test/hop{n + 1}") for n in range(1, 5)}
    last = reply(b"User-agent: *\nDisallow: /last", Content_Type="text/plain")
    first = reply(status="301 Moved", Location="//www.a.test/hop1")
    response, report = meet_with(first, **hops, hop5=last)
    assert (report.robots_status, response.fetch.ip) == (200, "127.0.0.1")
    assert not RobotsRules(report, AGENT).allows("http://a.test/last")


def test_redirect_into_a_private_network_is_refused() -> None:
    """Each hop's address is checked: robots.txt cannot send us to a private host."""
    response, report = meet_with(reply(status="302 Found", Location="http://10.0.0.1/robots.txt"))
    assert (response.fetch.outcome, report.robots_status) == (Outcome.PRIVATE_ADDRESS, 0)
    assert response.fetch.ip == "127.0.0.1"


def test_long_robots_are_cut_at_a_line() -> None:
    """A file past the limit is read to the last whole line within it: half a rule could forbid everything."""
    body = b"User-agent: *\n" + b"Disallow: /abc\n" * 1000
    with WebServer({"/robots.txt": reply(body, Content_Type="text/plain")}) as server:
        config = dataclasses.replace(
            to_server(server.address), robots=settings_module.RobotsSettings(max_bytes=14 + 15 * 10 + 11)
        )
        response, report = meet(config)
    assert response.fetch.outcome is Outcome.OK
    assert report.robots.count("Disallow") == 10
    assert report.robots.endswith("/abc\n")
    assert RobotsRules(report, AGENT).allows("http://a.test/x")


def test_robots_not_obeyed() -> None:
    """When told not to obey, nothing is asked and everything allowed, but the address is known."""
    with WebServer({"/robots.txt": reply(b"User-agent: *\nDisallow: /")}) as server:
        config = dataclasses.replace(to_server(server.address), robots=settings_module.RobotsSettings(obey=False))
        response, report = meet(config)
    assert (report.robots_status, response.fetch.ip) == (-1, "127.0.0.1")
    assert not server.requests
    assert RobotsRules(report, AGENT).allows("http://a.test/x")


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("User-agent: opilio\nDisallow: /x\nUser-agent: *\nAllow: /", False),
        ("User-agent: OPILIO/2.0\nDisallow: /x", False),
        ("User-agent: *\nDisallow: /x\nUser-agent: Opilio\nAllow: /x", True),
        ("User-agent: Opi\nDisallow: /x", True),
        ("User-agent: Opilionid\nDisallow: /x", True),
        ("User-agent: a\nUser-agent: Opilio\nUser-agent: b\nDisallow: /x", False),
        ("User-agent: Opilio\nDisallow:\nUser-agent: b\nDisallow: /x", True),
        ("User-agent: Opilio\nDisallow: /y\nUser-agent: b\nDisallow: /x\nUser-agent: opilio\nDisallow: /x", False),
        ("User-agent: Opilio\nSitemap: /s\nDisallow: /x", False),
        ("Disallow: /x\nUser-agent: *\nAllow: /", True),
        ("user-agent : * # all\r\ndisallow : /x # secret", False),
        ("User-agent: *\n\nDisallow: /x", False),
    ],
)
def test_groups(text: str, allowed: bool) -> None:
    """The group that names our product token counts, else the one for all; groups of others never do."""
    assert rules(text).allows("http://a.test/x") is allowed


@given(
    st.lists(
        st.sampled_from(
            ["User-agent: *", "User-agent: Opilio", "User-agent: b", "Disallow: /a", "Disallow: /", "Allow: /a/b",
             "Disallow:", "", "# x", "Sitemap: /s", "Disallow: /*c$", "Crawl-delay: 3"]
        ),
        max_size=14,
    ),
    st.sampled_from(["/", "/a", "/a/b", "/a/b/c", "/z"]),
)  # fmt: skip
def test_leaving_out_other_groups_changes_no_answer(lines: list[str], path: str) -> None:
    """Parsing only what concerns us gives the same answer as parsing everything."""
    from protego import Protego

    text = "\n".join(lines)
    url = f"http://a.test{path}"
    assert rules(text).allows(url) is bool(Protego.parse(text).can_fetch(url, "Opilio"))


@given(st.text(max_size=500))
def test_any_text_is_survived(text: str) -> None:
    """No robots.txt, however broken, raises."""
    assert rules(text).allows("http://a.test/x?y=1") in (True, False)


HUGE = {
    "plain": "User-agent: *\n" + "".join(f"Disallow: /dir{n}/sub\n" for n in range(20_000)),
    "wildcards": "User-agent: *\n" + "".join(f"Disallow: /*dir{n}*sub$\n" for n in range(20_000)),
    "backtracking": "User-agent: *\nDisallow: " + "*a" * 240_000 + "b",
    "agents": "".join(f"User-agent: a{n}\n" for n in range(20_000))
    + "User-agent: *\n"
    + "".join(f"Disallow: /x{n}\n" for n in range(10_000)),
}


@pytest.mark.parametrize("kind", HUGE)
def test_huge_robots_stay_cheap(kind: str) -> None:
    """The largest file we read, built to hurt, is parsed within a second or so and answers in well under one."""
    begin_s = time.process_time()
    huge = rules(HUGE[kind])
    parsed_s = time.process_time()
    for n in range(5):
        huge.allows(f"http://a.test/{'a' * 900}{n}")
    assert parsed_s - begin_s < 3
    assert (time.process_time() - parsed_s) / 5 < 0.5


def test_answers_are_remembered() -> None:
    """The second question for a path costs no matching."""
    huge = rules(HUGE["wildcards"])
    huge.allows("http://a.test/x")
    begin_s = time.process_time()
    for _ in range(1000):
        huge.allows("http://a.test/x")
    assert time.process_time() - begin_s < 0.1


@pytest.mark.parametrize(
    ("agent", "token"), [(AGENT, "Opilio"), ("Opilio", "Opilio"), ("My Bot/1", "My"), ("", "*"), ("/1", "*")]
)
def test_product_token(agent: str, token: str) -> None:
    """The token is the first word before the slash."""
    assert product_token(agent) == token
