"""`Loader`: reads back what memory is rebuilt from when a crawl resumes, as records and arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from opilio.model import CrawlProgress, Phase, TrainingCause, TrainingReason, UrlState
from opilio.store.reader import StoreReader
from opilio.topics import TopicRecord

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

    Columns = dict[str, npt.NDArray[Any]]


# An example's page is that of its URL, or of where that was redirected to, or of the page it is a duplicate of.
# Reading the texts of pages takes three times as long as everything else.
_TRAINING = """
    WITH RECURSIVE way(name, oid, hops) AS (
        SELECT t.name, c.oid, 0 FROM training t JOIN crawl c ON c.url = t.name WHERE t.kind = 'url'
        UNION ALL
        SELECT w.name, coalesce(r.oid_dst, d.of_oid), w.hops + 1
        FROM way w
        LEFT JOIN redirects r ON r.oid_src = w.oid
        LEFT JOIN duplicates d ON d.oid = w.oid
        WHERE w.hops < 25 AND coalesce(r.oid_dst, d.of_oid) IS NOT NULL
    ),
    found AS (
        SELECT w.name,
               max_by(struct_pack(oid := p.oid, language := p.language, title := p.title{page_text}), w.hops)
               AS page
        FROM way w JOIN pages p ON p.oid = w.oid
        GROUP BY w.name
    )
    SELECT t.name, t.kind, t.kcid, t.positive, t.source, coalesce(nullif(t.title, ''), f.page.title, ''), f.page.oid,
           coalesce(f.page.language, ''), {text}
    FROM training t LEFT JOIN found f ON f.name = t.name
    ORDER BY t.rowid
"""

_PROGRESS = """
    SELECT phase, archetype_rounds, relevant_at_round, negative_rounds, pages_at_analysis, question_rounds FROM progress
"""

STATES = (UrlState.WAITING, UrlState.FETCHED, UrlState.FAILED, UrlState.DROPPED)
"""A state's code in the arrays of `load_urls` is its place here."""

WARC_END = "warc_end:"
"""Before the name of a WARC file in `meta.name`: the value is where the last record ends that was read. A part of a
collection notes this, because a file has the records of all parts, and the visits of one part do not show it."""

WARC_ENDS = f"""
    SELECT name, max(known_end) FROM (
        SELECT warc_file AS name, warc_offset + warc_bytes AS known_end FROM visits WHERE warc_file <> ''
        UNION ALL
        SELECT name[{len(WARC_END) + 1}:], value::BIGINT FROM meta WHERE starts_with(name, '{WARC_END}')
    ) GROUP BY name ORDER BY name
"""


class HostRecord(NamedTuple):
    """A host as it was last written; times in seconds since the epoch, 0.0 for never."""

    sid: int
    host: str
    domain: str
    ip: str | None
    pages: int
    bytes: int
    requests: int
    next_visit_s: float


class OriginRecord(NamedTuple):
    """http or https of a host as it was last written, with its latest robots.txt."""

    sid: int
    scheme: str
    state: str
    failures: int
    problem: str | None
    robots_status: int | None
    crawl_delay_s: float
    met_s: float
    robots: str | None


class SeedRecord(NamedTuple):
    """A URL the user named."""

    url: str
    kcid: int
    source: str
    title: str


class TrainingRecord(NamedTuple):
    """A document to learn from, with the text that stands for it."""

    name: str
    kind: str
    kcid: int
    positive: bool
    source: str
    title: str
    oid: int | None
    """The stored page, for a URL that was fetched."""
    language: str
    text: str | None


class ExampleRecord(NamedTuple):
    """A document to learn from that is to be fetched."""

    url: str
    kcid: int
    positive: bool


class ModelRecord(NamedTuple):
    """A trained model, without its bytes."""

    version: int
    created_s: float
    classifier: str
    documents: int
    estimates: str
    settings: str
    taught: str
    """Fingerprint of what it was taught."""
    cause: TrainingCause
    """Why it was trained."""


