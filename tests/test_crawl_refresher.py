"""A standing crawl: pages are visited again when they are due, and what changed is known."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetch_servers import WebServer, html
from killed_crawls import kill_a_crawl
from opilio import Collection
from opilio.crawl import Status
from opilio.crawl.refresher import WINDOW_REQUESTS, RevisitShare
from opilio.crawl.steering import TAKEN_UP
from opilio.errors import CollectionBusy, SettingsError
from opilio.settings import RevisitSettings
from opilio.store import Batch, Store
from opilio.store.revisits import due_pages, upcoming
from running_crawls import ORDERLESS, running
from store_rows import NOW_S, add_host, add_page, add_url

DAY_S = 86_400.0
WORDS = {"/a": "owls hunt at night", "/b": "hawks hunt by day", "/c": "gulls live by the sea"}
QUICK = {"revisit.keep_fresh": True, "revisit.first_s": 0.2, "revisit.min_s": 0.2, "revisit.max_s": 0.8}


def page(words: str, *links: str) -> bytes:
    anchors = " ".join(f'<a href="{link}">to {link}</a>' for link in links)
    return html(f"<title>{words}</title><body><p>{words} {words}</p>{anchors}</body>".encode())


@pytest.fixture
def server() -> Iterator[WebServer]:
    """A hub with two pages."""
    with WebServer({"/": page("birds", "/a", "/b"), **{path: page(words) for path, words in WORDS.items()}}) as made:
        made.routes["/robots.txt"] = html(b"")
        yield made


@pytest.fixture
def collection(server: WebServer, tmp_path: Path) -> Collection:
    """A collection that starts at the hub."""
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("http://birds.test/")
    settings: dict[str, Any] = {
        "fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0, "fetch.backoff_s": 0.05,
        "store.batch_s": 0.1, "run.workers": -1, **QUICK, **{k.replace("__", "."): v for k, v in ORDERLESS.items()},
    }  # fmt: skip
    return Collection.create(tmp_path / "c", seeds=seeds, settings=settings)


def until(is_so: Callable[[], bool]) -> Callable[[Status], bool]:
    """Ends a crawl when something is so; and fails when it never is."""
    deadline_s = time.monotonic() + 30

    def tick(_: Status) -> bool:
        assert time.monotonic() < deadline_s
        return not is_so()

    return tick


def revisits(collection: Collection) -> dict[str, tuple[Any, ...]]:
    sql = "SELECT url, n, changes, change_interval_s, epoch(r.lastvisited - first_visited) FROM revisits r JOIN crawl USING (oid)"
    return {url.removeprefix("http://birds.test"): rest for url, *rest in collection.sql(sql).rows}


def test_pages_are_visited_again_and_changes_are_counted(collection: Collection, server: WebServer) -> None:
    """The crawl goes on when no URL is queued; the interval between changes is that of the formula, by hand."""
    versions = iter(range(1000))

    async def changing(_: bytes, __: Any, writer: Any) -> None:
        writer.write(page(f"owls version {next(versions)}"))
        await writer.drain()

    server.routes["/a"] = changing
    status = collection.crawl(on_tick=until(lambda: server.paths().count("/b") >= 4))
    assert status.reason == "stopped by its caller"
    assert status.pages == 3 and collection.sql("SELECT count(*) FROM pages").rows == [(3,)]
    found = revisits(collection)
    assert set(found) == {"/", "/a", "/b"}
    n, changes, interval_s, watched_s = found["/a"]
    assert n == changes >= 3
    assert interval_s == pytest.approx(watched_s / n / math.log((n + 0.5) / 0.5), rel=1e-6)
    assert found["/b"][1:3] == [0, None] and found["/b"][0] >= 3
    assert collection.sql("SELECT url FROM collection WHERE change_interval_s IS NOT NULL").rows == [
        ("http://birds.test/a",)
    ]
    assert collection.sql("SELECT text FROM collection WHERE url LIKE '%/a'").rows[0][0].count("version") == 2


def test_links_come_and_go(collection: Collection, server: WebServer) -> None:
    """A link that stays keeps its first time; one that is gone has its last; a new one is followed."""

    def change() -> bool:
        if server.paths().count("/") == 2:
            server.routes["/"] = page("birds of the sea", "/a", "/c")
        return server.paths().count("/c") >= 1 and server.paths().count("/") >= 4

    status = collection.crawl(on_tick=until(change))
    assert status.pages == 4, "the new page was fetched"
    sql = """
        SELECT d.url, epoch(first_seen), epoch(last_seen), gone FROM link_history JOIN crawl s ON s.oid = oid_src
        JOIN crawl d ON d.oid = oid_dst ORDER BY d.url, gone
    """
    (_, a_first, a_last, a_gone), (_, b_first, b_last, b_gone), (_, c_first, c_last, c_gone) = collection.sql(sql).rows
    assert (a_gone, b_gone, c_gone) == (False, True, False)
    assert a_first == b_first <= b_last < c_first <= c_last == a_last
    assert collection.sql("SELECT count(*) FROM links").rows == [(2,)]


def test_the_status_says_what_is_next(collection: Collection) -> None:
    """While it waits, and when it has ended: which page is due first, and when."""
    collection.change_settings({"revisit.first_s": 500.0, "revisit.max_s": 900.0})
    with running(collection, pages=3) as (other, _):
        deadline_s = time.monotonic() + 10
        while not other.status().next_due_url:
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        now = other.status()
        assert now.running and now.due_pages == 0 and now.next_due_s is not None
        assert 400 < now.next_due_s - time.time() < 500
        with pytest.raises(CollectionBusy, match="re-judges pages by itself"):
            other.classify()
    after = collection.status()
    assert after.next_due_url == "http://birds.test/" and not after.running


def test_a_limit_ends_it(collection: Collection, server: WebServer) -> None:
    """Time limits hold; so does politeness: no two requests to the host are closer than its delay."""
    status = collection.crawl(settings={"limits.max_time_s": 1.5, "fetch.host_delay_s": 0.1})
    assert status.reason.startswith("time limit reached")
    assert 4 < len(server.requests) <= 16
    with pytest.raises(SettingsError, match=r"as many pages as limits\.max_pages"):
        collection.crawl(settings={"limits.max_pages": 3})
    collection.change_settings({"limits.max_pages": 0})
    with pytest.raises(SettingsError, match="max_pages_per_host"):
        collection.crawl(settings={"limits.max_pages_per_host": 5})
    with pytest.raises(SettingsError, match=r"revisit.min_s"):
        collection.crawl(settings={"limits.max_pages_per_host": 0, "revisit.min_s": 9.0})


def test_a_page_that_fails_stays_and_is_tried_again(collection: Collection, server: WebServer) -> None:
    """A page that is gone for a while keeps its row, is tried after the longest interval, and is fresh again then."""
    good = server.routes["/b"]
    times = []

    def fail() -> bool:
        times.append(server.paths().count("/b"))
        if times[-1] == 2:
            server.routes.pop("/b", None)
        if times[-1] == 3:
            server.routes["/b"] = good
        return times[-1] >= 5

    collection.crawl(on_tick=until(fail), settings={"fetch.max_tries": 1})
    assert collection.sql("SELECT state, outcome FROM crawl JOIN pages USING (oid) WHERE url LIKE '%/b'").rows in (
        [("fetched", "ok")], [("fetched", "not-modified")], [("waiting", "not-modified")], [("waiting", "ok")]
    )  # fmt: skip
    assert collection.sql("SELECT count(*) FROM pages").rows == [(3,)]


def test_a_bad_host_is_tried_again(collection: Collection, server: WebServer) -> None:
    """A host that does not respond any more is given up, and tried again by one request at a time, after twice as long
    each time. Once it responds, all its pages are visited again, and a new link is followed. Another host answers all
    the time, so that the network cannot be to blame."""
    server.routes["/b"] = page(WORDS["/b"], "http://owls.test/o")
    good, tries = dict(server.routes), []
    server.routes["/o"] = page("owls")

    async def fail(request: bytes, _: Any, writer: asyncio.StreamWriter) -> None:
        if b"Host: owls.test" in request:
            writer.write(good["/robots.txt"])
            return
        tries.append(time.monotonic())
        await asyncio.sleep(5)

    def is_back() -> bool:
        if not tries and {"/a", "/b", "/o"} <= set(server.paths()):
            server.routes.update(dict.fromkeys(good, fail))
        elif len(tries) >= 5 and server.routes["/"] is fail:
            server.requests.clear()
            server.routes.update(good)
            server.routes["/"] = page("birds are back", "/c")
        return len(tries) >= 5 and {"/", "/a", "/b", "/c"} <= set(server.paths())

    settings = {"fetch.max_tries": 1, "fetch.host_tries": 2, "fetch.max_backoff_s": 0.0, "fetch.per_host": 1}
    settings |= {"fetch.total_timeout_s": 0.5, "revisit.bad_host_s": 0.2, "revisit.max_s": 20.0}
    status = collection.crawl(on_tick=until(is_back), settings=settings)
    waits = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert waits[1] >= 0.7 and waits[2] >= 0.9 and waits[3] >= 1.3, waits
    assert status.bad_hosts == 0 and status.counters[TAKEN_UP] >= 4
    assert collection.sql("SELECT count(*) FROM crawl WHERE state IN ('failed', 'dropped')").rows == [(0,)]


@given(st.floats(0.01, 1.0), st.lists(st.tuples(st.integers(1, 300), st.booleans()), max_size=60))
def test_the_share_holds_over_the_latest_requests(share: float, steps: list[tuple[int, bool]]) -> None:
    """Whatever came before: never more revisits than the share of a window, and after a window without any, as many as
    that. `True` stands for a time without new URLs, when every request is a revisit."""
    counted, requests = RevisitShare(share), 0
    for count, is_idle in steps:
        room = counted.room(requests)
        assert room <= share * WINDOW_REQUESTS
        counted.queue(count if is_idle else max(0, min(count, room)), requests)
        requests += count
    most = int(share * WINDOW_REQUESTS)
    assert counted.room(requests + WINDOW_REQUESTS) == most
    counted.queue(most, requests + WINDOW_REQUESTS)
    assert counted.room(requests + 2 * WINDOW_REQUESTS - 1) == 0


def test_a_killed_standing_crawl_loses_nothing(collection: Collection, server: WebServer) -> None:
    """Killed while it visits pages again, and continued without: every page is there once, and nothing is left over."""
    collection.change_settings({"revisit.max_s": 0.3})
    kill_a_crawl(collection, 0.05, lambda: server.paths().count("/a") >= 3)
    status = collection.crawl(settings={"revisit.keep_fresh": False})
    assert status.reason.startswith("frontier empty")
    assert collection.sql("SELECT count(*), count(DISTINCT oid) FROM pages").rows == [(3, 3)]
    assert collection.sql("SELECT count(*) FROM links").rows == [(2,)]
    assert collection.sql("SELECT DISTINCT state FROM crawl").rows == [("fetched",)]


# -- which page is due


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Four pages, of which the hub 2 is the best and page 3 could not be fetched again."""
    with Store.create(tmp_path) as made:
        batch = Batch()
        add_host(batch, 0)
        for oid in range(4):
            add_url(batch, oid)
            add_page(batch, oid, visited=NOW_S + oid)
        batch.changes.add(3, 1, "failed", "http-404", 1, 0.5, 0.5, 0.0, NOW_S + 3)
        made.write(batch)
        with made.writing() as to:
            to.execute("INSERT INTO hubs VALUES (2, 0.9), (1, 0.1)")
        yield made


