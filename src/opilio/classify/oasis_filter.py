"""The elements of a filter of `oasis`: terms and collocations of the core, ranked so that an expert can choose.

The expert edits a file (OASIS 4, step 3): TOML, with one table for each topic and class; a line is an element and its
frequency:

    ["databases / query languages".pairs]
    "queri languag" = 41    # in 12 of 30 documents

To remove an element, delete its line. To add one, write a line with stems as in the file, or with whole words, which
are stemmed; the number is its weight relative to the others.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np

from opilio.classify.collocations import SIZES, PlacedWords, phrases, words_of
from opilio.classify.judge import TrainingSet
from opilio.errors import InputError
from opilio.features.classifier_input import ClassifierInput, TextReader
from opilio.settings import OasisSettings
from opilio.topics.hierarchy import Hierarchy

CLASSES = ("terms", "pairs", "triples")
"""The classes of a filter's elements, by their size in words."""
DISTINCTIVE_RATIO = 2.0
"""An element must be this many times as frequent in the core as elsewhere; otherwise it is typical of the language or
the site."""
LISTED = 3
"""An expert is shown this many times the number of elements that would be used without one."""

MAX_FREQUENCY = 10**9

_HEAD = """\
# Filter of the classifier `oasis`: terms and collocations that indicate each topic, the most significant first.
# Keep 20 to 100 of each class: delete the lines that do not indicate the topic, and add what is missing.
# A line is a term or collocation (in stems; whole words may be added) and its frequency, which is its weight.
# To use the file, set in crawl.toml:  [oasis]  filter = "this file"
"""
_NUMBERED = re.compile(r"#(\d{1,10})")


class Element(msgspec.Struct, frozen=True, array_like=True):
    """A term or collocation of a filter, or one proposed for it."""

    stems: tuple[int, ...]
    words: str
    """The stems in readable form."""
    frequency: int
    """How often it occurs in the core."""
    documents: int = 0
    """In how many documents of the core it occurs."""
    variable: bool = False
    """Part of the variable part: drawn from pages found, not chosen from the core."""
    distinctive: bool = True
    """Worth using without an expert: shared by documents of the core, and rarer elsewhere."""
    recent: int = 0
    """How often an element of the permanent part occurs in the pages that the variable part was last drawn from."""


class FilterProposal(msgspec.Struct, frozen=True):
    """The elements found in the core of one topic, the most significant ones first."""

    kcid: int
    documents: int
    """The size of the core."""
    terms: tuple[Element, ...]
    pairs: tuple[Element, ...]
    triples: tuple[Element, ...]

    def of_size(self, size: int) -> tuple[Element, ...]:
        """The elements of `size` words."""
        return (self.terms, self.pairs, self.triples)[size - 1]

    def top(self, limits: Sequence[int]) -> FilterProposal:
        """The first elements of each class, up to `limits`."""
        terms, pairs, triples = (self.of_size(size)[: limits[size - 1]] for size in SIZES)
        return FilterProposal(self.kcid, self.documents, terms, pairs, triples)

    def distinctive(self) -> FilterProposal:
        """The elements worth using without an expert. If there is no such term, all terms are used."""
        terms, pairs, triples = (tuple(one for one in self.of_size(size) if one.distinctive) for size in SIZES)
        return FilterProposal(self.kcid, self.documents, terms or self.terms, pairs, triples)


class ElementCount:
    """How often one element occurs, and in how many documents."""

    __slots__ = ("documents", "occurrences", "stems")

    def __init__(self, stems: tuple[int, ...]) -> None:
        self.stems = stems
        self.occurrences = 0
        self.documents = 0


def proposals(training: TrainingSet, settings: OasisSettings) -> list[FilterProposal]:
    """The lists for an expert to choose from, one for each topic with examples."""
    names = names_of((example.item for example in training.examples), training.terms)
    limits = [LISTED * limit for limit in limits_of(settings)]
    return [propose(training, kcid, names).top(limits) for kcid in topics_of(training)]


def propose(training: TrainingSet, kcid: int, names: Mapping[int, str]) -> FilterProposal:
    """Everything that could be in the filter of a topic.

    Ranked so that an expert has little to remove: by how many documents of the core share an element, and how few of
    the other topics have it. Elements of a single document, or as frequent elsewhere, come last.
    """
    core, against = core_of(training, kcid), _against(training, kcid)
    words, other_words = [words_of(page) for page in core], [words_of(page) for page in against]
    found = []
    for size in SIZES:
        counts = count(words, size)
        elsewhere = count_documents(other_words, size, counts)
        found.append(_ranked(counts, elsewhere, len(core), len(against), names))
    return FilterProposal(kcid, len(core), *found)


