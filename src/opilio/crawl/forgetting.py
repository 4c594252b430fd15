"""Forgetting: after every so many documents, URLs that were visited may be visited again (OASIS 4, step 5).

With `frontier.forget_after` the crawl forgets, each time that number of documents was evaluated, which stored pages it
has visited. A page to which a link is found afterwards is queued again, so that regions of the web that have changed
are seen again. It is fetched as in a recrawl: with a conditional request; a page that has changed replaces the stored
one, and its links are followed. The links of a page that has not changed are not, so a crawl of pages that never
change ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from opilio.crawl.absorb import EVALUATED, Absorber
from opilio.crawl.background import BackgroundTask, TaskSlot
from opilio.errors import describe_error
from opilio.settings import Settings

QUEUE_S = 2.0
"""Least time between two rounds in which pages are queued again, because each reorders the frontier."""


class Forgetting(BackgroundTask):
    """Forgets which pages were visited, and queues those that are found again."""

    def __init__(
        self, settings: Settings, absorber: Absorber, fetch_again: Callable[[Sequence[int]], Coroutine[Any, Any, None]]
    ) -> None:
        """`fetch_again` queues stored pages, by their oids."""
        self._after = settings.frontier.forget_after
        self._absorber = absorber
        self._fetch_again = fetch_again
        self._slot = TaskSlot(self._end)
        self._queue_at_s = 0.0
        self._rounds = self._rounds_due

    @property
    def is_busy(self) -> bool:
        """Whether pages are to be queued again."""
        return self._slot.is_busy or bool(self._absorber.ledger.found_again)

    @property
    def _rounds_due(self) -> int:
        return self._absorber.counters.counts[EVALUATED] // self._after if self._after else 0

    def look(self) -> None:
        """Forget when it is time, and queue what was found again."""
        ledger, frontier = self._absorber.ledger, self._absorber.frontier
        if self._rounds_due > self._rounds:
            self._rounds = self._rounds_due
            ledger.forget_visited()
        is_idle = not frontier.waiting and not frontier.in_flight
        if ledger.found_again and not self._slot.is_busy and (is_idle or time.monotonic() >= self._queue_at_s):
            self._queue_at_s = time.monotonic() + QUEUE_S
            self._slot.start(self._fetch_again(ledger.take_found_again()))

    async def close(self, at_once: asyncio.Event) -> None:
        """Finish what is under way."""
        await self._slot.finish(at_once, self._slot.cancel)

    def _end(self, error: BaseException | None) -> None:
        if error is not None and not self._slot.is_cancelled:
            self._absorber.notice("revisit", f"pages found again could not be queued: {describe_error(error)}")