def test_when_pages_are_due(store: Store) -> None:
    """First after first_s; then after the estimated interval, within bounds; unchanged ones after as long as known."""
    settings = RevisitSettings(first_s=DAY_S, min_s=3600.0, max_s=30 * DAY_S)
    first = upcoming(store, settings, NOW_S)
    assert (first.due, first.next_url, first.next_s) == (0, "http://host0.test/0", NOW_S + DAY_S)
    due = [one.oid for one in due_pages(store, settings, NOW_S + DAY_S + 5, 10)]
    assert due == [2, 1, 0], "the best hubs first; what failed comes after the longest interval"
    assert [one.oid for one in due_pages(store, settings, NOW_S + 31 * DAY_S, 10)][-1] == 3
    assert due_pages(store, settings, NOW_S + DAY_S + 5, 10, without=[(0, "http")]) == []
    batch = Batch()
    batch.revisits.add(0, NOW_S + 10 * DAY_S, None)
    batch.revisits.add(1, NOW_S + 10 * DAY_S, 4711)
    batch.changes.add(0, 1, "fetched", "not-modified", 1, 0.5, 0.5, 0.0, NOW_S + 10 * DAY_S)
    batch.changes.add(1, 1, "fetched", "ok", 1, 0.5, 0.5, 0.0, NOW_S + 10 * DAY_S)
    store.write(batch)
    interval_s = (10 * DAY_S - 1) / math.log(3)  # n = X = 1: -ln(0.5 / 1.5)
    assert store.query("SELECT change_interval_s FROM revisits ORDER BY oid").rows == [
        (None,), (pytest.approx(interval_s),)
    ]  # fmt: skip
    later = NOW_S + 10 * DAY_S + interval_s
    assert 1 not in [one.oid for one in due_pages(store, settings, later - 5, 10)]
    assert 1 in [one.oid for one in due_pages(store, settings, later + 5, 10)]
    assert 0 not in [one.oid for one in due_pages(store, settings, NOW_S + 20 * DAY_S - 5, 10)]
    assert 0 in [one.oid for one in due_pages(store, settings, NOW_S + 20 * DAY_S + 5, 10)]


def test_the_estimate_by_hand(store: Store) -> None:
    """Ten visits a day apart, four of which found a change: -ln(6.5 / 10.5) changes a day."""
    for day in range(1, 11):
        batch = Batch()
        batch.revisits.add(2, NOW_S + 2 + day * DAY_S, 99 if day <= 4 else None)
        store.write(batch)
    [(n, changes, interval_s)] = store.query("SELECT n, changes, change_interval_s FROM revisits").rows
    assert (n, changes) == (10, 4)
    assert interval_s / DAY_S == pytest.approx(1 / -math.log(6.5 / 10.5))
