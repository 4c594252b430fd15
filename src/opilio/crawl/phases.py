"""The two phases of a crawl that begins with little (BINGO 2.6, 3.3): learning, then harvesting.

*Learning* looks for archetypes near the seeds: depth-first, with a sharp focus, in the seeds' domains, and a page
counts only when all feature spaces agree. It ends when every topic has enough archetypes, after `learn.learning_pages`
pages or `learn.learning_time_s` seconds, or when nothing is left to follow. Then the archetypes become training
documents, unless the guard refuses them, links are analysed, and *harvesting* begins: in the order of the settings,
restarted from the best hubs, with votes weighted by their expected precision. When `classify.meta` names a rule for the
votes, both phases use that.

With `learn.pause` the crawl ends between the two, for the user to look at the archetypes. The next crawl harvests.

The phase is stored with the batch it belongs to (table `progress`): after a crash a crawl is in the phase it was in.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable

from opilio.crawl.absorb import Absorber
from opilio.crawl.background import BackgroundTask, TaskSlot
from opilio.crawl.distiller import Distiller
from opilio.crawl.teacher import Teacher
from opilio.errors import describe_error
from opilio.frontier import Strategy, make_strategy
from opilio.frontier.classic import SharpFocus
from opilio.learn.training_data import MIN_EXAMPLE_WORDS
from opilio.model import Phase, TrainingCause, TrainingReason
from opilio.settings import Settings, override
from opilio.store import Store
from opilio.store.census import count_queued
from opilio.store.training import count_archetypes

AUTO = "auto"
"""The rule of `classify.meta` that the phase decides on."""
LEARNING_FROM = "learning_from_ms"
"""The counter with the crawling time at which learning began: `learn.learning_time_s` is counted over all runs."""
DRY_S = 1.0
"""Learning is over when the frontier has been empty for this long: time enough for a refill to arrive."""
RESTART_HUBS = 10
"""Hubs of each topic from which the harvest starts."""
PAUSED = "paused between the phases: look at the archetypes (opilio archetypes list), then crawl on to harvest"


def phase_at_start(settings: Settings, before: Phase) -> Phase:
    """The phase in which a crawl starts or continues."""
    if not settings.learn.phases:
        return Phase.NONE
    return Phase.LEARNING if before in (Phase.NONE, Phase.LEARNING) else Phase.HARVESTING


def settings_in(phase: Phase, settings: Settings) -> Settings:
    """The settings of a phase: it decides how votes become a decision, unless the user has chosen a rule."""
    if phase is Phase.NONE or settings.classify.meta != AUTO:
        return settings
    return override(settings, {"classify.meta": "unanimous" if phase is Phase.LEARNING else "weighted"}, "phases")


def strategy_in(phase: Phase, settings: Settings, domains: Iterable[str]) -> Strategy:
    """The crawl order of a phase."""
    if phase is Phase.LEARNING:
        return SharpFocus(settings.frontier, domains, settings.learn.learning_depth)
    return make_strategy(settings.frontier)


class Phases(BackgroundTask):
    """Notices when learning is over, and starts the harvest."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        absorber: Absorber,
        teacher: Teacher,
        distiller: Distiller,
        elapsed_s: Callable[[], float],
        change_order: Callable[[], Awaitable[None]],
        end: Callable[[str], None],
    ) -> None:
        """`elapsed_s` is the time of crawling over all runs; `change_order` switches to the order of the settings;
        `end` ends the crawl."""
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._teacher = teacher
        self._distiller = distiller
        self._elapsed_s = elapsed_s
        self._change_order = change_order
        self._end = end
        before = absorber.counters.progress.phase
        self.phase = phase_at_start(settings, before)
        self._resumes = self.phase is Phase.HARVESTING and before is not Phase.HARVESTING
        self._slot = TaskSlot(self._over)
        self._dry_since_s = 0.0
        self._counted_version = -1
        self._has_enough = False
        self._is_finishing = False
        if self.phase is Phase.LEARNING and before is not Phase.LEARNING:
            counters = absorber.counters
            counters.add(LEARNING_FROM, round(1000 * elapsed_s()) - counters.counts[LEARNING_FROM])
            self._enter(self.phase, "learning: depth-first in the domains of the seeds")
        elif self.phase is Phase.NONE and before is not Phase.NONE:
            self._enter(self.phase, "no phases any more (learn.phases)")

    @property
    def has_own_order(self) -> bool:
        """Whether the phase decides the order: one that the user chooses is then for the harvest."""
        return self.phase is Phase.LEARNING and not self._is_finishing

    @property
    def is_busy(self) -> bool:
        """Whether the harvest is still to come."""
        return self.phase is Phase.LEARNING or self._slot.is_busy or self._resumes

    @property
    def pauses_fetching(self) -> bool:
        """While the phase changes, or is about to once a model under way is trained."""
        return self._slot.is_busy or ((self._resumes or self._has_seen_enough) and not self._teacher.awaits)

    @property
    def _has_seen_enough(self) -> bool:
        most = self._settings.learn.learning_pages
        return self.phase is Phase.LEARNING and (self._absorber.counters.pages >= most or self._has_used_its_time)

    @property
    def _has_used_its_time(self) -> bool:
        most_s = self._settings.learn.learning_time_s
        return 0.0 < most_s <= self._elapsed_s() - self._absorber.counters.counts[LEARNING_FROM] / 1000

    def look(self) -> None:
        """Start the change of phase when it is time."""
        if self._slot.is_busy:
            return
        if self._resumes and not self._teacher.is_busy:
            self._slot.start(self._harvest())
        elif self.phase is Phase.LEARNING and not self._teacher.is_busy:
            if self._counted_version != self._teacher.version:
                self._slot.start(self._count())
                return
            why = self._why_over()
            if why and self._teacher.version:
                self._slot.start(self._finish_learning(why))
            elif why:
                self._end(f"learning is over ({why}), but no model could be trained: {self._teacher.note}")

    def _why_over(self) -> str:
        """Why the learning phase is over; empty while it is not."""
        frontier, learning = self._absorber.frontier, self._settings.learn
        if self._has_enough:
            return f"every topic has {learning.learning_archetypes} archetypes"
        if self._has_used_its_time:
            return f"{learning.learning_time_s:g} s of learning, {self._absorber.counters.pages:,} pages seen"
        if self._has_seen_enough:
            return f"{self._absorber.counters.pages:,} pages seen"
        if frontier.hot or frontier.in_flight or any(frontier.tiers.cold.values()):
            self._dry_since_s = 0.0
        elif not self._dry_since_s:
            self._dry_since_s = time.monotonic()
        elif time.monotonic() - self._dry_since_s >= DRY_S:
            return "nothing more to follow near the seeds"
        return ""

    async def _count(self) -> None:
        """See whether every topic with training documents has enough archetypes by now."""
        self._counted_version = self._teacher.version
        counts = await asyncio.to_thread(count_archetypes, self._store, MIN_EXAMPLE_WORDS)
        found = [count for kcid, count in counts.items() if kcid in self._absorber.wanted]
        self._has_enough = bool(found) and min(found) >= self._settings.learn.learning_archetypes

    async def _finish_learning(self, why: str) -> None:
        self._is_finishing = True
        self._teacher.change_settings(settings_in(Phase.HARVESTING, self._settings))
        before = self._teacher.version
        changes = await self._teacher.teach_itself("the learning phase is over")
        changes_votes = settings_in(Phase.LEARNING, self._settings) != settings_in(Phase.HARVESTING, self._settings)
        if changes_votes and self._teacher.version == before:  # combine votes differently from now on
            await self._teacher.retrain(TrainingCause(TrainingReason.HARVEST))
        if not changes.added:
            self._absorber.notice("phase", "no archetypes were found while learning", _MORE)
        if self._settings.learn.pause:
            self._enter(Phase.PAUSED, f"learning is over: {why}; waiting for you", PAUSED)
            self._end(PAUSED)
            return
        self._absorber.notice("phase", f"learning is over: {why}")
        await self._harvest()

    async def _harvest(self) -> None:
        await self._distiller.distill_now()
        waiting = await asyncio.to_thread(count_queued, self._store)
        await self._change_order()
        tiers = self._absorber.frontier.tiers  # some were found since: counting too many does no harm
        tiers.set_cold_counts({topic: max(waiting.get(topic, 0), cold) for topic, cold in tiers.cold.items()})
        urls = await self._distiller.restart_from_hubs(RESTART_HUBS)
        self._resumes = False
        self._enter(Phase.HARVESTING, f"harvesting: {urls:,} URLs recommended by the best hubs come first")

    def _enter(self, phase: Phase, text: str, remedy: str = "") -> None:
        self.phase = phase
        self._absorber.counters.advance(phase=phase)
        self._absorber.notice("phase", text, remedy)

    def _over(self, error: BaseException | None) -> None:
        if error is not None:
            self._end(f"the harvesting phase could not begin: {describe_error(error)}")

    async def close(self, at_once: asyncio.Event) -> None:
        """Wait for a change of phase under way; if it is cancelled, the next crawl makes it again."""
        await self._slot.finish(at_once, self._cancel)

    def _cancel(self) -> None:
        self._distiller.cancel()
        self._slot.cancel()


_MORE = "Give more examples (opilio topics add), or let it learn longer (learn.learning_pages, learning_time_s)."
