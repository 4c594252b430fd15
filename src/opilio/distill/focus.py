"""The distiller of Focus as SQL (Focus 2.2, figure 4): links weigh as much as their ends are relevant.

Forward, from hub to authority, a link weighs relevance(v), so that no prestige leaks to pages off the topic; backward
it weighs relevance(u), so that no hub off the topic profits. Links inside one server are left out, only pages with a
relevance above rho are authorities, and endorsement is not inflated: as in `hits`, a server has one voice about a page.
A server is an address, as in the paper, and a host where the address is not known (`store.links.SERVERS`).

The paper keeps weights in the table LINK. Here `distill_edge` is made of `links` at the start, for relevance changes
with each model, and has only links that can count: in the end a hub of relevance 0 has the score 0, and a page below
rho is no authority. All tables are temporary, on a cursor that can change nothing else; DuckDB moves them to disk when
its share of memory is used up.

Scores are added up as whole numbers (`ONE` stands for 1): a sum of those is the same in any order, a sum of floating
point numbers differs with how the threads happened to run. It costs nothing that can be measured.

What great hubs recommend and nobody has fetched (Focus 3.7), so that a crawl can turn to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import duckdb
import numpy as np

from opilio.distill.graph import register
from opilio.distill.scores import DistillOptions, Scores, great_hubs
from opilio.store import Store, arrow
from opilio.store.links import SERVERS

ONE = 2**60

_EDGES = """
CREATE OR REPLACE TEMP TABLE distill_edge AS
WITH server AS ({servers}),
node AS (
    SELECT oid, coalesce(server.server, crawl.sid) AS sid, relevance
    FROM crawl LEFT JOIN server USING (sid) WHERE relevance > 0 AND {only}
),
pair AS (
    SELECT DISTINCT u.oid AS oid_src, u.sid AS sid_src, u.relevance AS relevance_src,
                    v.oid AS oid_dst, v.sid AS sid_dst, v.relevance AS relevance_dst
    FROM links
    LEFT JOIN merged s ON s.oid = links.oid_src
    LEFT JOIN merged d ON d.oid = links.oid_dst
    JOIN node u ON u.oid = coalesce(s.ends, links.oid_src)
    JOIN node v ON v.oid = coalesce(d.ends, links.oid_dst)
    WHERE u.sid <> v.sid       -- avoid nepotism
      AND v.relevance > $rho   -- filter
)
SELECT oid_src,
       oid_dst,
       (relevance_dst / count(*) OVER (PARTITION BY sid_src, oid_dst))::FLOAT AS wgt_fwd,
       (relevance_src / count(*) OVER (PARTITION BY oid_src, sid_dst))::FLOAT AS wgt_rev
FROM pair
"""
_OF_TOPICS = "topic IN (SELECT unnest($topics::SMALLINT[]))"

# Before the first round all hubs are alike.
_START = """
CREATE OR REPLACE TEMP TABLE distill_hubs_0 AS
SELECT oid_src AS oid, 1.0 / count(*) OVER () AS score FROM distill_edge GROUP BY oid_src
"""
_NOTHING = "CREATE OR REPLACE TEMP TABLE distill_auth_0 AS SELECT oid, score FROM distill_hubs_0 LIMIT 0"
_UPDATE = f"""
CREATE OR REPLACE TEMP TABLE {{new}} AS
WITH raw AS MATERIALIZED (
    SELECT {{to}} AS oid, sum((score * {{weight}} * {ONE})::BIGINT) AS score
    FROM {{old}} JOIN distill_edge ON oid = {{from_}}
    GROUP BY {{to}}
)
SELECT oid, score / (SELECT sum(score) FROM raw)::DOUBLE AS score FROM raw WHERE score > 0
"""
_CHANGE = f"""
SELECT coalesce(sum((abs(coalesce(new.score, 0) - coalesce(old.score, 0)) * {ONE})::BIGINT), 0) / {ONE}::DOUBLE
FROM {{new}} new FULL JOIN {{old}} old USING (oid)
"""
_RESULT = """
SELECT oid, coalesce(h.score, 0) AS hub, coalesce(a.score, 0) AS authority
FROM {hubs} h FULL JOIN {auth} a USING (oid)
ORDER BY oid
"""


def focus(
    cursor: duckdb.DuckDBPyConnection, topics: Iterable[int] | None = None, options: DistillOptions | None = None
) -> Scores:
    """Hub and authority scores by the relevance of pages; with `topics`, pages of others count as irrelevant."""
    options = options or DistillOptions()
    weigh_links(cursor, topics, options.rho)
    cursor.execute(_START)
    cursor.execute(_NOTHING)
    rounds, change = 0, math.inf
    while change > options.tolerance and rounds < options.max_sql_rounds:
        change = update(cursor, rounds)
        rounds += 1
    last = rounds % 2
    found = cursor.execute(_RESULT.format(hubs=f"distill_hubs_{last}", auth=f"distill_auth_{last}")).fetchnumpy()
    hub, authority = np.asarray(found["hub"], np.float64), np.asarray(found["authority"], np.float64)
    return Scores(np.asarray(found["oid"], np.int64), hub, authority, "focus", rounds, change <= options.tolerance)


def weigh_links(cursor: duckdb.DuckDBPyConnection, topics: Iterable[int] | None, rho: float) -> None:
    """Make the table of links that count, with their weights."""
    register(cursor)
    if topics is None:
        cursor.execute(_EDGES.format(servers=SERVERS, only="true"), {"rho": rho})
    else:
        only = {"rho": rho, "topics": sorted(topics)}
        cursor.execute(_EDGES.format(servers=SERVERS, only=_OF_TOPICS), only)


def update(cursor: duckdb.DuckDBPyConnection, finished_rounds: int) -> float:
    """One round, authorities then hubs; how much it changed. Two pairs of tables take turns."""
    old, new = finished_rounds % 2, (finished_rounds + 1) % 2
    auth, hubs = f"distill_auth_{new}", f"distill_hubs_{new}"
    cursor.execute(_UPDATE.format(new=auth, old=f"distill_hubs_{old}", from_="oid_src", to="oid_dst", weight="wgt_fwd"))
    cursor.execute(_UPDATE.format(new=hubs, old=auth, from_="oid_dst", to="oid_src", weight="wgt_rev"))
    pairs = ((auth, f"distill_auth_{old}"), (hubs, f"distill_hubs_{old}"))
    return math.fsum(cursor.execute(_CHANGE.format(new=a, old=b)).fetchall()[0][0] for a, b in pairs)


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
    is_great = great_hubs(scores.hub, percentile)
    if not is_great.any():
        return []
    great = arrow.table({"oid": scores.oids[is_great], "score": scores.hub[is_great]})
    with store.reading() as cursor:
        register(cursor)
        cursor.register("great_hubs", great)
        return [Neglected(*row) for row in cursor.execute(_NEGLECTED, {"limit": limit}).fetchall()]
