"""The topic tree with the pages of each topic counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import duckdb

from opilio.model.judgement import RELEVANT
from opilio.search.browsing_rows import TAKEN
from opilio.topics import Hierarchy, TopicRecord, hierarchy_of
from opilio.topics.hierarchy import ROOT

# Of each topic, NULL standing for OTHERS, the pages; those visited in the last days of the collection are its new ones.
_COUNTS = f"""
    WITH span AS (SELECT max(visited) - to_days($days::INTEGER) AS since FROM pages)
    SELECT CASE WHEN {TAKEN} THEN p.kcid END AS topic, count(*), count(*) FILTER (p.relevance >= {RELEVANT}),
           count(*) FILTER (p.visited > since),
           count(*) FILTER (p.visited > since AND p.relevance >= {RELEVANT}), sum(p.relevance), count(p.relevance)
    FROM pages p, span GROUP BY 1
"""


class Count(NamedTuple):
    """Pages of a topic, or of several."""

    pages: int = 0
    relevant: int = 0
    new_pages: int = 0
    new_relevant: int = 0
    relevance: float = 0.0
    """The sum over the pages that were judged ..."""
    judged: int = 0
    """... and how many those are."""

    def plus(self, other: Count) -> Count:
        """The two together."""
        return Count(
            self.pages + other.pages, self.relevant + other.relevant, self.new_pages + other.new_pages,
            self.new_relevant + other.new_relevant, self.relevance + other.relevance, self.judged + other.judged,
        )  # fmt: skip


class Counted(NamedTuple):
    """The topics of a collection with their pages."""

    records: dict[int, TopicRecord]
    hierarchy: Hierarchy
    own: dict[int, Count]
    """Pages that went to the topic itself."""
    below: dict[int, Count]
    """... and to it or a topic below it."""
    others: Count
    """Pages that no topic took."""

    @property
    def all(self) -> Count:
        """All pages."""
        return self.below[ROOT].plus(self.others)

    def summary(self, kcid: int) -> dict[str, Any]:
        """One topic as plain values, without those below it."""
        record, own, below = self.records[kcid], self.own.get(kcid, Count()), self.below[kcid]
        return {
            "topic": record.path, "name": record.name, "mark": self.hierarchy.nodes[kcid].mark.value,
            "wanted": self.hierarchy.is_wanted(kcid), "pages": below.pages, "relevant": below.relevant,
            "new": below.new_relevant, "own_pages": own.pages, "own_relevant": own.relevant,
        }  # fmt: skip

    def tree(self, kcid: int = ROOT) -> dict[str, Any]:
        """A topic with those below it in `children`, in the order of their names."""
        children = sorted(self.hierarchy.children(kcid), key=lambda child: self.records[child].name.casefold())
        return self.summary(kcid) | {"children": [self.tree(child) for child in children]}


def count_topics(records: list[TopicRecord], read: duckdb.DuckDBPyConnection, days: int = 1) -> Counted:
    """Count the pages of each topic."""
    hierarchy = hierarchy_of(records)
    rows = read.execute(_COUNTS, {"days": days}).fetchall()
    own = {kcid: Count(*(value or 0 for value in counts)) for kcid, *counts in rows}
    others = own.pop(None, Count())
    below: dict[int, Count] = {}
    _add_up(hierarchy, own, ROOT, below)
    return Counted({record.kcid: record for record in records}, hierarchy, own, below, others)


def _add_up(hierarchy: Hierarchy, own: Mapping[int, Count], kcid: int, below: dict[int, Count]) -> Count:
    """Fill `below` for a topic and all below it; topics lie at most 30 below each other."""
    total = own.get(kcid, Count())
    for child in hierarchy.children(kcid):
        total = total.plus(_add_up(hierarchy, own, child, below))
    below[kcid] = total
    return total
