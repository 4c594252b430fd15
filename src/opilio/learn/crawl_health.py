"""How healthy a crawl is: whether topics starve, whether it drifts, and how much is left to find.

*Drift*: the pages that a crawl accepts come to have other words than the examples. A model that is too wide, or that
learned from its own mistakes, keeps accepting pages with high relevance. Their words give it away: how similar they are
to the examples (cosine of tf*idf with the examples' centroid), for the first pages that a topic accepted and for the
latest. docs/results/recall.md says what this can and cannot see.

*Recall*: how much of what is relevant and can be reached has been found, by the crawl's own figures. A crawl fetches
the best first, so its harvest falls as what is good is used up. How it falls shows how much is left: the requests are
cut into pieces, each as long as all before it; a straight line is fitted to the logarithms of their harvest rates over
the logarithms of their places, and extended over all that is queued, and what will be found behind it. Relevant pages
that nothing found so far leads to are not seen. docs/results/recall.md has what other estimates gave on recorded
webs, and how wrong this one is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from opilio.features.classifier_input import stored_reader
from opilio.features.spaces import Vector, counted
from opilio.features.weights import FeatureTable, repeated
from opilio.learn.census import RECOVERED_SHARE, TopicShare, name_of, shares, starving_topics
from opilio.store import Store, census
from opilio.store.terms import term_columns
from opilio.topics import hierarchy_of
from opilio.topics.hierarchy import Hierarchy

WINDOW_PAGES = 100
"""Accepted pages at each end that are compared."""
FALLEN = 0.8
"""A topic drifts when the similarity has fallen to this share of what it was, or less ..."""
MIN_ERRORS = 3.0
"""... by at least this many standard errors."""
RECOVERED = 0.9
MAX_EXAMPLES = 50
_IRRELEVANT_PAGES = 200  # of any kind: they show which words are common

MIN_FOUND = 30
"""Fewer relevant pages show nothing: no estimate."""
MIN_REQUESTS = 100
PIECES = 5
"""The latest half of all requests, the quarter before it, the eighth before that, ..."""
MAX_GROWTH = 0.5
"""New URLs for each request: more would promise that the web never ends."""
STEEPEST = 3.0
"""How steeply the harvest may be taken to fall: a few unlucky pages must not promise that nothing is left."""


class ExampleSimilarity(NamedTuple):
    """How similar the pages of a topic are to its examples: the first it accepted, and the latest."""

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
        """Whether the latest are about as similar as the first were."""
        return self.latest >= RECOVERED * self.first


def measure_drift(store: Store, hierarchy: Hierarchy) -> list[ExampleSimilarity]:
    """The similarity of each good topic, with all below it, that has examples and enough accepted pages."""
    examples, pages = _examples(store)
    common: list[Vector] | None = None  # read once there is a topic to compare: most short crawls have none
    found = []
    for kcid in sorted(hierarchy.good):
        below = hierarchy.below(kcid)
        own = [bag for of, bag in examples if of in below][:MAX_EXAMPLES]
        ends = census.first_and_latest_accepted(store, below, pages, WINDOW_PAGES) if own else None
        if ends is not None:
            if common is None:
                common = _bags(store, census.latest_irrelevant(store, _IRRELEVANT_PAGES))
            first, latest = (_bags(store, oids) for oids in ends)
            found.append(ExampleSimilarity(kcid, *similarity_to_examples(own, first, latest, common)))
    return found


def similarity_to_examples(
    examples: Sequence[Vector], first: Sequence[Vector], latest: Sequence[Vector], common: Sequence[Vector]
) -> tuple[float, float, float]:
    """The mean cosine of the first and of the latest pages with the examples, and the fall in standard errors.

    Documents are vectors of how often each stem stands in them. Stems that only one has share a row.
    """
    documents = [*examples, *first, *latest, *common]
    stems, frequencies = repeated(bag.ids for bag in documents)
    weights = np.log((1 + len(documents)) / (1 + np.append(frequencies, 1)))
    rows = FeatureTable(stems).find(np.concatenate([bag.ids for bag in documents]))
    values = (1.0 + np.log(np.concatenate([bag.values for bag in documents]))) * weights[rows]
    sizes = [len(bag.ids) for bag in documents]
    places = np.repeat(np.arange(len(documents)), sizes)
    lengths = np.sqrt(np.bincount(places, values * values, len(documents)))
    values /= np.where(lengths > 0.0, lengths, 1.0)[places]
    of_examples = sum(sizes[: len(examples)])
    centroid = np.bincount(rows[:of_examples], values[:of_examples], len(weights))
    centroid[-1] = 0.0  # no page has these
    alone = values[:of_examples][rows[:of_examples] == len(stems)]
    length = math.sqrt(float(centroid @ centroid) + float(alone @ alone)) or 1.0
    cosines = np.bincount(places, values * centroid[rows], len(documents)) / length
    before, now = np.split(cosines[len(examples) : len(documents) - len(common)], [len(first)])
    error = math.sqrt(float(before.var()) / len(before) + float(now.var()) / len(now))
    fall = float(before.mean() - now.mean())
    return float(before.mean()), float(now.mean()), fall / error if error else math.inf if fall > 0 else 0.0


def _bags(store: Store, oids: Sequence[int]) -> list[Vector]:
    """The terms of some pages."""
    of, stems, counts = term_columns(store, oids)
    starts = np.flatnonzero(np.diff(of, prepend=-1)).tolist()
    return [
        Vector(stems[start:end].astype(np.uint64), counts[start:end].astype(np.float64))
        for start, end in itertools.pairwise([*starts, len(of)])
    ]


def _examples(store: Store) -> tuple[list[tuple[int, Vector]], list[int]]:
    """The examples the user gave, each with its topic; and the pages that are some."""
    reader, oids = stored_reader(), []
    found: list[tuple[int, Vector]] = []
    for record in store.load_training():
        if record.oid is not None:
            oids.append(record.oid)
        if record.positive and record.text and record.source != "archetype":
            language = None if record.oid is None else record.language
            stems = reader.read(record.title, record.text, language).stems
            found.append((record.kcid, counted(stems[stems > 0])))
    return found, oids


def estimate_recall(store: Store) -> float | None:
    """The share of what is relevant and can be reached that has been found; None while too little is known."""
    rows = census.request_pieces(store, PIECES)
    requests, found = sum(row.requests for row in rows), sum(row.relevant for row in rows)
    if requests < MIN_REQUESTS or found < MIN_FOUND:
        return None
    since = next(row.late for row in rows if row.piece == 0)
    waiting, fresh = census.urls_ahead(store, since)
    counts = {row.piece: (row.relevant, row.requests) for row in rows if row.piece < PIECES}
    pieces = [counts.get(piece, (0, 0)) for piece in range(PIECES)]
    return recall_of(found, requests, pieces, to_come(waiting, fresh / (requests - math.floor(0.75 * requests))))


def to_come(waiting: float, growth: float) -> float:
    """How many more URLs will be fetched, when each request brings `growth` new ones."""
    return waiting / (1.0 - min(growth, MAX_GROWTH))


def recall_of(found: int, requests: int, pieces: Sequence[tuple[int, int]], ahead: float) -> float:
    """`found` against that and what the next `ahead` requests will find.

    `pieces` has (relevant pages, requests), the latest half first, then the quarter before it, and so on.
    """
    if not found:
        return 0.0
    level, slope = _line(requests, pieces)
    return found / (found + _area(level, slope, requests, requests + ahead))


def _line(requests: int, pieces: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """The harvest rate after x requests is exp(level) * x ** slope; the slope is 0 or less."""
    points = []
    for number, (relevant, asked) in enumerate(pieces):
        if asked:
            middle = 0.75 * requests / 2**number
            points.append((math.log(middle), math.log((relevant + 0.5) / asked), relevant + 0.5))
    weight = sum(w for _, _, w in points)
    x_mean = sum(w * x for x, _, w in points) / weight
    y_mean = sum(w * y for _, y, w in points) / weight
    spread = sum(w * (x - x_mean) ** 2 for x, _, w in points)
    slope = sum(w * (x - x_mean) * (y - y_mean) for x, y, w in points) / spread if spread else 0.0
    slope = min(0.0, max(-STEEPEST, slope))
    return y_mean - slope * x_mean, slope


def _area(level: float, slope: float, start: float, end: float) -> float:
    """The integral of exp(level) * x ** slope, never more than every request could find."""
    power = slope + 1.0
    if abs(power) < 1e-9:
        area = math.exp(level) * math.log(end / start)
    else:
        area = math.exp(level) * (end**power - start**power) / power
    return min(area, end - start)


@dataclass(frozen=True)
class CrawlHealth:
    """How a crawl stands."""

    names: dict[int, str]
    """Of topics, by number."""
    shares: list[TopicShare]
    starving: list[TopicShare]
    similarities: list[ExampleSimilarity]
    recall: float | None
    found: int
    """Relevant pages."""

    @property
    def fed(self) -> list[TopicShare]:
        """Topics that are far from starving."""
        hungry = starving_topics(self.shares, RECOVERED_SHARE)
        return [share for share in self.shares if share not in hungry]


def check_health(store: Store, waiting: Mapping[int, int], last_pages: int, has_terms: bool) -> CrawlHealth:
    """Look at the latest pages; `waiting` counts the queued URLs by topic. Without terms no drift can be seen."""
    hierarchy = hierarchy_of(store.load_topics())
    found = shares(store, hierarchy, waiting, last_pages)
    return CrawlHealth(
        names={kcid: name_of(hierarchy, kcid) for kcid in hierarchy.nodes},
        shares=found,
        starving=starving_topics(found),
        similarities=measure_drift(store, hierarchy) if has_terms else [],
        recall=estimate_recall(store),
        found=store.load_figures().relevant,
    )
