"""Bringing the index up to date with the database: exact, and the same whoever does it and however often.

A page is new or changed when its oid and the time of its visit are not in the columns; one that is in the columns and
not in the database is gone. So it does not matter in which order pages were committed, nor where an earlier update was
killed, nor whether pages come, change and go while an update is under way: the next one makes up for it. Pages whose
in-links have doubled since are indexed once more, a few at a time, for the sake of their anchors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tantivy

from opilio.analyze.sketch import bands
from opilio.search.columns import BANDS, Columns, group, number_of
from opilio.search.index import (
    FOLDER,
    WRITER_BYTES,
    DamagedIndex,
    IndexReader,
    Packed,
    discard_index,
    index_lock,
    open_words,
    pack,
    panics,
    signed,
    spaced,
)
from opilio.search.ranking import Numbering
from opilio.store import Store
from opilio.store.index_source import IndexedPage, IndexSource, store_query

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.store.index_source import Query

    Whole = npt.NDArray[np.int64]

PIECE_PAGES = 2_000
"""Pages read from the database at a time; each time costs a look at all links."""
COMMIT_PAGES = 10_000
"""After this many pages, words and columns are written: an update that is killed loses no more."""
MAX_REFRESHED_PAGES = 1_000
"""Indexed once more in one update, because many more links lead to them."""
MAX_ANCHORS = 10
MAX_ANCHOR_CHARS = 200
MAX_TEXT_CHARS = 500_000
STORED_CHARS = 50_000
"""Of a text, for snippets."""
_KIND_NAMES = {
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
    goes_on: Callable[[], bool] = lambda: True,
) -> Updated | None:
    """Bring the index of a collection up to date; None when another process is doing so.

    `seen` is noted as the state of the database file. Once `goes_on` says no, what is done so far is written.
    """
    return update_from(store_query(store), folder, seen=seen, goes_on=goes_on)


def update_from(query: Query, folder: Path, *, seen: str = "", goes_on: Callable[[], bool]) -> Updated | None:
    """The same, from whatever answers queries."""
    with index_lock(folder) as is_ours:
        if not is_ours:
            return None
        for is_last in (False, True):
            index, columns = open_words(folder)
            try:
                with panics():
                    return _Update(IndexSource(query), folder, index, columns).run(seen, goes_on)
            except DamagedIndex:
                if is_last:
                    raise
                discard_index(folder)
        raise AssertionError("unreachable")


class _Update:
    """One update, to the pages that there are when it begins."""

    def __init__(self, source: IndexSource, folder: Path, index: Any, columns: Columns) -> None:
        self._source, self._folder, self._index, self._columns = source, folder, index, columns
        self._reader = IndexReader(index.searcher(), columns)
        self._numbering = Numbering(columns)
        state = source.page_state()
        latest = np.append(state.oid[1:] != state.oid[:-1], np.ones(min(1, len(state.oid)), bool))
        self._rowid, self._oid, self._visited_us, self._relevance, self._kcid = (column[latest] for column in state)

    def run(self, seen: str, goes_on: Callable[[], bool]) -> Updated:
        columns = self._columns
        at, known = columns.places(self._oid)
        known[known] = columns["visited_us"][at[known]] == self._visited_us[known]
        fresh = np.flatnonzero(~known)
        fresh = fresh[np.argsort(self._rowid[fresh])]  # pages of one piece stand together in the table
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
        """For each page, how many links with words lead to it."""
        counted = np.zeros(len(self._oid), np.int32)
        if len(self._oid):
            oids, counts = self._source.in_links()
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
        """Remove pages from the words and the columns."""
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
        """Index pages, in pieces; how many, when `goes_on` ends it early."""
        anchors = self._source.anchors(self._oid[places].tolist(), MAX_ANCHORS)  # of all at once: it scans all links
        for first in range(0, len(places), PIECE_PAGES):
            if not goes_on():
                return first
            some = places[first : first + PIECE_PAGES]
            self._remove(writer, self._oid[some])
            self._add_piece(writer, some, in_links, anchors)
        return len(places)

    def _add_piece(self, writer: Any, places: Whole, in_links: Any, anchors: Mapping[int, str]) -> None:
        pages = self._source.pages(self._rowid[places], self._oid[places])
        texts = [((page.main_text or page.text)[:MAX_TEXT_CHARS], page.language) for page in pages]
        vectors = self._numbering.vectors(texts)
        for page, (body, _), (numbers, counts) in zip(pages, texts, vectors, strict=True):
            title, stems = spaced(page.title), spaced(body)
            packed = pack(page.url, page.title, (page.main_text or page.text)[:STORED_CHARS], numbers, counts)
            writer.add_document(
                tantivy.Document(
                    oid=page.oid, key=signed(page.key), title=title, title_stems=title, url=page.url, packed=packed,
                    stems=stems, text=spaced(page.text[:MAX_TEXT_CHARS]) if page.main_text else stems,
                    anchor=spaced(anchors.get(page.oid, "")[: MAX_ANCHORS * MAX_ANCHOR_CHARS]),
                )
            )  # fmt: skip
        self._append(pages, dict(zip(self._oid[places].tolist(), in_links[places].tolist(), strict=True)))

    # -- the columns

    def _append(self, pages: list[IndexedPage], in_links: dict[int, int]) -> None:
        columns, n = self._columns, len(pages)
        new: dict[str, Any] = {
            "oid": [page.oid for page in pages],
            "visited_us": [page.visited_us for page in pages],
            "sid": [page.sid for page in pages],
            "language": [number_of(columns.languages, page.language) for page in pages],
            "kind": [number_of(columns.kinds, kind_of(page.content_type)) for page in pages],
            "content_hash": [page.content_hash for page in pages],
            "in_links": [in_links[page.oid] for page in pages],
        }
        sketches = [bands(page.shingles or b"") or [0] * BANDS for page in pages]
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
        oids, scores = self._source.authority()
        authority = np.zeros(len(self._columns), np.float32)
        at, known = self._columns.places(oids)
        authority[at[known]] = scores[known]
        return authority

    def _name(self, columns: Columns) -> None:
        unnamed = np.setdiff1d(columns["sid"], list(columns.hosts)).tolist()
        columns.hosts |= self._source.hosts(unnamed)
        columns.topics = self._source.topics()


def kind_of(content_type: str) -> str:
    """The short name of a content type; what has none is named by the part after the slash."""
    plain = content_type.partition(";")[0].strip().lower()
    return _KIND_NAMES.get(plain) or plain.rpartition("/")[2].removeprefix("x-") or "unknown"
