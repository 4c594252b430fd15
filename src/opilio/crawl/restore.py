"""Rebuilds the engine's memory from the tables when a crawl resumes, and recovers pages that only WARC files have."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from opilio.crawl.absorb import Absorber
from opilio.crawl.messages import WorkerSetup
from opilio.fetch.robots import RobotsRules
from opilio.frontier import ABSENT, HostState, QueuedUrl, ScopeFilter
from opilio.model import HostReport, Lease, Outcome, UrlState, Visit, normalize, stored_code, url_key
from opilio.model.url import path_of
from opilio.settings import MIB, LimitSettings
from opilio.store import Store, WarcRecord, recover, truncate_torn
from opilio.store.census import count_queued
from opilio.store.links import merge_steps
from opilio.store.loader import STATES
from opilio.store.urls import (
    QueuedRow,
    hosts_dropped_by_scope,
    page_sketches,
    queued_urls,
    recrawled_urls,
    relevant_by_host,
    repeated_urls,
    requeue_dropped,
    shells_by_host,
    trap_like_urls,
    unfollowed_urls,
)
from opilio.store.warc import Payloads, warc_files
from opilio.topics.hierarchy import ROOT

if TYPE_CHECKING:
    from opilio.crawl.worker import Worker

OnProgress = Callable[[str, int, int], object]
"""Is told what is done now, and how much of how much."""
ROBOTS_PATH = "/robots.txt"
SEED_SOURCE = "WARC files"
PIECE_RECORDS, PIECE_BYTES = 250, 32 * MIB
"""Responses that are taken in between two commits: by their number, or by the size of their bodies."""


def restore(store: Store, absorber: Absorber, warc_folder: Path) -> None:
    """Fill frontier, duplicates and counts from the database."""
    is_new = not store.count_rows("crawl")  # there is nothing to read but inputs: twelve queries fewer
    if not is_new:
        _known(store, absorber)
    tiers = absorber.frontier.tiers
    waiting = {} if is_new else count_queued(store)
    if store.count_rows("runs") or warc_files(warc_folder):
        # URLs that are offered before the first refill stay cold: `Recovery` may take them out of the database.
        waiting = dict.fromkeys(tiers.queues, 0) | waiting
    tiers.set_cold_counts(waiting)


def _known(store: Store, absorber: Absorber) -> None:
    """What is known of hosts, URLs and pages."""
    _hosts(store, absorber)
    absorber.ledger.stored_hosts = len(absorber.frontier.hosts)
    _urls(store, absorber)
    _pages(store, absorber)
    with store.reading() as cursor:
        absorber.ledger.aliases.add_all(*merge_steps(cursor))
    for url, sid in trap_like_urls(store):
        absorber.frontier.traps.count(url, sid)
    for url, sid in repeated_urls(store):
        absorber.frontier.repeats.note(url, sid, is_new=False)
    absorber.ledger.recrawls.update(recrawled_urls(store))
    absorber.shells.update(shells_by_host(store))


def reopen(store: Store, limits: LimitSettings, scope: ScopeFilter) -> int:
    """Requeue URLs that were dropped by a limit or a scope that has been widened since. Returns how many."""
    if not store.count_rows("hosts"):  # a new collection
        return 0
    inside = [sid for sid, host in hosts_dropped_by_scope(store) if scope.rejection(host) is None]
    return requeue_dropped(store, limits, inside)


def _hosts(store: Store, absorber: Absorber) -> None:
    frontier = absorber.frontier
    relevant = relevant_by_host(store)
    for record in store.load_hosts():
        host = frontier.host(record.host)
        host.ip = record.ip or ""
        host.bytes, host.requests = record.bytes, record.requests
        host.next_s = record.next_visit_s
        host.add_pages(record.pages, relevant.get(record.sid, 0))
        if host.requests:
            host.note_contact(0.0)
    for found in store.load_origins():
        origin = frontier.hosts[found.sid].origin(found.scheme)
        problem = Outcome(found.problem) if found.problem else None
        origin.change(HostState(found.state), found.failures, problem)
        origin.crawl_delay_s = found.crawl_delay_s
        if found.robots_status is not None:
            origin.contacted_s = found.met_s
            origin.robots_status = found.robots_status
            report = HostReport(found.robots_status, found.robots or "", found.crawl_delay_s)
            origin.rules = RobotsRules(report, absorber.settings.user_agent)
            absorber.plan_rights(origin)


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
        absorber.frontier.repeats.note(url, sid, is_new=True)


class OutOfTurn:
    """Takes URLs out of the frontier whose responses come from files, wherever they are queued.

    Queued URLs must be cold, or wait for another try: that is how `restore` leaves them.
    """

    def __init__(self, store: Store, absorber: Absorber) -> None:
        self._store, self._absorber = store, absorber
        self._frontier, self._ledger = absorber.frontier, absorber.ledger
        self._rows: dict[int, QueuedRow] = {}

    def commit(self) -> None:
        """Write what was absorbed."""
        batch = self._absorber.swap_batch()
        if batch:
            self._store.write(batch)

    def prepare(self, oids: Sequence[int]) -> None:
        """Commit, then read the rows of URLs that will be taken."""
        self.commit()
        self._rows = queued_urls(self._store, oids)

    def take(self, oid: int) -> QueuedUrl:
        """Take a URL out of the frontier, or reopen it when it is settled."""
        tiers, new = self._frontier.tiers, self._ledger.batch.urls
        again = tiers.retries.remove(oid)
        if again is not None:
            return again
        if new.oid and oid >= new.oid[0]:  # oids are dense
            at = oid - new.oid[0]
            row = QueuedRow(
                new.url[at], new.sid[at], new.topic[at], new.depth[at], new.relevance[at], new.hops[at], 0,
                new.priority[at],
            )  # fmt: skip
        else:
            row = self._rows.get(oid) or queued_urls(self._store, [oid])[oid]
        numtries = row.numtries
        if self._ledger.is_open(oid):
            tiers.forget_cold(row.topic)
        else:
            self._ledger.reopen(oid)
            numtries = 0
        host = self._frontier.hosts[row.sid]
        queued = QueuedUrl(oid, row.url, host, row.topic, row.depth, row.relevance, row.hops, numtries)
        queued.priority = row.priority
        return queued


class Recovery:
    """Takes in the responses that only WARC files have, in the order of time, as if they had just come.

    After a crash these are the last ones: those whose batch was not committed. So a crash loses no page that was
    written, and none of them is fetched again. A database that knows of none of the files is new: then everything is
    taken in. What the crawl knew of a URL but the files do not tell (that the user named it, that a sitemap or another
    collection did) is lost with the old database. Such a URL becomes a seed.
    """

    def __init__(self, store: Store, absorber: Absorber, setup: WorkerSetup, *warc_folders: Path) -> None:
        self._store, self._absorber, self._setup, self._folders = store, absorber, setup, warc_folders
        self._frontier, self._ledger = absorber.frontier, absorber.ledger
        self._ends = store.load_warc_ends()
        self._rebuilds = not self._ends
        self._reader: Worker | None = None
        self._visited: set[int] = set()
        self._out_of_turn = OutOfTurn(store, absorber)

    def run(self, on_progress: OnProgress = lambda doing, done, steps: None) -> int:
        """Take in all of them, some at a time; how many visits to pages there were."""
        paths = sorted(path for folder in self._folders for path in warc_files(folder))
        total = sum(max(0, path.stat().st_size - self._ends.get(path.name, 0)) for path in paths)
        done = 0
        for some in _pieces(self._unknown_records(paths)):
            self._out_of_turn.prepare([oid for _, record in some if (oid := self._oid(record)) != ABSENT])
            for path, record in some:
                self._take(path, record)
                done += record.length
            on_progress("reading WARC files", min(done, total), total)
        self._out_of_turn.commit()
        return len(self._visited)

    def _unknown_records(self, paths: Sequence[Path]) -> Iterator[tuple[Path, WarcRecord]]:
        """The records that the database does not know of; torn ends are cut off."""
        files: list[Iterator[tuple[Path, WarcRecord]]] = []
        payloads = Payloads(paths)
        for path in paths:
            known_end = self._ends.get(path.name, 0)
            truncate_torn(path, known_end)
            files.append(zip(itertools.repeat(path), recover(path, known_end, payloads), strict=False))
        # In order of time over all files, so that a page comes before the pages that it led to.
        yield from heapq.merge(*files, key=lambda found: found[1].date_s)

    def _oid(self, record: WarcRecord) -> int:
        url = normalize(record.url)
        return self._frontier.known.get(url_key(url)) if url else ABSENT

    def _take(self, path: Path, record: WarcRecord) -> None:
        """Take in one response, unless it is of no use."""
        url, oid = normalize(record.url), self._oid(record)
        if record.part_of:  # data and scripts of a rendered page: no visit to a URL of the crawl
            return
        if not url or (self._rebuilds and oid == ABSENT and self._take_contact(path, url, record)):
            return
        if not self._wants(oid):
            return
        visit = self._read(Lease(oid, url), path, record)
        is_page = visit.document is not None or visit.fetch.outcome is Outcome.REDIRECT
        if oid == ABSENT:
            if not is_page:  # nothing that a page is known to have led to, and no page
                return
            oid = self._absorber.offer(url, parent=-1, depth=0, relevance=1.0, topic=ROOT, now_s=record.date_s)
            if oid == ABSENT:
                return
            self._ledger.batch.seeds.add(url, ROOT, SEED_SOURCE, "", record.date_s)
        if visit.fetch.outcome is Outcome.NOT_MODIFIED and not self._has_page(oid):  # the page itself is lost
            return
        lease = self._frontier.lease_page(self._out_of_turn.take(oid))
        self._visited.add(oid)
        self._absorber.absorb(msgspec.structs.replace(visit, lease=lease), record.date_s)
        if record.archive and self._has_page(oid):
            self._ledger.batch.sifted.add(oid, record.archive, record.archive_offset, record.date_s, time.time())

    def _wants(self, oid: int) -> bool:
        """Whether another response of a URL changes anything."""
        if oid == ABSENT:
            return self._rebuilds
        if self._ledger.is_open(oid) or not self._rebuilds:
            return self._ledger.is_open(oid)
        state = self._ledger.states[oid]
        is_untried = state is UrlState.DROPPED and oid not in self._visited
        return self._has_page(oid) or state is UrlState.FAILED or is_untried

    def _has_page(self, oid: int) -> bool:
        return self._ledger.is_stored(oid) or oid in self._ledger.recrawls

    def _take_contact(self, path: Path, url: str, record: WarcRecord) -> bool:
        """Take in the robots.txt of an origin, or a file that is pending, if the response is one."""
        origin = self._frontier.origin(url)
        file = next((lease for lease in origin.pending_files if lease.url == url), None)
        if file is not None:
            lease = self._frontier.lease_file(origin, file)
        elif path_of(url) == ROBOTS_PATH:
            lease = self._frontier.lease_contact(origin, record.date_s)
        else:
            return False
        self._absorber.absorb(self._read(lease, path, record), record.date_s)
        return True

    def _read(self, lease: Lease, path: Path, record: WarcRecord) -> Visit:
        if self._reader is None:
            from opilio.crawl.worker import Worker  # noqa: PLC0415  (the engine reads pages itself only after a crash)

            self._reader = Worker(self._setup, archive=False)
        visit = self._reader.read_again(lease, record)
        fetch = msgspec.structs.replace(
            visit.fetch, warc_file=path.name, warc_offset=record.offset, warc_bytes=record.length
        )
        return msgspec.structs.replace(visit, fetch=fetch)


def _pieces(records: Iterator[tuple[Path, WarcRecord]]) -> Iterator[list[tuple[Path, WarcRecord]]]:
    """The records, some at a time."""
    piece: list[tuple[Path, WarcRecord]] = []
    held_bytes = 0
    for path, record in records:
        piece.append((path, record))
        held_bytes += len(record.raw_body)
        if len(piece) >= PIECE_RECORDS or held_bytes >= PIECE_BYTES:
            yield piece
            piece, held_bytes = [], 0
    if piece:
        yield piece
