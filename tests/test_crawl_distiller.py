"""Link analysis beside a crawl: what great hubs recommend is fetched sooner, and nothing is lost by a kill."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from killed_crawls import KILLABLE, fetched, kill_a_crawl
from opilio import Collection
from opilio.crawl.absorb import Absorber
from opilio.crawl.distiller import Distiller
from opilio.crawl.engine import Engine
from opilio.crawl.ledger import Ledger
from opilio.crawl.status import Counters
from opilio.frontier import Duplicates, Frontier, ScopeFilter, make_strategy
from opilio.lab.local_web import LocalServer
from opilio.lab.webs import RecordedWeb
from opilio.lab.webs.transport import RecordedTransport
from opilio.model import CrawlProgress
from opilio.settings import Settings, override
from opilio.store import Store
from webs import Page, Web

GOOD = "Owls hunt at night. The owl is a bird: barn owl, eagle owl, tawny owl, snowy owl, little owl."
SOME = "An owl was seen beside the harbour, the church, the mill, the bridge, the school and the old market."
NONE = "Trams, timetables, tickets, platforms, stations, delays, fares, routes, lines, doors, seats and drivers."
TREASURES, FILLERS = 5, 20

MakeCrawl = Callable[..., Collection]


def named(name: str, text: str, links: list[str]) -> Page:
    """A page of its own host; its words differ a little from those of the others."""
    return Page(f"{text} {name}", name, f"http://{name}.test/", links=tuple((f"http://{to}.test/", to) for to in links))


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> RecordedWeb:
    """Pages about owls; some of them only hubs know, whose own words say nothing of owls.

    The page `middling` has some owls and leads to many fillers, which an order by relevance of the parent prefers.
    """
    known, treasures = [f"known{i}" for i in range(8)], [f"treasure{i}" for i in range(TREASURES)]
    fillers = [f"filler{i}" for i in range(FILLERS)]
    hubs = {"hub0": [*known, *treasures], "hub1": [*known[:6], *treasures[:4]], "hub2": known[:3]}
    pages = [named("seed", GOOD, [*known, *hubs, "middling"]), named("middling", SOME, fillers)]
    pages += [named(name, NONE, links) for name, links in hubs.items()]
    pages += [named(name, GOOD, []) for name in (*known, *treasures)]
    pages += [named(name, NONE, []) for name in fillers]
    return Web(pages).recorded(tmp_path_factory.mktemp("web") / "owls")


@pytest.fixture
def make_crawl(web: RecordedWeb, tmp_path: Path) -> MakeCrawl:
    """Crawls that web one request at a time, and gives the collection."""

    def crawl(name: str = "owls", on_tick: Any = lambda status: None, **changes: Any) -> Collection:
        (tmp_path / "seeds.txt").write_text("http://seed.test/")
        settings: dict[str, Any] = {
            "fetch.host_delay_s": 0.0, "fetch.in_flight": 1, "learn.synchronous": True, "classify.classifier": "keywords",
            "frontier.hub_percentile": 0.4, "frontier.distill_method": "hits", "duplicates.near_jaccard": 0.0, "duplicates.ip_size": "off",
            "duplicates.ip_path": "off", "frontier.strategy": "best-first",
        }  # fmt: skip
        settings.update({key.replace("__", "."): value for key, value in changes.items()})
        made = Collection.create(
            tmp_path / name, seeds=tmp_path / "seeds.txt", query="owl owls bird", settings=settings
        )
        made.crawl(transport=RecordedTransport(web, made.settings), on_tick=on_tick)
        return made

    return crawl


def order_of(collection: Collection) -> list[str]:
    """The names of the pages in the order in which they were asked for."""
    sql = "SELECT url FROM visits JOIN crawl USING (oid) WHERE kind = 'page' ORDER BY visits.rowid"
    return [url.removeprefix("http://").removesuffix(".test/") for (url,) in collection.sql(sql).rows]


def last_treasure(order: list[str]) -> int:
    return max(order.index(name) for name in order if name.startswith("treasure"))


@pytest.mark.parametrize("hot_urls", [25_000, 12])
def test_what_great_hubs_recommend_is_fetched_sooner(make_crawl: MakeCrawl, hot_urls: int) -> None:
    """Pages that only hubs know come before what a better page leads to, whether they wait in memory or not."""
    plain = order_of(make_crawl("plain", frontier__hot_urls=hot_urls))
    boosted = order_of(make_crawl("boosted", frontier__hot_urls=hot_urls, frontier__distill_after=5))
    assert sorted(plain) == sorted(boosted) and len(boosted) == len(set(boosted))
    assert last_treasure(plain) == len(plain) - 1
    assert last_treasure(boosted) < len(boosted) - FILLERS // 2


def test_the_same_crawl_twice(make_crawl: MakeCrawl) -> None:
    """When it waits for what works beside it, a crawl with link analysis is the same each time."""
    first, second = (make_crawl(name, frontier__distill_after=5) for name in ("first", "second"))
    assert order_of(first) == order_of(second)
    scores = "SELECT * FROM link_scores ORDER BY kcid, oid"
    assert first.sql(scores).rows == second.sql(scores).rows


def test_estimates_and_scores_are_in_the_database(make_crawl: MakeCrawl) -> None:
    """Waiting URLs rise there too, so that an order in SQL sees it, and a later crawl goes on with it."""
    stopped = make_crawl(frontier__distill_after=12, limits__max_pages=13)
    waiting = stopped.sql("SELECT url, relevance FROM frontier ORDER BY relevance DESC, oid").rows
    assert order_of(stopped)[-1] == "treasure0"  # the 13th page
    assert all("treasure" in url for url, _ in waiting[: TREASURES - 1]), waiting
    assert waiting[0][1] > 0.5
    best = [url for (url,) in stopped.sql("SELECT url FROM hubs JOIN crawl USING (oid) ORDER BY score DESC").rows]
    assert best[:2] == ["http://seed.test/", "http://hub0.test/"]
    recommended = stopped.sql("SELECT url FROM frontier WHERE authority_score > 0").rows
    assert recommended == [("http://middling.test/",)]  # the only one that a page about owls links to
    assert stopped.sql("SELECT count(*) FROM link_scores WHERE kcid = 0 AND hub > 0").rows[0][0] >= 4
    counters = stopped.status().counters
    assert counters["link analyses"] == 2 and counters["pages at the latest link analysis"] == 13
    assert counters["URLs raised by hubs"] == TREASURES


def test_a_later_crawl_goes_on_where_hubs_point(make_crawl: MakeCrawl, web: RecordedWeb) -> None:
    """After a restart what rose comes first, without another analysis."""
    collection = make_crawl(frontier__distill_after=12, limits__max_pages=13)
    before = len(order_of(collection))
    changes = {"limits.max_pages": 0, "frontier.distill_after": 0}
    collection.crawl(settings=changes, transport=RecordedTransport(web, collection.settings))
    assert all(name.startswith("treasure") for name in order_of(collection)[before : before + TREASURES - 1])


@pytest.mark.parametrize("method", ["weighted", "hits", "focus"])
def test_links_are_analysed_when_a_crawl_ends(make_crawl: MakeCrawl, method: str) -> None:
    """Scores are stored by default, once, by the method of the settings; the queue is not touched by it."""
    collection = make_crawl(frontier__distill_method=method, limits__max_pages=14)
    assert collection.sql("SELECT count(*) > 0 FROM auth").rows == [(True,)]
    counters = collection.status().counters
    assert counters["link analyses"] == 1 and "URLs raised by hubs" not in counters
    shown = [page["url"] for page in collection.distill(method=method, top=3)["authorities"]]
    stored = collection.sql("SELECT url FROM auth JOIN crawl USING (oid) ORDER BY score DESC, oid LIMIT 3").rows
    assert [url for (url,) in stored] == shown


def test_no_analysis_without_judgements(make_crawl: MakeCrawl) -> None:
    """A crawl that judges nothing ends without one."""
    collection = make_crawl(store__terms=False)
    assert "link analyses" not in collection.status().counters


def due_after(pages: int, before: int, judged: int, after: int) -> bool:
    """Whether links are analysed in such a state."""
    settings = override(Settings(), {"frontier.distill_after": after})
    counters = Counters({"pages": pages}, CrawlProgress(pages_at_analysis=before))
    ledger = Ledger(Duplicates(settings.duplicates, lambda _: []), counters)
    frontier = Frontier(settings, make_strategy(settings.frontier), ScopeFilter(settings.scope), ledger)
    absorber = Absorber(settings, frontier, ledger)
    distiller = Distiller(settings, cast(Store, None), absorber, lambda: asyncio.sleep(0))
    counters.add("pages re-judged", judged)
    return distiller._is_due()


@pytest.mark.parametrize(
    ("pages", "before", "judged", "after", "due"),
    [
        (0, 0, 0, 1000, False),
        (49, 0, 0, 1000, False),
        (50, 0, 0, 1000, True),
        (99, 50, 0, 1000, False),
        (100, 50, 0, 1000, True),
        (2500, 2000, 0, 1000, False),
        (3000, 2000, 0, 1000, True),
        (2500, 2000, 500, 1000, True),
        (5, 0, 0, 5, True),
        (5000, 0, 0, 0, False),
    ],
)
def test_when_links_are_analysed(pages: int, before: int, judged: int, after: int, due: bool) -> None:
    """After so many pages stored or judged anew, and earlier when the pages have doubled; never with 0."""
    assert due_after(pages, before, judged, after) is due


def test_restart_from_hubs(make_crawl: MakeCrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the best hubs link to comes next as if the user had named it; for an order that looks at depths too."""
    asked: list[asyncio.Task[int]] = []
    check_end = Engine._check_end

    async def restart_at_13(engine: Engine) -> None:
        if engine.counters.pages == 13 and not asked:
            await engine.distiller.distill_now()
            asked.append(asyncio.ensure_future(engine.distiller.restart_from_hubs(3)))
            await asked[0]
        await check_end(engine)

    monkeypatch.setattr(Engine, "_check_end", restart_at_13)
    collection = make_crawl(frontier__strategy="breadth-first", frontier__hot_urls=10)
    order = order_of(collection)
    assert asked[0].result() == TREASURES
    assert all(name.startswith("treasure") for name in order[13 : 13 + TREASURES]), order
    depths = collection.sql("SELECT DISTINCT depth, relevance >= 0.5 FROM crawl WHERE url LIKE '%treasure%'").rows
    assert depths == [(0, True)]


