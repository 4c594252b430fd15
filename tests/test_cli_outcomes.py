"""Nothing fails silently: seeds that give no page are named, with the reason, wherever a user looks; and `opilio explain`
says what became of any URL."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from command_line import call
from fetch_servers import DnsServer, ProxyServer, WebServer, closed_port, html, make_certificate, reply
from opilio import Collection
from opilio.model import Outcome
from web_portal import Portal

DEAD = {
    "http://nowhere.invalid/": "dns-failed",
    "http://refused.test:{closed}/": "connect-failed",
    "https://forged.test/": "tls-failed",
    "http://a.test/gone": "http-4xx",
    "http://a.test/moved": "http-4xx",
    "http://a.test/private/x": "robots",
    "http://127.0.0.1:{closed}/": "private-address",
}
"""Seeds, and what becomes of them; `moved` is redirected to another page that is gone."""
PAGE = html(b"<title>Owls</title><body><p>An owl hunts at night.</p></body>")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """The options that lead a crawl to a server with dead pages, without retries; and the dead seeds."""
    routes = {
        "/robots.txt": reply(b"User-agent: *\nDisallow: /private/\n", Content_Type="text/plain"),
        "/": PAGE, "/copy": PAGE, "/gone": reply(status="404 Not Found"), "/lost": reply(status="410 Gone"),
        "/moved": reply(status="301 Moved Permanently", Location="http://a.test/lost"),
    }  # fmt: skip
    _, context = make_certificate(tmp_path, "other.test")
    with WebServer(routes) as server, WebServer(routes, tls=context) as other, closed_port() as closed:
        connect_to = f'"a.test" = "{server.address}", "forged.test" = "{other.address}"'
        connect_to += f', "refused.test" = "127.0.0.1:{closed}"'
        options = ["fetch.connect_to={ " + connect_to + " }", "fetch.max_tries=1", "fetch.host_tries=1"]
        given = [word for option in options for word in ("--set", option)]
        yield [*given, "--workers", "-1", "--delay", "0"], [url.format(closed=closed) for url in DEAD]


def test_a_crawl_whose_seeds_are_all_dead_fails_and_says_how(
    tmp_path: Path, served: tuple[list[str], list[str]]
) -> None:
    """The summary counts the seeds by outcome and names them, the command fails, and nothing is proposed to look at;
    `status`, the ready question, JSON and the crawl page of the portal say the same."""
    options, dead = served
    (tmp_path / "seeds.txt").write_text("\n".join(dead))
    ended = call("crawl", tmp_path / "c", "--seeds", tmp_path / "seeds.txt", *options)
    assert ended.returncode == 1
    assert f"{tmp_path / 'c'}: frontier empty: no page was stored" in ended.stdout
    assert "seeds without a page: 7 of 7" in ended.stdout
    assert "Look:" not in ended.stdout and "opilio serve" not in ended.stdout
    for url in dead:
        assert f"      {url}\n" in ended.stdout
    for outcome in DEAD.values():
        count = list(DEAD.values()).count(outcome)
        assert f"    {outcome} {count}: " in ended.stdout
        assert f"{outcome} {count}" in ended.stderr.splitlines()[-2]
    assert ended.stderr.splitlines()[-1].startswith("hint: ")
    shown = call("status", tmp_path / "c").stdout
    assert shown[shown.index("seeds without") :] in ended.stdout
    listed = json.loads(call("sql", tmp_path / "c", "--question", "dead-seeds", "--format", "json").stdout)
    assert {row["url"]: row["outcome"] for row in listed} == dict(zip(dead, DEAD.values(), strict=True))
    assert {row["detail"] for row in listed if row["outcome"] == "http-4xx"} == {"status 404", "status 410"}
    again = call("crawl", tmp_path / "c", "--json")
    assert again.returncode == 1
    assert json.loads(again.stdout.splitlines()[-1])["dead_seeds"]["dead"] == 7
    with Portal(tmp_path) as portal:
        page = portal.get("/c/c/watch")[1]
    assert "Seeds without a page" in page
    assert all(url in page for url in dead)


def test_some_dead_seeds_are_named_and_the_crawl_succeeds(tmp_path: Path, served: tuple[list[str], list[str]]) -> None:
    """With one page stored the command succeeds and says where to look; the dead are listed with three URLs at most of
    each outcome, and the command that lists the others. When later no server is reached at all, the command fails."""
    options, dead = served
    lost = [f"http://a.test/lost?{n}" for n in range(5)]
    (tmp_path / "seeds.txt").write_text("\n".join(["http://a.test/", *lost, dead[0]]))
    folder = tmp_path / "my owls"
    ended = call("crawl", folder, "--seeds", tmp_path / "seeds.txt", *options)
    assert ended.returncode == 0
    assert "seeds without a page: 6 of 7" in ended.stdout
    assert "http-4xx 5: " in ended.stdout and sum(url in ended.stdout for url in lost) == 3
    assert f"opilio sql '{folder}' --question dead-seeds" in ended.stdout
    assert "Look:  opilio serve" in ended.stdout
    (tmp_path / "more.txt").write_text(dead[1])
    away = call("crawl", folder, "--seeds", tmp_path / "more.txt")
    assert away.returncode == 1
    assert "no server was reached" in away.stderr and "--retry-failed" in away.stderr
    rest = call("crawl", folder)
    assert rest.returncode == 1, "a host that does not answer is tried once more in each run"


def test_hosts_of_the_own_network_are_fetched_once_they_are_allowed(tmp_path: Path) -> None:
    """The hint of a crawl that was refused private addresses leads on: with the setting, the seed is fetched."""
    with WebServer({"/": PAGE}) as server:
        (tmp_path / "seeds.txt").write_text(f"http://{server.address}/")
        refused = call("crawl", tmp_path / "c", "--seeds", tmp_path / "seeds.txt", "--workers", "-1", "--delay", "0")
        assert refused.returncode == 1
        command = refused.stderr.splitlines()[-1].partition(": opilio ")[2].split()
        allowed = call(*command)
    assert allowed.returncode == 0
    assert Collection(tmp_path / "c").status().pages == 1


def test_explain_knows_every_url_that_the_crawl_has_met(tmp_path: Path, served: tuple[list[str], list[str]]) -> None:
    """Of a URL of each outcome: what became of it, also when it is spelled with another scheme, another slash at its end,
    or a fragment. One that was never seen is refused, with the nearest known URLs."""
    options, dead = served
    (tmp_path / "seeds.txt").write_text(
        "\n".join([*dead, "http://a.test/", "http://a.test/copy", "http://b.invalid/q"])
    )
    folder = tmp_path / "c"
    assert call("crawl", folder, "--seeds", tmp_path / "seeds.txt", *options).returncode == 0
    queued = "UPDATE crawl SET state = 'waiting', outcome = NULL, priority = 0.25 WHERE url LIKE '%/q'"
    call("sql", folder, "--write", queued)
    collection = Collection(folder)
    met = collection.sql("SELECT url, state, outcome FROM crawl").rows
    assert {outcome for _, _, outcome in met} >= {"robots", "http-4xx", "connect-failed", "ok", "redirect", None}
    for url, state, outcome in met:
        other = "https" if url.startswith("http:") else "http"
        spelled = f"{other}://{url.partition('://')[2].removesuffix('/')}#part"
        shown = call("explain", folder, spelled)
        assert shown.returncode == 0, (spelled, shown.stderr)
        known = collection.explain_link(spelled)
        assert (known["url"], known["state"], known["outcome"]) == (url, state, outcome)
        first, said = call("explain", folder, url, "--link").stdout.splitlines()[:2]
        assert first == url
        if outcome != "ok":
            assert said in shown.stdout
        if state == "waiting":
            assert said == "  queued, priority 0.250"
        elif known["redirected_to"]:
            assert said == "  redirected to http://a.test/lost"
        elif known["duplicate_of"]:
            assert said == f"  duplicate ({outcome}) of {known['duplicate_of']}"
        elif outcome == "ok":
            assert said == "  its page is stored"
        else:
            assert f"({outcome}): {Outcome(outcome).meaning}" in said
    unseen = call("explain", folder, "http://a.test/gnoe")
    assert unseen.returncode == 1 and "http://a.test/gnoe: this crawl has never seen it" in unseen.stderr
    assert "http://a.test/gone" in unseen.stderr.splitlines()[1].split()


def test_names_that_only_the_proxy_knows(tmp_path: Path) -> None:
    """Through a proxy, a crawl that cannot resolve names here fails without a request, names the setting that leaves
    names to the proxy, and works with it."""
    (tmp_path / "seeds.txt").write_text("http://owls.example/")
    routes = {"/": PAGE, "http://owls.example/": PAGE}  # the proxy shortens only the first request of a connection
    with WebServer(dict(routes)) as origin, ProxyServer(origin.port) as proxy, DnsServer({}) as dns:
        given = [f"fetch.proxy=http://{proxy.address}", f'fetch.dns_servers=["{dns.address}"]', "fetch.max_tries=1"]
        options = [word for option in [*given, "fetch.host_tries=1"] for word in ("--set", option)]
        ended = call(
            "crawl", tmp_path / "c", "--seeds", tmp_path / "seeds.txt", *options, "--workers", "-1", "--delay", "0"
        )
        assert (ended.returncode, proxy.requests) == (1, [])
        assert "fetch.proxy_resolves_names=true" in ended.stderr.splitlines()[-1]
        again = call("crawl", tmp_path / "c", "--retry-failed", "--set", "fetch.proxy_resolves_names=true")
        assert again.returncode == 0, again.stderr
        assert proxy.requests
