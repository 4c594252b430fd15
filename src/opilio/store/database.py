"""`Store`: the database of one collection, and how the threads of a process share it.

A store has four objects with one job each: the open file (`DatabaseFile`), what changes it (`StoreWriter`), what
queries it (`StoreReader`), and what loads whole tables of it (`Loader`). Their
methods are the store's own: `store.query` is that of its reader, `store.load_topics` that of its loader.

DuckDB gives every connection of a process to a file the same database. What is set once, and locked, for the first of
them cannot be set for a second; so threads that read a collection share one store (`reading_together`), opened by the
first and closed by the last.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import duckdb

from opilio.errors import CollectionError, OpilioError, StoreError
from opilio.settings import GIB
from opilio.store import schema
from opilio.store.batch import Batch
from opilio.store.connection import FILE_NAME, DatabaseFile, connect, store_error, sync_folder
from opilio.store.loader import Loader
from opilio.store.reader import StoreReader
from opilio.store.writer import StoreWriter


class Store:
    """The database of a collection, open. Use as a context manager, or call `close`."""

    def __init__(
        self, path: Path, connection: duckdb.DuckDBPyConnection, *, read_only: bool, memory_bytes: int
    ) -> None:
        self.path = path
        self.read_only = read_only
        self._file = DatabaseFile(path, connection, read_only=read_only, memory_bytes=memory_bytes)
        self._writer = StoreWriter(self._file)
        reader = StoreReader(self._file, self._writer.fold_journal)
        loader = Loader(reader)
        self.load_figures = self._writer.load_figures
        self.select = reader.select
        self.select_pieces = reader.select_pieces
        self.query = reader.query
        self.stream = reader.stream
        self.reading = reader.snapshot
        self.cancel_queries = reader.cancel_queries
        self.next_waiting = reader.next_waiting
        self.check_order_by = reader.check_order_by
        self.load_urls = loader.load_urls
        self.load_hosts = loader.load_hosts
        self.load_origins = loader.load_origins
        self.load_topics = loader.load_topics
        self.load_seeds = loader.load_seeds
        self.load_training = loader.load_training
        self.load_examples = loader.load_examples
        self.load_models = loader.load_models
        self.load_model = loader.load_model
        self.load_counters = loader.load_counters
        self.load_progress = loader.load_progress
        self.load_warc_ends = loader.load_warc_ends
        self.waiting_count = loader.waiting_count
        self.count_rows = loader.count_rows

    # -- opening and closing

    @classmethod
    def create(cls, folder: Path, *, memory_bytes: int = GIB) -> Store:
        """Make the database of a new collection in `folder`."""
        path = folder / FILE_NAME
        if path.exists():
            raise CollectionError(f"{folder}: holds a collection already", "Choose another folder, or crawl on in it.")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            connection = connect(path, memory_bytes=memory_bytes, read_only=False)
            schema.create(connection, schema.migrations())
            sync_folder(folder)
        except (duckdb.Error, OSError) as error:
            raise store_error(path, error, "create the database") from error
        return cls(path, connection, read_only=False, memory_bytes=memory_bytes)

    @classmethod
    def open(cls, folder: Path, *, read_only: bool = False, memory_bytes: int = GIB, threads: int = 0) -> Store:
        """Open a collection; all that was committed is there, also after a crash.

        `threads` are those the database may use, 0 meaning all cores. A crawl gives it one: batches are too small to be
        shared out, and trying costs a tenth of the pages a second.
        """
        path = folder / FILE_NAME
        if not path.is_file():
            raise StoreError(
                f"{folder}: no collection here ({FILE_NAME} is missing)",
                "Make one: opilio crawl FOLDER --bookmarks FILE, or --seeds FILE.",
            )
        connection = connect(path, memory_bytes=memory_bytes, read_only=read_only, threads=threads)
        try:
            if read_only and schema.is_older(connection, path):
                connection.close()
                cls.open(folder, memory_bytes=memory_bytes).close()
                return cls.open(folder, read_only=True, memory_bytes=memory_bytes, threads=threads)
            schema.migrate(connection, path, schema.migrations())
            store = cls(path, connection, read_only=read_only, memory_bytes=memory_bytes)
            if read_only and store._writer.journal_rows:  # the last crawl was killed
                store.close()
                cls.open(folder, memory_bytes=memory_bytes).close()
                return cls.open(folder, read_only=True, memory_bytes=memory_bytes)
            store._writer.fold_journal()
        except duckdb.Error as error:
            connection.close()
            raise store_error(path, error, "open") from error
        except OpilioError:
            connection.close()
            raise
        return store

    def close(self) -> None:
        """Fold the journal into its table and close; safe to call twice."""
        with self._file.turn:
            if self._file.is_open:
                self._writer.close()
                self._file.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- writing

    def write(self, batch: Batch) -> None:
        """Commit `batch` in one transaction. It is on disk on return; nothing of it is when this raises."""
        self._writer.write(batch)

    def writing(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """The connection that writes, in a transaction of its own, for the modules of this package."""
        return self._writer.writing()

    def start_run(self, started_s: float, version: str, settings: str) -> int:
        """Note that a crawl begins; the number of this run."""
        return self._writer.start_run(started_s, version, settings)

    def finish_run(self, run: int, ended_s: float, reason: str, pages: int) -> None:
        """Note how a crawl ended. A run that was killed has no end."""
        self._writer.finish_run(run, ended_s, reason, pages)

    def checkpoint(self) -> None:
        """Carry journal and write-ahead log into the tables."""
        self._writer.checkpoint()


@dataclass
class _Open:
    store: Store | None = None
    readers: int = 0
    opening: threading.Lock = field(default_factory=threading.Lock)


_OPEN: dict[Path, _Open] = {}
_LOCK = threading.Lock()


@contextmanager
def reading_together(folder: Path, *, memory_bytes: int) -> Iterator[Store]:
    """The store of a collection, to read, shared with the threads that read it now."""
    path = folder.absolute()
    with _LOCK:
        held = _OPEN.setdefault(path, _Open())
        held.readers += 1
    try:
        with held.opening:  # which may take a while after a crash: readers of other collections do not wait for it
            store = held.store = held.store or Store.open(folder, read_only=True, memory_bytes=memory_bytes)
        yield store
    finally:
        with _LOCK:
            held.readers -= 1
            if not held.readers:
                del _OPEN[path]
                if held.store is not None:
                    held.store.close()
