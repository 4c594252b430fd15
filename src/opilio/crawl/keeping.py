"""The engine and the database: when a batch is committed, and when waiting URLs are brought back into memory."""

from __future__ import annotations

import asyncio
import functools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from opilio.crawl.absorb import OPEN, Absorber
from opilio.crawl.status import Counters
from opilio.crawl.steering import Steering
from opilio.crawl.teacher import Teacher
from opilio.errors import QueryError
from opilio.frontier import Frontier, QueuedUrl
from opilio.settings import Settings
from opilio.store import Store

ALL_RETRIES_S = 253_370_764_800.0  # the year 9999: a refill may bring any URL; retries in memory are left out anyway
MIN_REFILL_S = 0.2  # between two refills: each commits a batch and asks the database
PER_HOST_SHARE = 20  # a SQL order may fill at most one n-th of a refill with one host


class Keeping:
    """The half of `Engine` that writes and reads. It never makes the loop wait, but for a batch that is overdue."""

    steering: Steering
    teacher: Teacher
    elapsed_s: float

    def __init__(self, settings: Settings, store: Store, absorber: Absorber) -> None:
        self.settings = settings
        self.store = store
        self.absorber = absorber
        self.frontier: Frontier = absorber.frontier
        self.counters: Counters = absorber.counters
        self.reason = ""
        self._writer = ThreadPoolExecutor(1, "store")
        self._write: asyncio.Future[None] | None = None
        self._committing = asyncio.Lock()
        self._is_closed = False
        self._batch_opened_s = time.monotonic()
        self._refill: asyncio.Task[None] | None = None
        self._refilled_s = 0.0

    async def _keep_store(self) -> None:
        """Commit when it is time, and refill the hot queues."""
        if self._write is not None and self._write.done() and not self._committing.locked():
            self._write.result()
            self._write = None
        storage = self.settings.store
        batch = self.absorber.batch
        due = len(batch) >= storage.batch_pages or time.monotonic() - self._batch_opened_s >= storage.batch_s
        if due and batch and (self._write is None or len(batch) >= 4 * storage.batch_pages):
            await self.commit(wait=False)
        self._start_refill()

    async def commit(self, *, wait: bool) -> None:
        """Write the open batch; with `wait`, return only when it is on disk."""
        async with self._committing:
            if self._is_closed:  # somebody asks in the last moment: all is written
                return
            if self._write is not None:
                await asyncio.shield(self._write)  # whoever waits may be given up; what is written may not
                self._write = None
            self._count_elapsed()
            batch = self.absorber.swap_batch()
            self._batch_opened_s = time.monotonic()
            if batch:
                loop = asyncio.get_running_loop()
                self._write = loop.run_in_executor(self._writer, self.store.write, batch)
            if wait and self._write is not None:
                await asyncio.shield(self._write)
                self._write = None

    def _count_elapsed(self) -> None:
        self.counters.add("elapsed_ms", int(self.elapsed_s * 1000) - self.counters.counts["elapsed_ms"])

    async def _close_store(self) -> None:
        try:
            await self.commit(wait=True)
        finally:
            self._is_closed = True
            self._writer.shutdown()

    def _start_refill(self) -> None:
        if self._refill is not None:
            if not self._refill.done():
                return
            task, self._refill = self._refill, None
            try:
                task.result()
            except QueryError as error:  # an order that was good for the URLs known when it was given
                self.reason = f"the order cannot be used any more: {error.message}"
                return
        age_s = time.monotonic() - self._refilled_s
        if age_s < MIN_REFILL_S or self.steering.is_changing:
            return
        topics = self.frontier.wants_refill()
        stale = age_s > self.settings.frontier.refresh_s
        if self.frontier.strategy.uses_sql and stale and not self.frontier.holds_back:
            topics = [topic for topic in self.frontier.queues if self.frontier.cold[topic]]
        if topics:
            self._refill = asyncio.create_task(self._bring_back(topics))

    async def _let_refill_end(self) -> None:
        if self._refill is not None:
            await asyncio.wait({self._refill})

    async def _bring_back(self, topics: list[int]) -> None:
        """Bring the best of the URLs that wait in the database into memory."""
        await self.commit(wait=True)
        self._refilled_s = time.monotonic()
        for topic in topics:
            strategy, size = self.frontier.strategy, self.frontier.refill_size
            cold_before = self.frontier.cold[topic]
            per_host = max(1, size // PER_HOST_SHARE) if strategy.uses_sql else 0
            ask = functools.partial(
                self.store.next_waiting,
                f"{self.steering.first}{strategy.order_by}, oid",
                size,
                exclude=self.frontier.oids_in_memory(),
                now_s=ALL_RETRIES_S,
                topic=topic,
                per_host=per_host,
            )
            rows = await asyncio.to_thread(ask)
            oids = [row.oid for row in rows]
            validators = await asyncio.to_thread(self._validators, oids)
            ways = await asyncio.to_thread(self.teacher.ways_to, oids)
            if self.frontier.strategy is not strategy:
                return  # changed meanwhile: its own refill comes
            urls = [self._from_row(row, validators, ways) for row in rows if self._may_wait(row.oid)]
            admitted = [url for url in urls if strategy.admits(url)]
            exhausted = len(rows) < size and not (per_host and rows)
            if len(admitted) < len(urls):  # those that are not admitted come last in the order
                self.frontier.bar(topic, cold_before - len(admitted))
                exhausted = True
            self.frontier.refill(topic, admitted, cold_before if exhausted else None)

    def _may_wait(self, oid: int) -> bool:
        return self.absorber.settled[oid] == OPEN and not self.frontier.holds(oid)

    def _validators(self, oids: list[int]) -> dict[int, tuple[str, str]]:
        """ETag and Last-Modified of pages that are asked for again."""
        wanted = [oid for oid in oids if oid in self.absorber.recrawls]
        if not wanted:
            return {}
        sql = """
            SELECT oid, arg_max(etag, visited), arg_max(last_modified, visited)
            FROM pages WHERE oid IN (SELECT unnest(?)) GROUP BY oid
        """
        found = self.store.query(sql, [wanted], max_rows=len(wanted)).rows
        return {oid: (etag or "", last_modified or "") for oid, etag, last_modified in found}

    def _from_row(
        self, row: Any, validators: dict[int, tuple[str, str]], ways: dict[int, tuple[str, bytes]]
    ) -> QueuedUrl:
        host = self.frontier.hosts[row.sid]
        url = QueuedUrl(row.oid, row.url, host, row.topic, row.depth, row.relevance, row.hops, row.numtries)
        url.priority = row.priority
        url.etag, url.last_modified = validators.get(row.oid, ("", ""))
        url.anchor, url.neighbours = ways.get(row.oid, ("", b""))
        return url
