"""The crawl page: its history is right whatever the number of pages, its events are shared, its buttons steer."""

import contextlib
import datetime
import http.client
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from browser import chromium, signed_in
from conftest import TAUGHT_TOPICS, MakeCollection
from dry_webs import GOOD, NEARBY, funds_collection
from made_crawls import MadeCrawl
from opilio import Collection
from opilio.crawl.history import WINDOW_PAGES, list_hosts, series
from opilio.crawl.operations.client import is_running
from opilio.lab.local_web import LocalServer
from opilio.store import Store
from running_crawls import crawl_beside, paused, wait_for, wait_until
from search_pages import Page, make_collection
from web_portal import TOKEN, Portal

API = "/api/c/collection"
MARKED = "'Investment' is wanted now; 'Investment / Mutual funds' is part of a wanted topic above now"


def made(folder: Path, relevances: list[float]) -> Store:
    """A store with a page for each relevance, a second apart, fetched in two runs with a night between them."""
    crawl = MadeCrawl()
    for relevance in relevances:
        crawl.add(kcid=3 if relevance >= 0.5 else 0, relevance=relevance)
    return crawl.fill(Store.create(folder))


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 8), min_size=1, max_size=60), st.integers(1, 80))
def test_the_harvest_is_a_moving_average(
    tmp_path_factory: pytest.TempPathFactory, eighths: list[int], points: int
) -> None:
    """At each point: the mean of the pages up to it that are in the window, by a plain sum; the last point is all."""
    relevances = [eighth / 8 for eighth in eighths]
    with made(tmp_path_factory.mktemp("made"), relevances) as store:
        told = series(store, points)
    harvest = told["harvest"]
    assert len(harvest) == min(points, len(relevances))
    assert harvest[-1]["pages"] == told["pages"] == len(relevances)
    for point in harvest:
        seen = relevances[: point["pages"]]  # fewer than the window has
        assert point["relevance"] == pytest.approx(sum(seen) / len(seen), abs=1e-3)
        assert point["relevant"] == pytest.approx(sum(one >= 0.5 for one in seen) / len(seen), abs=1e-3)


def test_live_figures_are_rounded_as_all_others_are(tmp_path: Path) -> None:
    """One relevant page of 16 is 6.2 % on the page as it was sent, after the figures were sent again, and on the front."""
    make_collection(tmp_path / "made", [Page(f"Owl {n}.", relevance=float(n == 0)) for n in range(16)])
    with Portal(tmp_path) as portal, chromium() as browser:
        page = signed_in(browser, portal.address)
        with page.expect_response("**/api/c/made/series"):  # asked for when the first figures have come
            page.goto(f"{portal.address}/c/made/watch")
        assert page.locator("[data-live=harvest]").inner_text() == "6.2%"
        assert 'data-live="harvest">6.2%' in portal.get("/c/made/watch")[1]
        assert "harvest 6.2%" in portal.get("/c/made/")[1]


def test_the_window_moves(tmp_path: Path) -> None:
    """Pages that are out of the window no longer count: after a fall, the average falls to the new rate."""
    fell = [1.0] * 500 + [0.0] * 500
    with made(tmp_path, fell) as store:
        harvest = series(store, 1000)["harvest"]
    for point in harvest:
        window = fell[max(0, point["pages"] - WINDOW_PAGES) : point["pages"]]
        assert point["relevance"] == pytest.approx(sum(window) / len(window), abs=1e-3), point
    assert harvest[-1]["relevance"] == 0.0


