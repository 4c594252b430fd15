"""Why a URL was asked for when it was, or waits where it does: the pages that link to it, and what their links say."""

from __future__ import annotations

from typing import Any

from opilio.errors import InputError
from opilio.model import url_key
from opilio.store import Store

MAX_LINKS = 20

_URL = "SELECT oid, state, outcome, depth, relevance, priority FROM crawl WHERE key = $1 AND url = $2"
_LINKS = f"""
    SELECT c.url, p.title, p.relevance, l.anchor, l.context FROM links l
    JOIN crawl c ON c.oid = l.oid_src LEFT JOIN pages p ON p.oid = l.oid_src
    WHERE l.oid_dst = $1 ORDER BY p.relevance DESC NULLS LAST, l.oid_src, l.position LIMIT {MAX_LINKS}
"""
_OFFERED = "SELECT peer, relevance FROM offers WHERE incoming AND url = $1 ORDER BY offered, rowid"
_COUNT = "SELECT count(*), count(DISTINCT oid_src) FROM links WHERE oid_dst = $1"


def explain_link(store: Store, url: str) -> dict[str, Any]:
    """What the database knows of a URL, fetched or not."""
    rows = store.query(_URL, [url_key(url), url]).rows
    if not rows:
        raise InputError(f"{url}: not known to this collection", "Give a URL that a page of it links to.")
    oid, state, outcome, depth, relevance, priority = rows[0]
    names = ("url", "title", "relevance", "anchor", "context")
    [[links, pages]] = store.query(_COUNT, [oid]).rows
    return {
        "url": url,
        "oid": oid,
        "state": state,
        "outcome": outcome,
        "depth": depth,
        "relevance": relevance,
        "priority": priority,
        "links": links,
        "pages": pages,
        "best": [dict(zip(names, row, strict=True)) for row in store.query(_LINKS, [oid]).rows],
        "parts": {},
        "offered": offered_by(store, url),
    }


def offered_by(store: Store, url: str) -> list[dict[str, Any]]:
    """The collections that handed a URL over, each with the relevance that it expected."""
    return [{"peer": peer, "relevance": relevance} for peer, relevance in store.query(_OFFERED, [url]).rows]
