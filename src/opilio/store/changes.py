"""What is new, changed and gone in a collection since a time, from its pages and the visits to them.

New: the page was stored since then. Changed: it was known before, and a visit since then found another text. Gone: it
was known before, and the latest visit found it moved, removed or closed. A page that came and went since then is none
of these, and so is one that could not be reached: it may be back tomorrow.
"""

from __future__ import annotations

from typing import Any

from opilio.model import RELEVANT, Outcome, UrlState
from opilio.store.database import Store

KINDS = ("new", "changed", "gone")
_GONE = (Outcome.CLIENT_ERROR, Outcome.SOFT_404, Outcome.REDIRECT, Outcome.NOINDEX, Outcome.RESERVED)
_CHANGES = f"""
    WITH known AS (
        SELECT c.oid, c.url, coalesce(nullif(p.title, ''), c.url) AS title, coalesce(p.description, '') AS description,
               coalesce(nullif(t.path, ''), t.name, '') AS topic, p.relevance, p.visited, p.main_text,
               coalesce(s.joined, r.first_visited, p.visited) AS joined, coalesce(r.changes, 0) AS changes,
               c.state, c.outcome, c.lastvisited
        FROM pages p JOIN crawl c USING (oid)
        LEFT JOIN revisits r USING (oid) LEFT JOIN sifted s USING (oid) LEFT JOIN topics t ON t.kcid = p.kcid
        WHERE ($all_pages OR p.relevance >= {RELEVANT})
    ),
    kinds AS (
        SELECT *, CASE
            WHEN state <> '{UrlState.WAITING}' AND outcome IN ({", ".join(f"'{one}'" for one in _GONE)})
                 AND epoch(lastvisited) > $since AND epoch(lastvisited) <= $until
                 THEN CASE WHEN epoch(joined) <= $since THEN 'gone' END
            WHEN epoch(joined) > $since AND epoch(joined) <= $until THEN 'new'
            WHEN changes > 0 AND epoch(visited) > $since AND epoch(visited) <= $until THEN 'changed'
        END AS kind,
        CASE WHEN epoch(joined) > $since THEN joined ELSE greatest(visited, lastvisited) END AS noticed
        FROM known
    )
"""
_COUNTS = f"{_CHANGES} SELECT kind, count(*) FROM kinds WHERE kind IS NOT NULL GROUP BY kind"
_LISTED = f"""{_CHANGES}
    SELECT kind, url, title, coalesce(nullif(description, ''), left(main_text, 300), '') AS summary, topic, relevance,
           strftime(noticed, '%Y-%m-%d %H:%M:%S') AS noticed,
           CASE WHEN kind = 'gone' THEN outcome ELSE '' END AS outcome,
           (SELECT count(*) FROM links l WHERE l.oid_src = kinds.oid AND kinds.kind = 'changed'
            AND epoch(l.first_seen) > $since) AS new_links
    FROM kinds WHERE kind IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY kind ORDER BY relevance DESC NULLS LAST, noticed DESC, url) <= $limit
    ORDER BY kind, relevance DESC NULLS LAST, noticed DESC, url
"""


def changes_since(
    store: Store, since_s: float, until_s: float, *, all_pages: bool = False, limit: int = 100
) -> dict[str, Any]:
    """How many pages are new, changed and gone, and the best of each."""
    period = {"since": since_s, "until": until_s, "all_pages": all_pages}
    counts = dict(store.select(_COUNTS, period).rows)
    found = store.select(_LISTED, period | {"limit": limit}, max_rows=len(KINDS) * limit)
    listed: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for kind, *values in found.rows:
        listed[kind].append(dict(zip(found.columns[1:], values, strict=True)))
    return {kind: {"pages": counts.get(kind, 0), "best": listed[kind]} for kind in KINDS}
