"""The peer of bench/speed/search.py: SQLite's full-text index (FTS5) over the same pages, asked the same questions."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

from opilio.store import Store

KINDS = ("common word", "rare word", "two words", "phrase", "prefix")
"""Questions that both can answer."""
_MADE = "CREATE VIRTUAL TABLE page USING fts5(title, text, tokenize = 'porter unicode61')"
_BEST = """
    SELECT rowid, highlight(page, 0, '[', ']'), snippet(page, 1, '[', ']', '...', 30)
    FROM page WHERE page MATCH ? ORDER BY bm25(page, 2.0, 1.0) LIMIT 10
"""
_COUNT = "SELECT count(*) FROM page WHERE page MATCH ?"


class Fts5:
    """An index of titles and texts with stems; ten best by BM25 with snippets, and how many there are."""

    def __init__(self, folder: Path, store: Store) -> None:
        self._connection = sqlite3.connect(folder / "fts5.sqlite")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(_MADE)
        began_s = time.perf_counter()
        with self._connection:
            self._connection.executemany("INSERT INTO page (rowid, title, text) VALUES (?, ?, ?)", _rows(store))
        took_s = time.perf_counter() - began_s
        self.pages = self._connection.execute("SELECT count(*) FROM page").fetchone()[0]
        self.docs_per_s = self.pages / took_s

    def ask_ms(self, question: str) -> float:
        """How long an answer takes."""
        words = " ".join(f'"{word}"' if word.isalpha() else word for word in question.split())
        match = question if question.startswith('"') else words
        began_s = time.perf_counter()
        self._connection.execute(_BEST, [match]).fetchall()
        self._connection.execute(_COUNT, [match]).fetchall()
        return (time.perf_counter() - began_s) * 1000


def _rows(store: Store) -> Iterator[tuple[int, str, str]]:
    for piece in store.stream("SELECT oid, title, text FROM pages"):
        yield from zip(*(column.to_pylist() for column in piece.columns), strict=True)
