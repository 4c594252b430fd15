"""The pages of a collection as documents of a corpus: the columns of the view `collection`, and what is computed.

Computed columns exist only in exports: `id`, `markdown`, `split`, `near_duplicate_group`, `reserved`, and the signals
of quality (`analyze/quality.py`). What nobody asks for is not computed. Pages come in pieces, in the order of storing,
and a piece is all that is held, apart from the groups of near duplicates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from opilio.analyze.markdown import HTML_TYPES, markdown, text_markdown
from opilio.analyze.quality import USUAL, Quality, quality_of
from opilio.analyze.rights import reserved_use
from opilio.errors import InputError
from opilio.export.near_duplicates import NearDuplicates
from opilio.export.splits import SiteSplit
from opilio.model import url_key
from opilio.store import Store
from opilio.store.corpus import LinkedChars, check_condition, known_columns, stream_rows
from opilio.store.pages import find_pages, rights_of
from opilio.store.responses import Responses
from opilio.store.row_filter import RowFilter

USUAL_NAME = "usual"
SLICE_ROWS = 256
QUALITY = tuple(field.name for field in dataclasses.fields(Quality))
ID, MARKDOWN, SPLIT, GROUP, RESERVED = "id", "markdown", "split", "near_duplicate_group", "reserved"
COMPUTED: dict[str, pa.DataType] = {
    ID: pa.string(), MARKDOWN: pa.string(), SPLIT: pa.string(), GROUP: pa.string(), RESERVED: pa.string(),
    "words": pa.int64(), **{name: pa.float64() for name in QUALITY if name != "words"},
}  # fmt: skip
"""Columns that exist in exports only."""
_NEEDS = {
    ID: {"url"}, MARKDOWN: {"url", "main_text", "text", "content_type", "charset", "warc_file", "warc_offset"},
    SPLIT: {"domain"}, GROUP: {"url", "oid"}, RESERVED: {"rights"},
    **{name: {"oid", "main_text", "text", "language"} for name in QUALITY},
}  # fmt: skip
_KEPT_BY = (ID, SPLIT, GROUP, RESERVED, *QUALITY)


@dataclass(frozen=True)
class PageSelection:
    """Which pages are exported."""

    where: str = ""
    """A condition on the view `collection`."""
    keep: str = ""
    """A condition on computed columns; `usual`: the usual limits of quality."""
    respect_rights: bool = False
    """Whether pages are left out that reserve their use for text and data mining or AI."""

    @property
    def kept(self) -> str:
        """The condition on computed columns in SQL."""
        return USUAL if self.keep.strip() == USUAL_NAME else self.keep.strip()


class Documents:
    """Some columns of the selected pages, computed ones included."""

    def __init__(
        self, store: Store, folders: Sequence[Path], selection: PageSelection, columns: Sequence[str], split: str = ""
    ) -> None:
        """`folders` are those that WARC files may be in. Refuses what is wrong before anything is read."""
        known_columns(store, columns, list(COMPUTED))
        check_condition(store, selection.where)
        self.columns = tuple(dict.fromkeys(columns))
        self.left_out = 0
        """Pages left out so far because of their rights."""
        self._store, self._selection = store, selection
        self._filter = (
            RowFilter(selection.kept, {name: COMPUTED[name] for name in _KEPT_BY}) if selection.kept else None
        )
        self._split = SiteSplit.parse(split)
        self._responses = Responses(folders)
        wanted = {column for column in columns if column in COMPUTED} | (
            self._filter.columns if self._filter else set()
        )
        self._computed = [name for name in COMPUTED if name in wanted]
        self._needed = {name for column in wanted for name in _NEEDS[column]}
        if selection.respect_rights:
            self._needed |= _NEEDS[RESERVED]
        self._measures = not wanted.isdisjoint(QUALITY)
        self._groups: NearDuplicates | None = None
        self._linked: LinkedChars | None = None

    def pieces(self) -> Iterator[pa.RecordBatch]:
        """The pages, some at a time; at least one piece, which may be empty."""
        if GROUP in self._computed:
            self._groups = NearDuplicates(self._store, self._selection.where)
        stored = [column for column in self.columns if column not in COMPUTED]
        read = list(dict.fromkeys([*stored, *sorted(self._needed)])) or ["oid"]
        if "link_density" in self._computed:
            self._linked = LinkedChars(self._store)
        for whole in stream_rows(self._store, read, self._selection.where):
            for start in range(0, max(1, whole.num_rows), SLICE_ROWS):
                yield self._complete(whole.slice(start, SLICE_ROWS))

    def _complete(self, piece: pa.RecordBatch) -> pa.RecordBatch:
        if self._selection.respect_rights:
            reserved = [bool(reserved_use(rights_of(rights))) for rights in piece.column("rights").to_pylist()]
            self.left_out += sum(reserved)
            piece = piece.filter(pa.array([not one for one in reserved], pa.bool_()))
        needed = [name for name in piece.schema.names if name in self._needed]
        rows = piece.select(needed).to_pylist() if needed else [{}] * piece.num_rows
        # Markdown takes longest, so it is made of the pages that are kept.
        early = [name for name in self._computed if name != MARKDOWN]
        made = [self._facts(row, early) for row in rows]
        if self._filter is not None:
            kept = self._filter.kept(made)
            piece, rows = piece.take(pa.array(kept, pa.int64())), [rows[at] for at in kept]
            made = [made[at] for at in kept]
        if MARKDOWN in self.columns:
            for fact, row in zip(made, rows, strict=True):
                fact[MARKDOWN] = stored_markdown(self._responses, row)
        arrays = [
            pa.array([fact[name] for fact in made], COMPUTED[name]) if name in COMPUTED else piece.column(name)
            for name in self.columns
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def _facts(self, row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
        facts: dict[str, Any] = {}
        if self._measures:
            text = row["text"] or ""
            linked = self._linked.of(row["oid"]) if self._linked else 0
            quality = quality_of(row["main_text"] or text, len(text), row["language"] or "", linked)
            facts |= {name: getattr(quality, name) for name in QUALITY}
        if ID in names:
            facts[ID] = id_of(url_key(row["url"]))
        if SPLIT in names:
            facts[SPLIT] = self._split.part(row["domain"] or "")
        if GROUP in names and self._groups is not None:
            facts[GROUP] = id_of(self._groups.group(row["oid"], url_key(row["url"])))
        if RESERVED in names:
            facts[RESERVED] = reserved_use(rights_of(row["rights"]))
        return facts


def id_of(key: int) -> str:
    """The name of a document: 16 hexadecimal digits that follow from its URL."""
    return f"{key:016x}"


def stored_markdown(responses: Responses, row: dict[str, Any]) -> str:
    """The Markdown of a page from its stored response; from its text if that is gone, or is no HTML."""
    text = row["main_text"] or row["text"] or ""
    if (row["content_type"] or "").partition(";")[0].strip().lower() in HTML_TYPES:
        body = responses.body(row["warc_file"], row["warc_offset"])
        written = markdown(body, row["url"], row["charset"] or "") if body else ""
        if 2 * len(written) > len(text):  # else a script wrote the text
            return written
    return text_markdown(text)


def page_as_markdown(store: Store, folders: Sequence[Path], url: str) -> str:
    """The Markdown of the page that is stored at a URL, or that stands for it. `folders` have the WARC files."""
    with store.reading() as read:
        oid = find_pages(read, [url]).get(url)
    if oid is None:
        raise InputError(f"{url}: this page is not stored", "Take a URL that a search finds.")
    pieces = stream_rows(store, sorted(_NEEDS[MARKDOWN]), f"oid = {oid}")
    [row] = [row for piece in pieces for row in piece.to_pylist()]
    return stored_markdown(Responses(folders), row)
