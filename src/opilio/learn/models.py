"""The models of a collection: listed, compared topic by topic, and used again."""

from __future__ import annotations

import json
import math
import statistics
from typing import Any

from opilio.classify import Model
from opilio.errors import InputError
from opilio.learn.trainer import TrainedModel
from opilio.model import TrainingReason
from opilio.model.training import CALIBRATED
from opilio.store import Store, judgements
from opilio.topics import hierarchy_of

MAX_CHANGED, MAX_MOVED = 20, 50
NAMED_TOPICS = 2
"""So many topics are named by the sentence that says what a model changed."""


def list_models(store: Store) -> list[dict[str, Any]]:
    """All models, newest first."""
    judged = judgements.judged_counts(store)
    found = []
    for record in store.load_models():
        pages, relevant = judged.get(record.version, (0, 0))
        found.append(
            {
                "version": record.version, "created_s": record.created_s, "classifier": record.classifier,
                "reason": str(record.cause), "documents": record.documents, "pages": pages, "relevant": relevant,
                "expected_precision": _expected(record.estimates, "precision"),
                "expected_recall": _expected(record.estimates, "recall"),
            }
        )  # fmt: skip
    return found


def list_refused(store: Store) -> list[dict[str, Any]]:
    """The models that were made and not taken, newest first, with the reason."""
    return [{"refused_s": when, "reason": text} for when, text in judgements.refused_models(store)]


def _expected(estimates: str, name: str) -> float | None:
    """The mean over all topics; None when the classifier expects nothing."""
    found = [_expected_of_topic(spaces) for spaces in json.loads(estimates).values()]
    known = [one[name] for one in found if one is not None and name in one]
    return round(statistics.fmean(known), 4) if known else None


def compare_models(store: Store, first: int, second: int) -> dict[str, Any]:
    """Of the pages that both have judged: how many each finds relevant, and those they disagree about most."""
    for version in (first, second):
        _bytes_of(store, version)
    changed = judgements.disagreements(store, first, second, MAX_CHANGED)
    return {
        "first": first,
        "second": second,
        **judgements.agreement(store, first, second)._asdict(),
        "changed": [page._asdict() for page in changed],
    }


def reuse_model(store: Store, version: int) -> TrainedModel:
    """An older model under the next version: versions never change, so going back is a step forward."""
    old = Model.from_bytes(_bytes_of(store, version))
    models = store.load_models()
    record = next(record for record in models if record.version == version)
    again = Model(models[0].version + 1, old.classifier, old.trained_judge, only_undoubted=old.only_undoubted)
    return TrainedModel(again.version, old.classifier, record.documents, record.estimates, again.to_bytes())


def _bytes_of(store: Store, version: int) -> bytes:
    found = store.load_model(version) if version > 0 else b""
    if not found:
        known = ", ".join(str(record.version) for record in store.load_models()) or "none"
        raise InputError(f"there is no model {version}", f"There are: {known}.")
    return found


def compare_topics(store: Store, first: int, second: int) -> dict[str, Any]:
    """The comparison of two models, with the pages of each topic before and after, and those that changed topics.

    A topic of None is OTHERS: no topic took the page.
    """
    compared = compare_models(store, first, second)
    paths = {record.kcid: record.path or record.name for record in store.load_topics()}
    expected = {model.version: json.loads(model.estimates) for model in store.load_models()}
    flows = judgements.topic_flows(store, first, second)
    topics = []
    for kcid in sorted(
        {kcid for flow in flows for kcid in flow[:2] if kcid is not None}, key=lambda k: paths.get(k, "")
    ):
        stayed = sum(pages for a, b, pages in flows if a == b == kcid)
        before = sum(pages for a, _, pages in flows if a == kcid)
        after = sum(pages for _, b, pages in flows if b == kcid)
        topics.append(
            {
                "topic": paths.get(kcid, f"topic {kcid}, which was removed"), "first": before, "second": after,
                "came": after - stayed, "left": before - stayed,
                "expected_first": _expected_of_topic(expected.get(first, {}).get(str(kcid))),
                "expected_second": _expected_of_topic(expected.get(second, {}).get(str(kcid))),
            }
        )  # fmt: skip
    names = ("url", "title", "topic_first", "topic_second", "first", "second")
    moved = [
        dict(zip(names, (url, title, _path(paths, a), _path(paths, b), one, other), strict=True))
        for url, title, a, b, one, other in judgements.moved_pages(store, first, second, MAX_MOVED)
    ]
    changed = sum(pages for a, b, pages in flows if a != b)
    return {**compared, "topics": topics, "moved": moved, "moved_pages": changed}


def model_effect(store: Store, version: int = 0) -> dict[str, Any] | None:
    """What a model changed elsewhere: of the pages about which the user has said nothing, how many left the wanted
    topics and how many joined them, compared with the model before it. None when there is nothing to compare.

    By default that of the newest model that learned from the user. Plain values; `said` is a sentence.
    """
    known = sorted(judgements.judged_counts(store))
    if not version:
        taught = (TrainingReason.FEEDBACK, TrainingReason.REQUESTED, TrainingReason.CHANGED, TrainingReason.REUSED)
        versions = [model.version for model in store.load_models() if model.cause.reason in taught]
        version = versions[0] if versions else 0
    before = max((one for one in known if 0 < one < version), default=0)
    if version not in known or not before:
        return None
    hierarchy = hierarchy_of(store.load_topics())
    flows = judgements.moved_elsewhere(store, before, version)
    topics = []
    for good in sorted(hierarchy.good, key=lambda kcid: hierarchy.nodes[kcid].path):
        inside, node = hierarchy.below(good), hierarchy.nodes[good]
        left = sum(pages for a, b, pages in flows if a in inside and b not in inside)
        joined = sum(pages for a, b, pages in flows if a not in inside and b in inside)
        if left or joined:
            topics.append({"topic": node.path or node.name, "left": left, "joined": joined})
    return {"first": before, "second": version, "topics": topics, "said": _effect_in_words(topics)}


def _effect_in_words(topics: list[dict[str, Any]]) -> str:
    """Such as `12 other pages left owls, 3 joined; 1 other page joined hawks`; of more than two topics, the sums."""
    if len(topics) > NAMED_TOPICS:
        total = {verb: sum(one[verb] for one in topics) for verb in ("left", "joined")}
        topics = [{"topic": f"{len(topics)} topics", **total}]
    parts = []
    for one in topics:
        first, *more = ((one[verb], verb) for verb in ("left", "joined") if one[verb])
        other = f"{first[0]:,} other page{'s' if first[0] != 1 else ''} {first[1]} {one['topic']}"
        parts.append(", ".join([other, *(f"{count:,} {verb}" for count, verb in more)]))
    return "; ".join(parts) or "no other page changed its topic"


def _path(paths: dict[int, str], kcid: int | None) -> str | None:
    return None if kcid is None else paths.get(kcid)


def _expected_of_topic(spaces: dict[str, dict[str, float]] | None) -> dict[str, float] | None:
    """Precision and recall that a model expects of itself: calibrated, or as the mean over its feature spaces."""
    if not spaces:
        return None
    counted = [spaces[CALIBRATED]] if CALIBRATED in spaces else list(spaces.values())
    found = {}
    for name in ("precision", "recall"):
        known = [one[name] for one in counted if not math.isnan(one[name])]
        if known:
            found[name] = round(sum(known) / len(known), 4)
    return found or None
