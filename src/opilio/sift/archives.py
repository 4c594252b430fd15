"""Reading archives: the pages of a WARC or WET file, one after the other, however damaged or hostile it is.

A file is plain, or compressed by gzip: one member for each record, as the standard wants it, or any other way. It is
read once, from front to back, and no more than one record is held. Each page comes with the position behind it, at
which reading can go on.
"""

from __future__ import annotations

import datetime
import time
import zlib
from collections import deque
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import msgspec
from isal import isal_zlib

from opilio.settings import GIB, MIB

CHUNK_BYTES = 256 * 2**10
PIECE_BYTES = MIB
"""At most so much is unpacked at a time."""
MAX_RECORD_BYTES = 64 * MIB
"""A larger record is passed over: six times the largest body that a crawl accepts by default."""
MAX_SKIPPED_BYTES = 4 * GIB
"""A record that claims to be larger than this is damage: what comes behind it is not looked for there."""
MAX_HEADER_BYTES = 2**16
DAY_S = 86_400.0
GZIP_MAGIC = b"\x1f\x8b\x08"
_UNPACKING_ERRORS: tuple[type[Exception], ...] = (  # the stub of isal has an instance
    isal_zlib.IsalError,  # type: ignore[assignment]
    zlib.error,
    ValueError,
)
_VERSION = b"WARC/"
_PAGES = frozenset({"response", "conversion", "resource", "revisit"})
_LINE_ENDS = b"\r\n"


