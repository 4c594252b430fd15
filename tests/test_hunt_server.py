"""Defects of the server, of reading while crawls come and go, and of steering: each was there once."""

import http.client
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from browser import chromium, signed_in
from conftest import MakeCollection, MakeTaught
from opilio import Collection
from opilio.crawl.operations.client import NOTE, ask, is_running
from opilio.errors import InputError, QueryError
from opilio.lab.local_web import LocalServer
from opilio.settings import FILE_NAME, load
from opilio.store import Store
from web_portal import TOKEN, Portal


def wait_for(is_so: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Wait until something is so."""
    until_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def make(place: Path, name: str = "birds") -> Collection:
    """A collection in which nothing was fetched."""
    (place / "seeds.txt").write_text("http://nobody.test/")
    return Collection.create(place / name, seeds=place / "seeds.txt")


def raw(portal: Portal, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """The status, headers and body of an answer."""
    connection = http.client.HTTPConnection(portal.address.removeprefix("http://"), timeout=30)
    connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, dict(response.getheaders()), content


# -- the server


def test_a_defect_of_ours_has_the_form_of_errors(tmp_path: Path) -> None:
    """What nobody foresaw is an error and a hint for programs and a page for people, with the headers of all pages."""

    def broken() -> None:
        raise ZeroDivisionError("secret words of the code")

    portal = Portal(tmp_path)
    for path in ("/api/broken", "/broken"):
        portal.server.config.app.add_api_route(path, broken)  # type: ignore[union-attr]
    with portal:
        status, headers, body = raw(portal, "GET", "/api/broken")
        assert status == 500
        assert set(json.loads(body)) == {"error", "hint"}
        assert headers["content-security-policy"]
        status, headers, body = raw(portal, "GET", "/broken")
        assert status == 500
        assert b"<h1>" in body
        assert b"secret words" not in body
        assert headers["content-security-policy"]


def test_a_stranger_cannot_fill_the_memory(tmp_path: Path) -> None:
    """A body is not even read of somebody who may not change anything, nor one that is larger than any we know."""
    with Portal(tmp_path) as portal:
        for path in ("/api/login", "/api/collections"):
            listener = socket.create_connection(("127.0.0.1", int(portal.address.rpartition(":")[2])), timeout=10)
            with listener:
                head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                listener.sendall(f"{head}Content-Length: 50000000\r\n\r\n".encode())
                assert listener.recv(100).split()[1] in (b"403", b"413"), path  # though not a byte of it was sent
        status, _, body = raw(
            portal, "POST", "/api/login", iter([b'{"token": ', b'"x"}']), Content_Type="application/json"
        )
        assert status == 411
        assert set(json.loads(body)) == {"error", "hint"}
        assert (
            raw(portal, "POST", "/api/collections", Authorization=f"Bearer {TOKEN}", Content_Length="70000000")[0]
            == 413
        )


def test_heads_are_answered(tmp_path: Path) -> None:
    """Whoever asks for the head of a page gets that of the page, without the page."""
    make(tmp_path)
    with Portal(tmp_path) as portal:
        for path in ("/collections", "/c/birds/watch", "/api/c/birds/status"):
            status, headers, body = raw(portal, "HEAD", path)
            assert (status, body) == (200, b""), path
            assert headers["content-type"] == raw(portal, "GET", path)[1]["content-type"]
        assert raw(portal, "HEAD", "/c/none/watch")[0] == 404
        status, headers, _ = raw(portal, "PUT", "/api/c/birds/status", Authorization=f"Bearer {TOKEN}")
        assert status == 405
        assert "GET" in headers["allow"]


def test_many_changes_at_once_do_not_block_the_server(tmp_path: Path) -> None:
    """A hundred clicks at once are all answered: those that wait for their turn leave room for the one that has it."""
    make(tmp_path)
    with Portal(tmp_path) as portal, ThreadPoolExecutor(100) as pool:
        answers = list(
            pool.map(
                lambda n: portal.ask("POST", "/api/c/birds/host", {"host": f"h{n}.test", "do": "lock"})[0], range(100)
            )
        )
        assert set(answers) <= {200, 503}
        assert answers.count(200) > 10
        assert portal.get("/c/birds/watch")[0] == 200


def test_two_portals_do_not_sign_each_other_out(tmp_path: Path) -> None:
    """Browsers send cookies to every port of a machine: each portal has a cookie of its own."""
    with Portal(tmp_path) as one, Portal(tmp_path) as two:
        jar: dict[str, str] = {}
        for portal in (one, two):
            set_ = raw(portal, "POST", "/api/login", json.dumps({"token": TOKEN}), Content_Type="application/json")[1]
            name, _, value = set_["set-cookie"].partition(";")[0].partition("=")
            jar[name] = value
        assert len(jar) == 2


@pytest.mark.parametrize("name", ["a#b", "100%", "50%25", "ä ö", "a&b;c"])
def test_a_collection_of_any_name_is_found(tmp_path: Path, name: str) -> None:
    """A server of one collection leads to it, whatever its folder is called."""
    make(tmp_path, name)
    with Portal(tmp_path / name) as portal:
        status, text = portal.get("/")
        assert status == 200
        assert "Search (press /)" in text


def test_one_bad_collection_does_not_hide_the_others(tmp_path: Path) -> None:
    """A folder with settings or a database that cannot be read is listed with what is wrong; the others as ever."""
    make(tmp_path, "good")
    (make(tmp_path, "typo").folder / FILE_NAME).write_text("[fetch]\nno_such_thing = 1\n")
    (make(tmp_path, "torn").folder / "collection.duckdb").write_bytes(b"not a database at all" * 1000)
    with Portal(tmp_path) as portal:
        status, text = portal.get("/collections")
        assert status == 200
        assert "no_such_thing" in text
        status, listed = portal.get("/api/collections")
        assert status == 200
        assert [(row["name"], row["pages"]) for row in listed] == [("good", 0), ("torn", None), ("typo", None)]
        assert portal.get("/c/good/watch")[0] == 200


def test_folders_that_may_not_be_read_are_no_collections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of somebody else beside the collections hides none of them."""
    make(tmp_path)
    (tmp_path / "private").mkdir()
    stat = os.stat

    def refused(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        if "private/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, *args, **kwargs)

    with Portal(tmp_path) as portal:
        monkeypatch.setattr(os, "stat", refused)
        assert portal.get("/collections")[0] == 200


def test_a_folder_that_is_gone_is_an_error_page(tmp_path: Path) -> None:
    """When the folder of all collections is taken away, the server says so."""
    (tmp_path / "shelf").mkdir()
    with Portal(tmp_path / "shelf") as portal:
        (tmp_path / "shelf").rmdir()
        assert portal.get("/api/collections") == (200, [])


# -- reading while crawls come and go


def test_a_note_that_names_the_port_of_another_crawl(make_collection: MakeCollection, tmp_path: Path) -> None:
    """After a kill, the port in the note may be that of another collection's crawl: then none runs here."""
    rest = make(tmp_path, "rest")
    runs = make_collection(["http://a.test/"])
    asked: list[Any] = []

    def look(status: Any) -> None:
        if not asked:
            note = json.loads((runs.folder / NOTE).read_text())
            (rest.folder / NOTE).write_text(json.dumps({**note, "token": "of a crawl that was killed"}))
            asked.append(None)

    thread = threading.Thread(target=lambda: asked.append(runs.crawl(on_tick=look)))
    runs.change_settings({"fetch.host_delay_s": 0.5, "limits.max_time_s": 4})
    thread.start()
    wait_for(lambda: bool(asked))
    try:
        assert ask(rest.folder, "status") is None
        assert not rest.status().running
    finally:
        runs.stop()
        thread.join()


def test_a_crawl_begins_while_pages_are_read(
    small_server: LocalServer, make_collection: MakeCollection, tmp_path: Path
) -> None:
    """Readers that follow each other without a gap do not keep a crawl from beginning."""
    collection = make_collection(["http://a.test/"], fetch__host_delay_s=0.3, run__workers=1)
    slow = "SELECT count(*) FROM range(400000000)"
    ended = threading.Event()
    with Portal(tmp_path) as portal:

        def read() -> None:
            while not ended.is_set():
                portal.get("/api/c/collection/sql", sql=slow)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for number, thread in enumerate(threads):
            thread.start()
            time.sleep(0.2 * number)
        try:
            status, told = portal.ask("POST", "/api/c/collection/crawl", {})
            assert (status, told.get("error")) == (200, None)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
            collection.stop()
            wait_for(lambda: not is_running(collection.folder))


def test_a_crawl_killed_can_be_begun_again(
    small_server: LocalServer, make_collection: MakeCollection, tmp_path: Path
) -> None:
    """Begun by the portal and killed: pages say so at once, and it can be begun again, twice by a double click."""
    seeds = list(small_server.web.pages)[:40]
    collection = make_collection(seeds, fetch__host_delay_s=0.2, run__workers=1)
    count = "SELECT count(*) FROM pages"
    with Portal(tmp_path) as portal:
        for _ in range(2):
            assert portal.ask("POST", "/api/c/collection/crawl", {})[0] == 200
            wait_for(lambda: bool(portal.get("/api/c/collection/sql", sql=count)[1]["rows"][0][0]))  # it is committed
            pid = json.loads((collection.folder / NOTE).read_text())["pid"]
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: not is_running(collection.folder))
            status, told = portal.get("/api/c/collection/status")
            assert (status, told["running"], told["reason"]) == (200, False, "it was killed")
            counted = portal.get("/api/c/collection/sql", sql=count)[1]["rows"][0][0]
            assert told["pages"] == counted > 0
            assert portal.get("/c/collection/watch")[0] == 200
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda _: portal.ask("POST", "/api/c/collection/crawl", {}), range(2)))
        assert 200 in [status for status, _ in answers]
        assert is_running(collection.folder)
        collection.stop()
        wait_for(lambda: not is_running(collection.folder))


