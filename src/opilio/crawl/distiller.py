"""The distiller: finds hubs and authorities beside the crawl, and lets what great hubs recommend rise (Focus 3.2, 3.7).

When: after `frontier.distill_after` changes, a change being a page that was stored or judged anew; and earlier while
a collection is small, whenever its pages have doubled, for then every neighbourhood has changed much. A large one is
not analysed all the time: between two analyses passes ten times the time for which the last one kept a core busy.

What rises: the estimate of a URL that great hubs of other hosts recommend, to the quality of the best of these hubs
(`opilio.distill.recommendations`). No estimate is ever lowered. First it rises in memory, where the URL takes the place
that the strategy gives it now, being brought there when it waited in the database only; then in the database, together
with the new scores. Whatever is written of such a URL from then on has the new estimate.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from opilio.crawl.absorb import OPEN, Absorber
from opilio.crawl.background import finish
from opilio.distill import Analysis, Scores, analyse, keep
from opilio.errors import told
from opilio.frontier import QueuedUrl
from opilio.settings import Settings
from opilio.store import Store, refill

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

FIRST_PAGES = 50
"""A collection with fewer pages has no neighbourhoods to speak of, unless `frontier.distill_after` says otherwise."""
REST = 10.0
"""So many times as long as an analysis kept a core busy, none is made: at most a tenth of a core is spent on it."""
SLICE_URLS = 500
"""URLs brought forward in one go; then the loop has its turn."""
MAX_FORWARD = 10_000
ANALYSED_AT = "pages at the latest link analysis"

# What the best hubs link to and nobody has tried, and those among the hubs themselves. Redirects are not followed: what
# was redirected has been tried.
_FROM_HUBS = """
WITH scored AS (
    SELECT kcid, oid, hub FROM link_scores
    UNION ALL
    SELECT -1, oid, score FROM hubs WHERE (SELECT count(*) FROM link_scores) = 0
),
best AS (
    SELECT oid FROM scored WHERE hub > 0
    QUALIFY row_number() OVER (PARTITION BY kcid ORDER BY hub DESC, oid) <= $hubs
)
SELECT c.oid FROM crawl c
WHERE c.state = 'waiting' AND c.numtries = 0
  AND (c.oid IN (FROM best) OR c.oid IN (SELECT oid_dst FROM links WHERE oid_src IN (FROM best)))