class Position(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A place between two records of an archive."""

    offset: int = 0
    """Where the compressed member begins that has the next record; in a plain file, the record."""
    skip: int = 0
    """Bytes of that member, unpacked, that come before the record."""
    number: int = 0
    """Pages before the record."""


class ArchivePage(NamedTuple):
    """A record that may be a page."""

    kind: str
    """`response`, `conversion`, `resource` or `revisit`."""
    url: str
    ip: str
    captured_s: float
    """When it was fetched; 0: the record does not say."""
    content_type: str
    """Of the record."""
    block: bytes
    is_cut: bool
    """Only the beginning of the response is there (WARC-Truncated)."""
    too_large: bool
    """Its block was passed over."""
    offset: int
    after: Position


class Damage(NamedTuple):
    """Bytes that are no record. Reading goes on behind them."""

    offset: int
    problem: str
    after: Position


class _BrokenError(Exception):
    """The bytes cannot be unpacked, or what they contain is no record."""


class _Unpacked:
    """The bytes of an archive as they are when they are unpacked, and where each is in the file."""

    def __init__(self, file: BinaryIO, position: Position) -> None:
        self._file = file
        self._raw = b""
        self._raw_at = 0
        self._members: deque[tuple[int, int]] = deque()
        """Where members begin: unpacked, and in the file."""
        self._data = bytearray()
        self._at = 0
        """Where `_data` begins, unpacked."""
        self._used = 0
        """Bytes of `_data` that were taken."""
        self._decoder = isal_zlib.decompressobj(wbits=31)
        self._in_member = False
        file.seek(0)
        self.is_packed = file.read(2) == GZIP_MAGIC[:2]
        self._restart(position.offset)
        self._go_on(position.skip)

    def _restart(self, offset: int) -> None:
        self._file.seek(offset)
        self._raw, self._raw_at, self._in_member = b"", offset, False
        self._at += len(self._data)
        self._data, self._used = bytearray(), 0
        if not self.is_packed:
            self._members.append((self._at, offset))

    @property
    def _taken(self) -> int:
        return self._at + self._used

    def position(self, number: int) -> Position:
        """Where the next byte is."""
        at = self._taken
        if self.is_packed and not self._in_member and self._used == len(self._data):
            return Position(self._raw_at, 0, number)
        while len(self._members) > 1 and self._members[1][0] <= at:
            self._members.popleft()
        if not self._members:
            return Position(self._raw_at, 0, number)
        start, offset = self._members[0]
        return Position(offset, at - start, number) if self.is_packed else Position(offset + at - start, 0, number)

    def has(self, count: int) -> bool:
        """Whether there are so many bytes more; as many as there are can be taken."""
        while len(self._data) - self._used < count:
            if not self._unpack_more():
                return False
        return True

    def peek(self, count: int) -> bytes:
        """The next bytes, fewer at the end."""
        self.has(count)
        return bytes(self._data[self._used : self._used + count])

    def find(self, what: bytes, limit: int) -> int:
        """How many bytes come before `what`; -1 when it is not within the limit."""
        looked = 0
        while True:
            found = self._data.find(what, self._used + max(0, looked - len(what)), self._used + limit)
            if found >= 0:
                return found - self._used
            looked = len(self._data) - self._used
            if looked >= limit or not self.has(looked + 1):
                return -1

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if not self.has(count):
            raise _BrokenError("it ends in the middle of a record")
        taken = bytes(memoryview(self._data)[self._used : self._used + count])
        self._used += count
        return taken

    def skip(self, count: int) -> None:
        """Pass over bytes without holding them."""
        if count > MAX_SKIPPED_BYTES:
            raise _BrokenError(f"a record that claims to have {count:,} bytes")
        self._go_on(count)

    def _go_on(self, count: int) -> None:
        while count > 0:
            if not self.has(1):
                raise _BrokenError("it ends in the middle of a record")
            step = min(count, len(self._data) - self._used)
            self._used += step
            count -= step

    def _unpack_more(self) -> bool:
        """Unpack a piece; False at the end of the file."""
        if self._used > PIECE_BYTES or self._used == len(self._data):
            del self._data[: self._used]
            self._at += self._used
            self._used = 0
        if not self._raw:
            self._raw = self._file.read(CHUNK_BYTES)
        if not self._raw:
            if self._in_member:
                raise _BrokenError("the file is cut off")
            return False
        if not self.is_packed:
            self._data += self._raw
            self._raw_at += len(self._raw)
            self._raw = b""
            return True
        if not self._in_member:
            self._begin_member()
            if not self._raw:
                return False
        before = len(self._raw)
        try:
            self._data += self._decoder.decompress(self._raw, PIECE_BYTES)
        except _UNPACKING_ERRORS as error:
            raise _BrokenError(f"bytes that cannot be unpacked ({' '.join(str(error).split())})") from None
        if self._decoder.eof:
            self._raw, self._in_member = self._decoder.unused_data, False
        else:
            self._raw = self._decoder.unconsumed_tail
        self._raw_at += before - len(self._raw)
        return True

    def _begin_member(self) -> None:
        self._raw = self._raw if len(self._raw) > len(GZIP_MAGIC) else self._raw + self._file.read(CHUNK_BYTES)
        if not self._raw.startswith(GZIP_MAGIC):
            if not self._raw.strip(b"\x00"):  # some writers fill up the last block
                self._raw_at += len(self._raw)
                self._raw = b""
                return
            raise _BrokenError("bytes that are no gzip member")
        self._members.append((self._at + len(self._data), self._raw_at))
        self._decoder = isal_zlib.decompressobj(wbits=31)
        self._in_member = True

    def go_behind_damage(self) -> bool:
        """Go to the next bytes that begin a record, behind where the current member began; False if there are none."""
        return self._next_member() if self.is_packed else self._next_version()

    def _next_member(self) -> bool:
        at = self.position(0).offset + 1
        while True:
            self._restart(at)
            at = self._find_magic(at)
            if at < 0:
                return False
            self._restart(at)
            try:
                if self.peek(len(_VERSION)) == _VERSION:
                    return True
            except _BrokenError:
                pass
            at += 1

    def _find_magic(self, at: int) -> int:
        held = b""
        while chunk := self._file.read(CHUNK_BYTES):
            held += chunk
            if (found := held.find(GZIP_MAGIC)) >= 0:
                return at + found
            kept = held[-2:]
            at += len(held) - len(kept)
            held = kept
        return -1

    def _next_version(self) -> bool:
        mark = b"\n" + _VERSION
        while (found := self.find(mark, CHUNK_BYTES)) < 0:
            if not self.has(CHUNK_BYTES):
                return False
            self._used += CHUNK_BYTES - len(mark)
        self._used += found + 1
        return True


def read_pages(file: BinaryIO, position: Position, lane: int = 0, lanes: int = 1) -> Iterator[ArchivePage | Damage]:
    """The pages of an archive from a position on, in their order; of every `lanes` pages the one numbered `lane`.

    The file must be one that can seek. Damage is given where it is found.
    """
    number = position.number
    try:
        data = _Unpacked(file, position)
    except _BrokenError as error:
        yield Damage(position.offset, str(error), position)
        return
    while True:
        offset = data.position(number).offset
        try:
            while data.peek(1) in (b"\r", b"\n"):
                data.take(1)
            if not data.has(1):
                return
            offset = data.position(number).offset
            head = _head(data)
            length = int(head["content-length"])
            kind, is_wanted = head.get("warc-type", "").lower(), False
            if kind in _PAGES:
                is_wanted = number % lanes == lane
                number += 1
            too_large = length > MAX_RECORD_BYTES
            block = b""
            if is_wanted and not too_large:
                block = data.take(length)
            else:
                data.skip(length)
        except _BrokenError as error:
            is_more = data.go_behind_damage()
            yield Damage(offset, str(error), data.position(number))
            if not is_more:
                return
            continue
        if is_wanted:
            yield ArchivePage(
                kind,
                head.get("warc-target-uri", "").strip("<>"),
                head.get("warc-ip-address", ""),
                _seconds(head.get("warc-date", "")),
                head.get("content-type", ""),
                block,
                "warc-truncated" in head,
                too_large,
                offset,
                data.position(number),
            )


def _head(data: _Unpacked) -> dict[str, str]:
    """The fields of the record's header, by lower-case name; the length of its block is a number."""
    if data.peek(len(_VERSION)) != _VERSION:
        raise _BrokenError("bytes that are no record")
    end, gap = data.find(b"\r\n\r\n", MAX_HEADER_BYTES), 4
    if end < 0:
        end, gap = data.find(b"\n\n", MAX_HEADER_BYTES), 2
    if end < 0:
        raise _BrokenError("a record whose header does not end")
    fields: dict[str, str] = {}
    for line in data.take(end + gap)[:end].splitlines()[1:]:
        name, colon, value = line.decode("utf-8", "replace").partition(":")
        if colon:
            fields.setdefault(name.strip().lower(), value.strip())
    length = fields.get("content-length", "")
    if not (length.isascii() and length.isdigit() and len(length) < 19):
        raise _BrokenError("a record without a usable length")
    return fields


def _seconds(date: str) -> float:
    """A date in seconds since the epoch; 0 when it is none, or lies in the future."""
    try:
        found = datetime.datetime.fromisoformat(date).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return found if 0.0 < found < time.time() + DAY_S else 0.0
