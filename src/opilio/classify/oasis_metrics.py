"""The metrics of `oasis`, which compare a page with the filters of all topics at once (OASIS 4).

*Terms* and *collocations*: the share of a filter's elements that the page has. *Vector*: the cosine of the page and
the filter, with terms weighted by 1 + ln(frequency) on both sides. *Passages*: the largest such cosine of a window of
200 characters that moves over the page in steps of 50.

Pages that were recommended correct the weights in the cosine: a term has its weight in the core (0 if it is of the
variable part) plus `damping` times its weight in those pages.

A passage consists of the words that are entirely in it: a word cut by its border is in the next one, because windows
overlap by more than the length of a word. The last window ends at the end of the page, so that there is no remainder of
a few words, in which a single term would look like a topic. Passages are not read one by one: the position of a word
gives the passages it is in, and one sort brings the words of each passage together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opilio.classify.collocations import SIZES, PlacedWords, code_of, phrases
from opilio.classify.oasis_filter import Element, FilterProposal
from opilio.settings import OasisSettings

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.classify.collocations import Codes, Places

    Values = npt.NDArray[np.float64]


class MetricValues(NamedTuple):
    """The values of the metrics for one page, each an array over the topics."""

    shares: tuple[Values, Values, Values]
    """The shares of terms, pairs and triples."""
    vector: Values
    passages: Values | None
    """None if the positions of the words are not known."""


class FilterHits(NamedTuple):
    """The filter elements that a page has, one row for each element of each topic."""

    topics: Places
    elements: Places
    """The index of the element in its class of the topic's filter."""
    shares: Values
    """Its contribution to the share of elements found."""
    cosines: Values
    """Its contribution to the cosine of the whole page; 0 unless it is a term."""


class Index:
    """All elements of one size, by code: which topics have them, and their weights there."""

    def __init__(self, filters: Sequence[FilterProposal], size: int, damping: float) -> None:
        rows = [
            (code_of(element.stems), topic, place, element)
            for topic, chosen in enumerate(filters)
            for place, element in enumerate(chosen.of_size(size))
        ]
        rows.sort(key=lambda row: row[:3])
        self.codes: Codes = np.array([row[0] for row in rows], np.uint64)
        self.topics: Places = np.array([row[1] for row in rows], np.int64)
        self.places: Places = np.array([row[2] for row in rows], np.int64)
        each = np.ones(len(rows))
        weights = np.array([_weight(row[3], damping) for row in rows], np.float64)
        self.shares = self._relative(each, _sums(self.topics, each, len(filters)))
        self.weights = self._relative(weights, np.sqrt(_sums(self.topics, weights * weights, len(filters))))

    def _relative(self, values: Values, totals: Values) -> Values:
        """`values` divided by the total of their topic; 0 if the total is 0, as with a damping of 0."""
        mine = totals[self.topics]
        return np.divide(values, mine, out=np.zeros_like(values), where=mine > 0)

    def find(self, codes: Codes) -> tuple[Places, Places]:
        """For each of the codes, the start and the number of its rows."""
        left = np.searchsorted(self.codes, codes, "left")
        return left, np.searchsorted(self.codes, codes, "right") - left


