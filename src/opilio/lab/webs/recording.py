"""Writing a recorded web: answers come in any order, and the folder appears when all are there."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from opilio.errors import InputError
from opilio.fetch.headers import parse_headers, status_of
from opilio.fetch.transport import outcome_of_status
from opilio.lab.webs.recorded import BODIES_FILE, INFO_FILE, PAGES_FILE, SCHEMA, Info, RecordedWeb, Row, digest_of
from opilio.model import host_of, normalize
from opilio.store.warc import archived_head

LEVEL = 3  # of zstd: level 6 makes pages 4 % smaller in three times the time
NOT_RECORDED = ("X-Opilio-Replay", "not recorded")  # marks our own 404, which is not worth recording again
ROWS_PER_GROUP = 50_000
_NOT_RECORDED_LINE = ": ".join(NOT_RECORDED).encode()


class RecordedAnswer(NamedTuple):
    """What a server said to one URL (any form of it)."""

    url: str
    head: bytes
    body: bytes
    topics: tuple[str, ...] = ()
    date_s: float = 0.0
    """Of two answers to one URL the later counts."""


class _Place(NamedTuple):
    offset: int
    packed_bytes: int
    body_bytes: int


class _Kept(NamedTuple):
    head: bytes
    body_hash: bytes
    date_s: float


class WebRecorder:
    """A web in the making. `finish` moves it to its place; `discard` leaves nothing."""

    def __init__(self, target: Path) -> None:
        self.target = target
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError(f"{target}: is there already", "Name another folder, or remove this one first.")
        target.parent.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix=f".{target.name}-recording-", dir=target.parent))
        self._file = (self._folder / BODIES_FILE).open("wb")
        self._packer = zstandard.ZstdCompressor(level=LEVEL)
        self._places: dict[bytes, _Place] = {}
        self._kept: dict[str, _Kept] = {}
        self._topics: dict[str, set[str]] = {}
        self.skipped = 0
        """Answers that cannot be replayed: no http URL, no status, an answer to a conditional request."""

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, answer: RecordedAnswer) -> None:
        """Take an answer."""
        self.add_stored(answer, self.store(answer.body))

    def store(self, body: bytes) -> bytes:
        """Keep a body, once; its hash, by which answers name it."""
        body_hash = hashlib.sha256(body).digest()
        if body_hash not in self._places:
            frame = self._packer.compress(body) if body else b""
            self._places[body_hash] = _Place(self._file.tell(), len(frame), len(body))
            self._file.write(frame)
        return body_hash

    def add_stored(self, answer: RecordedAnswer, body_hash: bytes) -> None:
        """Take an answer whose body is kept already."""
        url = normalize(answer.url)
        status = status_of(answer.head)
        if not url or not is_replayable(status) or _NOT_RECORDED_LINE in answer.head:
            self.skipped += 1
            return
        self._topics.setdefault(url, set()).update(answer.topics)
        before = self._kept.get(url)
        if before is None or before.date_s <= answer.date_s:
            head = archived_head(answer.head, self._places[body_hash].body_bytes)
            self._kept[url] = _Kept(head, body_hash, answer.date_s)

    def label(self, url: str, topics: Iterable[str]) -> None:
        """Say what a page is about, whether its answer came already or will come."""
        self._topics.setdefault(normalize(url), set()).update(topics)

    def finish(self, sources: list[str]) -> RecordedWeb:
        """Write what is left to write, and put the folder in its place."""
        if not self._kept:
            raise InputError("nothing was recorded: no answer was found", "Look at the sources and at --drop.")
        self._file.close()
        rows = list(self._rows())
        pq.write_table(_table(rows), self._folder / PAGES_FILE, compression="zstd", row_group_size=ROWS_PER_GROUP)
        info = Info(
            name=self.target.name,
            digest=digest_of(rows),
            urls=len(rows),
            pages=sum(200 <= row.status < 300 for row in rows),
            redirects=sum(bool(row.redirect) for row in rows),
            hosts=len({host_of(row.url) for row in rows}),
            labels=len({topic for row in rows for topic in row.topics}),
            body_bytes=sum(row.body_bytes for row in rows),
            packed_bytes=(self._folder / BODIES_FILE).stat().st_size,
            sources=sources,
        )
        (self._folder / INFO_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(info), indent=2) + b"\n")
        self._folder.chmod(0o755)  # temporary folders are their owner's alone
        self._folder.replace(self.target)
        return RecordedWeb.open(self.target)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _rows(self) -> Iterator[Row]:
        for url, kept in sorted(self._kept.items()):
            status, place = status_of(kept.head), self._places[kept.body_hash]
            location = parse_headers(kept.head.splitlines()[1:]).get("location", "")
            redirect = outcome_of_status(status, location, url)[2]  # what a crawler makes of it
            topics = tuple(sorted(self._topics[url]))
            yield Row(
                url, status, redirect, topics, kept.head, kept.body_hash, place.body_bytes, place.offset,
                place.packed_bytes,
            )  # fmt: skip


@contextlib.contextmanager
def recording(target: Path) -> Iterator[WebRecorder]:
    """A recorder that leaves nothing behind unless it was finished."""
    recorder = WebRecorder(target)
    try:
        yield recorder
    finally:
        recorder.discard()


def is_replayable(status: int) -> bool:
    """Whether an answer of this status stands for itself."""
    return status >= 200 and status != HTTPStatus.NOT_MODIFIED


def head_of(status: int, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """A head that we write ourselves, for a page that came without one."""
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = "Unknown"
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "replace")


def _table(rows: list[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True))
    return pa.table([pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
