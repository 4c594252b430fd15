"""What the page that led to a URL tells of it, taken from the database: the words of the link, and the page's own.

Counter-examples among the stored pages: what the user denies of them holds, whatever a model says.

A counter-example of a topic is in OTHERS beside it (`Example.positive`): neither the topic has it, nor one that
competes with it. So a page that a model puts there anyway stays above them: in their parent, or in OTHERS.

Judging stored pages anew: after a model has changed, or the marks of topics have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from opilio.classify import Model
from opilio.features.evidence import SIGNIFICANT_STEMS
from opilio.learn.rejudging_process import PagesJudge, PagesJudgeProcess, StoredPage
from opilio.model import RELEVANT, Judgement
from opilio.process import OnStart
from opilio.settings import ClassifySettings
from opilio.store import Batch, Store
from opilio.store.judging import apply_judgements
from opilio.topics import hierarchy_of
from opilio.topics.hierarchy import ROOT, Hierarchy

NO_WAY = ("", b"")

# Of several links on a page, the first that says anything.
_ANCHORS = """
    SELECT c.oid, arg_min(l.anchor, l.position) FROM crawl c JOIN links l ON l.oid_dst = c.oid AND l.oid_src = c.parent
    WHERE c.oid IN (SELECT unnest($1::BIGINT[])) AND l.anchor <> '' GROUP BY c.oid
"""
_TOLD = f"""
    SELECT c.oid, t.tids FROM crawl c JOIN (
        SELECT oid, max_by(tid, freq, {SIGNIFICANT_STEMS}) AS tids FROM terms
        WHERE oid IN (SELECT parent FROM crawl WHERE oid IN (SELECT unnest($1::BIGINT[]))) GROUP BY oid
    ) t ON t.oid = c.parent
    WHERE c.oid IN (SELECT unnest($1::BIGINT[]))
"""


def ways_to(store: Store, oids: list[int], settings: ClassifySettings) -> dict[int, tuple[str, bytes]]:
    """For URLs found on pages: the words of the link, and the page's significant stems (uint32 little-endian).

    Only what a feature space looks at is asked for.
    """
    looks_at = "+".join(settings.spaces)
    if not oids:
        return {}
    anchors: dict[int, str] = {}
    told: dict[int, bytes] = {}
    if "anchors" in looks_at:
        anchors = dict(store.query(_ANCHORS, [oids], max_rows=len(oids)).rows)
    if "neighbours" in looks_at:
        rows = store.query(_TOLD, [oids], max_rows=len(oids)).rows
        told = {oid: b"".join(tid.to_bytes(4, "little") for tid in sorted(tids)) for oid, tids in rows}
    return {oid: (anchors.get(oid, ""), told.get(oid, b"")) for oid in anchors.keys() | told.keys()}


@dataclass(frozen=True)
class Refused:
    """The stored pages of which the user says what they are not about."""

    parents: Mapping[int, frozenset[int]]
    """By oid: the nodes of which no topic below has the page."""
    hierarchy: Hierarchy

    @classmethod
    def of(cls, store: Store, examples: Collection[int]) -> Self:
        """Those of a collection; the pages that are `examples` are not among them."""
        hierarchy = hierarchy_of(store.load_topics())
        found: dict[int, frozenset[int]] = {}
        for record in store.load_training():
            if record.positive or record.oid is None or record.oid in examples or record.kcid not in hierarchy.nodes:
                continue
            above = max(hierarchy.nodes[record.kcid].parent, hierarchy.start)
            found[record.oid] = found.get(record.oid, frozenset()) | {above}
        return cls(found, hierarchy)

    def overrule(self, oid: int, said: Judgement) -> Judgement:
        """A judgement, unless it says what the user denies."""
        denied = self.parents.get(oid)
        if not denied or not said.accepted:
            return said
        line = self.hierarchy.line(said.topic)
        above = next((kcid for kcid in line if self.hierarchy.nodes[kcid].parent in denied), None)
        if above is None:
            return said
        parent = self.hierarchy.nodes[above].parent
        stays = parent != self.hierarchy.start
        relevance = said.relevance if self.hierarchy.is_wanted(parent) else 0.0
        return msgspec.structs.replace(said, topic=max(parent, ROOT), accepted=stays, relevance=relevance)


CHUNK_PAGES = 500

_OLDER = "text IS NOT NULL AND coalesce(model_version, 0) < $1"
_OIDS = f"SELECT oid FROM pages WHERE {_OLDER} ORDER BY rowid"
_PAGES = f"""
    SELECT p.oid, coalesce(p.relevance, 0.0), c.url, coalesce(p.title, ''), coalesce(p.language, ''), p.text
    FROM pages p JOIN crawl c USING (oid)
    WHERE p.oid IN (SELECT unnest($2::BIGINT[])) AND {_OLDER}