@pytest.mark.parametrize("hubs_first", [3, 0])
def test_hubs_come_first_at_each_retraining(
    make_crawl: MakeCrawl, monkeypatch: pytest.MonkeyPatch, hubs_first: int
) -> None:
    """Once pages were re-judged by a new model, what the best hubs link to is fetched next (BINGO 2.5)."""
    trained: list[int] = []
    check_end = Engine._check_end

    async def trained_at_13(engine: Engine) -> None:
        if engine.counters.pages == 13 and not trained:
            trained.append(13)
            engine.counters.add("models trained")
        await check_end(engine)

    monkeypatch.setattr(Engine, "_check_end", trained_at_13)
    collection = make_crawl(frontier__hubs_first=hubs_first)
    order = order_of(collection)
    assert all(name.startswith("treasure") for name in order[13 : 13 + TREASURES]) is (hubs_first > 0), order
    assert collection.status().counters.get("URLs put first by hubs", 0) == (TREASURES if hubs_first else 0)


def test_an_analysis_that_fails_is_told(make_crawl: MakeCrawl, monkeypatch: pytest.MonkeyPatch) -> None:
    """The crawl goes on, and says what happened."""

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("opilio.crawl.distiller.analyse", fail)
    collection = make_crawl(frontier__distill_after=20)
    status = collection.status()
    assert status.counters["link analyses that failed"] == 2  # during the crawl, and when it ends
    assert "no room" in status.notices[-1]["text"] and status.notices[-1]["remedy"]
    assert status.reason.startswith("frontier empty")