class Loader:
    """Loads whole tables."""

    def __init__(self, reader: StoreReader) -> None:
        self._reader = reader
        self._topics: tuple[int, list[TopicRecord]] = -1, []
        """How many edits there had been when the topics were read, and these: a crawl asks for them again and again."""

    def load_urls(self, columns: Sequence[str] = ("oid", "key", "sid", "state", "numtries")) -> Iterator[Columns]:
        """All known URLs in chunks of arrays, ascending by oid; `state` as its place in `STATES`."""
        wanted = ", ".join("enum_code(state) AS state" if name == "state" else name for name in columns)
        yield from self._arrays(f"SELECT {wanted} FROM crawl")

    def _arrays(self, sql: str) -> Iterator[Columns]:
        for piece in self._reader.select_pieces(sql):
            yield {name: piece.column(name).to_numpy(zero_copy_only=False) for name in piece.schema.names}

    def load_hosts(self) -> Iterator[HostRecord]:
        """All hosts, ascending by sid."""
        sql = """
            SELECT sid, host, domain, ip, pages, bytes, requests, coalesce(epoch(next_visit), 0.0)
            FROM hosts ORDER BY sid
        """
        for piece in self._reader.select_pieces(sql):
            for row in zip(*(column.to_pylist() for column in piece.columns), strict=True):
                yield HostRecord(*row)

    def load_origins(self) -> Iterator[OriginRecord]:
        """All origins, each with its latest robots.txt."""
        sql = """
            SELECT sid, scheme, state, failures, problem, robots_status, crawl_delay_s, coalesce(epoch(met), 0.0),
                   latest.text
            FROM origins
            LEFT JOIN (SELECT sid, scheme, arg_max(text, rowid) AS text FROM robots GROUP BY ALL) latest
                USING (sid, scheme)
            ORDER BY sid, scheme
        """
        for piece in self._reader.select_pieces(sql):
            for row in zip(*(column.to_pylist() for column in piece.columns), strict=True):
                yield OriginRecord(*row)

    def load_topics(self) -> list[TopicRecord]:
        """All topics, ascending by kcid."""
        edits, topics = self._topics
        if edits != self._reader.edits:
            edits = self._reader.edits
            sql = """
                SELECT kcid, pcid, name, path, type, coalesce(keywords, []), coalesce(description, '')
                FROM topics ORDER BY kcid
            """
            topics = [TopicRecord(*row) for row in self._reader.select(sql, max_rows=2**15).rows]
            self._topics = edits, topics
        return [topic._replace(keywords=[*topic.keywords]) for topic in topics]

    def load_seeds(self) -> Iterator[SeedRecord]:
        """All seeds, in the order they were named."""
        for piece in self._reader.select_pieces("SELECT url, kcid, source, title FROM seeds ORDER BY rowid"):
            for row in zip(*(column.to_pylist() for column in piece.columns), strict=True):
                yield SeedRecord(*row)

    def load_training(self, *, page_texts: bool = True) -> Iterator[TrainingRecord]:
        """All documents to learn from, in the order they were added; redirected URLs lead to their page.

        Without `page_texts`, a document has only a text that the user gave or trimmed.
        """
        if not page_texts:  # these are small: to stream them takes longer than to read them
            rows = self._reader.select(_TRAINING.format(page_text="", text="t.text"), max_rows=2**20).rows
            yield from map(TrainingRecord._make, rows)
            return
        sql = _TRAINING.format(page_text=", text := p.text", text="coalesce(t.text, f.page.text)")
        for piece in self._reader.select_pieces(sql):
            for row in zip(*(column.to_pylist() for column in piece.columns), strict=True):
                yield TrainingRecord(*row)

    def load_examples(self) -> list[ExampleRecord]:
        """The URLs among the documents to learn from, with the redirects that were followed from them."""
        sql = """
            WITH RECURSIVE way(url, kcid, positive, oid, hops) AS (
                SELECT t.name, t.kcid, t.positive, c.oid, 0
                FROM training t LEFT JOIN crawl c ON c.url = t.name WHERE t.kind = 'url'
                UNION ALL
                SELECT c.url, w.kcid, w.positive, c.oid, w.hops + 1
                FROM way w JOIN redirects r ON r.oid_src = w.oid JOIN crawl c ON c.oid = r.oid_dst WHERE w.hops < 25
            )
            SELECT DISTINCT url, kcid, positive, hops FROM way ORDER BY hops, url
        """
        return [
            ExampleRecord(url, kcid, positive)
            for url, kcid, positive, _ in self._reader.select(sql, max_rows=2**20).rows
        ]

    def load_models(self) -> list[ModelRecord]:
        """All models, newest first."""
        sql = """
            SELECT version, epoch(created), classifier, coalesce(documents, 0), coalesce(estimates, '{}'),
                   coalesce(settings, ''), coalesce(taught, ''), reason, coalesce(detail, ''), repeats
            FROM models ORDER BY version DESC
        """
        return [
            ModelRecord(*known, TrainingCause(TrainingReason(reason), detail, repeats))  # type: ignore[call-arg]
            for *known, reason, detail, repeats in self._reader.select(sql, max_rows=2**15).rows
        ]

    def load_model(self, version: int = 0) -> bytes:
        """The bytes of a model, of the newest when `version` is 0; b'' when there is none."""
        sql = "SELECT model FROM models WHERE ? IN (0, version) ORDER BY version DESC LIMIT 1"
        rows = self._reader.select(sql, [version], max_rows=1).rows
        return bytes(rows[0][0]) if rows else b""

    def load_counters(self) -> dict[str, int]:
        """The running counts."""
        return dict(self._reader.select("SELECT name, n FROM counters ORDER BY name", max_rows=2**20).rows)

    def load_progress(self) -> CrawlProgress:
        """How far the crawl has come; that of a new one before it has begun."""
        rows = self._reader.select(_PROGRESS, max_rows=1).rows
        return CrawlProgress(Phase(rows[0][0]), *rows[0][1:]) if rows else CrawlProgress()

    def waiting_count(self) -> int:
        """How many URLs are queued."""
        return int(self._reader.select("SELECT count(*) FROM crawl WHERE state = 'waiting'", max_rows=1).rows[0][0])

    def load_warc_ends(self) -> dict[str, int]:
        """For each WARC file, the offset after the last record that is in the database, or in that of another part."""
        return {name: int(end) for name, end in self._reader.select(WARC_ENDS, max_rows=2**20).rows}

    def count_rows(self, table: str) -> int:
        """Rows of a table of the schema."""
        return int(self._reader.select(f"SELECT count(*) FROM {table}", max_rows=1).rows[0][0])
