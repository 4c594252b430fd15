"""The pages around a page in the link graph: those that link to it, and those it links to, the best of them."""

from __future__ import annotations

from typing import Any

import duckdb

from opilio.errors import InputError
from opilio.model import url_key
from opilio.search.browsing_rows import in_order, listed
from opilio.store import Store

MOST = 12

# Of several links between the same two pages the first one's words are shown. Stored pages come before others.
_AROUND = """
    WITH near AS (
        SELECT {far} AS oid, arg_min(coalesce(l.anchor, ''), l.rowid) AS anchor FROM links l
        WHERE {here} = $oid AND {far} <> $oid GROUP BY 1
    )
    SELECT oid, anchor, count(*) OVER ()
    FROM near JOIN crawl c USING (oid) LEFT JOIN pages p USING (oid)
    ORDER BY p.oid IS NULL, coalesce(p.relevance, c.relevance) DESC, oid LIMIT $most
"""
_FROM = _AROUND.format(far="l.oid_src", here="l.oid_dst")
_TO = _AROUND.format(far="l.oid_dst", here="l.oid_src")
_FIND = "SELECT oid FROM crawl WHERE key = $1 AND url = $2"


def neighbours(store: Store, url: str, most: int = MOST) -> dict[str, Any]:
    """The best pages that link to a URL (`from`) and that it links to (`to`), with the words of the links."""
    with store.reading() as read:
        rows = read.execute(_FIND, [url_key(url), url]).fetchall()
        if not rows:
            raise InputError(f"{url}: not known to this collection", "Give a URL that a page of it links to.")
        return neighbours_of(read, rows[0][0], most)


def neighbours_of(read: duckdb.DuckDBPyConnection, oid: int, most: int = MOST) -> dict[str, Any]:
    """The same by number."""
    asked = {"oid": oid, "most": most}
    linking, linked = read.execute(_FROM, asked).fetchall(), read.execute(_TO, asked).fetchall()
    known = listed(read, [oid, *(row[0] for row in (*linking, *linked))])
    return {
        "page": known[oid],
        "from": in_order(known, [row[:2] for row in linking], "anchor"),
        "from_total": linking[0][2] if linking else 0,
        "to": in_order(known, [row[:2] for row in linked], "anchor"),
        "to_total": linked[0][2] if linked else 0,
    }
