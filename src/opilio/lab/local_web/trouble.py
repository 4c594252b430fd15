"""Hosts that misbehave, each in its own way, and the page that leads to all of them: http://trouble.test/.

Some break HTTP or never stop sending: a fetcher must bound them by time and by size. trap.test has a few small pages
that lead to more pages without end; each is computed from its URL, so the trap costs us nothing. Others answer with
wrong types, wrong character sets, redirects in circles, or a robots.txt that fails.

Nothing else in the local web links there, so a crawl finds them only when it is sent there. What they do depends on the
seed and the URL, and for the flaky host on how many requests it has had.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import struct
import zlib
from collections import Counter
from collections.abc import Iterator
from html import escape
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from opilio.lab.webs.server import HTML, Exchange, Handler, Wire, head

TRICKLE_S = 1.0
BOMB_BYTES = 2**30
NESTED_TAGS_BYTES = 10 * 2**20
MIB = 2**20
_BODY = (
    b"<!DOCTYPE html>\n<html><head><title>Cut</title></head><body><p>" + b"some words " * 40 + b"</p></body></html>\n"
)
_BOMB_START = b"<!DOCTYPE html><title>Bomb</title><body>".ljust(MIB)
INDEX_HOST = "trouble.test"
FLAKY_FAILURES = 2
RETRY_AFTER_S = 1
ROBOTS_SLOW_S = 5.0
REDIRECT_CHAIN = 30
ROW_OF_BYTES = bytes(range(256))
# What http://trouble.test/ links to; each host answers further paths of the same forms.
ADDRESSES: dict[str, tuple[str, ...]] = {
    "slow.test": ("/wait/2", "/wait/5", "/wait/30"),
    "trickle.test": ("/", "/head"),
    "endless.test": ("/", "/plain"),
    "length.test": ("/long", "/short", "/twice", "/chunk"),
    "charset.test": ("/latin1", "/nonsense", "/utf16", "/meta"),
    "loop.test": ("/a", "/self", "/chain/1"),
    "error.test": ("/500", "/503", "/429", "/404", "/410", "/flaky"),
    "reset.test": ("/head", "/body"),
    "bomb.test": ("/gzip", "/br", "/zstd", "/tags"),
    "type.test": ("/image", "/video", "/missing", "/pdf"),
    "trap.test": ("/calendar?y=2024&m=1", "/a/b/", "/session", "/query"),
    "robots5xx.test": ("/", "/page.html"),
    "robots-slow.test": ("/", "/page.html"),
    "private.test": ("/loopback", "/metadata", "/loopback6", "/file"),
    "header.test": ("/huge", "/many", "/no-colon", "/no-status", "/bad-status"),
    "title.test": ("/escaped", "/raw", "/attribute", "/huge", "/control", "/sql"),
    "frames.test": ("/", "/iframe.html"),
    "base.test": ("/",),
    "refresh.test": ("/", "/loop"),
}


class Trap:
    """Calendars, folders inside themselves, session ids and growing query strings."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    async def answer(self, exchange: Exchange, wire: Wire) -> None:
        """A page of the trap that the path belongs to."""
        target = urlsplit(exchange.path)
        if target.path == "/calendar":
            links = self._calendar(target.query)
        elif target.path.startswith("/session"):
            links = self._sessions(exchange.path)
        elif target.path.startswith("/query"):
            links = self._queries(target.query)
        else:
            links = self._folders(target.path)
        items = "\n".join(f'<li><a href="{escape(href)}">{escape(href)}</a></li>' for href in links)
        title = f"Trap {self._digest(exchange.path)}"
        await wire.answer(200, f"<!DOCTYPE html>\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n{items}\n</ul>\n")

    def _digest(self, text: str) -> str:
        return hashlib.blake2b(f"{self.seed} {text}".encode(), digest_size=8).hexdigest()

    def _calendar(self, query: str) -> list[str]:
        fields = parse_qs(query)
        year, month = (_number(fields.get(name, [""])[0]) for name in ("y", "m"))
        months = [year * 12 + month - 1 + step for step in (-12, -1, 1, 12)]
        days = [f"/calendar?y={year}&m={month}&d={day}" for day in range(1, 29)]
        return [f"/calendar?y={count // 12}&m={count % 12 + 1}" for count in months] + days

    def _sessions(self, path: str) -> list[str]:
        return [f"/session/{page}?sid={self._digest(f'{path} {page}')}" for page in range(8)]

    def _queries(self, query: str) -> list[str]:
        start = f"{query}&" if query else ""
        return [f"/query?{start}f{len(query)}={value}" for value in range(4)]

    def _folders(self, path: str) -> list[str]:
        folder = path if path.endswith("/") else path + "/"
        return [f"{folder}{name}/" for name in ("a", "b")]


