"""What the analyzer makes of a whole recorded web: documents and links, made once and kept next to the web.

They are kept in a folder inside the web's folder, named by a key over all that they depend on: the web's digest, the
settings that matter to reading pages, the version of Opilio and its code for fetching and analysing. So what is found
there is never out of date; the folders may be deleted at any time.

The work is shared among processes. A share is every k-th page; a process writes what it makes of its share to files, in
the order of the pages: `documents` has one msgpack message after another, `sizes` their sizes, `counts` and `targets`
the links. It sends a message whenever some more pages are done.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import overload

import msgspec
import numpy as np
from numpy.typing import NDArray

import opilio
from opilio.analyze import Analyzer, Extractor, Failure
from opilio.errors import InputError, OpilioError
from opilio.fetch.transport import replay
from opilio.lab.webs.recorded import RecordedWeb
from opilio.model import Document, Lease, Outcome
from opilio.process import Channel, Child, end_with_parent, start
from opilio.settings import Settings, from_table

PREFIX = "analysed-"
KEPT_BYTES = 32 * 2**20
"""Of the messages whose documents are kept decoded, which take twice as much memory. To decode one takes 12 us, to read
it 10 us (23,122 pages of 22 kB)."""
PAGES_PER_PROCESS = 300  # a process takes half a second to start, a page some milliseconds
REPORT_EVERY_PAGES = 50
READING_CODE = ("analyze", "fetch", "model")
"""Packages that make documents of answers."""


class DocumentTable(Sequence[Document | None]):
    """The documents of a web by page number, in a file of messages. Each is decoded when it is used; some are kept."""

    def __init__(self, path: Path, ends: NDArray[np.int64]) -> None:
        self._file = os.open(path, os.O_RDONLY)  # read, not mapped: a mapped file counts as memory of every process
        weakref.finalize(self, os.close, self._file)
        self._ends: list[int] = ends.tolist()
        self._decode = msgspec.msgpack.Decoder(Document).decode
        self._kept: dict[int, Document] = {}
        self._kept_bytes = 0

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, n: int) -> Document | None: ...
    @overload
    def __getitem__(self, n: slice) -> list[Document | None]: ...
    def __getitem__(self, n: int | slice) -> Document | list[Document | None] | None:
        if isinstance(n, slice):
            return [self[at] for at in range(*n.indices(len(self)))]
        at = n if n >= 0 else n + len(self)
        return self._kept.get(at) or self._read(at)

    def _read(self, at: int) -> Document | None:
        start, end = self._ends[at - 1] if at > 0 else 0, self._ends[at]
        if end == start:
            return None
        if self._kept_bytes > KEPT_BYTES:
            self._kept.clear()
            self._kept_bytes = 0
        document = self._kept[at] = self._decode(os.pread(self._file, end - start, start))
        self._kept_bytes += end - start
        return document


@dataclasses.dataclass(frozen=True)
class Analysed:
    """A web as a crawler sees it. Links of page n: `targets[starts[n]:starts[n + 1]]`, parallel to its document's."""

    web: RecordedWeb
    documents: Sequence[Document | None]
    """By page number; None for a page that a crawl would not store. Stems are kept, `new_terms` are in `terms`."""
    starts: NDArray[np.int64]
    targets: NDArray[np.int32]
    """Page numbers; -1: outside the web, which answers 404."""
    terms: dict[int, str]
    """The stem behind each term number of any page."""

    @functools.cached_property
    def readable(self) -> NDArray[np.bool_]:
        """By page number: whether it has a document."""
        return np.array([document is not None for document in self.documents], bool)

    def links(self, n: int) -> NDArray[np.int32]:
        """The targets of the links of a page, in their order."""
        return self.targets[self.starts[n] : self.starts[n + 1]]


