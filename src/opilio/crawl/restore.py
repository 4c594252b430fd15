"""Rebuilds the engine's memory from the tables when a crawl resumes, and recovers pages that only WARC files have."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from opilio.crawl.absorb import Absorber
from opilio.crawl.messages import WorkerSetup
from opilio.fetch.robots import RobotsRules
from opilio.frontier import ABSENT, Frontier, HostState, QueuedUrl, ScopeFilter
from opilio.model import HostReport, Lease, Outcome, normalize, stored_code, url_key
from opilio.settings import LimitSettings
from opilio.store import Store, WarcRecord, recover, truncate_torn
from opilio.store.census import count_queued
from opilio.store.links import merge_steps
from opilio.store.loader import STATES
from opilio.store.urls import (
    hosts_dropped_by_scope,
    page_sketches,
    queued_url,
    recrawled_urls,
    requeue_dropped,
    trap_like_urls,
    unfollowed_urls,
)

if TYPE_CHECKING:
    from opilio.crawl.worker import Worker


def restore(store: Store, absorber: Absorber) -> None:
    """Fill frontier, duplicates and counts from the database."""
    _hosts(store, absorber.frontier, absorber.settings.user_agent)
    absorber.ledger.stored_hosts = len(absorber.frontier.hosts)
    _urls(store, absorber)
    _pages(store, absorber)
    with store.reading() as cursor:
        absorber.ledger.aliases.add_all(*merge_steps(cursor))
    frontier = absorber.frontier
    for url, sid in trap_like_urls(store):
        frontier.traps.count(url, sid)
    waiting = count_queued(store)
    if store.count_rows("runs"):  # URLs offered before the first refill stay cold: see recover_pages
        waiting = dict.fromkeys(frontier.tiers.queues, 0) | waiting
    frontier.tiers.set_cold_counts(waiting)
    absorber.ledger.recrawls.update(recrawled_urls(store))


def reopen(store: Store, limits: LimitSettings, scope: ScopeFilter) -> int:
    """Requeue URLs that were dropped by a limit or a scope that has been widened since. Returns how many."""
    inside = [sid for sid, host in hosts_dropped_by_scope(store) if scope.rejection(host) is None]
    return requeue_dropped(store, limits.max_depth, limits.max_pages_per_host, inside)


def _hosts(store: Store, frontier: Frontier, user_agent: str) -> None:
    for record in store.load_hosts():
        host = frontier.host(record.host)
        host.ip = record.ip or ""
        host.pages, host.bytes, host.requests = record.pages, record.bytes, record.requests
        host.next_s = record.next_visit_s
    for found in store.load_origins():
        origin = frontier.hosts[found.sid].origin(found.scheme)
        problem = Outcome(found.problem) if found.problem else None
        origin.change(HostState(found.state), found.failures, problem)
        origin.crawl_delay_s = found.crawl_delay_s
        if found.robots_status is not None:
            origin.contacted_s = found.met_s
            origin.robots_status = found.robots_status
            report = HostReport(found.robots_status, found.robots or "", found.crawl_delay_s)
            origin.rules = RobotsRules(report, user_agent)


def _urls(store: Store, absorber: Absorber) -> None:
    known, ledger = absorber.frontier.known.table, absorber.ledger
    codes = np.array([stored_code(state) for state in STATES], np.uint8)
    for chunk in store.load_urls(("oid", "key", "sid", "state")):
        known.set_many(chunk["key"].astype(np.uint64), chunk["oid"])
        ledger.sids.frombytes(chunk["sid"].astype(np.int32).tobytes())
        ledger.states.extend(codes[chunk["state"]].tobytes())
    for oid in unfollowed_urls(store):
        ledger.states.note_not_followed(oid)


def _pages(store: Store, absorber: Absorber) -> None:
    for oid, sid, url, ip, size, content_hash, shingles in page_sketches(store):
        absorber.ledger.states.note_page(oid)
        absorber.ledger.duplicates.restore(oid, sid, url, ip, size, content_hash, shingles or b"")


def recover_pages(store: Store, absorber: Absorber, setup: WorkerSetup, warc_folder: Path, now_s: float) -> int:
    """Take in the pages whose WARC record was written but whose batch was not committed. Returns how many.

    So a crash loses no page that was written, and none of them is fetched again.
    """
    worker: Worker | None = None
    recovered = 0
    for path, record in _unknown_records(store, warc_folder):
        url = normalize(record.url)
        oid = absorber.frontier.known.get(url_key(url)) if url else ABSENT
        if oid == ABSENT or not absorber.ledger.is_open(oid):
            continue
        worker = worker or _reader(setup)
        queued = _taken_out(store, absorber, oid)
        lease = Lease(oid, url, attempt=queued.numtries + 1)
        absorber.ledger.leased(queued)  # it was under way when the crawl crashed
        visit = worker.read_again(lease, record.ip, record.date_s, record.raw_head, record.raw_body, cut=record.cut)
        fetch = msgspec.structs.replace(
            visit.fetch, warc_file=path.name, warc_offset=record.offset, warc_bytes=record.length
        )
        absorber.absorb_page(queued, msgspec.structs.replace(visit, fetch=fetch), now_s)
        recovered += 1
    return recovered


def _unknown_records(store: Store, warc_folder: Path) -> Iterator[tuple[Path, WarcRecord]]:
    """The records of WARC files that the database does not know of; torn ends are cut off."""
    ends = store.load_warc_ends()
    files: list[Iterator[tuple[Path, WarcRecord]]] = []
    for path in sorted(warc_folder.glob("*.warc.gz")):
        known_end = ends.get(path.name, 0)
        truncate_torn(path, known_end)
        files.append(zip(itertools.repeat(path), recover(path, known_end), strict=False))
    # In order of time over all files, so that a page comes before the pages that it led to.
    yield from heapq.merge(*files, key=lambda found: found[1].date_s)


def _reader(setup: WorkerSetup) -> Worker:
    from opilio.crawl.worker import Worker  # noqa: PLC0415  (the engine reads pages itself only after a crash)

    return Worker(setup, archive=False)


def _taken_out(store: Store, absorber: Absorber, oid: int) -> QueuedUrl:
    """Take a queued URL out of the frontier. It waits for another try, or is in the open batch or the database."""
    frontier = absorber.frontier
    again = frontier.tiers.retries.remove(oid)
    if again is not None:
        return again
    new = absorber.ledger.batch.urls
    if new.oid and oid >= new.oid[0]:  # oids are dense
        at = oid - new.oid[0]
        url, sid, topic, depth = new.url[at], new.sid[at], new.topic[at], new.depth[at]
        relevance, hops, numtries, priority = new.relevance[at], new.hops[at], 0, new.priority[at]
    else:
        url, sid, topic, depth, relevance, hops, numtries, priority = queued_url(store, oid)
    frontier.tiers.forget_cold(topic)
    queued = QueuedUrl(oid, url, frontier.hosts[sid], topic, depth, relevance, hops, numtries)
    queued.priority = priority
    return queued
