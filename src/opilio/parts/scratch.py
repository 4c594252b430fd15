"""The scratch database, in which collections are attached and their rows numbered while a new one is made of them.

It is in the folder that is being built, and deleted in the end. So memory stays within a limit, however large the
collections are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from opilio.errors import CollectionBusy, StoreError
from opilio.store.connection import FILE_NAME, MAX_THREADS, store_error
from opilio.store.database import Store

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
