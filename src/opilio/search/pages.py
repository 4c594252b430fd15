"""The pages around a page in the link graph: those that link to it, and those it links to, the best of them.

All that is known of one page, or of a URL that is not stored.
"""

from __future__ import annotations

from typing import Any

import duckdb

from opilio.errors import InputError
from opilio.learn import explain as explain_stored
from opilio.learn import explain_link
from opilio.model import url_key
from opilio.search.browsing import DATE, in_order, listed
from opilio.store import Store
from opilio.topics.tree import OTHERS

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


MAX_TEXT_CHARS = 200_000
MAX_SAME = 50

# The stored page of a URL, of where it was redirected to, or of the page it is a duplicate of.
_FIND_PAGE = """
    WITH RECURSIVE way(oid, hops) AS (
        SELECT oid, 0 FROM crawl WHERE key = $1 AND url = $2
        UNION ALL
        SELECT coalesce(r.oid_dst, d.of_oid), w.hops + 1
        FROM way w LEFT JOIN redirects r ON r.oid_src = w.oid LEFT JOIN duplicates d ON d.oid = w.oid
        WHERE w.hops < 25 AND coalesce(r.oid_dst, d.of_oid) IS NOT NULL
    )
    SELECT w.oid FROM way w JOIN pages p USING (oid) ORDER BY w.hops LIMIT 1
"""
_FACTS = f"""
    SELECT p.status, coalesce(p.content_type, ''), coalesce(p.charset, ''), p.body_bytes, p.received_bytes,
           coalesce(p.ip, ''), coalesce(p.last_modified, ''), coalesce(p.canonical, ''), p.model_version,
           p.text IS NOT NULL, left(coalesce(p.main_text, ''), {MAX_TEXT_CHARS}),
           left(coalesce(p.text, ''), {MAX_TEXT_CHARS}), length(coalesce(p.text, '')),
           coalesce(p.warc_file, ''), p.warc_offset, p.warc_bytes, c.depth, h.host
    FROM pages p JOIN crawl c USING (oid) LEFT JOIN hosts h USING (sid) WHERE p.oid = $1
"""
_NAMES = (
    "status", "content_type", "charset", "body_bytes", "received_bytes", "ip", "last_modified", "canonical",
    "model_version", "has_text", "main_text", "text", "text_chars", "warc_file", "warc_offset", "warc_bytes", "depth",
    "host",
)  # fmt: skip
_JUDGEMENTS = f"""
    SELECT j.model_version, CASE WHEN j.accepted THEN coalesce(nullif(t.path, ''), t.name, '') ELSE '{OTHERS}' END,
           j.relevance, j.confidence, coalesce(j.agreed, []), j.undoubted, strftime(m.created, '{DATE}')
    FROM judgements j LEFT JOIN topics t USING (kcid) LEFT JOIN models m ON m.version = j.model_version
    WHERE j.oid = $1 ORDER BY j.rowid
"""
_JUDGED = ("model_version", "topic", "relevance", "confidence", "agreed", "undoubted", "trained")
_SAME = f"""
    SELECT c.url, d.step FROM duplicates d JOIN crawl c ON c.oid = d.oid WHERE d.of_oid = $1
    UNION ALL
    SELECT c.url, 'redirect ' || coalesce(r.status, 0) FROM redirects r JOIN crawl c ON c.oid = r.oid_src
    WHERE r.oid_dst = $1
    ORDER BY 1 LIMIT {MAX_SAME}
"""


def page(store: Store, url: str, explain: bool = True) -> dict[str, Any]:
    """A page with all that is known of it; of a URL that is not stored (`stored` is false), what is known (`known`).

    A URL that was redirected, or found to be a duplicate, stands for the page that is stored. Plain values.
    """
    with store.reading() as read:
        rows = read.execute(_FIND_PAGE, [url_key(url), url]).fetchall()
        told = _stored(read, int(rows[0][0])) if rows else {"stored": False}
    if not rows:
        return {"asked": url, **told, "known": _known(store, url)}
    topics = [record.path for record in store.load_topics() if record.path]
    why = _why(store, url) if explain else {"why": None, "why_not": ""}
    return {"asked": url, **told, "topics": topics, **why}


def pages(store: Store, urls: list[str]) -> list[dict[str, Any]]:
    """Several pages in one read."""
    return [page(store, url) for url in urls]


def _stored(read: duckdb.DuckDBPyConnection, oid: int) -> dict[str, Any]:
    [facts] = read.execute(_FACTS, [oid]).fetchall()
    judgements, same = read.execute(_JUDGEMENTS, [oid]).fetchall(), read.execute(_SAME, [oid]).fetchall()
    near = neighbours_of(read, oid)
    return {
        **near["page"],
        **dict(zip(_NAMES, facts, strict=True)),
        "judgements": [dict(zip(_JUDGED, row, strict=True)) for row in judgements],
        "same": [{"url": url, "step": step} for url, step in same],
        "neighbours": near,
    }


def _why(store: Store, url: str) -> dict[str, Any]:
    """The explanation of the newest model, or why there is none."""
    try:
        return {"why": explain_stored(store, url=url, title="", text=""), "why_not": ""}
    except InputError as error:  # its text is not kept
        return {"why": None, "why_not": f"{error.message}. {error.hint}"}


def _known(store: Store, url: str) -> dict[str, Any] | None:
    try:
        return explain_link(store, url)
    except InputError:  # no page links to it
        return None
