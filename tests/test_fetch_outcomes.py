"""Servers that behave and servers that do not: every end is an outcome."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from collections.abc import Iterator

import brotli
import pytest
import zstandard

from fetch_servers import Handler, WebServer, fetch, html, reply, reset, to_server
from opilio.model import Outcome

PAGE = b"<!doctype html><html><title>Spiders</title>" + b"<p>Opiliones have eight legs.</p>" * 400
LIMIT = 100_000
ACCEPT = {"text/html": LIMIT, "text/plain": LIMIT // 2}
ZEROS = bytes(10_000_000)


async def slow_headers(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Starts a head and never ends it."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n")
    await asyncio.sleep(30)


async def stuck_body(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends a little of a body and then falls silent."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n<html>")
    await asyncio.sleep(30)


async def trickle(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends a byte now and then, for ever."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


async def endless(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Sends a body without end as fast as it is taken."""
    status = b"404 Not Found" if b"/endless-404" in head else b"200 OK"
    writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Type: text/html\r\n\r\n<html>")
    while not writer.is_closing():
        writer.write(b"spam " * 1000)
        await writer.drain()


async def reset_in_body(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Resets the connection in the middle of the body."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000\r\n\r\n<html>")
    await writer.drain()
    await asyncio.sleep(0.05)
    reset(writer)


