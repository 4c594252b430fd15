"""The classifier `oasis`: several metrics with a threshold each; any of them can accept a page (OASIS 4).

Thresholds are tuned on the core, the examples of a topic, so that all metrics together recognise a given share of it;
of a small core, so that each metric does. A filter has a permanent part, chosen from the core, and a variable part,
redrawn from recommended pages.

Two metrics that measure the same thing are not independent. The paper distinguishes pages recognised by "a word
collocations and term metric" from those recognised by the vector space model, and calls a page undoubted if at least
two metrics recognised it. So the metrics form two families, *words* (collocations, terms) and *vectors* (whole page,
passages), and a page is undoubted if both agree. docs/concepts/classifiers.md gives reasons and figures.

The fifth metric of the paper, a relevant page in the same directory, depends on what the whole crawl has found. So it
is not here but in `learn/directories.py`.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec
import numpy as np

from opilio.classify.collocations import SIZES, PlacedWords, words_of
from opilio.classify.judge import CLASSIFIERS, MAX_MISSING, Explanation, Reason, Step, TrainingSet
from opilio.classify.oasis_filter import (
    Element,
    ElementCount,
    FilterProposal,
    by_frequency,
    core_of,
    count,
    limits_of,
    named,
    names_of,
    propose,
    read_filter,
    topics_of,
)
from opilio.classify.oasis_metrics import Metrics
from opilio.errors import InputError, SettingsError
from opilio.features.classifier_input import ClassifierInput
from opilio.model import RELEVANT, Judgement
from opilio.settings import OasisSettings, Settings
from opilio.topics.hierarchy import ROOT

if TYPE_CHECKING:
    from opilio.classify.oasis_metrics import Values


LEAST_COLLOCATIONS = 2
"""A single collocation never suffices, however few the core has: OASIS used no lower threshold (tables 1 and 2)."""
METRICS = ("collocations", "terms", "vector", "passages")
_MEASURED = ("pairs", "triples", "terms", "vector", "passages")
"""The collocation metric has one threshold for pairs and one for triples; either suffices."""
SMALL_CORE = 20
"""With fewer documents each metric is tuned alone. A filter fits the few documents that it was made of so well that,
tuned as a whole, it would let hardly any new page pass (docs/results/log.md)."""
MAX_REASONS = 10
"""Elements of each class in an explanation."""

_UNDOUBTED = (1.0 + RELEVANT) / 2
"""The relevance from which on both families agree."""


class TopicFilter(msgspec.Struct, frozen=True):
    """What `oasis` has learned about one topic."""

    elements: FilterProposal
    """Permanent and variable part."""
    thresholds: tuple[float, ...]
    """For the shares of terms, pairs and triples, for the cosine, and for that of passages, which filters of older
    versions lack; 0 if the core has nothing to measure, in which case no page passes."""
    wanted: bool
    depth: int

    @property
    def kcid(self) -> int:
        """The topic."""
        return self.elements.kcid


def train_filters(training: TrainingSet, settings: OasisSettings) -> tuple[TopicFilter, ...]:
    """The filters of all topics that have examples."""
    _check(settings)
    hierarchy = training.hierarchy
    kcids = topics_of(training)
    if not kcids:
        raise InputError("no topic has examples", "The classifier oasis needs some documents for each topic.")
    chosen = _chosen(training, kcids, settings)
    metrics = Metrics(chosen, settings)
    filters = []
    for place, elements in enumerate(chosen):
        kcid = elements.kcid
        core = core_of(training, kcid)
        thresholds = _thresholds(metrics, elements, place, core, settings)
        if not any(thresholds):
            path = hierarchy.nodes[kcid].path or "the root"
            raise InputError(
                f"topic {path!r}: its {len(core)} examples contain none of the words of its filter",
                "They may be empty or unreadable. Give other examples, or correct the file oasis.filter.",
            )
        filters.append(TopicFilter(elements, thresholds, hierarchy.is_wanted(kcid), len(hierarchy.line(kcid))))
    return tuple(filters)


def tuned(values: Values, share: float, passage_share: float = 0.0) -> tuple[float, ...]:
    """The thresholds at which the share of documents that reach any of them is as near as possible to `share`.

    `values` has a row for each metric and a column for each document. The thresholds start at the largest values and
    are lowered in turn, by one document each, so that no metric is stricter than another. That of the last metric is at
    least `passage_share` times that of the one before. A threshold is 0 if no document has a value: then the metric
    recognises nothing.
    """
    falling = -np.sort(-values, axis=1)
    lowered = falling[:, 0].copy()
    best, least = lowered, math.inf
    for rank, metric in itertools.product(range(values.shape[1]), range(len(values))):
        lowered[metric] = falling[metric, rank] or lowered[metric]
        thresholds = lowered.copy()
        if passage_share:
            thresholds[-1] = max(thresholds[-1], passage_share * thresholds[-2])
        reached = float(((values >= thresholds[:, None]) & (values > 0)).any(axis=0).mean())
        if abs(reached - share) < least:
            best, least = thresholds, abs(reached - share)
        if reached >= share:
            break
    return tuple(best.tolist())


def tuned_apart(values: Values, share: float, passage_share: float) -> tuple[float, ...]:
    """The thresholds at which each metric alone recognises `share` of the documents; that of the last metric is
    `passage_share` times that of the one before."""
    falling = -np.sort(-values, axis=1)
    rank = max(0, math.ceil(share * values.shape[1] - 1e-9) - 1)
    found = [float(row[min(rank, np.count_nonzero(row) - 1)]) if row.any() else 0.0 for row in falling]
    return (*found[:-1], passage_share * found[-2] if passage_share else found[-1])


def redraw(
    old: TopicFilter,
    pages: Sequence[ClassifierInput],
    settings: OasisSettings,
    terms: Mapping[int, str],
    random_state: random.Random,
) -> TopicFilter:
    """The filter with a new variable part, drawn from the elements of middle frequency in `pages`.

    How often each element of the permanent part occurs in `pages` is noted, because that corrects its weight.
    """
    words = [words_of(page) for page in pages]
    names = names_of(pages, terms)
    parts = []
    for size in SIZES:
        counts = {entry.stems: entry for entry in count(words, size).values()}
        permanent = []
        for element in old.elements.of_size(size):
            if not element.variable:
                found = counts.pop(element.stems, None)
                permanent.append(msgspec.structs.replace(element, recent=found.occurrences if found else 0))
        drawn = draw_middle(counts.values(), round(settings.variable_share * len(permanent)), random_state)
        variable = [
            Element(entry.stems, named(entry.stems, names), entry.occurrences, entry.documents, variable=True)
            for entry in drawn
        ]
        parts.append((*permanent, *variable))
    elements = FilterProposal(old.kcid, old.elements.documents, *parts)
    return msgspec.structs.replace(old, elements=elements)


def draw_middle(counts: Iterable[ElementCount], wanted: int, random_state: random.Random) -> list[ElementCount]:
    """`wanted` random elements from the middle third of the ranking by frequency.

    Only elements that several documents share are ranked, if there are enough of them: what is in a single document is
    rare, not of middle frequency. A third that is too small is widened on both sides.
    """
    ranked = sorted(counts, key=by_frequency)
    shared = [entry for entry in ranked if entry.documents > 1]
    if len(shared) >= wanted:
        ranked = shared
    size = max(math.ceil(len(ranked) / 3), min(wanted, len(ranked)))
    start = (len(ranked) - size) // 2
    candidates = ranked[start : start + size]
    return sorted(random_state.sample(candidates, min(wanted, len(candidates))), key=by_frequency)


def _chosen(training: TrainingSet, kcids: Sequence[int], settings: OasisSettings) -> list[FilterProposal]:
    """The elements in the expert's file; for a topic that is not in it, the most significant ones."""
    cores = {kcid: core_of(training, kcid) for kcid in kcids}
    names = names_of((page for core in cores.values() for page in core), training.terms)
    by_expert: dict[int, FilterProposal] = {}
    if settings.filter:
        languages = {kcid: Counter(page.language for page in core).most_common(1)[0][0] for kcid, core in cores.items()}
        by_expert = read_filter(Path(settings.filter), training.hierarchy, names, languages)
        for kcid in by_expert.keys() - cores.keys():
            raise InputError(
                f"{settings.filter}: topic {training.hierarchy.nodes[kcid].path!r} has a filter but no examples",
                "Thresholds are tuned on examples: give it some, or delete its tables.",
            )
    limits = limits_of(settings)
    return [by_expert.get(kcid) or propose(training, kcid, names).distinctive().top(limits) for kcid in kcids]


