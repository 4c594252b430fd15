"""Rankings and their weighted sums, and the term vectors behind one of them (BINGO 3.6).

Each ranking gives a page a value between 0 and 1:

- `bm25`: how well the words match, as a share of the best hit's score;
- `cosine`: of the term vectors of question and page, with tf*idf weights;
- `relevance`: as the model judged the page;
- `authority`: of the page in its topic by its in-links, as a share of the topic's best, the square root of it, because
  a few pages have most of all authority.

The vector of a page is stored with it as term numbers and counts. How many pages have a term is in the columns, so that
the weights are always those of the collection as it is now.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from opilio.errors import InputError
from opilio.features.classifier_input import stored_reader
from opilio.search.columns import Columns
from opilio.search.index import TermVector

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]
    Numbers = npt.NDArray[np.int32]

RANKINGS = ("bm25", "cosine", "relevance", "authority")
FORMER_NAMES = {"confidence": "relevance"}
"""Names of rankings that are still accepted."""
DEFAULT_WEIGHTS: Mapping[str, float] = {"bm25": 1.0, "cosine": 0.0, "relevance": 0.5, "authority": 0.0}
"""Relevance helps most (docs/results/search.md). It has half the weight of the words: a question is narrower than a
topic, and the model knows topics only."""
COSINE_PAGES = 500
"""The cosine is computed for this many hits: the best by the other rankings."""
ASKED_LANGUAGES = 3
"""A word is stemmed as in English and in this many of the collection's languages: a question does not say its own."""


def check_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    """Weights for all rankings: those not named are 0. None means the defaults."""
    if not weights:
        return dict(DEFAULT_WEIGHTS)
    weights = with_present_names(weights)
    for name, weight in weights.items():
        if name not in RANKINGS:
            raise InputError(f"no ranking {name!r}", f"There are {', '.join(RANKINGS)}.")
        if not math.isfinite(weight) or weight < 0:
            raise InputError(f"the weight of {name} is {weight:g}", "Weights are numbers from 0 on.")
    if not any(weights.values()):
        raise InputError("all weights are 0: that is no order", "Give one of them a weight, as in bm25=1.")
    return {name: float(weights.get(name, 0.0)) for name in RANKINGS}


def with_present_names(parts: Mapping[str, float]) -> dict[str, float]:
    """The values of rankings, which a peer of an earlier version may send under former names."""
    return {FORMER_NAMES.get(name, name): value for name, value in parts.items()}


def parse_weights(text: str) -> dict[str, float]:
    """Weights as they are written on a command line: bm25=1,authority=0.5; a name alone means 1."""
    weights = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        try:
            weights[name.strip()] = float(value) if value else 1.0
        except ValueError:
            raise InputError(f"{part!r} is no weight", "Write it as in bm25=1,authority=0.5") from None
    return check_weights(weights)


def combine(weights: Mapping[str, float], parts: Mapping[str, Values]) -> Values:
    """The weighted sum of rankings, over the sum of the weights: between 0 and 1."""
    total: Values = sum((weights[name] * parts[name] for name in parts), np.zeros(len(next(iter(parts.values())))))
    return total / sum(weights.values())


def as_share(scores: Values) -> Values:
    """Scores as shares of the best."""
    best = scores.max(initial=0.0)
    return scores / best if best > 0 else np.zeros(len(scores))


# -- term vectors


class Numbering:
    """Gives terms their numbers, and counts the pages that have them."""

    def __init__(self, columns: Columns) -> None:
        self._tids, self._numbers = columns.tids, columns.numbers
        self._pages_with = columns.pages_with.copy()
        self._new: dict[int, int] = {}
        self._reader = stored_reader()

    def vectors(self, texts: Iterable[tuple[str, str]]) -> list[tuple[Numbers, bytes]]:
        """The terms of texts, each with its language: by number, ascending, and their counts. All are counted."""
        terms = [self._terms(text, language) for text, language in texts]
        tids = np.concatenate([np.zeros(0, np.uint32), *(ids for ids, _ in terms)])
        unique, which = np.unique(tids, return_inverse=True)
        numbers = self._number(unique)[which]
        made, at = [], 0
        for ids, counts in terms:
            own = numbers[at : at + len(ids)]
            at += len(ids)
            order = np.argsort(own)
            made.append((own[order], counts[order].tobytes()))
        self._grow()
        self._pages_with += np.bincount(numbers, minlength=len(self._pages_with)).astype(np.int32)
        return made

    def _terms(self, text: str, language: str) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint16]]:
        terms = self._reader.counted_terms(text, language)
        return np.frombuffer(terms.ids, "<u4"), np.frombuffer(terms.counts, "<u2")

    def _number(self, tids: npt.NDArray[np.uint32]) -> Numbers:
        numbers = np.full(len(tids), -1, np.int32)
        if len(self._tids):
            at = np.minimum(np.searchsorted(self._tids, tids), len(self._tids) - 1)
            known = self._tids[at] == tids
            numbers[known] = self._numbers[at[known]]
        first = len(self._tids)
        for place in np.flatnonzero(numbers < 0).tolist():
            numbers[place] = self._new.setdefault(int(tids[place]), first + len(self._new))
        return numbers

    def _grow(self) -> None:
        more = len(self._tids) + len(self._new) - len(self._pages_with)
        self._pages_with = np.concatenate([self._pages_with, np.zeros(more, np.int32)])

    def forget(self, pages: Iterable[TermVector]) -> None:
        """Stop counting these pages."""
        for page in pages:
            numbers = np.frombuffer(page.numbers, "<i4")
            numbers = numbers[numbers < len(self._pages_with)]
            self._pages_with[numbers] = np.maximum(0, self._pages_with[numbers] - 1)

    def put_into(self, columns: Columns) -> None:
        """Write what is known into the columns."""
        new = np.fromiter(self._new.keys(), np.uint32, len(self._new))
        tids = np.concatenate([self._tids, new])
        numbers = np.concatenate([self._numbers, np.arange(len(self._tids), len(tids), dtype=np.int32)])
        order = np.argsort(tids)
        self._tids, self._numbers, self._new = tids[order], numbers[order], {}
        columns.tids, columns.numbers, columns.pages_with = self._tids, self._numbers, self._pages_with.copy()


