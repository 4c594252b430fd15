"""The refresher: visits stored pages again when they are due, so that a standing crawl keeps a collection fresh.

With `revisit.keep_fresh` a crawl does not end when no URL is queued. The refresher queues stored pages that are due
(`opilio.store.revisits`), the best hubs first, a few at a time: ahead of everything that is queued, but while there are
new URLs, revisits are at most `revisit.share` of the latest requests. They are requests like all others: polite,
conditional, and committed with the batches. New links that they bring are queued as always.

An origin that was given up as bad is tried again after `revisit.bad_host_s`, first by one URL. If it responds, all its
URLs that were given up are queued again. If it fails, it is bad again, and tried again after twice the time.

A page that is queued again is waiting in the database, too, before it is leased. So a crawl that is killed takes it up
again, and one that has ended visits it once more when it goes on.

Hub scores come from the link analysis. A crawl that makes none by itself (`frontier.distill_after` is 0) makes one here
before the first revisits, and whenever the collection has doubled since.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

from opilio.crawl.absorb import Absorber
from opilio.crawl.background import BackgroundTask, TaskSlot
from opilio.crawl.commits import LinkContexts
from opilio.crawl.distiller import Distiller
from opilio.errors import describe_error
from opilio.frontier import HostState, Origin, QueuedUrl
from opilio.model import Outcome, UrlState
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.revisits import DuePage, OriginKey, Upcoming, due_pages, upcoming
from opilio.store.urls import FIRST_PRIORITY
from opilio.topics.hierarchy import ROOT

MAX_QUEUED = 100
"""Revisits that are queued at a time: enough for many hosts at once, few enough to follow the order of the hubs."""
MIN_LOOK_S, FULL_LOOK_S, MAX_LOOK_S = 0.1, 1.0, 60.0
"""Time between two looks for due pages, each of which commits a batch and queries the database: at least, when there is
no room for those that are due, and at most."""
WINDOW_REQUESTS = 1000
"""The share of revisits holds over this many of the latest requests: a long crawl must owe neither revisits nor visits
from long ago."""
ALL_URLS = 2**31 - 1
NOTICE = "revisit"


class RevisitShare:
    """How many revisits may be queued, so that they are at most a share of the latest requests."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._recent: deque[tuple[int, int]] = deque()
        """Revisits that were queued: after how many requests, and how many."""

    def room(self, requests: int) -> int:
        """How many may be queued after so many requests."""
        while self._recent and self._recent[0][0] <= requests - WINDOW_REQUESTS:
            self._recent.popleft()
        return int(self._share * min(requests, WINDOW_REQUESTS)) - sum(count for _, count in self._recent)

    def queue(self, count: int, requests: int) -> None:
        """So many were queued after so many requests."""
        self._recent.append((requests, count))


