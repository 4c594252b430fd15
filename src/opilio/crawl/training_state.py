"""The state of the training data and of the judgements: topics that are wanted, examples, pages to re-judge.

These are questions that both a running crawl (`teacher.py`) and the operations on a collection without one ask.
"""

from __future__ import annotations

from collections.abc import Sequence

from opilio.settings import Settings
from opilio.store import Store
from opilio.store.judgements import count_of_older_models
from opilio.store.loader import ExampleRecord, ModelRecord
from opilio.store.training import ARCHETYPE, archetype_names
from opilio.topics import TopicRecord, hierarchy_of

KEYWORDS = "keywords"  # the classifier that learns nothing


def wanted_topics(topics: Sequence[TopicRecord]) -> frozenset[int]:
    """The topics that are marked good, and those below them."""
    hierarchy = hierarchy_of(topics)
    return frozenset(kcid for kcid in hierarchy.nodes if hierarchy.is_wanted(kcid))


def examples_in(store: Store) -> dict[int, int]:
    """The stored pages that the user gave as examples of wanted topics, by oid, with their topics.

    Archetypes are not among them: the crawl chose them, and the next model may judge otherwise.
    """
    hierarchy = hierarchy_of(store.load_topics())
    return {
        record.oid: record.kcid
        for record in store.load_training()
        if record.oid is not None
        and record.positive
        and record.source != ARCHETYPE
        and hierarchy.is_wanted(record.kcid)
    }


def examples_to_fetch(store: Store) -> list[ExampleRecord]:
    """The URLs that the user gave as examples; archetypes are fetched already."""
    made = archetype_names(store)
    return [example for example in store.load_examples() if example.url not in made]


def has_older_judgements(store: Store, version: int) -> bool:
    """Whether some stored pages were judged by an older model than this."""
    return bool(count_of_older_models(store, version))


def why_nothing_is_learned(settings: Settings) -> tuple[str, str]:
    """Why no model can be trained under these settings, and what to do."""
    if settings.classify.classifier == KEYWORDS:
        return "the classifier 'keywords' learns nothing", "Choose another: opilio crawl FOLDER --classifier svm"
    return "the terms of pages are not stored, so nothing can be learned", "Set store.terms = true before you crawl."


def describe(models: Sequence[ModelRecord], settings: Settings) -> str:
    """What pages are judged by, for people; the newest model comes first."""
    if not models or settings.classify.classifier == KEYWORDS:
        return KEYWORDS
    return note(models[0].version, models[0].classifier, models[0].documents)


def note(version: int, classifier: str, documents: int) -> str:
    """A model, for people."""
    return f"model {version} ({classifier}, {documents} example{'s' if documents != 1 else ''})"
