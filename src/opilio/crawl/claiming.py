"""URLs that belong to another part of a divided collection, and that the user names here all the same.

A part knows URLs of other parts, with the outcome `elsewhere`, and leaves them alone (`store.dividing`). When its user
adds one as a seed or an example, the user's word counts: it waits here from then on, like any seed.
"""

from __future__ import annotations

from collections.abc import Sequence

from opilio.model import Outcome
from opilio.store import Store

FIRST = 1e6
"""A priority that brings a URL into memory with the first; there the strategy gives it one by its own measure."""
_ELSEWHERE = f"""
    SELECT c.oid, coalesce(t.kcid, s.kcid, c.topic)
    FROM crawl c
    LEFT JOIN (SELECT name, arg_max(kcid, rowid) AS kcid FROM training WHERE kind = 'url' GROUP BY name) t
        ON t.name = c.url
    LEFT JOIN (SELECT url, arg_max(kcid, rowid) AS kcid FROM seeds GROUP BY url) s ON s.url = c.url
    WHERE c.outcome = '{Outcome.ELSEWHERE}' AND c.url IN (SELECT unnest(?::VARCHAR[]))
"""
_CLAIM = f"""
    UPDATE crawl SET state = 'waiting', outcome = NULL, topic = g.topic, depth = 0, relevance = 1.0, priority = {FIRST}
    FROM (SELECT unnest(?::BIGINT[]) AS oid, unnest(?::SMALLINT[]) AS topic) g WHERE g.oid = crawl.oid
"""


def elsewhere(store: Store, urls: Sequence[str]) -> list[tuple[int, int]]:
    """Those of some URLs that are left to another part: oid of each, and the topic for which the user named it."""
    return [(oid, topic) for oid, topic in store.query(_ELSEWHERE, [list(urls)], max_rows=len(urls) + 1).rows]


def claim(store: Store, urls: Sequence[str]) -> list[tuple[int, int]]:
    """Let those of some URLs wait here that were left to another part; oid and topic of each."""
    found = elsewhere(store, urls)
    if found:
        oids, topics = zip(*found, strict=True)
        store.query(_CLAIM, [list(oids), list(topics)], write=True)
    return found
