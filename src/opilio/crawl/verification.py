"""Verification: does everything in a collection that should agree agree? It changes nothing.

A collection keeps the same facts in several places: rows that refer to each other, counts of rows, WARC records that
rows name, an index of the pages. `verify` compares them, one check after another, each with a name:

1. the database can be read, every block of it (`store/invariants.py`);
2. the invariants of its tables hold;
3. each WARC file consists of intact records with right digests, and each page has its record there;
4. the files of the search index match their checksums, and the index has the pages of the database.

Memory is bounded: tables are compared by the database, which spills to disk, and WARC files are read record by record,
one file at a time. While a crawl runs, the database is read through it, and what changes too fast to be compared is
not checked; the report says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

import duckdb
import numpy as np

from opilio.crawl.operations import database
from opilio.crawl.operations.browse import database_state
from opilio.crawl.operations.client import OperationClient, is_running
from opilio.crawl.restore import OnProgress
from opilio.errors import CollectionError, OpilioError, StoreError
from opilio.model import normalize
from opilio.settings import FILE_NAME as SETTINGS_NAME
from opilio.settings import Settings, load
from opilio.settings.files import hide_password
from opilio.store.connection import FILE_NAME as DATABASE_NAME
from opilio.store.invariants import (
    INVARIANTS,
    Ask,
    Broken,
    RecordPlace,
    broken_invariant,
    known_ends,
    page_visits,
    record_places,
    warc_names,
)
from opilio.store.removal import REMOVAL_LEFT
from opilio.store.salvage import DatabaseCopy, missing_tables, reading_file, unreadable
from opilio.store.warc import RESPONSES, WarcPiece, inspect, warc_elsewhere, warc_files

WARC_FOLDER = "warc"
MAX_EXAMPLES = 5
SETTINGS_CHECK, DATABASE_CHECK, WARC_CHECK, PAGES_CHECK, INDEX_CHECK = (
    "the settings can be read",
    "the database can be read",
    "the WARC files are intact",
    "every page has its WARC record",
    "the search index matches the pages",
)


@dataclass
class Check:
    """One thing that was checked."""

    name: str
    defects: list[str] = field(default_factory=list)
    """What is wrong, in words; at most `MAX_EXAMPLES` of `count`."""
    count: int = 0
    unchecked: str = ""
    """Why it could not be checked."""

    def add(self, defect: str, count: int = 1) -> None:
        """Note a defect that stands for `count` of them."""
        self.count += count
        if len(self.defects) < MAX_EXAMPLES:
            self.defects.append(defect)


@dataclass
class Verification:
    """What was checked, and what is wrong."""

    folder: str
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is worth knowing and no defect, such as responses that the next crawl will take in."""

    @property
    def defects(self) -> int:
        """How many checks found something wrong."""
        return sum(check.count > 0 for check in self.checks)

    def check(self, name: str) -> Check:
        """The check of that name."""
        return next(check for check in self.checks if check.name == name)


@dataclass
class FileState:
    """A WARC file, as it is and as the database knows it."""

    name: str
    path: Path | None
    """None: it is missing."""
    damaged: list[WarcPiece] = field(default_factory=list)
    """Bytes that are no intact record, the torn end of a killed crawl left out."""
    lost: list[RecordPlace] = field(default_factory=list)
    """Records that the database names and that are not there."""
    pending: int = 0
    """Responses that the database does not know of yet."""
    is_torn: bool = False
    """Whether it ends with a part of a record, as a killed crawl leaves it; the next crawl cuts that off."""


