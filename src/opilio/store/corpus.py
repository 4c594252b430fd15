"""Rows of pages for exports that a plain query does not give: with their links counted, by topic, as a graph.

Conditions are those of the user, about the view `collection`. They stand on lines of their own between brackets, and
the whole statement is checked like any other statement of a user.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from opilio.errors import QueryError
from opilio.store import guard
from opilio.store.database import Store

if TYPE_CHECKING:
    from opilio.store.guard import Result

RELEVANT_PAGES = "relevant"
"""The condition of a page that the collection is about."""
GRAPH_ROWS = 50_000
TEXT_ROWS = 2_048
"""Rows with texts in one piece: as few as DuckDB gives."""

_LINKED = """
    SELECT oid_src, sum(length(coalesce(anchor, '')))::BIGINT AS linked_chars FROM links
    WHERE region IS DISTINCT FROM 'head' GROUP BY oid_src ORDER BY oid_src
"""
_SKETCHES = "SELECT oid, url, shingles, content_hash FROM collection {where} ORDER BY oid"
_NODES = """
    SELECT c.oid, c.url, coalesce(c.title, '') AS title, c.host, c.domain, coalesce(c.language, '') AS language,
           c.topic, coalesce(c.relevant, false) AS relevant, c.relevance, c.depth, c.visited,
           coalesce(h.score, 0)::FLOAT AS hub, coalesce(a.score, 0)::FLOAT AS authority
    FROM collection c
    LEFT JOIN (SELECT oid, max(score) AS score FROM hubs GROUP BY oid) h ON h.oid = c.oid
    LEFT JOIN (SELECT oid, max(score) AS score FROM auth GROUP BY oid) a ON a.oid = c.oid
    {where} ORDER BY c.oid
"""
# One edge for all links from one page to another: the words of the first link that has any.
_EDGES = """
    WITH chosen AS (SELECT c.oid FROM collection c {where}),
    ended AS (
        SELECT l.oid_src AS source, coalesce(m.ends, l.oid_dst) AS target, l.anchor, l.position, l.region, l.nofollow
        FROM links l LEFT JOIN merged m ON m.oid = l.oid_dst
    )
    SELECT source, target, coalesce(arg_min(anchor, position) FILTER (anchor <> ''), '') AS anchor,
           count(*)::INTEGER AS links, coalesce(arg_min(region, position), '') AS region,
           coalesce(bool_and(nofollow), false) AS nofollow
    FROM ended WHERE source <> target AND source IN (SELECT oid FROM chosen) AND target IN (SELECT oid FROM chosen)
    GROUP BY source, target ORDER BY source, target
"""
_BY_TOPIC = """
    SELECT topic, url, coalesce(title, '') AS title, coalesce(description, '') AS description, host, visited, relevance,
           rights, content_type, charset, warc_file, warc_offset, warc_bytes
    FROM collection {where} ORDER BY topic, relevance DESC NULLS LAST, oid
"""
_LATEST = """
    SELECT url, coalesce(title, '') AS title, coalesce(description, '') AS description,
           coalesce(nullif(main_text, ''), text, '')[:20000] AS text, topic, visited, rights
    FROM collection {where} ORDER BY visited DESC, url LIMIT {limit}
"""


def condition(where: str) -> str:
    """The clause of a user's condition."""
    return f"WHERE (\n{where}\n)" if where.strip() else ""


def columns_of(store: Store) -> list[str]:
    """The columns of the view `collection`."""
    return [row[0] for row in store.query("DESCRIBE collection").rows]


def count_pages(store: Store, where: str) -> int:
    """How many pages there are."""
    found: Result = store.query(f"SELECT count(*) FROM collection {condition(where)}")
    return int(found.rows[0][0])


def stream_rows(store: Store, columns: Sequence[str], where: str) -> Iterator[pa.RecordBatch]:
    """Some columns of the chosen pages, in the order of storing."""
    return store.stream(f"SELECT {', '.join(columns)} FROM collection {condition(where)}", rows=TEXT_ROWS)


class LinkedChars:
    """How many characters of each page are in links, as far as these have words; 16 bytes a page."""

    def __init__(self, store: Store) -> None:
        table = pa.Table.from_batches(store.stream(_LINKED))
        self._oids = table.column("oid_src").to_numpy()
        self._chars = table.column("linked_chars").to_numpy()

    def of(self, oid: int) -> int:
        """Those of a page."""
        place = int(np.searchsorted(self._oids, oid))
        return int(self._chars[place]) if place < len(self._oids) and self._oids[place] == oid else 0


def stream_sketches(store: Store, where: str) -> Iterator[pa.RecordBatch]:
    """Number, address, sketch and hash of the text of the chosen pages, ascending."""
    return store.stream(_SKETCHES.format(where=condition(where)))


def stream_by_topic(store: Store, where: str) -> Iterator[pa.RecordBatch]:
    """The chosen pages topic after topic, the surest first."""
    return store.stream(_BY_TOPIC.format(where=condition(where)))


def stream_latest(store: Store, where: str, limit: int | None) -> Iterator[pa.RecordBatch]:
    """The chosen pages, those fetched last first; all of them without a limit."""
    return store.stream(_LATEST.format(where=condition(where), limit="ALL" if limit is None else limit), rows=TEXT_ROWS)


def stream_nodes(cursor: duckdb.DuckDBPyConnection, where: str) -> Iterator[pa.RecordBatch]:
    """The chosen pages as nodes of the link graph."""
    yield from _stream(cursor, _NODES.format(where=condition(where)))


def stream_edges(cursor: duckdb.DuckDBPyConnection, where: str) -> Iterator[pa.RecordBatch]:
    """The links among the chosen pages. The cursor knows the table `merged` (oid, ends)."""
    yield from _stream(cursor, _EDGES.format(where=condition(where)))


def _stream(cursor: duckdb.DuckDBPyConnection, sql: str) -> Iterator[pa.RecordBatch]:
    guard.check(cursor, sql)
    try:
        reader = cursor.sql(sql).to_arrow_reader(GRAPH_ROWS)
        first = next(reader, None)
        yield first if first is not None else pa.RecordBatch.from_pylist([], schema=reader.schema)
        yield from reader
    except duckdb.Error as error:
        raise guard.query_error(error) from error


def check_condition(store: Store, where: str) -> None:
    """Refuse a condition that is none, before anything is written."""
    if where.strip():
        store.query(f"SELECT 1 FROM collection {condition(where)} LIMIT 0")


def known_columns(store: Store, wanted: Sequence[str], others: Sequence[str]) -> None:
    """Refuse a column that neither the view nor `others` has."""
    known = [*columns_of(store), *others]
    for column in wanted:
        if column not in known:
            raise QueryError(f"no column {column!r} to export", f"Columns: {', '.join(known)}.")
