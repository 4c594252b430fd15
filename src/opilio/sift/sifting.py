"""Sifting into a collection: gives archives to workers, and takes in what they found.

Each worker has an archive, or a lane of one, until it ends. Two orders are under way for each, so that none waits for
this process. What the pieces brought is committed together with where each archive stands.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from shlex import quote

import msgspec
import xxhash

import opilio
from opilio.crawl import Collection
from opilio.crawl.collection import WARC_FOLDER
from opilio.crawl.restore import OutOfTurn
from opilio.errors import InputError
from opilio.frontier import ABSENT
from opilio.learn.training_state import KEYWORDS
from opilio.model import UrlState, url_key
from opilio.settings import MIB, to_toml
from opilio.settings.files import without_secrets
from opilio.sift.archives import Position
from opilio.sift.pool import LOCAL, SiftPool, SiftProgram
from opilio.sift.sieve import DAMAGE, JUDGED, ON_TOPIC, Found, SiftOrder, SiftPiece, SiftSetup
from opilio.sift.sources import ArchiveFile, find_sources
from opilio.sift.url_lists import fetch_lists
from opilio.store import Store
from opilio.store.archives import sifting_progress
from opilio.store.warc import WarcFiles, WarcRecords, cut_to_known

ORDERS = 2
"""Orders under way for each worker."""
TICK_S = 0.25
COMMIT_S = 1.0
CUT_BYTES = 4 * MIB
"""An archive is shared out in lanes only if it is at least this large: every lane unpacks all of it."""
MAX_LANES = 4
CAREFUL_PIECES = 200
"""After a worker was lost, so many pages are read one at a time: one piece has 200 or so."""
SHOWN_PROBLEMS = 200
WRITER = "sift"
"""Names the WARC files that sifting writes."""
STORED, THERE, DUPLICATES, REJECTED = "stored", "there already", "duplicates", "rejected"


@dataclass
class SiftReport:
    """What came of a sifting, or how far it is."""

    archives: int
    done: int = 0
    """Archives that are sifted to their end, earlier runs included."""
    judged: int = 0
    """Pages that were judged in this run."""
    on_topic: int = 0
    stored: int = 0
    there_already: int = 0
    """Pages on topic that the collection had."""
    duplicates: int = 0
    """Pages on topic that repeat a page of the collection under another address."""
    rejected: int = 0
    """Pages on topic that a filter of the collection rejects, such as a locked host."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Records that are no pages, and pages that must not be stored, by reason."""
    problems: list[str] = field(default_factory=list)
    """Damage, with the archive and the place; the first of them."""
    damaged: int = 0
    """Damaged places."""
    model_version: int = 0
    elapsed_s: float = 0.0
    reason: str = ""
    """Why it ended; empty while it goes on."""

    @property
    def share(self) -> float | None:
        """Of the judged pages, how many are on topic."""
        return self.on_topic / self.judged if self.judged else None

    @property
    def pages_per_s(self) -> float:
        """Pages judged in a second."""
        return self.judged / self.elapsed_s if self.elapsed_s else 0.0


@dataclass
class _Unit:
    """A lane of an archive."""

    number: int
    archive: ArchiveFile
    lane: int
    lanes: int
    position: Position
    judged: int = 0
    on_topic: int = 0
    stored: int = 0
    careful: int = 0
    """So many of the next pieces have one page only."""
    losses: int = 0
    """How often a worker was lost with the page at `position`."""
    reached: Position | None = None
    """Where the last piece that came ends; it is ahead of `position` until that piece is taken in."""
    is_started: bool = False
    """Whether the worker that has it has begun."""
    ended: bool = False


OnSift = Callable[[SiftReport], object]