def core_of(training: TrainingSet, kcid: int) -> list[ClassifierInput]:
    """The documents for the filter of a topic: its own examples, not those of topics below it."""
    return [example.item for example in training.examples if example.positive and example.kcid == kcid]


def _against(training: TrainingSet, kcid: int) -> list[ClassifierInput]:
    """The documents that a topic must be distinguished from: those of other topics, and OTHERS where it competes."""
    hierarchy = training.hierarchy
    kin = {*hierarchy.line(kcid), *hierarchy.below(kcid)}
    competing = [example for example in training.examples if example.positive and example.kcid not in kin]
    return [example.item for example in (*training.others_of(hierarchy.nodes[kcid].parent), *competing)]


def topics_of(training: TrainingSet) -> list[int]:
    """The topics that get a filter: all with examples of their own; the root only if it is the only topic."""
    start = training.hierarchy.start
    with_core = {example.kcid for example in training.examples if example.positive}
    return sorted(kcid for kcid in with_core if kcid in training.hierarchy.nodes and kcid != start)


def names_of(pages: Iterable[ClassifierInput], known: Mapping[int, str]) -> dict[int, str]:
    """The stems of some pages by hash code: from `known`, or by reading the texts again."""
    reader, names = TextReader(), {}
    for page in pages:
        stems = set(page.stems.tolist()) - {0}
        if not stems <= known.keys():
            reader.stems(f"{page.title}\n{page.text}", page.language)
        names.update({stem: known.get(stem) or reader.terms.get(stem, "") for stem in stems})
    return {stem: name for stem, name in names.items() if name}


def named(stems: Sequence[int], names: Mapping[int, str]) -> str:
    """Stems in readable form; an unknown one as its number."""
    return " ".join(names.get(stem) or f"#{stem}" for stem in stems)


def count(pages: Sequence[PlacedWords], size: int) -> dict[int, ElementCount]:
    """The elements of one size in some documents, by code."""
    counts: dict[int, ElementCount] = {}
    for words in pages:
        found = phrases(words, size)
        codes, first, times = np.unique(found.codes, return_index=True, return_counts=True)
        places = found.places[first]
        rows = np.stack([words.stems[places + step] for step in range(size)], axis=1).tolist()
        for code, stems, occurrences in zip(codes.tolist(), rows, times.tolist(), strict=True):
            entry = counts.get(code)
            if entry is None:
                entry = counts[code] = ElementCount(tuple(stems))
            entry.occurrences += occurrences
            entry.documents += 1
    return counts


def count_documents(pages: Sequence[PlacedWords], size: int, wanted: Collection[int]) -> dict[int, int]:
    """In how many documents each of the `wanted` elements occurs, by code."""
    counts = dict.fromkeys(wanted, 0)
    for words in pages:
        for code in np.unique(phrases(words, size).codes).tolist():
            if code in counts:
                counts[code] += 1
    return counts


def by_frequency(entry: ElementCount) -> tuple[int, int, tuple[int, ...]]:
    """A sort key: the most frequent first, and always in the same order."""
    return -entry.documents, -entry.occurrences, entry.stems


def limits_of(settings: OasisSettings) -> tuple[int, int, int]:
    """The number of elements of each class in the permanent part of a filter."""
    return settings.terms, settings.pairs, settings.triples


def _ranked(
    counts: Mapping[int, ElementCount], elsewhere: Mapping[int, int], core: int, others: int, names: Mapping[int, str]
) -> tuple[Element, ...]:
    """Elements by their share of the core times the logarithm of its ratio to their share elsewhere."""

    def rank(code: int) -> tuple[bool, float, tuple[int, int, tuple[int, ...]]]:
        entry = counts[code]
        here, there = (entry.documents + 0.5) / (core + 1), (elsewhere[code] + 0.5) / (others + 1)
        ratio = here / there if others else math.e
        distinctive = entry.documents >= min(2, core) and ratio >= DISTINCTIVE_RATIO
        return not distinctive, -here * math.log(ratio), by_frequency(entry)

    ranked = sorted(((rank(code), counts[code]) for code in counts), key=lambda row: row[0])
    return tuple(
        Element(entry.stems, named(entry.stems, names), entry.occurrences, entry.documents, distinctive=not key[0])
        for key, entry in ranked
    )


