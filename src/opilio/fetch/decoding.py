"""Decoding of content encodings, piece by piece and up to a limit: a small body can decompress to gigabytes.

Each encoding is a `DecodingStage`; stages are stacked in the order that the header lists them. No stage returns more
than the limit, so memory is bounded whatever the bytes are.
"""

from __future__ import annotations

import re
from typing import Any, Protocol, cast

import brotli
import zstandard
from isal import isal_zlib

ACCEPT_ENCODING = "gzip, deflate, br, zstd"
MAX_STACKED = 3
BOMB_RATIO = 100
MAX_GZIP_MEMBERS = 1000
ZSTD_MAX_WINDOW_BYTES = 8 * 2**20  # RFC 9659
# zstandard's decompressobj has no output limit. Four bytes can encode 128 KiB, so a slice yields at most 16 MiB.
ZSTD_SLICE_BYTES = 512

_InflateError = cast(type[Exception], isal_zlib.error)
HTML_LIKE = re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctype|!--|\?xml|[a-z])", re.IGNORECASE)


class CodingError(Exception):
    """The bytes do not match their content encoding. This never leaves the package: it becomes an outcome."""


class DecodingStage(Protocol):
    """The decoder of one content encoding."""

    def feed(self, data: bytes, room_bytes: int) -> bytes:
        """Decode `data` to at most about `room_bytes`. Once that much was returned, it is not called again."""

    @property
    def complete(self) -> bool:
        """Whether the encoded stream has ended properly."""


class _Gzip:
    """gzip, with any number of members; trailing data that is not gzip is ignored."""

    def __init__(self) -> None:
        self._inflate = isal_zlib.decompressobj(31)
        self._members = 1
        self._rest = b""
        self.complete = False

    def feed(self, data: bytes, room_bytes: int) -> bytes:
        out = b""
        if self._inflate.eof:
            data = self._rest + data
        while True:
            if self._inflate.eof and not self._next_member(data):
                return out
            try:
                out += self._inflate.decompress(data, room_bytes - len(out))
            except _InflateError as error:
                raise CodingError(f"gzip: {error}") from None
            self.complete = self._inflate.eof
            if not self.complete or len(out) >= room_bytes:
                return out
            data = self._inflate.unused_data

    def _next_member(self, data: bytes) -> bool:
        self._rest = data if len(data) < 2 else b""
        if not data.startswith(b"\x1f\x8b"):
            return False
        self._members += 1
        if self._members > MAX_GZIP_MEMBERS:
            raise CodingError(f"gzip: more than {MAX_GZIP_MEMBERS} members")
        self._inflate = isal_zlib.decompressobj(31)
        return True


class _Deflate:
    """deflate: with the zlib wrapper, as the standard requires, or raw, as many servers send it."""

    def __init__(self) -> None:
        self._inflate: Any = None
        self._start = b""

    @property
    def complete(self) -> bool:
        return self._inflate is not None and bool(self._inflate.eof)

    def feed(self, data: bytes, room_bytes: int) -> bytes:
        if self._inflate is None:
            data = self._start + data
            if len(data) < 2:
                self._start = data
                return b""
            wrapped = data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
            self._inflate = isal_zlib.decompressobj(15 if wrapped else -15)
        if self._inflate.eof:
            return b""
        try:
            return bytes(self._inflate.decompress(data, room_bytes))
        except _InflateError as error:
            raise CodingError(f"deflate: {error}") from None


class _Brotli:
    def __init__(self) -> None:
        self._decompressor = brotli.Decompressor()

    @property
    def complete(self) -> bool:
        return bool(self._decompressor.is_finished())

    def feed(self, data: bytes, room_bytes: int) -> bytes:
        if self._decompressor.is_finished():
            return b""
        try:
            return bytes(self._decompressor.process(data, output_buffer_limit=room_bytes))
        except brotli.error as error:
            raise CodingError(f"br: {error}") from None