def _number(text: str) -> int:
    return int(text[:6]) if text[:6].isdecimal() else 2024


async def slow(exchange: Exchange, wire: Wire) -> None:
    """/wait/SECONDS: nothing at all for that long, then a page."""
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


def page(title: str, body: str, extra_head: str = "") -> str:
    """A short page; `title` and `body` are HTML already."""
    head = f"<head><title>{title}</title>{extra_head}</head>"
    return f'<!DOCTYPE html>\n<html lang="en">{head}\n<body>{body}</body></html>\n'


def trouble_handlers(seed: int) -> dict[str, Handler]:
    """The handler of each misbehaving host."""
    handlers: dict[str, Handler] = {
        INDEX_HOST: _index,
        "slow.test": slow,
        "trickle.test": trickle,
        "endless.test": endless,
        "length.test": length,
        "charset.test": _charset,
        "loop.test": _loop,
        "error.test": _Errors().answer,
        "reset.test": reset,
        "bomb.test": bomb,
        "type.test": _type,
        "trap.test": Trap(seed).answer,
        "robots5xx.test": _robots_5xx,
        "robots-slow.test": _robots_slow,
        "private.test": _private,
        "header.test": malformed_header,
        "title.test": _title,
        "frames.test": _frames,
        "base.test": _base,
        "refresh.test": _refresh,
    }
    has_own_robots = ("robots5xx.test", "robots-slow.test")
    return {host: h if host in has_own_robots else _without_robots(h) for host, h in handlers.items()}


def _without_robots(handler: Handler) -> Handler:
    """Most of these hosts have no robots.txt, and say so properly: a crawler must get past it to the trouble."""

    async def answer(exchange: Exchange, wire: Wire) -> None:
        if exchange.path == "/robots.txt":
            await _not_found(wire)
        else:
            await handler(exchange, wire)

    return answer


async def _not_found(wire: Wire) -> None:
    await wire.answer(404, page("404 Not Found", "<p>No such page.</p>"))


async def _index(exchange: Exchange, wire: Wire) -> None:
    if exchange.path != "/":
        return await _not_found(wire)
    urls = (f"http://{host}{path}" for host, paths in ADDRESSES.items() for path in paths)
    items = "\n".join(f'<li><a href="{escape(url)}">{escape(url)}</a></li>' for url in urls)
    return await wire.answer(200, page("Trouble", f"<h1>Hosts that misbehave</h1>\n<ul>\n{items}\n</ul>"))


async def _redirect(wire: Wire, target: str, status: int = 302) -> None:
    await wire.answer(status, page("Moved", escape(target)), headers=[("Location", target)])


async def _charset(exchange: Exchange, wire: Wire) -> None:
    text = page("Gr\xfc\xdfe aus K\xf6ln", "<p>\xc4pfel, \xd6l und \xdcbermut</p>")
    if exchange.path == "/latin1":
        await wire.answer(200, text.encode("latin-1"), "text/html; charset=utf-8")
    elif exchange.path == "/nonsense":
        await wire.answer(200, text, "text/html; charset=klingon-8")
    elif exchange.path == "/utf16":
        await wire.answer(200, b"\xff\xfe" + text.encode("utf-16-le"), "text/html")
    else:
        declared = page("Gr\xfc\xdfe", "<p>\xc4pfel</p>", '<meta charset="iso-8859-1">')
        await wire.answer(200, declared.encode("latin-1"), "text/html")


async def _loop(exchange: Exchange, wire: Wire) -> None:
    base = "http://loop.test"
    if exchange.path.startswith("/chain/") and exchange.path[7:].isdigit():
        hop = int(exchange.path[7:])
        if hop > REDIRECT_CHAIN:
            return await wire.answer(200, page("The end of the chain", "<p>You made it.</p>"))
        return await _redirect(wire, f"{base}/chain/{hop + 1}", 301)
    following = {"/a": "/b", "/b": "/a", "/self": "/self"}.get(exchange.path)
    return await (_redirect(wire, base + following) if following else _not_found(wire))


