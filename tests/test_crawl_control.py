"""Talking to a running crawl: the control socket, its note, and settings that two change at once."""

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import opilio.crawl.collection as collection_module
from conftest import MakeCollection
from opilio import Collection
from opilio.crawl.operations.client import NOTE, ask, is_running
from opilio.errors import InputError, QueryError
from opilio.lab.local_web import LocalServer
from opilio.settings import FILE_NAME, load
from running_crawls import wait_until
from web_portal import Portal


def make(place: Path, name: str = "birds") -> Collection:
    """A collection in which nothing was fetched."""
    (place / "seeds.txt").write_text("http://nobody.test/")
    return Collection.create(place / name, seeds=place / "seeds.txt")


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
    wait_until(lambda: bool(asked))
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
                portal.get_with_token("/api/c/collection/sql", sql=slow)

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
            wait_until(lambda: not is_running(collection.folder))


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
            wait_until(
                lambda: bool(portal.get_with_token("/api/c/collection/sql", sql=count)[1]["rows"][0][0])
            )  # it is committed
            pid = json.loads((collection.folder / NOTE).read_text())["pid"]
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not is_running(collection.folder))
            status, told = portal.get("/api/c/collection/status")
            assert (status, told["running"], told["reason"]) == (200, False, "it was killed")
            counted = portal.get_with_token("/api/c/collection/sql", sql=count)[1]["rows"][0][0]
            assert told["pages"] == counted > 0
            assert portal.get("/c/collection/watch")[0] == 200
        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(lambda _: portal.ask("POST", "/api/c/collection/crawl", {}), range(2)))
        assert 200 in [status for status, _ in answers]
        assert is_running(collection.folder)
        collection.stop()
        wait_until(lambda: not is_running(collection.folder))


def test_an_interrupt_while_a_crawl_is_prepared(
    make_collection: MakeCollection, small_server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C before the first request ends the crawl as one that comes later does, and it can go on."""
    collection = make_collection(["http://directory.test/"])
    restored = collection_module.restore

    def interrupted(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        restored(*arguments)

    monkeypatch.setattr(collection_module, "restore", interrupted)
    assert collection.crawl().reason == "interrupted (SIGINT)"
    assert len(small_server.requests()) < 10
    monkeypatch.undo()
    assert collection.crawl(settings={"limits.max_pages": 5}).pages == 5


def test_an_answer_is_bounded_in_size(tmp_path: Path) -> None:
    """A query with long values fills no memory: rows beyond some megabytes are left out, and it is said."""
    with Portal(tmp_path) as portal:
        make(tmp_path)
        sql = "SELECT repeat('x', 10000) AS long FROM range(30000)"
        status, told = portal.get_with_token("/api/c/birds/sql", sql=sql)
        assert status == 200
        assert told["truncated"]
        assert 1 <= len(told["rows"]) < 4000
        assert portal.get_with_token("/c/birds/sql", sql=sql)[0] == 200


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


@pytest.fixture
def crawling(make_collection: MakeCollection, small_server: LocalServer) -> Iterator[Collection]:
    """A collection in which a slow crawl runs."""
    collection = make_collection(list(small_server.web.pages)[:30], fetch__host_delay_s=0.3)
    thread = threading.Thread(target=collection.crawl)
    thread.start()
    wait_until(lambda: is_running(collection.folder))
    yield Collection(collection.folder)
    collection.stop()
    thread.join()


def test_an_answer_that_json_has_no_form_for(crawling: Collection) -> None:
    """A crawl says what it cannot send; it is not taken for one that does not run."""
    with pytest.raises(QueryError, match="cannot be sent"):
        crawling.sql("SELECT MAP {DATE '2020-01-01': 1}")
    assert crawling.query("SELECT MAP {DATE '2020-01-01': 1} AS m")["rows"] == [[{"2020-01-01": 1}]]


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
