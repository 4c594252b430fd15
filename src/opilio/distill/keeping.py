"""Scores kept in the database, where orders in SQL, archetypes and portals find them.

The tables `hubs` and `auth` hold the scores over all topics that are wanted, `link_scores` those of each topic. Only
the best of each are kept: the scores of the others tell nothing, and would have to be written again each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import numpy as np
import pyarrow as pa

from opilio.distill.recommending import Recommended
from opilio.distill.scores import Scored, Scores
from opilio.store import Store

KEPT = 10_000
"""Hubs, and authorities, of a topic."""

_RAISE = """
UPDATE crawl SET relevance = incoming.relevance FROM incoming
WHERE crawl.oid = incoming.oid AND state = 'waiting' AND crawl.relevance < incoming.relevance
"""


def keep(
    store: Store,
    scores_by_topic: Mapping[int, Scores],
    overall: Scores,
    recommended: Recommended | None = None,
    limit: int = KEPT,
) -> None:
    """Put the best scores in the place of the old ones, and raise the estimates of what hubs recommend.

    All in one transaction: after a crash all of this is there, or none.
    """
    tables = {
        "hubs": _table(overall.top_hubs(limit)),
        "auth": _table(overall.top_authorities(limit)),
        "link_scores": pa.concat_tables([_EMPTY, *(_by_topic(*item, limit) for item in scores_by_topic.items())]),
    }
    with store.writing() as to:
        for name, table in tables.items():
            to.execute(f"DELETE FROM {name}")
            _with_incoming(to, table, f"INSERT INTO {name} BY NAME FROM incoming")
        if recommended is not None and len(recommended):
            rising = {"oid": pa.array(recommended.oids), "relevance": pa.array(recommended.relevance, pa.float32())}
            _with_incoming(to, pa.table(rising), _RAISE)


def _with_incoming(to: duckdb.DuckDBPyConnection, table: pa.Table, sql: str) -> None:
    to.register("incoming", table)
    to.execute(sql)
    to.unregister("incoming")


def _table(pages: Sequence[Scored]) -> pa.Table:
    oids, scores = [page.oid for page in pages], [page.score for page in pages]
    return pa.table({"oid": pa.array(oids, pa.int64()), "score": pa.array(scores, pa.float32())})


_EMPTY = pa.table(
    {
        "kcid": pa.array([], pa.int16()),
        "oid": pa.array([], pa.int64()),
        "hub": pa.array([], pa.float32()),
        "authority": pa.array([], pa.float32()),
    }
)


def _by_topic(kcid: int, scores: Scores, limit: int) -> pa.Table:
    best = [page.oid for page in (*scores.top_hubs(limit), *scores.top_authorities(limit))]
    places = np.searchsorted(scores.oids, np.unique(np.array(best, np.int64)))
    columns = [
        pa.array(np.full(len(places), kcid), pa.int16()),
        pa.array(scores.oids[places], pa.int64()),
        pa.array(scores.hub[places].astype(np.float32)),
        pa.array(scores.authority[places].astype(np.float32)),
    ]
    return pa.table(columns, schema=_EMPTY.schema)
