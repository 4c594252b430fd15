"""Another judgement for pages that are stored."""

from __future__ import annotations

import duckdb
import pyarrow as pa

_STATEMENTS = (
    "INSERT INTO judgements BY NAME SELECT * FROM incoming",
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
    """Keep new judgements, give their pages what they say, and what waits because of those its new relevance.

    `judged` has the columns of the table `judgements`. In one transaction, all of this is there after a crash, or none.
    """
    connection.register("incoming", judged)
    for statement in _STATEMENTS:
        connection.execute(statement)
    connection.unregister("incoming")
