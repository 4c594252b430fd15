"""How the filters of `oasis` come to be: elements chosen, thresholds tuned on the core, variable parts drawn anew.

The classifier `oasis`: several metrics, each with a threshold tuned on the core; any of them can say yes (OASIS 4).

Two metrics that look at the same thing are no two witnesses. The paper sorts what it found into pages recognised by
"a word collocations and term metric" and by the vector space model, and calls undoubted what at least two recognised.
So the metrics form two families: *words* (collocations, terms) and *vectors* (whole page, passages), and a page is
undoubted when both agree. docs/concepts/classifiers.md says why, with figures.

The directory metric speaks only when no other does: a page is relevant if a relevant one was found in its directory.
A judge therefore remembers directories. That memory is bounded, is no part of what was learned (it is not in
`to_bytes`), and each worker has its own: pages of one directory that go to different workers do not know of each other.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

import msgspec
import numpy as np

from opilio.classify.collocations import SIZES, PlacedWords, words_of
from opilio.classify.judge import CLASSIFIERS, Explanation, Reason, Step, TrainingSet
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
from opilio.classify.oasis_metrics import Metrics, MetricValues
from opilio.errors import InputError, SettingsError
from opilio.features.evidence import Evidence
from opilio.model import RELEVANT, Judgement, url_key
from opilio.settings import OasisSettings, Settings
from opilio.topics.hierarchy import ROOT

if TYPE_CHECKING:
    from opilio.classify.oasis_metrics import Values


LEAST_COLLOCATIONS = 2
"""No page is recognised by a single collocation, however few the core has: OASIS went no lower (tables 1 and 2)."""


class TopicFilter(msgspec.Struct, frozen=True):
    """What `oasis` has learned of one topic."""

    elements: FilterProposal
    """Permanent and variable part."""
    thresholds: tuple[float, ...]
    """Of the shares of terms, pairs and triples, and of the cosine; 0 where no core document has anything to measure,
    which no page can pass."""
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
        core = [metrics.measure(words_of(page)) for page in core_of(training, elements.kcid)]
        kcid = elements.kcid
        thresholds = _thresholds(core, elements, place, settings.core_share)
        if not any(thresholds):
            path = hierarchy.nodes[kcid].path or "the root"
            raise InputError(
                f"topic {path!r}: its {len(core)} examples have none of the words of its filter",
                "Are they empty, or in a format we cannot read? Give other examples, or correct the file oasis.filter.",
            )
        filters.append(TopicFilter(elements, thresholds, hierarchy.is_wanted(kcid), len(hierarchy.line(kcid))))
    return tuple(filters)


def threshold(values: Iterable[float], share: float) -> float:
    """The largest value that at least `share` of `values` reach.

    When too many are 0, so that everything would pass: the smallest that is not. When all are: 0, for nothing to pass.
    """
    falling = sorted(values, reverse=True)
    passing = min(len(falling), max(1, math.ceil(share * len(falling) - 1e-9)))
    return falling[passing - 1] or min((value for value in falling if value > 0), default=0.0)


def redraw(
    old: TopicFilter,
    pages: Sequence[Evidence],
    settings: OasisSettings,
    terms: Mapping[int, str],
    random_state: random.Random,
) -> TopicFilter:
    """The filter with a new variable part, from the middle frequencies of `pages`."""
    words = [words_of(page) for page in pages]
    drawn = {size: _drawn(old.elements.of_size(size), words, size, settings, random_state) for size in SIZES}
    names = names_of(pages, terms)
    parts = []
    for size in SIZES:
        permanent = [element for element in old.elements.of_size(size) if not element.variable]
        variable = [
            Element(entry.stems, named(entry.stems, names), entry.occurrences, entry.documents, variable=True)
            for entry in drawn[size]
        ]
        parts.append((*permanent, *variable))
    elements = FilterProposal(old.kcid, old.elements.documents, *parts)
    return msgspec.structs.replace(old, elements=elements)


def middle(counts: Iterable[ElementCount], wanted: int, random_state: random.Random) -> list[ElementCount]:
    """So many elements at random from the middle third of the ranking by frequency.

    Ranked are those that several documents share, if they are enough: what is in one alone is rare, not middling. A
    third that is too small is widened on both sides.
    """
    ranked = sorted(counts, key=by_frequency)
    shared = [entry for entry in ranked if entry.documents > 1]
    if len(shared) >= wanted:
        ranked = shared
    size = max(math.ceil(len(ranked) / 3), min(wanted, len(ranked)))
    start = (len(ranked) - size) // 2
    candidates = ranked[start : start + size]
    return sorted(random_state.sample(candidates, min(wanted, len(candidates))), key=by_frequency)


def _drawn(
    elements: Sequence[Element],
    words: Sequence[PlacedWords],
    size: int,
    settings: OasisSettings,
    random_state: random.Random,
) -> list[ElementCount]:
    permanent = {element.stems for element in elements if not element.variable}
    counts = [entry for entry in count(words, size).values() if entry.stems not in permanent]
    return middle(counts, round(settings.variable_share * len(permanent)), random_state)


def _chosen(training: TrainingSet, kcids: Sequence[int], settings: OasisSettings) -> list[FilterProposal]:
    """What the expert's file says; of a topic it does not name, the most significant elements."""
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
    return [by_expert.get(kcid) or propose(training, kcid, names).telling().top(limits) for kcid in kcids]


