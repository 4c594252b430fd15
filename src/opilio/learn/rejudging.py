"""Judging stored pages anew: after a model has changed, or the marks of topics have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from opilio.classify import Model
from opilio.features.evidence import SIGNIFICANT_STEMS, Evidence, TextReader
from opilio.learn.training import with_gaps
from opilio.model import RELEVANT, Judgement
from opilio.settings import Classify
from opilio.store import Batch, Store
from opilio.store.judging import apply_judgements

CHUNK_PAGES = 500

_PAGES = """
    SELECT p.oid, c.url, p.title, p.language, p.text, coalesce(p.relevance, 0.0), l.anchor, c.parent
    FROM pages p
    JOIN crawl c USING (oid)
    LEFT JOIN (SELECT oid_src, oid_dst, any_value(anchor) AS anchor FROM links GROUP BY ALL) l
        ON l.oid_src = c.parent AND l.oid_dst = c.oid
    WHERE p.text IS NOT NULL AND coalesce(p.model_version, 0) < $1
    ORDER BY p.oid
"""
_TOLD = f"""
    SELECT oid, max_by(tid, freq, {SIGNIFICANT_STEMS}) FROM terms
    WHERE oid IN (SELECT unnest($1::BIGINT[])) GROUP BY oid
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
) -> Rejudged:
    """Judge all pages that an older model judged, and give what they link to its new priority.

    `examples` are oids of examples with their topics: those stay what the user says they are. Pages whose text is not
    kept cannot be judged anew. Work is committed in pieces: what was done stays done when this is stopped.
    """
    result, reader, model = Rejudged(), TextReader(), Model.from_bytes(model_bytes)
    neighbours = any("neighbours" in space for space in settings.spaces)
    for rows in _chunks(store, model.version):
        told = dict(store.query(_TOLD, [[row[7] for row in rows]], max_rows=CHUNK_PAGES).rows) if neighbours else {}
        batch, judged = Batch(), []
        for oid, url, title, language, text, before, anchor, parent in rows:
            evidence = reader.read(title or "", text, language or "", url)
            evidence = Evidence(
                evidence.stems,
                with_gaps([reader.stems(anchor, evidence.language)] if anchor else []),
                np.array(told.get(parent, ()), np.uint32),
                *(evidence.title, evidence.text, evidence.language, url),
            )
            judgement = model.judge(evidence)
            if oid in examples:
                judgement = msgspec.structs.replace(judgement, topic=examples[oid], accepted=True, relevance=1.0)
            judged.append((oid, judgement))
            batch.judgements.put(oid, judgement)
            result.pages += 1
            result.relevant_before += before >= RELEVANT
            result.relevant_after += judgement.is_relevant
        store.write(batch)
        with store.writing() as connection:
            apply_judgements(connection, _table(judged))
        on_progress(result.pages)
    return result


def _chunks(store: Store, version: int) -> Iterator[list[tuple[Any, ...]]]:
    waiting: list[tuple[Any, ...]] = []
    for piece in store.stream(_PAGES, [version]):
        for row in zip(*(column.to_pylist() for column in piece.columns), strict=True):
            waiting.append(row)
            if len(waiting) >= CHUNK_PAGES:
                yield waiting
                waiting = []
    if waiting:
        yield waiting


def _table(judged: list[tuple[int, Judgement]]) -> pa.Table:
    return pa.table(
        {
            "oid": pa.array([oid for oid, _ in judged], pa.int64()),
            "relevance": pa.array([judgement.relevance for _, judgement in judged], pa.float32()),
            "kcid": pa.array([judgement.topic for _, judgement in judged], pa.int16()),
            "accepted": pa.array([judgement.accepted for _, judgement in judged], pa.bool_()),
            "model_version": pa.array([judgement.model_version for _, judgement in judged], pa.int32()),
        }
    )