def test_an_answer_is_bounded_in_size(tmp_path: Path) -> None:
    """A query with long values fills no memory: rows beyond some megabytes are left out, and it is said."""
    with Portal(tmp_path) as portal:
        make(tmp_path)
        sql = "SELECT repeat('x', 1000000) AS long FROM range(300)"
        status, told = portal.get("/api/c/birds/sql", sql=sql)
        assert status == 200
        assert told["truncated"]
        assert 1 <= len(told["rows"]) < 200
        assert portal.get("/c/birds/sql", sql=sql)[0] == 200


# -- steering


def test_two_settings_changed_at_once_are_both_kept(tmp_path: Path) -> None:
    """Tabs that lock hosts and change the order at the same time do not undo each other."""
    make(tmp_path)
    with Portal(tmp_path) as portal, ThreadPoolExecutor(8) as pool:
        wishes: list[tuple[str, dict[str, Any]]] = [("host", {"host": f"h{n}.test", "do": "lock"}) for n in range(12)]
        wishes.insert(5, ("policy", {"strategy": "breadth-first"}))
        answers = list(pool.map(lambda wish: portal.ask("POST", f"/api/c/birds/{wish[0]}", wish[1]), wishes))
    assert {status for status, _ in answers} == {200}
    settings = load(tmp_path / "birds" / FILE_NAME)
    assert {f"h{n}.test" for n in range(12)} <= set(settings.scope.locked_domains)
    assert settings.frontier.strategy == "breadth-first"