def test_kills_while_links_are_analysed(small_server: LocalServer, tmp_path: Path) -> None:
    """Killed again and again, a crawl with link analysis ends with the pages of one that was left alone."""
    (tmp_path / "seeds.txt").write_text("http://directory.test/")

    def make(name: str, **changes: Any) -> Collection:
        settings = {key.replace("__", "."): value for key, value in KILLABLE.items()}
        settings |= {"fetch.connect_to": small_server.connect_to, "fetch.backoff_s": 0.1, "frontier.hot_urls": 150}
        settings |= {"frontier.distill_method": "hits"}
        settings |= {key.replace("__", "."): value for key, value in changes.items()}
        query = "statistics mean variance"
        return Collection.create(tmp_path / name, seeds=tmp_path / "seeds.txt", query=query, settings=settings)

    undisturbed = make("undisturbed", fetch__host_delay_s=0.0)
    killed = make("killed", frontier__distill_after=20, frontier__hub_percentile=0.5, learn__synchronous=True)
    undisturbed.crawl()
    rng = random.Random(3)
    for _ in range(2):
        kill_a_crawl(killed, 0.3 + 0.3 * rng.random())
    killed.crawl(settings={"fetch.host_delay_s": 0.0})
    assert fetched(killed) == fetched(undisturbed)
    assert killed.sql("SELECT count(*) - count(DISTINCT oid) FROM pages").rows == [(0,)]
    assert killed.sql("SELECT count(*) FROM crawl WHERE state = 'waiting'").rows == [(0,)]
    assert killed.status().counters["link analyses"] > 1
    assert killed.sql("SELECT count(*) FROM hubs").rows[0][0] > 0  # how many URLs were raised may be lost in a kill
