"""The indexer: keeps the full-text index up to date during the crawl, so that what was found can be searched at once.

Every `search.update_s` seconds, when pages were stored or re-judged or links were analysed, it updates the index, and
once more when the crawl ends, unless the few pages that are left can wait for the first search: few pages in a thread,
many in a process of its own, which leaves the GIL to the engine. After an update it rests for three times as long as
the update took: an index that is far behind costs the crawl no more than one that is not. Whatever goes wrong, the
crawl goes on: the index can be rebuilt at any time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from opilio.crawl.absorb import Absorber
from opilio.crawl.background import BackgroundTask, TaskSlot
from opilio.errors import describe_error
from opilio.settings import Settings
from opilio.store import Store

if TYPE_CHECKING:  # it takes a while to import
    from opilio.search.index_update import Updated
    from opilio.search.index_update_process import UpdaterProcess

MANY_PAGES = 2_000
"""With more new pages than this, a process is used; with fewer a thread is done before a process would have started."""
LEFT_PAGES = 1_000
"""Up to so many pages are left to the first search after the crawl, which indexes them in a second. A short crawl
then takes a tenth less CPU, and most are followed by another crawl before anybody searches."""
REST = 3.0
"""After an update, none is made for this many times as long as it took."""
_CHANGES = ("pages", "pages re-judged", "link analyses", "pages refreshed")


class Indexer(BackgroundTask):
    """Updates the index when there is reason to, one update at a time."""

    def __init__(
        self, settings: Settings, store: Store, absorber: Absorber, commit: Callable[[], Awaitable[None]]
    ) -> None:
        """`commit` writes all that was absorbed, so that it can be read."""
        self._settings = settings.search
        self._store = store
        self._absorber = absorber
        self._commit = commit
        self._slot = TaskSlot(self._end)
        self._is_told = False
        self._next_s = time.monotonic() + settings.search.update_s
        self._indexed = -1
        self._indexed_pages = 0
        self._process: UpdaterProcess | None = None

    def look(self) -> None:
        """Start an update when it is time."""
        is_due = self._settings.index and time.monotonic() >= self._next_s
        if is_due and not self._slot.is_busy and self._has_news():
            self._slot.start(self._update(is_last=False))

    async def close(self, at_once: asyncio.Event) -> None:
        """Finish, with all that was stored in the index but a few pages; without that once `at_once` is set."""
        await self._slot.finish(at_once, self._cancel)
        left_pages = self._absorber.counters.pages - self._indexed_pages
        if self._settings.index and left_pages > LEFT_PAGES and not at_once.is_set():
            self._slot.start(self._update(is_last=True))
            await self._slot.finish(at_once, self._cancel)
        if self._process is not None:
            self._process.close()

    def _has_news(self) -> bool:
        return self._changes() != self._indexed

    def _changes(self) -> int:
        """A count that grows with whatever the index should know."""
        return sum(self._absorber.counters.counts[name] for name in _CHANGES)

    async def _update(self, *, is_last: bool) -> None:
        changes, pages = self._changes(), self._absorber.counters.pages
        await self._commit()
        began_s = time.monotonic()
        is_many = pages - self._indexed_pages > MANY_PAGES and not is_last  # at the end nobody else needs the lock
        update = self._update_in_process if is_many else self._update_now
        updated = await asyncio.to_thread(update)
        ended_s = time.monotonic()
        self._next_s = ended_s + max(self._settings.update_s, REST * (ended_s - began_s))
        if updated is not None and not self._slot.is_cancelled:
            self._indexed, self._indexed_pages = changes, pages
            self._absorber.counters.add("index updates")

    def _update_now(self) -> Updated | None:
        from opilio.search.index_update import update  # noqa: PLC0415

        folder = self._store.path.parent
        return update(self._store, folder, goes_on=lambda: not self._slot.is_cancelled)

    def _update_in_process(self) -> Updated | None:
        from opilio.search.index_update_process import UpdaterProcess  # noqa: PLC0415

        self._process = self._process or UpdaterProcess()
        return self._process.update(self._store, self._store.path.parent, lambda: not self._slot.is_cancelled)

    def _cancel(self) -> None:
        self._slot.is_cancelled = True
        if self._process is not None:
            self._process.kill()
        self._store.cancel_queries()

    def _end(self, error: BaseException | None) -> None:
        if error is None or self._slot.is_cancelled:
            return
        self._next_s = time.monotonic() + self._settings.update_s
        self._absorber.counters.add("index updates that failed")
        if not self._is_told:
            self._is_told = True
            remedy = "The crawl goes on. The index is brought up to date when somebody searches after it."
            self._absorber.notice(
                "search", f"the index could not be brought up to date: {describe_error(error)}", remedy
            )
