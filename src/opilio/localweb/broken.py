"""Answers that break HTTP or never end: what a fetcher must bound by time, by size and by disbelief."""

from __future__ import annotations

import asyncio
import importlib
import struct
import zlib
from collections.abc import Iterator
from typing import Protocol

from opilio.localweb.exchange import HTML, Exchange, Wire, head

TRICKLE_S = 1.0
BOMB_BYTES = 2**30
NESTED_TAGS_BYTES = 10 * 2**20
MIB = 2**20

_BODY = (
    b"<!DOCTYPE html>\n<html><head><title>Cut</title></head><body><p>" + b"some words " * 40 + b"</p></body></html>\n"
)
_BOMB_START = b"<!DOCTYPE html><title>Bomb</title><body>".ljust(MIB)


async def slow(exchange: Exchange, wire: Wire) -> None:
    """/wait/SECONDS: nothing at all for so long, then a page."""
    try:
        wait_s = float(exchange.path.rpartition("/")[2])
    except ValueError:
        wait_s = 2.0
    await asyncio.sleep(max(0.0, min(wait_s, 300.0)))
    await wire.answer(200, _BODY)


async def trickle(exchange: Exchange, wire: Wire) -> None:
    """A byte a second; under /head from the first byte of the header on."""
    start = head(200, HTML, len(_BODY))
    if exchange.path != "/head":
        await wire.raw(start)
        start = b""
    for byte in start + _BODY:
        await wire.raw(bytes([byte]))
        await asyncio.sleep(TRICKLE_S)


async def endless(exchange: Exchange, wire: Wire) -> None:
    """A body without end, in chunks or (/plain) until the connection closes."""
    piece = b"<p>and so on, and so on</p>\n" * 1000
    if exchange.path == "/plain":
        await wire.raw(head(200, HTML, None, [("Connection", "close")]))
    else:
        await wire.raw(head(200, HTML, None, [("Transfer-Encoding", "chunked")]))
        piece = b"%x\r\n%b\r\n" % (len(piece), piece)
    while True:
        await wire.raw(piece)


async def length(exchange: Exchange, wire: Wire) -> None:
    """A Content-Length that is not the body's, or two of them, or chunks that are none."""
    if exchange.path == "/short":
        await wire.raw(head(200, HTML, 100) + _BODY)
    elif exchange.path == "/twice":
        await wire.raw(head(200, HTML, len(_BODY), [("Content-Length", "7")]) + _BODY)
    elif exchange.path == "/chunk":
        await wire.raw(head(200, HTML, None, [("Transfer-Encoding", "chunked")]) + b"zz\r\n" + _BODY + b"\r\n0\r\n\r\n")
    else:
        await wire.raw(head(200, HTML, 10 * len(_BODY)) + _BODY)


async def reset(exchange: Exchange, wire: Wire) -> None:
    """A TCP reset: before the header (/head), or in the middle of the body."""
    if exchange.path != "/head":
        await wire.raw(head(200, HTML, 10 * len(_BODY)) + _BODY)
        await asyncio.sleep(0.05)
    wire.reset()


async def malformed_header(exchange: Exchange, wire: Wire) -> None:
    """Headers no parser expects."""
    start = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n"
    answers = {
        "/huge": lambda: start + b"X-Huge: " + b"h" * (512 * 1024) + b"\r\n\r\n" + _BODY,
        "/many": lambda: start + b"".join(b"X-%d: %d\r\n" % (i, i) for i in range(5000)) + b"\r\n" + _BODY,
        "/no-colon": lambda: start + b"this line has no colon\r\n\r\n" + _BODY,
        "/no-status": lambda: _BODY,
        "/bad-status": lambda: b"HTTP/1.1 abc OK\r\nContent-Type: text/html\r\n\r\n" + _BODY,
    }
    make = answers.get(exchange.path)
    if make is None:
        await wire.answer(404, "<title>404</title>")
    else:
        await wire.raw(make(), 0 if exchange.path in ("/no-status", "/bad-status") else 200)


class _Packer(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class _BrotliPacker:
    """Brotli's compressor under the names zlib uses."""

    def __init__(self) -> None:
        self._packer = importlib.import_module("brotli").Compressor(quality=1)

    def compress(self, data: bytes, /) -> bytes:
        return bytes(self._packer.process(data))

    def flush(self) -> bytes:
        return bytes(self._packer.finish())


def _packer(encoding: str) -> _Packer:
    if encoding == "br":
        return _BrotliPacker()
    packer: _Packer = importlib.import_module("zstandard").ZstdCompressor(level=1).compressobj()
    return packer


async def bomb(exchange: Exchange, wire: Wire) -> None:
    """A gigabyte in a megabyte, made while it is sent; or ten megabytes of tags, each inside the one before."""
    if exchange.path == "/tags":
        await wire.answer(200, b"<!DOCTYPE html><title>Deep</title>" + b"<div>" * (NESTED_TAGS_BYTES // 5))
        return
    encoding = exchange.path[1:] if exchange.path in ("/br", "/zstd") else "gzip"
    try:
        pieces = _gzip_pieces() if encoding == "gzip" else _packed_pieces(_packer(encoding))
    except ImportError:
        await wire.answer(404, "<title>404</title><p>The library for this encoding is not installed.</p>")
        return
    chunked = [("Content-Encoding", encoding), ("Transfer-Encoding", "chunked")]
    await wire.raw(head(200, HTML, None, chunked))
    for piece in pieces:
        await wire.raw(b"%x\r\n%b\r\n" % (len(piece), piece))
    await wire.raw(b"0\r\n\r\n")


def _packed_pieces(packer: _Packer) -> Iterator[bytes]:
    packed = (packer.compress(_BOMB_START if number == 0 else b" " * MIB) for number in range(BOMB_BYTES // MIB))
    yield from (piece for piece in packed if piece)
    yield packer.flush()


def _gzip_pieces() -> Iterator[bytes]:
    """One block, packed once and sent over and over: after a full flush a block does not depend on those before it."""
    packer, spaces = zlib.compressobj(9, zlib.DEFLATED, -15), b" " * MIB
    yield b"\x1f\x8b\x08\0\0\0\0\0\2\xff" + packer.compress(_BOMB_START) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(spaces) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = zlib.crc32(_BOMB_START)
    for _ in range(BOMB_BYTES // MIB - 1):
        checksum = zlib.crc32(spaces, checksum)
        yield block
    yield packer.flush() + struct.pack("<II", checksum, BOMB_BYTES % 2**32)