def test_settings_changed_by_a_collection_opened_before(tmp_path: Path) -> None:
    """Two programs that opened a collection each change one setting: both are kept."""
    first = make(tmp_path)
    second = Collection(first.folder)
    first.lock_host("a.test")
    second.lock_host("b.test")
    first.policy("breadth-first")
    second.change_settings({"limits.max_pages": 7})
    settings = Collection(first.folder).settings
    assert {"a.test", "b.test"} <= set(settings.scope.locked_domains)
    assert settings.frontier.strategy == "breadth-first"
    assert settings.limits.max_pages == 7


def test_locks_of_two_tabs_reach_the_crawl(make_collection: MakeCollection, small_server: LocalServer) -> None:
    """While a crawl runs, locks that come at once are all locked: in it and in the settings."""
    collection = make_collection(list(small_server.web.pages)[:30], fetch__host_delay_s=0.2)
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(collection.crawl()))
    thread.start()
    try:
        wait_for(lambda: is_running(collection.folder))
        hosts = [f"h{n}.test" for n in range(10)]
        opened = [Collection(collection.folder) for _ in hosts]
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(lambda pair: pair[0].lock_host(pair[1]), zip(opened, hosts, strict=True)))
        opened[0].policy("breadth-first")
        assert set(hosts) <= set(load(collection.folder / FILE_NAME).scope.locked_domains)
        opened[3].unlock_host(hosts[4])
    finally:
        collection.stop()
        thread.join()
    assert hosts[4] not in load(collection.folder / FILE_NAME).scope.locked_domains


