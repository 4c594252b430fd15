"""`StoreReader`: the statements of users and of the crawl, each in a snapshot of its own.

A snapshot has all that was committed before it was taken (invariant 3 of the store): the journal of changes is folded
into its table first, and no batch can come in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa

from opilio.errors import QueryError
from opilio.settings import MIB
from opilio.store import guard, marks, refill
from opilio.store.connection import DatabaseFile, roll_back, store_error
from opilio.store.guard import Result
from opilio.store.refill import StoredUrl

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt


MAX_ROWS = 100_000
MAX_CHARS = 32 * MIB
PIECE_ROWS = 64
STREAM_ROWS = 10_000

WATCH_S = 0.05
_INTERRUPTED = "the query was interrupted", "Give it more time, or ask for less."
_HELD_BYTES = "SELECT memory_usage_bytes FROM duckdb_memory() WHERE tag = 'ALLOCATOR'"
_READ_ONLY = "BEGIN TRANSACTION READ ONLY"


class StoreReader:
    """Answers queries, from any thread. Changes nothing, except by a statement that the user allowed to."""

    def __init__(self, file: DatabaseFile, settle: Callable[[], None]) -> None:
        """`settle` brings every table up to date with what was committed."""
        self._file = file
        self._settle = settle
        self._checked_orders: set[str] = set()
        self._running: set[duckdb.DuckDBPyConnection] = set()

    @property
    def edits(self) -> int:
        """How often rows were changed otherwise than by a batch, or topics in any way: read it before a query."""
        return self._file.edits

    def select(self, sql: str, params: Sequence[Any] | Mapping[str, Any] = (), *, max_rows: int = MAX_ROWS) -> Result:
        """Answer a query of this package's own, without any text of a user's. It is not checked, which takes 1 ms."""
        with self._cursor() as cursor:
            self._take_snapshot(cursor)
            return _answer(cursor, sql, params, max_rows)

    def query(
        self,
        sql: str,
        params: Sequence[Any] | Mapping[str, Any] = (),
        *,
        write: bool = False,
        settles_marks: bool = False,
        timeout_s: float = 0.0,
        max_rows: int = MAX_ROWS,
        max_chars: int = 0,
    ) -> Result:
        """Answer one statement of the user's; from any thread. It may change rows only with `write`.

        With `timeout_s` it ends after so long, and when it holds so much memory that the crawl could lack some.
        With `settles_marks`, a change that leaves impossible marks of topics is refused, as a whole (`marks.py`).
        With `max_chars`, rows end where their texts together would be longer: an answer need not fit into memory.
        """
        with self._cursor() as cursor:
            is_change = guard.check(cursor, sql, write=write)
            if max_chars:
                cursor.execute(guard.BOUNDED_FUNCTIONS)
            with self._file.turn if is_change else nullcontext(), self._watched(cursor, timeout_s):
                self._take_snapshot(cursor, "BEGIN" if is_change else _READ_ONLY)
                topics = marks.read_topics(cursor) if is_change and settles_marks else None
                result = _answer(cursor, sql, params, max_rows, max_chars)
                if topics is not None:
                    marks.settle_marks(cursor, topics)
                if is_change:
                    cursor.execute("COMMIT")
                    self._file.edits += 1
        return result

    def stream(self, sql: str, params: Sequence[Any] = (), rows: int = 0) -> Iterator[pa.RecordBatch]:
        """The answer to a query of the user's in pieces, however large it is; `rows` are about how many a piece has."""
        with self._cursor() as cursor:
            guard.check(cursor, sql)
        yield from self.select_pieces(sql, params, rows)

    def select_pieces(self, sql: str, params: Sequence[Any] = (), rows: int = 0) -> Iterator[pa.RecordBatch]:
        """The answer to a query of this package's own, as by `select`, in pieces, as by `stream`."""
        with self._cursor() as cursor:
            self._take_snapshot(cursor)
            reader = cursor.sql(sql, params=list(params)).to_arrow_reader(rows or STREAM_ROWS)
            pieces = 0
            for piece in reader:
                pieces += 1
                yield piece
            if not pieces:  # the names and types of the columns are an answer too
                yield pa.RecordBatch.from_pylist([], schema=reader.schema)

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
        if order_by not in self._checked_orders:
            self.check_order_by(order_by)
        with self._cursor() as cursor:
            self._take_snapshot(cursor)
            return refill.next_waiting(cursor, order_by, limit, exclude, topic, per_host, now_s)

    def check_order_by(self, order_by: str) -> None:
        """Raise a QueryError for an order that cannot be used."""
        with self._cursor() as cursor:
            refill.check_order_by(cursor, order_by)
        self._checked_orders.add(order_by)

    @contextmanager
    def snapshot(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor that sees all that is committed now, and changes nothing."""
        with self._cursor() as cursor:
            self._take_snapshot(cursor)
            yield cursor

    def cancel_queries(self) -> None:
        """Interrupt every query that is running."""
        for cursor in list(self._running):
            cursor.interrupt()

    @contextmanager
    def _cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor of its own, with DuckDB's errors translated; an open transaction is rolled back in the end."""
        cursor = self._file.cursor()
        self._running.add(cursor)
        try:
            yield cursor
        except duckdb.InterruptException:
            raise QueryError(*_INTERRUPTED) from None
        except duckdb.FatalException as error:
            raise store_error(self._file.path, error, "read") from error
        except duckdb.Error as error:
            raise guard.query_error(error) from None
        finally:
            self._running.discard(cursor)
            roll_back(cursor)
            cursor.close()

    @contextmanager
    def _watched(self, cursor: duckdb.DuckDBPyConnection, timeout_s: float) -> Iterator[None]:
        """Interrupt `cursor` after `timeout_s` seconds (0: never), or when lists and texts that it collects fill half
        of the database's memory: they cannot be moved to the disk, and a batch of the crawl may need the rest."""
        if not timeout_s:
            yield
            return
        done, reasons = threading.Event(), list[QueryError]()
        watcher = threading.Thread(target=self._watch, args=(cursor, timeout_s, done, reasons), daemon=True)
        watcher.start()
        try:
            yield
        except duckdb.InterruptException:
            raise (reasons[0] if reasons else QueryError(*_INTERRUPTED)) from None
        finally:
            done.set()
            watcher.join()

    def _watch(
        self,
        cursor: duckdb.DuckDBPyConnection,
        timeout_s: float,
        done: threading.Event,
        reasons: list[QueryError],
    ) -> None:
        deadline_s = time.monotonic() + timeout_s
        own = self._file.cursor()
        try:
            while not done.wait(WATCH_S):
                if time.monotonic() >= deadline_s:
                    reasons.append(QueryError(f"the query took longer than {timeout_s:g} s", "Ask for less."))
                elif own.execute(_HELD_BYTES).fetchall()[0][0] > self._file.memory_bytes // 2:
                    reasons.append(QueryError("the query collects too much in memory", "Ask for less at a time."))
                if reasons:
                    cursor.interrupt()
        finally:
            own.close()

    def _take_snapshot(self, cursor: duckdb.DuckDBPyConnection, begin: str = _READ_ONLY) -> None:
        """Begin a transaction that sees all that is committed, and nothing that comes later."""
        with self._file.turn:  # no batch may come between the folding and the first look
            self._settle()
            cursor.execute(begin)
            cursor.execute("SELECT 1 FROM meta").fetchall()  # DuckDB takes its snapshot at the first look


def _answer(
    cursor: duckdb.DuckDBPyConnection,
    sql: str,
    params: Sequence[Any] | Mapping[str, Any],
    max_rows: int,
    max_chars: int = 0,
) -> Result:
    cursor.execute(sql, params if isinstance(params, Mapping) else list(params))
    rows, truncated = _fetch(cursor, max_rows, max_chars)
    return Result(tuple(column[0] for column in cursor.description or ()), rows, truncated)


def _fetch(cursor: duckdb.DuckDBPyConnection, max_rows: int, max_chars: int) -> tuple[list[tuple[Any, ...]], bool]:
    """At most so many rows of an answer, with at most so many characters, and whether there are more."""
    if not max_chars:
        rows = cursor.fetchmany(max_rows + 1)
        return rows[:max_rows], len(rows) > max_rows
    rows, chars = [], 0
    while len(rows) <= max_rows:
        piece = cursor.fetchmany(PIECE_ROWS)
        if not piece:
            return rows, False
        for row in piece:
            chars += sum(map(_chars, row))
            if chars > max_chars:
                return rows[:max_rows], True
            rows.append(row)
    return rows[:max_rows], True


def _chars(value: Any) -> int:
    if isinstance(value, (str, bytes)):
        return len(value)
    return len(repr(value)) if isinstance(value, (list, tuple, dict)) else 0