def _thresholds(
    metrics: Metrics, elements: FilterProposal, place: int, core: Sequence[ClassifierInput], settings: OasisSettings
) -> tuple[float, ...]:
    """The thresholds of a topic for the shares of terms, pairs and triples, the cosine of the whole page and that of
    its passages, tuned on its core."""
    measured = [metrics.measure(words_of(page)) for page in core]
    rows = [[float(page.shares[size - 1][place]) for page in measured] for size in SIZES]
    least = [0.0] * len(rows)  # that no page may fall short of, even if no document of the core reaches it
    for size in SIZES[1:]:
        if any(rows[size - 1]):
            least[size - 1] = min(1.0, LEAST_COLLOCATIONS / len(elements.of_size(size)))
            rows[size - 1] = [value if value >= least[size - 1] else 0.0 for value in rows[size - 1]]
    rows.append([float(page.vector[place]) for page in measured])
    is_silent = settings.passage_share <= 0
    rows.append([0.0 if is_silent or page.passages is None else float(page.passages[place]) for page in measured])
    values, passage_share = np.array(rows), max(0.0, settings.passage_share)
    if len(core) < SMALL_CORE:
        thresholds = tuned_apart(values, settings.core_share, passage_share)
    else:
        thresholds = tuned(values, settings.core_share, passage_share)
    return (*(max(pair) for pair in zip(thresholds, least, strict=False)), *thresholds[len(least) :])


