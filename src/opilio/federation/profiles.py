"""Topic profiles: how a crawler can tell that a page suits a topic of another collection.

A profile is the mean of the surest pages of a topic, each a vector of its terms: terms that set these pages apart from
the rest of the collection have the greatest weights. The likeness of a page is the cosine; `typical` says how like the
profile the topic's own pages are, three quarters of them at least (`suitability`).

That alone is not enough. A profile says what is frequent in a topic; it cannot say what is frequent everywhere, because
the collection that made it has hardly any page about something else. The collection that forwards has such pages: terms
that most of its own pages have count little (`UsualTerms`), on the page and in the profile. A page is *distinctive* for
a topic (`PeerTopic`) when it is more like the profile than is usual here by several times the usual deviation. Both are
medians, so that the distinctive pages themselves do not hide what is usual.

Measured on a recorded encyclopaedia, with 900 pages at random and three peers of 120 pages each: of the pages that are
as like a profile as most of the topic's own, 2 to 16 of 100 were of the topic; of those that are distinctive as well,
20 to 23, with 60 to 92 of 100 of the topic's pages among them. (Of the peers' own relevant pages 27 to 40 were.)
"""

from __future__ import annotations

import functools
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import xxhash

from opilio.federation.peers import PeerSummary, TopicProfile
from opilio.store import Store
from opilio.store.terms import load_profiles
from opilio.topics import hierarchy_of

PROFILE_PAGES = 300
"""The most relevant pages of a topic, of which its profile is made."""
PROFILE_TERMS = 100
MAX_TOPICS = 200
MIN_TOPIC_PAGES = 3
"""A topic with fewer pages has no profile."""
MAX_DESCRIPTION_CHARS = 1000
MIN_DEVIATIONS = 4.0
"""A page is distinctive when its likeness is this many deviations above the median; with twice as many its relevance
is 1."""
MIN_DEVIATION = 0.01
MIN_SUITABILITY = 0.5
"""A distinctive page is at least as like the topic as three quarters of its own pages are."""
_NORMAL = 1.4826  # the standard deviation of a normal distribution, in median absolute deviations

Terms = Mapping[int, int]
"""How often each term occurs in a page, by tid."""


def topic_profiles(store: Store) -> list[dict[str, Any]]:
    """The profiles of the wanted topics, each with its subtopics. Plain values, for `profiles_from`."""
    records = {record.kcid: record for record in store.load_topics()}
    hierarchy = hierarchy_of(list(records.values()))
    wanted = sorted({kcid for good in hierarchy.good for kcid in hierarchy.below(good)})[:MAX_TOPICS]
    pairs = [(kcid, good) for good in wanted for kcid in sorted(hierarchy.below(good))]
    found = load_profiles(store, pairs, pages=PROFILE_PAGES, terms=PROFILE_TERMS, least_pages=MIN_TOPIC_PAGES)
    return [
        {
            "path": records[one.kcid].path, "description": records[one.kcid].description[:MAX_DESCRIPTION_CHARS],
            "pages": one.pages, "typical": round(one.typical, 4),
            "terms": {term: round(weight, 4) for term, weight in zip(one.terms, one.weights, strict=True)},
        }
        for one in found
    ]  # fmt: skip


def profiles_from(plain: Iterable[Mapping[str, Any]]) -> list[TopicProfile]:
    """Profiles as records, from the plain values of `topic_profiles`."""
    return [TopicProfile(**one) for one in plain]


def suitability(terms: Terms, summary: PeerSummary) -> tuple[str, float]:
    """The topic of a collection that a page suits best, and how well: 0..1; ('', 0.0) when it suits none at all.

    A page that is exactly as like the profile as `typical` gets 0.5; one that is twice as like it, or more, gets 1.
    """
    weights = {tid: 1 + math.log(count) for tid, count in terms.items() if count > 0}
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    best = ("", 0.0)
    for topic in summary.topics:
        if length == 0 or topic.typical <= 0:
            continue
        shared = sum(weight * weights.get(tid_of(stem), 0.0) for stem, weight in topic.terms.items())
        relevance = min(1.0, 0.5 * shared / length / topic.typical)
        if relevance > best[1]:
            best = (topic.path, relevance)
    return best


@functools.lru_cache(maxsize=2**17)
def tid_of(stem: str) -> int:
    """The tid of a stem, as the analysis of pages computes it."""
    return xxhash.xxh32_intdigest(stem.encode())


class UsualTerms:
    """Which terms are usual in a collection: how many of its pages have each."""

    def __init__(self, pages: Sequence[Terms]) -> None:
        counts = Counter(tid for terms in pages for tid in terms)
        self._weights = {tid: math.log(len(pages) / count) for tid, count in counts.items()}
        self._unknown = math.log(max(2, len(pages)))
        self.pages = len(pages)
        self.vectors = [self.vector(terms) for terms in pages]

    def weight(self, tid: int) -> float:
        """The weight of a term: 0 when all pages have it."""
        return self._weights.get(tid, self._unknown)

    def vector(self, terms: Terms) -> dict[int, float]:
        """The weights of a page's terms; their squares add up to 1."""
        weights = {tid: (1 + math.log(count)) * self.weight(tid) for tid, count in terms.items() if count > 0}
        return _of_length_one(weights)


class PeerTopic:
    """One topic of a peer, compared by which terms are usual here."""

    def __init__(self, topic: TopicProfile, usual: UsualTerms) -> None:
        self.path = topic.path
        self._alone = PeerSummary("", "", 0, 0.0, [topic], {})
        self._weights = _of_length_one(
            {tid_of(stem): weight * usual.weight(tid_of(stem)) for stem, weight in topic.terms.items()}
        )
        likenesses = [self._likeness(vector) for vector in usual.vectors]
        self._median = statistics.median(likenesses)
        spread = statistics.median(abs(likeness - self._median) for likeness in likenesses)
        self._deviation = max(MIN_DEVIATION, _NORMAL * spread)

    def relevance(self, terms: Terms, vector: Mapping[int, float]) -> float:
        """How relevant a page is to the topic, 0..1; 0.0 when it is not distinctive, or not like the topic at all."""
        deviations = (self._likeness(vector) - self._median) / self._deviation
        if deviations < MIN_DEVIATIONS or self.suitability(terms) < MIN_SUITABILITY:
            return 0.0
        return min(1.0, deviations / (2 * MIN_DEVIATIONS))

    def suitability(self, terms: Terms) -> float:
        """How well a page suits the topic by the peer's own measure, 0..1."""
        return suitability(terms, self._alone)[1]

    def _likeness(self, vector: Mapping[int, float]) -> float:
        return sum(weight * vector.get(tid, 0.0) for tid, weight in self._weights.items())


def _of_length_one(weights: Mapping[int, float]) -> dict[int, float]:
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    return {tid: weight / length for tid, weight in weights.items()} if length else {}
