"""How the filters of `oasis` come to be: elements chosen, thresholds tuned on the core, variable parts drawn anew."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from opilio.classify.collocations import SIZES, Words, words_of
from opilio.classify.judge import TrainingSet
from opilio.classify.oasis_file import read_filter
from opilio.classify.oasis_metrics import Measures, Metrics
from opilio.classify.oasis_proposal import (
    Count,
    Element,
    Proposal,
    by_frequency,
    core_of,
    count,
    limits_of,
    named,
    names_of,
    propose,
    topics_of,
)
from opilio.errors import InputError, SettingsError
from opilio.features.evidence import Evidence
from opilio.settings import Oasis

LEAST_COLLOCATIONS = 2
"""No page is recognised by a single collocation, however few the core has: OASIS went no lower (tables 1 and 2)."""


class TopicFilter(msgspec.Struct, frozen=True):
    """What `oasis` has learned of one topic."""

    elements: Proposal
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


def train_filters(training: TrainingSet, settings: Oasis) -> tuple[TopicFilter, ...]:
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
    old: TopicFilter, pages: Sequence[Evidence], settings: Oasis, terms: Mapping[int, str], random_state: random.Random
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
    elements = Proposal(old.kcid, old.elements.documents, *parts)
    return msgspec.structs.replace(old, elements=elements)


def middle(counts: Iterable[Count], wanted: int, random_state: random.Random) -> list[Count]:
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
    elements: Sequence[Element], words: Sequence[Words], size: int, settings: Oasis, random_state: random.Random
) -> list[Count]:
    permanent = {element.stems for element in elements if not element.variable}
    counts = [entry for entry in count(words, size).values() if entry.stems not in permanent]
    return middle(counts, round(settings.variable_share * len(permanent)), random_state)


def _chosen(training: TrainingSet, kcids: Sequence[int], settings: Oasis) -> list[Proposal]:
    """What the expert's file says; of a topic it does not name, the most significant elements."""
    cores = {kcid: core_of(training, kcid) for kcid in kcids}
    names = names_of((page for core in cores.values() for page in core), training.terms)
    by_expert: dict[int, Proposal] = {}
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


def _thresholds(core: Sequence[Measures], elements: Proposal, place: int, share: float) -> tuple[float, ...]:
    """Of the shares of terms, pairs and triples, and of the cosine."""
    tuned = [threshold((float(page.shares[size - 1][place]) for page in core), share) for size in SIZES]
    tuned.append(threshold((float(page.vector[place]) for page in core), share))
    for size in SIZES[1:]:
        if tuned[size - 1]:
            tuned[size - 1] = max(tuned[size - 1], min(1.0, LEAST_COLLOCATIONS / len(elements.of_size(size))))
    return tuple(tuned)


def _check(settings: Oasis) -> None:
    for name in ("passage_chars", "passage_step_chars"):
        if getattr(settings, name) < 1:
            raise SettingsError(f"[oasis] {name}: must be at least 1")
    if not 0 < settings.core_share <= 1:
        raise SettingsError("[oasis] core_share: must be above 0 and at most 1", "The paper takes 0.6 to 0.7.")