def _check(settings: OasisSettings) -> None:
    for name in ("passage_chars", "passage_step_chars"):
        if getattr(settings, name) < 1:
            raise SettingsError(f"[oasis] {name}: must be at least 1")
    if not 0 < settings.core_share <= 1:
        raise SettingsError("[oasis] core_share: must be above 0 and at most 1", "The paper takes 0.6 to 0.7.")


class _Model(msgspec.Struct, frozen=True):
    """The serialised form."""

    filters: tuple[TopicFilter, ...]
    settings: OasisSettings


class _PageScores(NamedTuple):
    """The metrics of one page; columns are topics."""

    values: Values
    """A row for each of `_MEASURED`; NaN if unknown."""
    ratios: Values
    """A row for each of `METRICS`: its value relative to its threshold; NaN if it abstains."""
    stronger: Values
    """The best ratio of the stronger family."""
    weaker: Values
    best: int
    """Index of the topic in which most metrics agree; then by the largest cosine; then the deepest."""


@CLASSIFIERS.register("oasis")
class OasisFilter:
    """A trained filter for each topic."""

    def __init__(self, filters: Sequence[TopicFilter], settings: OasisSettings) -> None:
        """`filters` must not be empty; `settings` are those of the training."""
        self.filters = tuple(filters)
        self.settings = settings
        self._metrics = Metrics([topic.elements for topic in self.filters], settings)
        self._wanted = np.array([topic.wanted for topic in self.filters], np.bool_)
        self._depths = np.array([topic.depth for topic in self.filters], np.int64)
        rows = []
        for topic in self.filters:
            terms, pairs, triples, vector, *passages = topic.thresholds
            rows.append((pairs, triples, terms, vector, *(passages or [vector * settings.passage_share])))
        # In the order of `_MEASURED`. NaN never agrees, and is ignored by a maximum.
        self._thresholds = np.array(rows, np.float64).T
        self._thresholds[self._thresholds <= 0] = np.nan

    @classmethod
    def train(cls, training: TrainingSet, settings: Settings) -> Self:
        """Make a filter for each topic with examples: from an expert's file, or from what the examples share."""
        return cls(train_filters(training, settings.oasis), settings.oasis)

    def judge(self, item: ClassifierInput) -> Judgement:
        """Which topic a page belongs to."""
        return self._judgement(self._scores(words_of(item)))

    def explain(self, item: ClassifierInput) -> Explanation:
        """The same judgement, with the elements of each filter."""
        words = words_of(item)
        look = self._scores(words)
        judgement = self._judgement(look)
        found = self._found(words)
        terms_here = next(iter(self._metrics.hits(words)))
        present = set(zip(terms_here.topics.tolist(), terms_here.elements.tolist(), strict=True))
        steps = []
        for place, topic in enumerate(self.filters):
            taken = judgement.accepted and judgement.topic == topic.kcid
            votes = self._votes(look, place)
            reasons = (*self._measured(look, place), *found.get(place, ()))
            terms = enumerate(topic.elements.of_size(1))
            lacks = (element.words for number, element in terms if (place, number) not in present)
            missing = () if taken else tuple(itertools.islice(lacks, MAX_MISSING))
            confidence = float(look.stronger[place]) - 1.0
            steps.append(Step(topic.kcid, confidence, taken, votes, reasons=reasons, missing=missing))
        steps.sort(key=lambda step: (not step.taken, -step.confidence))
        return Explanation(judgement, tuple(steps))

    def redrawn(
        self,
        documents: Sequence[ClassifierInput],
        seed: int,
        cores: Mapping[int, Sequence[ClassifierInput]],
        terms: Mapping[int, str] | None = None,
    ) -> OasisFilter:
        """This filter with its variable part redrawn from recommended documents; due every `settings.redraw_after`.

        Each document is used for the topic that accepts it; a topic that accepts none keeps its filter. Thresholds are
        tuned again on the topic's core, so that the filter recognises as much of it as before; those of a topic that is
        not in `cores` stay. `terms` are stems by hash code.
        """
        pages: dict[int, list[ClassifierInput]] = {}
        for page in documents:
            judgement = self._judgement(self._scores(words_of(page)))
            if judgement.is_relevant:
                pages.setdefault(judgement.topic, []).append(page)
        filters = [
            redraw(topic, pages[topic.kcid], self.settings, terms or {}, random.Random(f"{seed} {topic.kcid}"))
            if topic.kcid in pages
            else topic
            for topic in self.filters
        ]
        metrics = Metrics([topic.elements for topic in filters], self.settings)
        for place, topic in enumerate(filters):
            if topic.kcid in pages and cores.get(topic.kcid):
                thresholds = _thresholds(metrics, topic.elements, place, cores[topic.kcid], self.settings)
                filters[place] = msgspec.structs.replace(topic, thresholds=thresholds)
        return OasisFilter(filters, self.settings)

    def to_bytes(self) -> bytes:
        """All filters and thresholds, and the settings they were made with."""
        return msgspec.msgpack.encode(_Model(self.filters, self.settings))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The filter that was saved as `data`."""
        model = msgspec.msgpack.decode(data, type=_Model)
        return cls(model.filters, model.settings)

    def _scores(self, words: PlacedWords) -> _PageScores:
        measures = self._metrics.measure(words)
        terms, pairs, triples = measures.shares
        passages = np.full_like(terms, np.nan) if measures.passages is None else measures.passages
        values = np.stack((pairs, triples, terms, measures.vector, passages))
        relative = values / self._thresholds
        ratios = np.stack((np.fmax(relative[0], relative[1]), relative[2], relative[3], relative[4]))
        known = np.nan_to_num(ratios)
        by_words, by_vectors = np.maximum(known[0], known[1]), np.maximum(known[2], known[3])
        stronger = np.maximum(by_words, by_vectors)
        best = int(np.lexsort((self._depths, measures.vector, (known >= 1).sum(axis=0)))[-1])
        if stronger[best] < 1:
            best = int(np.argmax(stronger))
        return _PageScores(values, ratios, stronger, np.minimum(by_words, by_vectors), best)

    def _judgement(self, look: _PageScores) -> Judgement:
        place, accepted = look.best, bool(look.stronger[look.best] >= 1)
        votes = self._votes(look, place)
        return Judgement(
            topic=self.filters[place].kcid if accepted else ROOT,
            accepted=accepted,
            relevance=self._relevance(look, place, accepted),
            confidence=float(look.stronger[place]) - 1.0,
            votes=votes,
            agreed=[name for name, vote in votes.items() if vote >= 1],
            undoubted=bool(look.weaker[place] >= 1),
        )

    def _relevance(self, look: _PageScores, place: int, accepted: bool) -> float:
        if self.filters[place].wanted:
            return relevance(float(look.stronger[place]), float(look.weaker[place]))
        wanted = look.stronger[self._wanted]
        if not len(wanted):
            return 0.0
        nearest = int(np.argmax(wanted))
        near = relevance(float(wanted[nearest]), float(look.weaker[self._wanted][nearest]))
        return near * RELEVANT if accepted else near  # in an unwanted topic: not relevant, however close

    def _votes(self, look: _PageScores, place: int) -> dict[str, float]:
        votes = zip(METRICS, look.ratios[:, place].tolist(), strict=True)
        return {name: vote for name, vote in votes if not math.isnan(vote)}

    def _measured(self, look: _PageScores, place: int) -> list[Reason]:
        """The value of each metric with its threshold."""
        rows = zip(_MEASURED, look.values[:, place].tolist(), self._thresholds[:, place].tolist(), strict=True)
        return [
            Reason(f"{name}: {value:.3f}, threshold {least:.3f}", value / least - 1.0)
            for name, value, least in rows
            if not math.isnan(value / least)
        ]

    def _found(self, words: PlacedWords) -> dict[int, list[Reason]]:
        """The filter elements in a page, by index of the topic, with their contribution relative to the threshold."""
        found: dict[int, list[Reason]] = {}
        for size, hits in zip(SIZES, self._metrics.hits(words), strict=True):
            added, row = (hits.cosines, "vector") if size == 1 else (hits.shares, _MEASURED[size - 2])
            weights = np.nan_to_num(added / self._thresholds[_MEASURED.index(row)][hits.topics])
            reasons: dict[int, list[Reason]] = {}
            for place, element, weight in zip(hits.topics.tolist(), hits.elements.tolist(), weights, strict=True):
                name = self.filters[place].elements.of_size(size)[element].words
                reasons.setdefault(place, []).append(Reason(name, float(weight)))
            for place, found_reasons in reasons.items():
                found_reasons.sort(key=lambda reason: (-reason.weight, reason.feature))
                found.setdefault(place, []).extend(found_reasons[:MAX_REASONS])
        return found


def relevance(stronger: float, weaker: float) -> float:
    """The relevance, from the ratios of both families to their thresholds: 0.5 or more if one agrees, 0.75 if both."""
    if stronger < 1:
        return RELEVANT * stronger
    if weaker < 1:
        return _UNDOUBTED - (_UNDOUBTED - RELEVANT) / stronger
    return 1.0 - (1.0 - _UNDOUBTED) / weaker
