"""The one way to export: a format by name or by the ending of the target, and what each of them writes."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

import opilio
from opilio.analyze.rights import reserved_use
from opilio.errors import InputError
from opilio.export import FOLDERS, FORMATS, TABLES, graph
from opilio.export.chunks import OVERLAP_SHARE, check_sizes
from opilio.export.corpora import DATASET_COLUMNS, PAGE_COLUMNS, RAG_COLUMNS, rag_lines, write_markdown, write_parts
from opilio.export.documents import SPLIT, Documents, PageSelection
from opilio.export.feeds import FEED_PAGES, Feed, FeedEntry, atom, rss
from opilio.export.outlines import listed_pages, write_bookmarks, write_opml
from opilio.export.target import replacing
from opilio.search.snippets import summary_of
from opilio.store import Store, export_pages
from opilio.store.corpus import RELEVANT_PAGES, check_condition, count_pages, stream_by_topic, stream_latest
from opilio.store.export import DEFAULT_COLUMNS, STDOUT, WACZ, open_target, write_table
from opilio.store.pages import rights_of
from opilio.store.responses import Responses

MARKDOWN, RAG, DATASET = "markdown", "rag", "dataset"
GRAPHML, GRAPH, OPML, BOOKMARKS, RSS, ATOM = "graphml", "graph", "opml", "bookmarks", "rss", "atom"
TEXTS = (*TABLES, MARKDOWN, RAG, DATASET)
FEEDS: dict[str, Callable[[Feed], str]] = {RSS: rss, ATOM: atom}
ENDINGS = {name: name for name in (*TABLES, GRAPHML, OPML, RSS, ATOM, WACZ)} | {"html": BOOKMARKS, "htm": BOOKMARKS}
BINARY = ("parquet", WACZ)
FOR_MODELS = (RAG, DATASET)
"""Made to feed or train models: what pages reserve is respected unless the user says otherwise."""
OF_ALL_PAGES = (*TABLES, GRAPHML, GRAPH)
"""The other formats take relevant pages unless the user gives a condition."""
MARKER = ".opilio-export"


@dataclass(frozen=True)
class Options:
    """What the user wants of an export besides its format."""

    columns: Sequence[str] = ()
    where: str | None = None
    keep: str = ""
    respect_rights: bool | None = None
    """None: as the format says."""
    split: str = ""
    chunk_words: int = 0
    overlap_words: int | None = None


Watcher = Callable[[int, int, int], None]
_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Have `watcher` called during exports in this thread: pages written, pages in all, and left out for their rights.

    An export that a running crawl carries out is not watched.
    """
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def format_of(target: str, format_name: str) -> str:
    """The format of an export, by its name or the ending of the target."""
    ending = Path(target).suffix.lstrip(".").lower()
    name = format_name or (ENDINGS.get(ending, "") if target != STDOUT else "jsonl")
    if name not in FORMATS:
        shown = f"unknown format {format_name or ending!r}" if format_name or ending else "its ending names no format"
        raise InputError(f"{target}: {shown}", f"Choose one by --format: {', '.join(FORMATS)}.")
    if target == STDOUT and name in (*BINARY, *FOLDERS):
        raise InputError(f"{name} cannot be written to standard output", "Name a file, or a folder for several files.")
    return name


def export(
    store: Store,
    target: str,
    format_name: str = "",
    options: Options = Options(),  # frozen
    *,
    warc_elsewhere: Path | None = None,
) -> int:
    """Write pages of a collection to `target`; how many. Nothing appears under that name until all is written."""
    name = format_of(target, format_name)
    _check(name, options)
    run = _Run(store, target, name, options, warc_elsewhere)
    return run.write()


def _check(name: str, options: Options) -> None:
    """Refuse options that this format has no use for."""
    useless = [
        (bool(options.columns) and name not in TABLES, "--columns", TABLES),
        (bool(options.keep) and name not in TEXTS, "--keep", TEXTS),
        (bool(options.split) and name not in (*TABLES, DATASET), "--split", (*TABLES, DATASET)),
        (bool(options.chunk_words or options.overlap_words) and name != RAG, "--chunk-words", (RAG,)),
        (options.where is not None and options.where.strip() != "" and name == WACZ, "--where", "all others"),
        (
            options.respect_rights is not None and name in (WACZ, GRAPH, GRAPHML),
            "--respect-rights", "formats with texts or addresses",
        ),
    ]  # fmt: skip
    for is_useless, option, others in useless:
        if is_useless:
            shown = others if isinstance(others, str) else ", ".join(others)
            holds = "a WACZ holds the whole collection" if name == WACZ else f"{name} has no use for {option}"
            raise InputError(holds, f"Leave out {option}; it is for: {shown}.")
    if options.split and name in TABLES and SPLIT not in options.columns:
        raise InputError("--split without the column `split`", "Name it among the --columns, or take --format dataset.")
    if options.overlap_words and not options.chunk_words:
        raise InputError("--overlap-words without --chunk-words", "Say how long a chunk may be.")
    check_sizes(options.chunk_words, options.overlap_words or 0)


