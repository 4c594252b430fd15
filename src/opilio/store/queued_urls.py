"""Which URLs are queued, where the user decides: retries, recrawls, locked hosts, and URLs of another part.

A part of a divided collection knows URLs of other parts, with the outcome `elsewhere`, and leaves them alone. When its
user adds one as a seed or an example, it is claimed: it is queued here from then on, like any seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from opilio.model import Outcome
from opilio.store import states
from opilio.store.database import Store

_RETRY_HOSTS = "UPDATE hosts SET state = 'ok', failures = 0, met = NULL, robots_status = NULL WHERE state <> 'ok'"
_QUEUED = "SELECT oid, topic FROM crawl WHERE state = 'waiting' AND sid IN (SELECT unnest(?::INTEGER[]))"
_LOCKED = """
    SELECT oid, topic, oid IN (SELECT oid FROM pages)
    FROM crawl WHERE state = 'dropped' AND outcome = 'locked-domain' AND sid IN (SELECT unnest(?::INTEGER[]))
"""
_COUNT = "SELECT count(*) FROM crawl WHERE state = 'waiting' AND sid IN (SELECT unnest(?::INTEGER[]))"
_ELSEWHERE = f"""
    SELECT c.oid, coalesce(t.kcid, s.kcid, c.topic)
    FROM crawl c
    LEFT JOIN (SELECT name, arg_max(kcid, rowid) AS kcid FROM training WHERE kind = 'url' GROUP BY name) t
        ON t.name = c.url
    LEFT JOIN (SELECT url, arg_max(kcid, rowid) AS kcid FROM seeds GROUP BY url) s ON s.url = c.url
    WHERE c.outcome = '{Outcome.ELSEWHERE}' AND c.url IN (SELECT unnest(?::VARCHAR[]))
"""


def retry_failed(store: Store) -> None:
    """Queue the URLs that failed, and those of hosts that were given up."""
    store.query(states.RETRY_FAILED, write=True)
    store.query(_RETRY_HOSTS, write=True)


def recrawl(store: Store) -> None:
    """Queue the pages that are stored."""
    store.query(states.RECRAWL, write=True)


def drop_locked(store: Store, sids: Sequence[int], held: Iterable[int] = ()) -> list[tuple[int, int]]:
    """Drop the queued URLs of locked hosts, except URLs that are `held`: oid and topic of each."""
    kept = set(held)
    found = [(oid, topic) for oid, topic in _rows(store, _QUEUED, sids) if oid not in kept]
    if found:
        store.query(states.DROP_LOCKED, [[oid for oid, _ in found]], write=True)
    return found


def requeue_unlocked(store: Store, sids: Sequence[int]) -> list[tuple[int, int, bool]]:
    """Queue again what a lock dropped: oid, topic, and whether the page is stored and so is fetched once more."""
    found = [(oid, topic, stored) for oid, topic, stored in _rows(store, _LOCKED, sids)]
    if found:
        store.query(states.UNLOCK, [[oid for oid, _, _ in found]], write=True)
    return found


def count_queued(store: Store, sids: Sequence[int]) -> int:
    """How many URLs of some hosts are queued in the database."""
    return int(store.query(_COUNT, [list(sids)]).rows[0][0])


def elsewhere(store: Store, urls: Sequence[str]) -> list[tuple[int, int]]:
    """Those of some URLs that are left to another part: oid of each, and the topic for which the user named it."""
    return [(oid, topic) for oid, topic in store.query(_ELSEWHERE, [list(urls)], max_rows=len(urls) + 1).rows]


def claim(store: Store, urls: Sequence[str]) -> list[tuple[int, int]]:
    """Queue those of some URLs here that were left to another part; oid and topic of each."""
    found = elsewhere(store, urls)
    if found:
        oids, topics = zip(*found, strict=True)
        store.query(states.CLAIM, [list(oids), list(topics)], write=True)
    return found


def _rows(store: Store, sql: str, sids: Sequence[int]) -> list[tuple[Any, ...]]:
    return [
        row
        for piece in store.stream(sql, [list(sids)])
        for row in zip(*(column.to_pylist() for column in piece.columns), strict=True)
    ]
