"""Which terms and collocations speak for a topic: counted in its core of examples, ranked, to be chosen from."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from opilio.classify.collocations import SIZES, Words, phrases, words_of
from opilio.classify.judge import TrainingSet
from opilio.features.evidence import Evidence, TextReader
from opilio.settings import Oasis

CLASSES = ("terms", "pairs", "triples")
"""The classes of a filter's elements, by their size in words."""
TELLING_RATIO = 2.0
"""An element that is not so many times as frequent in the core as elsewhere is the language's, or the site's."""
LISTED = 3
"""An expert is shown so many times the elements that would be taken without one, so that there is a choice."""


class Element(msgspec.Struct, frozen=True, array_like=True):
    """A term or collocation of a filter, or one proposed for it."""

    stems: tuple[int, ...]
    words: str
    """The stems as a person reads them."""
    frequency: int
    """How often it occurs in the core."""
    documents: int = 0
    """In how many documents of the core."""
    variable: bool = False
    """Drawn from pages found, not chosen from the core."""
    telling: bool = True
    """Worth taking without an expert: shared by documents of the core, and rarer elsewhere."""


class Proposal(msgspec.Struct, frozen=True):
    """The elements found in the core of one topic, the most significant first."""

    kcid: int
    documents: int
    """The size of the core."""
    terms: tuple[Element, ...]
    pairs: tuple[Element, ...]
    triples: tuple[Element, ...]

    def of_size(self, size: int) -> tuple[Element, ...]:
        """The elements of `size` words."""
        return (self.terms, self.pairs, self.triples)[size - 1]

    def top(self, limits: Sequence[int]) -> Proposal:
        """The first of each class, as many as `limits` say."""
        terms, pairs, triples = (self.of_size(size)[: limits[size - 1]] for size in SIZES)
        return Proposal(self.kcid, self.documents, terms, pairs, triples)

    def telling(self) -> Proposal:
        """What is worth taking without an expert. If that is no term at all, every term is."""
        terms, pairs, triples = (tuple(element for element in self.of_size(size) if element.telling) for size in SIZES)
        return Proposal(self.kcid, self.documents, terms or self.terms, pairs, triples)


class Count:
    """How often one element was met, and in how many documents."""

    __slots__ = ("documents", "occurrences", "stems")

    def __init__(self, stems: tuple[int, ...]) -> None:
        self.stems = stems
        self.occurrences = 0
        self.documents = 0


def proposals(training: TrainingSet, settings: Oasis) -> list[Proposal]:
    """The lists from which an expert chooses, for each topic that has examples."""
    names = names_of((example.evidence for example in training.examples), training.terms)
    limits = [LISTED * limit for limit in limits_of(settings)]
    return [propose(training, kcid, names).top(limits) for kcid in topics_of(training)]


def propose(training: TrainingSet, kcid: int, names: Mapping[int, str]) -> Proposal:
    """Everything that could be in the filter of a topic.

    Ranked so that an expert has little to strike out: by how many documents of the core share an element, and how few
    of the other topics have it. Those of one document alone, or as frequent elsewhere, come last.
    """
    core, against = core_of(training, kcid), _against(training, kcid)
    words, other_words = [words_of(page) for page in core], [words_of(page) for page in against]
    found = []
    for size in SIZES:
        counts = count(words, size)
        elsewhere = count_documents(other_words, size, counts)
        found.append(_ranked(counts, elsewhere, len(core), len(against), names))
    return Proposal(kcid, len(core), *found)


def core_of(training: TrainingSet, kcid: int) -> list[Evidence]:
    """The documents a topic's filter is made of: its own examples, not those of topics below it."""
    return [example.evidence for example in training.examples if example.positive and example.kcid == kcid]


def _against(training: TrainingSet, kcid: int) -> list[Evidence]:
    """The documents a topic must be told from: those of topics beside it, and OTHERS where it competes."""
    hierarchy = training.hierarchy
    kin = {*hierarchy.line(kcid), *hierarchy.below(kcid)}
    beside = [example for example in training.examples if example.positive and example.kcid not in kin]
    return [example.evidence for example in (*training.others_of(hierarchy.nodes[kcid].parent), *beside)]


def topics_of(training: TrainingSet) -> list[int]:
    """The topics that get a filter: all that have examples of their own. The root only when it is the one topic."""
    start = training.hierarchy.start
    with_core = {example.kcid for example in training.examples if example.positive}
    return sorted(kcid for kcid in with_core if kcid in training.hierarchy.nodes and kcid != start)


def names_of(pages: Iterable[Evidence], known: Mapping[int, str]) -> dict[int, str]:
    """The stems of some pages by hash code: those known, and those that reading the texts again tells."""
    reader, names = TextReader(), {}
    for page in pages:
        stems = set(page.stems.tolist()) - {0}
        if not stems <= known.keys():
            reader.stems(f"{page.title}\n{page.text}", page.language)
        names.update({stem: known.get(stem) or reader.terms.get(stem, "") for stem in stems})
    return {stem: name for stem, name in names.items() if name}


def named(stems: Sequence[int], names: Mapping[int, str]) -> str:
    """Stems as a person reads them; one without a name as its number."""
    return " ".join(names.get(stem) or f"#{stem}" for stem in stems)


def count(pages: Sequence[Words], size: int) -> dict[int, Count]:
    """The elements of one size in some documents, by their code."""
    counts: dict[int, Count] = {}
    for words in pages:
        found = phrases(words, size)
        codes, first, times = np.unique(found.codes, return_index=True, return_counts=True)
        places = found.places[first]
        rows = np.stack([words.stems[places + step] for step in range(size)], axis=1).tolist()
        for code, stems, occurrences in zip(codes.tolist(), rows, times.tolist(), strict=True):
            entry = counts.get(code)
            if entry is None:
                entry = counts[code] = Count(tuple(stems))
            entry.occurrences += occurrences
            entry.documents += 1
    return counts


def count_documents(pages: Sequence[Words], size: int, wanted: Collection[int]) -> dict[int, int]:
    """In how many documents each of the `wanted` elements occurs, by their code."""
    counts = dict.fromkeys(wanted, 0)
    for words in pages:
        for code in np.unique(phrases(words, size).codes).tolist():
            if code in counts:
                counts[code] += 1
    return counts


def by_frequency(entry: Count) -> tuple[int, int, tuple[int, ...]]:
    """Sorts elements by frequency, most frequent first, always in the same order."""
    return -entry.documents, -entry.occurrences, entry.stems


def limits_of(settings: Oasis) -> tuple[int, int, int]:
    """How many elements of each class the permanent filter takes."""
    return settings.terms, settings.pairs, settings.triples


def _ranked(
    counts: Mapping[int, Count], elsewhere: Mapping[int, int], core: int, others: int, names: Mapping[int, str]
) -> tuple[Element, ...]:
    """Elements by their share of the core times the logarithm of how much larger that is than elsewhere."""

    def rank(code: int) -> tuple[bool, float, tuple[int, int, tuple[int, ...]]]:
        entry = counts[code]
        here, there = (entry.documents + 0.5) / (core + 1), (elsewhere[code] + 0.5) / (others + 1)
        ratio = here / there if others else math.e
        telling = entry.documents >= min(2, core) and ratio >= TELLING_RATIO
        return not telling, -here * math.log(ratio), by_frequency(entry)

    ranked = sorted(((rank(code), counts[code]) for code in counts), key=lambda row: row[0])
    return tuple(
        Element(entry.stems, named(entry.stems, names), entry.occurrences, entry.documents, telling=not key[0])
        for key, entry in ranked
    )