class _Run:
    """One export."""

    def __init__(self, store: Store, target: str, name: str, options: Options, warc_elsewhere: Path | None) -> None:
        self._store, self._target, self._name, self._options = store, target, name, options
        self._elsewhere = warc_elsewhere
        folder = store.path.parent
        self._title = folder.absolute().name
        self._folders = [place for place in (folder / "warc", warc_elsewhere) if place is not None]
        usual = "" if name in OF_ALL_PAGES else RELEVANT_PAGES
        where = usual if options.where is None else options.where
        respects = options.respect_rights if options.respect_rights is not None else name in FOR_MODELS
        self._selection = PageSelection(where, options.keep, respects)
        self._total = self._left_out = 0

    def write(self) -> int:
        """Write it; how many pages are in it."""
        if self._name == WACZ:
            return export_pages(self._store, self._target, WACZ, warc_elsewhere=self._elsewhere)
        check_condition(self._store, self._selection.where)
        self._total = count_pages(self._store, self._selection.where)
        if self._name not in TABLES and not self._total:
            raise InputError(
                f"{self._title}: there is no page to write",
                "Only relevant pages are taken: crawl on, or take all by --where true."
                if self._options.where is None
                else "No page meets the condition of --where.",
            )
        if self._name in FOLDERS:
            with replacing(Path(self._target), MARKER, "opilio export") as folder:
                count = self._write_folder(folder)
                (folder / MARKER).write_text(json.dumps({"format": self._name, "version": opilio.__version__}) + "\n")
            return count
        with open_target(self._target) as file:
            return self._write_file(file)

    def _write_file(self, file: BinaryIO) -> int:
        name, options = self._name, self._options
        if name in TABLES:
            return self._write_table(file)
        if name == RAG:
            overlap = options.chunk_words // OVERLAP_SHARE if options.overlap_words is None else options.overlap_words
            documents = self._documents(RAG_COLUMNS)
            count = 0
            for piece in documents.pieces():
                for line in rag_lines(piece, options.chunk_words, overlap):
                    file.write(line)
                count += piece.num_rows
                self._tell(count, documents.left_out)
            return count
        if name == GRAPHML:
            return graph.write_graphml(self._store, file, self._selection.where, self._tell)
        if name in FEEDS:
            entries = list(itertools.islice(self._latest(), FEED_PAGES))
            file.write(FEEDS[name](Feed(self._title, entries)).encode("utf-8", "replace"))
            return len(entries)
        pages = listed_pages(self._listed())
        if name == OPML:
            return write_opml(file, pages, self._title, Responses(self._folders))
        root = next((record.name for record in self._store.load_topics() if record.pcid is None), "")
        return write_bookmarks(file, pages, root)

    def _write_table(self, file: BinaryIO) -> int:
        columns = tuple(self._options.columns) or DEFAULT_COLUMNS
        documents = self._documents(columns)
        return write_table(documents.pieces(), file, self._name, lambda done: self._tell(done, documents.left_out))

    def _write_folder(self, folder: Path) -> int:
        if self._name == GRAPH:
            return graph.write_parquet(self._store, folder, self._selection.where, self._tell)
        is_dataset = self._name == DATASET
        documents = self._documents(DATASET_COLUMNS if is_dataset else PAGE_COLUMNS)
        write = functools.partial(write_parts, title=self._title) if is_dataset else write_markdown
        return write(folder, documents, lambda done: self._tell(done, documents.left_out))

    def _documents(self, columns: Sequence[str]) -> Documents:
        return Documents(self._store, self._folders, self._selection, columns, self._options.split)

    def _listed(self) -> Iterator[dict[str, Any]]:
        return self._allowed(stream_by_topic(self._store, self._selection.where))

    def _latest(self) -> Iterator[FeedEntry]:
        for row in self._allowed(stream_latest(self._store, self._selection.where, None)):
            yield feed_entry(row)

    def _allowed(self, pieces: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
        done = 0
        for piece in pieces:
            for row in piece.to_pylist():
                if self._selection.respect_rights and reserved_use(rights_of(row["rights"])):
                    self._left_out += 1
                else:
                    yield row
            done += piece.num_rows
            self._tell(done - self._left_out, self._left_out)

    def _tell(self, done: int, left_out: int = 0) -> None:
        watcher = _WATCHER.get()
        if watcher is not None:
            watcher(done, self._total, left_out)


def feed_entry(row: dict[str, Any]) -> FeedEntry:
    """A page as an entry of a feed."""
    summary = summary_of(row["title"], row["description"], row["text"] or "")
    return FeedEntry(row["url"], row["title"] or row["url"], summary, row["topic"], row["visited"])


def latest_feed(store: Store, form: str, name: str, home: str = "", address: str = "") -> str:
    """The relevant pages that were fetched last, as a feed; an empty feed when there is none."""
    rows = itertools.chain.from_iterable(
        piece.to_pylist() for piece in stream_latest(store, RELEVANT_PAGES, FEED_PAGES)
    )
    return FEEDS[form](Feed(name, [feed_entry(row) for row in rows], home, address))
