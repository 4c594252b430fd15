"""Lists and figures of a whole collection: its topics, its training documents, and what the last crawl left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opilio.store.database import Store
from opilio.topics import hierarchy_of

MAX_TOPICS = 2**15
MAX_DOCUMENTS = 2**20

_TOPICS = """
    SELECT t.kcid, t.path, t.name, t.keywords,
           (SELECT count(*) FROM training x WHERE x.kcid = t.kcid AND x.positive),
           (SELECT count(*) FROM training x WHERE x.kcid = t.kcid AND x.source = 'archetype'),
           (SELECT count(*) FROM training x WHERE x.kcid = t.kcid AND NOT x.positive),
           (SELECT count(*) FROM pages p WHERE p.kcid = t.kcid),
           (SELECT count(*) FROM pages p WHERE p.kcid = t.kcid AND p.relevance >= 0.5)
    FROM topics t ORDER BY t.path
"""
_PARTS = "SELECT kcid || ' ' || name, text IS NOT NULL FROM training WHERE kind = 'url'"
_REASON = "SELECT coalesce(reason, 'it was killed') FROM runs ORDER BY run DESC LIMIT 1"
_HOST_STATES = "SELECT state, count(*) FROM hosts GROUP BY state"
_MEAN_RELEVANCE = "SELECT avg(relevance) FROM pages"
_QUEUED = """
    SELECT CASE WHEN t.path = '' THEN t.name ELSE t.path END, count(c.oid) FROM topics t
    LEFT JOIN crawl c ON c.topic = t.kcid AND c.state = 'waiting' GROUP BY t.kcid, 1 ORDER BY t.kcid
"""
_NOTICES = "SELECT kind, text, coalesce(remedy, '') FROM notices ORDER BY noticed DESC, rowid DESC LIMIT ?"


def list_topics(store: Store) -> list[dict[str, Any]]:
    """The topics with their marks, examples and pages."""
    marks = {node.kcid: node.mark.value for node in hierarchy_of(store.load_topics()).nodes.values()}
    return [
        {
            "topic": path or name, "path": path, "mark": marks[kcid], "keywords": list(keywords or []), "examples": yes,
            "archetypes": archetypes, "negatives": no, "pages": pages, "relevant": relevant,
        }
        for kcid, path, name, keywords, yes, archetypes, no, pages, relevant in store.query(
            _TOPICS, max_rows=MAX_TOPICS
        ).rows
    ]  # fmt: skip


def list_examples(store: Store) -> list[dict[str, Any]]:
    """The training documents by topic: name, title, side, source, length, whether the page is there, and whether only a
    part of it is learned from."""
    paths = {record.kcid: record.path or record.name for record in store.load_topics()}
    parts = dict(store.query(_PARTS, max_rows=MAX_DOCUMENTS).rows)
    return [
        {
            "topic": paths.get(record.kcid, ""), "name": record.name, "kind": record.kind, "title": record.title,
            "positive": record.positive, "source": record.source, "words": len((record.text or "").split()),
            "there": bool(record.text) or record.oid is not None,
            "part": parts.get(f"{record.kcid} {record.name}", False),
        }
        for record in store.load_training()
    ]  # fmt: skip


@dataclass(frozen=True)
class StoredFigures:
    """What the database says of the last crawl."""

    reason: str
    """Why it ended."""
    hosts: dict[str, int]
    """Hosts by state."""
    mean_relevance: float | None
    queued: dict[str, int]
    """Queued URLs by topic."""
    notices: list[dict[str, str]]
    """The latest notices, the newest last."""


def stored_figures(store: Store, max_notices: int) -> StoredFigures:
    """The figures of the last crawl."""
    reasons = store.query(_REASON).rows
    notices = reversed(store.query(_NOTICES, [max_notices]).rows)
    return StoredFigures(
        reason=reasons[0][0] if reasons else "never crawled",
        hosts=dict(store.query(_HOST_STATES).rows),
        mean_relevance=store.query(_MEAN_RELEVANCE).rows[0][0],
        queued=dict(store.query(_QUEUED).rows),
        notices=[{"kind": kind, "text": text, "remedy": remedy} for kind, text, remedy in notices],
    )
