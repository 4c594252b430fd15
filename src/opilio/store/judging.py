"""Another judgement for pages that are stored."""

from __future__ import annotations

import duckdb
import pyarrow as pa

_STATEMENTS = (
    """
    UPDATE pages SET relevance = i.relevance, kcid = i.kcid, model_version = i.model_version
    FROM incoming i WHERE pages.oid = i.oid
    """,
    """
    UPDATE crawl SET relevance = i.relevance, topic = CASE WHEN i.accepted THEN i.kcid ELSE topic END
    FROM incoming i WHERE crawl.oid = i.oid
    """,
    "UPDATE crawl SET relevance = i.relevance FROM incoming i WHERE crawl.parent = i.oid AND crawl.state = 'waiting'",
)


def apply_judgements(connection: duckdb.DuckDBPyConnection, judged: pa.Table) -> None:
    """Give pages their new judgement, and what waits because of them its new relevance.

    `judged` has the columns oid, relevance, kcid, accepted and model_version.
    """
    connection.register("incoming", judged)
    for statement in _STATEMENTS:
        connection.execute(statement)
    connection.unregister("incoming")