def sift(
    collection: Collection,
    sources: Sequence[str],
    *,
    model: int = 0,
    keep_off_topic: bool = False,
    max_pages: int = 0,
    workers: int = 0,
    program: SiftProgram = LOCAL,
    on_tick: OnSift = lambda report: None,
) -> SiftReport:
    """Judge the pages of archives, and store those on topic in a collection. Goes on where an earlier call stopped.

    `sources` are WARC, WET and WACZ files, folders of them, patterns, URLs that fsspec knows, and lists of URLs, which
    are fetched first. `model` is the version of the model that judges, 0 for the newest; when there is none, one is
    trained from the examples. `keep_off_topic` stores the other pages as well; `max_pages` ends it when so many pages
    were stored. `on_tick` is called a few times a second; when it returns False, sifting ends.
    """
    found = find_sources(sources)
    _ensure_model(collection, model)
    with _interrupts() as interrupted:
        fetched = fetch_lists(collection, found.lists, interrupted)
        report = SiftReport(len(found.archives) + len(fetched.archives), problems=list(found.problems))
        report.damaged = len(found.problems)
        if not fetched.is_whole:
            report.reason = interrupted.reason
            return report
        with collection.opened_store() as store:
            sifting = Sifting(collection, store, report, model=model, keep_off_topic=keep_off_topic)
            sifting.plan([*found.archives, *fetched.archives], workers, program)
            sifting.run(max_pages, on_tick, interrupted)
    if report.reason == FINISHED:
        fetched.remove()
    if collection.settings.search.index:
        collection.update_index()
    return report


FINISHED = "all archives are sifted"


def _ensure_model(collection: Collection, version: int) -> None:
    """Train a model when there is none and there are examples."""
    if collection.settings.classify.classifier == KEYWORDS or version:
        return
    if collection.models():
        return
    has_words = any(topic["keywords"] for topic in collection.topics())
    if collection.examples():
        try:
            collection.train()
        except InputError:
            if not has_words:
                raise
    elif not has_words:
        raise InputError(
            f"{collection.folder}: no model, and no examples or words to judge by",
            f"Give examples: opilio topics add {quote(str(collection.folder))} TOPIC FILE; or crawl first.",
        )


class Interrupted:
    """Whether a signal asked for the end."""

    reason = ""