@pytest.mark.parametrize(
    "left", ["state = 'waiting', outcome = 'timeout'", "state = 'dropped', outcome = 'locked-domain'"]
)
def test_a_page_is_not_stored_twice(make_collection: MakeCollection, small_server: LocalServer, left: str) -> None:
    """A recrawl that was killed between two tries, or refused by a lock since taken back, replaces pages all the same."""
    collection = make_collection(list(small_server.web.pages)[:5], limits__max_depth=1)
    collection.crawl()
    with Store.open(collection.folder) as store:
        before = store.query("SELECT count(*), count(DISTINCT oid) FROM pages").rows[0]
        store.query(f"UPDATE crawl SET {left} WHERE state = 'fetched' AND outcome = 'ok'", write=True)
        store.query("UPDATE pages SET content_hash = 0, shingles = NULL", write=True)  # all have changed
    collection.crawl()
    with Store.open(collection.folder) as store:
        assert store.query("SELECT count(*), count(DISTINCT oid) FROM pages").rows[0] == before
        assert store.query("SELECT count(*) FROM crawl WHERE state = 'waiting'").rows[0][0] == 0


@pytest.mark.parametrize("is_phased", [True, False])
@pytest.mark.parametrize("strategy", ["best-first", "best-n-first", "sql"])
def test_an_order_given_while_learning_loses_no_seed(
    make_taught: MakeTaught, small_server: LocalServer, strategy: str, is_phased: bool
) -> None:
    """An order that comes while examples are awaited lets all of them come before any link; a harvest follows it."""
    phases = {"learn__phases": True, "learn__learning_pages": 30} if is_phased else {}
    collection = make_taught(learn__synchronous=True, **phases)
    changed: list[Any] = []

    def change(status: Any) -> None:
        if not changed and status.in_flight:
            changed.append(threading.Thread(target=apply))
            changed[0].start()

    def apply() -> None:
        order = "relevance DESC" if strategy == "sql" else ""
        ask(collection.folder, "_change_order", {"strategy": strategy, "order_by": order, "n": 0})

    ended = collection.crawl(on_tick=change)
    changed[0].join()
    seeds = collection.sql("SELECT state, outcome, count(*) FROM crawl JOIN seeds USING (url) GROUP BY ALL").rows
    assert not [row for row in seeds if row[0] == "waiting"], seeds
    visited = "SELECT url IN (SELECT url FROM seeds) FROM pages JOIN crawl USING (oid) ORDER BY pages.visited"
    are_seeds = [is_seed for (is_seed,) in collection.sql(visited).rows]
    assert are_seeds == sorted(are_seeds, reverse=True)
    assert collection.sql("SELECT count(*) FROM models").rows[0][0] > 0
    assert ended.strategy == strategy
    if is_phased:
        assert any("harvesting" in notice["text"] for notice in ended.notices)


@pytest.fixture
def crawling(make_collection: MakeCollection, small_server: LocalServer) -> Iterator[Collection]:
    """A collection in which a slow crawl runs."""
    collection = make_collection(list(small_server.web.pages)[:30], fetch__host_delay_s=0.3)
    thread = threading.Thread(target=collection.crawl)
    thread.start()
    wait_for(lambda: is_running(collection.folder))
    yield Collection(collection.folder)
    collection.stop()
    thread.join()


