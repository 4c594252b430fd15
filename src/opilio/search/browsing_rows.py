"""What lists say of a page: its address, title, topic and date, of stored pages and of URLs that are only known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import duckdb

from opilio.model import host_of
from opilio.model.judgement import RELEVANT
from opilio.topics.hierarchy import ROOT
from opilio.topics.tree import OTHERS

DATE = "%Y-%m-%d %H:%M:%S"
TAKEN = f"(p.kcid IN (SELECT kcid FROM topics) AND (p.kcid <> {ROOT} OR p.relevance >= {RELEVANT}))"
"""SQL: whether a topic took a page `p`. The root takes one only where it is itself what is wanted."""

_LISTED = f"""
    SELECT c.oid, c.url, coalesce(p.title, ''), coalesce(p.description, ''), coalesce(p.language, ''),
           p.oid IS NOT NULL, coalesce(p.relevance, c.relevance), strftime(p.visited, '{DATE}'),
           CASE WHEN p.oid IS NULL THEN '' WHEN coalesce({TAKEN}, FALSE) THEN coalesce(nullif(t.path, ''), t.name)
                ELSE '{OTHERS}' END,
           c.state::VARCHAR, coalesce(c.outcome, '')
    FROM crawl c LEFT JOIN pages p ON p.oid = c.oid LEFT JOIN topics t ON t.kcid = p.kcid
    WHERE c.oid IN (SELECT unnest($oids::BIGINT[]))
"""
_NAMES = (
    "oid", "url", "title", "description", "language", "stored", "relevance", "visited", "topic", "state", "outcome",
)  # fmt: skip


def listed(read: duckdb.DuckDBPyConnection, oids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """What lists say of these URLs, by oid. The topic of a page that none took is OTHERS."""
    wanted = sorted(set(oids))
    if not wanted:
        return {}
    rows = read.execute(_LISTED, {"oids": wanted}).fetchall()
    return {row[0]: dict(zip(_NAMES, row, strict=True)) | {"host": host_of(row[1])} for row in rows}


def in_order(known: dict[int, dict[str, Any]], found: Sequence[tuple[Any, ...]], *names: str) -> list[dict[str, Any]]:
    """The rows (oid, and values of these names) of a ranking, with what lists say of each."""
    return [known[oid] | dict(zip(names, values, strict=True)) for oid, *values in found]
