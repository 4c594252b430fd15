"""URLs that belong to another part of a divided collection, and that the user names here all the same.

A part knows URLs of other parts, with the outcome `elsewhere`, and leaves them alone (`store.dividing`). When its user
adds one as a seed or an example, the user's word counts: it waits here from then on, like any seed.

Steering a crawl by hand: pause it, lock a host, let a host have its turn sooner, claim a URL of another part.

A pause stops leases only: requests under way come to their ends, and the companions go on. It ends with the crawl.
A lock is a setting (`scope.locked_domains`): URLs that wait there are dropped, and wait again once it is taken back.
A boost lasts as long as the crawl; priorities stay what they are, and count for more when turns are given out.

Locks, boosts and claims move URLs between the database and memory. No refill may run beside that: it would bring URLs
by what it read before. So the one under way is waited for, and none begins until the change is made (`is_changing`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from opilio.crawl.absorb import Absorber
from opilio.crawl.ledger import OPEN, SETTLED
from opilio.errors import InputError
from opilio.frontier import ScopeFilter
from opilio.model import Outcome, host_of, normalize
from opilio.model.url import host_name
from opilio.settings import ScopeSettings
from opilio.store import Store, states

_ELSEWHERE = f"""
    SELECT c.oid, coalesce(t.kcid, s.kcid, c.topic)
    FROM crawl c
    LEFT JOIN (SELECT name, arg_max(kcid, rowid) AS kcid FROM training WHERE kind = 'url' GROUP BY name) t
        ON t.name = c.url
    LEFT JOIN (SELECT url, arg_max(kcid, rowid) AS kcid FROM seeds GROUP BY url) s ON s.url = c.url
    WHERE c.outcome = '{Outcome.ELSEWHERE}' AND c.url IN (SELECT unnest(?::VARCHAR[]))
"""


def elsewhere(store: Store, urls: Sequence[str]) -> list[tuple[int, int]]:
    """Those of some URLs that are left to another part: oid of each, and the topic for which the user named it."""
    return [(oid, topic) for oid, topic in store.query(_ELSEWHERE, [list(urls)], max_rows=len(urls) + 1).rows]


def claim(store: Store, urls: Sequence[str]) -> list[tuple[int, int]]:
    """Let those of some URLs wait here that were left to another part; oid and topic of each."""
    found = elsewhere(store, urls)
    if found:
        oids, topics = zip(*found, strict=True)
        store.query(states.CLAIM, [list(oids), list(topics)], write=True)
    return found


NOTICE = "steering"
CLAIMED = "URLs of other parts that the user named"
MAX_BOOST = 1000.0
_WAITING = "SELECT oid, topic FROM crawl WHERE state = 'waiting' AND sid IN (SELECT unnest(?::INTEGER[]))"
_LOCKED = """
    SELECT oid, topic, oid IN (SELECT oid FROM pages)
    FROM crawl WHERE state = 'dropped' AND outcome = 'locked-domain' AND sid IN (SELECT unnest(?::INTEGER[]))