"""


@dataclass
class Rejudged:
    """What judging anew came to."""

    pages: int = 0
    relevant_before: int = 0
    relevant_after: int = 0


def rejudge(
    store: Store,
    model_bytes: bytes,
    examples: Mapping[int, int],
    settings: ClassifySettings,
    *,
    on_progress: Callable[[int], object] = lambda pages: None,
    beside: OnStart | None = None,
) -> Rejudged:
    """Judge all pages that an older model judged, and give what they link to its new priority.

    `examples` are oids of examples with their topics: those stay what the user says they are, as counter-examples do
    (`Refused`). Pages whose text is not kept cannot be judged anew. Work is committed in pieces: what was done stays
    done when this is stopped, as it is when `on_progress`, which is told how many pages were judged so far, returns
    False. With `beside`, which is told the process, many pages are judged in a process of low priority, so that a crawl
    can go on.
    """
    result, version = Rejudged(), Model.from_bytes(model_bytes).version
    refused = Refused.of(store, examples)
    with _judge(store, version, model_bytes, beside) as judge:
        for rows in _chunks(store, version):
            batch, ways = Batch(), ways_to(store, [row[0] for row in rows], settings)
            judged = judge([StoredPage._make((*row[2:], *ways.get(row[0], NO_WAY))) for row in rows])
            for (oid, before, *_), said in zip(rows, judged, strict=True):
                own = {"topic": examples[oid], "accepted": True, "relevance": 1.0} if oid in examples else {}
                judgement = refused.overrule(oid, msgspec.structs.replace(said, **own))
                batch.judgements.put(oid, judgement)
                result.pages += 1
                result.relevant_before += before >= RELEVANT
                result.relevant_after += judgement.is_relevant
            with store.writing() as connection:
                apply_judgements(connection, batch.judgements.to_arrow())
            if on_progress(result.pages) is False:
                break
    return result


def _judge(
    store: Store, version: int, model: bytes, beside: OnStart | None
) -> AbstractContextManager[Callable[[Sequence[StoredPage]], Sequence[Judgement]]]:
    """Who judges. A few pages are judged before a process would have started."""
    if beside is None or len(_older(store, version)) <= CHUNK_PAGES:
        return nullcontext(PagesJudge(model))
    return PagesJudgeProcess(model, beside)


def _chunks(store: Store, version: int) -> Iterator[list[tuple[Any, ...]]]:
    """The pages that an older model judged, also those that it judged while others were judged anew."""
    seen: set[int] = set()
    while oids := [oid for oid in _older(store, version) if oid not in seen]:
        seen.update(oids)
        for start in range(0, len(oids), CHUNK_PAGES):
            chosen = oids[start : start + CHUNK_PAGES]
            rows = store.query(_PAGES, [version, chosen], max_rows=CHUNK_PAGES).rows
            if rows:
                yield rows


def _older(store: Store, version: int) -> list[int]:
    return [oid for piece in store.stream(_OIDS, [version]) for oid in piece.column(0).to_pylist()]