def test_the_page_shows_a_boost_where_it_counts(crawling: Collection) -> None:
    """A host is shown as boosted when it is, by its own name or by one above it."""
    host = crawling.hosts()[0]["host"]
    crawling.boost_host(host.partition(".")[2], 5)
    with Portal(crawling.folder.parent) as portal:
        text = portal.get("/c/collection/watch")[1]
    assert "\u00d7 5" in text


# -- talking to a crawl


def test_an_answer_that_json_has_no_form_for(crawling: Collection) -> None:
    """A crawl says what it cannot send; it is not taken for one that does not run."""
    with pytest.raises(QueryError, match="cannot be sent"):
        crawling.sql("SELECT MAP {DATE '2020-01-01': 1}")
    assert crawling.answer("SELECT MAP {DATE '2020-01-01': 1} AS m")["rows"] == [[{"2020-01-01": 1}]]


def test_a_request_that_is_too_large(crawling: Collection) -> None:
    """What a crawl would not take is refused with a reason, not with `in use by another process`."""
    with pytest.raises(InputError, match="too large"):
        crawling.sql(f"SELECT '{'x' * 2**23}'")


def test_a_crawl_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a collection whose crawl does not answer say so, and those of others are shown meanwhile."""
    monkeypatch.setattr("opilio.crawl.operations.client.HELLO_TIMEOUT_S", 0.5)
    make(tmp_path, "good")
    hangs = make(tmp_path, "hangs")
    with socket.create_server(("127.0.0.1", 0)) as silent, Portal(tmp_path) as portal:
        (hangs.folder / NOTE).write_text(json.dumps({"pid": 1, "port": silent.getsockname()[1], "token": ""}))
        assert portal.get("/api/c/hangs/status")[0] == 409
        assert "does not answer" in portal.get("/collections")[1]
        assert portal.get("/c/good/watch")[0] == 200


def test_a_slow_collection_does_not_hold_up_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one database is opened, which takes long after a crash, others are read."""
    slow, quick = make(tmp_path, "slow").folder, make(tmp_path, "quick").folder
    open_ = Store.open
    begun, go_on = threading.Event(), threading.Event()

    def slowly(folder: Path, **options: Any) -> Store:
        if folder == slow:
            begun.set()
            assert go_on.wait(20)
        return open_(folder, **options)

    monkeypatch.setattr(Store, "open", slowly)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(lambda: Collection(slow).status())
        assert begun.wait(10)
        began_s = time.monotonic()
        assert Collection(quick).status().pages == 0
        assert time.monotonic() - began_s < 5
        go_on.set()
        assert waits.result().pages == 0


# -- in a browser


def test_pages_in_a_browser(crawling: Collection) -> None:
    """Charts of days and of times with a zone are drawn; a crawl page that nobody sees keeps no connection."""
    queries = [
        "SELECT DATE '2026-01-01' + i::INTEGER AS day, i AS pages FROM range(5) t(i)",
        "SELECT TIMESTAMPTZ '2026-01-01 10:00:00+02' + INTERVAL (i) HOUR AS at, i AS pages FROM range(5) t(i)",
        "SELECT TIMESTAMP '2026-01-01 10:00:00.25' + INTERVAL (i) HOUR AS at, i AS pages FROM range(5) t(i)",
    ]
    with Portal(crawling.folder.parent) as portal, chromium() as browser:
        page = signed_in(browser, portal.address)
        for sql in queries:
            page.goto(f"{portal.address}/c/collection/sql?sql={quote(sql)}")
            line = page.locator("#drawn path.line")
            line.wait_for()
            assert "NaN" not in str(line.get_attribute("d"))
        page.goto(f"{portal.address}/c/collection/watch")
        state = portal.server.config.app.state  # type: ignore[union-attr]
        wait_for(lambda: hasattr(state, "watches"))
        watch = state.watches.of("collection")
        wait_for(lambda: len(watch._listeners) == 1)
        for hidden, listeners in ((True, 0), (False, 1)):
            page.evaluate(
                f"Object.defineProperty(document, 'hidden', {{ value: {str(hidden).lower()}, configurable: true }})"
            )
            page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
            wait_for(lambda wanted=listeners: len(watch._listeners) == wanted)  # type: ignore[misc]
