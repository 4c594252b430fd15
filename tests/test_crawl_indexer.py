"""The indexer: what a crawl has stored can be searched while it runs, and after."""

import threading
import time
from typing import Any

import pytest

from conftest import MakeTaught
from opilio import Collection
from opilio.crawl.status import Status
from opilio.crawl.verification import verify
from opilio.errors import CollectionBusy
from opilio.process import start
from opilio.search import index_update_process
from opilio.search.index import open_reader


def test_a_crawl_leaves_an_index(make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a crawl has ended, every stored page is in the index, with the judgement it has."""
    monkeypatch.setattr("opilio.crawl.indexer.LEFT_PAGES", 0)
    collection = make_taught(limits__max_pages=40)
    status = collection.crawl()
    assert status.counters["index updates"] >= 1
    reader = open_reader(collection.folder)
    assert reader is not None
    stored = collection.sql("SELECT oid, relevance, kcid FROM pages ORDER BY oid").rows
    assert reader.columns["oid"].tolist() == [oid for oid, _, _ in stored]
    assert reader.columns["relevance"].tolist() == pytest.approx([relevance for _, relevance, _ in stored])
    assert reader.columns["kcid"].tolist() == [kcid for _, _, kcid in stored]
    url, text = collection.sql("SELECT url, title FROM collection WHERE title <> '' ORDER BY oid DESC LIMIT 1").rows[0]
    assert url in [result["url"] for result in collection.search(f'title:"{text}"')["results"]]


def test_a_few_pages_are_left_to_the_first_search(make_taught: MakeTaught) -> None:
    """A short crawl that ends before its first update makes no index; the first search makes it, with all pages."""
    collection = make_taught(limits__max_pages=40, search__update_s=60.0)
    status = collection.crawl()
    assert not status.counters.get("index updates")
    assert open_reader(collection.folder) is None
    assert collection.search("")["pages_indexed"] == status.pages


def test_pages_are_found_while_the_crawl_runs(make_taught: MakeTaught) -> None:
    """During a crawl the index grows, and searching does not need the database."""
    collection = make_taught(limits__max_pages=150, search__update_s=0.05)
    seen: list[int] = []

    def look(_: Status) -> None:
        try:
            seen.append(Collection(collection.folder).search("")["pages_indexed"])
        except CollectionBusy:
            seen.append(0)

    collection.crawl(on_tick=look)
    assert sorted(seen) == seen
    assert any(0 < count < 150 for count in seen)
    assert collection.search("")["pages_indexed"] == 150


def test_many_pages_are_indexed_by_a_process(make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads through the crawl's own database while that runs; when the crawl has ended, the process has too."""
    monkeypatch.setattr("opilio.crawl.indexer.MANY_PAGES", 0)
    monkeypatch.setattr("opilio.crawl.indexer.LEFT_PAGES", 0)
    started = []
    monkeypatch.setattr(
        index_update_process, "start", lambda *given, **more: started.append(start(*given, **more)) or started[-1]
    )
    collection = make_taught(limits__max_pages=150, search__update_s=0.05)
    status = collection.crawl()
    monkeypatch.undo()
    assert len(started) == 1 and started[0].process.poll() is not None
    assert status.counters["index updates"] > 1, status.notices
    assert not status.counters.get("index updates that failed"), status.notices
    reader = open_reader(collection.folder)
    assert reader is not None
    assert len(reader.columns) == status.pages


def test_it_can_be_turned_off(make_taught: MakeTaught) -> None:
    """Without the indexer a crawl leaves no index; it is made when somebody searches."""
    collection = make_taught(limits__max_pages=20, search__index=False)
    collection.crawl()
    assert open_reader(collection.folder) is None
    assert collection.search("")["pages_indexed"] == 20


def test_what_fails_does_not_end_the_crawl(make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index that cannot be written is told once, and the crawl stores all it should."""

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no room for an index")

    monkeypatch.setattr("opilio.search.index_update.update", fail)
    status = make_taught(limits__max_pages=30, search__update_s=0.01).crawl()
    assert status.pages == 30
    told = [notice for notice in status.notices if notice["kind"] == "search"]
    assert len(told) == 1
    assert "no room for an index" in told[0]["text"]


def test_stopped_at_once_it_is_given_up(make_taught: MakeTaught, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crawl that should end at once does not wait for an update that takes long."""
    begun, ended = threading.Event(), threading.Event()

    def slow(*_: Any, goes_on: Any, **__: Any) -> None:
        begun.set()
        deadline_s = time.monotonic() + 20
        while goes_on() and time.monotonic() < deadline_s:
            time.sleep(0.01)
        if not goes_on():
            ended.set()

    monkeypatch.setattr("opilio.search.index_update.update", slow)
    collection = make_taught(limits__max_pages=5000, search__update_s=0.01)

    def stop_twice() -> None:
        begun.wait(20)
        collection.stop()
        time.sleep(0.3)
        collection.stop()

    threading.Thread(target=stop_twice, daemon=True).start()
    began_s = time.monotonic()
    collection.crawl()
    assert ended.is_set()
    assert time.monotonic() - began_s < 15


def test_pages_left_to_the_first_search_are_no_defect(make_taught: MakeTaught) -> None:
    """`verify` notes that the index lacks the last pages of a crawl. Once a search has added them, it says nothing."""
    collection = make_taught(limits__max_pages=150, search__update_s=0.05)
    collection.crawl()
    collection.search("")
    collection.crawl(settings={"limits.max_pages": 160, "search.update_s": 60.0})
    found = verify(collection.folder)
    assert found.defects == 0
    assert found.notes == ["the search index lacks 10 pages: the next search adds them"]
    collection.search("")
    assert not verify(collection.folder).notes
