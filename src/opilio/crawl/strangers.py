"""When a crawl looks for strangers, pages to learn from that are about nothing wanted (`learn/strangers.py`).

Early, when there is most to gain, and again when there are twice as many pages to choose from, until there are enough.
How often it has looked survives a restart. Where the user went back to an older model, that one stays.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable

from opilio import learn
from opilio.crawl.absorb import Absorber
from opilio.crawl.taught import is_again
from opilio.learn.lessons import fingerprint
from opilio.settings import Settings
from opilio.store import Store

AT_PAGES = (25, 50, 100, 200, 400)
"""Pages stored when it looks (docs/results/log.md, 2026-11-16)."""
LOOKS = "looks for pages about other things"
MET = "pages about other things were met"
"""Why a model was trained."""


class Meetings:
    """Decides when, and has a model made of what was met."""

    def __init__(self, settings: Settings, store: Store, absorber: Absorber) -> None:
        self._settings = settings
        self._store = store
        self._absorber = absorber

    def change_settings(self, settings: Settings) -> None:
        """Look by other settings from now on."""
        self._settings = settings

    @property
    def is_due(self) -> bool:
        """Whether there are enough pages for another look."""
        return self._passed > self._absorber.counters.counts[LOOKS] and learn.looks_for_strangers(self._settings)

    @property
    def _passed(self) -> int:
        return sum(self._absorber.counters.pages >= pages for pages in AT_PAGES)

    async def run(
        self, version: int, on_start: Callable[[subprocess.Popen[bytes]], object]
    ) -> tuple[learn.Trained | None, str]:
        """The model that was made with strangers, and the fingerprint of what it was taught; None: there are none.

        The fingerprint tells nothing of them: a crawl that goes on later need not learn anew.
        """
        counters = self._absorber.counters
        counters.add(LOOKS, self._passed - counters.counts[LOOKS])
        return await asyncio.to_thread(self._train, version, on_start)

    def _train(
        self, version: int, on_start: Callable[[subprocess.Popen[bytes]], object]
    ) -> tuple[learn.Trained | None, str]:
        taught = fingerprint(self._store, self._settings)
        if is_again(self._store.load_models()[0].reason):
            return None, taught
        known = learn.gather(self._store, self._settings)
        training = learn.with_strangers(self._store, self._settings, known, on_start)
        if training is known:
            return None, taught
        return learn.train_beside(training, self._settings, version, on_start), taught
