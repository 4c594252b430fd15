"""Repair: makes a damaged collection sound again, from whatever is left of it.

Three places hold a page: the database, its WARC record, and the search index, which is made from the database. Repair
goes from file to file:

1. A WARC file with damaged bytes is written again without them. The database forgets records that are lost.
2. A database in which rows merely disagree is mended row by row (`store/invariants.py`).
3. A database that cannot be read, or not all of it, is replaced: topics, examples and models come from what is left of
   it, pages from the WARC files, as after a crash (`restore.py`), and pages that have no WARC record again from what is
   left of it (`store/salvage.py`).
4. An index that does not match is made again.

Invariants: nothing is deleted. What is replaced is moved to a folder `damaged-TIME` in the collection. Nothing is
fetched. What is lost is listed.
"""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from opilio.analyze.files import read_file
from opilio.crawl.collection import Collection
from opilio.crawl.operations.client import is_running
from opilio.crawl.restore import OnProgress
from opilio.crawl.verification import (
    DATABASE_CHECK,
    INDEX_CHECK,
    SETTINGS_CHECK,
    FileState,
    Verification,
    Verifier,
    verifier,
)
from opilio.errors import CollectionBusy, OpilioError, StoreError
from opilio.learn import training_data
from opilio.settings import FILE_NAME as SETTINGS_NAME
from opilio.settings import Settings, load
from opilio.settings.files import write_settings
from opilio.store import Store
from opilio.store.connection import FILE_NAME as DATABASE_NAME
from opilio.store.invariants import INVARIANTS, broken_invariant, forget_records, mend, move_records
from opilio.store.salvage import DatabaseCopy, reading_file, settings_of_last_run, take_inputs, take_rest
from opilio.store.warc import copy_pieces, inspect
from opilio.topics.tree import TopicTree


@dataclass
class Repair:
    """What was done."""

    folder: str
    done: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    kept: str = ""
    """The folder to which the damaged files were moved; '': none were."""
    after: Verification | None = None
    """What a verification finds now."""


def repair(folder: Path | str, on_progress: OnProgress = lambda doing, done, steps: None) -> Repair:
    """Make a collection sound again. A crawl must not be running in it."""
    place = Path(folder)
    if is_running(place):
        raise CollectionBusy(f"{place}: a crawl is running here", f"Stop it first: opilio stop {quote(str(place))}")
    found = verifier(place, on_progress)
    made = _Repairer(place, found, on_progress)
    made.run()
    made.report.after = verifier(place, on_progress).report
    return made.report


