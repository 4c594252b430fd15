"""Scores with what a reader wants to know of the pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opilio.distill.distilling import distill
from opilio.distill.scores import Scored, Scores
from opilio.store import Store

_PAGES = """
SELECT c.oid, c.url, coalesce(p.title, ''), c.relevance, c.state::VARCHAR, coalesce(t.path, '')
FROM crawl c
LEFT JOIN pages p ON p.oid = c.oid
LEFT JOIN topics t ON t.kcid = c.topic
WHERE c.oid IN (SELECT unnest($oids::BIGINT[]))
"""


def listing(store: Store, scores: Scores, top: int = 20) -> dict[str, Any]:
    """The best hubs and authorities as plain values, fit for JSON."""
    hubs, authorities = scores.top_hubs(top), scores.top_authorities(top)
    with store.reading() as cursor:
        oids = [page.oid for page in (*hubs, *authorities)]
        known = {row[0]: row for row in cursor.execute(_PAGES, {"oids": oids}).fetchall()}
    return {
        "method": scores.method,
        "pages": len(scores),
        "rounds": scores.rounds,
        "converged": scores.converged,
        "hubs": _described(hubs, known),
        "authorities": _described(authorities, known),
    }


def list_best(store: Store, topic: str | None, method: str, top: int) -> dict[str, Any]:
    """The same, distilled now."""
    return listing(store, distill(store, topic, method), top)


def _described(pages: Sequence[Scored], known: dict[int, tuple[Any, ...]]) -> list[dict[str, Any]]:
    names = ("oid", "url", "title", "relevance", "state", "topic")
    return [{"score": page.score, **dict(zip(names, known[page.oid], strict=True))} for page in pages]
