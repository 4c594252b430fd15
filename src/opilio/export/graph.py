"""The link graph of a collection: GraphML for graph programs, or two Parquet files of nodes and edges.

Nodes are the selected pages; edges are the links among them. A link to a URL that was redirected, or is a duplicate of
a page, leads to that page. Several links from one page to another are one edge: with the words of the first link that
has any, and the number of links.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet

from opilio.distill.graph import register
from opilio.export.feeds import attribute, xml
from opilio.store import Store
from opilio.store.corpus import stream_edges, stream_nodes

_TYPES = (
    (pa.types.is_boolean, "boolean"), (pa.types.is_integer, "long"), (pa.types.is_floating, "double"),
)  # fmt: skip
NODES, EDGES = "nodes.parquet", "edges.parquet"

Tell = Callable[[int], None]


def write_graphml(store: Store, file: BinaryIO, where: str, tell: Tell) -> int:
    """Write GraphML; how many pages there are in it."""
    with store.reading() as cursor:
        register(cursor)
        # The head declares the attributes of nodes and edges.
        [no_nodes], [no_edges] = stream_nodes(cursor, "false"), stream_edges(cursor, "false")
        _write(
            file, ['<?xml version="1.0" encoding="UTF-8"?>', '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">']
        )
        _write(file, _keys("node", no_nodes.schema, "oid"))
        _write(file, _keys("edge", no_edges.schema, "source", "target"))
        _write(file, ['<graph id="links" edgedefault="directed">'])
        done = 0
        for piece in stream_nodes(cursor, where):
            _write(file, (_element("node", row, f'id="n{row.pop("oid")}"') for row in piece.to_pylist()))
            done += piece.num_rows
            tell(done)
        for piece in stream_edges(cursor, where):
            _write(file, map(_edge, piece.to_pylist()))
        _write(file, ["</graph>", "</graphml>"])
    return done


def write_parquet(store: Store, folder: Path, where: str, tell: Tell) -> int:
    """Write `nodes.parquet` and `edges.parquet`; how many pages there are."""
    with store.reading() as cursor:
        register(cursor)
        done = _write_pieces(folder / NODES, stream_nodes(cursor, where), tell)
        _write_pieces(folder / EDGES, stream_edges(cursor, where), lambda _: None)
    return done


def _write_pieces(path: Path, pieces: Iterator[pa.RecordBatch], tell: Tell) -> int:
    done = 0
    first = next(pieces)
    with pyarrow.parquet.ParquetWriter(path, first.schema, compression="zstd") as writer:
        for piece in itertools.chain([first], pieces):
            writer.write_batch(piece)
            done += piece.num_rows
            tell(done)
    return done


def _keys(kind: str, schema: pa.Schema, *ids: str) -> Iterator[str]:
    for field in schema:
        if field.name not in ids:
            shown = next((name for matches, name in _TYPES if matches(field.type)), "string")
            yield f'<key id="{kind[0]}_{field.name}" for="{kind}" attr.name="{field.name}" attr.type="{shown}"/>'


def _edge(row: dict[str, Any]) -> str:
    return _element("edge", row, f'source="n{row.pop("source")}" target="n{row.pop("target")}"')


def _element(kind: str, row: dict[str, Any], ids: str) -> str:
    data = "".join(
        f"<data key={attribute(f'{kind[0]}_{name}')}>{xml(_shown(value))}</data>"
        for name, value in row.items()
        if value is not None
    )
    return f"<{kind} {ids}>{data}</{kind}>"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _write(file: BinaryIO, lines: Iterable[str]) -> None:
    for line in lines:
        file.write(line.encode("utf-8", "replace") + b"\n")
