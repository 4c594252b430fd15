"""What all workers promise, whatever they run on: each lease that was submitted comes back as exactly one visit."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from opilio.crawl.worker import WorkerSetup
from opilio.crawl.worker_pool import InlineWorkers, ProcessWorkers, Workers
from opilio.lab.local_web import LocalServer
from opilio.model import Lease, LeaseKind, Outcome, Visit

WAIT_S = 30.0
MAKERS: dict[str, Callable[[WorkerSetup], Workers]] = {
    "inline": InlineWorkers,
    "one process": lambda setup: ProcessWorkers(setup, 1),
    "two processes": lambda setup: ProcessWorkers(setup, 2),
}
Run = Callable[[Workers], Awaitable[Any]]


def run(kind: str, setup: WorkerSetup, use: Run) -> Any:
    """Start workers of a kind, use them, close them; whatever `use` returns."""

    async def whole() -> Any:
        workers = MAKERS[kind](setup)
        await workers.start()
        try:
            return await use(workers)
        finally:
            await workers.close()

    return asyncio.run(whole())


async def collect(workers: Workers, count: int, timeout_s: float = WAIT_S) -> list[Visit]:
    """The next `count` visits."""
    visits: list[Visit] = []
    deadline_s = time.monotonic() + timeout_s
    while len(visits) < count:
        assert time.monotonic() < deadline_s, f"{len(visits)} of {count} leases came back"
        visits += await workers.visits(0.2)
    return visits


def page_leases(server: LocalServer, count: int) -> list[Lease]:
    return [Lease(oid, url) for oid, url in enumerate(sorted(server.web.pages)[:count])]


def every_lease_comes_back_once(kind: str, setup: WorkerSetup, server: LocalServer) -> None:
    """Pages, hosts, sitemaps, errors of every sort: one visit for each lease, with the lease in it."""
    sitemap = next(url for url in server.web.files if url.endswith("sitemap.xml"))
    host = sitemap.split("/")[2]
    leases = page_leases(server, 60)
    leases += [
        Lease(1000, "http://no-such-path.test/nothing"),
        Lease(1001, "http://192.0.2.1.invalid/"),
        Lease(1002, "http://127.0.0.1:9/private"),
        Lease(1003, "http://slow.test/"),
        Lease(-1, f"http://{host}/robots.txt", LeaseKind.HOST),
        Lease(-(2**41), sitemap, LeaseKind.SITEMAP),
    ]

    async def use(workers: Workers) -> list[Visit]:
        workers.submit(leases[:30])
        workers.submit(leases[30:])
        visits = await collect(workers, len(leases))
        return visits + await workers.visits(0.3)

    visits = run(kind, setup, use)
    assert Counter(visit.lease for visit in visits) == Counter(leases)
    by_oid = {visit.lease.oid: visit for visit in visits}
    assert all(by_oid[oid].fetch.outcome in (Outcome.OK, Outcome.REDIRECT) for oid in range(60))
    stored = [visit for visit in visits if visit.document is not None]
    assert len(stored) > 40
    assert all(visit.judgement is not None and visit.fetch.warc_bytes > 0 for visit in stored)
    assert by_oid[1002].fetch.outcome is Outcome.PRIVATE_ADDRESS
    assert by_oid[1003].fetch.outcome in (Outcome.OK, Outcome.TIMED_OUT)
    assert by_oid[-1].host is not None and by_oid[-1].host.robots_status in (200, 404)
    assert by_oid[-(2**41)].sitemap_urls
    assert all(visit.fetch.started_s > 0 for visit in visits), "the table of visits needs a time"
