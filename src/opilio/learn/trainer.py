"""Training: the training set of a collection in, a model out, in this process or another; and storing models.

`gather` makes the training set: examples that were fetched, files and texts, OTHERS, document frequencies.

For the classifier `oasis` also: the variable part of its filter redrawn from what was found since (OASIS 4, step 5),
and proposals of terms that an expert may choose from.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opilio.classify import CLASSIFIERS, Estimating, Example, Judge, Model, TrainingSet
from opilio.classify.bayes import BayesTree
from opilio.classify.oasis import OasisFilter
from opilio.classify.oasis_filter import core_of, proposals, write_proposal
from opilio.classify.svm import SvmTree
from opilio.errors import InputError
from opilio.features.classifier_input import ClassifierInput, TextReader, stored_reader
from opilio.learn.training_data import MIN_EXAMPLE_WORDS
from opilio.model import Document, TrainingCause
from opilio.model.training import CALIBRATED
from opilio.process import NICENESS, Child, OnStart, call, prepare
from opilio.settings import ClassifySettings, Settings, to_toml
from opilio.store import Batch, Store
from opilio.store.links import anchors_to
from opilio.store.loader import TrainingRecord
from opilio.store.pages import latest_relevant
from opilio.store.probes import write_model
from opilio.store.terms import bag_of_terms, document_frequencies, neighbour_terms
from opilio.store.training import CONFIRMED, REJECTED
from opilio.topics import OthersDocument, default_others, hierarchy_of, read_others
from opilio.topics.hierarchy import ABOVE_ROOT

if TYPE_CHECKING:
    from opilio.features.classifier_input import Stems


FEW_DOCUMENTS = 500
"""Besides those of OTHERS. 100 take 0.1 s of CPU, and 5 examples with 400 pages met 0.3 s, most of it in numpy, where a
process takes 0.35 s to start and libsvm 0.7 s to import."""
_LIGHT_SPACES = frozenset({"terms", "pairs", "anchors", "neighbours"})


@dataclass(frozen=True)
class TrainedModel:
    """A model, with what is known of it without loading it."""

    version: int
    classifier: str
    documents: int
    """It was trained on."""
    estimates: str
    """JSON: topic -> feature space -> expected error, precision and recall; '{}' when the classifier gives none."""
    model: bytes


def train(training: TrainingSet, settings: Settings, version: int) -> TrainedModel:
    """Train the classifier that the settings name. Raises InputError when the examples do not suffice."""
    name = settings.classify.classifier
    judge = CLASSIFIERS.get(name).train(training, settings)
    model = Model(version, name, judge, only_undoubted=settings.classify.only_undoubted)
    return TrainedModel(version, name, len(training.examples), json.dumps(_estimates(judge)), model.to_bytes())


def prepare_training(settings: Settings, examples: int) -> Child | None:
    """Start the process of a training ahead of time, when there are many examples: its imports take a second."""
    if _is_done_here(settings, examples):
        return None
    return prepare(__name__, *(["sklearn.svm"] if settings.classify.classifier == "svm" else []))


def train_off_loop(
    training: TrainingSet,
    settings: Settings,
    version: int,
    on_start: OnStart = lambda process: None,
    prepared: Child | None = None,
) -> TrainedModel:
    """The same for a caller whose event loop must go on: blocks the calling thread only.

    A few documents are learned here, in less time than a process takes to start; more in a process of its own, the
    `prepared` one if there is one.
    """
    if prepared is None and _is_done_here(settings, len(training.examples) + len(training.met)):
        return train(training, settings, version)
    # A crawl waits for its first model; later ones take what it leaves of the processors.
    niceness = NICENESS if version > 1 else 0
    trained: TrainedModel = call(
        train, training, settings, version, niceness=niceness, on_start=on_start, prepared=prepared
    )
    return trained


def _is_done_here(settings: Settings, documents: int) -> bool:
    """Whether training takes so little that it needs no process: a second of CPU at most."""
    classify = settings.classify
    spaces = {part.strip() for name in classify.spaces for part in name.split("+")}
    return documents <= FEW_DOCUMENTS and classify.classifier == "svm" and spaces <= _LIGHT_SPACES


def store_model(store: Store, trained: TrainedModel, cause: TrainingCause, settings: Settings, taught: str) -> None:
    """Store a model; one of Focus's also as tables, so that the database can judge by itself.

    `taught` is the fingerprint of what it was trained on (`training_data.fingerprint`), taken before that was gathered.
    """
    batch = Batch()
    batch.models.add(
        trained.version, time.time(), trained.classifier, cause.reason, cause.repeats, cause.detail, trained.documents,
        trained.estimates, to_toml(Settings(classify=settings.classify, oasis=settings.oasis)), taught, trained.model,
    )  # fmt: skip
    store.write(batch)
    judge = Model.from_bytes(trained.model).trained_judge
    if isinstance(judge, BayesTree):
        with store.writing() as connection:
            write_model(connection, judge.tables())


def _estimates(judge: Judge) -> dict[str, dict[str, dict[str, float]]]:
    if not isinstance(judge, Estimating):
        return {}
    found = {
        str(kcid): {space: asdict(estimate) for space, estimate in spaces.items()}
        for kcid, spaces in judge.estimates().items()
    }
    if isinstance(judge, SvmTree):
        for kcid, calibration in judge.trained.calibrations.items():
            if calibration.expected is not None:
                found.setdefault(str(kcid), {})[CALIBRATED] = asdict(calibration.expected)
    return found


def redraw(store: Store, settings: Settings, version: int) -> TrainedModel | None:
    """The newest model with its variable part redrawn from the latest relevant pages; None when it has no such part."""
    model = Model.from_bytes(store.load_model(version))
    judge = model.trained_judge
    if not isinstance(judge, OasisFilter):
        return None
    reader = stored_reader()
    pages = latest_relevant(store, judge.settings.redraw_after)
    found = [reader.read(page.title or "", page.text, page.language or "", page.url) for page in pages]
    training = gather(store, settings)
    cores = {topic.kcid: core_of(training, topic.kcid) for topic in judge.filters}
    redrawn = judge.redrawn(found, version + 1, cores, reader.terms)
    drawn = Model(version + 1, model.classifier, redrawn, only_undoubted=model.only_undoubted)
    return TrainedModel(drawn.version, drawn.classifier, len(found), "{}", drawn.to_bytes())


def propose(store: Store, settings: Settings, file: Path) -> int:
    """Write terms and collocations of the examples to a file; how many topics have any."""
    training = gather(store, settings)
    found = proposals(training, settings.oasis)
    if not found:
        raise InputError("no examples to make proposals from", "Crawl first, so that the examples are fetched.")
    write_proposal(file, found, training.hierarchy)
    return len(found)


def remember_pages(documents: Iterable[Document]) -> None:
    """Remember the words of pages as their workers have found them: their texts will be learned from and re-judged."""
    reader = stored_reader()
    for document in documents:
        reader.remember(document)


def gather(store: Store, settings: Settings, *, texts_only: bool = False) -> TrainingSet:
    """All that a classifier can learn from now. Examples whose page is not there (yet) are left out.

    With `texts_only`, for others than classifiers, what links and the collection as a whole say is left out.
    """
    topics = store.load_topics()
    reader = stored_reader()
    records = _worth_learning(list(store.load_training()))
    examples = examples_of(store, records, reader, settings.classify, texts_only=texts_only)
    others, names = _others(reader, settings)
    documents, frequencies = (0, {}) if texts_only else document_frequencies(store)
    return TrainingSet(
        hierarchy=hierarchy_of(topics),
        examples=tuple(examples),
        others=others,
        document_frequencies=frequencies,
        documents=documents,
        terms=names | reader.names([example.item for example in examples]),
        keywords={topic.kcid: " ".join(topic.keywords) for topic in topics if topic.keywords},
    )


def _worth_learning(records: Sequence[TrainingRecord]) -> list[TrainingRecord]:
    """The records without the words of a question, for topics that have a better example."""

    def is_question(record: TrainingRecord) -> bool:
        return record.kind == "text" and len((record.text or "").split()) < MIN_EXAMPLE_WORDS

    better = {record.kcid for record in records if record.positive and not is_question(record)}
    return [record for record in records if not (is_question(record) and record.kcid in better)]


def examples_of(
    store: Store,
    records: Sequence[TrainingRecord],
    reader: TextReader,
    settings: ClassifySettings,
    *,
    texts_only: bool = False,
) -> list[Example]:
    """What there is to learn from documents; those whose page is not there are left out.

    Neighbours are read if a feature space uses them. With `texts_only`, nothing is read of links.
    """
    oids = [] if texts_only else [record.oid for record in records if record.oid is not None]
    anchors = anchors_to(store, oids)
    neighbours = neighbour_terms(store, oids) if "neighbours" in "+".join(settings.spaces) else {}
    examples = []
    for record in records:
        oid = -1 if record.oid is None else record.oid
        words = [record.title] if record.kind == "url" else []  # what the user calls the link
        words += anchors.get(oid, [])
        near = np.array(neighbours.get(oid, ()), np.uint32)
        item = _input(store, reader, record, words, near)
        if item is not None:
            answered = record.source in (CONFIRMED, REJECTED)
            examples.append(Example(record.kcid, item, record.positive, record.name, answered))
    return examples


def _input(
    store: Store, reader: TextReader, record: TrainingRecord, anchors: list[str], neighbours: Stems
) -> ClassifierInput | None:
    if not record.text and record.oid is None:
        return None
    url = record.name if record.kind == "url" else ""
    language = None if record.oid is None else record.language  # a text of the user's: nobody has looked
    item = reader.read(record.title, record.text or "", language, url, anchors, neighbours)
    if record.text:
        return item
    # The texts of pages are not kept: their terms must do. They have no order, so gaps keep them from forming pairs.
    bag = bag_of_terms(store, record.oid) if record.oid is not None else []
    stems = np.repeat(np.array([tid for tid, _ in bag], np.uint32), [freq for _, freq in bag])
    apart = np.zeros((len(stems), 50), np.uint32)
    apart[:, 0] = stems
    return replace(item, stems=apart.ravel(), url=record.name) if bag else None


def _others(reader: TextReader, settings: Settings) -> tuple[tuple[Example, ...], dict[int, str]]:
    """The documents of OTHERS, and their terms."""
    chosen = settings.classify.others
    return _read_as_others(reader, read_others(Path(chosen))) if chosen else _default_others()


def _read_as_others(
    reader: TextReader, documents: Iterable[OthersDocument]
) -> tuple[tuple[Example, ...], dict[int, str]]:
    items = [
        (document.title, reader.read(document.title, document.text, document.language or None))
        for document in documents
    ]
    examples = tuple(Example(ABOVE_ROOT, item, positive=False, name=title) for title, item in items)
    return examples, reader.names([item for _, item in items])


@functools.cache
def _default_others() -> tuple[tuple[Example, ...], dict[int, str]]:
    """The documents that come with Opilio, and their terms. They never change, and reading them takes 0.1 s of CPU."""
    examples, terms = _read_as_others(stored_reader(), default_others())
    for example in examples:
        example.item.stems.flags.writeable = False  # all training sets share them
    return examples, terms
