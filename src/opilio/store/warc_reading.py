"""Reading our WARC files back, also when a crash tore their tail or bytes in the middle were damaged."""

from __future__ import annotations

import datetime
import mmap
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_GZIP_MAGIC = b"\x1f\x8b\x08"
_PIECE_BYTES = 64 * 2**10
MAX_RECORD_BYTES = 256 * 2**20  # far above any body we accept; a bound on what damaged bytes can make us hold


class WarcRecord(NamedTuple):
    """A response read back. `offset + length` is where the record after it starts."""

    url: str
    ip: str
    date_s: float
    raw_head: bytes
    raw_body: bytes
    offset: int
    length: int


class _Member(NamedTuple):
    """An intact gzip member with a well-formed WARC record."""

    offset: int
    length: int
    fields: dict[str, str]
    block: bytes

    @property
    def kind(self) -> str:
        return self.fields.get("warc-type", "")


def recover(path: Path, from_offset: int = 0) -> Iterator[WarcRecord]:
    """Every intact response after `from_offset`. Damaged bytes are stepped over.

    A revisit is given with the body it refers to when that stands in the same file; else it is left out.
    """
    bodies: dict[str, tuple[int, int]] | None = None
    with _Mapped(path) as data:
        for member in _members(data, from_offset):
            if member.kind not in ("response", "revisit"):
                continue
            head, _, body = member.block.partition(b"\r\n\r\n")
            if member.kind == "revisit":
                if bodies is None:
                    bodies = _payload_places(data)
                found = _body_of(data, bodies.get(member.fields.get("warc-payload-digest", "")))
                if found is None:
                    continue
                body = found
            yield WarcRecord(
                member.fields.get("warc-target-uri", ""),
                member.fields.get("warc-ip-address", ""),
                _seconds(member.fields.get("warc-date", "")),
                head + b"\r\n\r\n",
                body,
                member.offset,
                member.length,
            )


def truncate_torn(path: Path, from_offset: int = 0) -> int:
    """Cut what follows the last intact response (or warcinfo) record; how many bytes were cut.

    A request whose response is torn goes with it. `from_offset` must be a record's start known to be intact.
    """
    size_bytes = path.stat().st_size
    end = min(from_offset, size_bytes)
    with _Mapped(path) as data:
        for member in _members(data, end):
            if member.kind != "request":
                end = member.offset + member.length
    if end < size_bytes:
        os.truncate(path, end)
    return size_bytes - end


class _Mapped:
    """The bytes of a file; an empty one, which cannot be mapped, as no bytes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> mmap.mmap | bytes:
        with self._path.open("rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            self._data: mmap.mmap | bytes = b"" if empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._data

    def __exit__(self, *_: object) -> None:
        if isinstance(self._data, mmap.mmap):
            self._data.close()


def _members(data: mmap.mmap | bytes, from_offset: int) -> Iterator[_Member]:
    """The intact records from `from_offset` on."""
    offset = from_offset
    while 0 <= offset < len(data):
        length, plain = _inflate(data, offset)
        parsed = _parse(plain) if length else None
        if parsed is None:
            offset = data.find(_GZIP_MAGIC, offset + 1)
            continue
        yield _Member(offset, length, *parsed)
        offset += length


def _inflate(data: mmap.mmap | bytes, offset: int) -> tuple[int, bytes]:
    """Length and content of the gzip member at `offset`; length 0 when there is no intact one."""
    if data[offset : offset + 3] != _GZIP_MAGIC:
        return 0, b""
    decoder = zlib.decompressobj(wbits=31)
    pieces: list[bytes] = []
    held_bytes, at = 0, offset
    while not decoder.eof:
        piece = data[at : at + _PIECE_BYTES]
        if not piece or held_bytes > MAX_RECORD_BYTES:
            return 0, b""
        at += len(piece)
        try:
            pieces.append(decoder.decompress(piece, MAX_RECORD_BYTES))
        except zlib.error:
            return 0, b""
        if decoder.unconsumed_tail:
            return 0, b""
        held_bytes += len(pieces[-1])
    return at - len(decoder.unused_data) - offset, b"".join(pieces)


def _parse(plain: bytes) -> tuple[dict[str, str], bytes] | None:
    """Header fields and block of a record, or None when it is not a whole one."""
    head, blank, rest = plain.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    if not blank or not lines[0].startswith(b"WARC/1."):
        return None
    fields = {}
    for line in lines[1:]:
        name, _, value = line.decode("utf-8", "replace").partition(":")
        fields[name.strip().lower()] = value.strip()
    length = fields.get("content-length", "")
    if not length.isdigit() or len(rest) < int(length):
        return None
    return fields, rest[: int(length)]


def _payload_places(data: mmap.mmap | bytes) -> dict[str, tuple[int, int]]:
    """Where each payload of the file stands, by its digest."""
    places = {}
    for member in _members(data, 0):
        if member.kind == "response":
            places[member.fields.get("warc-payload-digest", "")] = (member.offset, member.length)
    return places


def _body_of(data: mmap.mmap | bytes, place: tuple[int, int] | None) -> bytes | None:
    if place is None:
        return None
    parsed = _parse(_inflate(data, place[0])[1])
    return parsed[1].partition(b"\r\n\r\n")[2] if parsed else None


def _seconds(date: str) -> float:
    try:
        return datetime.datetime.fromisoformat(date).timestamp()
    except ValueError:
        return 0.0
