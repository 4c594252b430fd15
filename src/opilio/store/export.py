"""Exporting pages: JSON Lines, CSV or Parquet, piece by piece, however many there are; and all of it as WACZ.

The rows are those of the view `collection`. A file appears under its name only when it is complete. A CSV file has
text that anybody may have written: a spreadsheet may take a cell that begins with `=` for a formula, so open it as
data.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import msgspec

from opilio.errors import InputError, QueryError
from opilio.store.database import Store

if TYPE_CHECKING:  # a crawl, which exports nothing, imports this module for its names
    import pyarrow as pa

DEFAULT_COLUMNS = (
    "url", "visited", "status", "content_type", "language", "title", "description", "main_text", "relevance", "topic",
)  # fmt: skip
STDOUT = "-"


class _Sink(Protocol):
    """Takes the pieces of an export."""

    def write(self, piece: pa.RecordBatch) -> None:
        """Write one piece."""

    def close(self) -> None:
        """Write what belongs at the end of the file."""


class _JsonLines:
    def __init__(self, file: BinaryIO, _schema: pa.Schema) -> None:
        self._file = file
        self._encoder = msgspec.json.Encoder()

    def write(self, piece: pa.RecordBatch) -> None:
        for row in piece.to_pylist():
            self._file.write(self._encoder.encode(row) + b"\n")

    def close(self) -> None:
        pass


class _Csv:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        import pyarrow.csv  # noqa: PLC0415

        self._writer = pyarrow.csv.CSVWriter(file, schema)

    def write(self, piece: pa.RecordBatch) -> None:
        self._writer.write_batch(piece)

    def close(self) -> None:
        self._writer.close()


class _Parquet:
    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        import pyarrow.parquet  # noqa: PLC0415

        self._writer = pyarrow.parquet.ParquetWriter(file, schema, compression="zstd")

    def write(self, piece: pa.RecordBatch) -> None:
        self._writer.write_batch(piece)

    def close(self) -> None:
        self._writer.close()


_SINKS: dict[str, Callable[[BinaryIO, pa.Schema], _Sink]] = {"jsonl": _JsonLines, "csv": _Csv, "parquet": _Parquet}
WACZ = "wacz"
TABLES = tuple(_SINKS)
FORMATS = (*TABLES, WACZ)


def export_pages(
    store: Store,
    target: str,
    format_name: str = "",
    *,
    columns: Sequence[str] = DEFAULT_COLUMNS,
    where: str = "",
    oids: Sequence[int] | None = None,
    warc_elsewhere: Path | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Write the pages that `where` admits to the file `target`, or to standard output for `-`; how many there were.

    With `oids`, only these pages. `warc_elsewhere` is the folder to which WARC files were moved, for a WACZ.
    """
    name = format_name or (Path(target).suffix.lstrip(".").lower() if target != STDOUT else "jsonl")
    if name not in FORMATS:
        raise InputError(f"{target}: unknown format {name!r}", f"Choose one of: {', '.join(FORMATS)}.")
    if target == STDOUT and name in ("parquet", WACZ):
        shown = "WACZ" if name == WACZ else "Parquet"
        raise InputError(f"{shown} cannot be written to standard output", "Name a file.")
    if name == WACZ:
        if where or tuple(columns) != DEFAULT_COLUMNS or oids is not None:
            raise InputError("a WACZ holds the whole collection", "Leave out --columns and --where.")
        from opilio.store.wacz import write_wacz  # noqa: PLC0415

        with open_target(target) as file:
            return write_wacz(store, file, warc_elsewhere)
    if oids is None:
        pieces = store.stream(_sql(store, columns, where))
    else:
        pieces = store.stream(_sql(store, columns, "oid IN (SELECT unnest($1::BIGINT[]))"), [list(oids)])
    with open_target(target) as file:
        return write_table(pieces, file, name, on_progress or (lambda _: None))


def _sql(store: Store, columns: Sequence[str], where: str) -> str:
    known = [row[0] for row in store.query("DESCRIBE collection").rows]
    for column in columns:
        if column not in known:
            raise QueryError(f"no column {column!r} to export", f"Columns: {', '.join(known)}.")
    # Sorted by nothing: the order is that of storing, and nothing has to be held.
    condition = f"WHERE (\n{where}\n)" if where.strip() else ""
    return f"SELECT {', '.join(columns)} FROM collection {condition}"


def write_table(pieces: Iterator[pa.RecordBatch], file: BinaryIO, name: str, on_progress: Callable[[int], None]) -> int:
    """Write a table that comes in pieces as JSON Lines, CSV or Parquet; how many rows there were."""
    done = 0
    sink: _Sink | None = None
    for piece in pieces:
        plain = _plain(piece, name)
        sink = sink or _SINKS[name](file, plain.schema)
        sink.write(plain)
        done += len(plain)
        on_progress(done)
    if sink is not None:
        sink.close()
    return done


def _plain(piece: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """For CSV, which has no bytes: the sketch as hexadecimal digits."""
    import pyarrow as pa  # noqa: PLC0415

    if name != "csv" or not any(pa.types.is_binary(field.type) for field in piece.schema):
        return piece
    arrays: list[Any] = []
    for column in piece.columns:
        is_bytes = pa.types.is_binary(column.type)
        arrays.append(pa.array([v and v.hex() for v in column.to_pylist()], pa.string()) if is_bytes else column)
    return pa.RecordBatch.from_arrays(arrays, names=piece.schema.names)


@contextmanager
def open_target(target: str) -> Iterator[BinaryIO]:
    """The file to write to: under a temporary name until all is written."""
    if target == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(target)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}", "Choose another file.") from error
    finally:
        temporary.unlink(missing_ok=True)
