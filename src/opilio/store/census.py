"""How a crawl stands: which topics its pages fell into (Focus 3.7), whether they change, how much is left to find."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from opilio.store.database import Store
from opilio.topics.hierarchy import ROOT

# What no topic took is below the root.
_CHOSEN = f"""
    WITH chosen AS (
        SELECT p.oid, p.kcid, p.relevant, p.visited
        FROM page_topics p
        WHERE $topics IS NULL OR coalesce(p.kcid, {ROOT}) IN (SELECT unnest($topics::SMALLINT[])) OR p.oid IN (
            SELECT c.oid FROM crawl c JOIN page_topics q ON q.oid = c.parent
            WHERE q.kcid IN (SELECT unnest($topics::SMALLINT[]))
        )
        ORDER BY p.visited DESC, p.oid DESC LIMIT $last
    )
"""
_BY_TOPIC = f"{_CHOSEN} SELECT kcid, count(*), count(*) FILTER (relevant) FROM chosen GROUP BY 1"
_BY_HOST = f"""
    {_CHOSEN} SELECT h.host, h.domain, count(*), count(*) FILTER (relevant)
    FROM chosen JOIN crawl c USING (oid) JOIN hosts h USING (sid) GROUP BY ALL ORDER BY 3 DESC, 1 LIMIT $limit
"""
_LATEST = f"{_CHOSEN} SELECT oid FROM chosen WHERE relevant = $relevant ORDER BY visited DESC, oid DESC LIMIT $sample"
_AROUND = f"""
    {_CHOSEN} SELECT q.kcid, p.kcid, count(*)
    FROM chosen p JOIN crawl c USING (oid) JOIN pages q ON q.oid = c.parent
    WHERE p.kcid IS NOT NULL AND NOT p.relevant AND q.relevance >= 0.5 GROUP BY ALL
"""
_QUEUED = "SELECT topic, count(*) FROM crawl WHERE state = 'waiting' GROUP BY topic"

_ACCEPTED = """
    WITH accepted AS (
        SELECT oid, visited FROM pages WHERE kcid IN (SELECT unnest($1::SMALLINT[])) AND relevance >= 0.5
        AND oid NOT IN (SELECT unnest($2::BIGINT[]))
    )
    (SELECT 0, oid FROM accepted ORDER BY visited, oid LIMIT $3)
    UNION ALL
    (SELECT 1, oid FROM accepted ORDER BY visited DESC, oid DESC LIMIT $3)
"""
_IRRELEVANT = "SELECT oid FROM pages WHERE relevance < 0.5 ORDER BY visited DESC, oid DESC LIMIT $1"

_PIECES = """
    WITH asked AS (
        SELECT row_number() OVER (ORDER BY c.lastvisited, c.oid) AS place, count(*) OVER () AS requests,
               coalesce(p.relevance >= 0.5, FALSE) AS relevant, c.lastvisited AS visited
        FROM crawl c LEFT JOIN pages p ON p.oid = c.oid
        WHERE c.lastvisited IS NOT NULL AND c.state <> 'waiting'
    )
    SELECT least(floor(log2(requests / place))::INTEGER, $1) AS piece, count(*) FILTER (relevant), count(*),
           min(visited) FILTER (place > 0.75 * requests)
    FROM asked GROUP BY piece ORDER BY piece
"""
_AHEAD = """
    SELECT count(*) FILTER (state = 'waiting'),
           count(*) FILTER (found >= $1 AND (state = 'waiting' OR lastvisited IS NOT NULL))
    FROM crawl
"""


class CensusScope(NamedTuple):
    """Which pages a census is about: the latest, of all topics or of some with the pages these led to."""

    topics: list[int] | None
    """None: all pages."""
    last_pages: int
    """0: all of them."""

    def values(self) -> dict[str, Any]:
        """For the names in the statements."""
        return {"topics": self.topics, "last": self.last_pages or 2**62}


class HostCount(NamedTuple):
    """Pages of a host."""

    host: str
    domain: str
    pages: int
    relevant: int


def count_by_topic(store: Store, chosen: CensusScope) -> dict[int | None, tuple[int, int]]:
    """By topic: pages, and relevant pages. None stands for pages that no topic took."""
    rows = store.select(_BY_TOPIC, chosen.values(), max_rows=2**16).rows
    return {kcid: (pages, relevant) for kcid, pages, relevant in rows}


def count_by_host(store: Store, chosen: CensusScope, limit: int) -> list[HostCount]:
    """The hosts with the most pages."""
    return [HostCount(*row) for row in store.select(_BY_HOST, {**chosen.values(), "limit": limit}).rows]


def count_around(store: Store, chosen: CensusScope) -> list[tuple[int, int, int]]:
    """How many irrelevant pages that a topic took were found on relevant pages of which topic: (that, this, pages)."""
    return store.select(_AROUND, chosen.values(), max_rows=2**20).rows


def latest_pages(store: Store, chosen: CensusScope, *, relevant: bool, limit: int) -> list[int]:
    """The latest pages that are relevant, or are not."""
    wanted = {**chosen.values(), "relevant": relevant, "sample": limit}
    return [oid for (oid,) in store.select(_LATEST, wanted).rows]


def count_queued(store: Store) -> dict[int, int]:
    """How many URLs are queued, by topic."""
    return dict(store.select(_QUEUED, max_rows=2**16).rows)


# -- drift


def first_and_latest_accepted(
    store: Store, kcids: Iterable[int], exclude: Sequence[int], window: int
) -> tuple[list[int], list[int]] | None:
    """The first and the latest `window` relevant pages of some topics; None while these are not all different ones."""
    rows = store.select(_ACCEPTED, [sorted(kcids), list(exclude), window]).rows
    if len({oid for _, oid in rows}) != 2 * window:
        return None
    return [oid for end, oid in rows if end == 0], [oid for end, oid in rows if end == 1]


def latest_irrelevant(store: Store, limit: int) -> list[int]:
    """The latest pages that are not relevant."""
    return [oid for (oid,) in store.select(_IRRELEVANT, [limit]).rows]


# -- recall


class RequestPiece(NamedTuple):
    """A piece of all requests, in order: piece 0 is the latest half, piece 1 the quarter before it, and so on."""

    piece: int
    relevant: int
    requests: int
    late: datetime.datetime | None
    """In piece 0: when the latest quarter of all requests began."""


def request_pieces(store: Store, pieces: int) -> list[RequestPiece]:
    """The requests in pieces, each as long as all before it; all that is before the first `pieces` is one more."""
    return [RequestPiece(*row) for row in store.select(_PIECES, [pieces]).rows]


def urls_ahead(store: Store, since: datetime.datetime | None) -> tuple[int, int]:
    """How many URLs are queued, and how many were found since a moment and are queued or were fetched."""
    [[queued, fresh]] = store.select(_AHEAD, [since]).rows
    return queued, fresh