def write_proposal(path: Path, proposals: Iterable[FilterProposal], hierarchy: Hierarchy) -> None:
    """Write proposals as a file to edit; read back unchanged, it gives the same elements."""
    lines = [_HEAD]
    for proposal in proposals:
        topic = _quoted(hierarchy.nodes[proposal.kcid].path)
        for size, name in zip(SIZES, CLASSES, strict=True):
            lines.append(f"[{topic}.{name}]")
            lines += [
                f"{_quoted(element.words)} = {element.frequency}    # in {element.documents} of {proposal.documents}"
                " documents"
                for element in proposal.of_size(size)
            ]
            lines.append("")
    try:
        path.write_text("\n".join(lines), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def read_filter(
    path: Path, hierarchy: Hierarchy, names: Mapping[int, str], languages: Mapping[int, str]
) -> dict[int, FilterProposal]:
    """The elements chosen for each topic in the file, by kcid.

    `names` are the stems of the core by hash code; `languages` are those of the topics, by which added words are
    stemmed.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}", "See the setting oasis.filter.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid TOML: {error}", "Correct the line that the message names.") from None
    if not table:
        raise InputError(f"{path}: the filter is empty", "It needs a table for each topic and class of elements.")
    topics = {hierarchy.nodes[kcid].path: kcid for kcid in sorted(hierarchy.nodes)}
    reader = _Reader(str(path), {stem: code for code, stem in names.items()})
    return {
        reader.known(topic, topics, "topic"): reader.topic(topic, classes, topics[topic], languages)
        for topic, classes in table.items()
    }


class _Reader:
    """Checks a filter file and turns its words into stems."""

    def __init__(self, where: str, codes: Mapping[str, int]) -> None:
        self._where = where
        self._codes = codes
        self._texts = TextReader()

    def known(self, name: str, names: Mapping[str, int], what: str) -> int:
        if name in names:
            return names[name]
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(map(repr, names))}."
        raise InputError(f"{self._where}: unknown {what} {name!r}", hint)

    def topic(self, name: str, classes: Any, kcid: int, languages: Mapping[int, str]) -> FilterProposal:
        if not isinstance(classes, dict):
            self._fail(name, "is not a table", f'Write ["{name}".terms] and the terms below it.')
        sizes = dict(zip(CLASSES, SIZES, strict=True))
        chosen: dict[int, tuple[Element, ...]] = {}
        for class_name, lines in classes.items():
            size = self.known(class_name, sizes, f"class of elements of topic {name!r}:")
            if not isinstance(lines, dict):
                self._fail(f"{name}.{class_name}", "is not a table", 'Write one line for each element: "word" = 1')
            elements = [
                self._element(f"{name}.{class_name}", words, frequency, size, languages.get(kcid, ""))
                for words, frequency in lines.items()
            ]
            elements.sort(key=lambda element: -element.frequency)
            distinct = {element.stems: element for element in reversed(elements)}
            chosen[size] = tuple(reversed(distinct.values()))
        if not any(chosen.values()):
            self._fail(name, "contains no element", "Keep at least some terms, or delete all tables of the topic.")
        return FilterProposal(kcid, 0, *(chosen.get(size, ()) for size in SIZES))

    def _element(self, place: str, words: str, frequency: Any, size: int, language: str) -> Element:
        if type(frequency) is not int or not 1 <= frequency <= MAX_FREQUENCY:
            self._fail(place, f"{words!r} has no usable frequency: {frequency!r}", "Write a whole number from 1 on.")
        parts = words.split()
        stems = tuple(stem for part in parts for stem in self._stems(place, part, language))
        if len(stems) != size:
            self._fail(
                place, f"{words!r} has {len(stems)} words, not {size}", f"Classes: {', '.join(CLASSES)}: 1, 2, 3 words."
            )
        return Element(stems, " ".join(parts).lower(), frequency)

    def _stems(self, place: str, word: str, language: str) -> list[int]:
        """A stem of the core as it is, because stemming it again might change it; any other word stemmed."""
        if word in self._codes:
            return [self._codes[word]]
        if (numbered := _NUMBERED.fullmatch(word)) and 0 < int(numbered[1]) < 1 << 32:
            return [int(numbered[1])]
        stems: list[int] = self._texts.stems(word, language).tolist()
        if not stems or 0 in stems:
            self._fail(place, f"{word!r} is not a term", "Stop words, single letters and long numbers are not terms.")
        return stems

    def _fail(self, place: str, what: str, hint: str) -> NoReturn:
        raise InputError(f"{self._where}, [{place}]: {what}", hint)


def _quoted(text: str) -> str:
    """`text` as a TOML key."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
