"""Selection: which peers are asked a question, namely those that are likely to have some of the best pages.

The estimate is that of Aly, Hiemstra and Demeester ("Taily", SIGIR 2013). A summary says how many pages have each word
and what the word adds to their scores (mean, variance). With the weights that the words have in all collections
together this gives, for each collection, how many pages match the question and how their scores are spread: as a Gamma
distribution (`CollectionEstimate`). From these follow the score of the k-th best page of all, and how many pages of
each collection are above it. Collections are taken, the fullest first, until the rest is expected to have almost none
of the best k (`choose`).

A `Guess` is a mixture: pages that have a word in their titles score very differently from others, and so do pages that
have one word of "owl OR nest" from those that have the other. One distribution for all of them would mislead.

A peer about which nothing can be estimated is asked: for prefixes (owl*), fuzzy words (owl~), and peers without a
summary. A collection is passed over without an estimate only when no page of it can match: a required word is in none
of its pages.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opilio.errors import InputError
from opilio.federation.peers import PeerSummary, WordStatistics
from opilio.federation.results import idf
from opilio.federation.summary import may_have
from opilio.search.matching import BOOSTS, words_of
from opilio.search.query import AllOf, Filter, Node, Question, Without, Word
from opilio.topics import TopicRecord, find_topic

LEFT_OUT = 0.05
"""Share of the best pages that may be lost with the peers that are not asked (docs/results/search.md)."""
MOST_AUTHORITY = 0.5
"""Share of all weights: summaries do not say how authorities are spread; when these weigh more, all peers are asked."""
_PHRASE = 0.3
"""Share of the pages with all words of a phrase that have them in this order: a guess; it matters little."""
MAX_MIXED, MAX_SPREADS = 4, 64
"""Words of an OR for which kinds of pages are distinguished, and kinds at most."""
_UNSEEN = WordStatistics(1, 1.2, 0.5)
"""A word for which a summary had no room."""


class ScoreSpread(NamedTuple):
    """A number of pages, and how their scores are spread."""

    pages: float
    mean: float = 0.0
    variance: float = 0.0


@dataclass(frozen=True)
class Guess:
    """What is expected of a collection for a part of a question: pages of several kinds."""

    spreads: tuple[ScoreSpread, ...]
    known: bool = True

    @property
    def pages(self) -> float:
        """All that match."""
        return sum(spread.pages for spread in self.spreads)

    def scaled(self, factor: float) -> Guess:
        """The same with more pages, or fewer."""
        spreads = tuple(ScoreSpread(one.pages * factor, one.mean, one.variance) for one in self.spreads)
        return Guess(spreads, self.known)

    def as_one(self) -> ScoreSpread:
        """All kinds as one."""
        pages = self.pages
        if len(self.spreads) == 1 or pages <= 0:
            return self.spreads[0]
        mean = sum(one.pages * one.mean for one in self.spreads) / pages
        squares = sum(one.pages * (one.variance + one.mean**2) for one in self.spreads) / pages
        return ScoreSpread(pages, mean, squares - mean**2)


class Impossible(Exception):
    """No page can match; the text says why."""


class Weights:
    """The weight of each word in all collections together."""

    def __init__(self, summaries: Iterable[PeerSummary]) -> None:
        self._summaries = list(summaries)
        self._pages = sum(summary.pages for summary in self._summaries)
        self._known: dict[str, float] = {}

    def __getitem__(self, stem: str) -> float:
        """Of a stem."""
        if stem not in self._known:
            found = [word for summary in self._summaries if (word := statistics_of(summary, stem)) is not None]
            self._known[stem] = idf(self._pages, sum(word.pages for word in found))
        return self._known[stem]


def statistics_of(summary: PeerSummary, stem: str) -> WordStatistics | None:
    """What a summary says of a word; None when no page has it."""
    found = summary.words.get(stem)
    return found or (_UNSEEN if may_have(summary.rare, stem) else None)


class CollectionEstimate:
    """What is expected of one collection."""

    def __init__(self, summary: PeerSummary, weights: Weights) -> None:
        self._summary, self._weights = summary, weights
        self._pages = max(1, summary.pages)

    def node(self, node: Node) -> Guess:
        """The guess for a part of the question; raises Impossible when no page can match."""
        if isinstance(node, Word):
            return self._word(node)
        if isinstance(node, Without):
            return sure(self._pages - self._excluded(node), 1.0)
        if isinstance(node, AllOf):
            return self._all(node)
        report, reasons = [], []
        for part in node.parts:
            try:
                report.append(self.node(part))
            except Impossible as reason:
                reasons.append(reason)
        if not report:
            raise reasons[0]
        return self._any(report)

    def _all(self, node: AllOf) -> Guess:
        parts = [self.node(part) for part in node.parts if not isinstance(part, Without)]
        guess = self._together(parts) if parts else sure(self._pages, 1.0)
        for part in node.parts:
            if isinstance(part, Without):
                guess = guess.scaled(1 - self._excluded(part) / self._pages)
        return guess

    def _excluded(self, node: Without) -> float:
        try:
            guess = self.node(node.part)
        except Impossible:
            return 0.0
        return min(self._pages, guess.pages) if guess.known else 0.0

    def _together(self, parts: Sequence[Guess]) -> Guess:
        """Pages that have all: words of one question occur together more often than by chance (Taily, 4.2)."""
        some = self._pages * (1 - math.prod(1 - min(1.0, part.pages / self._pages) for part in parts))
        pages = some * math.prod(min(1.0, part.pages / some) for part in parts) if some > 0 else 0.0
        pages = min([pages, *(part.pages for part in parts)])
        is_few = math.prod(len(part.spreads) for part in parts) <= MAX_SPREADS
        kinds = [part.spreads if is_few else (part.as_one(),) for part in parts]
        spreads = []
        for mixed in itertools.product(*kinds):
            share = math.prod(one.pages / max(part.pages, 1e-9) for one, part in zip(mixed, parts, strict=True))
            spreads.append(
                ScoreSpread(pages * share, sum(one.mean for one in mixed), sum(one.variance for one in mixed))
            )
        return Guess(tuple(spreads), all(part.known for part in parts))

    def _any(self, parts: Sequence[Guess]) -> Guess:
        """Pages that have one or more, by which words they have; of many words, by the few that count most."""
        ones = sorted((part.as_one() for part in parts), key=lambda one: -one.mean)
        spreads = [ScoreSpread(one.pages, one.mean, one.variance) for one in ones[MAX_MIXED:]]
        ones = ones[:MAX_MIXED]
        for has in itertools.product((True, False), repeat=len(ones)):
            if not any(has):
                continue
            shares = [min(1.0, one.pages / self._pages) for one in ones]
            pages = math.prod(share if one else 1 - share for share, one in zip(shares, has, strict=True))
            mixed = list(itertools.compress(ones, has))
            mean, variance = sum(one.mean for one in mixed), sum(one.variance for one in mixed)
            spreads.append(ScoreSpread(self._pages * pages, mean, variance))
        return Guess(tuple(spreads), all(part.known for part in parts))

    def _word(self, word: Word) -> Guess:
        if word.is_prefix or word.distance:
            return Guess((ScoreSpread(self._pages, 1.0, 1.0),), known=False)
        stems = words_of(word.text, stems=True)
        guess = self._together([self._stem(stem, word.field) for stem in stems])
        return guess.scaled(_PHRASE) if len(stems) > 1 else guess

    def _stem(self, stem: str, field: str) -> Guess:
        found = statistics_of(self._summary, stem)
        if found is None:
            raise Impossible(f"none of its pages has {stem!r}")
        weight = self._weights[stem]
        if stem in self._summary.words and field in ("title", "anchor"):
            pages = found.titles if field == "title" else found.anchors
            if not pages:
                where = "its title" if field == "title" else "a link to it"
                raise Impossible(f"none of its pages has {stem!r} in {where}")
            return Guess((ScoreSpread(pages, weight * found.mean, weight**2 * found.variance),))
        spreads = [ScoreSpread(one.pages, weight * one.mean, weight**2 * one.variance) for one in _by_title(found)]
        return Guess(tuple(spreads), known=field != "url")


def sure(pages: float, mean: float = 0.0) -> Guess:
    """A number of pages that all have the same score."""
    return Guess((ScoreSpread(pages, mean),))


def _by_title(word: WordStatistics) -> list[ScoreSpread]:
    """The pages that have a word in their titles, and the others: a title weighs so much that these are two kinds."""
    share = word.titles / max(1, word.pages)
    if not 0 < share < 1:
        return [ScoreSpread(word.pages, word.mean, word.variance)]
    more = min(BOOSTS["title_stems"], 0.8 * word.mean / share, math.sqrt(0.9 * word.variance / (share * (1 - share))))
    rest = word.variance - share * (1 - share) * more**2
    low = word.mean - share * more
    return [ScoreSpread(word.titles, low + more, rest), ScoreSpread(word.pages - word.titles, low, rest)]


class ScoreDistribution:
    """The scores of pages of several kinds, each kind spread as a Gamma distribution."""

    def __init__(self, spreads: Sequence[ScoreSpread]) -> None:
        self._pages, mean, variance = np.array(spreads, np.float64).reshape(-1, 3).T
        mean, variance = np.maximum(mean, 1e-9), np.maximum(variance, 1e-6)
        self._shape, self._scale = mean * mean / variance, variance / mean

    def above(self, least: float) -> float:
        """How many pages are above a score."""
        from scipy.special import gammaincc  # noqa: PLC0415 (it takes a while to import)

        return float((self._pages * gammaincc(self._shape, max(0.0, least) / self._scale)).sum())

    def at(self, rank: float) -> float:
        """The score above which `rank` pages are expected; 0 when there are fewer."""
        if self._pages.sum() <= rank:
            return 0.0
        low, high = 0.0, 1.0
        while self.above(high) > rank and high < 1e9:
            low, high = high, 2 * high
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (middle, high) if self.above(middle) > rank else (low, middle)
        return high


@dataclass(frozen=True)
class Choice:
    """Whether a peer is asked, and why."""

    chosen: bool
    why: str
    expected: float | None = None
    """Pages among the best; None when that cannot be estimated."""
    matching: float | None = None
    """Pages that match the question."""
    possible: bool = True
    """False when surely none matches."""


def choose(
    asked: Question,
    summaries: Mapping[str, PeerSummary | None],
    weights: Mapping[str, float],
    best: int,
    left_out: float = LEFT_OUT,
) -> dict[str, Choice]:
    """Which peers to ask for the best `best` pages; `summaries` by name, None for a peer that has given none yet."""
    choices: dict[str, Choice] = {}
    guesses: dict[str, Guess] = {}
    known = {name: summary for name, summary in summaries.items() if summary is not None}
    weigh = Weights(known.values())
    for name, summary in summaries.items():
        if summary is None:
            choices[name] = Choice(True, "nothing is known about it yet")
            continue
        try:
            share = _share(asked.filters, summary)
            guess = (
                CollectionEstimate(summary, weigh).node(asked.tree) if asked.tree is not None else sure(summary.pages)
            )
        except Impossible as reason:
            choices[name] = Choice(False, str(reason), 0.0, 0.0, possible=False)
            continue
        guess = guess.scaled(share)
        if guess.known and asked.tree is not None and weights["authority"] <= MOST_AUTHORITY * sum(weights.values()):
            guesses[name] = guess
        else:
            choices[name] = Choice(True, "its summary does not say", None, None)
    expected = _expected_best(guesses, known, weights, best)
    choices |= _cut(expected, guesses, left_out, best)
    return {name: choices[name] for name in summaries}


def _cut(expected: Mapping[str, float], guesses: Mapping[str, Guess], left_out: float, best: int) -> dict[str, Choice]:
    """Choose the fullest first, until the rest is expected to have almost nothing."""
    total, taken, choices = sum(expected.values()), 0.0, {}
    for name in sorted(expected, key=lambda name: (-expected[name], name)):
        chosen = total == 0 or taken < (1 - left_out) * total
        taken += expected[name]
        why = f"about {expected[name]:.1f} of the best {best} pages are expected of it"
        choices[name] = Choice(chosen, why, round(expected[name], 3), round(guesses[name].pages, 2))
    return choices


# -- filters


def _share(filters: Iterable[Filter], summary: PeerSummary) -> float:
    """The share of a collection's pages that pass the filters, as far as its summary says."""
    kinds: dict[str, float] = {}
    for one in filters:
        counts = summary.facets.get(one.name)
        if counts is None or one.is_not:
            continue
        pages = _topic_pages(one.value, counts) if one.name == "topic" else _named_pages(one, counts)
        if one.name in summary.cut:
            pages = max(pages, 1)
        kinds[one.name] = kinds.get(one.name, 0.0) + pages
    empty = next((name for name, pages in kinds.items() if not pages), "")
    if empty:
        raise Impossible(f"none of its pages passes the filter {empty}:")
    return math.prod(min(1.0, pages / max(1, summary.pages)) for pages in kinds.values())


