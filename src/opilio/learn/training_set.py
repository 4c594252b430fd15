"""The training set of a collection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opilio.classify import Example, TrainingSet
from opilio.features.evidence import SIGNIFICANT_STEMS, Evidence, TextReader
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.loader import TrainingRecord
from opilio.topics import default_others, hierarchy_of, read_others
from opilio.topics.hierarchy import ABOVE_ROOT

if TYPE_CHECKING:
    from opilio.features.evidence import Stems

MAX_COUNTED_PAGES = 100_000
"""Document frequencies are counted in at most so many pages, spread evenly: more would not change an idf by much."""
MAX_ANCHORS = 50
"""Links looked at for the words that others use for an example."""

_FREQUENCIES = """
    SELECT tid, count(*)::INTEGER AS df FROM terms WHERE oid % $1 = 0 AND oid IN (SELECT oid FROM pages) GROUP BY tid
"""
_ANCHORS = f"""
    SELECT oid_dst, list(anchor)[:{MAX_ANCHORS}] FROM links
    WHERE oid_dst IN (SELECT unnest($1::BIGINT[])) AND anchor <> '' GROUP BY oid_dst
"""
# The most frequent terms of each page that links to an example or is linked from it.
_NEIGHBOURS = f"""
    WITH near AS (
        SELECT oid_dst AS oid, oid_src AS other FROM links WHERE oid_dst IN (SELECT unnest($1::BIGINT[]))
        UNION
        SELECT oid_src, oid_dst FROM links WHERE oid_src IN (SELECT unnest($1::BIGINT[]))
    ),
    told AS (
        SELECT oid AS other, unnest(max_by(tid, freq, {SIGNIFICANT_STEMS})) AS tid
        FROM terms WHERE oid IN (SELECT other FROM near) GROUP BY oid
    )
    SELECT n.oid, list(t.tid) FROM near n JOIN told t USING (other) WHERE n.oid <> n.other GROUP BY n.oid
"""
_BAG = "SELECT tid, freq FROM terms WHERE oid = ?"


def gather(store: Store, settings: Settings) -> TrainingSet:
    """All that a classifier can learn from now. Examples whose page is not there (yet) are left out."""
    topics = store.load_topics()
    reader = TextReader()
    examples = examples_of(store, list(store.load_training()), reader)
    documents, frequencies = _frequencies(store)
    return TrainingSet(
        hierarchy=hierarchy_of(topics),
        examples=tuple(examples),
        others=tuple(_others(reader, settings)),
        document_frequencies=frequencies,
        documents=documents,
        terms=reader.terms,
        keywords={topic.kcid: " ".join(topic.keywords) for topic in topics if topic.keywords},
    )


def examples_of(store: Store, records: Sequence[TrainingRecord], reader: TextReader) -> list[Example]:
    """What there is to learn from documents; those whose page is not there are left out."""
    oids = [record.oid for record in records if record.oid is not None]
    anchors, neighbours = anchors_of(store, oids), neighbours_of(store, oids)
    examples = []
    for record in records:
        oid = -1 if record.oid is None else record.oid
        words = [record.title] if record.kind == "url" else []  # what the user calls the link
        words += anchors.get(oid, [])
        near = np.array(neighbours.get(oid, ()), np.uint32)
        evidence = _evidence(store, reader, record, words, near)
        if evidence is not None:
            examples.append(Example(record.kcid, evidence, record.positive, record.name))
    return examples


def anchors_of(store: Store, oids: list[int]) -> dict[int, list[str]]:
    """The words of links that point to each of some pages."""
    return dict(store.query(_ANCHORS, [oids], max_rows=2**20).rows) if oids else {}


def neighbours_of(store: Store, oids: list[int]) -> dict[int, list[int]]:
    """Significant stems of the pages around each of some pages."""
    return dict(store.query(_NEIGHBOURS, [oids], max_rows=2**20).rows) if oids else {}


def _evidence(
    store: Store, reader: TextReader, record: TrainingRecord, anchors: list[str], neighbours: Stems
) -> Evidence | None:
    if not record.text and record.oid is None:
        return None
    url = record.name if record.kind == "url" else ""
    evidence = reader.read(record.title, record.text or "", record.language, url, anchors, neighbours)
    if record.text:
        return evidence
    # The texts of pages are not kept: their terms must do. They have no order, so gaps keep them from forming pairs.
    bag = store.query(_BAG, [record.oid], max_rows=2**16).rows
    stems = np.repeat(np.array([tid for tid, _ in bag], np.uint32), [freq for _, freq in bag])
    apart = np.zeros((len(stems), 50), np.uint32)
    apart[:, 0] = stems
    return replace(evidence, stems=apart.ravel(), url=record.name) if bag else None


def _others(reader: TextReader, settings: Settings) -> Iterable[Example]:
    chosen = settings.classify.others
    for document in read_others(Path(chosen)) if chosen else default_others():
        evidence = reader.read(document.title, document.text, document.language)
        yield Example(ABOVE_ROOT, evidence, positive=False, name=document.title)


def _frequencies(store: Store) -> tuple[int, dict[int, int]]:
    pages = store.count_rows("pages")
    step = max(1, -(-pages // MAX_COUNTED_PAGES))
    frequencies: dict[int, int] = {}
    for piece in store.stream(_FREQUENCIES, [step]):
        frequencies.update(zip(piece.column(0).to_pylist(), piece.column(1).to_pylist(), strict=True))
    return (pages // step if frequencies else 0), frequencies
