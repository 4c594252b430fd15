"""Short names of the types of pages, as `type:` and the portal have them.

Bringing the index up to date with the database: exact, and the same whoever does it and however often.

A page is new or changed when its oid and the time of its visit do not stand in the columns; one that stands there and
not in the database is gone. So it does not matter in which order pages were committed, nor where an earlier update was
killed. Pages whose in-links have doubled since are indexed once more, a few at a time, for the sake of their anchors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import tantivy

from opilio.analyze.sketch import bands
from opilio.analyze.terms import Vocabulary
from opilio.search.columns import BANDS, Columns, group, number_of
from opilio.search.index import (
    FOLDER,
    WRITER_BYTES,
    Damaged,
    IndexReader,
    Packed,
    forget,
    open_words,
    pack,
    panics,
    signed,
    spaced,
    turn,
)
from opilio.search.ranking import Numbering
from opilio.store import Store

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    Whole = npt.NDArray[np.int64]
    Ask: TypeAlias = Callable[[str, dict[str, Any]], pa.Table]
    """What one snapshot of the database has to say to a query with what is given for its names."""

_NAMES = {
    "text/html": "html", "application/xhtml+xml": "html", "text/plain": "text", "application/pdf": "pdf",
    "application/postscript": "postscript", "application/rtf": "rtf", "text/rtf": "rtf",
    "application/msword": "doc", "application/vnd.ms-powerpoint": "ppt", "application/epub+zip": "epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.oasis.opendocument.text": "odt", "application/vnd.oasis.opendocument.presentation": "odp",
    "application/vnd.oasis.opendocument.spreadsheet": "ods", "text/markdown": "markdown", "application/gzip": "gzip",
    "application/zip": "zip", "application/x-tar": "tar",
}  # fmt: skip


def kind_of(content_type: str) -> str:
    """The short name of a content type; what has none is named by the part after the slash."""
    plain = content_type.partition(";")[0].strip().lower()
    return _NAMES.get(plain) or plain.rpartition("/")[2].removeprefix("x-") or "unknown"


PIECE_PAGES = 2_000
"""Pages read from the database at a time; each time costs a look at all links."""
COMMIT_PAGES = 10_000
"""After so many pages words and columns are written: an update that is killed loses no more."""
MAX_REFRESHED_PAGES = 1_000
"""Indexed once more in one update, because many more links lead to them."""
MAX_ANCHORS = 10
MAX_ANCHOR_CHARS = 200
MAX_TEXT_CHARS = 500_000
STORED_CHARS = 50_000
"""Of a text, for snippets."""

_STATE = """
SELECT rowid, oid, epoch_us(visited), coalesce(relevance, 0), coalesce(kcid, -1) FROM pages ORDER BY oid, visited
"""
_PAGES = """
SELECT p.oid, epoch_us(p.visited), c.url, c.key, c.sid, coalesce(p.title, ''), coalesce(p.text, ''),
       coalesce(p.main_text, ''), coalesce(p.language, ''), coalesce(p.content_type, ''), coalesce(p.content_hash, 0),
       p.shingles
