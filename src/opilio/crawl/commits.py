"""The engine and the database: `Commits` writes what was absorbed, `Refills` brings queued URLs back into memory.

Everything that visits change is collected in one open batch. `Commits` writes it in a thread, in one transaction, when
it is full or old enough; the next batch fills meanwhile. The engine's loop waits for the database in two cases only: a
batch of four times its normal size while the one before it is still being written, and the end of the crawl.

`Refills` asks the database for the best queued URLs of topics whose hot queue runs low. It commits first, so that the
database knows of every URL, and leaves out what is in memory already.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from opilio.crawl.absorb import Absorber
from opilio.crawl.steering import Steering
from opilio.errors import QueryError
from opilio.frontier import QueuedUrl
from opilio.model import Figures
from opilio.process import release_libraries
from opilio.settings import FrontierSettings, StoreSettings
from opilio.store import Batch, Store
from opilio.store import urls as stored_urls
from opilio.store.urls import Validators

OVERDUE = 4  # a batch that is this many times as large as it should be is waited for
ALL_RETRIES_S = 253_370_764_800.0  # the year 9999: a refill may bring any URL; retries in memory are left out anyway
MIN_REFILL_S = 0.2  # between two refills: each commits a batch and queries the database
PER_HOST_SHARE = 20  # an order that the database computes may fill at most 1/20 of a refill with one host

LinkContexts = Callable[[list[int]], dict[int, tuple[str, bytes]]]
"""What pages that link to URLs say about them, by oid: anchor text and significant stems. Any thread may call it."""


class Commits:
    """Decides when the open batch is written, and writes it: one batch at a time, in one thread."""

    def __init__(
        self, settings: StoreSettings, store: Store, absorber: Absorber, elapsed_s: Callable[[], float]
    ) -> None:
        """`elapsed_s` gives the seconds of crawling so far, which each batch records."""
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._elapsed_s = elapsed_s
        self._writer = ThreadPoolExecutor(1, "store")
        self._write: asyncio.Future[None] | None = None
        self._one = asyncio.Lock()
        self._is_closed = False
        self._is_under_way = False
        """Whether a full batch has been written: what the start needed is not needed any more."""
        self._opened_s = time.monotonic()
        self._counted: tuple[Figures, Batch] = store.load_figures(), Batch()
        """The figures of the database, and the batch that they do not have yet, because it is being written."""

    @property
    def figures(self) -> Figures:
        """What the crawl has fetched and found: what is stored, and what is still to be written."""
        stored, batch = self._counted
        found = stored.plus(batch.figures()).plus(self._absorber.ledger.batch.figures())
        return dataclasses.replace(found, elapsed_s=self._crawled_s)

    @property
    def _crawled_s(self) -> float:
        """The seconds of crawling; when everything is written, as the database has them."""
        return self._absorber.counters.counts["elapsed_ms"] / 1000 if self._is_closed else self._elapsed_s()

    async def commit_when_due(self) -> None:
        """Begin to write the open batch when it is full or old enough."""
        if self._write is not None and self._write.done() and not self._one.locked():
            self._write.result()
            self._write = None
        pages, batch = self._settings.batch_pages, self._absorber.ledger.batch
        is_due = len(batch) >= pages or time.monotonic() - self._opened_s >= self._settings.batch_s
        if is_due and batch and (self._write is None or len(batch) >= OVERDUE * pages):
            await self.commit(wait=False)

    async def commit(self, *, wait: bool) -> None:
        """Write the open batch; with `wait`, return only when it is on disk."""
        async with self._one:
            if self._is_closed:  # a request in the last moment: everything is written
                return
            if self._write is not None:
                await asyncio.shield(self._write)  # the caller may be cancelled; the write may not
                self._write = None
            batch = self._absorber.swap_batch()
            self._opened_s = time.monotonic()
            if batch:  # that time has passed is no reason to write
                self._count_elapsed()
                self._absorber.counters.write_changes(batch)
                self._counted = self._counted[0], batch
                loop = asyncio.get_running_loop()
                self._write = loop.run_in_executor(self._writer, self._write_batch, batch)
            if wait and self._write is not None:
                await asyncio.shield(self._write)
                self._write = None

    def _write_batch(self, batch: Batch) -> None:
        """Write a batch, then count: a model may have judged stored pages again meanwhile."""
        self._store.write(batch)
        if not self._is_under_way and len(batch) >= self._settings.batch_pages:
            self._is_under_way = True
            release_libraries()
        self._counted = self._store.load_figures(), Batch()

    def _count_elapsed(self) -> None:
        counters = self._absorber.counters
        counters.add("elapsed_ms", int(self._elapsed_s() * 1000) - counters.counts["elapsed_ms"])

    async def close(self) -> None:
        """Write what is left. Later commits do nothing."""
        self._count_elapsed()
        try:
            await self.commit(wait=True)
        finally:
            self._is_closed = True
            self._writer.shutdown()


class Refills:
    """Brings the best queued URLs from the database into memory, one refill at a time."""

    def __init__(
        self,
        settings: FrontierSettings,
        store: Store,
        absorber: Absorber,
        commits: Commits,
        steering: Steering,
        link_contexts: LinkContexts,
        end: Callable[[str], object],
    ) -> None:
        """`end` ends the crawl for the reason given: the order of the frontier can no longer be computed."""
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._frontier = absorber.frontier
        self._commits = commits
        self._steering = steering
        self._link_contexts = link_contexts
        self._end = end
        self._task: asyncio.Task[None] | None = None
        self._refilled_s = 0.0

    @property
    def is_running(self) -> bool:
        """Whether a refill is under way, or has ended since `start_when_needed` was called last."""
        return self._task is not None

    def start_when_needed(self) -> None:
        """Begin a refill when a hot queue runs low, or when an order that the database computes is out of date."""
        if self._task is not None:
            if not self._task.done():
                return
            task, self._task = self._task, None
            try:
                task.result()
            except QueryError as error:  # an order that was good for the URLs known when it was given
                self._end(f"the order cannot be used any more: {error.message}")
                return
        age_s = time.monotonic() - self._refilled_s
        if age_s < MIN_REFILL_S or self._steering.is_changing:
            return
        tiers = self._frontier.tiers
        topics = tiers.wants_refill()
        is_stale = age_s > self._settings.refresh_s
        if tiers.in_database and is_stale and not tiers.holds_back:
            topics = [topic for topic in tiers.queues if tiers.cold[topic]]
        if topics:
            self._task = asyncio.create_task(self._refill(topics))

    async def wait(self) -> None:
        """Return when no refill is under way."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def close(self) -> None:
        """End a refill under way. Not by cancelling it: the write that it may be waiting for would be cancelled too."""
        if self._task is not None:
            self._store.cancel_queries()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _refill(self, topics: list[int]) -> None:
        await self._commits.commit(wait=True)
        self._refilled_s = time.monotonic()
        frontier, tiers = self._frontier, self._frontier.tiers
        for topic in topics:
            strategy, size = tiers.strategy, tiers.refill_size
            cold_before = tiers.cold[topic]
            per_host = max(1, size // PER_HOST_SHARE) if tiers.in_database else 0
            read = functools.partial(
                self._store.next_waiting,
                f"{self._steering.first}{strategy.order_by}, oid",
                size,
                exclude=frontier.oids_in_memory(),
                now_s=ALL_RETRIES_S,
                topic=topic,
                per_host=per_host,
            )
            rows = await asyncio.to_thread(read)
            oids = [row.oid for row in rows]
            validators = await asyncio.to_thread(self._validators, oids)
            contexts = await asyncio.to_thread(self._link_contexts, oids)
            if tiers.strategy is not strategy:
                return  # changed meanwhile: its own refill comes
            urls = [self._from_row(row, validators, contexts) for row in rows if self._may_queue(row.oid)]
            admitted = [url for url in urls if strategy.admits(url)]
            exhausted = len(rows) < size and not (per_host and rows)
            if len(admitted) < len(urls):  # those that are not admitted come last in the order
                tiers.count_not_admitted(topic, cold_before - len(admitted))
                exhausted = True
            tiers.refill(topic, admitted, cold_before if exhausted else None)

    def _may_queue(self, oid: int) -> bool:
        return self._absorber.ledger.is_open(oid) and not self._frontier.is_taken(oid)

    def _validators(self, oids: list[int]) -> dict[int, Validators]:
        """What makes requests for pages that are fetched again conditional."""
        wanted = [oid for oid in oids if oid in self._absorber.ledger.recrawls]
        return stored_urls.validators(self._store, wanted)

    def _from_row(
        self, row: Any, validators: dict[int, Validators], contexts: dict[int, tuple[str, bytes]]
    ) -> QueuedUrl:
        host = self._frontier.hosts[row.sid]
        url = QueuedUrl(row.oid, row.url, host, row.topic, row.depth, row.relevance, row.hops, row.numtries)
        url.priority = row.priority
        url.etag, url.last_modified, url.stored_s = validators.get(row.oid, Validators())
        url.anchor, url.neighbours = contexts.get(row.oid, ("", b""))
        return url