class _Repairer:
    """Repairs one collection, by what was found wrong with it."""

    def __init__(self, folder: Path, found: Verifier, on_progress: OnProgress) -> None:
        self._folder, self._found, self._on_progress = folder, found, on_progress
        self._aside = folder / time.strftime("damaged-%Y%m%d-%H%M%S", time.gmtime())
        self.report = Repair(str(folder))

    def run(self) -> None:
        """Mend one file after the other."""
        found, report = self._found, self.report
        cleaned = {
            state.name: self._clean(state)
            for state in found.files
            if state.path is not None and (state.damaged or (state.is_torn and state.lost))
        }
        must_rebuild = bool(found.report.check(DATABASE_CHECK).count) or any(
            not one.invariant.mend for one in found.broken
        )
        if must_rebuild:
            self._rebuild()
        else:
            if found.report.check(SETTINGS_CHECK).count:
                with reading_file(self._folder / DATABASE_NAME, found.settings.store.memory_bytes) as copy:
                    self._mend_settings(copy)
            with Store.open(self._folder, memory_bytes=found.settings.store.memory_bytes) as store:
                self._mend_places(store, cleaned)
                self._mend_rows(store)
        if must_rebuild or found.report.check(INDEX_CHECK).count:
            self._mend_index()
        if self._aside.is_dir():
            report.kept = str(self._aside)

    def _set_aside(self, path: Path) -> Path:
        """Move a damaged file out of the way; where it is now."""
        self._aside.mkdir(exist_ok=True)
        return Path(shutil.move(path, self._aside / path.name))

    # -- WARC files

    def _clean(self, state: FileState) -> dict[int, int]:
        """Write a WARC file again without what is damaged; where each record is now, by where it was."""
        assert state.path is not None
        new = state.path.with_suffix(".new")
        moved = copy_pieces(state.path, (piece for piece in inspect(state.path) if piece.kind), new)
        self._set_aside(state.path)
        new.rename(state.path)
        self.report.done.append(f"{state.name} was written again without its damaged bytes")
        return moved

    def _mend_places(self, store: Store, cleaned: dict[str, dict[int, int]]) -> None:
        for state in self._found.files:
            if not state.lost and state.name not in cleaned:
                continue
            lost = {place.offset for place in state.lost}
            if lost:
                forget_records(store, state.name, sorted(lost))
                pages = sum(place.is_page for place in state.lost)
                self.report.lost.append(
                    f"the archived responses of {len(lost):,} requests in {state.name}, {pages:,} of them of stored "
                    "pages, whose text the database has"
                )
            if state.name in cleaned:
                move_records(store, state.name, cleaned[state.name])

    # -- the database

    def _mend_rows(self, store: Store) -> None:
        for invariant in INVARIANTS:
            broken = broken_invariant(lambda sql: store.query(sql).rows, invariant)
            if broken is None or not invariant.mend:
                continue
            mend(store, invariant)
            self.report.done.append(f"mended: {invariant.name} ({broken.times:,})")
            if invariant.lost:
                self.report.lost.append(f"{broken.times:,} {invariant.lost}")

    def _rebuild(self) -> None:
        old = None
        for name in (DATABASE_NAME, f"{DATABASE_NAME}.wal"):
            if (self._folder / name).is_file():
                aside = self._set_aside(self._folder / name)
                old = aside if name == DATABASE_NAME else old
        memory_bytes = self._found.settings.store.memory_bytes
        with ExitStack() as stack:
            copy: DatabaseCopy | None = None
            if old is not None:
                try:
                    copy = stack.enter_context(reading_file(old, memory_bytes))
                except StoreError:
                    copy = None
            if self._found.report.check(SETTINGS_CHECK).count:
                self._mend_settings(copy)
            store = stack.enter_context(Store.create(self._folder, memory_bytes=memory_bytes))
            lost = take_inputs(store, copy) if copy is not None else ["topics, examples, models, feedback and reviews"]
            if lost:
                self.report.lost.append(f"{', '.join(lost)}: all or some of what was there")
            training_data.add_inputs(store, TopicTree(), "given", read_file)  # the root at least
            collection = Collection(self._folder)
            pages = collection.read_archive(store, self._on_progress)
            self.report.done.append(f"the database was made again, with {pages:,} responses from WARC files")
            if copy is not None:
                brought = take_rest(store, copy)
                self.report.done.append(f"{brought:,} pages without a WARC record came from the old database")
            for invariant in INVARIANTS:
                if invariant.mend and broken_invariant(lambda sql: store.query(sql).rows, invariant):
                    mend(store, invariant)

    def _mend_settings(self, copy: DatabaseCopy | None) -> None:
        path = self._folder / SETTINGS_NAME
        self._set_aside(path)
        text = settings_of_last_run(copy) if copy is not None else ""
        path.write_text(text, encoding="utf-8")
        try:
            load(path)
            self.report.done.append("the settings were taken from the latest crawl" if text else "default settings")
        except OpilioError:
            text = ""
        if not text:
            write_settings(self._folder, Settings())
            self.report.lost.append("the settings: they are the defaults now")
        self._found.settings = load(path)

    # -- the index

    def _mend_index(self) -> None:
        from opilio.search.index import discard_index  # noqa: PLC0415  (which takes a while to import)

        discard_index(self._folder)
        if self._found.settings.search.index:
            Collection(self._folder).update_index()
            self.report.done.append("the search index was made again")
