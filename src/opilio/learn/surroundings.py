"""All that a watcher asks of the database at one time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opilio.learn.census import RECOVERED_SHARE, Share, name_of, shares, starving_topics
from opilio.learn.drift import Likeness, measure_drift
from opilio.learn.recall import estimate_recall
from opilio.store import Store
from opilio.topics import hierarchy_of

_FOUND = "SELECT count(*) FROM pages WHERE relevance >= 0.5"


@dataclass(frozen=True)
class Surroundings:
    """How a crawl stands."""

    names: dict[int, str]
    """Of topics, by number."""
    shares: list[Share]
    starving: list[Share]
    likenesses: list[Likeness]
    recall: float | None
    found: int
    """Relevant pages."""

    @property
    def fed(self) -> list[Share]:
        """Topics that are far from starving."""
        hungry = starving_topics(self.shares, RECOVERED_SHARE)
        return [share for share in self.shares if share not in hungry]


def look_around(store: Store, waiting: Mapping[int, int], last_pages: int, has_terms: bool) -> Surroundings:
    """Look at the latest pages; `waiting` says by topic how many URLs wait. Without terms no drift can be seen."""
    hierarchy = hierarchy_of(store.load_topics())
    found = shares(store, hierarchy, waiting, last_pages)
    return Surroundings(
        names={kcid: name_of(hierarchy, kcid) for kcid in hierarchy.nodes},
        shares=found,
        starving=starving_topics(found),
        likenesses=measure_drift(store, hierarchy) if has_terms else [],
        recall=estimate_recall(store),
        found=store.query(_FOUND).rows[0][0],
    )
