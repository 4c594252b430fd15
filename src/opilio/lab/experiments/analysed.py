"""What the analyzer makes of a whole recorded web: documents and links, made once and kept beside the web.

They are kept in a folder of the web's, named by a key over all that they depend on: the web's digest, the settings that
matter to reading pages, the version of Opilio and its code for fetching and analysing. So what is found there is never
out of date; the folders may be deleted at any time.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import overload

import msgspec
import numpy as np
from numpy.typing import NDArray

import opilio
from opilio.errors import InputError, OpilioError
from opilio.lab.experiments.analysis_process import AnalysisShare, analyse_share
from opilio.lab.webs.recorded import RecordedWeb
from opilio.model import Document
from opilio.settings import Settings

PREFIX = "analysed-"
PAGES_PER_PROCESS = 300  # a process takes half a second to start, a page some milliseconds
_CODE = ("analyze", "fetch", "model")


class DocumentTable(Sequence[Document | None]):
    """The documents of a web by page number. Each is decoded when it is first asked for, and kept."""

    def __init__(self, data: mmap.mmap | bytes, ends: NDArray[np.int64]) -> None:
        self._data = data
        self._ends: list[int] = ends.tolist()
        self._decode = msgspec.msgpack.Decoder(Document).decode
        self._decoded: dict[int, Document | None] = {}

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
        if at not in self._decoded:
            start, end = self._ends[at - 1] if at > 0 else 0, self._ends[at]
            self._decoded[at] = self._decode(self._data[start:end]) if end > start else None
        return self._decoded[at]


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
                f"{web.folder}: the analysis cannot be kept beside the web: {error.strerror}",
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
        _code_digest(),
        settings.fetch.accept,
        settings.traps.max_links_per_page,
        (settings.robots.obey_meta, settings.robots.obey_rel_nofollow),
        (settings.store.link_context, settings.store.terms),
        dataclasses.asdict(settings.documents),
    )
    return hashlib.sha256(msgspec.json.encode(matters)).hexdigest()[:16]


@functools.cache
def _code_digest() -> str:
    """A digest over the code that reads pages: while it is being changed, its version is not."""
    digest = hashlib.sha256()
    root = Path(opilio.__file__).parent
    for package in _CODE:
        for path in sorted((root / package).glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
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
    # The same import path as ours, and none of our working folder's modules.
    module = "opilio.lab.experiments.analysis_process"
    program = f"import sys; sys.path[:] = {sys.path!r}; from {module} import main; main(sys.argv[1:])"
    processes: list[subprocess.Popen[bytes]] = []
    lock = threading.Lock()

    def listen(process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with lock:
                on_pages(int(line))

    try:
        for share in shares:
            command = [sys.executable, "-c", program, msgspec.json.encode(share).decode()]
            processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    process_group=0,  # Ctrl-C is ours to handle
                )
            )
        listeners = [threading.Thread(target=listen, args=(process,), daemon=True) for process in processes]
        for listener in listeners:
            listener.start()
        for process in processes:
            if process.wait() != 0:
                raise OpilioError(
                    f"a process that analysed the web ended with code {process.returncode}",
                    "Look at the messages above; with one worker it is done in this process.",
                )
        for listener in listeners:
            listener.join()
    finally:
        for process in processes:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


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
    path = folder / "documents.bin"
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
    return Analysed(
        web,
        DocumentTable(data, np.load(folder / "ends.npy")),
        np.load(folder / "starts.npy"),
        np.load(folder / "targets.npy"),
        msgspec.msgpack.decode((folder / "terms.msgpack").read_bytes(), type=dict[int, str]),
    )
