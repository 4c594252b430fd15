"""Topics as rows: how many pages each has, which number the next one gets, and removing one with all its rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import duckdb

from opilio.model import RELEVANT
from opilio.store.database import Store
from opilio.store.pages import IS_ACCEPTED, NEW_SINCE
from opilio.topics import hierarchy_of

_NEXT = "SELECT 1 + greatest(coalesce(max(kcid), 0), (SELECT coalesce(max(kcid), 0) FROM judgements)) FROM topics"
_REMOVE = (
    "DELETE FROM topics WHERE kcid = ?",
    "DELETE FROM training WHERE kcid = ?",
    "DELETE FROM seeds WHERE kcid = ?",
    "UPDATE crawl SET topic = 0 WHERE topic = ?",
)
_LIST = """
    SELECT t.kcid, t.path, t.name, t.keywords,
           (SELECT count(*) FROM training x WHERE x.kcid = t.kcid AND x.positive),
           (SELECT count(*) FROM training x WHERE x.kcid = t.kcid AND x.source = 'archetype'),
           (SELECT count(*) FROM training x WHERE x.kcid = t.kcid AND NOT x.positive),
           (SELECT count(*) FROM pages p WHERE p.kcid = t.kcid),
           (SELECT count(*) FROM pages p WHERE p.kcid = t.kcid AND p.relevance >= 0.5)
    FROM topics t ORDER BY t.path
"""
# Of each topic, NULL standing for OTHERS, the pages; those visited in the last days of the collection are its new ones.
_COUNTS = f"""
    WITH span AS ({NEW_SINCE})
    SELECT CASE WHEN {IS_ACCEPTED} THEN p.kcid END AS topic, count(*), count(*) FILTER (p.relevance >= {RELEVANT}),
           count(*) FILTER (p.visited > since),
           count(*) FILTER (p.visited > since AND p.relevance >= {RELEVANT}), sum(p.relevance), count(p.relevance)
    FROM pages p, span GROUP BY 1
"""


class TopicCount(NamedTuple):
    """Pages of a topic, or of several."""

    pages: int = 0
    relevant: int = 0
    new_pages: int = 0
    new_relevant: int = 0
    relevance: float = 0.0
    """The sum over the pages that were judged ..."""
    judged: int = 0
    """... and how many those are."""

    def plus(self, other: TopicCount) -> TopicCount:
        """The two together."""
        return TopicCount(
            self.pages + other.pages, self.relevant + other.relevant, self.new_pages + other.new_pages,
            self.new_relevant + other.new_relevant, self.relevance + other.relevance, self.judged + other.judged,
        )  # fmt: skip


def count_pages(
    cursor: duckdb.DuckDBPyConnection, days: int, since_s: float | None = None
) -> dict[int | None, TopicCount]:
    """The pages of each topic; None stands for OTHERS. New are those of the last `days`, or since a moment."""
    rows = cursor.execute(_COUNTS, {"days": days, "since_s": since_s}).fetchall()
    return {kcid: TopicCount(*(value or 0 for value in counts)) for kcid, *counts in rows}


def list_topics(store: Store) -> list[dict[str, Any]]:
    """The topics with their marks, examples and pages."""
    marks = {node.kcid: node.mark.value for node in hierarchy_of(store.load_topics()).nodes.values()}
    return [
        {
            "topic": path or name, "path": path, "mark": marks[kcid], "keywords": list(keywords or []), "examples": yes,
            "archetypes": archetypes, "negatives": no, "pages": pages, "relevant": relevant,
        }
        for kcid, path, name, keywords, yes, archetypes, no, pages, relevant in store.query(_LIST, max_rows=2**15).rows
    ]  # fmt: skip


def next_kcid(store: Store) -> int:
    """A number no topic has had, also none that was removed: pages may carry it."""
    return int(store.query(_NEXT).rows[0][0])


def remove_topic(store: Store, kcid: int) -> None:
    """Remove a topic with its documents and seeds; its queued URLs join the queue of the root."""
    for statement in _REMOVE:
        store.query(statement, [kcid], write=True)