def weigh(counts: Values, pages_with: npt.NDArray[np.int32], pages: int) -> Values:
    """tf*idf: (1 + ln count) * ln(1 + pages / pages with the term)."""
    weights: Values = (1 + np.log(counts)) * np.log1p(max(1, pages) / np.maximum(1, pages_with))
    return weights


def asked_numbers(words: Iterable[str], columns: Columns) -> list[list[int]]:
    """The term numbers of each word of a question; several where languages stem it differently."""
    reader = stored_reader()
    common = np.bincount(columns["language"], minlength=len(columns.languages)).argsort()[::-1][:ASKED_LANGUAGES]
    languages = dict.fromkeys(["", *(columns.languages[at] for at in common.tolist())])
    found = []
    for word in words:
        tids = [reader.stems(word, language).tolist() for language in languages]
        asked = sorted({tid for some in tids for tid in some if tid})
        at = np.searchsorted(columns.tids, np.array(asked, np.uint32))
        numbers = [
            int(columns.numbers[place])
            for place, tid in zip(at.tolist(), asked, strict=True)
            if place < len(columns.tids) and columns.tids[place] == tid
        ]
        found.append(numbers)
    return found


def cosines(asked: Sequence[Sequence[int]], pages: Sequence[TermVector], columns: Columns) -> Values:
    """The cosine of a question and each page. Of several forms of a word the one that the page has most counts.

    A word that no page has is part of no vector: it cannot distinguish pages.
    """
    asked = [forms for forms in asked if forms]
    cosine = np.zeros(len(pages))
    if not asked or not pages:
        return cosine
    numbers, weights, starts = _joined(pages, columns)
    lengths = np.sqrt(np.add.reduceat(np.append(weights**2, 0.0), starts[:-1])) * (np.diff(starts) > 0)
    row = np.repeat(np.arange(len(pages)), np.diff(starts))
    length = 0.0
    for forms in asked:
        idf = max(float(weigh(np.ones(1), columns.pages_with[[form]], len(columns))[0]) for form in forms)
        best = np.zeros(len(pages))
        for form in forms:
            at = np.flatnonzero(numbers == form)
            best[row[at]] = np.maximum(best[row[at]], weights[at])
        cosine += idf * best
        length += idf * idf
    found: Values = np.divide(cosine, lengths * np.sqrt(length), out=np.zeros(len(pages)), where=lengths > 0)
    return found


def similarity(page: TermVector, others: Sequence[TermVector], columns: Columns) -> Values:
    """The cosine of a page and each of others."""
    if not others:
        return np.zeros(0)
    numbers, weights, starts = _joined([page, *others], columns)
    own = np.zeros(int(numbers.max(initial=0)) + 1)
    own[numbers[: starts[1]]] = weights[: starts[1]]
    products = np.add.reduceat(np.append(own[numbers] * weights, 0.0), starts[:-1])
    lengths = np.sqrt(np.add.reduceat(np.append(weights**2, 0.0), starts[:-1]))
    sizes = np.diff(starts) > 0
    alike: Values = np.divide(
        products, lengths * lengths[0], out=np.zeros(len(lengths)), where=sizes & (lengths * lengths[0] > 0)
    )
    return alike[1:]


def _joined(pages: Sequence[TermVector], columns: Columns) -> tuple[Numbers, Values, npt.NDArray[np.int64]]:
    """The vectors of pages one after another: term numbers, weights, and where each begins and ends."""
    numbers = np.frombuffer(b"".join([page.numbers for page in pages]), "<i4")
    counts = np.frombuffer(b"".join([page.counts for page in pages]), "<u2").astype(np.float64)
    starts = np.cumsum([0, *(len(page.numbers) // 4 for page in pages)])
    known = np.append(columns.pages_with, 1)  # words may be a moment newer than columns: a new term is a rare one
    return numbers, weigh(counts, known[np.minimum(numbers, len(known) - 1)], len(columns)), starts
