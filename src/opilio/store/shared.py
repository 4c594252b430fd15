"""Which pages two collections share, found by a join of their exports (Parquet files)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import duckdb

from opilio.model import RELEVANT

COLUMNS = ("url", "title", "host", "relevance", "topic", "content_hash")
"""The columns of the view `collection` that the exports need."""

_OPEN = "CREATE VIEW {name} AS SELECT *, coalesce(relevance, 0) >= {relevant} AS is_relevant FROM read_parquet({file})"
_COUNT = "SELECT count(*), count(*) FILTER (is_relevant) FROM {name}"
# The same address; or, for a page whose address the other collection does not have, the same text: the first such page.
_SHARED = """
    WITH by_url AS (SELECT a.url AS url_a, b.url AS url_b FROM a JOIN b ON a.url = b.url),
    by_text AS (
        SELECT a.url AS url_a, min(b.url) AS url_b FROM a JOIN b ON a.content_hash = b.content_hash
        WHERE a.content_hash <> 0 AND a.url NOT IN (SELECT url FROM b) AND b.url NOT IN (SELECT url FROM a)
        GROUP BY a.url
    )
    SELECT a.url, b.url, coalesce(a.title, ''), a.is_relevant, b.is_relevant, coalesce(a.topic, ''),
           coalesce(b.topic, '')
    FROM (FROM by_url UNION ALL FROM by_text) s JOIN a ON a.url = s.url_a JOIN b ON b.url = s.url_b
    ORDER BY NOT (a.is_relevant AND b.is_relevant), a.url
"""
_HOSTS = "SELECT host FROM a INTERSECT SELECT host FROM b ORDER BY host"


class SharedPage(NamedTuple):
    """A page that two collections have."""

    url: str
    """In the first collection."""
    other_url: str
    """In the second; different if only the text is the same."""
    title: str
    relevant: bool
    """Whether it is relevant in the first collection."""
    other_relevant: bool
    topic: str
    other_topic: str


class Intersection(NamedTuple):
    """What two collections have in common."""

    counts: tuple[tuple[int, int], tuple[int, int]]
    """Of each: its pages, and how many of them are relevant."""
    pages: list[SharedPage]
    """Those relevant in both come first."""
    hosts: list[str]
    """The hosts of which both have pages."""


def intersect(first: Path, second: Path) -> Intersection:
    """What two collections have in common, by Parquet files with the `COLUMNS` of their pages."""
    with duckdb.connect() as connection:
        for name, file in (("a", first), ("b", second)):
            literal = "'" + str(file).replace("'", "''") + "'"
            connection.execute(_OPEN.format(name=name, file=literal, relevant=RELEVANT))
        [a], [b] = (connection.execute(_COUNT.format(name=name)).fetchall() for name in ("a", "b"))
        pages = [SharedPage(*row) for row in connection.execute(_SHARED).fetchall()]
        return Intersection((a, b), pages, [host for (host,) in connection.execute(_HOSTS).fetchall()])
