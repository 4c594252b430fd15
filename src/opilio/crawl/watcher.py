"""The watcher: notices when a crawl reaches no server, stagnates, starves a topic or drifts, and ends it when a limit
says so.

The recent harvest, of the latest pages as they were judged when fetched, is watched in memory, at every turn of the
loop: over many pages, to see whether it has fallen (`harvest`), and over few, to see soon whether the crawl finds
nothing any more, or never did (`dry`). What needs the database is surveyed now and then in a thread: which topics
starve, whether accepted pages still resemble the examples, how much there may be left to find.

Each finding is reported once, and again only after it was over: a crawl close to a threshold does not repeat itself.
When the watcher has ended the crawl, it reports nothing more.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from opilio import learn
from opilio.crawl.absorb import Absorber
from opilio.crawl.background import BackgroundTask, TaskSlot
from opilio.errors import describe_error
from opilio.learn import remedies
from opilio.learn.asking import can_answer
from opilio.learn.remedies import Remedy
from opilio.settings import Settings
from opilio.store import Store

FELL_SHARE = 0.5
"""The harvest has fallen when it is less than this share of its best ..."""
RISEN_SHARE = 0.75
"""... and has risen again when it is more than this."""
FELL_ERRORS = 5.0
"""A rate hardly ever differs from the best of many by this many standard errors by chance."""
DRY_PAGES = 100
"""A crawl is dry when of this many pages ..."""
DRY_SHARE = 0.1
"""... less than this share of its best rate is relevant ..."""
DRY_EXPECTED = 15
"""... or none is, and at its best rate this many would have been since the latest. That hardly ever happens by chance:
one time in three million."""
STEPS = 20
"""The window moves by this fraction of its length at a time: one part in twenty."""
SURVEY_PAGES = 250
SURVEY_SHARE = 0.05
"""A survey is made after this many more pages, or after this share of all pages, whichever is more."""
REST = 10.0
"""After a survey, none is made for this many times as long as it took."""
SHOWN_WORDS = 6
NOTICED_REMEDIES = 3
"""A notice has so many remedies of the census, the best ones."""


@dataclass(frozen=True)
class _Fall:
    """A harvest rate that is far below its best."""

    kind: str
    """Of the notice: harvest or dry."""
    text: str


class Harvest:
    """The harvest rate over the latest pages, from two counts that only grow."""

    def __init__(self, window_pages: int) -> None:
        self.window_pages = max(1, window_pages)
        self.best = 0.0
        """Of any whole window so far."""
        self.barren_pages = 0
        """Pages since the latest relevant one."""
        self._marks: deque[tuple[int, int]] = deque([(0, 0)])
        self._found = (0, 0)  # the counts when the latest relevant page was seen

    def see(self, judged: int, relevant: int) -> tuple[float, int] | None:
        """The rate and the pages it is of, once a step has been made and a whole window been seen."""
        if relevant > self._found[1]:
            self._found = (judged, relevant)
        self.barren_pages = judged - self._found[0]
        if judged - self._marks[-1][0] < max(1, self.window_pages // STEPS):
            return None
        self._marks.append((judged, relevant))
        while judged - self._marks[1][0] >= self.window_pages:
            self._marks.popleft()
        pages = judged - self._marks[0][0]
        if pages < self.window_pages:
            return None
        rate = (relevant - self._marks[0][1]) / pages
        self.best = max(self.best, rate)
        return rate, pages

    def has_fallen(self, rate: float, pages: int) -> bool:
        """Whether the rate is less than half its best, and not by chance."""
        return self._is_below(FELL_SHARE, rate, pages)

    def is_dry(self, rate: float, pages: int) -> bool:
        """Whether nothing relevant was ever found, or hardly anything any more, and not by chance."""
        is_barren = self.barren_pages >= pages and self.best * self.barren_pages >= DRY_EXPECTED
        return self.best == 0 or is_barren or self._is_below(DRY_SHARE, rate, pages)

    def _is_below(self, share: float, rate: float, pages: int) -> bool:
        error = math.sqrt((self.best * (1 - self.best) + rate * (1 - rate)) / pages)
        return rate < share * self.best and self.best - rate > FELL_ERRORS * error


class Reported:
    """Findings that were reported and are not over."""

    def __init__(self) -> None:
        self._reported: set[Any] = set()

    def is_news(self, thing: Any, *, is_so: bool, is_over: bool) -> bool:
        """Whether to report a finding now."""
        if is_over:
            self._reported.discard(thing)
        if not is_so or thing in self._reported:
            return False
        self._reported.add(thing)
        return True


class Watcher(BackgroundTask):
    """Measures how the crawl does, and reports it in notices."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        absorber: Absorber,
        commit: Callable[[], Awaitable[None]],
        stop: Callable[[str], None],
        pause: Callable[[], object],
    ) -> None:
        """`commit` writes all that was absorbed, so that it can be read; `stop` ends the crawl, for a reason,
        unless it ends already; `pause` has it wait for the user."""
        self._settings = settings
        self._limits = settings.limits
        self._store = store
        self._absorber = absorber
        self._commit = commit
        self._stop = stop
        self._pause = pause
        self._folder = str(store.path.parent)
        self._harvest = Harvest(settings.limits.harvest_pages)
        self._latest = Harvest(min(DRY_PAGES, settings.limits.harvest_pages))
        self._reported = Reported()
        self._fall: _Fall | None = None
        self._has_ended_crawl = False
        self._slot = TaskSlot(self._end)
        self._surveyed_pages = absorber.counters.pages
        self._rest_until_s = 0.0
        self._recalled = 0
        self.recall: float | None = None
        """The latest estimate."""
        self.falls = 0
        """How often the harvest fell or dried up in this run."""

    @property
    def pauses_fetching(self) -> bool:
        """During a survey, but only when the crawl must be the same each time (`learn.synchronous`)."""
        return self._settings.learn.synchronous and self._slot.is_busy

    def look(self) -> None:
        """Watch the harvest, and start a survey when it is time."""
        counters = self._absorber.counters
        self._watch(counters.judged, counters.relevant)
        if self._has_ended_crawl or self._slot.is_busy:
            return
        if self._fall is not None or self._is_due():
            self._surveyed_pages = counters.pages
            self._slot.start(self._survey())

    async def close(self, at_once: asyncio.Event) -> None:
        """Wait for a survey under way, or cancel it."""
        await self._slot.finish(at_once, self._cancel)

    def _cancel(self) -> None:
        self._slot.is_cancelled = True
        self._store.cancel_queries()

    # -- the harvest

    def _watch(self, judged: int, relevant: int) -> None:
        seen, latest = self._harvest.see(judged, relevant), self._latest.see(judged, relevant)
        if seen is not None:
            self._watch_harvest(*seen)
        if latest is not None:
            self._watch_latest(*latest, relevant)

    def _watch_harvest(self, rate: float, pages: int) -> None:
        least = self._limits.min_harvest
        if least and rate < least:
            self._end_crawl(
                f"recent harvest {rate:.3g} of the last {pages:,} pages is below {least:g} (limits.min_harvest)",
                remedies.crawl_with("to go on", limits__min_harvest=least / 2),
            )
        best = self._harvest.best
        fallen, risen = self._harvest.has_fallen(rate, pages), rate > RISEN_SHARE * best
        if self._reported.is_news("harvest", is_so=fallen, is_over=risen):
            text = f"recent harvest fell to {rate:.2f} of the last {pages:,} pages, from {best:.2f} at its best"
            self._fall = self._fall or _Fall("harvest", text)

    def _watch_latest(self, rate: float, pages: int, relevant: int) -> None:
        harvest = self._latest
        if not self._reported.is_news(
            "dry", is_so=harvest.is_dry(rate, pages), is_over=rate > FELL_SHARE * harvest.best
        ):
            return
        if not relevant:
            text = (
                f"no relevant page is found: none of the first {harvest.barren_pages:,} pages of this run is relevant"
            )
        else:
            barren = harvest.barren_pages
            few = f"none of the last {barren:,} pages is" if barren >= pages else f"{rate:.0%} of the last {pages} are"
            text = f"hardly any relevant page is found any more: {few} relevant, against {harvest.best:.0%} at its best"
        if self._limits.when_dry == "stop":
            self._end_crawl(f"{text} (limits.when_dry)", remedies.crawl_with("to go on", limits__when_dry="go-on"))
            return
        if self._limits.when_dry == "pause":
            self._pause()
        self._fall = _Fall("dry", text)

    def _end_crawl(self, reason: str, to_go_on: Remedy) -> None:
        if not self._has_ended_crawl:
            self._has_ended_crawl = True
            self._absorber.notice("end", reason, remedies=[to_go_on.described(self._folder)])
            self._stop(reason)

    # -- what the database knows

    def _is_due(self) -> bool:
        counters = self._absorber.counters
        if not counters.judged:
            return False
        step = min(SURVEY_PAGES, max(1, self._limits.harvest_pages // 2))
        due = counters.pages - self._surveyed_pages >= max(step, SURVEY_SHARE * counters.pages)
        return due and (self._settings.learn.synchronous or time.monotonic() >= self._rest_until_s)

    async def _survey(self) -> None:
        began_s = time.monotonic()
        fall, self._fall = self._fall, None
        await self._commit()
        tiers = self._absorber.frontier.tiers
        waiting = {kcid: tiers.waiting_of(kcid) for kcid in tiers.queues}
        window = self._harvest.window_pages
        seen = await asyncio.to_thread(learn.check_health, self._store, waiting, window, self._settings.store.terms)
        if fall is not None:
            census = await asyncio.to_thread(self._take_census, window)
        if self._has_ended_crawl:  # meanwhile, by its harvest
            return
        if fall is not None:
            self._absorber.notice(
                fall.kind, fall.text + _instead(census), remedies=self._remedies_for(fall.kind, census)
            )
            self.falls += 1
        self._report_starving(seen)
        self._report_drifting(seen)
        self._judge_recall(seen)
        self._rest_until_s = time.monotonic() + REST * (time.monotonic() - began_s)

    def _take_census(self, last_pages: int) -> dict[str, Any]:
        state = learn.CrawlState(
            can_answer=can_answer(self._store, self._settings), strategy=self._settings.frontier.strategy
        )
        return learn.take_census(self._store, last_pages, state=state)

    def _remedies_for(self, kind: str, census: dict[str, Any]) -> list[dict[str, Any]]:
        stopping = [remedies.stop("end the crawl; what it found is kept")] if kind == "dry" else []
        if stopping and self._limits.when_dry == "pause":
            stopping.insert(0, remedies.resume("let it go on; it is paused until then"))
        others = [one.described(self._folder) for one in (*stopping, remedies.see_census())]
        return [*census["remedies"][:NOTICED_REMEDIES], *others]

    def _report_starving(self, seen: learn.CrawlHealth) -> None:
        starving, fed = {one.kcid for one in seen.starving}, {one.kcid for one in seen.fed}
        for share in seen.shares:
            thing = ("topic", share.kcid)
            if self._reported.is_news(thing, is_so=share.kcid in starving, is_over=share.kcid in fed):
                name = seen.names[share.kcid]
                mean = sum(one.found for one in seen.shares) / len(seen.shares)
                text = (
                    f"topic {name!r} starves: {share.found:,} of the latest relevant pages are of it ({mean:,.0f} of a "
                    f"topic on the average), {share.waiting:,} URLs wait"
                )
                remedy = remedies.more_examples(name, "few links lead to it").described(self._folder)
                self._absorber.notice("topic", text, kcid=share.kcid, remedies=[remedy])

    def _report_drifting(self, seen: learn.CrawlHealth) -> None:
        for found in seen.similarities:
            thing = ("drift", found.kcid)
            if self._reported.is_news(thing, is_so=found.drifts, is_over=found.has_recovered):
                name = seen.names[found.kcid]
                text = (
                    f"topic {name!r} drifts: the latest pages it accepted are less like its examples than the first "
                    f"were (cosine {found.latest:.3f} against {found.first:.3f})"
                )
                remedy = remedies.counter_examples(name, "show which of the latest are not meant")
                self._absorber.notice("drift", text, kcid=found.kcid, remedies=[remedy.described(self._folder)])

    def _judge_recall(self, seen: learn.CrawlHealth) -> None:
        """Adopt an estimate. One may be luck: two in a row end a crawl."""
        self.recall = seen.recall
        wanted = self._limits.recall
        self._recalled = self._recalled + 1 if wanted and (seen.recall or 0.0) >= wanted else 0
        if self._recalled >= 2:
            self._end_crawl(
                f"estimated recall {seen.recall:.2f} of what can be reached is at least {wanted:g} (limits.recall): "
                f"{seen.found:,} relevant pages found",
                remedies.crawl_with("to go on", limits__recall=0),
            )

    def _end(self, error: BaseException | None) -> None:
        if error is not None and not self._slot.is_cancelled:
            said = describe_error(error)
            self._absorber.counters.add("surveys that failed")
            if self._reported.is_news("survey", is_so=True, is_over=False):
                self._absorber.notice("survey", f"how the crawl does could not be seen: {said}")


def _instead(census: dict[str, Any]) -> str:
    """What was found instead of relevant pages, to be added to a sentence."""
    words = ", ".join(one["word"] for one in census["instead"][:SHOWN_WORDS])
    about = f"; what came instead has the words {words}" if words else ""
    near = "".join(f"; {one['pages']:,} pages are about {one['topic']!r}" for one in census["nearby"][:1])
    return about + near
