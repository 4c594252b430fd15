"""When a crawl trains by itself: rounds of archetypes, and the mining of negatives.

A *round of archetypes* is due when `learn.retrain_after` more pages were judged relevant since the last one; each round
doubles that number for the next. The more has been learned, the less another page adds, and a crawl of any length has
only a few dozen trainings.

*Negatives* (`learn/mined_negatives.py`) are mined early, when there is most to gain, and again whenever there are twice
as many pages to choose from, until there are enough. When the user went back to an older model, that model stays.

How often a crawl has done either survives a restart (table `progress`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
from collections.abc import Callable

from opilio import learn
from opilio.crawl.absorb import Absorber
from opilio.crawl.status import FOUND
from opilio.learn.training_data import fingerprint
from opilio.model import TrainingReason
from opilio.settings import Settings
from opilio.store import Store
from opilio.topics.hierarchy import Hierarchy

OnStart = Callable[[subprocess.Popen[bytes]], object]

REFUSED = "models refused"
MAX_DOUBLINGS = 30
MINED_AT_PAGES = (25, 50, 100, 200, 400)
"""Stored pages at which negatives are mined (docs/results/log.md, 2026-11-16)."""
_LOOK_AT_THEM = "Look at them, and confirm or reject: opilio archetypes list FOLDER"


class ArchetypeRounds:
    """Decides when a round is due, runs it, and remembers what the guard refused."""

    def __init__(self, settings: Settings, store: Store, absorber: Absorber) -> None:
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._refused: set[str] = set()
        if settings.learn.retrain_after or settings.learn.phases:
            learn.check_guard(settings)

    def change_settings(self, settings: Settings) -> None:
        """Use other settings from now on."""
        self._settings = settings

    @property
    def is_due(self) -> bool:
        """Whether enough relevant pages were found since the last round."""
        after, counters = self._settings.learn.retrain_after, self._absorber.counters
        found = counters.counts[FOUND] - counters.progress.relevant_at_round
        return after > 0 and found >= after << min(counters.progress.archetype_rounds, MAX_DOUBLINGS)

    def begin(self) -> None:
        """Count a round."""
        counters = self._absorber.counters
        rounds = counters.progress.archetype_rounds + 1
        counters.advance(archetype_rounds=rounds, relevant_at_round=counters.counts[FOUND])

    async def run(self, version: int, on_start: OnStart) -> tuple[learn.Round, learn.TrainedModel | None, str]:
        """What the round changes, the model trained with it, and the fingerprint of its training data.

        There is no model when nothing changes, when the same change was refused before, or when it is refused now.
        """
        surveyed, changes, trial = await asyncio.to_thread(self._find, on_start)
        if trial is None:
            return changes, None, ""
        verdict, trained = await asyncio.to_thread(learn.try_in_process, trial, self._settings, version, on_start)
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
        self._absorber.notice("model", f"a model was refused ({changes}): {changes.verdict}", _LOOK_AT_THEM)

    def _accept(self, changes: learn.Round, verdict: learn.GuardVerdict, hierarchy: Hierarchy) -> None:
        self._absorber.notice("archetypes", f"{changes}; {verdict}", _LOOK_AT_THEM)
        for kcid, (before, after) in verdict.left_out.items():
            node = hierarchy.nodes[kcid]
            said = f"archetypes of {node.path or node.name!r} were refused: {before:.3f} before, {after:.3f} with them"
            self._absorber.notice("model", said, _LOOK_AT_THEM, kcid)


class NegativeMining:
    """Decides when negatives are mined, and trains a model with them."""

    def __init__(self, settings: Settings, store: Store, absorber: Absorber) -> None:
        self._settings = settings
        self._store = store
        self._absorber = absorber

    def change_settings(self, settings: Settings) -> None:
        """Use other settings from now on."""
        self._settings = settings

    @property
    def is_due(self) -> bool:
        """Whether enough pages were stored for the next time."""
        rounds = self._absorber.counters.progress.negative_rounds
        return self._passed > rounds and learn.mines_negatives(self._settings)

    @property
    def _passed(self) -> int:
        return sum(self._absorber.counters.pages >= pages for pages in MINED_AT_PAGES)

    async def run(self, version: int, on_start: OnStart) -> tuple[learn.TrainedModel | None, str]:
        """The model trained with mined negatives, or None when there are none; and the fingerprint of its training
        data.

        The fingerprint leaves the negatives out: a crawl that goes on later need not train again.
        """
        self._absorber.counters.advance(negative_rounds=self._passed)
        return await asyncio.to_thread(self._train, version, on_start)

    def _train(self, version: int, on_start: OnStart) -> tuple[learn.TrainedModel | None, str]:
        taught = fingerprint(self._store, self._settings)
        if self._store.load_models()[0].cause.reason is TrainingReason.REUSED:
            return None, taught
        known = learn.gather(self._store, self._settings)
        training = learn.with_mined_negatives(self._store, self._settings, known, on_start)
        if training is known:
            return None, taught
        return learn.train_in_process(training, self._settings, version, on_start), taught