class Refresher(BackgroundTask):
    """Queues stored pages that are due, when the crawl should keep its collection fresh."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        absorber: Absorber,
        commit: Callable[[], Awaitable[None]],
        distiller: Distiller,
        link_contexts: LinkContexts,
        find_queued: Callable[[], object],
        take_up_origins: Callable[[Sequence[OriginKey], int], Awaitable[None]],
    ) -> None:
        """`commit` writes all that was absorbed; `link_contexts` gives those of URLs, for the classifier; `find_queued`
        takes up URLs that the user has queued by SQL, for which a crawl looks when nothing else is left;
        `take_up_origins` queues URLs of origins that were given up with them, a number of each."""
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._commit = commit
        self._distiller = distiller
        self._link_contexts = link_contexts
        self._find_queued = find_queued
        self._take_up_origins = take_up_origins
        self._on_probation: set[OriginKey] | None = None
        """Origins that were bad and are tried again; None before the first look."""
        self._slot = TaskSlot(self._end)
        self._look_at_s = 0.0
        self._queued: set[int] = set()
        self._share = RevisitShare(settings.revisit.share)
        self._requests_before = absorber.counters.counts["requests"]
        self.upcoming = Upcoming()
        """What is due, and what is next, as of the latest look."""

    @property
    def is_busy(self) -> bool:
        """A crawl that keeps its collection fresh always has something to do, if only later."""
        return self._settings.revisit.keep_fresh

    def look(self) -> None:
        """Start to look for due pages when it is time, and few are queued."""
        if not self._settings.revisit.keep_fresh or self._slot.is_busy or time.monotonic() < self._look_at_s:
            return
        is_open = self._absorber.ledger.is_open
        self._queued = {oid for oid in self._queued if is_open(oid)}
        if len(self._queued) <= MAX_QUEUED // 2 and not self._absorber.frontier.tiers.holds_back:
            self._slot.start(self._queue_due())

    async def close(self, at_once: asyncio.Event) -> None:
        """Finish a look under way."""
        await self._slot.finish(at_once, self._cancel)

    def _cancel(self) -> None:
        self._distiller.cancel()
        self._slot.cancel()

    async def _queue_due(self) -> None:
        was_idle = self._is_idle
        await self._commit()
        if was_idle and self._is_idle:  # so the commit has all that was absorbed
            self._find_queued()
        if self._should_distill:
            await self._distiller.distill_now(raises=False)
        now_s, settings = time.time(), self._settings.revisit
        await self._retry_origins(now_s)
        without = self._closed_origins()
        pages = await asyncio.to_thread(due_pages, self._store, settings, now_s, self._room(), without)
        contexts = await asyncio.to_thread(self._link_contexts, [page.oid for page in pages])
        urls = self._reopen(pages, contexts)
        if urls:
            await self._commit()  # so that the database has them before they are leased
            self._push(urls)
        self.upcoming = await asyncio.to_thread(upcoming, self._store, settings, now_s, without)
        self._look_at_s = time.monotonic() + self._wait_s(now_s, bool(urls))

    async def _retry_origins(self, now_s: float) -> None:
        """Try bad origins again whose time has come, and queue the URLs of those that respond again."""
        frontier, host_tries = self._absorber.frontier, self._settings.fetch.host_tries
        tried, responding, on_probation = [], [], set()
        for host in frontier.hosts:
            for origin in host.origins.values() if host.rejection is None else ():
                key = (host.sid, origin.scheme)
                if origin.state is HostState.BAD and now_s >= self._retry_s(origin):
                    origin.change(HostState.SLOW, max(origin.failures, host_tries), origin.problem)
                    self._absorber.ledger.changed_hosts.add(host.sid)
                    tried.append(key)
                elif origin.state is HostState.OK and (self._on_probation is None or key in self._on_probation):
                    responding.append(key)  # in the first look all: the last run may have ended in between
                if origin.state is HostState.SLOW and origin.failures >= host_tries:
                    on_probation.add(key)
        self._on_probation = on_probation
        for keys, limit in ((tried, 1), (responding, ALL_URLS)):
            if keys:
                await self._take_up_origins(keys, limit)

    def _retry_s(self, origin: Origin) -> float:
        """When a bad origin is tried again."""
        settings, failures = self._settings.revisit, origin.failures - self._settings.fetch.host_tries
        return origin.host.next_s + min(settings.max_s, settings.bad_host_s * 2.0 ** min(max(0, failures), 64))

    def _closed_origins(self) -> list[OriginKey]:
        """The origins from which nothing can be fetched now."""
        hosts = self._absorber.frontier.hosts
        rejected = [(host.sid, scheme) for host in hosts if host.rejection for scheme in ("http", "https")]
        bad = [(host.sid, one.scheme) for host in hosts for one in host.origins.values() if one.state is HostState.BAD]
        return rejected + bad

    @property
    def _is_idle(self) -> bool:
        return not self._absorber.frontier.waiting and not self._absorber.frontier.in_flight

    @property
    def _should_distill(self) -> bool:
        counters = self._absorber.counters
        if self._settings.frontier.distill_after or not counters.pages:
            return False
        return counters.pages >= 2 * counters.progress.pages_at_analysis

    def _room(self) -> int:
        """How many more pages may be queued now. The share counts only while there is other work for the network."""
        tiers, room = self._absorber.frontier.tiers, MAX_QUEUED - len(self._queued)
        new = tiers.hot + sum(tiers.cold.values()) - len(self._queued)
        if new > 0 and self._absorber.frontier.in_flight:
            room = min(room, self._share.room(self._requests))
        return room

    @property
    def _requests(self) -> int:
        """Requests of this run."""
        return self._absorber.counters.counts["requests"] - self._requests_before

    def _wait_s(self, now_s: float, has_queued: bool) -> float:
        """Until the next page is due. Pages that are visited from now on are not due before the shortest interval."""
        settings = self._settings.revisit
        if self.upcoming.due:  # more than there was room for
            return MIN_LOOK_S if has_queued else FULL_LOOK_S
        wait_s = min(MAX_LOOK_S, settings.first_s, settings.min_s)
        if self.upcoming.later_s is not None:
            wait_s = min(wait_s, self.upcoming.later_s - now_s)
        return max(MIN_LOOK_S, wait_s)

    def _reopen(self, pages: Sequence[DuePage], contexts: dict[int, tuple[str, bytes]]) -> list[QueuedUrl]:
        frontier, ledger, urls = self._absorber.frontier, self._absorber.ledger, []
        for place, page in enumerate(pages):
            if ledger.is_open(page.oid):
                continue
            topic = page.topic if page.topic in frontier.tiers.queues else ROOT
            host = frontier.hosts[page.sid]
            url = QueuedUrl(page.oid, page.url, host, topic, page.depth, page.relevance, page.hops)
            url.priority = FIRST_PRIORITY - place
            url.etag, url.last_modified, url.stored_s = page.etag, page.last_modified, page.stored_s
            url.anchor, url.neighbours = contexts.get(page.oid, ("", b""))
            ledger.reopen(page.oid)
            ledger.recrawls.add(page.oid)
            ledger.change(url, UrlState.WAITING, Outcome(page.outcome), page.lastvisited_s)
            urls.append(url)
        return urls

    def _push(self, urls: Sequence[QueuedUrl]) -> None:
        """Queue the URLs, unless a refill has brought them into memory meanwhile."""
        frontier, ledger = self._absorber.frontier, self._absorber.ledger
        for url in urls:
            is_there = frontier.tiers.is_hot(url.oid) or frontier.is_taken(url.oid)
            if ledger.is_open(url.oid) and not is_there:
                frontier.tiers.push(url)
            self._queued.add(url.oid)
        self._share.queue(len(urls), self._requests)

    def _end(self, error: BaseException | None) -> None:
        if error is not None and not self._slot.is_cancelled:
            self._look_at_s = time.monotonic() + MAX_LOOK_S
            remedy = f"It is tried again in {MAX_LOOK_S:g} s."
            self._absorber.notice(NOTICE, f"no page could be queued again: {describe_error(error)}", remedy)
