"""What a crawl's own pages add to the training data: mined negatives, and a sample that shows what is met.

*Mined negatives* are pages that are surely about no wanted topic. A calibrated `svm` finds its own in the sample; for
other models they are chosen here, and join OTHERS.

A user gives a few examples and no counter-examples. The texts of OTHERS that come with Opilio are about anything but
the neighbourhood of the topic, so a model trained on these alone accepts most of what a crawl fetches. The
neighbourhood can be learned once pages have come: the negatives are those pages that a model trained *without* mined
negatives is least sure of, a quarter of the earliest pages at most. Each choice is made by such a model, so no choice
depends on what an earlier one led to.

Where most of what is fetched is on-topic, even the least sure quarter may be. Three rules protect such pages. A page
that a wanted topic accepts becomes a negative only when the topic is less sure of it than of each of its own documents,
each judged by a model that has not learned from it (`guard.py`). A page that an unwanted topic accepts is none: it has
its place. And when a topic that was trained with the negatives accepts too few of its own documents that were held out,
only the surer half of the negatives is tried, and so on, until there are none.

Nothing is stored: the same database gives the same negatives, and other topics or examples give others. None are mined
when the user has named texts of OTHERS, or has given `OWN_NEGATIVES` documents that are not about wanted topics.

Pages stuffed with keywords (`store/terms.py`) are in neither.

*The sample* are pages about which the user has said nothing, relevant or not (`TrainingSet.met`): the classifier `svm`
is calibrated on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from opilio.classify import Example, TrainingSet
from opilio.classify.calibration import MIN_MET
from opilio.features.classifier_input import stored_reader
from opilio.learn.guard import confidences_by, train_without
from opilio.learn.trainer import examples_of
from opilio.model import Judgement
from opilio.process import NICENESS, OnStart, call
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.terms import stuffed_pages
from opilio.store.training import count_answered, unlabelled_pages
from opilio.topics.hierarchy import ABOVE_ROOT

MET_PAGES = 400
"""Negatives are chosen among this many pages, the earliest; the sample has as many, drawn by lot."""
MIN_PAGES = 20
"""With fewer pages, there are no negatives."""
CALIBRATED = "svm"  # the classifier that is calibrated on pages met, and mines negatives itself then
ONE_IN = 4
"""At most one in four of these becomes a negative (docs/results/log.md, 2026-11-16)."""
MAX_LOST = 0.2
"""Share of its own documents that a topic may lose to the negatives: one of five, which is what users give at first."""
OWN_NEGATIVES = 20
"""With this many documents from the user that are not about wanted topics, no negatives are mined."""
_LEARNERS = frozenset({"svm", "bayes"})  # classifiers that learn from OTHERS what is not wanted


def learns_from_crawled(settings: Settings) -> bool:
    """Whether a model with these settings learns from the pages of its crawl."""
    return calibrates(settings) or _mines(settings)


def calibrates(settings: Settings) -> bool:
    """Whether a model with these settings is calibrated on the pages met."""
    return settings.classify.calibrate and settings.classify.classifier == CALIBRATED


def has_enough_pages(store: Store, settings: Settings, unlabelled: int) -> bool:
    """Whether so many pages about which the user has said nothing may suffice, before any of them is read."""
    if calibrates(settings):
        return unlabelled > 0 and unlabelled + count_answered(store) >= MIN_MET
    return unlabelled >= MIN_PAGES


def _mines(settings: Settings) -> bool:
    classify = settings.classify
    return settings.learn.mined_negatives > 0 and classify.classifier in _LEARNERS and not classify.others


def with_crawled_pages(
    store: Store, settings: Settings, training: TrainingSet, on_start: OnStart | None = None
) -> TrainingSet:
    """A training set that was gathered from the store, with what the crawl's pages add; the same set if they are few.

    With `on_start` negatives are chosen in a process of their own, which `on_start` receives.
    """
    is_calibrated = calibrates(settings)
    if not is_calibrated and (not _mines(settings) or _unwanted(training) >= OWN_NEGATIVES):
        return training
    reader = stored_reader()
    known = [record.oid for record in store.load_training(page_texts=False) if record.oid is not None]
    records = unlabelled_pages(store, known, ABOVE_ROOT, "met", MET_PAGES, earliest=not is_calibrated)
    stuffed = stuffed_pages(store, [record.oid for record in records if record.oid is not None])
    met = examples_of(store, [record for record in records if record.oid not in stuffed], reader, settings.classify)
    answered = sum(example.answered for example in training.examples) if is_calibrated else 0  # pages met, too
    if not met or len(met) + answered < (MIN_MET if is_calibrated else MIN_PAGES):
        return training
    if is_calibrated:  # no feature is chosen from these pages, so nobody asks for their words
        return replace(training, met=tuple(met))
    given = (training, met, settings)
    if on_start is None:
        chosen = choose_negatives(*given)
    else:
        chosen = call(choose_negatives, *given, niceness=NICENESS, on_start=on_start)
    if not chosen:
        return training
    terms = {**training.terms, **reader.names([example.item for example in met])}
    return replace(training, others=(*training.others, *(met[place] for place in chosen)), terms=terms)


def choose_negatives(training: TrainingSet, fetched: Sequence[Example], settings: Settings) -> list[int]:
    """The places of the negatives among pages, the surest first. Trains a model without them, which decides."""
    judge = train_without(training, (), settings)
    own = confidences_by(training, settings, judge)
    least = _least_confidences(training, own)

    def is_negative(said: Judgement) -> bool:
        return not said.accepted or (said.topic in least and said.confidence < least[said.topic])

    judged = [judge.judge(page.item) for page in fetched]
    candidates = sorted((said.confidence, place) for place, said in enumerate(judged) if is_negative(said))
    chosen = [place for _, place in candidates[: min(settings.learn.mined_negatives, len(fetched) // ONE_IN)]]
    while chosen:
        with_them = replace(training, others=(*training.others, *(fetched[place] for place in chosen)))
        if _keeps_own(training, own, confidences_by(with_them, settings, judge)):
            break
        chosen = chosen[: len(chosen) // 2]
    return chosen


def _least_confidences(training: TrainingSet, own: Sequence[float | None]) -> dict[int, float]:
    """By wanted topic: how sure it is of the document that it is least sure of. Nothing is known of an only document:
    every model has learned from it."""
    found: dict[int, list[float]] = {}
    for example, value in zip(training.examples, own, strict=True):
        if value is not None:
            found.setdefault(example.kcid, []).append(value)
    return {kcid: min(values) for kcid, values in found.items() if len(values) > 1}


def _keeps_own(training: TrainingSet, before: Sequence[float | None], after: Sequence[float | None]) -> bool:
    """Whether each topic still accepts nearly all of its own documents that it accepted before."""
    taken: Counter[int] = Counter()
    lost: Counter[int] = Counter()
    for example, first, then in zip(training.examples, before, after, strict=True):
        if first is not None and then is not None and first > 0.0:
            taken[example.kcid] += 1
            lost[example.kcid] += then <= 0.0
    return all(lost[kcid] <= MAX_LOST * taken[kcid] for kcid in taken)


def _unwanted(training: TrainingSet) -> int:
    """How many of the user's documents show what is not wanted: counter-examples, and examples of other topics."""
    wanted = training.hierarchy.is_wanted
    return sum(not (example.positive and wanted(example.kcid)) for example in training.examples)