"""
_COUNT = "SELECT count(*) FROM crawl WHERE state = 'waiting' AND sid IN (SELECT unnest(?::INTEGER[]))"


def name_of_host(text: str) -> str:
    """A host as a user writes it, or that of a URL, in the form in which scopes name it: without a port."""
    url = normalize(text.strip() if "://" in text else f"http://{text.strip()}")
    if not url:
        raise InputError(f"{text!r} is not the name of a host", "For example: www.example.org")
    return host_name(host_of(url))


def drop_waiting(store: Store, sids: Sequence[int], held: Iterable[int] = ()) -> list[tuple[int, int]]:
    """Drop what waits of locked hosts in the database, but for URLs that are `held`: oid and topic of each."""
    kept = set(held)
    found = [(oid, topic) for oid, topic in _rows(store, _WAITING, sids) if oid not in kept]
    if found:
        store.query(states.DROP_LOCKED, [[oid for oid, _ in found]], write=True)
    return found


def take_up(store: Store, sids: Sequence[int]) -> list[tuple[int, int, bool]]:
    """Let wait again what a lock dropped: oid, topic, and whether its page is stored, so that it is fetched anew."""
    found = [(oid, topic, stored) for oid, topic, stored in _rows(store, _LOCKED, sids)]
    if found:
        store.query(states.UNLOCK, [[oid for oid, _, _ in found]], write=True)
    return found


def relock_at_rest(store: Store, scope: ScopeSettings) -> dict[str, int]:
    """Carry locks into the database of a collection in which no crawl runs."""
    free = ScopeFilter(
        ScopeSettings(locked_domains=scope.locked_domains)
    )  # other limits of the scope are the next crawl's
    closed: list[int] = []
    opened: list[int] = []
    for host in store.load_hosts():
        (closed if free.rejection(host.host) is Outcome.LOCKED else opened).append(host.sid)
    return {"dropped": len(drop_waiting(store, closed)), "taken_up": len(take_up(store, opened))}


class Steering:
    """The companion that carries out what the user wants of a crawl that runs."""

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

    # -- as a companion

    @property
    def is_busy(self) -> bool:
        """A change may give the crawl work."""
        return self.is_changing

    @property
    def holds(self) -> bool:
        """Nothing is fetched during a pause."""
        return self._paused_at_s is not None

    def look(self) -> None:
        """Nothing happens here by itself."""

    async def close(self, at_once: asyncio.Event) -> None:
        """A change under way is finished."""
        async with self._one:
            pass

    # -- pausing

    @property
    def paused_s(self) -> float:
        """Seconds of this run in which nothing was fetched because the user said so."""
        now_s = 0.0 if self._paused_at_s is None else time.monotonic() - self._paused_at_s
        return self._paused_s + now_s

    def pause(self) -> dict[str, Any]:
        """Ask for nothing new."""
        if self._paused_at_s is None:
            self._paused_at_s = time.monotonic()
            self._absorber.notice(NOTICE, "paused")
        return {"paused": True, "in_flight": self._frontier.in_flight}

    def resume(self) -> dict[str, Any]:
        """Go on."""
        if self._paused_at_s is not None:
            self._paused_s, self._paused_at_s = self.paused_s, None
            self._absorber.notice(NOTICE, "resumed")
        return {"paused": False, "in_flight": self._frontier.in_flight}

    # -- hosts

    async def relock(self, domains: Sequence[str], said: str) -> dict[str, int]:
        """Lock these domains and no others. What is under way comes to its end."""
        async with self._changing():
            counted = self._absorber.counters.counts
            before = counted[f"outcome:{Outcome.LOCKED}"]
            closed, opened = self._frontier.lock(domains)
            await self._commit()
            dropped = await asyncio.to_thread(
                drop_waiting, self._store, [host.sid for host in closed], list(self._frontier.leased)
            )
            self._forget(dropped)
            again = await asyncio.to_thread(take_up, self._store, [host.sid for host in opened])
            self._reopen(again, "URLs taken up again after a host was unlocked")
            self._absorber.notice(NOTICE, said)
            return {"dropped": counted[f"outcome:{Outcome.LOCKED}"] - before, "taken_up": len(again)}

    async def claim(self, urls: Sequence[str]) -> None:
        """Let those of some URLs wait that were left to another part of the collection: the user has named them."""
        if not await asyncio.to_thread(elsewhere, self._store, urls):
            return
        async with self._changing():
            await self._commit()
            claimed = await asyncio.to_thread(claim, self._store, urls)
            for _, topic in claimed:
                self._frontier.add_topic(topic)  # it may be younger than the crawl
            self._reopen([(oid, topic, False) for oid, topic in claimed], CLAIMED)

    async def boost(self, host: str, factor: float) -> dict[str, int]:
        """Let a host have its turn sooner, and all below it; how many of its URLs wait."""
        if not 1.0 <= factor <= MAX_BOOST:
            raise InputError(
                f"a host cannot be boosted by {factor:g}",
                f"Give a factor between 1, which takes it back, and {MAX_BOOST:g}.",
            )
        async with self._changing():
            touched = self._frontier.boost(host, factor)
            await self._commit()
            sids = [host.sid for host in touched]
            rows = await asyncio.to_thread(self._store.query, _COUNT, [sids])
            self._absorber.notice(NOTICE, f"{host} boosted by {factor:g}" if factor > 1 else f"{host} boosted no more")
            return {"waiting": rows.rows[0][0]}

    @property
    def first(self) -> str:
        """What comes before the order of a refill: URLs of boosted hosts are brought into memory first."""
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
        """Take note that URLs which waited in the database were dropped there."""
        settled, frontier = self._absorber.ledger.settled, self._frontier
        for oid, topic in dropped:
            if settled[oid] == OPEN and not frontier.tiers.is_hot(oid) and not frontier.holds(oid):
                settled[oid] = SETTLED
                frontier.tiers.forget_cold(topic)
                frontier.tiers.settle(oid, Outcome.LOCKED, None)
                self._absorber.counters.outcome(Outcome.LOCKED)

    def _reopen(self, again: Iterable[tuple[int, int, bool]], counter: str) -> None:
        """URLs wait in the database again: oid, topic, and whether the page of each is stored."""
        topics = []
        for oid, topic, is_stored in again:
            self._absorber.ledger.reopen(oid)
            if is_stored:
                self._absorber.ledger.recrawls.add(oid)
            topics.append(topic)
        if topics:
            self._frontier.requeue(topics)
            self._absorber.counters.add(counter, len(topics))


def _rows(store: Store, sql: str, sids: Sequence[int]) -> list[tuple[Any, ...]]:
    return [
        row
        for piece in store.stream(sql, [list(sids)])
        for row in zip(*(column.to_pylist() for column in piece.columns), strict=True)
    ]
