"""Pages that are visited again: how often each changes, when it is due, and which of its links came and went.

How often a page changes is estimated as Cho and Garcia-Molina do (Estimating frequency of change, ACM TOIT 2003): of n
revisits, the mean time I apart, X found the page changed. If it changes at random with rate r, a revisit finds no
change with probability exp(-r I), which gives the estimate

    r = -ln((n - X + 0.5) / (n + 0.5)) / I          change_interval_s = 1 / r

The halves keep it finite when every revisit found a change, and remove most of its bias. A page that was never found
changed has no estimate; it is visited again after as long a time as it has been known not to change.

When a page changes, its links are compared with those of the visit before. Those that stay keep the time at which they
were first seen. Those that are gone move to `past_links`. The view `link_history` has both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from opilio.model import Outcome, UrlState
from opilio.settings import RevisitSettings
from opilio.store.database import Store

_DUE = f"""
    WITH known AS (
        SELECT c.*, p.etag, p.last_modified, p.visited, coalesce(h.score, 0) AS hub,
               c.lastvisited + to_microseconds((1e6 * CASE WHEN c.state = '{UrlState.FAILED}' THEN $max_s
                   ELSE least($max_s, greatest($min_s, coalesce(
                       r.change_interval_s,
                       greatest($first_s, epoch(r.lastvisited) - epoch(r.first_visited)))))
                   END)::BIGINT) AS due
        FROM crawl c JOIN pages p USING (oid) LEFT JOIN revisits r USING (oid) LEFT JOIN hubs h USING (oid)
        WHERE (c.state = '{UrlState.FETCHED}' AND c.outcome IN ('{Outcome.OK}', '{Outcome.NOT_MODIFIED}')
               OR c.state = '{UrlState.FAILED}')
          AND c.lastvisited IS NOT NULL
          AND (c.sid, split_part(c.url, ':', 1)) NOT IN (SELECT unnest($sids::INTEGER[]), unnest($schemes::VARCHAR[]))
    )
"""
_DUE_PAGES = f"""{_DUE}
    SELECT oid, url, sid, topic, depth, hops, relevance, outcome, epoch(lastvisited), coalesce(etag, ''),
           coalesce(last_modified, ''), epoch(visited)
    FROM known WHERE epoch(due) <= $now_s ORDER BY hub DESC, relevance DESC, due, oid LIMIT $limit
"""
_UPCOMING = f"""{_DUE}
    SELECT count(*) FILTER (epoch(due) <= $now_s), coalesce(arg_min(url, (due, -hub, oid)), ''), epoch(min(due)),
           epoch(min(due) FILTER (epoch(due) > $now_s))
    FROM known
"""


OriginKey = tuple[int, str]
"""An origin: the sid of its host, and its scheme."""


class DuePage(NamedTuple):
    """A stored page that should be visited again."""

    oid: int
    url: str
    sid: int
    topic: int
    depth: int
    hops: int
    relevance: float
    outcome: str
    lastvisited_s: float
    etag: str
    last_modified: str
    stored_s: float
    """When the stored page was fetched."""


class Upcoming(NamedTuple):
    """What is due, and what is next."""

    due: int = 0
    """Pages that are due now."""
    next_url: str = ""
    """The page that is due first; empty: none is ever due."""
    next_s: float | None = None
    """When it is due."""
    later_s: float | None = None
    """When the first of the pages is due that are not due now."""


def due_pages(
    store: Store, settings: RevisitSettings, now_s: float, limit: int, without: Sequence[OriginKey] = ()
) -> list[DuePage]:
    """The pages that are due, best hubs first; none of the origins `without`."""
    values = {**_values(settings, now_s, without), "limit": limit}
    return [DuePage(*row) for row in store.select(_DUE_PAGES, values, max_rows=limit).rows] if limit > 0 else []


def upcoming(store: Store, settings: RevisitSettings, now_s: float, without: Sequence[OriginKey] = ()) -> Upcoming:
    """How many pages are due, and which is next."""
    return Upcoming(*store.select(_UPCOMING, _values(settings, now_s, without)).rows[0])


def _values(settings: RevisitSettings, now_s: float, without: Sequence[OriginKey]) -> dict[str, object]:
    return {
        "first_s": settings.first_s, "min_s": settings.min_s, "max_s": settings.max_s, "now_s": now_s,
        "sids": [sid for sid, _ in without], "schemes": [scheme for _, scheme in without],
    }  # fmt: skip
