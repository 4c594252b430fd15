"""Judging stored pages anew: after a model has changed, or the marks of topics have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from opilio.classify import Model
from opilio.features.evidence import TextReader
from opilio.learn.ways import NO_WAY, ways_to
from opilio.model import RELEVANT
from opilio.settings import Classify
from opilio.store import Batch, Store
from opilio.store.judging import apply_judgements

CHUNK_PAGES = 500

_OLDER = "text IS NOT NULL AND coalesce(model_version, 0) < $1"
_OIDS = f"SELECT oid FROM pages WHERE {_OLDER} ORDER BY rowid"
_PAGES = f"""
    SELECT p.oid, c.url, p.title, p.language, p.text, coalesce(p.relevance, 0.0)
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
) -> Rejudged:
    """Judge all pages that an older model judged, and give what they link to its new priority.

    `examples` are oids of examples with their topics: those stay what the user says they are. Pages whose text is not
    kept cannot be judged anew. Work is committed in pieces: what was done stays done when this is stopped, as it is
    when `on_progress`, which is told how many pages were judged so far, returns False.
    """
    result, reader, model = Rejudged(), TextReader(), Model.from_bytes(model_bytes)
    for rows in _chunks(store, model.version):
        batch, ways = Batch(), ways_to(store, [row[0] for row in rows], settings)
        for oid, url, title, language, text, before in rows:
            anchor, told = ways.get(oid, NO_WAY)
            links = [anchor] if anchor else []
            evidence = reader.read(title or "", text, language or "", url, links, np.frombuffer(told, "<u4"))
            judgement = model.judge(evidence)
            if oid in examples:
                judgement = msgspec.structs.replace(judgement, topic=examples[oid], accepted=True, relevance=1.0)
            batch.judgements.put(oid, judgement)
            result.pages += 1
            result.relevant_before += before >= RELEVANT
            result.relevant_after += judgement.is_relevant
        with store.writing() as connection:
            apply_judgements(connection, batch.judgements.to_arrow())
        reader.terms.clear()  # nobody asks for the words of all pages
        if on_progress(result.pages) is False:
            break
    return result


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
