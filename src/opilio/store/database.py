"""`Store`: the database of one collection, and how the threads of a process share it.

A store has four objects with one job each: the open file (`DatabaseFile`), what changes it (`StoreWriter`), what
queries it (`StoreReader`), and what loads whole tables of it (`Loader`). Its methods pass on to them.

DuckDB gives every connection of a process to a file the same database. What is set once, and locked, for the first of
them cannot be set for a second; so threads that read a collection share one store (`reading_together`), opened by the
first and closed by the last.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from opilio.errors import CollectionError, OpilioError, StoreError
from opilio.model import CrawlProgress
from opilio.settings import GIB
from opilio.store import schema
from opilio.store.batch import Batch
from opilio.store.connection import FILE_NAME, DatabaseFile, connect, store_error, sync_folder
from opilio.store.guard import Result
from opilio.store.loader import ExampleRecord, HostRecord, Loader, ModelRecord, SeedRecord, TrainingRecord
from opilio.store.reader import MAX_ROWS, StoreReader
from opilio.store.refill import StoredUrl
from opilio.store.writer import StoreWriter
from opilio.topics import TopicRecord

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy as np
    import numpy.typing as npt

    from opilio.store.loader import Columns


class Store:
    """The database of a collection, open. Use as a context manager, or call `close`."""

    def __init__(self, path: Path, connection: duckdb.DuckDBPyConnection, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self._file = DatabaseFile(path, connection, read_only=read_only)
        self._writer = StoreWriter(self._file)
        self._reader = StoreReader(self._file, self._writer.settle)
        self._loader = Loader(self._reader)

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
        return cls(path, connection, read_only=False)

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
            store = cls(path, connection, read_only=read_only)
            if read_only and store._writer.journal_rows:  # the last crawl was killed
                store.close()
                cls.open(folder, memory_bytes=memory_bytes).close()
                return cls.open(folder, read_only=True, memory_bytes=memory_bytes)
            store._writer.settle()
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

    # -- reading

    def query(
        self,
        sql: str,
        params: Sequence[Any] | Mapping[str, Any] = (),
        *,
        write: bool = False,
        timeout_s: float = 0.0,
        max_rows: int = MAX_ROWS,
        max_chars: int = 0,
    ) -> Result:
        """Answer one statement; from any thread. It may change rows only with `write`.

        With `max_chars`, rows end where their texts together would be longer: an answer need not fit into memory.
        """
        return self._reader.query(sql, params, write=write, timeout_s=timeout_s, max_rows=max_rows, max_chars=max_chars)

    def stream(self, sql: str, params: Sequence[Any] = ()) -> Iterator[pa.RecordBatch]:
        """The answer to one query in pieces, however large it is."""
        return self._reader.stream(sql, params)

    def reading(self) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """A connection that sees all that is committed now, and changes nothing."""
        return self._reader.snapshot()

    def cancel_queries(self) -> None:
        """Interrupt every query that is running."""
        self._reader.cancel_queries()

    def next_waiting(
        self,
        order_by: str,
        limit: int,
        *,
        exclude: npt.NDArray[np.int64],
        now_s: float,
        topic: int | None = None,
        per_host: int = 0,
    ) -> list[StoredUrl]:
        """The next URLs to hold in memory, in the user's order: see `refill`."""
        return self._reader.next_waiting(order_by, limit, exclude=exclude, now_s=now_s, topic=topic, per_host=per_host)

    def check_order_by(self, order_by: str) -> None:
        """Raise a QueryError for an order that cannot be used."""
        self._reader.check_order_by(order_by)

    # -- loading

    def load_urls(self, columns: Sequence[str] = ("oid", "key", "sid", "state", "numtries")) -> Iterator[Columns]:
        """All known URLs in chunks of arrays, ascending by oid; `state` as its place in `STATES`."""
        return self._loader.load_urls(columns)

    def load_hosts(self) -> Iterator[HostRecord]:
        """All hosts, ascending by sid, each with its latest robots.txt."""
        return self._loader.load_hosts()

    def load_topics(self) -> list[TopicRecord]:
        """All topics, ascending by kcid."""
        return self._loader.load_topics()

    def load_seeds(self) -> Iterator[SeedRecord]:
        """All seeds, in the order they were named."""
        return self._loader.load_seeds()

    def load_training(self) -> Iterator[TrainingRecord]:
        """All documents to learn from, in the order they were added; redirected URLs lead to their page."""
        return self._loader.load_training()

    def load_examples(self) -> list[ExampleRecord]:
        """The URLs among the documents to learn from, with the redirects that were followed from them."""
        return self._loader.load_examples()

    def load_models(self) -> list[ModelRecord]:
        """All models, newest first."""
        return self._loader.load_models()

    def load_model(self, version: int = 0) -> bytes:
        """The bytes of a model, of the newest when `version` is 0; b'' when there is none."""
        return self._loader.load_model(version)

    def load_counters(self) -> dict[str, int]:
        """The running counts."""
        return self._loader.load_counters()

    def load_progress(self) -> CrawlProgress:
        """How far the crawl has come; that of a new one before it has begun."""
        return self._loader.load_progress()

    def load_warc_ends(self) -> dict[str, int]:
        """For each WARC file, the offset after the last record that the database knows of."""
        return self._loader.load_warc_ends()

    def waiting_count(self) -> int:
        """How many URLs are queued."""
        return self._loader.waiting_count()

    def count_rows(self, table: str) -> int:
        """Rows of a table of the schema."""
        return self._loader.count_rows(table)


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
