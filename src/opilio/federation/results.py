"""Results: one list from the answers of several collections, as if they were one.

Words are scored by BM25 with the statistics of all collections together; then the rankings are combined exactly as
`search.ranking` does for one. What peers send counts only within what is possible: a word that is said to occur a
million times in a page adds no more than (k1 + 1) times its weight, shares and relevances are between 0 and 1, and no
more pages have a word than there are pages. So a peer that lies can show its own pages, but not bury those of others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opilio.federation.peers import FACETS, PeerAnswer, PeerHit, PeerSummary
from opilio.search.columns import SHARED_BANDS
from opilio.search.matching import STEMMED, Leaf, leaves_of, words_of
from opilio.search.query import AllOf, Node, Without, Word
from opilio.search.ranking import as_share, combine, with_present_names

K1, B = 1.2, 0.75
"""The parameters of BM25, as in the index."""
MAX_FACET_VALUES = 20


@dataclass
class Statistics:
    """Statistics of all collections together."""

    pages: int = 0
    frequencies: dict[str, int] = field(default_factory=dict)
    """How many pages have a word in a field."""
    lengths: dict[str, float] = field(default_factory=dict)
    """Words in each field, on average."""

    def idf(self, leaf: Leaf) -> float:
        """The weight of a word, or of the words of a phrase together."""
        return sum(idf(self.pages, self.frequencies.get(f"{leaf.field}:{term}", 0.0)) for term in leaf.terms)


def idf(pages: float, pages_with: float) -> float:
    """The weight of a word: the fewer pages have it, the greater it is."""
    pages_with = min(pages_with, pages)
    return math.log(1 + (pages - pages_with + 0.5) / (pages_with + 0.5))


def gather_statistics(
    answers: Mapping[str, PeerAnswer], known: Mapping[str, PeerSummary | None], leaves: Iterable[Leaf]
) -> Statistics:
    """The statistics of all collections: as counted by those that answered, from the summaries of the others."""
    asked = {(leaf.field, term) for leaf in leaves for term in leaf.terms}
    report: list[tuple[int, Mapping[str, float], Mapping[str, int]]] = []
    for name in {**answers, **known}:
        answer, summary = answers.get(name), known.get(name)
        lengths = summary.lengths if summary is not None else {}
        if answer is not None:  # it has only the lengths of fields in which it found something
            report.append((answer.pages_indexed, {**lengths, **answer.lengths}, answer.frequencies))
        elif summary is not None:
            counted = {f"{name}:{term}": pages_with(summary, name, term) for name, term in asked}
            report.append((summary.pages, lengths, counted))
    found = Statistics(sum(pages for pages, _, _ in report))
    for name, term in asked:
        key = f"{name}:{term}"
        found.frequencies[key] = sum(min(pages, max(0, counted.get(key, 0))) for pages, _, counted in report)
    for name in {name for name, _ in asked}:
        some = [(pages, lengths[name]) for pages, lengths, _ in report if lengths.get(name, 0) > 0]
        found.lengths[name] = sum(pages * length for pages, length in some) / max(1, sum(pages for pages, _ in some))
    return found


def pages_with(summary: PeerSummary, field_name: str, term: str) -> int:
    """How many pages have a word in a field, as far as a summary says."""
    stem = term if field_name in STEMMED else next(iter(words_of(term, stems=True)), term)
    word = summary.words.get(stem)
    if word is None:
        return 0
    known = {"title_stems": word.titles, "title": word.titles, "anchor": word.anchors, "url": 0}
    return known.get(field_name, word.pages)


# -- scores


class ResultScorer:
    """Scores pages by the words of a question."""

    def __init__(self, tree: Node | None, statistics: Statistics) -> None:
        self._tree, self._statistics = tree, statistics
        self._leaves: dict[Word, list[tuple[Leaf, str, float]]] = {}

    def score(self, found: PeerHit) -> float:
        """BM25 of a page."""
        if self._tree is None:
            return 0.0
        fits, score = self._node(self._tree, found)
        return score if fits else 0.0

    def _node(self, node: Node, found: PeerHit) -> tuple[bool, float]:
        """Whether a page matches a part of the question, and what that adds: as in the index."""
        if isinstance(node, Word):
            return self._word(node, found)
        if isinstance(node, Without):
            return not self._node(node.part, found)[0], 1.0
        fitted = [self._node(part, found) for part in node.parts]
        if isinstance(node, AllOf):
            wanted = [
                score for part, (_, score) in zip(node.parts, fitted, strict=True) if not isinstance(part, Without)
            ]
            return all(fits for fits, _ in fitted), sum(wanted) if wanted else 1.0
        return any(fits for fits, _ in fitted), sum(score for fits, score in fitted if fits)

    def _word(self, word: Word, found: PeerHit) -> tuple[bool, float]:
        fits, score = False, 0.0
        for leaf, key, weight in self._weighed(word):
            frequency = found.words.get(key, 0.0)
            if frequency > 0:
                fits = True
                score += weight * (1.0 if leaf.is_constant else self._share(leaf.field, frequency, found))
        return fits, score

    def _weighed(self, word: Word) -> list[tuple[Leaf, str, float]]:
        """The leaves of a word, with their names and weights."""
        if word not in self._leaves:
            self._leaves[word] = [
                (leaf, leaf.key, leaf.boost * (1.0 if leaf.is_constant else self._statistics.idf(leaf)))
                for leaf in leaves_of(word)
            ]
        return self._leaves[word]

    def _share(self, field_name: str, frequency: float, found: PeerHit) -> float:
        mean = self._statistics.lengths.get(field_name, 0.0)
        length = found.lengths.get(field_name, mean)
        norm = K1 * (1 - B + B * (length / mean if mean > 0 else 1.0))
        return (K1 + 1) * frequency / (frequency + norm)


# -- the list


@dataclass
class MergedResult:
    """One page, and the collections that have it."""

    best: dict[str, Any]
    collections: list[dict[str, Any]]
    text: str | None = None
    """As in `PeerHit`."""


def merge(answers: Mapping[str, PeerAnswer], scorer: ResultScorer, weights: Mapping[str, float]) -> list[MergedResult]:
    """The pages of all answers by their common scores, each once, with all collections that have it."""
    pages = [(name, found) for name, answer in answers.items() for found in answer.pages]
    if not pages:
        return []
    report = [with_present_names(found.result["parts"]) for _, found in pages]
    parts = {name: np.array([_share(part.get(name, 0.0)) for part in report]) for name in weights}
    parts["bm25"] = as_share(np.array([scorer.score(found) for _, found in pages]))
    scores = combine(weights, parts)
    merged: list[MergedResult] = []
    seen: dict[tuple[str, ...], MergedResult] = {}
    for at in np.lexsort((np.arange(len(pages)), -parts["relevance"], -scores)).tolist():
        name, found = pages[at]
        own = {key: found.result[key] for key in ("oid", "topic", "url", "score")} | {"name": name}
        marks = _marks(found)
        one = next((seen[mark] for mark in marks if mark in seen), None)
        if one is None:
            said = {key: round(float(values[at]), 4) for key, values in parts.items()}
            one = MergedResult({**found.result, "parts": said, "score": round(float(scores[at]), 4)}, [own], found.text)
            merged.append(one)
            seen |= dict.fromkeys(marks, one)
        elif name not in [other["name"] for other in one.collections]:
            one.collections.append(own)
    return merged


def _share(value: float) -> float:
    return min(1.0, max(0.0, float(value)))


def _marks(found: PeerHit) -> list[tuple[str, ...]]:
    """The marks by which a page is recognised as a copy: the same URL, the same text, or nearly the same text.

    A page is compared with those that are shown only, not with their copies in turn: nobody can hide a page behind
    another by sending one that is like both.
    """
    whole, bands = found.marks[:1], [f"{number} {mark}" for number, mark in enumerate(found.marks[1:]) if mark]
    marks: list[tuple[str, ...]] = [("url", str(found.result["url"]))]
    marks += [("text", mark) for mark in whole if mark]
    return marks + list(itertools.combinations(bands, SHARED_BANDS))


def merge_facets(answers: Iterable[PeerAnswer]) -> dict[str, list[dict[str, Any]]]:
    """The facets of all answers, added up; empty ones, when nobody answered."""
    added: dict[str, dict[str, int]] = {facet: {} for facet in FACETS}
    for answer in answers:
        for facet, values in answer.facets.items():
            counts = added.setdefault(facet, {})
            for one in values:
                counts[one["value"]] = counts.get(one["value"], 0) + one["count"]
    return {
        facet: [
            {"value": value, "count": count}
            for value, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:MAX_FACET_VALUES]
        ]
        for facet, counts in added.items()
    }
