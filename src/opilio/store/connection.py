"""The database file: opening it with everything else shut out, and DuckDB's errors in the words of our users."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from shlex import quote

import duckdb

from opilio.errors import CollectionBusy, StoreError

FILE_NAME = "collection.duckdb"
MAX_THREADS = 8
SPILL_FACTOR = 32  # how much of the disk a query may take, in terms of the memory; by default DuckDB takes 90 %
FRAGMENTS, FRAGMENT_PAGES = 8, 5000

_BUSY = (
    "could not set lock", "conflicting lock", "different configuration", "already attached",
    "configuration has been locked",
)  # fmt: skip
_FULL = ("no space left", "file too large", "disk quota exceeded", "could not write all bytes", "could not write file")
_NEWER = ("trying to read a database file with version number", "newer version of duckdb", "storage version")
_REFUSED = ("permission denied", "read-only file system")


def connect(path: Path, *, memory_bytes: int, read_only: bool, threads: int = 0) -> duckdb.DuckDBPyConnection:
    """Open the file, isolated: no other file, no extension, no Python variable can be reached by SQL from here on."""
    config: dict[str, str | bool | int | float | list[str]] = {
        "threads": threads or min(MAX_THREADS, len(os.sched_getaffinity(0))),
        "memory_limit": f"{max(memory_bytes, 64 * 2**20) >> 20}MiB",
        "temp_directory": str(path.with_suffix(".spill")),
        "max_temp_directory_size": f"{max(memory_bytes, 64 * 2**20) * SPILL_FACTOR >> 20}MiB",
        # The store checkpoints by itself, between two batches (StoreWriter._maintain).
        "checkpoint_threshold": "1TB",
        "python_enable_replacements": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    is_new = not path.exists()
    try:
        connection = duckdb.connect(str(path), read_only=read_only, config=config)
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        if read_only or is_new or not _is_fragmented(connection):
            connection.execute("SET max_vacuum_tasks = 0")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        raise store_error(path, error, "open") from error
    return connection


def _is_fragmented(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether checkpoints of this session should merge row groups.

    Every checkpoint leaves a row group of what came since the last one. Merging them (a "vacuum task") writes each page
    several times and made a crawl of 300,000 pages half as fast as one of 100,000; never merging lets a thousand small
    sessions waste a megabyte each.
    """
    sql = """
        SELECT count(*) AS groups, sum(count) AS pages FROM pragma_storage_info('pages')
        WHERE column_name = 'oid' AND segment_type = 'BIGINT'
    """
    try:
        groups, pages = connection.execute(sql).fetchall()[0]
    except duckdb.CatalogException:
        return False  # no tables yet
    return bool(groups >= FRAGMENTS and pages / groups < FRAGMENT_PAGES)


def store_error(path: Path, error: BaseException, doing: str) -> StoreError | CollectionBusy:
    """What went wrong with the file, and what to do about it."""
    text = " ".join(str(error).split())
    low = text.lower()
    if any(sign in low for sign in _BUSY):
        return CollectionBusy(
            f"{path.parent}: the collection is in use by another process",
            "Stop the crawl that runs in it, or ask that one (opilio sql, opilio status).",
        )
    if any(sign in low for sign in _FULL):
        return StoreError(
            f"{path}: could not {doing}: the disk is full ({text})",
            "Nothing stored so far is lost. Make room, then start the crawl again: it goes on where it stopped.",
        )
    if "out of memory" in low:
        return StoreError(f"{path}: could not {doing}: {text}", "Raise memory_bytes in the section [store].")
    if any(sign in low for sign in _NEWER):
        return StoreError(f"{path}: made by a newer DuckDB ({text})", "Upgrade the package duckdb.")
    if any(sign in low for sign in _REFUSED):
        return StoreError(f"{path}: could not {doing}: {text}", "Check who owns the folder and its files.")
    if doing == "open":
        return StoreError(
            f"{path}: cannot be read as a database; it is damaged or of another kind ({text})",
            f"The WARC files still hold every page. Bring all of it back: opilio repair {quote(str(path.parent))}",
        )
    return StoreError(f"{path}: could not {doing}: {text}", "What was written before is safe; start the crawl again.")


def sync_folder(folder: Path) -> None:
    """Make the names of new files in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class DatabaseFile:
    """The open file: gives cursors until it is closed, and the lock that changes take turns by."""

    def __init__(
        self, path: Path, connection: duckdb.DuckDBPyConnection, *, read_only: bool, memory_bytes: int
    ) -> None:
        self.path = path
        self.memory_bytes = memory_bytes
        self.read_only = read_only
        self.turn = threading.RLock()
        """Held by whoever changes anything."""
        self.edits = 0
        """How often rows were changed otherwise than by a batch, or topics in any way."""
        self._connection: duckdb.DuckDBPyConnection | None = connection  # only ever used to make cursors

    @property
    def is_open(self) -> bool:
        """Whether `close` has not been called."""
        return self._connection is not None

    def check_open(self) -> duckdb.DuckDBPyConnection:
        """The connection. Raises StoreError when the file has been closed."""
        if self._connection is None:
            raise StoreError(f"{self.path}: the collection has been closed")
        return self._connection

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor with transactions of its own. Raises StoreError when the file has been closed."""
        return self.check_open().cursor()

    def close(self) -> None:
        """Close the file; safe to call twice."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def roll_back(cursor: duckdb.DuckDBPyConnection) -> None:
    """Give up the open transaction, if there is one."""
    with suppress(duckdb.Error):  # nothing was open, or the database is closed for good
        cursor.execute("ROLLBACK")
