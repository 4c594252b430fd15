"""URLs that do not come from the links of pages: the folders above a page, and known links to it.

Both are tried for relevant pages only (Focus 3.2). The URLs are offered to the frontier like any others: scope, traps,
limits and robots rules apply to them.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from opilio.errors import CollectionBusy, InputError
from opilio.model import host_of, normalize, url_key
from opilio.model.url import path_of
from opilio.settings import FrontierSettings
from opilio.store import Store
from opilio.store.connection import FILE_NAME
from opilio.store.urls import links_by_url

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

STEP_DECAY = 0.5
"""What is left of a page's relevance one step away from it; as for tunnelled links (BINGO 4.2)."""
MAX_BACK_LINKS = 50
"""Pages that are tried because they link to one page: Kleinberg's number of predecessors."""
FROM_PATHS, FROM_BACK_LINKS = "URLs from truncated paths", "URLs from back-links"

_LOOK_AT_ROWS = 1_000  # of one target: many repeated links must not keep the engine busy
_CHUNK_ROWS = 200_000
_READERS = {".csv": "read_csv", ".jsonl": "read_json", ".ndjson": "read_json", ".parquet": "read_parquet"}
_OPTIONS = {
    "read_csv": ", header = true, all_varchar = true, delim = ',', quote = '\"', skip = 0, null_padding = false",
    "read_json": ", format = 'newline_delimited'",
    "read_parquet": "",
}
_FORM_HINT = (
    "Give the columns source and target: a CSV file with a header, JSON Lines, Parquet, or the folder of another "
    "collection."
)


class ExtraUrl(NamedTuple):
    """A URL that is worth a try because of a relevant page."""

    url: str
    steps: int
    """How far it is from that page."""
    counter: str
    """The counter for such URLs."""


class Sources:
    """The sources of URLs that the settings ask for."""

    def __init__(self, settings: FrontierSettings) -> None:
        self._truncates = settings.truncate_paths
        self._back_links = BackLinks.load(Path(settings.back_links)) if settings.back_links else None

    def around(self, url: str) -> Iterator[ExtraUrl]:
        """The URLs that are worth a try because of a relevant page."""
        if self._truncates:
            for steps, folder in enumerate(folders_above(url), 1):
                yield ExtraUrl(folder, steps, FROM_PATHS)
        if self._back_links is not None:
            for source in self._back_links.to(url):
                yield ExtraUrl(source, 1, FROM_BACK_LINKS)


def folders_above(url: str) -> list[str]:
    """The folders above a page, the nearest first; the last is the home page of its host."""
    path = path_of(url).partition("?")[0]
    top = url[: url.index("//") + 2] + host_of(url)
    ends = [at for at, char in enumerate(path) if char == "/"]
    folders = [top + path[: end + 1] for end in reversed(ends)]
    return [folder for folder in folders if folder != url]


class BackLinks:
    """Known links by the page that they lead to: 12 bytes a link, and each source is stored once."""

    def __init__(self, keys: npt.NDArray[np.uint64], sources: pa.DictionaryArray) -> None:
        """`keys` are those of the targets, ascending; `sources` are parallel to them."""
        self._keys = keys
        self._sources = sources

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def load(cls, path: Path) -> BackLinks:
        """The links of a file or of another collection. Raises an InputError when there are none in it."""
        keys: list[npt.NDArray[np.uint64]] = []
        sources: list[pa.Array] = []
        for piece in _read(path):
            targets = piece.column("target").dictionary_encode()
            key, is_url = _keys(targets.dictionary.to_pylist())
            places = targets.indices.to_numpy(zero_copy_only=False)
            keys.append(key[places][is_url[places]])
            sources.append(piece.column("source").dictionary_encode().filter(pa.array(is_url[places])))
        together = np.concatenate([np.zeros(0, np.uint64), *keys])
        if not len(together):
            raise InputError(f"{path}: no links between web pages in it", _FORM_HINT)
        order = np.argsort(together, kind="stable")
        return cls(together[order], pa.chunked_array(sources).unify_dictionaries().combine_chunks().take(order))

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
    reader = _READERS.get(suffix.lower())
    if reader is None:
        raise InputError(f"{path}: back-links cannot be read from a file of this kind", _FORM_HINT)
    sql = f"""
        SELECT source::VARCHAR AS source, target::VARCHAR AS target FROM {reader}($path{_OPTIONS[reader]})
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
