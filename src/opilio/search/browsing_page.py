"""All that is known of one page, or of a URL that is not stored."""

from __future__ import annotations

from typing import Any

import duckdb

from opilio.errors import InputError
from opilio.learn import explain as explain_stored
from opilio.learn import explain_link
from opilio.model import url_key
from opilio.search.browsing_rows import DATE
from opilio.search.neighbours import neighbours_of
from opilio.store import Store
from opilio.topics.tree import OTHERS

MAX_TEXT_CHARS = 200_000
MAX_SAME = 50

# The stored page of a URL, of where it was redirected to, or of the page it is a duplicate of.
_FIND = """
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
        rows = read.execute(_FIND, [url_key(url), url]).fetchall()
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
