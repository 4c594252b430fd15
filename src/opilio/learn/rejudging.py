"""Judging stored pages anew: after a model has changed, or the marks of topics have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import msgspec

from opilio.classify import Model
from opilio.learn.judging_process import PagesJudge, PagesJudgeBeside, StoredPage
from opilio.learn.refusing import Refused
from opilio.learn.trainer import OnStart
from opilio.learn.ways import NO_WAY, ways_to
from opilio.model import RELEVANT, Judgement
from opilio.settings import Classify
from opilio.store import Batch, Store
from opilio.store.judging import apply_judgements

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
    settings: Classify,
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
    return PagesJudgeBeside(model, beside)


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