FROM pages p JOIN crawl c ON c.oid = p.oid
WHERE p.rowid >= $first AND p.rowid <= $last AND p.rowid IN (SELECT unnest($rows::BIGINT[]))
"""
_ANCHORS = """
SELECT oid_dst, string_agg(anchor, ' . ') FROM (
    SELECT oid_dst, anchor FROM links
    WHERE oid_dst IN (SELECT unnest($oids::BIGINT[])) AND anchor <> ''
    GROUP BY oid_dst, anchor
    QUALIFY row_number() OVER (PARTITION BY oid_dst ORDER BY count(*) DESC, anchor) <= $most
) GROUP BY oid_dst
"""
_IN_LINKS = """
SELECT oid_dst, count(*) FROM links
WHERE anchor <> '' AND oid_dst IN (SELECT oid FROM pages) GROUP BY oid_dst ORDER BY oid_dst
"""
# Of a page in its topic, as a share of the best of that topic; of all topics when it has no score in its own.
_AUTHORITY = """
WITH best AS (SELECT kcid, max(authority) AS most FROM link_scores GROUP BY kcid HAVING most > 0),
overall AS (SELECT max(score) AS most FROM auth HAVING most > 0)
SELECT p.oid, coalesce(l.authority / b.most, a.score / o.most) AS share
FROM pages p
LEFT JOIN link_scores l ON l.oid = p.oid AND l.kcid = p.kcid
LEFT JOIN best b ON b.kcid = p.kcid
LEFT JOIN auth a ON a.oid = p.oid
LEFT JOIN overall o ON true
WHERE share > 0
ORDER BY p.oid
"""
_HOSTS = "SELECT sid, host FROM hosts WHERE sid IN (SELECT unnest($sids::INTEGER[]))"


@dataclass(frozen=True)
class Updated:
    """What an update has done."""

    added: int
    removed: int
    refreshed: int
    """Indexed once more because of the links to them."""


def update(
    store: Store,
    folder: Path,
    *,
    seen: str = "",
    vocabulary: Vocabulary | None = None,
    goes_on: Callable[[], bool] = lambda: True,
) -> Updated | None:
    """Bring the index of a collection up to date; None when another process is doing so.

    `seen` is noted as the state of the database file. Once `goes_on` says no, what is done so far is written.
    """
    return update_from(lambda: asking(store), folder, vocabulary or Vocabulary(), seen=seen, goes_on=goes_on)


@contextlib.contextmanager
def asking(store: Store) -> Iterator[Ask]:
    """A snapshot of a store, to be asked."""
    with store.reading() as cursor:
        yield lambda sql, given: cursor.sql(sql, params=given or None).to_arrow_table()


def update_from(
    snapshot: Callable[[], AbstractContextManager[Ask]],
    folder: Path,
    vocabulary: Vocabulary,
    *,
    seen: str = "",
    goes_on: Callable[[], bool],
) -> Updated | None:
    """The same, from whatever gives snapshots of the database."""
    with turn(folder) as is_ours:
        if not is_ours:
            return None
        for is_last in (False, True):
            index, columns = open_words(folder)
            try:
                with panics(), snapshot() as ask:
                    return _Update(ask, folder, index, columns, vocabulary).run(seen, goes_on)
            except Damaged:
                if is_last:
                    raise
                forget(folder)
        raise AssertionError("unreachable")


class _Update:
    """One update, in one snapshot of the database."""

    def __init__(self, ask: Ask, folder: Path, index: Any, columns: Columns, vocabulary: Vocabulary) -> None:
        self._ask, self._folder, self._index, self._columns = ask, folder, index, columns
        self._reader = IndexReader(index.searcher(), columns)
        self._numbering = Numbering(columns, vocabulary)
        state = self._arrays(_STATE)
        latest = np.append(state[1][1:] != state[1][:-1], np.ones(min(1, len(state[1])), bool))
        self._rowid, self._oid, self._visited_us, self._relevance, self._kcid = (column[latest] for column in state)

    def _arrays(self, sql: str, **given: Any) -> list[npt.NDArray[Any]]:
        return [column.to_numpy() for column in self._ask(sql, given).columns]

    def _rows(self, sql: str, **given: Any) -> list[tuple[Any, ...]]:
        return list(zip(*(column.to_pylist() for column in self._ask(sql, given).columns), strict=True))

    def run(self, seen: str, goes_on: Callable[[], bool]) -> Updated:
        columns = self._columns
        at, known = columns.places(self._oid)
        known[known] = columns["visited_us"][at[known]] == self._visited_us[known]
        fresh = np.flatnonzero(~known)
        gone = columns["oid"][~np.isin(columns["oid"], self._oid)]
        in_links = self._in_links()
        grown = self._grown(known, at, in_links)
        writer = self._index.writer(WRITER_BYTES, 1)
        try:
            self._remove(writer, gone)
            places, added = np.concatenate([fresh, grown]), 0
            for first in range(0, max(1, len(places)), COMMIT_PAGES):
                some = places[first : first + COMMIT_PAGES]
                done = self._add(writer, some, in_links, goes_on) if len(some) else 0
                added += done
                self._write(writer, seen if added == len(places) else "")
                if done < len(some):
                    break
        finally:
            writer.wait_merging_threads()
        return Updated(min(added, len(fresh)), len(gone), max(0, added - len(fresh)))

    def _in_links(self) -> npt.NDArray[np.int32]:
        """Links with words that lead to each page."""
        counted = np.zeros(len(self._oid), np.int32)
        if len(self._oid):
            oids, counts = self._arrays(_IN_LINKS)
            at = np.minimum(np.searchsorted(self._oid, oids), len(self._oid) - 1)
            fits = self._oid[at] == oids
            counted[at[fits]] = counts[fits]
        return counted

    def _grown(self, known: npt.NDArray[np.bool_], at: Whole, in_links: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
        """Pages to which at least twice as many links lead as when they were indexed; those that gained most."""
        before = np.zeros(len(self._oid), np.int32)
        before[known] = self._columns["in_links"][at[known]]
        gained = np.where(known & (in_links >= 2 * np.maximum(1, before)) & (in_links > before), in_links - before, 0)
        places = np.flatnonzero(gained)
        return places[np.argsort(-gained[places], kind="stable")[:MAX_REFRESHED_PAGES]]

    # -- the words

    def _remove(self, writer: Any, oids: Whole) -> None:
        """Take pages out, of the columns too."""
        columns = self._columns
        at, known = columns.places(oids)
        self._numbering.forget(self._stored(oids[known]))
        for oid in oids.tolist():
            writer.delete_documents_by_term("oid", oid)
        if not known.any():
            return
        keep = np.ones(len(columns), bool)
        keep[at[known]] = False
        columns.rows = {name: values[keep] for name, values in columns.rows.items()}
        columns.bands = columns.bands[keep]

    def _stored(self, oids: Whole) -> Iterator[Packed]:
        for oid in oids.tolist():
            address = self._reader.address("oid", oid)
            if address is not None:
                yield self._reader.packed(address)

    def _add(self, writer: Any, places: Whole, in_links: Any, goes_on: Callable[[], bool]) -> int:
        """Index pages, in pieces; how many were, before it was given up."""
        for first in range(0, len(places), PIECE_PAGES):
            if not goes_on():
                return first
            some = places[first : first + PIECE_PAGES]
            self._remove(writer, self._oid[some])
            self._add_piece(writer, some, in_links)
        return len(places)

    def _add_piece(self, writer: Any, places: Whole, in_links: Any) -> None:
        rowids = self._rowid[places]
        rows = self._rows(_PAGES, first=int(rowids.min()), last=int(rowids.max()), rows=rowids.tolist())
        anchors = dict(self._rows(_ANCHORS, oids=[row[0] for row in rows], most=MAX_ANCHORS))
        texts = [((main or text)[:MAX_TEXT_CHARS], language) for *_, text, main, language, _, _, _ in rows]
        vectors = self._numbering.vectors(texts)
        for row, (body, _), (numbers, counts) in zip(rows, texts, vectors, strict=True):
            oid, _, url, key, _, title, text = row[:7]
            title, stems = spaced(title), spaced(body)
            packed = pack(url, row[5], (row[7] or text)[:STORED_CHARS], numbers, counts)
            writer.add_document(
                tantivy.Document(
                    oid=oid, key=signed(key), title=title, title_stems=title, url=url, packed=packed, stems=stems,
                    text=spaced(text[:MAX_TEXT_CHARS]) if row[7] else stems,
                    anchor=spaced(anchors.get(oid, "")[: MAX_ANCHORS * MAX_ANCHOR_CHARS]),
                )
            )  # fmt: skip
        self._append(rows, dict(zip(self._oid[places].tolist(), in_links[places].tolist(), strict=True)))

    # -- the columns

    def _append(self, rows: list[tuple[Any, ...]], in_links: dict[int, int]) -> None:
        columns, n = self._columns, len(rows)
        new: dict[str, Any] = {
            "oid": [row[0] for row in rows],
            "visited_us": [row[1] for row in rows],
            "sid": [row[4] for row in rows],
            "language": [number_of(columns.languages, row[8]) for row in rows],
            "kind": [number_of(columns.kinds, kind_of(row[9])) for row in rows],
            "content_hash": [row[10] for row in rows],
            "in_links": [in_links[row[0]] for row in rows],
        }
        sketches = [bands(row[11] or b"") or [0] * BANDS for row in rows]
        columns.bands = np.concatenate([columns.bands, np.array(sketches, np.uint64).reshape(n, BANDS)])
        columns.rows = {
            name: np.concatenate([values, np.array(new.get(name, [0] * n), values.dtype)])
            for name, values in columns.rows.items()
        }

    def _write(self, writer: Any, seen: str) -> None:
        """Commit the words, then the columns."""
        writer.commit()
        columns = self._columns
        order = np.argsort(columns["oid"], kind="stable")
        columns.rows = {name: values[order] for name, values in columns.rows.items()}
        columns.bands = columns.bands[order]
        at = np.searchsorted(self._oid, columns["oid"])
        columns.rows["relevance"] = self._relevance[at].astype(np.float32)
        columns.rows["kcid"] = self._kcid[at].astype(np.int16)
        columns.rows["authority"] = self._authority()
        columns.rows["group"] = group(columns)
        self._name(columns)
        self._numbering.put_into(columns)
        columns.seen = seen
        columns.save(self._folder / FOLDER)

    def _authority(self) -> npt.NDArray[np.float32]:
        oids, scores = self._arrays(_AUTHORITY)
        authority = np.zeros(len(self._columns), np.float32)
        at, known = self._columns.places(oids)
        authority[at[known]] = scores[known]
        return authority

    def _name(self, columns: Columns) -> None:
        unnamed = np.setdiff1d(columns["sid"], list(columns.hosts)).tolist()
        columns.hosts |= dict(self._rows(_HOSTS, sids=unnamed))
        topics = self._rows("SELECT kcid, pcid, name, path FROM topics ORDER BY path")
        columns.topics = [dict(zip(("kcid", "pcid", "name", "path"), row, strict=True)) for row in topics]