def _thresholds(core: Sequence[MetricValues], elements: FilterProposal, place: int, share: float) -> tuple[float, ...]:
    """Of the shares of terms, pairs and triples, and of the cosine."""
    tuned = [threshold((float(page.shares[size - 1][place]) for page in core), share) for size in SIZES]
    tuned.append(threshold((float(page.vector[place]) for page in core), share))
    for size in SIZES[1:]:
        if tuned[size - 1]:
            tuned[size - 1] = max(tuned[size - 1], min(1.0, LEAST_COLLOCATIONS / len(elements.of_size(size))))
    return tuple(tuned)


def _check(settings: OasisSettings) -> None:
    for name in ("passage_chars", "passage_step_chars"):
        if getattr(settings, name) < 1:
            raise SettingsError(f"[oasis] {name}: must be at least 1")
    if not 0 < settings.core_share <= 1:
        raise SettingsError("[oasis] core_share: must be above 0 and at most 1", "The paper takes 0.6 to 0.7.")


METRICS = ("collocations", "terms", "vector", "passages")
DIRECTORY = "directory"
_MEASURED = ("pairs", "triples", "terms", "vector", "passages")
"""The collocation metric has a threshold for pairs and one for triples; either will do."""
MAX_DIRECTORIES = 50_000
"""Directories with relevant pages that a judge remembers, some 10 MB; the ones not used for longest are forgotten."""
MAX_REASONS = 10
"""Elements named in an explanation, of each class."""

_UNDOUBTED = (1.0 + RELEVANT) / 2
"""Relevance from here on: both families agree."""


class _Model(msgspec.Struct, frozen=True):
    """What travels."""

    filters: tuple[TopicFilter, ...]
    settings: OasisSettings


class _Look(NamedTuple):
    """One page as all metrics see it; columns are topics."""

    values: Values
    """A row for each of `_MEASURED`; NaN where it is not known."""
    ratios: Values
    """A row for each of `METRICS`: its value relative to its threshold; NaN where it abstains."""
    stronger: Values
    """The best ratio of the family that says more."""
    weaker: Values
    best: int
    """Place of the topic in which most metrics agree; of those the one with the largest cosine; then the deepest."""


