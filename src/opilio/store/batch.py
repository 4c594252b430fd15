"""A batch: the rows of one transaction, gathered column by column.

The engine appends plain values to plain lists (`batch.links.anchor.append(...)`), which costs tens of nanoseconds each;
`Store.write` turns every list into one Arrow column. All lists of a table must have the same length in the end. Times
are seconds since the epoch, 0.0 meaning never; terms and links of a page stay the bytes the worker sent.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from opilio.model import RELEVANT, CrawlProgress, Figures, Judgement, Link, LinkKind, Links, Region
from opilio.model.visit import LINK_KINDS, REGIONS
from opilio.store import arrow
from opilio.store.arrow import TIME

_FLAG, _TEXT, _LONG_TEXT, _BLOB = pa.bool_(), pa.string(), pa.large_string(), pa.binary()
_INT16, _INT32, _INT64 = pa.int16(), pa.int32(), pa.int64()
_UINT8, _UINT32, _UINT64, _FLOAT = pa.uint8(), pa.uint32(), pa.uint64(), pa.float32()
_FINDS = pa.list_(pa.struct([("provider", pa.string()), ("query", pa.string()), ("rank", pa.int32())]))
_WORDS, _VOTES = pa.list_(pa.string()), pa.map_(pa.string(), pa.float32())


def _column(arrow_type: pa.DataType) -> Any:
    """Declare a column: each object has a list of its own, which is empty at first."""
    return arrow_type


class Rows:
    """Base of the tables of a batch: one list per column, named as in the database.

    They are no dataclasses: to make two dozen of those would take a hundredth of a second at each start.
    """

    types: ClassVar[dict[str, pa.DataType]] = {}
    """The columns, and what each becomes in Arrow."""

    def __init_subclass__(cls) -> None:
        cls.types = {name: vars(cls)[name] for name in cls.__annotations__}

    def __init__(self) -> None:
        for name in self.types:
            setattr(self, name, [])

    def add(self, *values: Any) -> None:
        """Append one row, its values in the order of the columns."""
        for name, value in zip(self.types, values, strict=True):
            getattr(self, name).append(value)

    def __len__(self) -> int:
        return len(getattr(self, next(iter(self.types))))

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        arrays = {name: _array(name, getattr(self, name), kind) for name, kind in self.types.items()}
        uneven = [f"{name} {len(array)}" for name, array in arrays.items() if len(array) != len(self)]
        if uneven:
            raise ValueError(f"{type(self).__name__}: columns of unlike length: {len(self)} rows, but {uneven}")
        return pa.table(arrays)


def _array(name: str, values: list[Any], arrow_type: pa.DataType) -> pa.Array:
    if arrow_type == TIME:
        return arrow.times(np.array(values, dtype=np.float64))
    try:
        return pa.array(values, type=arrow_type)
    except UnicodeEncodeError:  # a lone surrogate, which no UTF-8 file can hold
        return pa.array([v and v.encode("utf-8", "replace").decode() for v in values], type=arrow_type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ValueError(f"column {name}: {error}") from error


class UrlRows(Rows):
    """New rows of `crawl`, ascending by oid."""

    oid: list[int] = _column(_INT64)
    url: list[str] = _column(_TEXT)
    key: list[int] = _column(_UINT64)
    sid: list[int] = _column(_INT32)
    topic: list[int] = _column(_INT16)
    depth: list[int] = _column(_INT16)
    parent: list[int | None] = _column(_INT64)
    hops: list[int] = _column(_INT16)
    state: list[str] = _column(_TEXT)
    outcome: list[str | None] = _column(_TEXT)
    numtries: list[int] = _column(_UINT8)
    relevance: list[float] = _column(_FLOAT)
    priority: list[float] = _column(_FLOAT)
    not_before: list[float] = _column(TIME)
    found: list[float] = _column(TIME)
    lastvisited: list[float] = _column(TIME)


class ChangeRows(Rows):
    """Changes of rows of `crawl`, also of rows new in this batch; the last of several changes of one oid counts."""

    oid: list[int] = _column(_INT64)
    topic: list[int] = _column(_INT16)
    state: list[str] = _column(_TEXT)
    outcome: list[str | None] = _column(_TEXT)
    numtries: list[int] = _column(_UINT8)
    relevance: list[float] = _column(_FLOAT)
    priority: list[float] = _column(_FLOAT)
    not_before: list[float] = _column(TIME)
    lastvisited: list[float] = _column(TIME)


class FollowedRows(Rows):
    """URLs of `crawl` that are followed for the first time: how they are reached now."""

    oid: list[int] = _column(_INT64)
    parent: list[int | None] = _column(_INT64)
    depth: list[int] = _column(_INT16)
    hops: list[int] = _column(_INT16)


class HostRows(Rows):
    """New or changed hosts; each sid at most once in a batch."""

    sid: list[int] = _column(_INT32)
    host: list[str] = _column(_TEXT)
    domain: list[str] = _column(_TEXT)
    ip: list[str | None] = _column(_TEXT)
    pages: list[int] = _column(_INT32)
    bytes: list[int] = _column(_INT64)
    requests: list[int] = _column(_INT32)
    next_visit: list[float] = _column(TIME)


class OriginRows(Rows):
    """New or changed origins; each sid and scheme at most once in a batch."""

    sid: list[int] = _column(_INT32)
    scheme: list[str] = _column(_TEXT)
    state: list[str] = _column(_TEXT)
    failures: list[int] = _column(_INT32)
    problem: list[str | None] = _column(_TEXT)
    robots_status: list[int | None] = _column(_INT16)
    crawl_delay_s: list[float] = _column(_FLOAT)
    met: list[float] = _column(TIME)


class RobotsRows(Rows):
    """Texts of robots.txt."""

    sid: list[int] = _column(_INT32)
    scheme: list[str] = _column(_TEXT)
    visited: list[float] = _column(TIME)
    text: list[str] = _column(_LONG_TEXT)


class PageRows(Rows):
    """Pages stored."""

    oid: list[int] = _column(_INT64)
    visited: list[float] = _column(TIME)
    status: list[int] = _column(_INT16)
    content_type: list[str] = _column(_TEXT)
    charset: list[str] = _column(_TEXT)
    language: list[str] = _column(_TEXT)
    title: list[str] = _column(_TEXT)
    description: list[str] = _column(_TEXT)
    text: list[str | None] = _column(_LONG_TEXT)
    main_text: list[str | None] = _column(_LONG_TEXT)
    content_hash: list[int] = _column(_UINT64)
    canonical: list[str] = _column(_TEXT)
    noindex: list[bool] = _column(_FLAG)
    received_bytes: list[int] = _column(_INT64)
    body_bytes: list[int] = _column(_INT64)
    took_ms: list[float] = _column(_FLOAT)
    ip: list[str] = _column(_TEXT)
    etag: list[str] = _column(_TEXT)
    last_modified: list[str] = _column(_TEXT)
    relevance: list[float | None] = _column(_FLOAT)
    kcid: list[int | None] = _column(_INT16)
    model_version: list[int | None] = _column(_INT32)
    warc_file: list[str] = _column(_TEXT)
    warc_offset: list[int] = _column(_INT64)
    warc_bytes: list[int] = _column(_INT64)
    shingles: list[bytes] = _column(_BLOB)
    undoubted: list[bool | None] = _column(_FLAG)
    cut: list[bool] = _column(_FLAG)
    rights: list[str | None] = _column(_TEXT)


class PagePictureRows(Rows):
    """Addresses of pictures that pages name."""

    oid: list[int] = _column(_INT64)
    sid: list[int] = _column(_INT32)
    picture: list[str] = _column(_TEXT)
    icon: list[str] = _column(_TEXT)


class PictureRows(Rows):
    """Pictures requested."""

    url: list[str] = _column(_TEXT)
    kind: list[str] = _column(_TEXT)
    visited: list[float] = _column(TIME)
    outcome: list[str] = _column(_TEXT)
    content_type: list[str | None] = _column(_TEXT)
    width: list[int | None] = _column(_INT32)
    height: list[int | None] = _column(_INT32)
    data: list[bytes | None] = _column(_BLOB)


class LinkRows(Rows):
    """Links of pages: a row here is a page, and becomes as many rows of `links` as it has links."""

    oid_src: list[int] = _column(_INT64)
    sid_src: list[int] = _column(_INT32)
    oids: list[array[int]] = _column(_INT64)
    sids: list[array[int]] = _column(_INT32)
    links: list[Links] = _column(_TEXT)

    def put(self, oid_src: int, sid_src: int, oids: Sequence[int], sids: Sequence[int], links: Links) -> None:
        """Append the links of a page; `oids` and `sids` of their targets are parallel to them."""
        if links:
            Rows.add(self, oid_src, sid_src, array("q", oids), array("i", sids), links)

    def add(self, *values: Any) -> None:
        """Append one link, its values in the order of the columns of `links`."""
        oid_src, oid_dst, sid_src, sid_dst, anchor, context, region, position, kind, nofollow = values
        link = Link("", 0, anchor, context, Region(region), position, LinkKind(kind), nofollow)
        self.put(oid_src, sid_src, [oid_dst], [sid_dst], Links.of([link]))

    def to_arrow(self) -> pa.Table:
        """One row per link, without a Python object for any of them."""
        if {len(getattr(self, name)) for name in self.types} != {len(self)}:
            raise ValueError("LinkRows: columns of unlike length")
        counts = np.fromiter(map(len, self.links), np.int64, len(self.links))
        columns = {
            "oid_src": np.repeat(np.array(self.oid_src, np.int64), counts),
            "oid_dst": np.frombuffer(b"".join(self.oids), np.int64),
            "sid_src": np.repeat(np.array(self.sid_src, np.int32), counts),
            "sid_dst": np.frombuffer(b"".join(self.sids), np.int32),
            "anchor": _texts([page.anchors for page in self.links]),
            "context": _texts([page.contexts for page in self.links]),
            "region": _names([page.regions for page in self.links], REGIONS),
            "position": np.frombuffer(b"".join([page.positions for page in self.links]), "<u4").astype(np.int32),
            "kind": _names([page.kinds for page in self.links], LINK_KINDS),
            "nofollow": np.frombuffer(b"".join([page.nofollow for page in self.links]), np.bool_),
        }
        rows = int(counts.sum())
        uneven = [f"{name} {len(column)}" for name, column in columns.items() if len(column) != rows]
        if uneven:
            raise ValueError(f"LinkRows: columns of unlike length: {rows} links, but {uneven}")
        return arrow.table(columns)


def _texts(pages: list[bytes]) -> pa.Array:
    """The texts that are joined by line ends."""
    joined = b"\n".join(pages)
    ends = np.flatnonzero(np.frombuffer(joined, np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 2 if pages else 1, np.int64)
    if pages:
        offsets[1:-1] = ends - np.arange(len(ends))
        offsets[-1] = len(joined) - len(ends)
    texts = joined.translate(None, b"\n")
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(texts))


def _names(pages: list[bytes], names: Sequence[str]) -> pa.Array:
    """The names that codes stand for."""
    codes = arrow.numbers(np.frombuffer(b"".join(pages), np.int8))
    return pa.DictionaryArray.from_arrays(codes, pa.array([str(name) for name in names]))


class TermRows(Rows):
    """Terms of pages: a row here is a page, and becomes as many rows of `terms` as it has terms."""

    oid: list[int] = _column(_INT64)
    term_ids: list[bytes] = _column(_BLOB)
    term_counts: list[bytes] = _column(_BLOB)

    def to_arrow(self) -> pa.Table:
        """One row per page and term, without a Python object for any of them."""
        tids = np.frombuffer(b"".join(self.term_ids), dtype="<u4")
        freqs = np.frombuffer(b"".join(self.term_counts), dtype="<u2")
        per_page = np.fromiter(map(len, self.term_ids), dtype=np.int64, count=len(self.term_ids)) // 4
        if not (len(self.oid) == len(self.term_ids) == len(self.term_counts)) or len(tids) != len(freqs):
            raise ValueError("TermRows: term_ids and term_counts of unlike length")
        return arrow.table({"oid": np.repeat(np.array(self.oid, np.int64), per_page), "tid": tids, "freq": freqs})


class LexiconRows(Rows):
    """Stems not reported before."""

    tid: list[int] = _column(_UINT32)
    term: list[str] = _column(_TEXT)


class VisitRows(Rows):
    """Requests made."""

    oid: list[int] = _column(_INT64)
    visited: list[float] = _column(TIME)
    kind: list[str] = _column(_TEXT)
    outcome: list[str] = _column(_TEXT)
    status: list[int] = _column(_INT16)
    detail: list[str] = _column(_TEXT)
    took_ms: list[float] = _column(_FLOAT)
    received_bytes: list[int] = _column(_INT64)
    warc_file: list[str] = _column(_TEXT)
    warc_offset: list[int] = _column(_INT64)
    warc_bytes: list[int] = _column(_INT64)


class RevisitRows(Rows):
    """Visits to pages that were stored before: counted in `revisits`."""

    oid: list[int] = _column(_INT64)
    visited: list[float] = _column(TIME)
    content_hash: list[int | None] = _column(_UINT64)
    """That of the text that came; None: the server said that nothing has changed."""


class SiftedRows(Rows):
    """Pages that came out of archives."""

    oid: list[int] = _column(_INT64)
    archive: list[str] = _column(_TEXT)
    record_offset: list[int] = _column(_INT64)
    captured: list[float] = _column(TIME)
    joined: list[float] = _column(TIME)


class ArchiveRows(Rows):
    """How far archives have been sifted; each archive, model and lane at most once in a batch."""

    archive: list[str] = _column(_TEXT)
    size: list[int] = _column(_INT64)
    model: list[str] = _column(_TEXT)
    lane: list[int] = _column(_INT16)
    lanes: list[int] = _column(_INT16)
    record_offset: list[int] = _column(_INT64)
    skip: list[int] = _column(_INT64)
    number: list[int] = _column(_INT64)
    done: list[bool] = _column(_FLAG)
    judged: list[int] = _column(_INT64)
    on_topic: list[int] = _column(_INT64)
    stored: list[int] = _column(_INT64)


class RedirectRows(Rows):
    """Redirects followed."""

    oid_src: list[int] = _column(_INT64)
    oid_dst: list[int] = _column(_INT64)
    status: list[int] = _column(_INT16)


class DuplicateRows(Rows):
    """Pages recognised as one we have."""

    oid: list[int] = _column(_INT64)
    of_oid: list[int] = _column(_INT64)
    step: list[str] = _column(_TEXT)


class TopicRows(Rows):
    """New or changed topics; each kcid at most once in a batch."""

    kcid: list[int] = _column(_INT16)
    pcid: list[int | None] = _column(_INT16)
    name: list[str] = _column(_TEXT)
    path: list[str] = _column(_TEXT)
    type: list[str] = _column(_TEXT)
    keywords: list[list[str]] = _column(_WORDS)
    description: list[str] = _column(_TEXT)


class SeedRows(Rows):
    """URLs the user named."""

    url: list[str] = _column(_TEXT)
    kcid: list[int] = _column(_INT16)
    source: list[str] = _column(_TEXT)
    title: list[str] = _column(_TEXT)
    added: list[float] = _column(TIME)
    found: list[list[dict[str, Any]] | None] = _column(_FINDS)

    def add(self, *values: Any) -> None:
        """Append one row; `found` may be left out."""
        Rows.add(self, *values, *([None] * (len(self.types) - len(values))))


class TrainingRows(Rows):
    """Documents to learn from."""

    name: list[str] = _column(_TEXT)
    kind: list[str] = _column(_TEXT)
    kcid: list[int] = _column(_INT16)
    positive: list[bool] = _column(_FLAG)
    source: list[str] = _column(_TEXT)
    title: list[str] = _column(_TEXT)
    text: list[str | None] = _column(_LONG_TEXT)
    added: list[float] = _column(TIME)


class ModelRows(Rows):
    """Models trained."""

    version: list[int] = _column(_INT32)
    created: list[float] = _column(TIME)
    classifier: list[str] = _column(_TEXT)
    reason: list[str] = _column(_TEXT)
    repeats: list[int | None] = _column(_INT32)
    detail: list[str] = _column(_TEXT)
    documents: list[int] = _column(_INT32)
    estimates: list[str] = _column(_TEXT)
    settings: list[str] = _column(_TEXT)
    taught: list[str] = _column(_TEXT)
    model: list[bytes] = _column(_BLOB)


class JudgementRows(Rows):
    """What models said of pages."""

    oid: list[int] = _column(_INT64)
    model_version: list[int] = _column(_INT32)
    kcid: list[int] = _column(_INT16)
    accepted: list[bool] = _column(_FLAG)
    relevance: list[float] = _column(_FLOAT)
    confidence: list[float] = _column(_FLOAT)
    undoubted: list[bool] = _column(_FLAG)
    agreed: list[list[str]] = _column(_WORDS)
    votes: list[list[tuple[str, float]]] = _column(_VOTES)

    def put(self, oid: int, judgement: Judgement) -> None:
        """Append what was said of a page."""
        self.add(
            oid, judgement.model_version, judgement.topic, judgement.accepted, judgement.relevance,
            judgement.confidence, judgement.undoubted, judgement.agreed, list(judgement.votes.items()),
        )  # fmt: skip


class NoticeRows(Rows):
    """What the crawl had to say."""

    noticed: list[float] = _column(TIME)
    kind: list[str] = _column(_TEXT)
    kcid: list[int | None] = _column(_INT16)
    text: list[str] = _column(_TEXT)
    remedy: list[str] = _column(_TEXT)
    remedies: list[str] = _column(_TEXT)


@dataclass(slots=True)
class Batch:
    """All rows of one transaction. Its length is its number of pages."""

    urls: UrlRows = field(default_factory=UrlRows)
    followed: FollowedRows = field(default_factory=FollowedRows)
    changes: ChangeRows = field(default_factory=ChangeRows)
    hosts: HostRows = field(default_factory=HostRows)
    origins: OriginRows = field(default_factory=OriginRows)
    robots: RobotsRows = field(default_factory=RobotsRows)
    pages: PageRows = field(default_factory=PageRows)
    page_pictures: PagePictureRows = field(default_factory=PagePictureRows)
    pictures: PictureRows = field(default_factory=PictureRows)
    links: LinkRows = field(default_factory=LinkRows)
    terms: TermRows = field(default_factory=TermRows)
    lexicon: LexiconRows = field(default_factory=LexiconRows)
    visits: VisitRows = field(default_factory=VisitRows)
    revisits: RevisitRows = field(default_factory=RevisitRows)
    sifted: SiftedRows = field(default_factory=SiftedRows)
    archives: ArchiveRows = field(default_factory=ArchiveRows)
    redirects: RedirectRows = field(default_factory=RedirectRows)
    duplicates: DuplicateRows = field(default_factory=DuplicateRows)
    topics: TopicRows = field(default_factory=TopicRows)
    seeds: SeedRows = field(default_factory=SeedRows)
    training: TrainingRows = field(default_factory=TrainingRows)
    models: ModelRows = field(default_factory=ModelRows)
    judgements: JudgementRows = field(default_factory=JudgementRows)
    notices: NoticeRows = field(default_factory=NoticeRows)
    replaced: list[int] = field(default_factory=list)
    """Pages stored before of which this batch brings a new form: their old page, links and terms are removed.
    Links that are gone stay in `past_links`."""
    counters: dict[str, int] = field(default_factory=dict)
    """Totals as they stand at the end of this batch; counters that did not change may be left out."""
    progress: CrawlProgress | None = None
    """The progress of the crawl at the end of this batch; None when it has not changed."""

    def __len__(self) -> int:
        return len(self.pages)

    def __bool__(self) -> bool:
        return bool(self.counters or self.replaced or self.progress) or any(len(rows) for _, rows in self.tables())

    def figures(self) -> Figures:
        """What it adds to the figures of the collection. A page that it replaces is judged again: that is not known."""
        rows, replaced = self.pages, set(self.replaced)
        new = [relevance for oid, relevance in zip(rows.oid, rows.relevance, strict=True) if oid not in replaced]
        judged = [relevance for relevance in new if relevance is not None]
        relevant = sum(relevance >= RELEVANT for relevance in judged)
        return Figures(len(new), len(judged), relevant, len(self.visits))

    def tables(self) -> Iterator[tuple[str, Rows]]:
        """The tables with their names, in the order in which they are written."""
        for f in dataclasses.fields(self):
            rows = getattr(self, f.name)
            if isinstance(rows, Rows):
                yield f.name, rows
