"""Pictures and icons: which of them the crawl lacks, and which pages have one to show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import duckdb

from opilio.model import RELEVANT
from opilio.store.database import Store

MAX_SHARED = 3
"""A picture that more pages name is their site's, not theirs: it is not shown."""
MIN_WIDTH, MIN_HEIGHT = 100, 60
"""Pixels: a smaller picture does not help to recognise a page."""

# The icon that a host names on one of its pages, or else where browsers look for it.
_ICON = "regexp_extract(c.url, '^https?://[^/]+') || '/favicon.ico'"
_MISSING = f"""
    WITH relevant AS (
        SELECT c.sid, {_ICON} AS favicon, p.relevance, x.picture, x.icon
        FROM pages p JOIN crawl c USING (oid) LEFT JOIN page_pictures x USING (oid) WHERE p.relevance >= {RELEVANT}
    ),
    requested AS (
        SELECT r.sid, count(DISTINCT f.url) AS n FROM relevant r JOIN pictures f ON f.url = r.picture GROUP BY r.sid
    ),
    wanted AS (
        SELECT 'icon' AS kind, coalesce(arg_max(nullif(icon, ''), relevance), max(favicon)) AS url,
               max(relevance) AS relevance, 0 AS place
        FROM relevant GROUP BY sid
        UNION ALL
        SELECT 'picture', r.picture, max(r.relevance),
               row_number() OVER (PARTITION BY r.sid ORDER BY max(r.relevance) DESC, r.picture)
               + coalesce(any_value(n.n), 0)
        FROM relevant r LEFT JOIN requested n USING (sid)
        WHERE r.picture <> '' AND r.picture NOT IN (SELECT url FROM pictures) GROUP BY r.sid, r.picture
    )
    SELECT kind, url FROM wanted WHERE place <= $per_host AND url NOT IN (SELECT url FROM pictures)
    ORDER BY kind, relevance DESC, url LIMIT $limit
"""
_SHOWN = f"""
    WITH shown AS (
        SELECT c.oid, c.sid, {_ICON} AS favicon FROM crawl c WHERE c.oid IN (SELECT unnest($oids::BIGINT[]))
    ),
    icons AS (
        SELECT x.sid, arg_max(f.url, (f.visited, f.url)) AS url FROM page_pictures x JOIN pictures f ON f.url = x.icon
        WHERE x.sid IN (SELECT sid FROM shown) AND f.data IS NOT NULL GROUP BY x.sid
    ),
    own AS (
        SELECT x.oid, f.url, f.width, f.height FROM page_pictures x JOIN pictures f ON f.url = x.picture
        WHERE x.oid IN (SELECT oid FROM shown) AND f.width >= {MIN_WIDTH} AND f.height >= {MIN_HEIGHT}
          AND (SELECT count(*) FROM page_pictures o WHERE o.picture = x.picture) <= {MAX_SHARED}
    )
    SELECT s.oid, o.url, o.width, o.height, coalesce(i.url, f.url)
    FROM shown s LEFT JOIN own o USING (oid) LEFT JOIN icons i USING (sid)
    LEFT JOIN pictures f ON f.url = s.favicon AND f.data IS NOT NULL
"""
_DATA = """
    SELECT url, content_type, width, height, data FROM pictures
    WHERE data IS NOT NULL AND url IN (SELECT unnest($1::VARCHAR[]))
"""


class StoredPicture(NamedTuple):
    """A picture with its bytes."""

    url: str
    content_type: str
    width: int
    height: int
    data: bytes


def missing_pictures(store: Store, per_host: int, limit: int) -> list[tuple[str, str]]:
    """Kind and address of pictures of relevant pages, and icons of their hosts, that were never requested.

    Icons come first, then the pictures of the most relevant pages; at most `per_host` for the pages of a host,
    requested ones included.
    """
    rows = store.select(_MISSING, {"per_host": per_host, "limit": limit}).rows
    return [(kind, url) for kind, url in rows]


NO_PICTURES: dict[str, Any] = {"picture": None, "icon": None}


def shown_pictures(cursor: duckdb.DuckDBPyConnection, oids: Iterable[int]) -> dict[int, dict[str, Any]]:
    """By oid, what lists show of each page: its `picture` (url, width, height) and the `icon` of its host (an address);
    None where there is none."""
    found = {}
    for oid, url, width, height, icon in cursor.execute(_SHOWN, {"oids": sorted(set(oids))}).fetchall():
        found[oid] = {"picture": {"url": url, "width": width, "height": height} if url else None, "icon": icon}
    return found


def stored_pictures(store: Store, urls: Sequence[str]) -> dict[str, StoredPicture]:
    """The pictures of some addresses, as far as they are stored."""
    rows = store.select(_DATA, [list(urls)], max_rows=len(urls) + 1).rows
    return {row[0]: StoredPicture(*row) for row in rows}