class Verifier:
    """Checks one collection."""

    def __init__(self, folder: Path, on_progress: OnProgress) -> None:
        self.folder, self._on_progress = folder, on_progress
        self.report = Verification(str(folder))
        self.settings = self._settings()
        self.files: list[FileState] = []
        self.broken: list[Broken] = []
        self.damaged_tables: list[str] = []
        self._running = is_running(folder)

    def run(self) -> None:
        """Make all checks."""
        with ExitStack() as stack:
            copy = None if self._running else self._opened(stack)
            self._check_database(copy)
            if copy is not None and "meta" not in self.damaged_tables and copy.ask(REMOVAL_LEFT):
                note = f"pages are not forgotten completely: opilio forget {quote(str(self.folder))} finishes that"
                self.report.notes.append(note)
            self._check_files(copy)
            self._check_index(copy)

    def _check(self, name: str, unchecked: str = "") -> Check:
        self.report.checks.append(Check(name, unchecked=unchecked))
        return self.report.checks[-1]

    def _settings(self) -> Settings:
        """The settings of the collection; the defaults when they cannot be read."""
        check = self._check(SETTINGS_CHECK)
        try:
            return load(self.folder / SETTINGS_NAME)
        except OpilioError as error:
            check.add(error.message)
            return Settings()

    # -- the database

    def _opened(self, stack: ExitStack) -> DatabaseCopy | None:
        """The database; None when it cannot be opened."""
        path = self.folder / DATABASE_NAME
        if not path.is_file():
            self._check(DATABASE_CHECK).add(f"{DATABASE_NAME} is missing")
            return None
        try:
            return stack.enter_context(reading_file(path, self.settings.store.memory_bytes))
        except StoreError as error:
            self._check(DATABASE_CHECK).add(error.message)
            return None

    def _ask_crawl(self, sql: str) -> list[tuple[Any, ...]]:
        return list(OperationClient(self.folder, self.settings).call(database._read_sql, sql).rows)

    def _check_database(self, copy: DatabaseCopy | None) -> None:
        ask: Ask | None = self._ask_crawl if self._running else copy.ask if copy is not None else None
        if self._running:
            self._check(DATABASE_CHECK, "a crawl is running, which has the file open")
        elif copy is not None:
            check = self._check(DATABASE_CHECK)
            for table in missing_tables(copy):
                check.add(f"the table {table} is missing")
                self.damaged_tables.append(table)
            for done, table in enumerate(copy.tables):
                self._on_progress(f"reading the table {table}", done, len(copy.tables))
                if why := unreadable(copy, table):
                    check.add(f"the table {table} cannot be read: {why}")
                    self.damaged_tables.append(table)
        if ask is None or self.damaged_tables:
            self._check("the tables agree with each other", "the database cannot be read")
            return
        for done, invariant in enumerate(INVARIANTS):
            self._on_progress("comparing tables", done, len(INVARIANTS))
            check = self._check(invariant.name)
            try:
                found = broken_invariant(ask, invariant)
            except (OpilioError, duckdb.Error) as error:
                check.unchecked = str(error).partition("\n")[0]
                continue
            if found is not None:
                self.broken.append(found)
                check.add(f"{found.times:,} times, such as {found.example}" if found.example else "", found.times)

    # -- WARC files

    def _check_files(self, copy: DatabaseCopy | None) -> None:
        files, pages = self._check(WARC_CHECK), self._check(PAGES_CHECK)
        if copy is not None and {"crawl", "pages", "visits", "meta"} & set(self.damaged_tables):
            copy = None
        if copy is None:
            pages.unchecked = "a crawl is running" if self._running else "the database cannot be read"
        found = {path.name: path for path in warc_files(self.folder / WARC_FOLDER)}
        ends = known_ends(copy) if copy is not None else {}
        names = sorted({*found, *(warc_names(copy) if copy is not None else ())})
        for done, name in enumerate(names):
            self._on_progress(f"reading {name}", done, len(names))
            places = record_places(copy, name) if copy is not None else ()
            path = found.get(name) or self._elsewhere(name)
            if path is None and "://" in self.settings.store.warc_url:
                files.unchecked = f"some files are at {hide_password(self.settings.store.warc_url)}"
                continue
            state = read_state(name, path, places, None if copy is None else ends.get(name, 0))
            self.files.append(state)
            _note_defects(state, files, pages)
        pending = sum(state.pending for state in self.files)
        if pending:
            self.report.notes.append(f"{pending:,} responses are in WARC files only: the next crawl takes them in")
        torn = sum(state.is_torn for state in self.files)
        if torn and not self._running:
            self.report.notes.append(f"{torn:,} WARC files end with a torn record: the next crawl cuts it off")

    def _elsewhere(self, name: str) -> Path | None:
        """A file that was moved to another folder (`store.warc_url`)."""
        folder = warc_elsewhere(self.settings.store)
        return folder / name if folder is not None and (folder / name).is_file() else None

    # -- the index

    def _check_index(self, copy: DatabaseCopy | None) -> None:
        from opilio.search.columns import Columns  # noqa: PLC0415  (which takes a while to import)
        from opilio.search.index import FOLDER, index_defects  # noqa: PLC0415

        check = self._check(INDEX_CHECK)
        if self._running:
            check.unchecked = "a crawl is running, and the index follows it"
            return
        self._on_progress("reading the search index", 0, 1)
        visits = None if copy is None or "pages" in self.damaged_tables else page_visits(copy)
        if not (self.folder / FOLDER).is_dir():
            if visits is not None and len(visits[0]) and self.settings.search.index:
                self.report.notes.append("there is no search index: the next search makes one")
            return
        for defect in index_defects(self.folder):
            check.add(defect)
        columns = Columns.load(self.folder / FOLDER)
        if visits is None:
            check.unchecked = "the database cannot be read"
        elif columns is not None:
            oids, visited_us = visits
            at, known = columns.places(oids)
            known[known] = columns["visited_us"][at[known]] == visited_us[known]
            lacking, gone = int((~known).sum()), int((~np.isin(columns["oid"], oids)).sum())
            if gone or (lacking and columns.seen == database_state(self.folder)):
                check.add(
                    f"it lacks {lacking:,} pages and has {gone:,} that are gone: delete its folder, and the next "
                    "search makes it"
                )
            elif lacking:  # a crawl leaves a few to the next search
                self.report.notes.append(f"the search index lacks {lacking:,} pages: the next search adds them")


