"""Topics as rows: how many pages each has, which number the next one gets, and removing one with all its rows.

The pages of a topic are those that it, or a topic below it, took; its own pages are those that it took itself. Every
place that shows counts of topics has them from `count_topics`; the view `topic_figures` has the same for SQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import duckdb

from opilio.store.database import Store
from opilio.store.pages import NEW_SINCE
from opilio.topics import Hierarchy, TopicRecord, hierarchy_of
from opilio.topics.hierarchy import ROOT

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
           (SELECT count(*) FROM training x WHERE x.kcid = t.kcid AND NOT x.positive)
    FROM topics t ORDER BY t.path
"""
# Of each topic, NULL standing for OTHERS, the pages; those visited in the last days of the collection are its new ones.
_COUNTS = f"""
    WITH span AS ({NEW_SINCE})
    SELECT kcid, count(*), count(*) FILTER (relevant), count(*) FILTER (visited > since),
           count(*) FILTER (visited > since AND relevant)
    FROM page_topics, span GROUP BY 1
"""


class TopicCount(NamedTuple):
    """Pages of a topic, or of several."""

    pages: int = 0
    relevant: int = 0
    new_pages: int = 0
    new_relevant: int = 0

    def plus(self, other: TopicCount) -> TopicCount:
        """The two together."""
        return TopicCount(
            self.pages + other.pages, self.relevant + other.relevant, self.new_pages + other.new_pages,
            self.new_relevant + other.new_relevant,
        )  # fmt: skip


class CountedTopics(NamedTuple):
    """The topics of a collection with their pages."""

    records: dict[int, TopicRecord]
    hierarchy: Hierarchy
    own: dict[int, TopicCount]
    """Pages that each topic took itself."""
    below: dict[int, TopicCount]
    """... and that it, or a topic below it, took."""
    others: TopicCount
    """Pages that no topic took."""

    @property
    def all(self) -> TopicCount:
        """All pages."""
        return self.below[ROOT].plus(self.others)

    def figures(self, kcid: int) -> dict[str, int]:
        """The counts of one topic, by the names that they have everywhere."""
        own, below = self.own[kcid], self.below[kcid]
        return {
            "pages": below.pages, "relevant": below.relevant, "own_pages": own.pages, "own_relevant": own.relevant,
        }  # fmt: skip


def count_topics(
    records: list[TopicRecord], read: duckdb.DuckDBPyConnection, days: int = 1, since_s: float | None = None
) -> CountedTopics:
    """Count the pages of each topic. New are those of the last `days`, or since a moment."""
    rows = read.execute(_COUNTS, {"days": days, "since_s": since_s}).fetchall()
    return counted_topics(records, {kcid: TopicCount(*counts) for kcid, *counts in rows})


def counted_topics(records: list[TopicRecord], counts: Mapping[int | None, TopicCount]) -> CountedTopics:
    """Add up the pages that each topic took; None stands for those that none took."""
    hierarchy = hierarchy_of(records)
    own = {kcid: counts.get(kcid, TopicCount()) for kcid in hierarchy.nodes}
    below: dict[int, TopicCount] = {}
    _add_up(hierarchy, own, ROOT, below)
    return CountedTopics({record.kcid: record for record in records}, hierarchy, own, below,
                         counts.get(None, TopicCount()))  # fmt: skip


def _add_up(hierarchy: Hierarchy, own: Mapping[int, TopicCount], kcid: int, below: dict[int, TopicCount]) -> TopicCount:
    """Fill `below` for a topic and all below it; topics lie at most 30 below each other."""
    total = own[kcid]
    for child in hierarchy.children(kcid):
        total = total.plus(_add_up(hierarchy, own, child, below))
    below[kcid] = total
    return total


def list_topics(store: Store) -> list[dict[str, Any]]:
    """The topics with their marks, examples and pages."""
    with store.reading() as read:
        counted = count_topics(store.load_topics(), read)
        rows = read.execute(_LIST).fetchall()
    return [
        {
            "topic": path or name, "path": path, **counted.hierarchy.described(kcid), "keywords": list(keywords or []),
            "examples": yes, "archetypes": archetypes, "negatives": no, **counted.figures(kcid),
        }
        for kcid, path, name, keywords, yes, archetypes, no in rows
    ]  # fmt: skip


def next_kcid(store: Store) -> int:
    """A number no topic has had, also none that was removed: pages may carry it."""
    return int(store.select(_NEXT).rows[0][0])


def remove_topic(store: Store, kcid: int) -> None:
    """Remove a topic with its documents and seeds; its queued URLs join the queue of the root."""
    for statement in _REMOVE:
        store.query(statement, [kcid], write=True)
