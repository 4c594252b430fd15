"""Strangers: pages that a crawl met and that are surely about nothing wanted. They join OTHERS.

A user gives a few examples and nothing that is not wanted. The texts of OTHERS that come with Opilio are about anything
but what lies around the topic, so a model of these alone takes most of what a crawl fetches. What lies around is there
to be learned once pages have come: those that a model made *without* strangers is least sure of, a quarter of the
earliest pages at most. Each choice is made by such a model, and so never by what an earlier choice led to.

Where most of what is fetched is wanted, even the least sure quarter may be. Two things keep it. A page that a topic
takes is a stranger only when the topic is less sure of it than of each document of its own, judged by a model that has
not learned from that (`folding.py`). A page that a topic takes which is not wanted is none: it has its place. And when
a topic, taught with strangers, takes too few of its own documents that were kept aside, the surer half of them is
tried, until there are none.

Nothing is stored: the same database gives the same strangers, and topics or examples that change give others. Who has
named texts of OTHERS, or has `OWN_NEGATIVES` documents beside the topics that are wanted, needs none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from opilio.classify import Example, TrainingSet
from opilio.features.evidence import TextReader
from opilio.learn.guard import confidences_by, train_without
from opilio.learn.trainer import OnStart, work_beside
from opilio.learn.training_set import examples_of
from opilio.model import Judgement
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.loading import TrainingRecord
from opilio.topics.hierarchy import ABOVE_ROOT

EARLY_PAGES = 400
"""Strangers are looked for among so many pages, the earliest."""
FEWEST_PAGES = 20
"""Where fewer were met, there are none."""
ONE_IN = 4
"""At most every fourth of these becomes one (docs/results/log.md, 2026-11-16)."""
MAX_LOST = 0.2
"""Share of its own documents that a topic may lose by strangers: one of five, which is what users give at first."""
OWN_NEGATIVES = 20
"""Documents that are not wanted, given by the user, from which on the crawl adds none."""
_LEARNERS = frozenset({"svm", "bayes"})  # classifiers that learn from OTHERS what is not wanted

_MET = f"""
    SELECT c.url, coalesce(p.title, ''), p.oid, coalesce(p.language, ''), p.text
    FROM pages p JOIN crawl c USING (oid)
    WHERE p.oid NOT IN (SELECT oid FROM duplicates) AND p.oid NOT IN (SELECT oid FROM reviews)
      AND p.oid NOT IN (SELECT unnest($1::BIGINT[])) AND c.url NOT IN (SELECT name FROM training)
      AND p.oid IN (SELECT oid FROM terms)
    ORDER BY p.visited, p.oid LIMIT {EARLY_PAGES}
"""


def looks_for_strangers(settings: Settings) -> bool:
    """Whether a crawl by these settings learns from pages that are about nothing wanted."""
    classify = settings.classify
    return settings.learn.mined_negatives > 0 and classify.classifier in _LEARNERS and not classify.others


def with_strangers(
    store: Store, settings: Settings, training: TrainingSet, on_start: OnStart | None = None
) -> TrainingSet:
    """A training set that was gathered from the store, with strangers; the same one when there are none.

    They are chosen in a process of its own when there is `on_start`, which is told the process.
    """
    if not looks_for_strangers(settings) or _unwanted(training) >= OWN_NEGATIVES:
        return training
    reader = TextReader()
    met = examples_of(store, _records(store), reader)
    if len(met) < FEWEST_PAGES:
        return training
    given = (training, met, settings)
    chosen = choose_strangers(*given) if on_start is None else work_beside("strangers", given, on_start)
    if not chosen:
        return training
    others = (*training.others, *(met[place] for place in chosen))
    return replace(training, others=others, terms={**reader.terms, **training.terms})


def choose_strangers(training: TrainingSet, met: Sequence[Example], settings: Settings) -> list[int]:
    """The places of the strangers among pages, the surest first. Trains: what the set has without them decides."""
    judge = train_without(training, (), settings)
    own = confidences_by(training, settings, judge)
    least = _least_confidences(training, own)

    def is_strange(said: Judgement) -> bool:
        return not said.accepted or (said.topic in least and said.confidence < least[said.topic])

    judged = [judge.judge(page.evidence) for page in met]
    strange = sorted((said.confidence, place) for place, said in enumerate(judged) if is_strange(said))
    chosen = [place for _, place in strange[: min(settings.learn.mined_negatives, len(met) // ONE_IN)]]
    while chosen:
        with_them = replace(training, others=(*training.others, *(met[place] for place in chosen)))
        if _keeps_own(training, own, confidences_by(with_them, settings, judge)):
            break
        chosen = chosen[: len(chosen) // 2]
    return chosen


def _least_confidences(training: TrainingSet, own: Sequence[float | None]) -> dict[int, float]:
    """By wanted topic: how sure it is of the document that it is least sure of. Of an only document nothing is known,
    for no model is there that has not learned from it."""
    found: dict[int, list[float]] = {}
    for example, value in zip(training.examples, own, strict=True):
        if value is not None:
            found.setdefault(example.kcid, []).append(value)
    return {kcid: min(values) for kcid, values in found.items() if len(values) > 1}


def _keeps_own(training: TrainingSet, before: Sequence[float | None], after: Sequence[float | None]) -> bool:
    """Whether each topic still takes nearly all of the documents of its own that it took."""
    taken: Counter[int] = Counter()
    lost: Counter[int] = Counter()
    for example, first, then in zip(training.examples, before, after, strict=True):
        if first is not None and then is not None and first > 0.0:
            taken[example.kcid] += 1
            lost[example.kcid] += then <= 0.0
    return all(lost[kcid] <= MAX_LOST * taken[kcid] for kcid in taken)


def _unwanted(training: TrainingSet) -> int:
    """Documents of the user's that show what is not wanted: counter-examples, and examples of other topics."""
    wanted = training.hierarchy.is_wanted
    return sum(not (example.positive and wanted(example.kcid)) for example in training.examples)


def _records(store: Store) -> list[TrainingRecord]:
    """The earliest pages that nobody has said anything of, as documents of OTHERS."""
    known = [record.oid for record in store.load_training() if record.oid is not None]
    return [
        TrainingRecord(url, "url", ABOVE_ROOT, False, "met", title, oid, language, text)
        for url, title, oid, language, text in store.query(_MET, [known], max_rows=EARLY_PAGES).rows
    ]
