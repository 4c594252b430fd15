"""The training set of a collection."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opilio.classify import Example, TrainingSet
from opilio.features.evidence import Evidence, TextReader
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.links import anchors_to
from opilio.store.loader import TrainingRecord
from opilio.store.terms import bag_of_terms, document_frequencies, neighbour_terms
from opilio.topics import OthersDocument, default_others, hierarchy_of, read_others
from opilio.topics.hierarchy import ABOVE_ROOT

if TYPE_CHECKING:
    from opilio.features.evidence import Stems


def gather(store: Store, settings: Settings) -> TrainingSet:
    """All that a classifier can learn from now. Examples whose page is not there (yet) are left out."""
    topics = store.load_topics()
    reader = TextReader()
    examples = examples_of(store, list(store.load_training()), reader)
    documents, frequencies = document_frequencies(store)
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
    anchors, neighbours = anchors_to(store, oids), neighbour_terms(store, oids)
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
    bag = bag_of_terms(store, record.oid) if record.oid is not None else []
    stems = np.repeat(np.array([tid for tid, _ in bag], np.uint32), [freq for _, freq in bag])
    apart = np.zeros((len(stems), 50), np.uint32)
    apart[:, 0] = stems
    return replace(evidence, stems=apart.ravel(), url=record.name) if bag else None


def _others(reader: TextReader, settings: Settings) -> Iterable[Example]:
    chosen = settings.classify.others
    if chosen:
        return _read_as_others(reader, read_others(Path(chosen)))
    examples, terms = _default_others()
    for term, stem in terms.items():
        reader.terms.setdefault(term, stem)
    return examples


def _read_as_others(reader: TextReader, documents: Iterable[OthersDocument]) -> Iterable[Example]:
    for document in documents:
        evidence = reader.read(document.title, document.text, document.language)
        yield Example(ABOVE_ROOT, evidence, positive=False, name=document.title)


@functools.cache
def _default_others() -> tuple[tuple[Example, ...], dict[int, str]]:
    """The documents that come with Opilio, and their terms. They never change, and reading them takes 0.2 s of CPU."""
    reader = TextReader()
    examples = tuple(_read_as_others(reader, default_others()))
    for example in examples:
        example.evidence.stems.flags.writeable = False  # all training sets share them
    return examples, reader.terms