@CLASSIFIERS.register("oasis")
class OasisFilter:
    """A trained filter for each topic. It never changes, but for the directories it remembers."""

    def __init__(self, filters: Sequence[TopicFilter], settings: OasisSettings) -> None:
        """`filters` are not empty; `settings` are those it was trained with."""
        self.filters = tuple(filters)
        self.settings = settings
        self._metrics = Metrics([topic.elements for topic in self.filters], settings)
        self._topics = {topic.kcid: place for place, topic in enumerate(self.filters)}
        self._wanted = np.array([topic.wanted for topic in self.filters], np.bool_)
        self._depths = np.array([topic.depth for topic in self.filters], np.int64)
        thresholds = np.array([topic.thresholds for topic in self.filters], np.float64).T
        # As in `_MEASURED`. NaN never agrees, and takes no part in a maximum.
        self._thresholds = np.stack(
            (thresholds[1], thresholds[2], thresholds[0], thresholds[3], thresholds[3] * settings.passage_share)
        )
        self._thresholds[self._thresholds <= 0] = np.nan
        self._directories: dict[int, int] = {}

    @classmethod
    def train(cls, training: TrainingSet, settings: Settings) -> Self:
        """Make a filter of each topic that has examples: from the file of an expert, or of what they share."""
        return cls(train_filters(training, settings.oasis), settings.oasis)

    def judge(self, evidence: Evidence) -> Judgement:
        """Which topic a page belongs to; remembers its directory when it is relevant."""
        judgement = self._judgement(self._look(words_of(evidence)), evidence.url)
        if judgement.is_relevant and evidence.url and DIRECTORY not in judgement.agreed:
            self._remember(evidence.url, judgement.topic)
        return judgement

    def explain(self, evidence: Evidence) -> Explanation:
        """The same judgement, unless one of its directory was made in between; with what was found of each filter."""
        words = words_of(evidence)
        look = self._look(words)
        judgement = self._judgement(look, evidence.url)
        found = self._found(words)
        steps = []
        for place, topic in enumerate(self.filters):
            taken = judgement.accepted and judgement.topic == topic.kcid
            votes = judgement.votes if taken else self._votes(look, place)
            reasons = (*self._measured(look, place), *found.get(place, ()))
            steps.append(Step(topic.kcid, float(look.stronger[place]) - 1.0, taken, votes, reasons=reasons))
        steps.sort(key=lambda step: (not step.taken, -step.confidence))
        return Explanation(judgement, tuple(steps))

    def redrawn(self, documents: Sequence[Evidence], seed: int, terms: Mapping[int, str] | None = None) -> OasisFilter:
        """This filter with its variable part drawn from recommended documents; due every `settings.redraw_after`.

        Each document serves the topic that takes it; a topic that takes none keeps the variable part it has. Thresholds
        stay: elements of the variable part weigh too little to move them. `terms` are known stems by hash code.
        """
        pages: dict[int, list[Evidence]] = {}
        for page in documents:
            judgement = self._judgement(self._look(words_of(page)), "")
            if judgement.is_relevant:
                pages.setdefault(judgement.topic, []).append(page)
        filters = [
            redraw(topic, pages[topic.kcid], self.settings, terms or {}, random.Random(f"{seed} {topic.kcid}"))
            if topic.kcid in pages
            else topic
            for topic in self.filters
        ]
        return OasisFilter(filters, self.settings)

    def to_bytes(self) -> bytes:
        """All filters and thresholds, and the settings they were made with."""
        return msgspec.msgpack.encode(_Model(self.filters, self.settings))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The filter that gave `data`; it remembers no directories."""
        model = msgspec.msgpack.decode(data, type=_Model)
        return cls(model.filters, model.settings)

    def _look(self, words: PlacedWords) -> _Look:
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
        return _Look(values, ratios, stronger, np.minimum(by_words, by_vectors), best)

    def _judgement(self, look: _Look, url: str) -> Judgement:
        place, accepted = look.best, bool(look.stronger[look.best] >= 1)
        found = self._directories.get(_directory_key(url)) if url and not accepted else None
        if found is not None:
            votes = {**self._votes(look, self._topics[found]), DIRECTORY: 1.0}
            return Judgement(found, accepted=True, relevance=RELEVANT, votes=votes, agreed=[DIRECTORY])
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

    def _relevance(self, look: _Look, place: int, accepted: bool) -> float:
        if self.filters[place].wanted:
            return relevance(float(look.stronger[place]), float(look.weaker[place]))
        wanted = look.stronger[self._wanted]
        if not len(wanted):
            return 0.0
        nearest = int(np.argmax(wanted))
        near = relevance(float(wanted[nearest]), float(look.weaker[self._wanted][nearest]))
        return near * RELEVANT if accepted else near  # a topic that is not wanted has it: not relevant, however near

    def _votes(self, look: _Look, place: int) -> dict[str, float]:
        votes = zip(METRICS, look.ratios[:, place].tolist(), strict=True)
        return {name: vote for name, vote in votes if not math.isnan(vote)}

    def _remember(self, url: str, kcid: int) -> None:
        key = _directory_key(url)
        self._directories.pop(key, None)
        self._directories[key] = kcid
        if len(self._directories) > MAX_DIRECTORIES:
            del self._directories[next(iter(self._directories))]

    def _measured(self, look: _Look, place: int) -> list[Reason]:
        """The value of each metric beside its threshold."""
        rows = zip(_MEASURED, look.values[:, place].tolist(), self._thresholds[:, place].tolist(), strict=True)
        return [
            Reason(f"{name}: {value:.3f}, threshold {least:.3f}", value / least - 1.0)
            for name, value, least in rows
            if not math.isnan(value / least)
        ]

    def _found(self, words: PlacedWords) -> dict[int, list[Reason]]:
        """The elements a page has, by place of the topic: what each adds, relative to the threshold of its metric."""
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
    """Below 0.5 no metric agrees; from 0.75 on both families do. The arguments are ratios to thresholds."""
    if stronger < 1:
        return RELEVANT * stronger
    if weaker < 1:
        return _UNDOUBTED - (_UNDOUBTED - RELEVANT) / stronger
    return 1.0 - (1.0 - _UNDOUBTED) / weaker


def directory_of(url: str) -> str:
    """A URL up to the last slash of its path."""
    path = url.partition("?")[0]
    slash = path.rfind("/")
    return path[: slash + 1] if slash > path.find("//") + 1 else f"{path}/"


def _directory_key(url: str) -> int:
    return url_key(directory_of(url))
