"""What the search index is made of: pages, the words of links to them, relevance, authority, hosts and topics.

The index is updated by the process that holds the database, or by another one that passes its queries on to it. So
every query here is a statement with named values that gives an Arrow table (`Query`). Each sees the database as it is
at that moment: an update of a large index takes minutes, and as long as a snapshot is open, the write-ahead log of the
database only grows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from opilio.store.database import Store

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    Query: TypeAlias = Callable[[str, dict[str, Any]], pa.Table]
    """The answer of the database to a statement, with the values of its names."""
    Column: TypeAlias = npt.NDArray[Any]
    Oids: TypeAlias = npt.NDArray[np.int64]

_STATE = """
SELECT rowid, oid, epoch_us(visited), coalesce(relevance, 0), coalesce(kcid, -1) FROM pages ORDER BY oid, visited
"""
_PAGES = """
SELECT p.oid, epoch_us(p.visited), c.url, c.key, c.sid, coalesce(p.title, ''), coalesce(p.text, ''),
       coalesce(p.main_text, ''), coalesce(p.language, ''), coalesce(p.content_type, ''), coalesce(p.content_hash, 0),
       p.shingles
FROM pages p JOIN crawl c ON c.oid = p.oid
WHERE p.rowid >= $first AND p.rowid <= $last AND p.rowid IN (SELECT unnest($rows::BIGINT[]))
  AND p.oid IN (SELECT unnest($oids::BIGINT[]))
"""
_ANCHORS = """
SELECT oid_dst, string_agg(anchor, ' . ') FROM (
    SELECT oid_dst, anchor FROM links
    WHERE oid_dst IN (SELECT unnest($oids::BIGINT[])) AND anchor <> ''
    GROUP BY oid_dst, anchor
    QUALIFY row_number() OVER (PARTITION BY oid_dst ORDER BY count(*) DESC, anchor) <= $most
) GROUP BY oid_dst
"""
_IN_LINKS = """
SELECT oid_dst, count(*) FROM links
WHERE anchor <> '' AND oid_dst IN (SELECT oid FROM pages) GROUP BY oid_dst ORDER BY oid_dst
"""
# Of a page in its topic, as a share of the best of that topic; of all topics when it has no score in its own.
_AUTHORITY = """
WITH best AS (SELECT kcid, max(authority) AS most FROM link_scores GROUP BY kcid HAVING most > 0),
overall AS (SELECT max(score) AS most FROM auth HAVING most > 0)
SELECT p.oid, coalesce(l.authority / b.most, a.score / o.most) AS share
FROM pages p
LEFT JOIN link_scores l ON l.oid = p.oid AND l.kcid = p.kcid
LEFT JOIN best b ON b.kcid = p.kcid
LEFT JOIN auth a ON a.oid = p.oid
LEFT JOIN overall o ON true
WHERE share > 0
ORDER BY p.oid
"""
_HOSTS = "SELECT sid, host FROM hosts WHERE sid IN (SELECT unnest($sids::INTEGER[]))"
_TOPICS = "SELECT kcid, pcid, name, path FROM topics ORDER BY path"


class IndexedPage(NamedTuple):
    """A page to be indexed."""

    oid: int
    visited_us: int
    url: str
    key: int
    sid: int
    title: str
    text: str
    main_text: str
    language: str
    content_type: str
    content_hash: int
    shingles: bytes | None


class PageState(NamedTuple):
    """All pages as columns, ascending by oid; a page that was stored twice is there twice, the latest last."""

    rowid: Column
    oid: Column
    visited_us: Column
    relevance: Column
    kcid: Column


class IndexSource:
    """The database, as the index needs it."""

    def __init__(self, query: Query) -> None:
        self._query = query

    def page_state(self) -> PageState:
        """When each page was visited, and how it is judged."""
        return PageState(*self._columns(_STATE))

    def pages(self, rowids: Oids, oids: Oids) -> list[IndexedPage]:
        """Pages by their rows in the table; without those that are no longer there, as when they were fetched again."""
        given = {"first": int(rowids.min()), "last": int(rowids.max()), "rows": rowids.tolist(), "oids": oids.tolist()}
        return [IndexedPage(*row) for row in self._rows(_PAGES, **given)]

    def anchors(self, oids: Sequence[int], most: int) -> dict[int, str]:
        """For each page, the commonest words of links to it."""
        return dict(self._rows(_ANCHORS, oids=list(oids), most=most))

    def in_links(self) -> tuple[Column, Column]:
        """Pages, ascending, and how many links with words lead to each."""
        oids, counts = self._columns(_IN_LINKS)
        return oids, counts

    def authority(self) -> tuple[Column, Column]:
        """Pages, ascending, and the authority of each as a share of the best of its topic."""
        oids, shares = self._columns(_AUTHORITY)
        return oids, shares

    def hosts(self, sids: Sequence[int]) -> dict[int, str]:
        """The names of some hosts."""
        return dict(self._rows(_HOSTS, sids=list(sids)))

    def topics(self) -> list[dict[str, Any]]:
        """kcid, pcid, name and path of each topic, by path."""
        return [dict(zip(("kcid", "pcid", "name", "path"), row, strict=True)) for row in self._rows(_TOPICS)]

    def _columns(self, sql: str, **given: Any) -> list[Column]:
        return [column.to_numpy() for column in self._query(sql, given).columns]

    def _rows(self, sql: str, **given: Any) -> list[tuple[Any, ...]]:
        return list(zip(*(column.to_pylist() for column in self._query(sql, given).columns), strict=True))


def store_query(store: Store) -> Query:
    """Puts queries to a store that is open in this process."""

    def ask(sql: str, given: dict[str, Any]) -> pa.Table:
        with store.reading() as cursor:
            return cursor.sql(sql, params=given or None).to_arrow_table()

    return ask
