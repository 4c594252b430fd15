"""Which collections are asked: those that are likely to have some of the best pages.

The estimate is that of Aly, Hiemstra and Demeester ("Taily", SIGIR 2013). A summary says how many pages have each word
and what the word adds to their scores (mean, variance). With the weights that the words have in all collections
together this gives, for each collection, how many pages fit the question and how their scores are spread: as a Gamma
distribution. From these comes the score that the k-th best page of all has, and how many pages of each collection are
above it. Collections are taken, the fullest first, until the rest is expected to have almost none of the best k.

What cannot be estimated is asked: beginnings of words (owl*), likenesses (owl~), peers without a summary. A collection
is surely passed over only when no page of it can fit: a word that must be there stands in none of its pages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from opilio.errors import InputError
from opilio.federation.estimating import (
    CollectionEstimate,
    Guess,
    Impossible,
    ScoreDistribution,
    ScoreSpread,
    Weights,
    sure,
)
from opilio.federation.peers import PeerSummary
from opilio.search.query import Filter, Question
from opilio.topics import TopicRecord, find_topic

LEFT_OUT = 0.05
"""Share of the best pages that may be expected of those who are not asked (docs/results/search.md)."""


MOST_AUTHORITY = 0.5
"""Of all weights: summaries do not tell how authorities are spread; when these count for more, all are asked."""


@dataclass(frozen=True)
class Choice:
    """Whether a peer is asked, and why."""

    chosen: bool
    why: str
    expected: float | None = None
    """Pages among the best; None when it cannot be told."""
    matching: float | None = None
    """Pages that fit the question."""
    possible: bool = True
    """False when surely none does."""


def choose(
    asked: Question,
    summaries: Mapping[str, PeerSummary | None],
    weights: Mapping[str, float],
    best: int,
    left_out: float = LEFT_OUT,
) -> dict[str, Choice]:
    """Whom to ask for the best so many pages; `summaries` by name, None for a peer that has given none yet."""
    choices: dict[str, Choice] = {}
    guesses: dict[str, Guess] = {}
    known = {name: summary for name, summary in summaries.items() if summary is not None}
    weigh = Weights(known.values())
    for name, summary in summaries.items():
        if summary is None:
            choices[name] = Choice(True, "nothing is known of it yet")
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
            choices[name] = Choice(True, "its summary does not tell", None, None)
    expected = _expected(guesses, known, weights, best)
    choices |= _cut(expected, guesses, left_out, best)
    return {name: choices[name] for name in summaries}


def _cut(expected: Mapping[str, float], guesses: Mapping[str, Guess], left_out: float, best: int) -> dict[str, Choice]:
    """Take the fullest first, until the rest is expected to have almost nothing."""
    total, taken, choices = sum(expected.values()), 0.0, {}
    for name in sorted(expected, key=lambda name: (-expected[name], name)):
        chosen = total == 0 or taken < (1 - left_out) * total
        taken += expected[name]
        why = f"about {expected[name]:.1f} of the best {best} pages are expected of it"
        choices[name] = Choice(chosen, why, round(expected[name], 3), round(guesses[name].pages, 2))
    return choices


# -- filters


def _share(filters: Iterable[Filter], summary: PeerSummary) -> float:
    """The share of a collection's pages that filters leave, as far as its summary tells."""
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
        raise Impossible(f"none of its pages fits the filter {empty}:")
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


def _expected(
    guesses: Mapping[str, Guess], summaries: Mapping[str, PeerSummary], weights: Mapping[str, float], best: int
) -> dict[str, float]:
    """How many of the best so many pages each collection is expected to have."""
    words = weights["bm25"] + weights["cosine"]
    top = ScoreDistribution([one for guess in guesses.values() for one in guess.spreads]).at(1.0)
    factor = words / top if top > 0 else 0.0
    added = {}
    for name, guess in guesses.items():
        relevance, spread = (
            value * weights["confidence"] ** power for power, value in enumerate(summaries[name].relevance, 1)
        )
        added[name] = [
            ScoreSpread(one.pages, factor * one.mean + relevance, factor**2 * one.variance + spread)
            for one in guess.spreads
        ]
    least = ScoreDistribution([one for spreads in added.values() for one in spreads]).at(float(best))
    return {name: ScoreDistribution(spreads).above(least) for name, spreads in added.items()}