@contextlib.contextmanager
def _interrupts() -> Iterator[Interrupted]:
    """SIGINT and SIGTERM end the sifting after the next commit; a second one ends it at once."""
    noted = Interrupted()

    def note(number: int, frame: object) -> None:
        if noted.reason:
            raise KeyboardInterrupt
        noted.reason = f"interrupted ({signal.Signals(number).name})"

    before: dict[signal.Signals, signal._HANDLER] = {}
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ValueError):  # not in the main thread
                before[number] = signal.signal(number, note)
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Sifting:
    """One run."""

    def __init__(
        self, collection: Collection, store: Store, report: SiftReport, *, model: int, keep_off_topic: bool
    ) -> None:
        self._collection, self._store, self._report = collection, store, report
        folder = collection.folder / WARC_FOLDER
        ends = store.load_warc_ends()
        for path in folder.glob(f"opilio-*-{WRITER}-*.warc.gz"):  # of a run that was killed
            cut_to_known(path, ends.get(path.name, 0))
        self._absorber, setup = collection.absorber_of_files(store)
        self._out_of_turn = OutOfTurn(store, self._absorber)
        if model:
            setup = msgspec.structs.replace(setup, model=store.load_model(model))
            if not setup.model:
                versions = ", ".join(str(one.version) for one in store.load_models())
                raise InputError(f"no model {model}", f"There are: {versions or 'none yet'}.")
        newest = store.load_models()
        report.model_version = model or (newest[0].version if newest else 0)
        self._setup = SiftSetup(setup, keep_off_topic)
        self._model = f"{xxhash.xxh3_64_hexdigest(setup.model)}{'+' if keep_off_topic else ''}"
        self._files: WarcFiles | None = None
        if collection.settings.store.warc:
            self._files = WarcFiles(
                folder, WRITER, max_bytes=collection.settings.store.warc_max_bytes,
                user_agent=collection.settings.user_agent,
            )  # fmt: skip
        self._units: list[_Unit] = []
        self._waiting: deque[_Unit] = deque()
        self._changed: set[int] = set()
        self._counts: Counter[str] = Counter()
        self._program, self._workers = LOCAL, 0

    # -- what is to be done

    def plan(self, archives: Sequence[ArchiveFile], workers: int, program: SiftProgram) -> None:
        """Make units of the archives; those that were begun go on where they stopped."""
        self._program, self._workers = program, workers
        begun: dict[str, list[_Unit]] = {}
        by_name = {archive.name: archive for archive in archives}
        for lane in sifting_progress(self._store, self._model, [(one.name, one.size) for one in archives]):
            unit = _Unit(
                0, by_name[lane.archive], lane.lane, lane.lanes, Position(lane.record_offset, lane.skip, lane.number),
                lane.judged, lane.on_topic, lane.stored, ended=lane.done,
            )  # fmt: skip
            begun.setdefault(lane.archive, []).append(unit)
        slots = SiftPool(self._setup, workers, program).slots
        new = [archive for archive in archives if archive.name not in begun]
        share = -(-slots // len(new)) if new and not program.is_cluster else 1
        for archive in archives:
            if archive.name in begun:
                lanes = begun[archive.name]
                first = lanes[0].lanes
                there = {unit.lane for unit in lanes if unit.lanes == first}
                self._units += [unit for unit in lanes if unit.lanes == first]
                self._units += [_Unit(0, archive, k, first, Position()) for k in range(first) if k not in there]
            else:
                lanes_wanted = min(share, MAX_LANES) if archive.size >= CUT_BYTES else 1
                self._units += [_Unit(0, archive, k, lanes_wanted, Position()) for k in range(lanes_wanted)]
        for number, unit in enumerate(self._units):
            unit.number = number
            if not unit.ended:
                self._waiting.append(unit)

    # -- the loop

    def run(self, max_pages: int, on_tick: OnSift, interrupted: Interrupted) -> None:
        """Sift until all is done, or somebody wants the end."""
        report, began_s = self._report, time.monotonic()
        settings = self._collection.settings
        self._count_done()
        run = self._store.start_run(time.time(), opilio.__version__, to_toml(without_secrets(settings)))
        pages_before = self._absorber.counters.pages
        ticked_s = 0.0
        try:
            if self._waiting:
                with SiftPool(self._setup, self._workers, self._program) as pool:
                    self._active: dict[int, _Unit] = {}
                    for slot in range(pool.slots):
                        self._next_unit(pool, slot)
                    committed_s = time.monotonic()
                    while self._active and not report.reason:
                        pieces = pool.pieces(TICK_S)
                        self._order_on(pool, pieces)
                        self._absorb(pieces)
                        now_s = time.monotonic()
                        if now_s - committed_s >= COMMIT_S:
                            self._commit()
                            committed_s = now_s
                        report.elapsed_s = now_s - began_s
                        if now_s - ticked_s >= TICK_S:
                            ticked_s = now_s
                            if on_tick(report) is False:
                                report.reason = "stopped by its caller"
                        report.reason = report.reason or interrupted.reason
                        if max_pages and report.stored >= max_pages:
                            report.reason = f"page limit reached ({max_pages:,})"
            report.reason = report.reason or FINISHED
        finally:
            self._commit()
            if self._files is not None:
                self._files.close()
            pages = self._absorber.counters.pages - pages_before
            self._store.finish_run(run, time.time(), f"sifted: {report.reason or 'failed'}", pages)
        report.elapsed_s = time.monotonic() - began_s
        on_tick(report)

    def _next_unit(self, pool: SiftPool, slot: int) -> None:
        if not self._waiting:
            self._active.pop(slot, None)
            return
        unit = self._waiting.popleft()
        unit.is_started = False
        self._active[slot] = unit
        for _ in range(1 if unit.careful else ORDERS):
            self._order(pool, slot, unit)

    def _order(self, pool: SiftPool, slot: int, unit: _Unit) -> None:
        leave_out = unit.losses > 0 and not unit.is_started
        archive = None if unit.is_started else unit.archive
        at = unit.reached or unit.position
        pool.give(SiftOrder(slot, unit.number, archive, at, unit.lane, unit.lanes, unit.careful > 0, leave_out))
        unit.is_started = True

    def _order_on(self, pool: SiftPool, pieces: Sequence[SiftPiece]) -> None:
        """Give each worker its next order before its piece is absorbed."""
        for piece in pieces:
            unit = self._active.get(piece.slot)
            if unit is None or (unit.number != piece.unit and not piece.lost):
                continue  # the answer to an order that was given before the archive had ended
            if piece.lost:  # from the last piece that came on, pages are read one at a time
                unit.losses += unit.careful > 0
                unit.careful = CAREFUL_PIECES
                unit.is_started = False
                self._order(pool, piece.slot, unit)
                continue
            unit.reached = piece.position
            if piece.ended:
                self._next_unit(pool, piece.slot)
                continue
            self._order(pool, piece.slot, unit)
            if unit.careful:
                unit.losses, unit.careful = 0, unit.careful - 1
                if not unit.careful:
                    self._order(pool, piece.slot, unit)

    # -- what came

    def _absorb(self, pieces: Sequence[SiftPiece]) -> None:
        known = self._absorber.frontier.known
        pieces = [piece for piece in pieces if not piece.lost and not self._units[piece.unit].ended]
        keys = [url_key(found.visit.lease.url) for piece in pieces for found in piece.found]
        oids = [oid for oid in map(known.get, keys) if oid != ABSENT and not self._absorber.ledger.is_stored(oid)]
        if oids:
            self._commit()  # rows of queued URLs are read from the database
            self._out_of_turn.prepare(oids)
        for piece in pieces:
            unit = self._units[piece.unit]
            for found in piece.found:
                what = self._take(unit.archive, found)
                self._counts[what] += 1
                unit.stored += what == STORED
            unit.position = piece.position
            unit.judged += piece.counts.get(JUDGED, 0)
            unit.on_topic += piece.counts.get(ON_TOPIC, 0)
            unit.ended = unit.ended or piece.ended
            self._counts.update(piece.counts)
            room = SHOWN_PROBLEMS - len(self._report.problems)
            self._report.problems += [
                f"{unit.archive.name}, byte {offset:,}: {text}" for offset, text in piece.problems[: max(0, room)]
            ]
            self._changed.add(unit.number)
            if unit.ended:
                self._count_done()
        self._tell()

    def _take(self, archive: ArchiveFile, found: Found) -> str:
        """Take in a page; what became of it."""
        absorber, visit = self._absorber, found.visit
        ledger, url, fetch = absorber.ledger, visit.lease.url, visit.fetch
        assert visit.document is not None
        captured_s = fetch.started_s
        at_s = captured_s or time.time()
        oid = absorber.frontier.known.get(url_key(url))
        if oid != ABSENT and (ledger.is_stored(oid) or oid in ledger.recrawls):
            return self._leave(visit.document, THERE)
        if oid == ABSENT or ledger.states.is_not_followed(oid):
            oid = absorber.offer(url, parent=-1, depth=1, relevance=1.0, topic=0, now_s=at_s)
        if oid == ABSENT or not (ledger.is_open(oid) or ledger.states[oid] is UrlState.FAILED):
            is_repeat = oid != ABSENT and ledger.aliases.final(oid) != oid
            return self._leave(visit.document, DUPLICATES if is_repeat else REJECTED)
        if self._files is not None:
            place = self._files.append(WarcRecords(found.record, 0))
            fetch = msgspec.structs.replace(
                fetch, warc_file=place.file, warc_offset=place.offset, warc_bytes=place.length
            )
        fetch = msgspec.structs.replace(fetch, started_s=at_s)
        lease = absorber.frontier.lease_page(self._out_of_turn.take(oid))
        absorber.absorb(msgspec.structs.replace(visit, lease=lease, fetch=fetch), at_s)
        if not ledger.is_stored(oid):
            return DUPLICATES
        ledger.batch.sifted.add(oid, archive.name, found.offset, captured_s, time.time())
        return STORED

    def _leave(self, document: object, what: str) -> str:
        self._absorber.ledger.recorder.add_words(self._absorber.ledger.batch, document)  # type: ignore[arg-type]
        return what

    def _commit(self) -> None:
        """Write what was taken in, and where each archive stands, in one transaction."""
        rows = self._absorber.ledger.batch.archives
        for number in sorted(self._changed):
            unit = self._units[number]
            at = unit.position
            rows.add(
                unit.archive.name, unit.archive.size, self._model, unit.lane, unit.lanes, at.offset, at.skip,
                at.number, unit.ended, unit.judged, unit.on_topic, unit.stored,
            )  # fmt: skip
        self._changed.clear()
        self._out_of_turn.commit()

    def _count_done(self) -> None:
        open_names = {unit.archive.name for unit in self._units if not unit.ended}
        self._report.done = len({unit.archive.name for unit in self._units} - open_names)

    def _tell(self) -> None:
        report, counts = self._report, self._counts
        report.judged, report.on_topic, report.stored = counts[JUDGED], counts[ON_TOPIC], counts[STORED]
        report.there_already, report.duplicates, report.rejected = counts[THERE], counts[DUPLICATES], counts[REJECTED]
        report.damaged = counts[DAMAGE]
        shown = {JUDGED, ON_TOPIC, STORED, THERE, DUPLICATES, REJECTED, DAMAGE}
        report.left_out = {name: count for name, count in counts.most_common() if name not in shown}
