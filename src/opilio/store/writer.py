"""`StoreWriter`: commits batches and other changes, one transaction each.

A batch appends its changes of `crawl` to a journal, which is folded into the table now and then; the package's
docstring says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import duckdb
import numpy as np
import pyarrow as pa

from opilio.errors import StoreError
from opilio.model import Figures
from opilio.settings import MIB
from opilio.store import arrow, link_history
from opilio.store.batch import Batch
from opilio.store.connection import DatabaseFile, roll_back, store_error

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
_FOLLOW = """
UPDATE crawl SET parent = incoming.parent, depth = incoming.depth, hops = incoming.hops
FROM incoming_followed incoming WHERE crawl.oid = incoming.oid
"""
_REMADE = (("pages", "oid"), ("page_pictures", "oid"), ("sifted", "oid"), ("links", "oid_src"), ("terms", "oid"))
# Tables whose rows are replaced; all others are appended to.
_OF_HISTORY = ("links", "revisits")  # what is stored of them depends on what was there before (`link_history.py`)
_REPLACED_BY = {
    "hosts": ("sid",), "origins": ("sid", "scheme"), "topics": ("kcid",), "counters": ("name",),
    "archives": ("archive", "size", "model", "lane", "lanes"),
}  # fmt: skip


class Incoming:
    """Rows for a view of DuckDB's, which asks for them each time that it is read."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, by Arrow's protocol."""
        return self.rows.__arrow_c_stream__(requested_schema)

    def clear(self) -> None:
        """Let go of the rows; their columns stay."""
        self.rows = self.rows.schema.empty_table()


class StoreWriter:
    """Changes the database. Its changes take turns; what one of them commits is on disk when it returns."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._cursor = file.cursor()
        self._next_seq = 0
        self._incoming: dict[str, Incoming] = {}
        """By name of a table: the rows that the batch has for it."""
        self.journal_rows: int = self._cursor.execute("SELECT count(*) FROM crawl_changes").fetchall()[0][0]
        """Changes that are committed and not yet folded into their table."""
        self._figures: tuple[Figures, int] | None = None
        """The figures after the latest batch, and how many other changes they know of."""

    def write(self, batch: Batch) -> None:
        """Commit `batch` in one transaction. It is on disk on return; nothing of it is when this raises."""
        tables = [(name, rows.to_arrow()) for name, rows in batch.tables() if len(rows) and name not in _OF_HISTORY]
        if batch.links:
            tables.append(("links", link_history.with_first_seen(batch.links, batch.visits)))
        revisits = batch.revisits.to_arrow()
        if batch.counters:
            names, totals = list(batch.counters), list(batch.counters.values())
            tables.append(("counters", pa.table({"name": names, "n": pa.array(totals, pa.int64())})))
        with self._changing("write"):
            self._maintain()
            with self._statements(tables) as statements, self._transaction():
                before = link_history.links_before(self._cursor, batch.replaced) if batch.replaced else None
                if len(revisits):
                    link_history.count_revisits(self._cursor, revisits)
                if batch.replaced:
                    self._remove_pages(batch.replaced)
                for statement in statements:
                    self._cursor.execute(statement)
                if before is not None:
                    link_history.compare_links(self._cursor, before)
                if batch.progress is not None:
                    self._cursor.execute("DELETE FROM progress")
                    values = list(dataclasses.astuple(batch.progress))
                    self._cursor.execute("INSERT INTO progress VALUES (?, ?, ?, ?, ?, ?)", values)
            self.journal_rows += len(batch.changes)
            self._next_seq += len(batch.changes)
            self._figures = self._figures_with(batch)
            self._file.edits += bool(batch.topics)

    def load_figures(self) -> Figures:
        """The figures of the collection. They do not depend on the journal, so it is not folded for them.

        They are counted once; each batch adds to them. After any other change they are counted again.
        """
        with self._file.turn:
            self._file.check_open()
            if self._figures is None or self._figures[1] != self._file.edits:
                try:
                    self._figures = read_figures(self._cursor), self._file.edits
                except duckdb.Error as error:
                    raise store_error(self._file.path, error, "read") from error
            return self._figures[0]

    def _figures_with(self, batch: Batch) -> tuple[Figures, int] | None:
        """The figures with a batch that was committed; None where they must be counted again."""
        if self._figures is None or batch.replaced or len(batch.revisits):
            return None
        before, edits = self._figures
        elapsed_s = batch.counters["elapsed_ms"] / 1000 if "elapsed_ms" in batch.counters else before.elapsed_s
        return dataclasses.replace(before.plus(batch.figures()), elapsed_s=elapsed_s), edits

    @contextmanager
    def _statements(self, tables: Sequence[tuple[str, pa.Table]]) -> Iterator[list[str]]:
        """The statements that write the rows of a batch."""
        try:
            yield [self._statement(name, rows) for name, rows in tables]
        finally:
            for incoming in self._incoming.values():
                incoming.clear()

    def _statement(self, name: str, rows: pa.Table) -> str:
        """The statement that writes rows of a batch, which it finds in a view.

        View and statement are made when they are needed first, outside a transaction, so that they stay. To make them
        in each transaction costs more than to write the rows of a small batch.
        """
        if name == "changes":
            seq = np.arange(self._next_seq, self._next_seq + len(rows), dtype=np.int64)
            rows = rows.append_column("seq", arrow.numbers(seq))
        view, columns = f"incoming_{name}", rows.column_names
        if name not in self._incoming:
            incoming = Incoming(rows)
            self._cursor.register(view, incoming)
            if name != "followed" and name not in _REPLACED_BY:  # only these can be prepared
                target = {"urls": "crawl", "changes": "crawl_changes"}.get(name, name)
                self._cursor.execute(f"PREPARE {view} AS INSERT INTO {target} ({', '.join(columns)}) FROM {view}")
            self._incoming[name] = incoming
        self._incoming[name].rows = rows
        if name == "followed":
            return _FOLLOW
        return _merge_sql(name, _REPLACED_BY[name], columns) if name in _REPLACED_BY else f"EXECUTE {view}"

    @contextmanager
    def writing(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """The connection that writes, in a transaction of its own, for other modules of this package."""
        with self._changing("write"):
            self.fold_journal()
            try:
                with self._transaction():
                    yield self._cursor
            finally:
                self._file.edits += 1

    def _remove_pages(self, oids: list[int]) -> None:
        self._cursor.register("incoming", pa.table({"oid": pa.array(oids, pa.int64())}))
        for table, key in _REMADE:
            self._cursor.execute(f"DELETE FROM {table} WHERE {key} IN (SELECT oid FROM incoming)")
        self._cursor.unregister("incoming")

    def start_run(self, started_s: float, version: str, settings: str) -> int:
        """Note that a crawl begins; the number of this run."""
        with self._changing("write"), self._transaction():
            [row] = self._cursor.execute("SELECT coalesce(max(run), 0) + 1 FROM runs").fetchall()
            values = [row[0], started_s, version, settings]
            self._cursor.execute(
                "INSERT INTO runs SELECT $1, make_timestamp(($2 * 1e6)::BIGINT), NULL, NULL, NULL, $3, $4", values
            )
        return int(row[0])

    def finish_run(self, run: int, ended_s: float, reason: str, pages: int) -> None:
        """Note how a crawl ended. A run that was killed has no end."""
        with self._changing("write"), self._transaction():
            self._cursor.execute(
                "UPDATE runs SET ended = make_timestamp(($2 * 1e6)::BIGINT), reason = $3, pages = $4 WHERE run = $1",
                [run, ended_s, reason, pages],
            )

    def checkpoint(self) -> None:
        """Carry journal and write-ahead log into the tables."""
        self.fold_journal()
        with self._changing("checkpoint"):
            self._checkpoint()

    def _maintain(self) -> None:
        """What must be done now and then, before a batch: so an error here never leaves a batch in doubt."""
        if self.journal_rows >= FOLD_ROWS:
            self.fold_journal()
        log = self._file.path.with_name(self._file.path.name + ".wal")
        if log.exists() and log.stat().st_size >= log_limit_bytes(self._file.path.stat().st_size):
            self._checkpoint()

    def _checkpoint(self) -> None:
        with suppress(duckdb.TransactionException):  # a query is in the way: tried again before the next batch
            self._cursor.execute("CHECKPOINT")

    def fold_journal(self) -> None:
        """Fold the journal into `crawl`, so that a reader sees every commit."""
        if not self.journal_rows or self._file.read_only:
            return
        with self._changing("write"):
            with self._transaction():
                self._cursor.execute(_FOLD)
                self._cursor.execute("DELETE FROM crawl_changes")
            self.journal_rows = 0

    @contextmanager
    def _changing(self, doing: str) -> Iterator[None]:
        """Hold the right to change something; DuckDB's errors are translated."""
        with self._file.turn:
            self._file.check_open()
            if self._file.read_only:
                raise StoreError(f"{self._file.path}: opened for reading only")
            try:
                yield
            except (duckdb.Error, OSError) as error:
                raise store_error(self._file.path, error, doing) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._cursor.execute("BEGIN")
        try:
            yield
            self._cursor.execute("COMMIT")
        except BaseException:
            roll_back(self._cursor)
            raise

    def close(self) -> None:
        """Fold the journal, if there is room, and close."""
        with suppress(StoreError):  # no room: the journal stays, and is folded when the store is opened
            self.fold_journal()
        self._cursor.close()


def read_figures(cursor: duckdb.DuckDBPyConnection) -> Figures:
    """The figures of the collection, in the snapshot of a cursor."""
    [row] = cursor.execute("SELECT pages, judged, relevant, requests, elapsed_s FROM figures").fetchall()
    return Figures(*row)


def log_limit_bytes(database_bytes: int) -> int:
    """How large the write-ahead log may grow before it is carried into the tables.

    What is in the log is in memory too, uncompressed; so a small collection has it carried over often, which is cheap
    then, and a large one, for which it takes a second, seldom.
    """
    return min(MAX_LOG_BYTES, max(MIN_LOG_BYTES, database_bytes // 4))


def _merge_sql(table: str, key: tuple[str, ...], columns: list[str]) -> str:
    return f"""
        MERGE INTO {table} USING incoming_{table} incoming
        ON {" AND ".join(f"{table}.{name} = incoming.{name}" for name in key)}
        WHEN MATCHED THEN UPDATE SET {", ".join(f"{name} = incoming.{name}" for name in columns if name not in key)}
        WHEN NOT MATCHED THEN INSERT ({", ".join(columns)}) VALUES ({", ".join(f"incoming.{n}" for n in columns)})
    """
