"""Threads of one process that read a collection at the same time."""

import threading
from pathlib import Path

import pytest

from opilio import Collection
from opilio.errors import CollectionBusy
from opilio.store import Store
from opilio.store.database import reading_together

MIB = 2**20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A collection with nothing fetched."""
    (tmp_path / "seeds.txt").write_text("http://a.test/\nhttp://b.test/")
    return Collection.create(tmp_path / "collection", seeds=tmp_path / "seeds.txt").folder


def test_many_threads_read_at_once(folder: Path) -> None:
    """Every thread gets its answer, whatever the others open and close meanwhile."""
    answers: list[object] = []

    def read() -> None:
        for _ in range(10):
            try:
                answers.append(Collection(folder).sql("SELECT count(*) FROM seeds").rows[0][0])
            except Exception as error:
                answers.append(error)

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == [2] * 60


def test_the_last_reader_closes(folder: Path) -> None:
    """While one reads, nobody can open it to change it; when the last is done, somebody can."""
    with reading_together(folder, memory_bytes=64 * MIB) as one:
        with reading_together(folder, memory_bytes=64 * MIB) as other:
            assert one is other
        with pytest.raises(CollectionBusy):
            Store.open(folder)
        assert one.query("SELECT 1").rows == [(1,)]
    Store.open(folder).close()


def test_what_cannot_be_opened_is_not_kept(tmp_path: Path, folder: Path) -> None:
    """An error on opening is told to everybody who tries, and a later try starts afresh."""
    with pytest.raises(Exception, match="no collection"), reading_together(tmp_path / "none", memory_bytes=64 * MIB):
        pass
    with Store.open(folder), pytest.raises(CollectionBusy), reading_together(folder, memory_bytes=64 * MIB):
        pass
    with reading_together(folder, memory_bytes=64 * MIB) as store:
        assert store.query("SELECT count(*) FROM seeds").rows == [(2,)]


def test_times_with_a_zone_can_be_read(folder: Path) -> None:
    """`now()` is a time with a zone, for which DuckDB needs a package of its own: it is installed with ours."""
    [[now]] = Collection(folder).sql("SELECT now()").rows
    assert now.tzinfo is not None
