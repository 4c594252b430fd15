"""The engine: the one loop in which leases go out, visits come in, and batches are committed.

It never waits for the network: workers do that. It seldom waits for the database: `Commits` and `Refills`
(`commits.py`) write and read alongside it. The background tasks, such as the teacher and the distiller, look at the
crawl in every turn of the loop and do their work in tasks and threads of their own.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from opilio import learn
from opilio.crawl.absorb import Absorber
from opilio.crawl.asker import Answerer, Asker, Labeller
from opilio.crawl.background import BackgroundTask
from opilio.crawl.commits import Commits, Refills
from opilio.crawl.distiller import Distiller
from opilio.crawl.forgetting import Forgetting
from opilio.crawl.forwarder import Forwarder
from opilio.crawl.indexer import Indexer
from opilio.crawl.outage import OutageWatch
from opilio.crawl.phases import Phases, phase_at_start, settings_in
from opilio.crawl.pictures import PictureFinder
from opilio.crawl.refresher import Refresher
from opilio.crawl.shipping import Shipper
from opilio.crawl.status import SHOWN_SHELL_HOSTS, Status
from opilio.crawl.steering import Steering
from opilio.crawl.teacher import Teacher
from opilio.crawl.watcher import Watcher
from opilio.crawl.worker_pool import Workers
from opilio.errors import OpilioError, QueryError, StoreError
from opilio.frontier import DatabaseStrategy, HostState, LearningStrategy, LinkTextStrategy, Strategy, make_strategy
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.reader import MAX_CHARS
from opilio.store.urls import all_queued

REST = 3.0  # a thread that replays pages to a strategy works a quarter of the time: the loop needs the GIL
TICK_S = 0.25  # the loop checks limits and updates the display at least this often
GRACE_S = 10.0  # how long a crawl that stops waits for requests under way


class Engine:
    """One run of a crawl."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        absorber: Absorber,
        workers: Workers,
        topic_names: dict[int, str],
        answerer: Answerer | None = None,
        labeller: Labeller | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.absorber = absorber
        self.frontier = absorber.frontier
        self.counters = absorber.counters
        self.workers = workers
        self.topic_names = topic_names
        self.folder = str(store.path.parent)
        self.reason = ""
        """Why the crawl ends; empty while it goes on."""
        self._started_s = time.monotonic()
        self._started_epoch_s = time.time()
        self._elapsed_before_s = self.counters.counts["elapsed_ms"] / 1000
        self._ticked_s = 0.0
        self._stop_now = asyncio.Event()
        self._is_interrupted = False
        self._is_stopped = False
        self.commits = Commits(settings.store, store, absorber, lambda: self.elapsed_s)
        commit = self.commit
        self.teacher = Teacher(
            settings_in(phase_at_start(settings, self.counters.progress.phase), settings),
            store, absorber, workers, commit, self.reprioritise,
        )  # fmt: skip
        self.distiller = Distiller(
            settings, store, absorber, commit, self.teacher.link_contexts, lambda: self.teacher.is_busy
        )
        self.outage = OutageWatch(settings, absorber, workers, self._now_s, self.end)
        self.steering = Steering(store, absorber, commit, self._refill_ended)
        self.watcher = Watcher(settings, store, absorber, commit, self.end, self.steering.pause)
        self.asker = Asker(settings, store, absorber, commit, self.teacher, self.watcher, answerer, labeller)
        self.phases = Phases(
            settings, store, absorber, self.teacher, self.distiller, lambda: self.elapsed_s, self.order_by_settings,
            self.end,
        )  # fmt: skip
        self.refills = Refills(
            settings.frontier, store, absorber, self.commits, self.steering, self.teacher.link_contexts, self.end
        )
        self.refresher = Refresher(
            settings, store, absorber, commit, self.distiller, self.teacher.link_contexts, self._find_queued,
            self.steering.take_up_origins,
        )  # fmt: skip
        self.picture_finder = PictureFinder(settings.fetch, store, absorber.pictures, commit)
        self.background_tasks: list[BackgroundTask] = [
            self.teacher,
            self.distiller,
            self.watcher,
            self.outage,
            self.asker,
            self.phases,
            self.steering,
            self.refresher,
            self.picture_finder,
            Forgetting(settings, absorber, self.steering.fetch_again),
        ]
        self.background_tasks += [kind(settings, store, absorber, commit) for kind in (Indexer, Shipper, Forwarder)]

    # -- running

    async def run(self, on_tick: Callable[[Status], object]) -> str:
        """Crawl until a limit is reached, the frontier is empty or `stop` is called. Returns the reason."""
        await self.workers.start()
        try:
            await self.steering.follow_links(self.frontier.strategy)
            while not self.reason:
                for task in self.background_tasks:
                    task.look()
                has_free_slots = self._lease()
                self._tick(on_tick)
                await self._absorb_visits(has_free_slots)
                await self.commits.commit_when_due()
                self.refills.start_when_needed()
                await self._check_end()
            await self._finish_requests(on_tick)
            await self._train_at_last()
        finally:
            for task in self.background_tasks:
                await task.close(self._stop_now)
            await self.workers.close()
            await self.refills.close()
            await self.commits.close()
        on_tick(self.status())
        return self.reason

    async def commit(self, *, wait: bool = True) -> None:
        """Write everything that was absorbed; with `wait`, return only when it is on disk."""
        await self.commits.commit(wait=wait)

    async def _refill_ended(self) -> None:
        await self.refills.wait()

    def interrupt(self, signal_name: str) -> None:
        """End the crawl because of a signal."""
        self._is_interrupted = self._is_interrupted or not self.reason
        self.stop(f"interrupted ({signal_name})")

    def stop(self, reason: str) -> None:
        """End the crawl: first call, when the requests under way are done; second call, at once.

        It does not wait for workers that are not ready yet: a cluster may take long to respond, or never do so.
        """
        if self.reason:
            self._stop_now.set()
        self._is_stopped = True
        self.reason = self.reason or reason
        self.workers.give_up()

    def end(self, reason: str) -> None:
        """End the crawl, unless it ends already."""
        self.reason = self.reason or reason

    def _lease(self) -> bool:
        """Lease what is ready now; returns whether slots are still free."""
        if any(task.pauses_fetching for task in self.background_tasks):
            return False
        room = self.settings.fetch.in_flight - self.frontier.in_flight
        pictures = self.absorber.pictures.take(self._now_s(), room)
        if pictures:
            self.workers.submit(pictures)
            room -= len(pictures)
        max_pages = self.settings.limits.max_pages
        if max_pages:
            room = min(room, max_pages - self.counters.pages - len(self.frontier.leased))
        if room > 0:
            leases = self.frontier.take(self._now_s(), room)
            if leases:
                self.workers.submit(leases)
        return room > 0

    async def _absorb_visits(self, has_free_slots: bool = False) -> None:
        """Absorb the visits that ended; wait for one, but with free slots no longer than until a host is ready."""
        timeout_s = TICK_S
        event_s = self.frontier.next_event_s()
        if has_free_slots and event_s is not None:
            timeout_s = min(timeout_s, max(0.0, event_s - self._now_s()) + 0.001)
        visits = await self.workers.visits(timeout_s)
        for visit in visits:
            if visit.fatal:
                raise StoreError(visit.fatal, "What is committed is safe: make room, then crawl on.")
        if visits:
            self.teacher.remember(visits)
            self.outage.absorb(visits)

    async def _check_end(self) -> None:
        limits = self.settings.limits
        if limits.max_pages and self.counters.pages >= limits.max_pages:
            self.reason = f"page limit reached ({limits.max_pages:,})"
        elif limits.max_time_s and self.elapsed_s >= limits.max_time_s:
            self.reason = f"time limit reached ({limits.max_time_s:g} s)"
        elif limits.max_bytes and self.counters.counts["bytes"] >= limits.max_bytes:
            self.reason = f"byte limit reached ({limits.max_bytes:,})"
        elif self._has_nothing_to_do():
            for task in self.background_tasks:  # the last page may be the one that they waited for
                task.look()
            await self.commit()
            if self._has_nothing_to_do() and not self._find_queued():
                all_ended = "every URL found was fetched or rejected" if self.counters.pages else "no page was stored"
                self.reason = f"frontier empty: {all_ended}"

    def _has_nothing_to_do(self) -> bool:
        is_empty = not self.frontier.in_flight and not self.frontier.waiting and not self.refills.is_running
        return is_empty and not any(task.is_busy for task in self.background_tasks)

    def _find_queued(self) -> bool:
        """Whether the database has queued URLs that the frontier does not know of: the last check before the end."""
        queued: Counter[int] = Counter()
        for oid, topic in all_queued(self.store):
            if topic in self.frontier.tiers.queues:
                queued[topic] += 1
                self.absorber.ledger.reopen(oid)  # settled, but the user queued it again by SQL
        self.frontier.tiers.set_cold_counts(queued)
        return bool(queued)

    async def _finish_requests(self, on_tick: Callable[[Status], object]) -> None:
        """Absorb what is under way, so that no response is lost. Then fetch pictures, unless the crawl was stopped."""
        self.outage.stop()
        deadline_s = time.monotonic() + GRACE_S
        pictures = self.absorber.pictures
        if not self._is_stopped:
            await self.picture_finder.find()
        while time.monotonic() < deadline_s and not self._stop_now.is_set():
            if not self._is_stopped:
                room = self.settings.fetch.in_flight - self.frontier.in_flight
                self.workers.submit(pictures.take(self._now_s(), room, is_last=True))
            if not self.frontier.in_flight and (self._is_stopped or not pictures.urls):
                return
            await self._absorb_visits()
            self._tick(on_tick)

    async def _train_at_last(self) -> None:
        """A short crawl learns what it found, and does not leave that to the next one. Not if it was stopped."""
        if not self._is_stopped:
            await self.asker.take_last_hits(self._stop_now)
            self.teacher.begin_first_model()

    def _tick(self, on_tick: Callable[[Status], object]) -> None:
        now_s = time.monotonic()
        if now_s - self._ticked_s >= TICK_S:
            self._ticked_s = now_s
            if on_tick(self.status()) is False:
                self.stop("stopped by its caller")

    def _now_s(self) -> float:
        """Seconds since the epoch, by a clock that is never set back while the crawl runs."""
        return self._started_epoch_s + time.monotonic() - self._started_s

    @property
    def elapsed_s(self) -> float:
        """Seconds of crawling, earlier runs included and pauses left out."""
        return (
            self._elapsed_before_s + time.monotonic() - self._started_s - self.steering.paused_s - self.outage.paused_s
        )

    # -- control

    async def change_strategy(self, strategy: Strategy) -> None:
        """Order the frontier by another strategy from now on. One that learns first gets what is known."""
        if isinstance(strategy, DatabaseStrategy):
            self.store.check_order_by(strategy.order_by)
        if isinstance(strategy, LinkTextStrategy):
            self.workers.send_link_words()
        await self._warm_up(strategy)
        self.frontier.change_strategy(strategy)
        self.counters.add("policy changes")
        await self.steering.follow_links(strategy)

    async def order_by_settings(self) -> None:
        """Order as the settings say, also when the user changes them meanwhile."""
        chosen = None
        while chosen is not self.settings.frontier:
            chosen = self.settings.frontier
            await self.change_strategy(make_strategy(chosen))

    async def reprioritise(self) -> None:
        """Follow a re-judging. A strategy that supports it corrects what it has learned; for others all queued URLs are
        read from the database again, with their new relevance."""
        await self.steering.follow_links(self.frontier.strategy)
        before, learner = self.frontier.strategy, self.frontier.learner
        rejudging = learner.rejudging() if learner is not None else None
        if rejudging is not None:
            try:
                await self.commit()
                rejudged = await asyncio.to_thread(learn.read_rejudged, self.store, self.settings, rejudging)
            except BaseException:
                rejudging.cancel()
                raise
            rejudging.finish(rejudged)
            return
        strategy = make_strategy(self.settings.frontier) if learner is not None else copy.copy(before)
        await self._warm_up(strategy)
        if self.frontier.strategy is before:  # else the user has chosen another meanwhile
            self.frontier.change_strategy(strategy)

    async def _warm_up(self, strategy: Strategy) -> None:
        """Give a strategy that learns what is known: what the topics are about, and the pages that are stored."""
        if not isinstance(strategy, LearningStrategy):
            return
        replayed: set[int] = set()
        await self.commit()
        await asyncio.to_thread(learn.prepare_from, self.store, self.settings, strategy)
        rest = 0.0 if self.reason or self.settings.learn.synchronous else REST
        replay = functools.partial(learn.replay_pages, rest=rest, goes_on=lambda: not self._stop_now.is_set())
        for _ in range(2):  # the second time, the few that came during the first
            await asyncio.to_thread(replay, self.store, strategy, replayed)
            await self.commit()

    def query(self, sql: str, *, write: bool, timeout_s: float) -> Any:
        """Run a statement of the user; called from another thread."""
        try:
            return self.store.query(sql, write=write, settles_marks=True, timeout_s=timeout_s, max_chars=MAX_CHARS)
        except OpilioError:
            raise
        except Exception as error:
            raise QueryError(f"{type(error).__name__}: {error}") from error

    def status(self) -> Status:
        """The figures at this moment."""
        counters, frontier, limits = self.counters, self.frontier, self.settings.limits
        rate, figures = counters.pages_per_s(), self.commits.figures
        eta_s, limit = None, ""
        if limits.max_pages:
            limit = f"{limits.max_pages:,} pages"
            eta_s = max(0, limits.max_pages - counters.pages) / rate if rate else None
        elif limits.max_time_s:
            limit, eta_s = f"{limits.max_time_s:g} s", max(0.0, limits.max_time_s - self.elapsed_s)
        elif limits.max_bytes:
            limit = f"{limits.max_bytes:,} bytes"
        return Status(
            folder=self.folder,
            running=not self.reason,
            pages=figures.pages,
            fetched_bytes=counters.counts["bytes"],
            urls=len(frontier.known),
            waiting=frontier.waiting,
            hot=frontier.hot,
            in_flight=frontier.in_flight,
            hosts=len(frontier.hosts),
            slow_hosts=frontier.host_states[HostState.SLOW],
            bad_hosts=frontier.host_states[HostState.BAD],
            elapsed_s=figures.elapsed_s,
            pages_per_s=rate,
            relevant=figures.relevant,
            requests=figures.requests,
            harvest=figures.harvest,
            harvest_per_request=figures.harvest_per_request,
            harvest_per_s=figures.harvest_per_s,
            recent_harvest=counters.recent_harvest,
            recent_harvests=counters.recent_harvests,
            outcomes=counters.outcomes(),
            counters=counters.shown(),
            strategy=self.settings.frontier.strategy,
            order_by=frontier.strategy.order_by,
            topics={name: frontier.tiers.waiting_of(topic) for topic, name in self.topic_names.items()},
            eta_s=None if self.reason else eta_s,
            limit=limit,
            reason=self.reason,
            model=self.teacher.note,
            notices=list(self.absorber.ledger.notices),
            recall=self.watcher.recall,
            system=self.settings.run.system,
            phase=counters.progress.phase,
            stopped=self._is_stopped,
            interrupted=self._is_interrupted,
            paused=self.steering.pauses_fetching,
            no_network=self.outage.has_ended_crawl or (not self.reason and self.outage.pauses_fetching),
            boosts=dict(frontier.boosts),
            questions=self.asker.open,
            due_pages=self.refresher.upcoming.due,
            next_due_url=self.refresher.upcoming.next_url,
            next_due_s=self.refresher.upcoming.next_s,
            shells=dict(self.absorber.shells.most_common(SHOWN_SHELL_HOSTS)),
            shell_pages=self.absorber.shells.total(),
            reached_nothing=0 < counters.requests == counters.unreached,
        )