def read_state(name: str, path: Path | None, places: Sequence[RecordPlace], known_end: int | None) -> FileState:
    """Compare a file with what the database says of it: which records it has, and where the last of them ends.

    `known_end` is None when the database cannot say so.
    """
    state = FileState(name, path)
    expected = {place.offset: place for place in places}
    pieces: Iterator[WarcPiece] = inspect(path) if path is not None else iter(())
    for piece in pieces:
        state.is_torn = not piece.kind and (known_end is None or piece.offset >= known_end)
        if not piece.kind:
            state.damaged.append(piece)
            continue
        if piece.kind in RESPONSES:
            place = expected.get(piece.offset)
            if place is not None and place.length == piece.length and place.url in ("", normalize(piece.url)):
                del expected[piece.offset]
            state.pending += known_end is not None and piece.offset >= known_end
    if state.is_torn:
        state.damaged.pop()
    state.lost = list(expected.values())
    return state


def _note_defects(state: FileState, files: Check, pages: Check) -> None:
    if state.path is None:
        files.add(f"{state.name} is missing")
    for piece in state.damaged:
        files.add(f"{state.name}: the bytes {piece.offset:,} to {piece.offset + piece.length:,} are damaged")
    lost_pages = [place for place in state.lost if place.is_page]
    for place in lost_pages:
        pages.add(f"{place.url} ({state.name}, byte {place.offset:,})")
    if state.lost and not state.damaged and state.path is not None:
        files.add(f"{state.name} lacks {len(state.lost):,} records that the database names")


def _check_folder(folder: Path) -> None:
    has_database = (folder / DATABASE_NAME).exists()
    if not has_database and not warc_files(folder / WARC_FOLDER):
        raise CollectionError(
            f"{folder}: no collection there, neither a database nor WARC files", "Name the folder of a collection."
        )


def verify(folder: Path | str, on_progress: OnProgress = lambda doing, done, steps: None) -> Verification:
    """Check everything that can be checked. Nothing is changed, and a running crawl goes on."""
    return verifier(folder, on_progress).report


def verifier(folder: Path | str, on_progress: OnProgress) -> Verifier:
    """A verifier that has made all checks."""
    _check_folder(Path(folder))
    made = Verifier(Path(folder), on_progress)
    made.run()
    return made
