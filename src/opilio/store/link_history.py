"""What a batch changes in the history of pages and links: revisits are counted, and links that are gone are kept.

For the writer, inside the transaction of a batch. `opilio.store.revisits` says what the numbers mean.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa

from opilio.store import arrow
from opilio.store.batch import LinkRows, VisitRows

# Several visits of one page may come in one batch.
_REVISIT = """
    MERGE INTO revisits USING (
        SELECT i.oid, any_value(p.visited) AS first_visited, max(i.visited) AS lastvisited, count(*) AS n,
               count(*) FILTER (i.content_hash <> p.content_hash) AS changes
        FROM incoming i JOIN pages p USING (oid) GROUP BY i.oid
    ) came ON came.oid = revisits.oid
    WHEN MATCHED THEN UPDATE SET lastvisited = came.lastvisited, n = revisits.n + came.n,
        changes = revisits.changes + came.changes
    WHEN NOT MATCHED THEN INSERT VALUES (
        came.oid, came.first_visited, came.lastvisited, came.n, came.changes, NULL)
"""
_ESTIMATE = """
    UPDATE revisits SET change_interval_s =
        (epoch(lastvisited) - epoch(first_visited)) / n / -ln((n - changes + 0.5) / (n + 0.5))
    WHERE changes > 0 AND oid IN (SELECT oid FROM incoming)
"""
_LINKS_BEFORE = """
    SELECT l.oid_src, l.oid_dst, any_value(l.sid_src) AS sid_src, any_value(l.sid_dst) AS sid_dst,
           any_value(l.anchor) AS anchor, min(l.first_seen) AS first_seen,
           any_value(coalesce(r.lastvisited, p.visited)) AS last_seen
    FROM links l JOIN pages p ON p.oid = l.oid_src LEFT JOIN revisits r ON r.oid = l.oid_src
    WHERE l.oid_src IN (SELECT oid FROM incoming) GROUP BY l.oid_src, l.oid_dst
"""
_KEEP_FIRST_SEEN = """
    UPDATE links SET first_seen = incoming.first_seen FROM incoming
    WHERE links.oid_src = incoming.oid_src AND links.oid_dst = incoming.oid_dst
"""
_KEEP_GONE = """
    INSERT INTO past_links BY NAME
    FROM incoming ANTI JOIN links USING (oid_src, oid_dst) ORDER BY oid_src, oid_dst
"""


def with_first_seen(links: LinkRows, visits: VisitRows) -> pa.Table:
    """The links of a batch, first seen when the visit that found them began."""
    table = links.to_arrow()
    oids = np.array(visits.oid, np.int64)
    order = np.argsort(oids, kind="stable")
    times = np.array(visits.visited, np.float64)[order]
    sources = table["oid_src"].to_numpy()
    places = np.searchsorted(oids[order], sources, side="right") - 1
    found = (places >= 0) & (oids[order][places] == sources) if len(oids) else np.zeros(len(sources), bool)
    seen = np.where(found, times[places] if len(oids) else 0.0, 0.0)
    return table.append_column("first_seen", arrow.times(seen))


def count_revisits(cursor: duckdb.DuckDBPyConnection, revisits: pa.Table) -> None:
    """Count visits to stored pages, and estimate how often the pages change."""
    with _incoming(cursor, revisits):
        cursor.execute(_REVISIT)
        cursor.execute(_ESTIMATE)


def links_before(cursor: duckdb.DuckDBPyConnection, oids: list[int]) -> pa.Table:
    """The links of pages that are about to be replaced, each with the times at which it was seen."""
    with _incoming(cursor, pa.table({"oid": pa.array(oids, pa.int64())})):
        return cursor.sql(_LINKS_BEFORE).to_arrow_table()


def compare_links(cursor: duckdb.DuckDBPyConnection, before: pa.Table) -> None:
    """Links of replaced pages that are still there keep the time they were first seen; those that are gone are kept."""
    with _incoming(cursor, before):
        cursor.execute(_KEEP_FIRST_SEEN)
        cursor.execute(_KEEP_GONE)


@contextlib.contextmanager
def _incoming(cursor: duckdb.DuckDBPyConnection, table: pa.Table) -> Iterator[None]:
    cursor.register("incoming", table)
    try:
        yield
    finally:
        with contextlib.suppress(duckdb.Error):  # in a transaction that failed, this fails too and would hide why
            cursor.unregister("incoming")