ORDER BY c.oid LIMIT $urls
"""
_FORWARD = """
UPDATE crawl SET relevance = 1.0, depth = 0 WHERE oid IN (SELECT oid FROM asked) AND state = 'waiting' AND numtries = 0
"""


class Distiller:
    """Analyses the links when there is reason to, one analysis at a time."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        absorber: Absorber,
        commit: Callable[[], Awaitable[None]],
        ways_to: Callable[[list[int]], dict[int, tuple[str, bytes]]] = lambda oids: {},
    ) -> None:
        """`commit` writes all that was absorbed; `ways_to` says how other pages speak of URLs, for the judge."""
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._commit = commit
        self._ways_to = ways_to
        self._task: asyncio.Task[dict[int, Scores]] | None = None
        self._turn = asyncio.Lock()
        self._hurries = False
        self._judged = absorber.counters.counts["pages judged anew"]
        self._rest_until_s = 0.0

    @property
    def is_busy(self) -> bool:
        """Never: what it does gives the crawl another order, not more to do."""
        return False

    @property
    def holds(self) -> bool:
        """Whether nothing should be fetched for now: only when a crawl should be the same each time."""
        return self._settings.learn.synchronous and self._task is not None

    def look(self) -> None:
        """Begin an analysis when it is time. Called often."""
        if self._task is None and self._is_due():
            self._task = asyncio.create_task(self.distill_now())
            self._task.add_done_callback(self._end)

    def _is_due(self) -> bool:
        after = self._settings.frontier.distill_after
        counts = self._absorber.counters.counts
        pages, before = counts["pages"], counts[ANALYSED_AT]
        if not after or pages == before == 0:
            return False
        changed = pages - before + counts["pages judged anew"] - self._judged
        if changed < after and pages < max(FIRST_PAGES, 2 * before):
            return False
        return self._settings.learn.synchronous or time.monotonic() >= self._rest_until_s

    async def distill_now(self) -> dict[int, Scores]:
        """Find hubs and authorities, keep them, and let rise what great hubs recommend; the scores by topic."""
        async with self._turn:
            counters = self._absorber.counters
            await self._commit()
            self._judged = counters.counts["pages judged anew"]
            counters.add(ANALYSED_AT, counters.pages - counters.counts[ANALYSED_AT])
            found, urls, busy_s = await asyncio.to_thread(self._analyse, self._absorber.wanted)
            self._rest_until_s = time.monotonic() + REST * busy_s
            if found is None:
                return {}
            self._raise(found, urls)
            await asyncio.to_thread(keep, self._store, found.by_topic, found.overall, found.recommended)
            counters.add("link analyses")
            return found.by_topic

    def _analyse(self, wanted: frozenset[int]) -> tuple[Analysis | None, list[QueuedUrl], float]:
        """In a thread: the analysis, the recommended URLs, which may have to be brought into memory, and its cost."""
        began_s = time.thread_time()
        percentile = self._settings.frontier.hub_percentile
        found = analyse(self._store, wanted, percentile, goes_on=lambda: not self._hurries)
        urls = [] if found is None else self._load(found.recommended.oids)
        return found, urls, time.thread_time() - began_s

    def _load(self, oids: npt.NDArray[np.int64]) -> list[QueuedUrl]:
        with self._store.reading() as cursor:
            rows = refill.waiting_among(cursor, oids)
        ways = self._ways_to([row.oid for row in rows])
        return [self._waiting(row, ways.get(row.oid, ("", b""))) for row in rows]

    def _waiting(self, row: refill.StoredUrl, way: tuple[str, bytes]) -> QueuedUrl:
        host = self._absorber.frontier.hosts[row.sid]
        url = QueuedUrl(row.oid, row.url, host, row.topic, row.depth, row.relevance, row.hops, row.numtries)
        url.priority = row.priority
        url.anchor, url.neighbours = way
        return url

    def _raise(self, found: Analysis, urls: Sequence[QueuedUrl]) -> None:
        frontier, recommended = self._absorber.frontier, found.recommended
        oids = recommended.oids.tolist()
        relevance = dict(zip(oids, recommended.relevance.tolist(), strict=True))
        hub_scores = dict(zip(oids, recommended.hub_scores.tolist(), strict=True))
        still_open = self._open(urls)
        rising = [url for url in still_open if url.relevance < relevance[url.oid]]
        frontier.warm(still_open if frontier.strategy.learns else rising)
        frontier.raise_urls(relevance, hub_scores)
        self._absorber.counters.add("URLs raised by hubs", len(rising))

    def _open(self, urls: Iterable[QueuedUrl]) -> list[QueuedUrl]:
        """Those that still wait, and of which no page is stored."""
        absorber = self._absorber
        return [url for url in urls if absorber.settled[url.oid] == OPEN and url.oid not in absorber.recrawls]

    async def restart_from_hubs(self, limit: int) -> int:
        """Let what the best `limit` hubs of each topic link to come first, and hubs never fetched; how many URLs.

        They count as seeds from then on: their depth is 0 (BINGO 3.3).
        """
        async with self._turn:
            await self._commit()
            urls = self._open(await asyncio.to_thread(self._from_hubs, limit))
            for at in range(0, len(urls), SLICE_URLS):
                piece = self._open(urls[at : at + SLICE_URLS])
                self._absorber.frontier.warm(piece)
                self._absorber.frontier.bring_forward([url.oid for url in piece])
                await asyncio.sleep(0)
            oids = np.array([url.oid for url in urls], np.int64)
            await asyncio.to_thread(self._bring_forward, oids)
            return len(urls)

    def _from_hubs(self, limit: int) -> list[QueuedUrl]:
        found = self._store.query(_FROM_HUBS, {"hubs": limit, "urls": MAX_FORWARD}, max_rows=MAX_FORWARD).rows
        return self._load(np.array([oid for (oid,) in found], np.int64))

    def _bring_forward(self, oids: npt.NDArray[np.int64]) -> None:
        with self._store.writing() as to:
            to.register("asked", pa.table({"oid": oids}))
            to.execute(_FORWARD)
            to.unregister("asked")

    async def close(self, at_once: asyncio.Event) -> None:
        """Wait for an analysis under way; give it up when `at_once` is set."""
        await finish(self._task, at_once, self.hurry)

    def hurry(self) -> None:
        """Give up an analysis under way, whoever asked for it."""
        self._hurries = True
        self._store.cancel_queries()

    def _end(self, task: asyncio.Task[dict[int, Scores]]) -> None:
        self._task = None
        error = None if task.cancelled() else task.exception()
        if error is None or self._hurries:
            return
        said = told(error)
        self._absorber.counters.add("link analyses that failed")
        remedy = "The crawl goes on with the scores it has. `opilio distill FOLDER` tries the same by itself."
        self._absorber.notice("links", f"the links could not be analysed: {said}", remedy)