class Metrics:
    """The filters of all topics, prepared for measuring pages."""

    def __init__(self, filters: Sequence[FilterProposal], settings: OasisSettings) -> None:
        self._count = len(filters)
        self._chars, self._step_chars = settings.passage_chars, settings.passage_step_chars
        self._indices = [Index(filters, size, settings.damping) for size in SIZES]

    def measure(self, words: PlacedWords) -> MetricValues:
        """Measure one page."""
        terms = self._indices[0]
        ids, inverse, counts = np.unique(phrases(words, 1).codes, return_inverse=True, return_counts=True)
        starts, rows = terms.find(ids)
        owners, hits = _ranges(starts, rows)
        damped = 1.0 + np.log(counts)
        pairs, triples = (self._share(index, phrases(words, size)[0]) for index, size in self._collocations())
        dots = self._sum(terms.topics[hits], terms.weights[hits] * damped[owners])
        whole = np.sqrt(np.dot(damped, damped))
        return MetricValues(
            (self._sum(terms.topics[hits], terms.shares[hits]), pairs, triples),
            np.minimum(dots / whole, 1.0) if len(ids) else dots,
            self._passages(words, inverse, starts, rows) if len(words.starts) else None,
        )

    def hits(self, words: PlacedWords) -> list[FilterHits]:
        """The terms, pairs and triples that a page has: the reasons for its values."""
        found = []
        for index, size in zip(self._indices, SIZES, strict=True):
            ids, counts = np.unique(phrases(words, size).codes, return_counts=True)
            owners, rows = _ranges(*index.find(ids))
            damped = (1.0 + np.log(counts)) * (size == 1)
            whole = np.sqrt(np.dot(damped, damped)) or 1.0
            cosines = index.weights[rows] * damped[owners] / whole
            found.append(FilterHits(index.topics[rows], index.places[rows], index.shares[rows], cosines))
        return found

    def _collocations(self) -> list[tuple[Index, int]]:
        return list(zip(self._indices[1:], SIZES[1:], strict=True))

    def _share(self, index: Index, codes: Codes) -> Values:
        starts, rows = index.find(codes)
        present = np.zeros(len(index.codes), np.bool_)
        present[_ranges(starts, rows)[1]] = True
        return self._sum(index.topics[present], index.shares[present])

    def _sum(self, topics: Places, values: Values) -> Values:
        return _sums(topics, values, self._count)

    def _passages(self, words: PlacedWords, inverse: Places, starts: Places, rows: Places) -> Values:
        """The largest cosine of any passage. `inverse` numbers the distinct terms of the page in reading order."""
        terms, kinds = self._indices[0], max(1, len(starts))
        passages = 1 + max(0, -((self._chars - words.chars) // self._step_chars))
        is_term = words.stems != 0
        first = np.maximum(0, -((self._chars - words.ends[is_term]) // self._step_chars))
        last = np.minimum(words.starts[is_term] // self._step_chars, passages - 1)
        owners, passage = _ranges(first, np.maximum(0, last - first + 1))
        keys = np.sort(passage * kinds + inverse[owners])
        runs = np.flatnonzero(np.diff(keys, prepend=-1))
        damped = 1.0 + np.log(np.diff(runs, append=len(keys)))
        passage, term = np.divmod(keys[runs], kinds)
        squares = _sums(passage, damped * damped, passages)
        owners, hits = _ranges(starts[term], rows[term])
        cells = passage[owners] * self._count + terms.topics[hits]
        dots = _sums(cells, terms.weights[hits] * damped[owners], passages * self._count)
        cosines = dots.reshape(passages, self._count) / np.sqrt(np.maximum(squares, 1.0))[:, None]
        largest: Values = np.minimum(cosines.max(axis=0), 1.0)
        return largest


def _weight(element: Element, damping: float) -> float:
    """The weight of an element in the cosine."""
    in_core, recent = (0, element.frequency) if element.variable else (max(1, element.frequency), element.recent)
    return _logarithmic(in_core) + damping * _logarithmic(recent)


def _logarithmic(frequency: int) -> float:
    return 1.0 + math.log(frequency) if frequency else 0.0


def _ranges(starts: Places, counts: Places) -> tuple[Places, Places]:
    """The i that each number comes from, and the numbers: counts[i] of them from starts[i] on, for all i in turn."""
    owners = np.repeat(np.arange(len(counts)), counts)
    offsets = starts - (np.cumsum(counts) - counts)
    return owners, np.arange(len(owners)) + offsets[owners]


def _sums(places: Places, values: Values, size: int) -> Values:
    """The sum of the values for each of `size` places."""
    sums: Values = np.bincount(places, values, size).astype(np.float64, copy=False)
    return sums
