"""Answers from WARC files of any origin: packed record by record, as a whole, or not at all.

A revisit record stands for an answer whose body is in another record, perhaps of another file: all files are read once
more for the bodies that revisits name, if there are any.
"""

from __future__ import annotations

import datetime
import gzip
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from opilio.evaluate.recording import Answer, head_of, is_replayable
from opilio.fetch.headers import parse_headers, status_of

MAX_RECORD_BYTES = 256 * 2**20  # what says it is longer is skipped: no crawl would take it
_MAX_LINE_BYTES = 2**16
_GZIP_MAGIC = b"\x1f\x8b"


class _Record(NamedTuple):
    fields: dict[str, str]
    block: bytes

    @property
    def url(self) -> str:
        return self.fields.get("warc-target-uri", "").strip("<>")

    @property
    def date(self) -> str:
        return self.fields.get("warc-date", "")

    @property
    def digest(self) -> str:
        return self.fields.get("warc-payload-digest", "")


class WarcFiles:
    """The answers of WARC files. After reading, `damaged` and `lost_revisits` say what could not be had."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.paths = list(paths)
        self.damaged: list[Path] = []
        """Files that could be read to some point only."""
        self.lost_revisits = 0
        """Revisits of a body that is in none of the files."""

    def answers(self) -> Iterator[Answer]:
        """All answers, in the order of the files; revisits last."""
        revisits: dict[str, list[Answer]] = {}
        for record in self._records():
            if record.fields.get("warc-type") == "revisit":
                head = record.block.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
                if is_replayable(status_of(head)):  # else: not modified, and what was there stands
                    answer = Answer(record.url, head, b"", date_s=_seconds(record.date))
                    revisits.setdefault(_revisited(record), []).append(answer)
                continue
            yield from _answer(record)
        if revisits:
            yield from self._revisits(revisits)

    def _revisits(self, revisits: dict[str, list[Answer]]) -> Iterator[Answer]:
        for record in self._records():
            if record.fields.get("warc-type") != "response":
                continue
            for key in (record.digest, f"{record.url} {record.date}", f"{record.url} "):
                for waiting in revisits.pop(key, ()) if key else ():
                    for found in _answer(record):
                        yield waiting._replace(body=found.body)
        self.lost_revisits = sum(map(len, revisits.values()))

    def _records(self) -> Iterator[_Record]:
        self.damaged = []
        for path in self.paths:
            try:
                with _opened(path) as stream:
                    yield from _read(stream)
            except (EOFError, zlib.error, gzip.BadGzipFile, ValueError):
                self.damaged.append(path)


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as file:
        packed = file.read(2) == _GZIP_MAGIC
    return cast(BinaryIO, gzip.open(path, "rb")) if packed else path.open("rb")


def _read(stream: BinaryIO) -> Iterator[_Record]:
    """Record after record; raises ValueError or EOFError where the file is damaged."""
    while line := stream.readline(_MAX_LINE_BYTES):
        if not line.strip():
            continue
        if not line.startswith(b"WARC/"):
            raise ValueError("no record here")
        fields: dict[str, str] = {}
        while (line := stream.readline(_MAX_LINE_BYTES)).strip():
            name, _, value = line.decode("utf-8", "replace").partition(":")
            fields[name.strip().lower()] = value.strip()
        length = int(fields.get("content-length", ""))
        if length > MAX_RECORD_BYTES:
            _skip(stream, length)
            continue
        block = stream.read(length)
        if len(block) < length:
            raise EOFError
        if fields.get("warc-type") in ("response", "resource", "revisit"):
            yield _Record(fields, block)


def _skip(stream: BinaryIO, length: int) -> None:
    while length > 0:
        piece = stream.read(min(length, 2**20))
        if not piece:
            raise EOFError
        length -= len(piece)


def _answer(record: _Record) -> Iterator[Answer]:
    content_type = record.fields.get("content-type", "")
    head, body = b"", record.block
    if record.fields["warc-type"] == "resource":
        head = head_of(200, [("Content-Type", content_type)] if content_type else [])
    elif content_type.startswith("application/http"):
        head, body = _split(record.block)
    if status_of(head):
        yield Answer(record.url, head, body, date_s=_seconds(record.date))


def _split(block: bytes) -> tuple[bytes, bytes]:
    """Head and body of a recorded answer; chunks are put together."""
    head, blank, body = block.partition(b"\r\n\r\n")
    if not blank:
        head, _, body = block.partition(b"\n\n")
    headers = parse_headers(head.splitlines()[1:])
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = _unchunked(body)
    return head + b"\r\n\r\n", body


def _unchunked(body: bytes) -> bytes:
    """The data of a chunked body; the body itself when it is not chunked, as many archives undo it."""
    pieces: list[bytes] = []
    at = 0
    while True:
        end = body.find(b"\n", at, at + 100)
        size = body[at:end].partition(b";")[0].strip() if end >= 0 else b""
        if not size or len(size) > 8 or size.strip(b"0123456789abcdefABCDEF"):
            return body
        length = int(size, 16)
        if not length:
            return b"".join(pieces)
        pieces.append(body[end + 1 : end + 1 + length])
        at = end + 1 + length
        if at >= len(body):  # the record was cut off; what there is counts
            return b"".join(pieces)
        at += 2 if body[at : at + 2] == b"\r\n" else 1


def _revisited(record: _Record) -> str:
    """The key under which the record that a revisit refers to will be recognised."""
    fields = record.fields
    named = fields.get("warc-refers-to-target-uri", "").strip("<>")
    return record.digest or f"{named or record.url} {fields.get('warc-refers-to-date', '')}"


def _seconds(date: str) -> float:
    try:
        return datetime.datetime.fromisoformat(date).timestamp()
    except ValueError:
        return 0.0
