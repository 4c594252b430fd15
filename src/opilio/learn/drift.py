"""Whether a crawl drifts: the pages it accepts come to have other words than the examples.

A model that is too wide, or that was taught by its own mistakes, keeps accepting pages with good marks. Their words
give it away: how alike they are to the examples (cosine of tf*idf with the examples' centroid), for the first pages
that a topic accepted and for the latest. docs/results/recall.md says what this can and cannot see.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from opilio.features.evidence import TextReader
from opilio.store import Store
from opilio.topics.hierarchy import Hierarchy

WINDOW_PAGES = 100
"""Accepted pages at each end that are compared."""
FALLEN = 0.8
"""A topic drifts when the likeness has fallen to this share of what it was, or less ..."""
MIN_ERRORS = 3.0
"""... by at least so many standard errors."""
RECOVERED = 0.9
MAX_EXAMPLES = 50
_UNWANTED_PAGES = 200  # of any kind: by them it is known which words are common

Bag = Mapping[int, float]
"""Stems with how often they stand in a document."""

_ACCEPTED = f"""
    WITH accepted AS (
        SELECT oid, visited FROM pages WHERE kcid IN (SELECT unnest($1::SMALLINT[])) AND relevance >= 0.5
        AND oid NOT IN (SELECT unnest($2::BIGINT[]))
    )
    (SELECT 0, oid FROM accepted ORDER BY visited, oid LIMIT {WINDOW_PAGES})
    UNION ALL
    (SELECT 1, oid FROM accepted ORDER BY visited DESC, oid DESC LIMIT {WINDOW_PAGES})
"""
_UNWANTED = f"SELECT oid FROM pages WHERE relevance < 0.5 ORDER BY visited DESC, oid DESC LIMIT {_UNWANTED_PAGES}"
_BAGS = """
    SELECT oid, list(tid ORDER BY tid), list(freq ORDER BY tid) FROM terms
    WHERE oid IN (SELECT unnest($1::BIGINT[])) GROUP BY oid ORDER BY oid
"""


class Likeness(NamedTuple):
    """How alike pages of a topic are to its examples: the first it accepted, and the latest."""

    kcid: int
    first: float
    latest: float
    errors: float
    """The difference in standard errors; positive: it has fallen."""

    @property
    def drifts(self) -> bool:
        """Whether it has fallen too much."""
        return self.latest <= FALLEN * self.first and self.errors >= MIN_ERRORS

    @property
    def has_recovered(self) -> bool:
        """Whether the latest are about as alike as the first were."""
        return self.latest >= RECOVERED * self.first


def measure_drift(store: Store, hierarchy: Hierarchy) -> list[Likeness]:
    """The likeness of each good topic, with all below it, that has examples and enough accepted pages."""
    examples, pages = _examples(store)
    unwanted = [oid for (oid,) in store.query(_UNWANTED).rows]
    common = list(_bags(store, unwanted).values())
    found = []
    for kcid in sorted(hierarchy.good):
        below = hierarchy.below(kcid)
        taught = [bag for of, bag in examples if of in below][:MAX_EXAMPLES]
        ends = store.query(_ACCEPTED, [sorted(below), pages]).rows if taught else []
        if len({oid for _, oid in ends}) == 2 * WINDOW_PAGES:  # none is both among the first and the latest
            first, latest = (_bags(store, [oid for end, oid in ends if end == which]) for which in (0, 1))
            found.append(Likeness(kcid, *likeness(taught, [*first.values()], [*latest.values()], common)))
    return found


def likeness(
    examples: Sequence[Bag], first: Sequence[Bag], latest: Sequence[Bag], common: Sequence[Bag]
) -> tuple[float, float, float]:
    """The mean cosine of the first and of the latest pages with the examples, and the fall in standard errors."""
    documents = [*examples, *first, *latest, *common]
    frequencies = Counter(stem for bag in documents for stem in bag)
    weights = {stem: math.log((1 + len(documents)) / (1 + n)) for stem, n in frequencies.items()}
    centroid: Counter[int] = Counter()
    for bag in examples:
        centroid.update(_unit(bag, weights))
    length = math.sqrt(sum(value * value for value in centroid.values())) or 1.0

    def cosines(bags: Iterable[Bag]) -> list[float]:
        return [sum(v * centroid[stem] for stem, v in _unit(bag, weights).items()) / length for bag in bags]

    before, now = np.array(cosines(first)), np.array(cosines(latest))
    error = math.sqrt(float(before.var()) / len(before) + float(now.var()) / len(now))
    fall = float(before.mean() - now.mean())
    return float(before.mean()), float(now.mean()), fall / error if error else math.inf if fall > 0 else 0.0


def _unit(bag: Bag, weights: Mapping[int, float]) -> dict[int, float]:
    vector = {stem: (1.0 + math.log(freq)) * weights[stem] for stem, freq in bag.items()}
    length = math.sqrt(sum(value * value for value in vector.values())) or 1.0
    return {stem: value / length for stem, value in vector.items()}


def _examples(store: Store) -> tuple[list[tuple[int, Bag]], list[int]]:
    """The examples the user gave, each with its topic; and the pages that are some."""
    reader, oids = TextReader(), []
    found: list[tuple[int, Bag]] = []
    for record in store.load_training():
        if record.oid is not None:
            oids.append(record.oid)
        if record.positive and record.text and record.source != "archetype":
            stems = reader.read(record.title, record.text, record.language).stems
            found.append((record.kcid, dict(Counter(stems[stems > 0].tolist()))))
    return found, oids


def _bags(store: Store, oids: Sequence[int]) -> dict[int, Bag]:
    if not oids:
        return {}
    rows = store.query(_BAGS, [list(oids)]).rows
    return {oid: dict(zip(tids, freqs, strict=True)) for oid, tids, freqs in rows}