class _Errors:
    """error.test: errors of all kinds, and a page that is there only at the third try."""

    def __init__(self) -> None:
        self.tries: Counter[str] = Counter()

    async def answer(self, exchange: Exchange, wire: Wire) -> None:
        word = exchange.path[1:]
        if word.startswith("flaky"):
            self.tries[exchange.path] += 1
            if self.tries[exchange.path] > FLAKY_FAILURES:
                return await wire.answer(200, page("At last", "<p>The third try was lucky.</p>"))
            word = "503"
        status = int(word) if word.isdigit() and 400 <= int(word) <= 599 else 404
        headers = [("Retry-After", str(RETRY_AFTER_S))] if status in (429, 503) else []
        return await wire.answer(status, page(f"Error {status}", "<p>Not today.</p>"), headers=headers)


async def _type(exchange: Exchange, wire: Wire) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + ROW_OF_BYTES * 40
    if exchange.path == "/image":
        await wire.answer(200, picture)
    elif exchange.path == "/video":
        await wire.answer(200, ROW_OF_BYTES * 40, "video/mp4")
    elif exchange.path == "/pdf":
        await wire.answer(200, b"%PDF-1.7\n" + ROW_OF_BYTES, "application/pdf")
    else:
        await wire.answer(200, page("No type", "<p>This answer does not say what it is.</p>"), "")


async def _two_pages(exchange: Exchange, wire: Wire, title: str) -> None:
    if exchange.path not in ("/", "/page.html"):
        return await _not_found(wire)
    return await wire.answer(200, page(title, '<p><a href="/page.html">A page</a> behind an odd robots.txt.</p>'))


async def _robots_5xx(exchange: Exchange, wire: Wire) -> None:
    if exchange.path == "/robots.txt":
        return await wire.answer(503, "down for maintenance\n", "text/plain")
    return await _two_pages(exchange, wire, "robots.txt fails")


async def _robots_slow(exchange: Exchange, wire: Wire) -> None:
    if exchange.path == "/robots.txt":
        await asyncio.sleep(ROBOTS_SLOW_S)
        return await wire.answer(200, "User-agent: *\nDisallow: /page.html\n", "text/plain")
    return await _two_pages(exchange, wire, "robots.txt is slow")


async def _private(exchange: Exchange, wire: Wire) -> None:
    targets = {
        "/loopback": "http://127.0.0.1:1/",
        "/metadata": "http://169.254.169.254/latest/meta-data/",
        "/loopback6": "http://[::1]/",
        "/file": "file:///etc/hostname",
    }
    target = targets.get(exchange.path)
    await (_redirect(wire, target) if target else _not_found(wire))


async def _title(exchange: Exchange, wire: Wire) -> None:
    titles = {
        "/escaped": "&lt;script&gt;alert(1)&lt;/script&gt;",
        "/raw": "<script>alert(1)</script>",
        "/attribute": "&quot; onmouseover=&quot;alert(1)",
        "/huge": "long " * 20_000,
        "/control": "bell \x07 escape \x1b[31m null \x00 override \u202e",
        "/sql": "'); DROP TABLE pages; --",
    }
    title = titles.get(exchange.path)
    await (wire.answer(200, page(title, "<p>A page.</p>")) if title else _not_found(wire))


async def _frames(exchange: Exchange, wire: Wire) -> None:
    if exchange.path == "/":
        frameset = '<frameset cols="30%,70%"><frame src="/left.html"><frame src="right.html"></frameset>'
        await wire.answer(200, f"<html><head><title>Frames</title></head>{frameset}</html>")
    elif exchange.path == "/iframe.html":
        await wire.answer(200, page("Inline frame", '<iframe src="/right.html"></iframe>'))
    else:
        await wire.answer(200, page("In a frame", f"<p>The frame {escape(exchange.path)}.</p>"))


async def _base(exchange: Exchange, wire: Wire) -> None:
    if exchange.path == "/":
        base = '<base href="http://base.test/deep/folder/">'
        await wire.answer(200, page("Base", '<a href="page.html">a page in a folder</a>', base))
    elif exchange.path == "/deep/folder/page.html":
        await wire.answer(200, page("In the folder", "<p>Found by its base.</p>"))
    else:
        await _not_found(wire)


async def _refresh(exchange: Exchange, wire: Wire) -> None:
    if exchange.path in ("/", "/loop"):
        target = "/landed.html" if exchange.path == "/" else "/loop"
        refresh = f'<meta http-equiv="refresh" content="0; url={target}">'
        await wire.answer(200, page("Moving on", "<p>Wait.</p>", refresh))
    else:
        await wire.answer(200, page("Landed", "<p>The page behind the refresh.</p>"))