class _Zstd:
    def __init__(self) -> None:
        decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_MAX_WINDOW_BYTES)
        self._stream = decompressor.decompressobj(write_size=2**14)

    @property
    def complete(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes, room_bytes: int) -> bytes:
        pieces: list[bytes] = []
        for start in range(0, len(data), ZSTD_SLICE_BYTES):
            if self._stream.eof or room_bytes <= 0:
                break
            try:
                piece = self._stream.decompress(data[start : start + ZSTD_SLICE_BYTES])
            except zstandard.ZstdError as error:
                raise CodingError(f"zstd: {error}") from None
            pieces.append(piece)
            room_bytes -= len(piece)
        return b"".join(pieces)


class _Unknown:
    complete = False

    def feed(self, data: bytes, room_bytes: int) -> bytes:
        raise CodingError("unknown content encoding")


_STAGES: dict[str, type[DecodingStage]] = {
    "gzip": _Gzip,
    "x-gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
}


def codings_of(header: str) -> list[str]:
    """The encodings in a Content-Encoding header, in the order they were applied."""
    names = (name.strip().lower() for name in header.split(","))
    return [name for name in names if name not in ("", "identity")]


class Decoder:
    """Decodes one body, to at most `max_bytes` and one more piece."""

    def __init__(self, codings: list[str], max_bytes: int) -> None:
        names = codings if len(codings) <= MAX_STACKED else ["too many"]
        self._codings = ", ".join(codings)
        self._stages: list[DecodingStage] = [_STAGES.get(name, _Unknown)() for name in reversed(names)]
        self._given_bytes = [0] * len(names)
        self.max_bytes = max_bytes
        # Small enough that one slice of a bomb reveals its ratio before the limit is reached.
        self._slice_bytes = min(max(max_bytes // (2 * BOMB_RATIO), 512), 2**14)
        self._pieces: list[bytes] = []
        self._fed: list[bytes] = []
        self._fed_bytes = 0
        self.body_bytes = 0
        self.overflowed = False

    def feed(self, data: bytes) -> bool:
        """Decode another piece; False if the limit is exceeded. Raises CodingError."""
        if len(data) <= self._slice_bytes:
            return self._feed_slice(data)
        return all(
            self._feed_slice(data[start : start + self._slice_bytes])
            for start in range(0, len(data), self._slice_bytes)
        )

    def finish(self) -> None:
        """Raise CodingError if the encoded stream is incomplete."""
        if self._fed_bytes and not all(stage.complete for stage in self._stages):
            raise CodingError(f"{self._codings}: the data ends early")

    @property
    def body(self) -> bytes:
        """What has been decoded so far, cut at the limit."""
        body = b"".join(self._pieces)
        return body[: self.max_bytes] if len(body) > self.max_bytes else body

    @property
    def is_bomb(self) -> bool:
        """Whether the limit was exceeded at a compression ratio that no honest page has."""
        return self.overflowed and max(self._given_bytes, default=0) > BOMB_RATIO * self._fed_bytes

    def _feed_slice(self, data: bytes) -> bool:
        self._fed_bytes += len(data)
        if self._stages and not self.body_bytes:
            self._fed.append(data)  # until something is decoded, the header may turn out to be wrong
        try:
            for index, stage in enumerate(self._stages):
                data = self._through(index, stage, data)
        except CodingError:
            plain = b"".join(self._fed)
            if self.body_bytes or not HTML_LIKE.match(plain):
                raise
            self._stages = []  # the header is wrong: this is plain HTML
            data = plain
        if data:
            self._pieces.append(data)
            self.body_bytes += len(data)
        self.overflowed = self.overflowed or self.body_bytes > self.max_bytes
        return not self.overflowed

    def _through(self, index: int, stage: DecodingStage, data: bytes) -> bytes:
        """Run one stage. Inner stages are limited too, because their output may not show in the final size."""
        if not data or self.overflowed:
            return b""
        out = stage.feed(data, self.max_bytes + 1 - self._given_bytes[index])
        self._given_bytes[index] += len(out)
        if self._given_bytes[index] > self.max_bytes:
            self.overflowed = index + 1 < len(self._stages)
        return out
