"""Keeping the index: exact, whatever happened before, also under kill -9."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opilio.errors import CollectionBusy, OpilioError
from opilio.search import index_update
from opilio.search.columns import FILE_NAME, Columns
from opilio.search.index import FOLDER, WORDS, index_lock, open_reader
from opilio.search.index_update import update
from opilio.search.index_update_process import UpdaterProcess
from opilio.search.results import search
from opilio.store import Store
from search_pages import Page, add_pages, make_collection
from webs import Web

PAGES = [Page(f"common words and word{n} of page {n}", f"Title {n}", relevance=n / 100) for n in range(40)]


def make_index(folder: Path) -> index_update.Updated:
    with Store.open(folder, read_only=True) as store:
        done = update(store, folder)
    assert done is not None
    return done


def state(folder: Path) -> dict[str, Any]:
    """Everything that an index says, without the numbers it is free to choose."""
    reader = open_reader(folder)
    assert reader is not None
    columns = reader.columns
    rows = {name: columns[name].tolist() for name in columns.rows if name not in ("language", "kind")}
    pages_with = dict(zip(columns.tids.tolist(), columns.pages_with[columns.numbers].tolist(), strict=True))
    answer = search(reader, "common", size=200, weights={"bm25": 1, "cosine": 1})
    hits = {one["oid"]: (one["url"], one["title"], one["parts"]["cosine"]) for one in answer["results"]}
    return {"rows": rows, "pages_with": {k: v for k, v in pages_with.items() if v}, "hits": hits}


def test_updates_are_what_one_from_nothing_is(tmp_path: Path) -> None:
    """Pages that were added, changed and removed in several updates leave the same index as one made at once."""
    a, b = tmp_path / "a", tmp_path / "b"
    make_collection(a, PAGES[:20])
    assert make_index(a) == index_update.Updated(20, 0, 0)
    add_pages(a, PAGES[20:], first=20)
    assert make_index(a) == index_update.Updated(20, 0, 0)
    changed = [Page("common but changed", "New", day=9, links=((7, "seven"), (7, "seven again")))]
    add_pages(a, changed, first=3, replace=True)
    with Store.open(a) as store:
        store.query("DELETE FROM pages WHERE oid IN (5, 6)", write=True)
    assert make_index(a) == index_update.Updated(1, 2, 1)
    assert make_index(a) == index_update.Updated(0, 0, 0)
    b.mkdir()
    for name in ("collection.duckdb", "crawl.toml"):
        (b / name).write_bytes((a / name).read_bytes())
    make_index(b)
    assert state(a) == state(b)
    assert search(open_reader(a), "anchor:seven")["total"] == 1  # type: ignore[arg-type]


def test_pages_judged_anew_are_not_indexed_anew(tmp_path: Path) -> None:
    """A new relevance is seen, and no word is touched for it."""
    folder = tmp_path / "c"
    make_collection(folder, PAGES)
    make_index(folder)
    before = sorted((file.name, file.stat().st_size) for file in (folder / FOLDER / WORDS).glob("*.store"))
    with Store.open(folder) as store:
        store.query("UPDATE pages SET relevance = 1 - relevance", write=True)
    assert make_index(folder) == index_update.Updated(0, 0, 0)
    assert sorted((file.name, file.stat().st_size) for file in (folder / FOLDER / WORDS).glob("*.store")) == before
    reader = open_reader(folder)
    assert reader is not None
    assert reader.columns["relevance"].tolist() == pytest.approx([1 - page.relevance for page in PAGES])


def test_an_update_that_is_given_up_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was done before it was given up can be searched, and the rest comes with the next."""
    monkeypatch.setattr(index_update, "PIECE_PAGES", 10)
    folder = tmp_path / "c"
    make_collection(folder, PAGES)
    turns = iter([True, True, False])
    with Store.open(folder, read_only=True) as store:
        done = update(store, folder, seen="x", goes_on=lambda: next(turns))
    assert done == index_update.Updated(20, 0, 0)
    reader = open_reader(folder)
    assert reader is not None
    assert (search(reader, "common")["total"], reader.columns.seen) == (20, "")
    assert make_index(folder) == index_update.Updated(20, 0, 0)