async def reset_at_once(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Resets the connection instead of answering."""
    reset(writer)


async def short_body(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Closes politely before the promised length."""
    writer.write(reply(b"<html>", length=500, Content_Type="text/html"))
    await writer.drain()


async def nonsense(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Speaks something else than HTTP."""
    writer.write(b"220 smtp.example ready\r\n" * 5)
    await writer.drain()


async def until_close(head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A body that ends with its connection, as HTTP/1.0 has it."""
    writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/html\r\n\r\n" + PAGE)
    await writer.drain()


def raw_deflate(data: bytes) -> bytes:
    """Deflate without the zlib wrapper."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def coded(data: bytes, coding: str) -> bytes:
    """HTML that claims a content encoding."""
    return reply(data, Content_Type="text/html", Content_Encoding=coding)


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
    b"6\r\n<html>\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nContent-Type: image/png\r\n\r\n"
)

ROUTES: dict[str, bytes | Handler] = {
    "/": html(PAGE, ETag='"v1"', Last_Modified="Sun, 01 Nov 2026 00:00:00 GMT"),
    "/no-content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "/unchanged": b"HTTP/1.1 304 Not Modified\r\n\r\n",
    "/hints": b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nContent-Type: image/png\r\n\r\n" + html(b"<p>after hints"),
    "/chunked": CHUNKED,
    "/until-close": until_close,
    "/repeated": html(b"<p>x", Set_Cookie="a=1").replace(b"\r\n\r\n", b"\r\nX-A: 1\r\nx-a: 2\r\n\r\n", 1),
    "/301": reply(status="301 Moved", Location="/there?utm_source=x&a=1#part"),
    "/302": reply(status="302 Found", Location="https://Other.Test:443/a/../b"),
    "/303": reply(status="303 See Other", Location="//c.test/"),
    "/307": reply(status="307 Temporary", Location="x"),
    "/308": reply(status="308 Permanent", Location="?q"),
    "/302-none": reply(status="302 Found"),
    "/302-bad": reply(status="302 Found", Location="javascript:alert(1)"),
    "/300": reply(status="300 Multiple Choices", Location="/a"),
    "/404": reply(b"<p>gone", status="404 Not Found", Content_Type="text/html"),
    "/404-png": reply(b"\x89PNG\r\n\x1a\n", status="404 Not Found", Content_Type="image/png"),
    "/404-garbled": reply(b"\xff\xffnot gzip", status="404 Not Found", Content_Encoding="gzip"),
    "/endless-404": endless,
    "/429": reply(status="429 Slow Down", Retry_After="120"),
    "/503": reply(status="503 Busy", Retry_After="Fri, 31 Dec 9999 23:59:59 GMT"),
    "/500": reply(status="500 Oops", Retry_After="soon"),
    "/png": reply(b"\x89PNG\r\n\x1a\n", Content_Type="image/png"),
    "/lying-png": html(b"\x89PNG\r\n\x1a\n" + bytes(3000)),
    "/lying-pdf": html(b"%PDF-1.7\n" + b"text " * 1000),
    "/lying-zip": coded(gzip.compress(b"PK\x03\x04 and so on" * 200), "gzip"),
    "/nul-ridden": html(b"abc\x00\x01\x02" * 1000),
    "/one-nul": html(b"<html>a\x00b" + b"text " * 100),
    "/utf-16": reply("<html>für alle</html>".encode("utf-16"), Content_Type="text/html"),
    "/utf-16-by-header": reply("höchst".encode("utf-16-le"), Content_Type="text/plain; charset=UTF-16LE"),
    "/untyped-html": reply(b"  <!DOCTYPE html><p>x"),
    "/untyped-text": reply(b"just words"),
    "/untyped-long-text": reply(b"word " * 15_000),
    "/untyped-long-gzip": reply(gzip.compress(b"word " * 15_000, 0), Content_Encoding="gzip"),
    "/untyped-png": reply(b"\x89PNG\r\n\x1a\n"),
    "/long-header": html(b"x" * (LIMIT + 1)),
    "/exact": html(b"<p>" + b"x" * (LIMIT - 3)),
    "/endless": endless,
    "/gzip": coded(gzip.compress(PAGE), "gzip"),
    "/two-members": coded(gzip.compress(PAGE[:1000]) + gzip.compress(PAGE[1000:]) + b"\0junk", "x-gzip"),
    "/deflate": coded(zlib.compress(PAGE), "deflate"),
    "/raw-deflate": coded(raw_deflate(PAGE), "deflate"),
    "/br": coded(brotli.compress(PAGE), "br"),
    "/zstd": coded(zstandard.compress(PAGE), "zstd"),
    "/stacked": coded(gzip.compress(brotli.compress(PAGE)), "br, gzip"),
    "/identity": coded(PAGE, "identity"),
    "/empty-gzip": coded(b"", "gzip"),
    "/not-gzip-but-html": coded(PAGE, "gzip"),
    "/not-br-but-html": coded(PAGE, "br"),
    "/unknown-but-html": coded(PAGE, "utf-8"),
    "/not-gzip": coded(b"\x00\x01garbage" * 100, "gzip"),
    "/cut-gzip": coded(gzip.compress(PAGE)[:-20], "gzip"),
    "/five-codings": coded(b"\x01\x02", "gzip, gzip, gzip, gzip, gzip"),
    "/gzip-bomb": coded(gzip.compress(ZEROS), "gzip"),
    "/br-bomb": coded(brotli.compress(ZEROS, quality=5), "br"),
    "/zstd-bomb": coded(zstandard.compress(ZEROS), "zstd"),
    "/stacked-bomb": coded(gzip.compress(gzip.compress(ZEROS)), "gzip, gzip"),
    "/hollow-bomb": coded(gzip.compress(gzip.compress(b"") * 20_000), "gzip, gzip"),
    "/long-gzip": coded(gzip.compress(b"<p>" + b" ".join(b"%d" % (n * n) for n in range(15_000))), "gzip"),
    "/slow-headers": slow_headers,
    "/stuck-body": stuck_body,
    "/trickle": trickle,
    "/reset-in-body": reset_in_body,
    "/reset-at-once": reset_at_once,
    "/short-body": short_body,
    "/nonsense": nonsense,
}


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    """One server with all the routes."""
    with WebServer(ROUTES) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "outcome", "detail"),
    [
        ("/", Outcome.OK, ""),
        ("/no-content", Outcome.OK, ""),
        ("/until-close", Outcome.OK, ""),
        ("/unchanged", Outcome.BROKEN, "named no version"),
        ("/302-none", Outcome.BAD_REDIRECT, "no Location"),
        ("/302-bad", Outcome.BAD_REDIRECT, "javascript"),
        ("/300", Outcome.BAD_REDIRECT, "status 300"),
        ("/404", Outcome.CLIENT_ERROR, "status 404"),
        ("/404-png", Outcome.CLIENT_ERROR, "status 404"),
        ("/404-garbled", Outcome.CLIENT_ERROR, "status 404"),
        ("/endless-404", Outcome.CLIENT_ERROR, "status 404"),
        ("/429", Outcome.TOO_MANY_REQUESTS, "429"),
        ("/503", Outcome.SERVER_ERROR, "503"),
        ("/500", Outcome.SERVER_ERROR, "500"),
        ("/png", Outcome.WRONG_TYPE, "image/png is not accepted"),
        ("/lying-png", Outcome.WRONG_TYPE, "the bytes are image/png"),
        ("/lying-pdf", Outcome.WRONG_TYPE, "application/pdf"),
        ("/lying-zip", Outcome.WRONG_TYPE, "application/zip"),
        ("/nul-ridden", Outcome.WRONG_TYPE, "octet-stream"),
        ("/one-nul", Outcome.OK, ""),
        ("/utf-16", Outcome.OK, ""),
        ("/utf-16-by-header", Outcome.OK, ""),
        ("/untyped-long-text", Outcome.OK, "cut at 50000 bytes"),
        ("/untyped-long-gzip", Outcome.OK, "cut at 50000 bytes"),
        ("/untyped-png", Outcome.WRONG_TYPE, "without a type"),
        ("/long-header", Outcome.OK, "cut at 100000 bytes"),
        ("/exact", Outcome.OK, ""),
        ("/endless", Outcome.OK, "cut at 100000 bytes"),
        ("/long-gzip", Outcome.OK, "cut at 100000 bytes"),
        ("/gzip-bomb", Outcome.BOMB, "decompress"),
        ("/br-bomb", Outcome.BOMB, "decompress"),
        ("/zstd-bomb", Outcome.BOMB, "decompress"),
        ("/stacked-bomb", Outcome.BOMB, "decompress"),
        ("/hollow-bomb", Outcome.BOMB, "decompress"),
        ("/not-gzip", Outcome.BAD_ENCODING, "gzip"),
        ("/cut-gzip", Outcome.BAD_ENCODING, "ends early"),
        ("/five-codings", Outcome.BAD_ENCODING, "unknown"),
        ("/reset-in-body", Outcome.BROKEN, "reset"),
        ("/reset-at-once", Outcome.BROKEN, ""),
        ("/short-body", Outcome.BROKEN, "missing"),
        ("/nonsense", Outcome.BROKEN, "HTTP/0.9"),
    ],
)
def test_outcome(server: WebServer, path: str, outcome: Outcome, detail: str) -> None:
    """Each thing a server can do ends in its outcome, with a detail of one line that names it."""
    response = fetch(to_server(server.address, accept=ACCEPT), f"http://a.test{path}")
    assert response.fetch.outcome is outcome, response.fetch.detail
    assert detail in response.fetch.detail
    assert "\n" not in response.fetch.detail
    assert response.fetch.body_bytes == len(response.body)
    assert len(response.body) <= LIMIT
    assert response.fetch.received_bytes < 2 * LIMIT


@pytest.mark.parametrize(
    "path",
    [
        *("gzip", "two-members", "deflate", "raw-deflate", "br", "zstd", "stacked", "identity"),
        *("not-gzip-but-html", "not-br-but-html", "unknown-but-html"),
    ],
)
def test_encodings(server: WebServer, path: str) -> None:
    """Each encoding is undone in `body` and left on in `raw_body`; HTML that only claims an encoding is taken as is."""
    response = fetch(to_server(server.address), f"http://a.test/{path}")
    assert response.fetch.outcome is Outcome.OK, response.fetch.detail
    assert response.body == PAGE
    assert response.raw_head + response.raw_body == ROUTES[f"/{path}"]


def test_empty_encoded_body(server: WebServer) -> None:
    """No bytes at all are no broken gzip."""
    response = fetch(to_server(server.address), "http://a.test/empty-gzip")
    assert (response.fetch.outcome, response.body) == (Outcome.OK, b"")


def test_chunked_body_with_trailers(server: WebServer) -> None:
    """Chunking is removed, and trailers do not change the head that was judged."""
    response = fetch(to_server(server.address), "http://a.test/chunked")
    assert (response.fetch.outcome, response.body) == (Outcome.OK, b"<html>hello")
    assert response.fetch.content_type == "text/html"
    assert b"X-Sum: 1" not in response.raw_head
    assert b"Transfer-Encoding: chunked" in response.raw_head


def test_early_hints_are_not_the_head(server: WebServer) -> None:
    """A 103 before the response is passed over, also when its type would be refused."""
    response = fetch(to_server(server.address), "http://a.test/hints")
    assert (response.fetch.status, response.body) == (200, b"<p>after hints")
    assert response.raw_head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert "link" not in response.headers


def test_repeated_headers_are_joined(server: WebServer) -> None:
    """Header names are folded to lower case and values of one name joined."""
    response = fetch(to_server(server.address), "http://a.test/repeated")
    assert response.headers["x-a"] == "1, 2"
    assert response.headers["set-cookie"] == "a=1"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/301", "http://a.test/there?a=1"),
        ("/302", "https://other.test/b"),
        ("/303", "http://c.test/"),
        ("/307", "http://a.test/x"),
        ("/308", "http://a.test/308?q"),
    ],
)
def test_redirects_are_told_not_followed(server: WebServer, path: str, target: str) -> None:
    """A redirect is an outcome with its target in normal form; only one request is made."""
    before = len(server.requests)
    response = fetch(to_server(server.address), f"http://a.test{path}")
    assert (response.fetch.outcome, response.fetch.redirect_url) == (Outcome.REDIRECT, target)
    assert len(server.requests) == before + 1


def test_retry_after(server: WebServer) -> None:
    """Retry-After is read in seconds and as a date; nonsense is no wait."""
    config = to_server(server.address)
    assert fetch(config, "http://a.test/429").fetch.retry_after_s == 120
    assert fetch(config, "http://a.test/503").fetch.retry_after_s > 86_400 * 365
    assert fetch(config, "http://a.test/500").fetch.retry_after_s == 0


def test_missing_type_is_sniffed(server: WebServer) -> None:
    """A response without Content-Type gets the type its bytes show."""
    config = to_server(server.address)
    assert fetch(config, "http://a.test/untyped-html").fetch.content_type == "text/html"
    assert fetch(config, "http://a.test/untyped-text").fetch.content_type == "text/plain"


@pytest.mark.parametrize(
    ("path", "times", "detail"),
    [
        ("/slow-headers", {"read_timeout_s": 0.3}, "read timeout: no data for 0.3 s"),
        ("/stuck-body", {"read_timeout_s": 0.3}, "read timeout"),
        ("/trickle", {"total_timeout_s": 0.5}, "total timeout"),
    ],
)
def test_slow_servers_time_out(server: WebServer, path: str, times: dict[str, float], detail: str) -> None:
    """A server that stalls is left after the read timeout, one that trickles after the total timeout."""
    begin_s = time.monotonic()
    response = fetch(to_server(server.address, **times), f"http://a.test{path}")
    assert (response.fetch.outcome, response.body) == (Outcome.TIMED_OUT, b"")
    assert detail in response.fetch.detail
    assert 0.25 < time.monotonic() - begin_s < 1.9
