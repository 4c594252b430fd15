"""Exports, read back by other readers than the writer."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet
import pytest

from opilio.errors import InputError, QueryError
from opilio.store import Batch, Store, export_pages, reader
from store_rows import NOW_S, add_page, filled

AWKWARD = 'quote " comma , line\nbreak =1+1 \u2603'


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """12 pages, one of them replaced by a later visit, one with an awkward text."""
    with filled(Store.create(tmp_path_factory.mktemp("c"))) as made:
        batch = Batch(replaced=[3])
        add_page(batch, 3, visited=NOW_S + 10**8, text=AWKWARD)
        made.write(batch)
        yield made


def read(path: Path, kind: str) -> list[dict[str, object]]:
    """The rows of an exported file."""
    if kind == "jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if kind == "csv":
        with path.open(newline="") as file:
            return [dict(row) for row in csv.DictReader(file)]
    return list(pyarrow.parquet.read_table(path).to_pylist())


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_formats(store: Store, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page once, in its latest form, in each format; in pieces, with progress told."""
    monkeypatch.setattr(reader, "STREAM_ROWS", 5)
    path, told = tmp_path / f"pages.{kind}", []
    columns = ("url", "visited", "main_text", "relevance", "topic", "shingles")
    assert export_pages(store, str(path), columns=columns, on_progress=told.append) == 12
    rows = read(path, kind)
    assert sorted(str(row["url"]) for row in rows) == sorted(f"http://host{oid % 4}.test/{oid}" for oid in range(12))
    assert [row["main_text"] for row in rows if str(row["url"]).endswith("/3")] == [AWKWARD]
    assert told[-1] == 12
    assert list(tmp_path.iterdir()) == [path]
    assert list(rows[0]) == list(columns)


def test_where_chooses(store: Store, tmp_path: Path) -> None:
    """Only the pages a condition admits are written; a condition that is none is refused."""
    path = tmp_path / "x.jsonl"
    assert export_pages(store, str(path), where="relevance >= 0.5 AND host = 'host0.test' -- good") == 1
    assert export_pages(store, str(path), where="relevance > 5") == 0
    assert path.read_text() == ""
    for bad in ("1) ; DROP TABLE crawl; --", "nosuch = 1", "url IN (SELECT content FROM read_text('/etc/passwd'))"):
        with pytest.raises(QueryError):
            export_pages(store, str(path), where=bad)


def test_standard_output(store: Store, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """`-` writes JSON Lines, or CSV when asked, to standard output."""
    export_pages(store, "-", columns=["url"])
    assert all(json.loads(line)["url"] for line in capfdbinary.readouterr().out.splitlines())
    export_pages(store, "-", "csv", columns=["url"])
    assert capfdbinary.readouterr().out.splitlines()[0] == b'"url"'
    with pytest.raises(InputError, match="standard output"):
        export_pages(store, "-", "parquet")


def test_mistakes_are_named(store: Store, tmp_path: Path) -> None:
    """An unknown format, column or folder is an error that says what there is; no file is left behind."""
    with pytest.raises(InputError) as caught:
        export_pages(store, str(tmp_path / "pages.xlsx"))
    assert "parquet" in caught.value.hint
    with pytest.raises(QueryError) as refused:
        export_pages(store, str(tmp_path / "p.csv"), columns=["url", "titel"])
    assert "title" in refused.value.hint
    with pytest.raises(InputError, match="cannot be written"):
        export_pages(store, str(tmp_path / "nowhere" / "p.csv"))
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_export_leaves_no_file(store: Store, tmp_path: Path) -> None:
    """A file appears only when it is complete; the one that was there before stays."""
    path = tmp_path / "p.jsonl"
    path.write_text("old")

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_pages(store, str(path), on_progress=stop)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
