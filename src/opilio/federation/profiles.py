"""Topic profiles: by what a crawler elsewhere can tell that a page would suit a topic of another collection.

A profile is the mean of the topic's surest pages, each a vector of its terms: what most tells them from the other pages
of the collection has the greatest weights. How like it a page is, is the cosine; `typical` says how like it the
topic's own pages are, three quarters of them at least.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

import xxhash

from opilio.federation.peers import PeerSummary, TopicProfile
from opilio.model.visit import RELEVANT
from opilio.store import Store
from opilio.topics import hierarchy_of

PROFILE_PAGES = 300
"""Of a topic: the most relevant."""
PROFILE_TERMS = 100
MAX_TOPICS = 200
LEAST_PAGES = 3
"""A topic with fewer says nothing of what suits it."""
MAX_DESCRIPTION_CHARS = 1000

# Weights: (1 + ln count) in a page, made so that the squares add up to 1; in the profile, times ln(1 + pages / pages
# with the term). The page has no such factor: a crawler elsewhere does not know it.
_PROFILES = f"""
    WITH wanted AS (SELECT unnest($kcids::SMALLINT[]) AS kcid, unnest($goods::SMALLINT[]) AS good),
    chosen AS (
        SELECT good, oid FROM pages JOIN wanted USING (kcid) WHERE relevance >= {RELEVANT}
        QUALIFY row_number() OVER (PARTITION BY good ORDER BY relevance DESC, oid) <= {PROFILE_PAGES}
    ),
    common AS (
        SELECT tid, count(*) AS n FROM terms WHERE tid IN (SELECT tid FROM terms SEMI JOIN chosen USING (oid))
        GROUP BY tid
    ),
    weighed AS (
        SELECT good, oid, tid, (1 + ln(freq)) / sqrt(sum((1 + ln(freq)) ** 2) OVER (PARTITION BY good, oid)) AS w
        FROM terms JOIN chosen USING (oid)
    ),
    means AS (
        SELECT good, tid, sum(w) * ln(1 + (SELECT count(*) FROM pages) / any_value(n)) AS weight
        FROM weighed JOIN common USING (tid) GROUP BY good, tid
        QUALIFY row_number() OVER (PARTITION BY good ORDER BY weight DESC, tid) <= {PROFILE_TERMS}
    ),
    profiles AS (SELECT good, tid, weight / sqrt(sum(weight * weight) OVER (PARTITION BY good)) AS w FROM means),
    likenesses AS (
        SELECT c.good, c.oid, coalesce(sum(x.w * p.w), 0) AS likeness
        FROM chosen c LEFT JOIN weighed x USING (good, oid) LEFT JOIN profiles p USING (good, tid) GROUP BY ALL
    ),
    typical AS (SELECT good, count(*) AS pages, quantile_cont(likeness, 0.25) AS typical FROM likenesses GROUP BY good)
    SELECT good, pages, typical, list(term ORDER BY w DESC, term), list(w ORDER BY w DESC, term)
    FROM profiles JOIN (SELECT tid, min(term) AS term FROM lexicon GROUP BY tid) USING (tid) JOIN typical USING (good)
    WHERE pages >= {LEAST_PAGES} GROUP BY ALL ORDER BY good
"""


def topic_profiles(store: Store) -> list[dict[str, Any]]:
    """The profiles of the topics that are wanted, each with all below it. Plain values, for `profiles_from`."""
    records = {record.kcid: record for record in store.load_topics()}
    hierarchy = hierarchy_of(list(records.values()))
    wanted = sorted({kcid for good in hierarchy.good for kcid in hierarchy.below(good)})[:MAX_TOPICS]
    pairs = [(kcid, good) for good in wanted for kcid in sorted(hierarchy.below(good))]
    asked = {"kcids": [kcid for kcid, _ in pairs], "goods": [good for _, good in pairs]}
    with store.reading() as read:
        rows = read.execute(_PROFILES, asked).fetchall()
    return [
        {
            "path": records[kcid].path, "description": records[kcid].description[:MAX_DESCRIPTION_CHARS],
            "pages": pages, "terms": {term: round(w, 4) for term, w in zip(terms, weights, strict=True)},
            "typical": round(typical, 4),
        }
        for kcid, pages, typical, terms, weights in rows
    ]  # fmt: skip


def profiles_from(told: Iterable[Mapping[str, Any]]) -> list[TopicProfile]:
    """The same as records."""
    return [TopicProfile(**one) for one in told]


def suits(terms: Mapping[int, int], summary: PeerSummary) -> tuple[str, float]:
    """The topic of a collection that a page suits best, and how well: 0..1; ('', 0.0) when it suits none at all.

    `terms` are those of the page, by tid, with how often each stands there. A page that is as like the profile as the
    least like quarter of the topic's own pages gets 0.5; one that is twice as like it, or more, 1.
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
    """The number of a stem, as the analysis of pages gives it."""
    return xxhash.xxh32_intdigest(stem.encode())
