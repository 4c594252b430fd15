"""What a run leaves behind, and the log that keeps it: each run is appended when it is finished.

A frame of the log is a length, a checksum and a message. A process that is killed while it appends leaves a torn frame
at the end; it is cut off when the log is opened again, and only that run is lost.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec
import numpy as np
import xxhash
from numpy.typing import NDArray

from opilio.errors import InputError

LOG_FILE = "runs.log"
_HEADER = struct.Struct("<IQ")
_MAX_FRAME_BYTES = 2**28
UNDOUBTED = 1 << 15
"""Of `Run.agreed`: the page is beyond doubt."""


class RunPlace(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Which run: all runs of an experiment differ in it."""

    web: str
    task: str
    topic: str
    repeat: int
    strategy: str


class ModelRun(msgspec.Struct, frozen=True, array_like=True):
    """A model that a real crawl trained."""

    version: int
    pages: int
    """Fetched when it was trained."""
    documents: int
    """It was trained on."""
    reason: str
    judged: bytes
    """float32: the relevance that it gives each page of the run, those fetched after its time included."""

    @property
    def relevances(self) -> NDArray[np.float64]:
        """What it gives the pages of the run."""
        return np.frombuffer(self.judged, "<f4").astype(np.float64)


class RunRecord(msgspec.Struct, frozen=True, array_like=True):
    """One finished crawl, or why there is none. Arrays are bytes, little-endian, one value for each page fetched."""

    place: RunPlace
    key: str
    """Of all that the run depends on: one found in the log under the same key need not be run again."""
    pages: bytes = b""
    """uint32: page numbers in the order of the crawl."""
    judged: bytes = b""
    """float32: the relevance that the judge gave; of a real crawl, the latest that judged the page."""
    depths: bytes = b""
    """uint16: links from the nearest seed."""
    requests: bytes = b""
    """uint32: requests made until then."""
    outcomes: dict[str, int] = {}
    skipped: str = ""
    """Why it could not be run; '' when it was."""
    took_s: float = 0.0
    """For the log only: results do not depend on it."""
    confidence: bytes = b""
    """float32: how sure the judge was, in its own measure."""
    metrics: tuple[str, ...] = ()
    """The feature spaces or metrics that ever said yes."""
    agreed: bytes = b""
    """uint16: a bit for each of `metrics` that said yes, and UNDOUBTED."""
    starts: tuple[int, ...] = ()
    """The pages it began with."""
    models: tuple[ModelRun, ...] = ()
    """Of a real crawl: the models that it trained, the first first."""
    answered: tuple[int, ...] = ()
    """Of a real crawl: the pages about which it asked and the labels answered."""
    seconds: bytes = b""
    """Of a real crawl, float64: seconds of crawling until then. A simulation takes none. No other part of a record
    depends on the machine."""

    @property
    def crawled(self) -> NDArray[np.int64]:
        """The pages fetched, in order."""
        return np.frombuffer(self.pages, "<u4").astype(np.int64)

    @property
    def link_depths(self) -> NDArray[np.int64]:
        """How many links each page fetched is from the nearest seed."""
        return np.frombuffer(self.depths, "<u2").astype(np.int64)

    @property
    def requests_until(self) -> NDArray[np.int64]:
        """For each page fetched, the requests made until then; empty when they were not counted."""
        return np.frombuffer(self.requests, "<u4").astype(np.int64)

    @property
    def seconds_until(self) -> NDArray[np.float64]:
        """For each page fetched, the seconds of crawling until then; empty when it was a simulation."""
        return np.frombuffer(self.seconds, "<f8")

    @property
    def relevances(self) -> NDArray[np.float64]:
        """What the judge gave them."""
        return np.frombuffer(self.judged, "<f4").astype(np.float64)

    @property
    def confidences(self) -> NDArray[np.float64]:
        """How sure it was."""
        return np.frombuffer(self.confidence, "<f4").astype(np.float64)

    @property
    def votes(self) -> NDArray[np.int64]:
        """Who agreed, as bits."""
        return np.frombuffer(self.agreed, "<u2").astype(np.int64)


class RunLog:
    """The log of one folder, held by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOG_FILE
        self._file = self.path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise InputError(
                f"{folder}: another process runs an experiment there", "Wait for it, or name another folder."
            ) from None
        runs, end = _read(self._file)
        self.runs = {run.key: run for run in runs}
        self._file.truncate(end)

    def append(self, run: RunRecord) -> None:
        """Keep a run; on return it is on disk."""
        message = msgspec.msgpack.encode(run)
        self._file.write(_HEADER.pack(len(message), xxhash.xxh3_64_intdigest(message)) + message)
        self._file.flush()
        os.fsync(self._file.fileno())
        self.runs[run.key] = run

    def close(self) -> None:
        """Let others have it."""
        self._file.close()

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        """Let others have it."""
        self.close()


def read_log(folder: Path) -> dict[str, RunRecord]:
    """The runs of a folder by key, without holding it."""
    path = folder / LOG_FILE
    if not path.is_file():
        raise InputError(f"{folder}: no experiment was run there", "Run one: opilio evaluate FILE --folder FOLDER")
    with path.open("rb") as file:
        return {run.key: run for run in _read(file)[0]}


def _read(file: IO[bytes]) -> tuple[list[RunRecord], int]:
    """All whole runs, and where they end."""
    file.seek(0)
    found = list(_frames(file))
    decoder = msgspec.msgpack.Decoder(RunRecord)
    runs: list[RunRecord] = []
    end = 0
    for message, next_end in found:
        try:
            runs.append(decoder.decode(message))
        except msgspec.MsgspecError:
            break
        end = next_end
    return runs, end


def _frames(file: IO[bytes]) -> Iterator[tuple[bytes, int]]:
    end = 0
    while len(header := file.read(_HEADER.size)) == _HEADER.size:
        length, checksum = _HEADER.unpack(header)
        message = file.read(length) if length <= _MAX_FRAME_BYTES else b""
        if len(message) < length or not length or xxhash.xxh3_64_intdigest(message) != checksum:
            return
        end += _HEADER.size + length
        yield message, end