def test_time_is_time_of_crawling(tmp_path: Path) -> None:
    """A night between two runs is left out; pages a second, summed up, are the pages; marks stand where they belong."""
    with made(tmp_path, [1.0] * 40) as store:
        began = store.query("SELECT min(visited) FROM pages").rows[0][0]
        night = datetime.timedelta(hours=9)
        with store.writing() as connection:
            connection.execute("UPDATE pages SET visited = visited + INTERVAL 9 HOUR WHERE oid >= 20")
            connection.execute(
                "INSERT INTO visits SELECT oid, visited, 'page', 'ok', 200, '', 1, 1, '', 0, 0 FROM pages"
            )
            first, second = began + datetime.timedelta(seconds=20), began + night + datetime.timedelta(seconds=19.5)
            connection.execute("DELETE FROM runs")
            connection.execute("INSERT INTO runs VALUES (1, ?, ?, 'stopped', 20, '', '')", [began, first])
            connection.execute("INSERT INTO runs VALUES (2, ?, NULL, NULL, NULL, '', '')", [second])
            connection.execute("INSERT INTO notices VALUES (?, 'phase', NULL, 'harvesting', '', '')", [second])
        told = series(store, 100)
    assert told["crawled_s"] == pytest.approx(39.5, abs=0.1), (
        "the last page of the second run is the last that is known"
    )
    steps = [0.0, *(point["s"] for point in told["speed"])]
    counted = sum(
        point["pages_per_s"] * (end - start) for point, start, end in zip(told["speed"], steps, steps[1:], strict=False)
    )
    assert counted == pytest.approx(40, abs=1.5)
    [phase] = [mark for mark in told["marks"] if mark["kind"] == "phase"]
    assert (phase["s"], phase["pages"]) == (20.0, 20)
    assert [mark["text"] for mark in told["marks"] if mark["kind"] == "run"] == [
        "run 1 began", "run 1 ended: stopped", "run 2 began",
    ]  # fmt: skip


def test_a_collection_without_pages_has_a_history(tmp_path: Path) -> None:
    """Before the first crawl there is nothing to draw, and nothing fails."""
    with Store.create(tmp_path) as store:
        told = series(store)
        assert (told["pages"], told["harvest"], told["speed"], told["marks"]) == (0, [], [], [])
        assert list_hosts(store) == []


# -- a portal with crawls that run


