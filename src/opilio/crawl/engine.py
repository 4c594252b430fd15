"""The engine: the one loop in which leases go out, visits come in, and batches are committed.

It never waits for the network: workers do that. It never waits for the database either, but for two cases: a batch that
is full while the one before it is still being written, and the end of the crawl.
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
from opilio.crawl.background import BackgroundTask
from opilio.crawl.distiller import Distiller
from opilio.crawl.forwarding import HandOver
from opilio.crawl.indexer import Indexer
from opilio.crawl.keeping import Keeping
from opilio.crawl.phases import Phases, phase_at_start, settings_in
from opilio.crawl.shipping import Shipper
from opilio.crawl.status import PHASE, Status
from opilio.crawl.steering import Steering
from opilio.crawl.teacher import Teacher
from opilio.crawl.watcher import Watcher
from opilio.crawl.worker_pool import Workers
from opilio.errors import OpilioError, QueryError, StoreError
from opilio.frontier import AllEvidence, HostState, Strategy, make_strategy
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.reading import MAX_CHARS

REST = 3.0  # a strategy is told of pages for a quarter of the time: Python's lock is the loop's for the rest
TICK_S = 0.25  # the loop looks at limits and the display at least this often
GRACE_S = 10.0  # how long a stopping crawl waits for requests under way


class Engine(Keeping):
    """One run of a crawl."""

    def __init__(
        self, settings: Settings, store: Store, absorber: Absorber, workers: Workers, topic_names: dict[int, str]
    ) -> None:
        super().__init__(settings, store, absorber)
        self.workers = workers
        self.topic_names = topic_names
        self.folder = str(store.path.parent)
        self._started_s = time.monotonic()
        self._started_epoch_s = time.time()
        self._elapsed_before_s = self.counters.counts["elapsed_ms"] / 1000
        self._ticked_s = 0.0
        self._stop_now = asyncio.Event()
        commit = functools.partial(self.commit, wait=True)
        self.teacher = Teacher(
            settings_in(phase_at_start(settings, self.counters.counts[PHASE]), settings),
            store, absorber, workers, commit, self.order_anew,
        )  # fmt: skip
        self.distiller = Distiller(settings, store, absorber, commit, self.teacher.ways_to)
        self.watcher = Watcher(settings, store, absorber, commit, self.end)
        self.phases = Phases(settings, store, absorber, self.teacher, self.distiller, self.order_by_settings, self.end)
        self.steering = Steering(store, absorber, commit, self._let_refill_end)
        self.companions: list[BackgroundTask] = [self.teacher, self.distiller, self.watcher, self.phases, self.steering]
        self.companions += [kind(settings, store, absorber, commit) for kind in (Indexer, Shipper, HandOver)]

    # -- running

    async def run(self, on_tick: Callable[[Status], object]) -> str:
        """Crawl until a limit is reached, the frontier is empty or `stop` is called. Returns the reason."""
        await self.workers.start()
        try:
            while not self.reason:
                for companion in self.companions:
                    companion.look()
                may_wait = self._lease()
                self._tick(on_tick)
                await self._absorb_visits(may_wait)
                await self._keep_store()
                await self._check_end()
            await self._finish_requests(on_tick)
        finally:
            for companion in self.companions:
                await companion.close(self._stop_now)
            await self.workers.close()
            if self._refill is not None:  # not cancelled: the write that it may be waiting for would go with it
                self.store.cancel_queries()
                await asyncio.gather(self._refill, return_exceptions=True)
            await self._close_store()
        on_tick(self.status())
        return self.reason

    def stop(self, reason: str) -> None:
        """End the crawl: first call, when the requests under way are done; second call, at once.

        Workers that are not ready yet are not waited for: a cluster may take long to answer, or never do so.
        """
        if self.reason:
            self._stop_now.set()
        self.reason = self.reason or reason
        self.workers.give_up()

    def end(self, reason: str) -> None:
        """End the crawl, unless it ends already."""
        self.reason = self.reason or reason

    def _lease(self) -> bool:
        """Hand out what may be asked now; whether there was room for more."""
        if any(companion.holds for companion in self.companions):
            return False
        room = self.settings.fetch.in_flight - self.frontier.in_flight
        max_pages = self.settings.limits.max_pages
        if max_pages:
            room = min(room, max_pages - self.counters.pages - len(self.frontier.leased))
        if room > 0:
            leases = self.frontier.take(self._now_s(), room)
            if leases:
                self.workers.submit(leases)
        return room > 0

    async def _absorb_visits(self, until_event: bool = False) -> None:
        """Take in the visits that ended; wait for one, at most until a host may be asked when that matters."""
        timeout_s = TICK_S
        event_s = self.frontier.next_event_s()
        if until_event and event_s is not None:
            timeout_s = min(timeout_s, max(0.0, event_s - self._now_s()) + 0.001)
        visits = await self.workers.visits(timeout_s)
        for visit in visits:
            if visit.fatal:
                raise StoreError(visit.fatal, "What is committed is safe: make room, then crawl on.")
        if visits:
            self.absorber.absorb_all(visits, self._now_s())

    async def _check_end(self) -> None:
        limits = self.settings.limits
        if limits.max_pages and self.counters.pages >= limits.max_pages:
            self.reason = f"page limit reached ({limits.max_pages:,})"
        elif limits.max_time_s and self.elapsed_s >= limits.max_time_s:
            self.reason = f"time limit reached ({limits.max_time_s:g} s)"
        elif limits.max_bytes and self.counters.counts["bytes"] >= limits.max_bytes:
            self.reason = f"byte limit reached ({limits.max_bytes:,})"
        elif self._has_nothing_to_do():
            for companion in self.companions:  # what came last may be the one page too many that they waited for
                companion.look()
            await self.commit(wait=True)
            if self._has_nothing_to_do() and not self._find_waiting():
                self.reason = "frontier empty: every URL found was asked for or refused"

    def _has_nothing_to_do(self) -> bool:
        nothing_waits = not self.frontier.in_flight and not self.frontier.waiting and self._refill is None
        return nothing_waits and not any(companion.is_busy for companion in self.companions)

    def _find_waiting(self) -> bool:
        """Whether the database has URLs that wait, though the frontier has none: the last look before the end."""
        waiting: Counter[int] = Counter()
        for piece in self.store.stream("SELECT oid, topic FROM crawl WHERE state = 'waiting'"):
            for oid, topic in zip(*(column.to_pylist() for column in piece.columns), strict=True):
                if topic in self.frontier.queues:
                    waiting[topic] += 1
                    self.absorber.reopen(oid)  # settled, but the user let it wait again by SQL
        self.frontier.wait_in_database(waiting)
        return bool(waiting)

    async def _finish_requests(self, on_tick: Callable[[Status], object]) -> None:
        """Take in what is under way, so that no answer is thrown away."""
        deadline_s = time.monotonic() + GRACE_S
        while self.frontier.in_flight and time.monotonic() < deadline_s and not self._stop_now.is_set():
            await self._absorb_visits()
            self._tick(on_tick)

    def _tick(self, on_tick: Callable[[Status], object]) -> None:
        now_s = time.monotonic()
        if now_s - self._ticked_s >= TICK_S:
            self._ticked_s = now_s
            if on_tick(self.status()) is False:
                self.stop("stopped by its caller")

    def _now_s(self) -> float:
        """Seconds since the epoch by a clock that nobody sets back while we run."""
        return self._started_epoch_s + time.monotonic() - self._started_s

    @property
    def elapsed_s(self) -> float:  # type: ignore[override]  # read only
        """Seconds of crawling, earlier runs included and pauses left out."""
        return self._elapsed_before_s + time.monotonic() - self._started_s - self.steering.paused_s

    # -- control

    async def change_strategy(self, strategy: Strategy) -> None:
        """Order the frontier another way from now on. One that learns is told first what is known."""
        if strategy.uses_sql:
            self.store.check_order_by(strategy.order_by)
        if strategy.uses_words:
            self.workers.send_link_words()
        await self._tell(strategy)
        self.frontier.change_strategy(strategy)
        self.counters.add("policy changes")

    async def order_by_settings(self) -> None:
        """Order as the settings say, those that the user chooses meanwhile included."""
        chosen = None
        while chosen is not self.settings.frontier:
            chosen = self.settings.frontier
            await self.change_strategy(make_strategy(chosen))

    async def order_anew(self) -> None:
        """Pages were judged anew. A strategy that can puts right what it has learned; for others all that waits is
        taken from the database again, with its new relevance."""
        before = self.frontier.strategy
        if isinstance(before, AllEvidence):
            seen = before.evidence.pages_seen()
            try:
                await self.commit(wait=True)
                judged, keywords = await asyncio.to_thread(learn.read_anew, self.store, self.settings, before, seen)
            except BaseException:
                before.evidence.never_mind()
                raise
            before.judge_anew(judged, keywords)
            return
        strategy = make_strategy(self.settings.frontier) if before.learns else copy.copy(before)
        await self._tell(strategy)
        if self.frontier.strategy is before:  # else the user has chosen another meanwhile
            self.frontier.change_strategy(strategy)

    async def _tell(self, strategy: Strategy) -> None:
        """Tell a strategy that learns what the topics are about, and of the pages that are stored."""
        if not strategy.learns:
            return
        told: set[int] = set()
        await self.commit(wait=True)
        await asyncio.to_thread(learn.brief_from, self.store, self.settings, strategy)
        rest = 0.0 if self.reason or self.settings.learn.synchronous else REST
        remember = functools.partial(learn.remember, rest=rest, goes_on=lambda: not self._is_hurried)
        for _ in range(2):  # the second time, of the few that came during the first
            await asyncio.to_thread(remember, self.store, strategy, told)
            await self.commit(wait=True)

    @property
    def _is_hurried(self) -> bool:
        return self._stop_now.is_set()

    def query(self, sql: str, *, write: bool, timeout_s: float) -> Any:
        """Answer a statement of the user's; called from another thread."""
        try:
            return self.store.query(sql, write=write, timeout_s=timeout_s, max_chars=MAX_CHARS)
        except OpilioError:
            raise
        except Exception as error:
            raise QueryError(f"{type(error).__name__}: {error}") from error

    def status(self) -> Status:
        """The figures of this moment."""
        counters, frontier, limits = self.counters, self.frontier, self.settings.limits
        rate = counters.pages_per_s()
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
            pages=counters.pages,
            fetched_bytes=counters.counts["bytes"],
            urls=len(frontier.known),
            waiting=frontier.waiting,
            hot=frontier.hot,
            in_flight=frontier.in_flight,
            hosts=len(frontier.hosts),
            slow_hosts=frontier.host_states[HostState.SLOW],
            bad_hosts=frontier.host_states[HostState.BAD],
            elapsed_s=self.elapsed_s,
            pages_per_s=rate,
            harvest=counters.harvest,
            harvest_history=counters.harvest_history,
            outcomes=counters.outcomes(),
            counters=dict(counters.counts),
            strategy=self.settings.frontier.strategy,
            order_by=frontier.strategy.order_by,
            topics={name: frontier.waiting_of(topic) for topic, name in self.topic_names.items()},
            eta_s=eta_s,
            limit=limit,
            reason=self.reason,
            model=self.teacher.note,
            notices=list(self.absorber.notices),
            recall=self.watcher.recall,
            paused=self.steering.holds,
            boosts=dict(frontier.boosts),
        )
