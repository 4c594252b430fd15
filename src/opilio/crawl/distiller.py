"""The distiller: finds hubs and authorities in the background, and raises what great hubs recommend (Focus 3.2, 3.7).

When: after `frontier.distill_after` changes, a change being a page that was stored or re-judged; and earlier while a
collection is small, whenever its pages have doubled, because then every neighbourhood has changed much. A large one is
not analysed all the time: between two analyses the distiller rests for ten times as long as the last one kept a core
busy. Once more when the crawl ends, so that every crawl with judged pages has scores to search and browse by; that
analysis only stores them. And with `frontier.hubs_first` at each retraining: then what the best hubs of each topic link
to comes first (BINGO 2.5).

What rises: the estimated relevance of a URL that great hubs of other hosts recommend, to the quality of the best of
these hubs (`opilio.distill.recommendations`). No estimate is ever lowered. It rises in memory first, where the URL gets
the place that the strategy gives it now; a URL that was queued in the database only is brought into memory for that.
Then it rises in the database, together with the new scores. All that is written about such a URL from then on has the
new estimate.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from opilio.crawl.absorb import Absorber
from opilio.crawl.background import BackgroundTask, TaskSlot
from opilio.distill import BACKGROUND_OPTIONS, Analysis, analyse, save_scores
from opilio.errors import describe_error
from opilio.frontier import QueuedUrl
from opilio.settings import Settings
from opilio.store import Store, refill
from opilio.store.links import has_judged_pages
from opilio.store.urls import bring_forward, untried_from_hubs

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

FIRST_PAGES = 50
"""A collection with fewer pages has no useful neighbourhoods, unless `frontier.distill_after` says otherwise."""
REST = 10.0
"""After an analysis, none is made for this many times as long as it kept a core busy: at most a tenth of a core is
spent on it."""
SLICE_URLS = 500
"""URLs that are brought forward at a time, before the loop gets its turn."""
MAX_FORWARD = 10_000


class Distiller(BackgroundTask):
    """Analyses the links when there is reason to, one analysis at a time."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        absorber: Absorber,
        commit: Callable[[], Awaitable[None]],
        link_contexts: Callable[[list[int]], dict[int, tuple[str, bytes]]] = lambda oids: {},
        is_training: Callable[[], bool] = lambda: False,
    ) -> None:
        """`commit` writes all that was absorbed; `link_contexts` gives those of URLs, for the classifier; `is_training`
        is true until the pages were re-judged by a new model."""
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._commit = commit
        self._ways_to = link_contexts
        self._is_training = is_training
        self._slot = TaskSlot(self._end)
        self._turn = asyncio.Lock()
        self._judged = absorber.counters.counts["pages re-judged"]
        self._models = absorber.counters.counts["models trained"]
        self._rest_until_s = 0.0

    @property
    def pauses_fetching(self) -> bool:
        """During an analysis, but only when the crawl must be the same each time (`learn.synchronous`)."""
        return self._settings.learn.synchronous and self._slot.is_busy

    def look(self) -> None:
        """Start an analysis when it is time."""
        if self._slot.is_busy:
            return
        if self._was_retrained():
            self._models = self._absorber.counters.counts["models trained"]
            self._slot.start(self._put_hubs_first())
        elif self._is_due():
            self._slot.start(self.distill_now())

    def _was_retrained(self) -> bool:
        """Whether pages were re-judged by a new model since the best hubs were put first."""
        is_newer = self._absorber.counters.counts["models trained"] > self._models
        return self._settings.frontier.hubs_first > 0 and is_newer and not self._is_training()

    async def _put_hubs_first(self) -> None:
        await self.distill_now()
        urls = await self.restart_from_hubs(self._settings.frontier.hubs_first)
        self._absorber.counters.add("URLs put first by hubs", urls)

    def _is_due(self) -> bool:
        after = self._settings.frontier.distill_after
        counts = self._absorber.counters.counts
        pages, before = counts["pages"], self._absorber.counters.progress.pages_at_analysis
        if not after or pages == before == 0:
            return False
        if self._changes() < after and pages < max(FIRST_PAGES, 2 * before):
            return False
        return self._settings.learn.synchronous or time.monotonic() >= self._rest_until_s

    def _changes(self) -> int:
        """Pages stored or re-judged since the latest analysis."""
        counts, before = self._absorber.counters.counts, self._absorber.counters.progress.pages_at_analysis
        return counts["pages"] - before + counts["pages re-judged"] - self._judged

    async def distill_now(self, method: str = "", *, raises: bool = True) -> Analysis | None:
        """Find hubs and authorities, by the method of the settings or another one, and store them.

        Unless `raises` is false, what great hubs recommend rises. Returns None when it was cancelled.
        """
        async with self._turn:
            counters = self._absorber.counters
            await self._commit()
            self._judged = counters.counts["pages re-judged"]
            counters.advance(pages_at_analysis=counters.pages)
            method = method or self._settings.frontier.distill_method
            found, urls, busy_s = await asyncio.to_thread(self._analyse, self._absorber.wanted, method, raises)
            self._rest_until_s = time.monotonic() + REST * busy_s
            if found is None:
                return None
            if raises:
                self._raise(found, urls)
            rising = found.recommended if raises else None
            await asyncio.to_thread(save_scores, self._store, found.by_topic, found.overall, rising)
            counters.add("link analyses")
            return found

    def _analyse(
        self, wanted: frozenset[int], method: str, raises: bool
    ) -> tuple[Analysis | None, list[QueuedUrl], float]:
        """In a thread: the analysis, the recommended URLs, which may have to come into memory, and its CPU time."""
        began_s = time.thread_time()
        settings = self._settings.frontier
        found = analyse(
            self._store,
            wanted,
            settings.hub_percentile,
            method=method,
            goes_on=lambda: not self._slot.is_cancelled,
            options=dataclasses.replace(BACKGROUND_OPTIONS, rho=settings.distill_rho),
            back_links=self._absorber.back_links,
        )
        urls = [] if found is None or not raises else self._load(found.recommended.oids)
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
        frontier.warm(rising if frontier.learner is None else still_open)
        frontier.tiers.raise_urls(relevance, hub_scores)
        self._absorber.counters.add("URLs raised by hubs", len(rising))

    def _open(self, urls: Iterable[QueuedUrl]) -> list[QueuedUrl]:
        """The URLs that are still queued and of which no page is stored."""
        ledger = self._absorber.ledger
        return [url for url in urls if ledger.is_open(url.oid) and url.oid not in ledger.recrawls]

    async def restart_from_hubs(self, limit: int) -> int:
        """Put the URLs first that the best `limit` hubs of each topic link to, and hubs never fetched; return how many.

        They count as seeds from then on: their depth is 0 (BINGO 3.3).
        """
        async with self._turn:
            await self._commit()
            urls = self._open(await asyncio.to_thread(self._from_hubs, limit))
            for at in range(0, len(urls), SLICE_URLS):
                piece = self._open(urls[at : at + SLICE_URLS])
                self._absorber.frontier.warm(piece)
                self._absorber.frontier.tiers.bring_forward([url.oid for url in piece])
                await asyncio.sleep(0)
            oids = np.array([url.oid for url in urls], np.int64)
            await asyncio.to_thread(bring_forward, self._store, oids)
            return len(urls)

    def _from_hubs(self, limit: int) -> list[QueuedUrl]:
        return self._load(np.array(untried_from_hubs(self._store, limit, MAX_FORWARD), np.int64))

    async def close(self, at_once: asyncio.Event) -> None:
        """Wait for an analysis under way, and make the last one; cancel it when `at_once` is set."""
        await self._slot.finish(at_once, self.cancel)
        if self._changes() and self._absorber.wanted and not at_once.is_set() and not self._slot.is_cancelled:
            self._slot.start(self._distill_last())
            await self._slot.finish(at_once, self.cancel)

    async def _distill_last(self) -> None:
        await self._commit()
        if await asyncio.to_thread(has_judged_pages, self._store):
            await self.distill_now(raises=False)

    def cancel(self) -> None:
        """Cancel an analysis under way, whoever started it."""
        self._slot.is_cancelled = True
        self._store.cancel_queries()

    def _end(self, error: BaseException | None) -> None:
        if error is None or self._slot.is_cancelled:
            return
        said = describe_error(error)
        self._absorber.counters.add("link analyses that failed")
        remedy = "The crawl goes on with the scores it has. `opilio distill FOLDER` tries the same by itself."
        self._absorber.notice("links", f"the links could not be analysed: {said}", remedy)
