"""Links from outside the crawl: those of a file, of a web graph, or of another collection (BINGO 2.5).

BINGO finds the predecessors of its pages by querying a large unfocused web database. Here they come from what the user
has (`frontier.back_links`). The frontier tries such pages (`crawl/extra_urls.py`); link analysis counts their links,
whether the crawl ever fetches them or not (`with_back_links`).

A web graph, as Common Crawl publishes them, is a folder with files of vertices (`id<TAB>name`) and of edges
(`from<TAB>to`). A name is a URL, or a host, which stands for its home page; Common Crawl writes hosts backwards
(`org.example.www`). Of a graph that is too large for memory, only links to known hosts are kept: it is read through
once for the vertices of these, once for their edges, and once for the vertices where those begin.
"""

from __future__ import annotations

import dataclasses
import glob
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from opilio.distill.graph import WebGraph, ends_of, firsts
from opilio.errors import CollectionBusy, InputError
from opilio.model import host_of, normalize, url_key
from opilio.model.url import host_name, is_top_level, registered_domain
from opilio.settings import MIB
from opilio.store import Store
from opilio.store.connection import FILE_NAME
from opilio.store.links import host_names, url_keys, url_texts
from opilio.store.urls import links_by_url

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

    from opilio.distill.scores import Oids

MAX_BACK_LINKS = 50
"""Pages that are considered because they link to one page: Kleinberg's number of predecessors."""

_LOOK_AT_ROWS = 1_000  # of one target: many repeated links must not keep the engine busy
_CHUNK_ROWS = 200_000
_CSV = ", header = true, all_varchar = true, delim = '{delim}', quote = '\"', skip = 0, null_padding = false"
_READERS = {
    ".csv": ("read_csv", _CSV.format(delim=",")),
    ".tsv": ("read_csv", _CSV.format(delim="\t")),
    ".jsonl": ("read_json", ", format = 'newline_delimited'"),
    ".ndjson": ("read_json", ", format = 'newline_delimited'"),
    ".parquet": ("read_parquet", ""),
}
_FORM_HINT = (
    "Give the columns source and target: a CSV or TSV file with a header, JSON Lines, Parquet, or the folder of "
    "another collection or of a web graph."
)
WHOLE_GRAPH_BYTES = 32 * MIB
"""A web graph whose files of edges take no more than this is read whole, some 100 MB in memory."""
_GRAPH_MEMORY = "1GB"  # for DuckDB, which uses the disk beyond it
_SAMPLE_NAMES = 1000
_GRAPH_FILES = (".txt", ".tsv", ".csv", ".gz")
_GRAPH_CSV = "delim = '\t', header = false, all_varchar = true, quote = '', escape = '', comment = ''"
# `reversed` hosts are read backwards. What has a scheme is a URL.
_HOST = """
    CASE WHEN name LIKE 'http%://%' THEN regexp_extract(name, '^https?://([^/:?#]+)', 1)
         WHEN $reversed THEN array_to_string(list_reverse(string_split(name, '.')), '.')
         ELSE name END
"""
_VERTICES = f"SELECT column0::BIGINT AS id, column1 AS name FROM read_csv($vertices, {_GRAPH_CSV})"
_GRAPH_TARGETS = f"""
    CREATE TEMP TABLE targets AS
    SELECT id, name, {_HOST} AS host FROM ({_VERTICES}) WHERE $whole OR lower({_HOST}) IN (SELECT host FROM known)
"""
_GRAPH_EDGES = f"""
    CREATE TEMP TABLE edges AS
    SELECT column0::BIGINT AS source, column1::BIGINT AS target FROM read_csv($edges, {_GRAPH_CSV})
    WHERE column0 <> column1 AND column1::BIGINT IN (SELECT id FROM targets)
    QUALIFY row_number() OVER (PARTITION BY column1 ORDER BY column0::BIGINT) <= {_LOOK_AT_ROWS}
"""
_GRAPH_LINKS = f"""
    WITH sources AS (
        SELECT id, if(name LIKE 'http%://%', name, 'http://' || {_HOST} || '/') AS url
        FROM ({_VERTICES}) WHERE id IN (SELECT source FROM edges)
    ),
    ends AS (
        SELECT id, unnest(CASE WHEN name LIKE 'http%://%' THEN [name]
                               ELSE ['http://' || host || '/', 'https://' || host || '/'] END) AS url
        FROM targets
    )
    SELECT s.url AS source, t.url AS target
    FROM edges e JOIN sources s ON s.id = e.source JOIN ends t ON t.id = e.target ORDER BY e.target, e.source
"""


