"""`Store`: the database of one collection."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from opilio.errors import CollectionError, OpilioError, StoreError
from opilio.settings import GIB, MIB
from opilio.store import connection as schema
from opilio.store.batch import Batch
from opilio.store.connection import FILE_NAME, connect, store_error, sync_folder
from opilio.store.reading import Reading, roll_back

if TYPE_CHECKING:  # it takes a tenth of a second to import
    pass


FOLD_ROWS = 50_000  # an UPDATE of 500 rows of 8 million costs 69 ms of CPU, one of 50,000 costs 550 ms
MIN_LOG_BYTES, MAX_LOG_BYTES = 16 * MIB, 256 * MIB

_CHANGED = ("topic", "state", "outcome", "numtries", "relevance", "priority", "not_before", "lastvisited")
_FOLD = f"""
UPDATE crawl SET {", ".join(f"{name} = latest.{name}" for name in _CHANGED)}
FROM (
    SELECT * FROM crawl_changes QUALIFY row_number() OVER (PARTITION BY oid ORDER BY seq DESC) = 1
) latest
WHERE crawl.oid = latest.oid
"""
# Tables whose rows are replaced; all others are appended to.
_REPLACED_BY = {"hosts": "sid", "topics": "kcid", "counters": "name"}


class Store(Reading):
    """The database of a collection, open. Use as a context manager, or call `close`."""

    def __init__(self, path: Path, connection: duckdb.DuckDBPyConnection, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self._root: duckdb.DuckDBPyConnection | None = connection  # only ever asked for cursors
        self._writer = connection.cursor()
        self._turn = threading.RLock()  # held by whoever changes anything
        self._journal_rows = 0
        self._next_seq = 0
        self._checked_orders: set[str] = set()
        self._running: set[duckdb.DuckDBPyConnection] = set()

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
            store._journal_rows = store.query("SELECT count(*) FROM crawl_changes").rows[0][0]
            if read_only and store._journal_rows:  # the last crawl was killed
                store.close()
                cls.open(folder, memory_bytes=memory_bytes).close()
                return cls.open(folder, read_only=True, memory_bytes=memory_bytes)
            store._settle()
        except duckdb.Error as error:
            connection.close()
            raise store_error(path, error, "open") from error
        except OpilioError:
            connection.close()
            raise
        return store

    def close(self) -> None:
        """Carry the journal into its table and close; safe to call twice."""
        with self._turn:
            if self._root is None:
                return
            with suppress(StoreError):  # no room: the journal stays, and is carried over when the store is opened
                self._settle()
            self._writer.close()
            self._root.close()
            self._root = None

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    # -- writing

    def write(self, batch: Batch) -> None:
        """Commit `batch` in one transaction. It is on disk on return; nothing of it is when this raises."""
        tables = [(name, rows.to_arrow()) for name, rows in batch.tables() if len(rows)]
        if batch.counters:
            names, totals = list(batch.counters), list(batch.counters.values())
            tables.append(("counters", pa.table({"name": names, "n": pa.array(totals, pa.int64())})))
        with self._changing("write"):
            self._keep_house()
            with self._transaction():
                if batch.replaced:
                    self._remove_pages(batch.replaced)
                for name, table in tables:
                    self._write_table(name, table)
                if batch.progress is not None:
                    self._writer.execute("DELETE FROM progress")
                    values = list(dataclasses.astuple(batch.progress))
                    self._writer.execute("INSERT INTO progress VALUES (?, ?, ?, ?, ?)", values)
            self._journal_rows += len(batch.changes)
            self._next_seq += len(batch.changes)

    def _write_table(self, name: str, table: pa.Table) -> None:
        target = {"urls": "crawl", "changes": "crawl_changes"}.get(name, name)
        if name == "changes":
            seq = np.arange(self._next_seq, self._next_seq + len(table))
            table = table.append_column("seq", pa.array(seq, pa.int64()))
        columns = table.column_names
        self._writer.register("incoming", table)
        try:
            if name in _REPLACED_BY:
                self._writer.execute(_merge_sql(target, _REPLACED_BY[name], columns))
            else:
                self._writer.execute(f"INSERT INTO {target} ({', '.join(columns)}) FROM incoming")
        finally:
            with contextlib.suppress(duckdb.Error):  # in a transaction that failed, this fails too and would hide why
                self._writer.unregister("incoming")

    @contextmanager
    def writing(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection that writes, in a transaction of its own, for parts of the store that stand for themselves."""
        with self._changing("write"):
            self._settle()
            with self._transaction():
                yield self._writer

    @contextmanager
    def reading(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection that sees all that is committed now, and changes nothing."""
        with self._reading() as cursor:
            self._take_snapshot(cursor)
            yield cursor

    def _remove_pages(self, oids: list[int]) -> None:
        self._writer.register("incoming", pa.table({"oid": pa.array(oids, pa.int64())}))
        for table, key in (("pages", "oid"), ("links", "oid_src"), ("terms", "oid")):
            self._writer.execute(f"DELETE FROM {table} WHERE {key} IN (SELECT oid FROM incoming)")
        self._writer.unregister("incoming")

    def start_run(self, started_s: float, version: str, settings: str) -> int:
        """Note that a crawl begins; the number of this run."""
        with self._changing("write"), self._transaction():
            [row] = self._writer.execute("SELECT coalesce(max(run), 0) + 1 FROM runs").fetchall()
            values = [row[0], started_s, version, settings]
            self._writer.execute(
                "INSERT INTO runs SELECT $1, make_timestamp(($2 * 1e6)::BIGINT), NULL, NULL, NULL, $3, $4", values
            )
        return int(row[0])

    def finish_run(self, run: int, ended_s: float, reason: str, pages: int) -> None:
        """Note how a crawl ended. A run that was killed has no end."""
        with self._changing("write"), self._transaction():
            self._writer.execute(
                "UPDATE runs SET ended = make_timestamp(($2 * 1e6)::BIGINT), reason = $3, pages = $4 WHERE run = $1",
                [run, ended_s, reason, pages],
            )

    def checkpoint(self) -> None:
        """Carry journal and write-ahead log into the tables."""
        self._settle()
        with self._changing("checkpoint"):
            self._checkpoint()

    def _keep_house(self) -> None:
        """What must be done now and then, before a batch: so an error here never leaves a batch in doubt."""
        if self._journal_rows >= FOLD_ROWS:
            self._settle()
        log = self.path.with_name(self.path.name + ".wal")
        if log.exists() and log.stat().st_size >= log_limit_bytes(self.path.stat().st_size):
            self._checkpoint()

    def _checkpoint(self) -> None:
        with suppress(duckdb.TransactionException):  # a query is in the way: tried again before the next batch
            self._writer.execute("CHECKPOINT")

    def _settle(self) -> None:
        """Fold the journal into `crawl`, so that a reader sees every commit."""
        if not self._journal_rows or self.read_only:
            return
        with self._changing("write"):
            with self._transaction():
                self._writer.execute(_FOLD)
                self._writer.execute("DELETE FROM crawl_changes")
            self._journal_rows = 0

    @contextmanager
    def _changing(self, doing: str) -> Iterator[None]:
        """The turn to change something, with DuckDB's errors translated."""
        with self._turn:
            self._open_root()
            if self.read_only:
                raise StoreError(f"{self.path}: opened for reading only")
            try:
                yield
            except (duckdb.Error, OSError) as error:
                raise store_error(self.path, error, doing) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._writer.execute("BEGIN")
        try:
            yield
            self._writer.execute("COMMIT")
        except BaseException:
            roll_back(self._writer)
            raise

    def _open_root(self) -> duckdb.DuckDBPyConnection:
        if self._root is None:
            raise StoreError(f"{self.path}: the collection has been closed")
        return self._root


def log_limit_bytes(database_bytes: int) -> int:
    """How large the write-ahead log may grow before it is carried into the tables.

    What is in the log is in memory too, uncompressed; so a small collection has it carried over often, which is cheap
    then, and a large one, for which it takes a second, seldom.
    """
    return min(MAX_LOG_BYTES, max(MIN_LOG_BYTES, database_bytes // 4))


def _merge_sql(table: str, key: str, columns: list[str]) -> str:
    return f"""
        MERGE INTO {table} USING incoming ON {table}.{key} = incoming.{key}
        WHEN MATCHED THEN UPDATE SET {", ".join(f"{name} = incoming.{name}" for name in columns if name != key)}
        WHEN NOT MATCHED THEN INSERT ({", ".join(columns)}) VALUES ({", ".join(f"incoming.{n}" for n in columns)})
    """
