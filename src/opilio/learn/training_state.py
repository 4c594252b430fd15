"""Whether a collection can learn, and what it has: settings, wanted topics, examples, pages to re-judge.

Both a running crawl (`crawl/teacher.py`) and the operations on a collection without one ask this. Wrong settings are
found before anything is fetched. Classifiers are loaded only when they must be: a crawl with the defaults, which are
right, or one that learns nothing starts without them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from opilio.errors import SettingsError
from opilio.model.training import CALIBRATED
from opilio.settings import ClassifySettings, Settings
from opilio.store import Store
from opilio.store.judgements import count_of_older_models
from opilio.store.loader import ExampleRecord, ModelRecord
from opilio.store.training import ARCHETYPE, archetype_names
from opilio.topics import TopicRecord, hierarchy_of

SVM = "svm"  # the classifier that uses feature spaces
KEYWORDS = "keywords"  # the classifier that learns nothing
_ONE_VOICE = (KEYWORDS, "bayes", "cosine")  # classifiers in which nothing can agree with anything


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
        for record in store.load_training(page_texts=False)
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
    return note(models[0].version, models[0].classifier, models[0].documents, models[0].estimates)


def note(version: int, classifier: str, documents: int, estimates: str) -> str:
    """A model, for people: with what is to be expected of the pages that it accepts, when that is known."""
    said = f"model {version} ({classifier}, {documents} example{'s' if documents != 1 else ''})"
    expected = expected_precision(estimates)
    if expected is None:
        return said
    share, low, high = (100 * value for value in expected)
    return f"{said}, which expects about {share:.0f} % of accepted pages to be right ({low:.0f} to {high:.0f} %)"


def expected_precision(estimates: str) -> tuple[float, float, float] | None:
    """The share of accepted pages that a model expects to be right, with its bounds; None when it expects nothing."""
    known = [spaces[CALIBRATED] for spaces in json.loads(estimates).values() if CALIBRATED in spaces]
    accepted = sum(one["accepted"] for one in known)
    if not accepted:
        return None
    share, low, high = (
        sum(one["accepted"] * one[name] for one in known) / accepted for name in ("precision", "low", "high")
    )
    return share, low, high


def check_settings(settings: Settings) -> None:
    """Refuse a classifier or a feature space that does not exist."""
    classify = settings.classify
    if classify == ClassifySettings():
        return
    from opilio.classify import CLASSIFIERS  # noqa: PLC0415
    from opilio.features import make_space  # noqa: PLC0415

    CLASSIFIERS.get(classify.classifier)
    has_one_voice = classify.classifier in _ONE_VOICE or (classify.classifier == SVM and len(classify.spaces) == 1)
    if classify.only_undoubted and has_one_voice:
        raise SettingsError(
            "[classify] only_undoubted: no page would be accepted, because only one metric judges",
            "Use the classifier oasis, or svm with two or more spaces.",
        )
    if classify.classifier == SVM:
        if not classify.spaces:
            raise SettingsError("[classify] spaces: no feature space", 'For example: spaces = ["terms", "pairs"]')
        for spec in classify.spaces:
            make_space(spec, classify)


def check_guard(settings: Settings) -> None:
    """Refuse a guard that cannot work with the classifier."""
    if settings.learn.guard != "xi-alpha":
        return
    from opilio.classify import CLASSIFIERS  # noqa: PLC0415

    classifier = settings.classify.classifier
    if not hasattr(CLASSIFIERS.get(classifier), "estimates"):
        raise SettingsError(
            f'[learn] guard = "xi-alpha": the classifier {classifier!r} expects nothing of itself',
            'Set learn.guard = "held-out", or use the classifier svm.',
        )
