"""How a new collection is built from others: in a folder that is complete or not there, with a scratch database.

The folder is built next to its place under another name, and then renamed. In the scratch database collections are
attached and their rows numbered. It is in the folder that is being built, and deleted in the end; so memory stays
within a limit, however large the collections are.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from opilio.errors import CollectionBusy, CollectionError, StoreError
from opilio.store.connection import FILE_NAME, MAX_THREADS, store_error, sync_folder
from opilio.store.database import Store


@contextlib.contextmanager
def building(target: Path) -> Iterator[Path]:
    """A new folder, which is renamed to `target` when all went well, and deleted when not.

    What a killed build has left is deleted by the next one; two builds at once are refused.
    """
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise CollectionError(f"{target}: exists already", "Choose a new folder: nothing is overwritten.")
    target = target.absolute()
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        unfinished.mkdir(parents=True, exist_ok=True)
        handle = os.open(unfinished, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)  # never empty a folder behind a link
    except OSError as error:
        raise CollectionError(f"{target}: cannot make the folder: {error.strerror}", "Choose another.") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CollectionBusy(f"{target}: another process is making it", "Wait for its end.") from None
        _empty(unfinished)
        try:
            yield unfinished
            unfinished.rename(target)
            sync_folder(target.parent)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    finally:
        os.close(handle)


def check_room(place: Path, bytes_needed: int) -> None:
    """Raise CollectionError when there is less room than is needed."""
    free_bytes = shutil.disk_usage(place).free
    if bytes_needed > free_bytes:
        raise CollectionError(
            f"{place}: about {bytes_needed / 1e9:.1f} GB are needed, {free_bytes / 1e9:.1f} GB are free",
            "Make room, or choose a folder on another disk.",
        )


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


NAME = "scratch.duckdb"

# The page of an example is that of its URL, of the target of a redirect, or of the page it is a duplicate of.
_EXAMPLE_TEXTS = """
    WITH RECURSIVE way(name, oid, hops) AS (
        SELECT t.name, c.oid, 0 FROM {0}.crawl c JOIN {0}.training t ON t.name = c.url WHERE t.kind = 'url'
        UNION ALL
        SELECT w.name, coalesce(r.oid_dst, d.of_oid), w.hops + 1
        FROM way w
        LEFT JOIN {0}.redirects r ON r.oid_src = w.oid
        LEFT JOIN {0}.duplicates d ON d.oid = w.oid
        WHERE w.hops < 25 AND coalesce(r.oid_dst, d.of_oid) IS NOT NULL
    )
    SELECT w.name, arg_max(p.text, w.hops) AS text FROM {0}.pages p JOIN way w ON w.oid = p.oid GROUP BY w.name
"""


class Scratch:
    """The scratch database, open, with the collections that are attached to it."""

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        self._folder = folder
        self._memory_bytes = memory_bytes
        path = folder / NAME
        try:
            self._connection = duckdb.connect(
                str(path),
                config={
                    "threads": min(MAX_THREADS, len(os.sched_getaffinity(0))),
                    "memory_limit": f"{max(memory_bytes, 64 * 2**20) >> 20}MiB",
                    "temp_directory": str(path.with_suffix(".spill")),
                    "python_enable_replacements": "false",
                    "autoinstall_known_extensions": "false",
                    "autoload_known_extensions": "false",
                    "checkpoint_threshold": "256MB",  # without a limit, the log takes twice the room of the data
                },
            )
            self._connection.execute("SET max_vacuum_tasks = 0")  # it would write everything once more
        except duckdb.Error as error:
            raise store_error(path, error, "make") from error

    def close(self) -> None:
        """Close it and delete its files."""
        self._connection.close()
        for file in self._folder.glob(f"{NAME}*"):
            file.unlink()

    def run(self, statements: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute SQL; the rows of the last statement."""
        try:
            return self._connection.execute(statements, list(values)).fetchall()
        except (duckdb.Error, OSError) as error:
            raise StoreError(
                f"{self._folder}: could not be written: {' '.join(str(error).split())}",
                "The originals have not changed. Make room, or raise memory_bytes in [store]; then try again.",
            ) from error

    def keep(self, name: str, columns: dict[str, pa.Array]) -> None:
        """Make a table of values that were computed in Python."""
        self._connection.register("incoming", pa.table(columns))
        self.run(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM incoming")
        self._connection.unregister("incoming")

    @contextmanager
    def reading(self, folder: Path, name: str) -> Iterator[None]:
        """A collection attached for reading: no crawl can start in it meanwhile."""
        with Store.open(folder, read_only=True, memory_bytes=self._memory_bytes):
            pass  # now it has the newest schema and an empty journal
        self._attach(folder, f"{name} (READ_ONLY)")
        try:
            if self.run(f"SELECT count(*) FROM {name}.crawl_changes") != [(0,)]:
                raise CollectionBusy(f"{folder}: a crawl has just started here", "Stop it first, or wait for its end.")
            yield
        finally:
            self.run(f"DETACH {name}")

    @contextmanager
    def making(self, folder: Path, name: str) -> Iterator[None]:
        """A new collection attached for writing; it is on disk in the end."""
        Store.create(folder, memory_bytes=self._memory_bytes).close()
        self._attach(folder, name)
        yield
        self.run(f"CHECKPOINT {name}")
        self.run(f"DETACH {name}")

    def _attach(self, folder: Path, name: str) -> None:
        path = str(folder.absolute() / FILE_NAME).replace("'", "''")
        alias, _, options = name.partition(" ")
        try:
            self._connection.execute(f"ATTACH '{path}' AS {alias} {options}")
        except duckdb.Error as error:
            raise store_error(folder / FILE_NAME, error, "open") from error


def keep_measured(scratch: Scratch, measured: Mapping[str, str]) -> None:
    """Make the table of the totals that can be counted in a collection, and of what each of them counts."""
    names, measures = list(measured), list(measured.values())
    scratch.keep("measured", {"name": pa.array(names, pa.string()), "measure": pa.array(measures, pa.string())})


def example_texts(database: str) -> str:
    """The query for the texts of the examples whose page an attached collection has: name, text."""
    return _EXAMPLE_TEXTS.format(database)