class BackLinks:
    """Known links by the page that they lead to: 12 bytes a link, and each source is stored once."""

    def __init__(self, keys: npt.NDArray[np.uint64], sources: pa.DictionaryArray) -> None:
        """`keys` are those of the targets, ascending; `sources` are parallel to them."""
        self._keys = keys
        self._sources = sources

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def load(cls, path: Path, known_hosts: Iterable[str] = ()) -> BackLinks:
        """The links of a file, of a web graph or of another collection; of a large graph those to known hosts.

        Raises an InputError when there are none in it.
        """
        keys: list[npt.NDArray[np.uint64]] = []
        sources: list[pa.Array] = []
        is_large = False
        if _is_graph(path):
            graph = _GraphFiles.of(path)
            is_large, pieces = graph.is_large, graph.read(known_hosts)
        else:
            pieces = _read(path)
        for piece in pieces:
            targets = piece.column("target").dictionary_encode()
            key, is_url = _keys(targets.dictionary.to_pylist())
            places = targets.indices.to_numpy(zero_copy_only=False)
            keys.append(key[places][is_url[places]])
            sources.append(piece.column("source").dictionary_encode().filter(pa.array(is_url[places])))
        together = np.concatenate([np.zeros(0, np.uint64), *keys])
        if not len(together) and not is_large:  # a large graph may know none of these hosts yet
            raise InputError(f"{path}: no links between web pages in it", _FORM_HINT)
        order = np.argsort(together, kind="stable")
        strings = pa.dictionary(pa.int32(), pa.string())
        return cls(
            together[order], pa.chunked_array(sources, strings).unify_dictionaries().combine_chunks().take(order)
        )

    def has_targets(self, keys: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which of some URLs, given by their keys, have any links."""
        if not len(self._keys):
            return np.zeros(len(keys), np.bool_)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.asarray(self._keys[places] == keys)

    def to(self, url: str, limit: int = MAX_BACK_LINKS) -> list[str]:
        """Pages that link to a URL, in normal form; the first `limit` of them, without the page itself."""
        key = np.uint64(url_key(url))
        start, end = (int(np.searchsorted(self._keys, key, side=side)) for side in ("left", "right"))
        raw = dict.fromkeys(self._sources.slice(start, min(end - start, _LOOK_AT_ROWS)).to_pylist())
        sources = dict.fromkeys(source for source in map(normalize, raw) if source and source != url)
        return list(sources)[:limit]


def _keys(urls: list[str]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """The key of each URL, and whether it is a URL at all."""
    normal = [normalize(url) for url in urls]
    keys = np.fromiter((url_key(url) for url in normal), np.uint64, len(normal))
    return keys, np.fromiter((bool(url) for url in normal), np.bool_, len(normal))


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    """Sources and targets as strings, piece by piece, rows without one of them left out."""
    if (path / FILE_NAME).is_file():
        yield from _read_collection(path)
        return
    if not path.is_file():
        raise InputError(f"{path}: no such file of back-links", "Correct [frontier] back_links, or set it to ''.")
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    if suffix.lower() not in _READERS:
        raise InputError(f"{path}: back-links cannot be read from a file of this kind", _FORM_HINT)
    reader, options = _READERS[suffix.lower()]
    sql = f"""
        SELECT source::VARCHAR AS source, target::VARCHAR AS target FROM {reader}($path{options})
        WHERE source IS NOT NULL AND target IS NOT NULL
    """
    try:
        with duckdb.connect() as connection:
            found = connection.sql(sql, params={"path": glob.escape(str(path))})
            yield from found.to_arrow_reader(_CHUNK_ROWS)
    except (duckdb.Error, UnicodeDecodeError) as error:
        if isinstance(error, duckdb.BinderException):
            raise InputError(f"{path}: no columns source and target in it", _FORM_HINT) from None
        said = str(error).strip().splitlines()[0]
        raise InputError(f"{path}: cannot be read as back-links: {said}", _FORM_HINT) from None


def _is_graph(path: Path) -> bool:
    return path.is_dir() and not (path / FILE_NAME).is_file()


class _GraphFiles(NamedTuple):
    """The files of a web graph."""

    folder: Path
    vertices: list[Path]
    edges: list[Path]

    @classmethod
    def of(cls, folder: Path) -> _GraphFiles:
        """Those of a folder and the folders in it, by their names: `vertices` or `edges` is part of each path."""
        found: dict[str, list[Path]] = {"vertices": [], "edges": []}
        for file in sorted(file for file in folder.rglob("*") if file.is_file() and file.suffix in _GRAPH_FILES):
            for kind, files in found.items():
                if kind in str(file.relative_to(folder)).lower():
                    files.append(file)
        if not all(found.values()):
            raise InputError(
                f"{folder}: neither a collection nor a web graph",
                "A web graph has files with `vertices` and with `edges` in their names (.txt or .txt.gz).",
            )
        return cls(folder, **found)

    @property
    def is_large(self) -> bool:
        """Whether there are too many edges for memory."""
        return sum(file.stat().st_size for file in self.edges) > WHOLE_GRAPH_BYTES

    def read(self, known_hosts: Iterable[str]) -> Iterator[pa.RecordBatch]:
        """The links as URLs; of a large graph, those to known hosts."""
        known = pa.table({"host": pa.array(sorted({host_name(host) for host in known_hosts}), pa.string())})
        edges = {"edges": [glob.escape(str(file)) for file in self.edges]}
        vertices = {"vertices": [glob.escape(str(file)) for file in self.vertices]}
        try:
            with tempfile.TemporaryDirectory() as spilled, duckdb.connect() as connection:
                connection.execute(f"SET memory_limit = '{_GRAPH_MEMORY}'; SET temp_directory = '{spilled}'")
                connection.register("known", known)
                sample = connection.execute(f"{_VERTICES} LIMIT {_SAMPLE_NAMES}", vertices).fetchall()
                named = {**vertices, "reversed": _are_reversed([name for _, name in sample])}
                connection.execute(_GRAPH_TARGETS, {**named, "whole": not self.is_large})
                connection.execute(_GRAPH_EDGES, edges)
                yield from connection.sql(_GRAPH_LINKS, params=named).to_arrow_reader(_CHUNK_ROWS)
        except (duckdb.Error, UnicodeDecodeError) as error:
            said = str(error).strip().splitlines()[0]
            raise InputError(
                f"{self.folder}: cannot be read as a web graph: {said}",
                "A line of vertices is a number, a tab and a host or URL; a line of edges is two of these numbers.",
            ) from None


def _are_reversed(names: list[str]) -> bool:
    """Whether hosts are written backwards, as Common Crawl does: unless more of them end with a top-level domain than
    begin with one."""
    labels = [name.lower().split(".") for name in names if name and "://" not in name and "." in name]
    return sum(is_top_level(parts[-1]) for parts in labels) <= sum(is_top_level(parts[0]) for parts in labels)


def _read_collection(folder: Path) -> Iterator[pa.RecordBatch]:
    try:
        store = Store.open(folder, read_only=True)
    except CollectionBusy:
        raise InputError(
            f"{folder}: back-links cannot be read from a collection that is in use",
            "Wait until the crawl in it has ended, or crawl from a copy of its folder.",
        ) from None
    with store:
        yield from links_by_url(store)


def with_back_links(
    cursor: duckdb.DuckDBPyConnection, graph: WebGraph, back_links: BackLinks, base: Oids, limit: int = MAX_BACK_LINKS
) -> WebGraph:
    """The graph with the links from outside to the pages of a base set, at most `limit` to each.

    A page that the collection does not know gets a number after all known URLs. It counts as a page outside: it has
    links, but is not stored.
    """
    oids, keys = url_keys(cursor)
    oids, keys = oids[oids < graph.urls], keys[oids < graph.urls]
    cited = back_links.has_targets(keys) & np.isin(ends_of(oids, graph.merged), base)
    outside = _Outside(cursor, graph)
    order = np.argsort(keys, kind="stable")
    sources: list[int] = []
    targets: list[int] = []
    for oid, url in sorted(url_texts(cursor, oids[cited]).items()):
        for source in back_links.to(url, limit):
            place = int(np.searchsorted(keys, np.uint64(url_key(source)), sorter=order))
            is_known = place < len(order) and keys[order[place]] == np.uint64(url_key(source))
            sources.append(int(oids[order[place]]) if is_known else outside.number_of(source))
            targets.append(oid)
    ends = [ends_of(np.array(found, np.int64), graph.merged) for found in (sources, targets)]
    return outside.join(graph, *ends)


class _Outside:
    """Pages that the collection does not know, and their hosts."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, graph: WebGraph) -> None:
        rows = host_names(cursor)
        self._first = graph.urls
        self._hosts = {name: sid for sid, name, _ in rows}
        self._sites = {domain: int(graph.sites[sid]) for sid, _, domain in rows if sid < len(graph.sites)}
        self._new_sites = graph.sites.tolist()
        self._numbers: dict[str, int] = {}
        self._host_of: list[int] = []

    def number_of(self, url: str) -> int:
        """The number of a page."""
        number = self._numbers.setdefault(url, self._first + len(self._numbers))
        if number == self._first + len(self._host_of):
            self._host_of.append(self._host(host_of(url)))
        return number

    def _host(self, name: str) -> int:
        if self._hosts.get(name, len(self._new_sites)) >= len(self._new_sites):
            self._hosts[name] = len(self._new_sites)
            self._new_sites.append(self._sites.setdefault(registered_domain(name), self._hosts[name]))
        return self._hosts[name]

    def join(self, graph: WebGraph, sources: Oids, targets: Oids) -> WebGraph:
        """The graph with these pages and links. A link that is there already stays as it is."""
        hosts = np.concatenate([graph.hosts, np.array(self._host_of, graph.hosts.dtype)])
        somewhere = (sources >= 0) & (targets >= 0)
        all_sources = np.concatenate([graph.sources, sources[somewhere]]).astype(np.int64)
        all_targets = np.concatenate([graph.targets, targets[somewhere]]).astype(np.int64)
        flags = np.concatenate([graph.is_boilerplate, np.zeros(int(somewhere.sum()), np.bool_)])
        keys = all_sources * len(hosts) + all_targets
        order = np.argsort(keys, kind="stable")
        order = order[firsts(keys[order])]
        servers = np.concatenate([graph.servers, np.arange(len(graph.servers), len(self._new_sites))])
        return dataclasses.replace(
            graph,
            sources=all_sources[order],
            targets=all_targets[order],
            is_boilerplate=flags[order],
            hosts=hosts,
            stored=np.concatenate([graph.stored, np.zeros(len(self._host_of), np.bool_)]),
            sites=np.array(self._new_sites, graph.sites.dtype),
            servers=servers.astype(graph.servers.dtype),
        )