@pytest.mark.parametrize("damage", ["version", "columns", "meta", "segments", "no words"])
def test_a_damaged_index_is_made_anew(tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with the files, the next search finds all pages."""
    folder = tmp_path / "c"
    collection = make_collection(folder, PAGES)
    assert collection.search("common")["total"] == 40
    place = folder / FOLDER
    if damage == "version":
        columns = Columns.load(place)
        assert columns is not None
        monkeypatch.setattr("opilio.search.columns.VERSION", 999)
        columns.save(place)
        monkeypatch.undo()
    elif damage == "columns":
        (place / FILE_NAME).write_bytes((place / FILE_NAME).read_bytes()[:500])
    elif damage == "meta":
        (place / WORDS / "meta.json").write_text("{")
        (place / FILE_NAME).touch()
    elif damage == "segments":
        for file in (place / WORDS).glob("*.store"):
            file.unlink()  # the search before may have it mapped: to cut it would end this process by SIGBUS
            file.write_bytes(b"\0" * 100)
        (place / FILE_NAME).touch()
    else:
        for file in (place / WORDS).iterdir():
            file.unlink()
        (place / FILE_NAME).touch()
    assert collection.search("common")["total"] == 40


def test_two_processes_never_write_at_once(tmp_path: Path) -> None:
    """While another holds the index, an update leaves it alone, and searching goes on with what is there."""
    folder = tmp_path / "c"
    collection = make_collection(folder, PAGES[:20])
    assert collection.search("common")["total"] == 20
    add_pages(folder, PAGES[20:], first=20)
    with index_lock(folder) as is_ours:
        assert is_ours
        assert collection.search("common")["total"] == 20
        assert collection.update_index() is False
    assert collection.search("common")["total"] == 40


def test_nothing_to_search_yet_is_said(tmp_path: Path) -> None:
    """A collection that is being written and has no index cannot be searched, and says so."""
    folder = tmp_path / "c"
    collection = make_collection(folder, PAGES[:3])
    with index_lock(folder), pytest.raises(CollectionBusy, match="index is being built"):
        collection.search("common")


def test_in_links_that_double_bring_their_anchors(tmp_path: Path) -> None:
    """A page is indexed once more when at least twice as many links lead to it, and only then."""
    folder = tmp_path / "c"
    collection = make_collection(folder, [*PAGES[:3], Page("links", links=((0, "first"), (0, "second")))])
    assert collection.search("anchor:first")["total"] == 1
    add_pages(folder, [Page("links", links=((0, "third"),))], first=4)
    assert make_index(folder).refreshed == 0
    add_pages(folder, [Page("links", links=((0, "fourth"),))], first=5)
    assert make_index(folder).refreshed == 1
    assert {word: collection.search(f"anchor:{word}")["total"] for word in ("first", "third", "fourth")} == {
        "first": 1, "third": 1, "fourth": 1,
    }  # fmt: skip


@pytest.mark.parametrize("in_process", [False, True])
def test_an_update_holds_no_snapshot(tmp_path: Path, beside: UpdaterProcess, *, in_process: bool) -> None:
    """While an index is updated, changed rows can be carried into the tables: the write-ahead log does not grow."""
    folder = tmp_path / "c"
    make_collection(folder, PAGES)
    looks: list[bool] = []
    with Store.open(folder) as store:

        def goes_on() -> bool:
            store.query("UPDATE crawl SET numtries = numtries + 1", write=True)
            store.checkpoint()
            looks.append((folder / "collection.duckdb.wal").exists())
            return True

        done = beside.update(store, folder, goes_on) if in_process else update(store, folder, goes_on=goes_on)
    assert done == index_update.Updated(len(PAGES), 0, 0)
    assert looks == [False]


def test_pages_that_change_meanwhile_come_with_the_next_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that is fetched again, or removed, while an update is under way: the next one leaves the same index."""
    monkeypatch.setattr(index_update, "PIECE_PAGES", 10)
    folder, whole = tmp_path / "c", tmp_path / "whole"
    make_collection(folder, PAGES)
    turns = iter([False, False, True, False])  # four pieces
    with Store.open(folder) as store:

        def goes_on() -> bool:
            if next(turns):
                again = [Page("common but changed", "New", day=9)]
                Web(again).put_in(store, 3, replace=True)
                Web(again).put_in(store, 35, replace=True)
                store.query("DELETE FROM pages WHERE oid = 36", write=True)
            return True

        update(store, folder, goes_on=goes_on)
    make_index(folder)
    whole.mkdir()
    for name in ("collection.duckdb", "crawl.toml"):
        (whole / name).write_bytes((folder / name).read_bytes())
    make_index(whole)
    assert state(folder) == state(whole)


KILLED = """
import sys
from pathlib import Path
from opilio.search import index_update
from opilio.store import Store
index_update.PIECE_PAGES, index_update.COMMIT_PAGES = 20, 60
folder = Path(sys.argv[1])
with Store.open(folder, read_only=True) as store:
    print("begun", flush=True)
    index_update.update(store, folder)
    print("done", flush=True)
"""


def test_killed_at_any_moment_the_index_can_be_used(tmp_path: Path) -> None:
    """After kill -9 of an update, what is there can be searched, and going on ends with the index of a quiet run."""
    folder = tmp_path / "c"
    pages = [Page(f"common words and word{n} " * 20, f"Title {n}") for n in range(600)]
    collection = make_collection(folder, pages)
    generator, seen = np.random.default_rng(0), set()
    for _ in range(8):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(float(generator.uniform(0, 0.25)))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        reader = open_reader(folder)
        if reader is not None:
            total = search(reader, "common")["total"]
            assert total % 20 == 0
            seen.add(total)
    assert collection.search("common", size=1)["total"] == 600
    reader = open_reader(folder)
    assert reader is not None
    assert reader.searcher.num_docs == 600


@pytest.fixture
def beside() -> Iterator[UpdaterProcess]:
    updater = UpdaterProcess()
    yield updater
    updater.close()


def test_a_process_of_its_own_makes_the_same_index(tmp_path: Path, beside: UpdaterProcess) -> None:
    """It asks for all that it needs, and leaves what an update in this process leaves; later updates are its too."""
    folders = [tmp_path / "here", tmp_path / "beside"]
    for folder in folders:
        make_collection(folder, PAGES)
    here = make_index(folders[0])
    with Store.open(folders[1], read_only=True) as store:
        assert beside.update(store, folders[1], lambda: True) == here
        assert beside.update(store, folders[1], lambda: True) == index_update.Updated(0, 0, 0)
    assert state(folders[1]) == state(folders[0])
    for folder in folders:
        add_pages(folder, [Page("common but new", "New")], first=len(PAGES))
    make_index(folders[0])
    with Store.open(folders[1], read_only=True) as store:
        assert beside.update(store, folders[1], lambda: True) == index_update.Updated(1, 0, 0)
    assert state(folders[1]) == state(folders[0])


def test_a_process_that_is_killed_is_replaced(tmp_path: Path, beside: UpdaterProcess) -> None:
    """An update whose process dies is told as an error, and the next one makes up for it."""
    folder = tmp_path / "collection"
    make_collection(folder, PAGES)

    def killed() -> bool:
        beside.kill()
        return True

    with Store.open(folder, read_only=True) as store:
        with pytest.raises(OpilioError, match="ended"):
            beside.update(store, folder, killed)
        assert beside.update(store, folder, lambda: True) == index_update.Updated(len(PAGES), 0, 0)


def test_what_goes_wrong_beside_is_told(tmp_path: Path, beside: UpdaterProcess) -> None:
    """An index that cannot be written is an error here, with its reason; one that is interrupted ends at once."""
    folder = tmp_path / "collection"
    make_collection(folder, PAGES)
    (folder / FOLDER).write_text("in the way")
    with Store.open(folder, read_only=True) as store, pytest.raises(OpilioError, match="FileExists"):
        beside.update(store, folder, lambda: True)
    (folder / FOLDER).unlink()

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with Store.open(folder, read_only=True) as store:
        with pytest.raises(KeyboardInterrupt):
            beside.update(store, folder, interrupted)
        assert beside.update(store, folder, lambda: False) == index_update.Updated(0, 0, 0), "given up before it began"