@pytest.fixture
def taught(small_server: LocalServer, tmp_path: Path) -> Collection:
    """A collection whose crawl takes minutes, for it is polite."""
    (tmp_path / "bookmarks.html").write_text(small_server.web.bookmarks(TAUGHT_TOPICS), encoding="utf-8")
    chosen = {"fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 1.0, "run.workers": -1}
    chosen |= {"classify.classifier": "bayes", "fetch.backoff_s": 0.1}
    return Collection.create(tmp_path / "collection", bookmarks=tmp_path / "bookmarks.html", settings=chosen)


@contextlib.contextmanager
def crawling(place: Path) -> Iterator[Portal]:
    """A portal that has begun a crawl, which ends with it."""
    collection = Collection(place / "collection")
    with Portal(place) as portal:
        assert portal.ask("POST", f"{API}/crawl")[0] == 200
        try:
            wait_for(collection, lambda: portal.get(f"{API}/status")[1]["pages"] >= 5, 30)
            yield portal
        finally:
            portal.ask("POST", f"{API}/stop")
            wait_for(collection, lambda: not (place / "collection" / "engine.json").exists(), 30)


class Events:
    """Somebody who listens."""

    def __init__(self, portal: Portal) -> None:
        self.connection = http.client.HTTPConnection(portal.address.removeprefix("http://"), timeout=30)
        self.connection.request("GET", f"{API}/events")
        self.response = self.connection.getresponse()
        assert self.response.headers.get_content_type() == "text/event-stream"

    def next(self) -> dict[str, Any]:
        """The next figures."""
        while True:
            line = self.response.readline()
            assert line, "the stream ended"
            if line.startswith(b"data: "):
                told: dict[str, Any] = json.loads(line[6:])
                return told

    def until(self, **wanted: Any) -> dict[str, Any]:
        """The first figures that are so."""
        while True:
            told = self.next()
            if all(told[key] == value for key, value in wanted.items()):
                return told


def test_steering_by_the_api(taught: Collection, small_server: LocalServer) -> None:
    """Pause and resume, lock, boost, order and mark: each is told in a sentence, and the crawl does it."""
    with crawling(taught.folder.parent) as portal:
        listeners = [Events(portal) for _ in range(3)]
        assert portal.ask("POST", f"{API}/pause", token="")[0] == 403
        assert portal.ask("POST", f"{API}/pause") == (
            200, {"said": "paused: requests under way are finished", "running": True},
        )  # fmt: skip
        for listener in listeners:
            listener.until(paused=True, in_flight=0)
        small_server.clear_log()
        hosts = portal.get(f"{API}/hosts", top=3)[1]
        steered = max(hosts, key=lambda host: host["waiting"])["host"]
        code, told = portal.ask("POST", f"{API}/host", {"host": steered, "do": "boost", "factor": 5})
        assert code == 200 and "boosted" in told["said"] and told["urls"] > 0
        assert portal.get(f"{API}/status")[1]["boosts"] == {steered: 5.0}
        code, told = portal.ask("POST", f"{API}/host", {"host": steered, "do": "lock"})
        assert code == 200 and "locked" in told["said"] and told["urls"] > 0
        assert {host["host"]: host["locked"] for host in portal.get(f"{API}/hosts")[1]}[steered]
        assert portal.ask("POST", f"{API}/host", {"host": "a b", "do": "lock"})[0] == 400
        assert portal.ask("POST", f"{API}/host", {"host": steered, "do": "eat"})[0] == 422
        assert portal.ask("POST", f"{API}/policy", {"strategy": "sql", "order_by": "depth"})[0] == 200
        code, told = portal.ask("POST", f"{API}/policy", {"strategy": "sql", "order_by": "deepth"})
        assert code == 400 and "depth" in told["hint"]
        assert portal.ask("POST", f"{API}/mark", {"topic": TAUGHT_TOPICS[0], "good": False})[1]["changed"]
        assert small_server.requests() == [], "it was paused all the time"
        assert portal.ask("POST", f"{API}/resume")[1]["said"] == "the crawl goes on"
        listeners[0].until(paused=False)
        wait_for(taught, lambda: len(small_server.requests()) > 5, 20)
        assert steered not in {request.host for request in small_server.requests()}
        watch = portal.server.config.app.state.watches.of("collection")
        looks, began_s = watch.looks, time.monotonic()
        time.sleep(2.5)
        assert watch.looks - looks <= time.monotonic() - began_s + 1, "one look a second, for all who listen"
        portal.ask("POST", f"{API}/stop")
        for listener in listeners:
            assert listener.until(running=False)["reason"].startswith("stopped by")
            listener.connection.close()
    page = portal_page(taught)
    assert "stopped by" in page and steered in page


def test_events_where_no_crawl_runs(taught: Collection) -> None:
    """The figures come once, whoever asks; a server that ends does not wait for those who listen."""
    with Portal(taught.folder.parent) as portal:
        listeners = [Events(portal), Events(portal)]
        for listener in listeners:
            assert listener.next()["reason"] == "never crawled"
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 5
    for listener in listeners:
        assert listener.response.read().strip() == b"", "the stream ended as it should"
        listener.connection.close()


def portal_page(collection: Collection) -> str:
    """The crawl page when no crawl runs."""
    with Portal(collection.folder.parent) as portal:
        code, page = portal.get("/c/collection/watch")
        assert code == 200
        assert portal.get("/c/nobody/watch")[0] == portal.get("/api/c/nobody/events")[0] == 404
        return str(page)


def test_the_page_follows_a_crawl(taught: Collection) -> None:
    """In a real browser figures and charts move by themselves, and the buttons pause, go on and lock a host."""
    with crawling(taught.folder.parent) as portal, chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/collection/watch")
        page.locator("#harvest path.line").first.wait_for(state="attached")  # it is flat while all pages are relevant
        pages = page.locator("[data-live=pages]")
        page.locator("#harvest rect.catch").hover()
        assert "mean relevance" in page.locator("#harvest .readout").inner_text()
        before = int(pages.inner_text())
        wait_for(taught, lambda: int(pages.inner_text()) > before + 2, 20)
        page.get_by_role("button", name="Pause").click()
        page.locator("#now", has_text="paused").wait_for()
        page.get_by_role("button", name="Resume").wait_for()
        row = page.locator("[data-part=hosts] tbody tr").first
        host = row.locator("th").inner_text()
        page.locator("[data-part=hosts]").get_by_role("button", name=f"Lock {host}", exact=True).click()
        page.locator("[data-part=hosts]").get_by_role("button", name=f"Unlock {host}").wait_for()
        page.locator("#speed details summary").click()
        page.locator("#speed details tbody tr").nth(2).wait_for()
        page.get_by_role("button", name="Resume").click()
        page.locator("#now", has_text="crawling").wait_for()
        page.get_by_role("button", name="Stop").click()
        page.locator("#now", has_text="no crawl runs").wait_for()
        assert Axe().run(page).violations_count == 0
        page.get_by_role("button", name="Continue", exact=True).wait_for()
    assert host in Collection(taught.folder).settings.scope.locked_domains


# -- notices that can be acted on


@pytest.fixture
def dried_up(tmp_path: Path) -> Iterator[Collection]:
    """A crawl that has found all mutual funds there are, goes on, is paused, and has said so."""
    with funds_collection(tmp_path, fetch__host_delay_s=0.01) as collection:
        thread = crawl_beside(collection)
        other = Collection(collection.folder)
        wait_for(other, lambda: any(notice["kind"] == "dry" for notice in other.status().notices))
        paused(other)
        yield other
        other.stop()
        thread.join()


def test_a_notice_has_buttons(dried_up: Collection) -> None:
    """In a real browser: the crawl page says that the crawl finds hardly anything, and what can be done. A button marks
    the topic nearby good, and the crawl finds again; another one stops it."""
    with Portal(dried_up.folder.parent) as portal, chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/collection/watch")
        notices = page.locator("[data-part=notices]")
        notices.get_by_role("heading", name="The crawl finds hardly anything").wait_for()
        assert "opilio " not in notices.inner_text(), "a button says it better than a command"
        assert Axe().run(page).violations_count == 0
        link = notices.get_by_role("link", name="Answer the questions")
        assert link.get_attribute("href") == "/c/collection/questions"
        relevant = dried_up.status().relevant
        notices.get_by_role("button", name=f"Mark {NEARBY} wanted").click()
        notices.locator(".tag", has_text="done").wait_for()
        assert page.locator("#said").inner_text() == MARKED
        marks = {topic["path"]: topic["mark"] for topic in dried_up.topics()}
        assert (marks[NEARBY], marks[GOOD]) == ("good", "subsumed")
        page.get_by_role("button", name="Resume").click()
        wait_for(dried_up, lambda: dried_up.status().relevant > relevant + 20)
        notices.get_by_role("button", name="Stop the crawl").click()
        page.locator("#now", has_text="no crawl runs").wait_for()
        page.goto(f"{portal.address}/c/collection/")
        page.get_by_role("link", name="what you can do").first.click()
        page.wait_for_url("**/watch#notices")


def test_a_notice_has_buttons_without_javascript(dried_up: Collection) -> None:
    """Plain forms do the same; who is not signed in only reads, and a foreign form changes nothing."""
    place = "/c/collection/watch"
    with Portal(dried_up.folder.parent) as portal, chromium() as browser:
        page = browser.new_context(java_script_enabled=False).new_page()
        page.goto(portal.address + place)
        notices = page.locator("[data-part=notices]")
        assert "hardly anything" in notices.inner_text()
        assert not notices.get_by_role("button").count()
        page.goto(f"{portal.address}/login")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.goto(portal.address + place)
        cookies = {cookie["name"]: cookie["value"] for cookie in page.context.cookies()}
        foreign = page.request.post(portal.address + place, form={"operation": "stop", "arguments": "{}"})
        assert cookies and foreign.status == 403 and is_running(dried_up.folder)
        notices.get_by_role("button", name=f"Mark {NEARBY} wanted").click()
        notices.locator(".tag", has_text="done").wait_for()
        assert page.url == portal.address + place
        notices.get_by_role("button", name="Stop the crawl").click()
        wait_until(lambda: not is_running(dried_up.folder))


def test_remedies_by_the_api(dried_up: Collection) -> None:
    """What a notice proposes can be sent as it is; other operations and settings are refused. To change settings, the
    crawl is stopped, and goes on with them."""
    remedy = f"{API}/remedy"
    with Portal(dried_up.folder.parent) as portal:
        [notice] = [one for one in portal.get(f"{API}/status")[1]["notices"] if one["kind"] == "dry"]
        sent = {name: notice["remedies"][0][name] for name in ("operation", "arguments")}
        assert portal.ask("POST", remedy, sent, token="")[0] == 403
        assert portal.ask("POST", remedy, sent) == (200, {"said": MARKED})
        order = {"operation": "policy", "arguments": {"strategy": "breadth-first"}}
        assert portal.ask("POST", remedy, order)[1] == {"said": "ordered by breadth-first"}
        onward = {"operation": "crawl", "arguments": {"settings": {"learn.retrain_after": 200}}}
        assert portal.ask("POST", remedy, {"operation": "stop"})[1] == {"said": "stopping"}
        wait_until(lambda: not is_running(dried_up.folder))
        assert portal.ask("POST", remedy, {"operation": "sql", "arguments": {"sql": "SELECT 1"}})[0] == 422
        assert portal.ask("POST", remedy, {"operation": "mark", "arguments": {"topic": NEARBY, "x": 1}})[0] == 400
        other = {"operation": "crawl", "arguments": {"settings": {"store.warc_url": "/tmp"}}}
        assert portal.ask("POST", remedy, other)[0] == 400
        assert portal.ask("POST", remedy, {"operation": "train"})[1]["said"].startswith("model ")
        assert portal.ask("POST", remedy, onward) == (200, {"said": "the crawl runs"})
        assert Collection(dried_up.folder).settings.learn.retrain_after == 200
        onward["arguments"] = {"settings": {"learn.retrain_after": 300}}
        assert portal.ask("POST", remedy, onward) == (200, {"said": "the crawl runs"}), "it is stopped before"
        assert Collection(dried_up.folder).settings.learn.retrain_after == 300
        portal.ask("POST", f"{API}/stop")
        wait_until(lambda: not is_running(dried_up.folder))


@pytest.fixture
def crawling_server(make_collection: MakeCollection, small_server: LocalServer) -> Iterator[Collection]:
    """A collection in which a slow crawl runs."""
    collection = make_collection(list(small_server.web.pages)[:30], fetch__host_delay_s=0.3)
    thread = threading.Thread(target=collection.crawl)
    thread.start()
    wait_until(lambda: is_running(collection.folder))
    yield Collection(collection.folder)
    collection.stop()
    thread.join()


def test_the_page_shows_a_boost_where_it_counts(crawling_server: Collection) -> None:
    """A host is shown as boosted when it is, by its own name or by one above it."""
    host = crawling_server.hosts()[0]["host"]
    crawling_server.boost_host(host.partition(".")[2], 5)
    with Portal(crawling_server.folder.parent) as portal:
        text = portal.get("/c/collection/watch")[1]
    assert "\u00d7 5" in text


def test_pages_in_a_browser(crawling_server: Collection) -> None:
    """Charts of days and of times with a zone are drawn; a crawl page that nobody sees keeps no connection."""
    queries = [
        "SELECT DATE '2026-01-01' + i::INTEGER AS day, i AS pages FROM range(5) t(i)",
        "SELECT TIMESTAMPTZ '2026-01-01 10:00:00+02' + INTERVAL (i) HOUR AS at, i AS pages FROM range(5) t(i)",
        "SELECT TIMESTAMP '2026-01-01 10:00:00.25' + INTERVAL (i) HOUR AS at, i AS pages FROM range(5) t(i)",
    ]
    with Portal(crawling_server.folder.parent) as portal, chromium() as browser:
        page = signed_in(browser, portal.address)
        for sql in queries:
            page.goto(f"{portal.address}/c/collection/sql?sql={quote(sql)}")
            line = page.locator("#drawn path.line")
            line.wait_for()
            assert "NaN" not in str(line.get_attribute("d"))
        page.goto(f"{portal.address}/c/collection/watch")
        state = portal.server.config.app.state  # type: ignore[union-attr]
        wait_until(lambda: hasattr(state, "watches"))
        watch = state.watches.of("collection")
        wait_until(lambda: len(watch._listeners) == 1)
        for hidden, listeners in ((True, 0), (False, 1)):
            page.evaluate(
                f"Object.defineProperty(document, 'hidden', {{ value: {str(hidden).lower()}, configurable: true }})"
            )
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
            wait_until(lambda wanted=listeners: len(watch._listeners) == wanted)  # type: ignore[misc]
