"""Steering a running crawl: pause it, lock a host, boost a host, claim a URL of another part, follow more links.

A pause stops new leases only: requests under way are finished, and the background tasks go on. It ends with the crawl.
A lock is a setting (`scope.locked_domains`, `scope.locked_urls`): the queued URLs that it covers are dropped, and
queued again once the lock is taken back. A boost lasts as long as the crawl; priorities stay what they are, and count
for more when turns are given out. Which URLs are queued in the database is changed by `store/urls.py`.

Locks, boosts, claims and links followed later move URLs between the database and memory. No refill may run at the same
time: it would bring URLs as they were before. So a change waits for the refill under way, and none begins until it is
made (`is_changing`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from opilio.crawl.absorb import Absorber
from opilio.crawl.background import BackgroundTask
from opilio.errors import InputError
from opilio.frontier import QueuedUrl, ScopeFilter, Strategy
from opilio.model import Judgement, Outcome, UrlState, host_of, normalize
from opilio.model.url import host_name
from opilio.settings import ScopeSettings
from opilio.store import Store
from opilio.store.revisits import OriginKey
from opilio.store.urls import (
    UnfollowedPage,
    claim,
    count_queued_of_hosts,
    drop_locked,
    elsewhere,
    follow_links_of,
    requeue_pages,
    requeue_unlocked,
    take_up_origins,
    unfollowed_pages,
)

NOTICE = "steering"
CLAIMED = "URLs of other parts that the user named"
FOUND_AGAIN = "pages queued again after they were forgotten"
FOLLOWED = "links followed later"
TAKEN_UP = "URLs of bad hosts tried again"
MAX_BOOST = 1000.0
FAR_STEPS = 2**15
"""Of a page whose path is not known any more: it is followed for its own sake or not at all."""


def name_of_host(text: str) -> str:
    """A host as a user writes it, or that of a URL, in the form in which scopes name it: without a port."""
    url = normalize(text.strip() if "://" in text else f"http://{text.strip()}")
    if not url:
        raise InputError(f"{text!r} is not the name of a host", "For example: www.example.org")
    return host_name(host_of(url))


def relock_offline(store: Store, scope: ScopeSettings) -> dict[str, int]:
    """Apply locks to the database of a collection in which no crawl runs."""
    locks = ScopeFilter(ScopeSettings(scope.locked_domains, scope.locked_urls))  # other limits are for the next crawl
    closed: list[int] = []
    opened: list[int] = []
    for host in store.load_hosts():
        (closed if locks.rejection(host.host) is Outcome.LOCKED else opened).append(host.sid)
    starts = [start for some in locks.locked_urls.values() for start in some]
    return {
        "dropped": len(drop_locked(store, closed, starts)),
        "taken_up": len(requeue_unlocked(store, opened, starts)),
    }


class Steering(BackgroundTask):
    """The background task that carries out what the user wants of a running crawl."""

    def __init__(
        self,
        store: Store,
        absorber: Absorber,
        commit: Callable[[], Awaitable[None]],
        refill_ended: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._absorber = absorber
        self._frontier = absorber.frontier
        self._commit = commit
        self._refill_ended = refill_ended
        self._one = asyncio.Lock()
        self._paused_at_s: float | None = None
        self._paused_s = 0.0
        self.is_changing = False

    # -- as a background task

    @property
    def is_busy(self) -> bool:
        """A change may give the crawl work."""
        return self.is_changing

    @property
    def pauses_fetching(self) -> bool:
        """Nothing is fetched during a pause."""
        return self._paused_at_s is not None

    def look(self) -> None:
        """Do nothing: changes come from the user only."""

    async def close(self, at_once: asyncio.Event) -> None:
        """Finish a change under way."""
        async with self._one:
            pass

    # -- pausing

    @property
    def paused_s(self) -> float:
        """Seconds of this run during which the crawl was paused."""
        now_s = 0.0 if self._paused_at_s is None else time.monotonic() - self._paused_at_s
        return self._paused_s + now_s

    def pause(self) -> dict[str, Any]:
        """Start no new requests."""
        if self._paused_at_s is None:
            self._paused_at_s = time.monotonic()
            self._absorber.notice(NOTICE, "paused")
        return {"paused": True, "in_flight": self._frontier.in_flight}

    def resume(self) -> dict[str, Any]:
        """Start requests again."""
        if self._paused_at_s is not None:
            self._paused_s, self._paused_at_s = self.paused_s, None
            self._absorber.notice(NOTICE, "resumed")
        return {"paused": False, "in_flight": self._frontier.in_flight}

    # -- hosts

    async def relock(self, domains: Sequence[str], urls: Sequence[str], said: str) -> dict[str, int]:
        """Lock these domains, and URLs that begin so, and no others. Requests under way are finished."""
        async with self._changing():
            counted = self._absorber.counters.counts
            before = counted[f"outcome:{Outcome.LOCKED}"]
            closed, opened = self._frontier.lock(domains, urls)
            starts = [url.partition("://")[2] for url in urls]
            await self._commit()
            dropped = await asyncio.to_thread(
                drop_locked, self._store, [host.sid for host in closed], starts, list(self._frontier.leased)
            )
            self._forget(dropped)
            again = await asyncio.to_thread(requeue_unlocked, self._store, [host.sid for host in opened], starts)
            self._reopen(again, "URLs taken up again after a host was unlocked")
            self._absorber.notice(NOTICE, said)
            return {"dropped": counted[f"outcome:{Outcome.LOCKED}"] - before, "taken_up": len(again)}

    async def claim(self, urls: Sequence[str]) -> None:
        """Queue those of some URLs that were left to another part of the collection: the user has named them."""
        if not await asyncio.to_thread(elsewhere, self._store, urls):
            return
        async with self._changing():
            await self._commit()
            claimed = await asyncio.to_thread(claim, self._store, urls)
            for _, topic in claimed:
                self._frontier.add_topic(topic)  # it may be younger than the crawl
            self._reopen([(oid, topic, False) for oid, topic in claimed], CLAIMED)

    async def fetch_again(self, oids: Sequence[int]) -> None:
        """Queue stored pages that the crawl has forgotten and found again."""
        async with self._changing():
            await self._commit()
            again = await asyncio.to_thread(requeue_pages, self._store, oids)
            self._reopen([(oid, topic, True) for oid, topic in again], FOUND_AGAIN)

    async def take_up_origins(self, origins: Sequence[OriginKey], limit: int) -> None:
        """Queue what was given up together with some origins, at most `limit` URLs of each."""
        async with self._changing():
            await self._commit()
            again = await asyncio.to_thread(take_up_origins, self._store, origins, limit)
            self._reopen(again, TAKEN_UP)

    async def follow_links(self, strategy: Strategy) -> int:
        """Queue links that were not followed, of pages whose links a strategy follows as they are judged now.

        Returns how many. So a crawl with a hard focus that ran dry goes on once another topic is wanted (Focus 3.7).
        """
        ledger = self._absorber.ledger
        if not ledger.states.not_followed:
            return 0
        await self._commit()
        pages = await asyncio.to_thread(unfollowed_pages, self._store)
        chosen = [page.oid for page in pages if self._follows(strategy, page)]
        if not chosen:
            return 0
        async with self._changing():
            await self._commit()
            again = await asyncio.to_thread(follow_links_of, self._store, chosen)
            for _, _, url, sid in again:
                self._frontier.traps.count(url, sid)
            self._reopen([(oid, topic, False) for oid, topic, _, _ in again], FOLLOWED)
            return len(again)

    def _follows(self, strategy: Strategy, page: UnfollowedPage) -> bool:
        host = self._frontier.hosts[self._absorber.ledger.sids[page.oid]]
        url = QueuedUrl(page.oid, "", host, page.kcid, 0, page.relevance)
        url.steps = FAR_STEPS
        judgement = Judgement(topic=page.kcid, accepted=page.accepted, relevance=page.relevance)
        return strategy.follows(url, judgement)

    async def boost(self, host: str, factor: float) -> dict[str, int]:
        """Give a host, and all below it, an earlier turn; how many of its URLs are queued."""
        if not 1.0 <= factor <= MAX_BOOST:
            raise InputError(
                f"a host cannot be boosted by {factor:g}",
                f"Give a factor between 1, which takes it back, and {MAX_BOOST:g}.",
            )
        async with self._changing():
            touched = self._frontier.boost(host, factor)
            await self._commit()
            sids = [host.sid for host in touched]
            queued = await asyncio.to_thread(count_queued_of_hosts, self._store, sids)
            self._absorber.notice(NOTICE, f"{host} boosted by {factor:g}" if factor > 1 else f"{host} boosted no more")
            return {"waiting": queued}

    @property
    def first(self) -> str:
        """The beginning of the ORDER BY of a refill: URLs of boosted hosts are brought into memory first."""
        sids = [str(host.sid) for host in self._frontier.hosts if host.boost > 1] if self._frontier.boosts else []
        return f"sid NOT IN ({', '.join(sids)}), " if sids else ""

    @contextlib.asynccontextmanager
    async def _changing(self) -> AsyncIterator[None]:
        async with self._one:
            self.is_changing = True
            try:
                await self._refill_ended()
                yield
            finally:
                self.is_changing = False

    def _forget(self, dropped: Iterable[tuple[int, int]]) -> None:
        """Settle URLs that were dropped in the database, where they were queued."""
        states, frontier = self._absorber.ledger.states, self._frontier
        for oid, topic in dropped:
            if states[oid] is UrlState.WAITING and not frontier.tiers.is_hot(oid) and not frontier.is_taken(oid):
                states.change(oid, UrlState.DROPPED)
                frontier.tiers.forget_cold(topic)
                frontier.tiers.settle(oid, Outcome.LOCKED, None)
                self._absorber.counters.outcome(Outcome.LOCKED)

    def _reopen(self, again: Iterable[tuple[int, int, bool]], counter: str) -> None:
        """Reopen URLs that are queued in the database again: oid, topic, and whether the page of each is stored."""
        topics = []
        for oid, topic, is_stored in again:
            self._absorber.ledger.reopen(oid)
            if is_stored:
                self._absorber.ledger.recrawls.add(oid)
            topics.append(topic)
        if topics:
            self._frontier.requeue(topics)
            self._absorber.counters.add(counter, len(topics))
