"""Rounds of archetypes: when a crawl looks for pages to learn from by itself, and what it says of them.

A round is due when `learn.retrain_after` more pages were found relevant since the last one; each round doubles that
number for the next. The more has been learned, the less another page adds; and a crawl of any length has only a few
dozen trainings. What was counted survives a restart.

When a crawl looks for strangers, pages to learn from that are about nothing wanted (`learn/mined_negatives.py`).

Early, when there is most to gain, and again when there are twice as many pages to choose from, until there are enough.
How often it has looked survives a restart. Where the user went back to an older model, that one stays.
"""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
from collections.abc import Callable

from opilio import learn
from opilio.crawl.absorb import Absorber
from opilio.crawl.status import FOUND
from opilio.crawl.training_state import is_again
from opilio.learn.training_data import fingerprint
from opilio.settings import Settings
from opilio.store import Store
from opilio.topics.hierarchy import Hierarchy

OnStart = Callable[[subprocess.Popen[bytes]], object]

ROUNDS = "rounds of archetypes"
LOOKED = "pages judged relevant before the last round of archetypes"
REFUSED = "models refused"
MAX_DOUBLINGS = 30
_LOOK = "Look at them, and confirm or reject: opilio archetypes list FOLDER"


class Rounds:
    """Decides when; finds what changes, and remembers what was refused."""

    def __init__(self, settings: Settings, store: Store, absorber: Absorber) -> None:
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._refused: set[str] = set()
        if settings.learn.retrain_after or settings.learn.phases:
            learn.check_guard(settings)

    def change_settings(self, settings: Settings) -> None:
        """Look by other settings from now on."""
        self._settings = settings

    @property
    def is_due(self) -> bool:
        """Whether enough was found since the last round."""
        after, counts = self._settings.learn.retrain_after, self._absorber.counters.counts
        return after > 0 and counts[FOUND] - counts[LOOKED] >= after << min(counts[ROUNDS], MAX_DOUBLINGS)

    def begin(self) -> None:
        """Count a round."""
        counters = self._absorber.counters
        counters.add(ROUNDS)
        counters.add(LOOKED, counters.counts[FOUND] - counters.counts[LOOKED])

    async def run(self, version: int, on_start: OnStart) -> tuple[learn.Round, learn.Trained | None, str]:
        """What changes by a round, the model that was made with it, and the fingerprint of what that was taught.

        There is no model when nothing changes, when the same was refused before, and when it is refused now.
        """
        surveyed, changes, trial = await asyncio.to_thread(self._find, on_start)
        if trial is None:
            return changes, None, ""
        verdict, trained = await asyncio.to_thread(learn.try_beside, trial, self._settings, version, on_start)
        changes = dataclasses.replace(changes, verdict=verdict)
        if trained is None:
            self._refuse(surveyed.fingerprint(changes, self._settings), changes)
            return changes, None, ""
        changes = changes.without(verdict.left_out)
        await asyncio.to_thread(learn.write_round, self._store, changes)
        self._accept(changes, verdict, surveyed.training.hierarchy)
        return changes, trained, surveyed.fingerprint(changes, self._settings)

    def _find(self, on_start: OnStart) -> tuple[learn.Survey, learn.Round, learn.Trial | None]:
        surveyed = learn.survey(self._store, self._settings, on_start)
        changes = surveyed.choose(self._settings.learn)
        if changes.is_empty or surveyed.fingerprint(changes, self._settings) in self._refused:
            return surveyed, changes, None
        return surveyed, changes, learn.trial_of(self._store, surveyed, changes)

    def _refuse(self, fingerprint: str, changes: learn.Round) -> None:
        self._refused.add(fingerprint)
        self._absorber.counters.add(REFUSED)
        self._absorber.notice("model", f"a model was refused ({changes}): {changes.verdict}", _LOOK)

    def _accept(self, changes: learn.Round, verdict: learn.Verdict, hierarchy: Hierarchy) -> None:
        self._absorber.notice("archetypes", f"{changes}; {verdict}", _LOOK)
        for kcid, (before, after) in verdict.left_out.items():
            node = hierarchy.nodes[kcid]
            said = f"archetypes of {node.path or node.name!r} were refused: {before:.3f} before, {after:.3f} with them"
            self._absorber.notice("model", said, _LOOK, kcid)


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