def _topic_pages(value: str, counts: Mapping[str, int]) -> int:
    if value in counts:
        return counts[value]
    records = [TopicRecord(number, None, path, path, "", []) for number, path in enumerate(counts, 1)]
    try:
        return counts[find_topic(records, value).path]
    except InputError:
        return 0


def _named_pages(one: Filter, counts: Mapping[str, int]) -> int:
    wanted = one.value.lower()
    if one.name != "host":
        return counts.get(wanted, 0)
    wanted = wanted.strip(".")
    return sum(count for host, count in counts.items() if host == wanted or host.endswith(f".{wanted}"))


# -- the best


def _expected_best(
    guesses: Mapping[str, Guess], summaries: Mapping[str, PeerSummary], weights: Mapping[str, float], best: int
) -> dict[str, float]:
    """How many of the best `best` pages each collection is expected to have."""
    words = weights["bm25"] + weights["cosine"]
    top = ScoreDistribution([one for guess in guesses.values() for one in guess.spreads]).at(1.0)
    factor = words / top if top > 0 else 0.0
    added = {}
    for name, guess in guesses.items():
        relevance, spread = (
            value * weights["relevance"] ** power for power, value in enumerate(summaries[name].relevance, 1)
        )
        added[name] = [
            ScoreSpread(one.pages, factor * one.mean + relevance, factor**2 * one.variance + spread)
            for one in guess.spreads
        ]
    least = ScoreDistribution([one for spreads in added.values() for one in spreads]).at(float(best))
    return {name: ScoreDistribution(spreads).above(least) for name, spreads in added.items()}
