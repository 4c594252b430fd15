"""What great hubs recommend and nobody has fetched (Focus 3.7), so that a crawl can turn to it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from opilio.distill.focus import ONE
from opilio.distill.merging import register
from opilio.distill.scores import Scores
from opilio.store import Store

_NEGLECTED = f"""
WITH citation AS (
    SELECT DISTINCT g.oid AS oid_src, g.score, coalesce(d.ends, l.oid_dst) AS oid_dst
    FROM links l
    LEFT JOIN merged s ON s.oid = l.oid_src
    LEFT JOIN merged d ON d.oid = l.oid_dst
    JOIN great_hubs g ON g.oid = coalesce(s.ends, l.oid_src)
)
SELECT c.oid, c.url, c.relevance, count(*), sum((score * {ONE})::BIGINT) / {ONE}::DOUBLE AS total, max(score)
FROM citation
JOIN crawl c ON c.oid = oid_dst
JOIN crawl h ON h.oid = oid_src
WHERE c.state = 'waiting' AND c.numtries = 0 AND c.sid <> h.sid
GROUP BY c.oid, c.url, c.relevance
ORDER BY total DESC, c.oid
LIMIT $limit
"""


class Neglected(NamedTuple):
    """A URL not yet tried to which great hubs of other hosts link."""

    oid: int
    url: str
    relevance: float
    """As estimated so far."""
    hubs: int
    """Great hubs that link to it."""
    hub_score: float
    """The sum of their scores."""
    best_hub_score: float


def neglected(store: Store, scores: Scores, percentile: float = 0.9, limit: int = 1000) -> list[Neglected]:
    """URLs not yet tried that are cited by hubs above a percentile, those of the most hub score first.

    The percentile is over pages with a hub score at all, as in the paper's table HUBS; when all of them score the same,
    none is above.
    """
    is_hub = scores.hub > 0
    if not is_hub.any():
        return []
    is_great = scores.hub > np.quantile(scores.hub[is_hub], percentile)
    great = pa.table({"oid": pa.array(scores.oids[is_great], pa.int64()), "score": pa.array(scores.hub[is_great])})
    with store.reading() as cursor:
        register(cursor)
        cursor.register("great_hubs", great)
        return [Neglected(*row) for row in cursor.execute(_NEGLECTED, {"limit": limit}).fetchall()]