def analyse(
    web: RecordedWeb,
    settings: Settings | None = None,
    workers: int = 0,
    on_progress: Callable[[int, int], object] = lambda done, of: None,
) -> Analysed:
    """Documents and links of `web`, read as a crawl with these settings reads them; from disk when they are there.

    `workers` are processes, 0 meaning one for each core. Stopped, it leaves nothing behind.
    """
    settings = settings or Settings()
    folder = web.folder / f"{PREFIX}{key_of(web, settings)}"
    if not folder.is_dir():
        try:
            draft = Path(tempfile.mkdtemp(prefix=f".{PREFIX}", dir=web.folder))
        except OSError as error:
            raise InputError(
                f"{web.folder}: the analysis cannot be kept next to the web: {error.strerror}",
                "Copy the web to a folder of yours.",
            ) from None
        try:
            _analyse_into(draft, web, settings, workers, on_progress)
            draft.chmod(0o755)
            if not folder.is_dir():  # another process may have been faster
                draft.rename(folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return _load(web, folder)


def key_of(web: RecordedWeb, settings: Settings) -> str:
    """A key over all that the analysis of a web depends on."""
    matters = (
        web.digest,
        opilio.__version__,
        digest_of_code(READING_CODE),
        (settings.fetch.accept, settings.fetch.cut_bytes),
        (settings.traps.max_links_per_page, settings.traps.hidden_links),
        (settings.robots.obey_meta, settings.robots.obey_rel_nofollow),
        (settings.store.link_context, settings.store.terms),
        dataclasses.asdict(settings.documents),
    )
    return hashlib.sha256(msgspec.json.encode(matters)).hexdigest()[:16]


@functools.cache
def digest_of_code(parts: tuple[str, ...]) -> str:
    """A digest over packages and modules of ours, by their paths: code changes more often than its version."""
    digest = hashlib.sha256()
    root = Path(opilio.__file__).parent
    for part in parts:
        path = root / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _analyse_into(
    folder: Path, web: RecordedWeb, settings: Settings, workers: int, on_progress: Callable[[int, int], object]
) -> None:
    count = workers or len(os.sched_getaffinity(0))
    count = max(1, min(count, len(web) // PAGES_PER_PROCESS))
    parts = [folder / f"part-{i}" for i in range(count)]
    table = dataclasses.asdict(settings)
    done = 0

    def on_pages(pages: int) -> None:
        nonlocal done
        done += pages
        on_progress(min(done, len(web)), len(web))

    for part in parts:
        part.mkdir()
    shares = [AnalysisShare(str(web.folder), table, i, count, str(part)) for i, part in enumerate(parts)]
    if count == 1:
        analyse_share(shares[0], on_pages)
    else:
        _run_processes(shares, on_pages)
    _merge(folder, parts, len(web))
    for part in parts:
        shutil.rmtree(part)


def _run_processes(shares: list[AnalysisShare], on_pages: Callable[[int], object]) -> None:
    """One process for each share; when one fails, or we are stopped, all are ended."""
    children: list[Child] = []
    lock = threading.Lock()

    def listen(child: Child) -> None:
        while message := child.channel.receive():
            with lock:
                on_pages(int(message))

    try:
        for share in map(msgspec.json.encode, shares):
            children += [start("opilio.lab.experiments.analysed:run_share", share.decode())]
        listeners = [threading.Thread(target=listen, args=(child,), daemon=True) for child in children]
        for listener in listeners:
            listener.start()
        for child in children:
            if child.process.wait() != 0:
                raise OpilioError(
                    f"a process that analysed the web ended with code {child.process.returncode}",
                    "Look at the messages above; with one worker it is done in this process.",
                )
        for listener in listeners:
            listener.join()
    finally:
        for child in children:
            child.close()


def _merge(folder: Path, parts: list[Path], pages: int) -> None:
    """One file of each kind from those of all shares, in the order of the pages."""
    step = len(parts)
    sizes = np.zeros(pages, np.int64)
    counts = np.zeros(pages, np.int64)
    terms: dict[int, str] = {}
    for i, part in enumerate(parts):
        sizes[i::step] = np.fromfile(part / "sizes", np.int64)
        counts[i::step] = np.fromfile(part / "counts", np.int64)
        terms.update(msgspec.msgpack.decode((part / "terms").read_bytes(), type=dict[int, str]))
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    targets = np.zeros(int(starts[-1]), np.int32)
    files = [(part / "documents").open("rb") for part in parts]
    found = [np.fromfile(part / "targets", np.int32) for part in parts]
    taken = [0] * step
    with (folder / "documents.bin").open("wb") as file:
        for n in range(pages):
            i = n % step
            file.write(files[i].read(int(sizes[n])))
            targets[starts[n] : starts[n + 1]] = found[i][taken[i] : taken[i] + counts[n]]
            taken[i] += int(counts[n])
    for part_file in files:
        part_file.close()
    np.save(folder / "ends.npy", np.cumsum(sizes))
    np.save(folder / "starts.npy", starts)
    np.save(folder / "targets.npy", targets)
    (folder / "terms.msgpack").write_bytes(msgspec.msgpack.encode(dict(sorted(terms.items()))))


def _load(web: RecordedWeb, folder: Path) -> Analysed:
    return Analysed(
        web,
        DocumentTable(folder / "documents.bin", np.load(folder / "ends.npy")),
        np.load(folder / "starts.npy"),
        np.load(folder / "targets.npy"),
        msgspec.msgpack.decode((folder / "terms.msgpack").read_bytes(), type=dict[int, str]),
    )


# -- one share, here or in a process of its own


class AnalysisShare(msgspec.Struct, frozen=True):
    """Which pages are analysed, how, and where the result goes."""

    web: str
    settings: dict[str, dict[str, object]]
    first: int
    step: int
    target: str


class PageReader:
    """Makes documents of recorded answers, as a worker of a crawl does."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._analyzer = Analyzer(settings.traps, settings.robots, settings.store)
        self._extractor = Extractor(settings)

    def read(self, web: RecordedWeb, n: int) -> Document | None:
        """The document of a page; None when a crawl would not store one."""
        if not 200 <= web.status(n) < 300:
            return None
        url = web.urls[n]
        response = replay(Lease(n, url), "", 0.0, web.head(n), web.body(n), self._settings)
        if response.fetch.outcome is not Outcome.OK:
            return None
        declared, found = response.headers.get("content-type", ""), response.fetch.content_type
        content_type = declared if declared.lower().startswith(found) else found
        try:
            if not self._analyzer.is_risky(response.body, content_type, url):
                return self._analyzer.analyze(response.body, content_type, url, response.headers)
            content = self._extractor.read_now(response.body, content_type, url)
            return None if isinstance(content, Failure) else self._analyzer.document_of(content, url, response.headers)
        except Exception:  # a page must never stop an analysis; a crawl says `unreadable` of it
            return None

    def close(self) -> None:
        """End the process that reads files."""
        self._extractor.close()


def analyse_share(share: AnalysisShare, on_pages: Callable[[int], object]) -> None:
    """Analyse the pages of a share; `on_pages` receives how many more were done."""
    web = RecordedWeb.open(Path(share.web))
    reader = PageReader(from_table(share.settings, "settings of the analysis"))
    terms: dict[int, str] = {}
    sizes: list[int] = []
    counts: list[int] = []
    targets: list[int] = []
    encode = msgspec.msgpack.Encoder().encode
    folder = Path(share.target)
    with (folder / "documents").open("wb") as file:
        for n in range(share.first, len(web), share.step):
            document = reader.read(web, n)
            message = b""
            if document is not None:
                terms.update(document.new_terms)  # which of them are new depends on who read what before
                message = encode(msgspec.structs.replace(document, new_terms=[]))
                targets.extend(map(web.number, document.links.url_list()))
            file.write(message)
            sizes.append(len(message))
            counts.append(len(document.links) if document is not None else 0)
            if len(sizes) % REPORT_EVERY_PAGES == 0:
                on_pages(REPORT_EVERY_PAGES)
    reader.close()
    np.array(sizes, np.int64).tofile(folder / "sizes")
    np.array(counts, np.int64).tofile(folder / "counts")
    np.array(targets, np.int32).tofile(folder / "targets")
    (folder / "terms").write_bytes(msgspec.msgpack.encode(terms))


def run_share(channel: Channel, share: str) -> None:
    """The work of a process."""
    end_with_parent(channel)
    analyse_share(msgspec.json.decode(share, type=AnalysisShare), lambda pages: channel.send(b"%d" % pages))
