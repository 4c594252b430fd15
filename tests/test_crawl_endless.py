"""Sites without end come to an end with the default settings; a large honest site is crawled whole.

What takes many requests is crawled without a network and without waiting: the frontier, the absorber and the worker's
own reading of responses, by a clock of the test.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from endless_sites import HOSTILE, NOT_FOUND, EndlessServer, Site, honest, page, prose
from opilio import Collection
from opilio.analyze.sketch import bands
from opilio.crawl.absorb import Absorber
from opilio.crawl.ledger import Ledger
from opilio.crawl.messages import WorkerSetup
from opilio.crawl.status import Counters
from opilio.crawl.worker import Worker
from opilio.frontier import Duplicates, Frontier, ScopeFilter, make_strategy
from opilio.frontier.filters import RepeatGuard, folder_form
from opilio.model import Judgement, Lease, LeaseKind, Outcome, Visit, host_of
from opilio.model.url import path_of
from opilio.settings import Settings, TrapSettings, override
from opilio.store import WarcRecord

OVER_HTTP = ("maps", "sessions", "cookieless", "wild", "farm", "soft")


class DryCrawl:
    """A crawl without network, database and waiting."""

    def __init__(self, site: Site, relevance: Callable[[str], float] | None = None, **changes: object) -> None:
        given = {key.replace("__", "."): value for key, value in changes.items()}
        self.settings = override(Settings(), {"frontier.strategy": "best-first"} | given)
        self._site, self._relevance = site, relevance
        ledger = Ledger(Duplicates(self.settings.duplicates, bands), Counters())
        scope = ScopeFilter(self.settings.scope)
        self.frontier = Frontier(self.settings, make_strategy(self.settings.frontier), scope, ledger)
        self.absorber = Absorber(self.settings, self.frontier, ledger)
        self.leases: list[Lease] = []
        self.counts = ledger.counters.counts
        self._worker = Worker(WorkerSetup(dataclasses.asdict(self.settings), b"", "", "dry"), archive=False)

    def run(self, *seeds: str, requests: int = 5000) -> DryCrawl:
        """Crawl until nothing is queued, or that many requests are made."""
        now_s = 1000.0
        for url in seeds:
            self.absorber.offer(url, parent=-1, depth=0, relevance=1.0, topic=0, now_s=now_s)
        while len(self.leases) < requests:
            leases = self.frontier.take(now_s, 50)
            event_s = self.frontier.next_event_s()
            if not leases and event_s is None:
                break
            self.absorber.absorb_all([self._visit(lease, now_s) for lease in leases], now_s)
            self.leases += leases
            now_s += 0.05
            if not leases and event_s is not None:
                now_s = max(now_s, event_s)
        return self

    def pages(self) -> Counter[str]:
        """How many pages each host gave."""
        return Counter({host.name: host.pages for host in self.frontier.hosts})

    def outcomes(self) -> dict[str, int]:
        return self.absorber.counters.outcomes()

    def _visit(self, lease: Lease, now_s: float) -> Visit:
        head, _, body = self._site(host_of(lease.url), path_of(lease.url)).partition(b"\r\n\r\n")
        record = WarcRecord(lease.url, "127.0.0.1", now_s, head + b"\r\n\r\n", body, 0, 0)
        visit = self._worker.read_again(lease, record)
        if self._relevance is None or visit.document is None:
            return visit
        value = self._relevance(lease.url)
        return Visit(lease, visit.fetch, visit.document, judgement=Judgement(0, value > 0.5, value, value))


@pytest.fixture(scope="module")
def crawled(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Collection, EndlessServer, list[tuple[str, str]]]]:
    """Six hostile sites, crawled over HTTP at once; with the requests of that crawl."""
    folder = tmp_path_factory.mktemp("endless")
    (folder / "seeds.txt").write_text("\n".join(f"http://{name}.test/" for name in OVER_HTTP))
    with EndlessServer(**HOSTILE) as server:
        settings = {"fetch.connect_to": {"*.test": server.address}, "fetch.host_delay_s": 0.0, "run.workers": -1}
        settings |= {"robots.sitemaps": True, "fetch.per_domain": 50, "limits.max_time_s": 60}
        collection = Collection.create(folder / "c", seeds=folder / "seeds.txt", settings=settings)
        assert collection.crawl().reason.startswith("frontier empty")
        yield collection, server, server.asked()


def test_each_hostile_site_comes_to_an_end(
    crawled: tuple[Collection, EndlessServer, list[tuple[str, str]]],
) -> None:
    """Few requests go to each, few hosts are contacted, few pages are stored; the outcomes and counts say why."""
    collection, _, asked = crawled
    requests = Counter(host.split(".")[-2] for host, _ in asked)
    assert requests["maps"] <= 30
    assert max(requests["sessions"], requests["cookieless"]) <= 160
    assert requests["farm"] <= 70 and requests["soft"] <= 90
    assert len({host for host, _ in asked if host.endswith("wild.test")}) <= 267
    assert sum(path == "/robots.txt" for host, path in asked if host.endswith("wild.test")) <= 267
    rows = collection.sql("SELECT domain, outcome, count(*) FROM crawl JOIN hosts USING (sid) GROUP BY ALL").rows
    found = {(domain, outcome): count for domain, outcome, count in rows}
    assert found["wild.test", "domain-limit"] > 1000
    assert found["sessions.test", "repetitive"] > 100 and found["farm.test", "repetitive"] > 100
    assert found["soft.test", "soft-404"] > 20 and found["soft.test", "ok"] <= 15
    counters = collection.status().counters
    assert counters["sitemaps read"] == 20
    assert counters["sitemap indexes named by an index, not followed"] == 19


def test_a_soft_404_is_found_by_one_request(
    crawled: tuple[Collection, EndlessServer, list[tuple[str, str]]],
) -> None:
    """Each host gets at most one request for a page that should not exist, recorded as a visit; all real pages stay."""
    collection, _, _ = crawled
    visits = collection.sql(
        "SELECT sid, count(*) FROM visits JOIN hosts ON oid = -4398046511104 - sid GROUP BY sid"
    ).rows
    assert visits and {count for _, count in visits} == {1}
    assert collection.sql("SELECT DISTINCT kind FROM visits WHERE oid <= -4398046511104").rows == [("missing",)]
    real = collection.sql("SELECT count(*) FROM collection WHERE url LIKE 'http://soft.test/real/%'").rows
    assert real == [(10,)]
    [(url,)] = collection.sql("SELECT url FROM crawl WHERE outcome = 'soft-404' ORDER BY oid LIMIT 1").rows
    assert "soft-404" in str(collection.explain(url))


def test_what_was_learned_of_a_site_survives_a_restart(
    crawled: tuple[Collection, EndlessServer, list[tuple[str, str]]],
) -> None:
    """The next run of the same crawl makes next to no requests: counts of hosts and repeats are restored."""
    collection, server, before = crawled
    collection.crawl()
    assert len(server.asked()) - len(before) <= 5
    settings = {"limits.max_hosts_per_domain": 300, "limits.max_pages": collection.status().pages + 20}
    collection.change_settings(settings)
    collection.crawl()
    hosts = {host for host, _ in server.asked() if host.endswith("wild.test")}
    assert len(hosts) > 270, "a limit that was raised lets dropped hosts in again"


@pytest.mark.parametrize(
    ("name", "most"), [("archive", 700), ("calendar", 560), ("segments", 300), ("queries", 510), ("parameters", 510)]
)
def test_endless_forms_of_urls_are_bounded(name: str, most: int) -> None:
    """Lists, calendars, growing paths, queries and parameters end, though each page has words of its own."""
    crawl = DryCrawl(HOSTILE[name], fetch__host_delay_s=0.0).run(f"http://{name}.test/", requests=3000)
    assert 100 < len(crawl.leases) <= most
    assert crawl.outcomes()["trap"] > 0 and not crawl.frontier.waiting


@pytest.mark.parametrize("name", ["queries", "parameters"])
def test_bounds_hold_over_a_restart(tmp_path: Path, name: str) -> None:
    """What was followed in an earlier run counts in the next."""
    (tmp_path / "seeds.txt").write_text(f"http://{name}.test/")
    with EndlessServer(**HOSTILE) as server:
        settings = {"fetch.connect_to": {"*.test": server.address}, "fetch.host_delay_s": 0.0, "run.workers": -1}
        settings |= {"traps.max_queries_per_path": 15, "limits.max_pages": 2}
        collection = Collection.create(tmp_path / "c", seeds=tmp_path / "seeds.txt", settings=settings)
        collection.crawl()
        collection.crawl(settings={"limits.max_pages": 0})
    [(followed,)] = collection.sql("SELECT count(*) FROM crawl WHERE outcome <> 'trap' AND depth > 0").rows
    assert followed == 15


def test_a_large_honest_site_is_crawled_whole() -> None:
    """All list pages, posts, subdomains and sitemaps of a large site come, though it has more of each than any limit
    allows at first; with default delays. Its subdomains give relevant pages."""
    crawl = DryCrawl(honest, lambda url: 1.0 if ".honest" in url else 0.1, robots__sitemaps=True)
    crawl.run("http://honest.test/", requests=20_000)
    asked = Counter(path_of(lease.url).split("/")[1] for lease in crawl.leases if host_of(lease.url) == "honest.test")
    assert asked["news"] == 559 and asked["post"] == 4 * 559 and asked["found"] == 5 * 60
    assert crawl.counts["sitemaps read"] == 61
    assert sum(name.endswith(".honest.test") and count == 2 for name, count in crawl.pages().items()) == 300
    assert set(crawl.outcomes()) == {"ok", "http-4xx"}


def test_subdomains_that_give_nothing_are_not_contacted() -> None:
    """The same 300 subdomains without relevant pages, on a site that has nothing else: the limit holds, seeds do not
    count against it."""

    def site(host: str, path: str) -> bytes:
        links = [f"http://s{n}.many.test/" for n in range(900)] if host == "many.test" else []
        return NOT_FOUND if path == "/robots.txt" else page(prose(host), *links)

    seeds = [f"http://seed{n}.many.test/" for n in range(230)]
    crawl = DryCrawl(site, lambda url: 0.1).run("http://many.test/", *seeds)
    contacted = {lease.url for lease in crawl.leases if lease.kind is LeaseKind.HOST}
    assert len(contacted) == 231 + crawl.outcomes()["ok"] - 231
    assert 231 <= len(contacted) <= 320 and crawl.outcomes()["domain-limit"] >= 580


def test_folders_that_repeat_are_told_from_those_that_do_not() -> None:
    """Ids and numbers do not make another folder; a folder that repeats is left alone, and the rest of its host is not;
    each new page allows for three repeats."""
    assert (
        folder_form("http://a.test/s/9f8a7c/x.html") == folder_form("http://a.test/s/77c01b/y") == "http://a.test/s/*"
    )
    assert folder_form("http://a.test/(S(4f2b))/d/1") == "http://a.test/(S(*))/d"
    guard = RepeatGuard(TrapSettings(max_repeats=10))
    for n in range(40):
        guard.note(f"http://a.test/good/{n}", 0, is_new=True)
    for n in range(10):
        assert not guard.rejects(f"http://a.test/s/{n}/p", 0)
        guard.note(f"http://a.test/s/{n}/p", 0, is_new=False)
    assert guard.rejects("http://a.test/s/77/p", 0) and not guard.rejects("http://a.test/good/77", 0)
    guard.note("http://a.test/s/12/p", 0, is_new=True)
    assert not guard.rejects("http://a.test/s/77/p", 0)
    off = RepeatGuard(TrapSettings(max_repeats=0))
    off.note("http://a.test/x", 0, is_new=False)
    assert not off.rejects("http://a.test/y", 0)


@pytest.mark.parametrize("answers", ["404", "robots"])
def test_pages_that_look_alike_are_kept_where_there_is_no_soft_404(answers: str) -> None:
    """Where missing pages end with 404, or robots.txt forbids to look, pages with the same title and nearly the same
    words are pages."""

    def site(host: str, path: str) -> bytes:
        if path == "/robots.txt":
            return (b"HTTP/1.1 200 OK\r\n\r\nUser-agent: *\nDisallow: /item/*0\nDisallow: /item/*1" if answers == "robots"
                    else NOT_FOUND)  # fmt: skip
        if path != "/" and not path.startswith("/item/owl-"):
            return NOT_FOUND if answers == "404" else page("No such thing here at all", title="Shop")
        links = [f"/item/owl-{prose(str(n), 1)}" for n in range(30)] if path == "/" else []
        return page(f"Buy this fine owl {path.rpartition('-')[2]}", *links, title="Shop", anchor="item")

    crawl = DryCrawl(site).run("http://shop.test/")
    assert crawl.outcomes()["ok"] > 25 and Outcome.SOFT_404 not in crawl.outcomes()
    assert sum(lease.kind is LeaseKind.MISSING for lease in crawl.leases) <= 1
