"""Each misbehaving host misbehaves as it says."""

from __future__ import annotations

import http.client
import re
import socket
import time
import zlib
from collections.abc import Iterator
from html import unescape

import pytest

from opilio.lab.local_web import LocalServer, LocalWeb, build
from opilio.lab.local_web.trouble import ADDRESSES

zstandard = pytest.importorskip("zstandard")
brotli = pytest.importorskip("brotli")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    """A server with its misbehaving hosts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        web: LocalWeb = build("small")
        with LocalServer(web) as running:
            yield running


def asked(server: LocalServer, url: str, *, timeout_s: float = 5.0) -> socket.socket:
    """A connection on which `url` has been asked for."""
    host, _, path = url.partition("/")
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=timeout_s)
    connection.sendall(f"GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    return connection


def everything(server: LocalServer, url: str, limit_bytes: int = 2**24) -> bytes:
    """All bytes of an answer after which the server closes, up to a limit."""
    received = bytearray()
    with asked(server, url) as connection:
        while len(received) < limit_bytes and (data := connection.recv(2**18)):
            received += data
    return bytes(received)


def fetched(server: LocalServer, url: str) -> http.client.HTTPResponse:
    """The answer as the standard library reads it."""
    host, _, path = url.partition("/")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    connection.request("GET", f"/{path}", headers={"Host": host})
    return connection.getresponse()


def chunks(raw: bytes) -> bytes:
    """The body of a chunked answer, as far as it was received."""
    _, _, rest = raw.partition(b"\r\n\r\n")
    body = bytearray()
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body += rest[: int(size, 16)]
        rest = rest[int(size, 16) + 2 :]
    return bytes(body)


def test_all_trouble_is_linked_from_one_page_and_has_a_robots_answer(server: LocalServer) -> None:
    """http://trouble.test/ leads to every misbehaving host; their robots.txt does not stand in the way of a test."""
    text = fetched(server, "trouble.test/").read().decode()
    links = {unescape(link) for link in re.findall('href="(.*?)"', text)}
    assert links == {f"http://{host}{path}" for host, paths in ADDRESSES.items() for path in paths}
    odd = {"robots5xx.test", "robots-slow.test"}
    assert {fetched(server, f"{host}/robots.txt").status for host in ADDRESSES if host not in odd} == {404}
    assert fetched(server, "robots5xx.test/robots.txt").status == 503


@pytest.mark.parametrize("url", ["slow.test/wait/2", "robots-slow.test/robots.txt"])
def test_slow_hosts_say_nothing_for_a_while(server: LocalServer, url: str) -> None:
    """Not even a header arrives in the first half second."""
    with asked(server, url, timeout_s=0.5) as connection, pytest.raises(TimeoutError):
        connection.recv(1)


def test_trickle_sends_a_byte_a_second(server: LocalServer) -> None:
    """After the header, hardly anything comes, but something does."""
    with asked(server, "trickle.test/") as connection:
        received, end_s = b"", time.monotonic() + 1.3
        connection.settimeout(0.1)
        while time.monotonic() < end_s:
            try:
                received += connection.recv(4096)
            except TimeoutError:
                continue
    assert 1 <= len(received.partition(b"\r\n\r\n")[2]) <= 3


@pytest.mark.parametrize("path", ["/", "/plain"])
def test_endless_body_does_not_end(server: LocalServer, path: str) -> None:
    """Eight megabytes are only the beginning, and the server is still there for others meanwhile."""
    assert len(everything(server, f"endless.test{path}", 2**23)) >= 2**23
    assert fetched(server, "math.python.test/").status == 200


def test_wrong_lengths(server: LocalServer) -> None:
    """Content-Length too large, too small, twice; chunks whose size is no number."""
    long = fetched(server, "length.test/long")
    with pytest.raises(http.client.IncompleteRead):
        long.read()
    head, _, body = everything(server, "length.test/short").partition(b"\r\n\r\n")
    assert b"Content-Length: 100\r\n" in head + b"\r\n"
    assert len(body) > 100
    assert everything(server, "length.test/twice").count(b"Content-Length") == 2
    with pytest.raises(http.client.IncompleteRead):
        fetched(server, "length.test/chunk").read()


def test_charsets_that_lie(server: LocalServer) -> None:
    """What is declared is not what is sent."""
    latin = fetched(server, "charset.test/latin1")
    assert latin.headers.get_content_charset() == "utf-8"
    with pytest.raises(UnicodeDecodeError):
        latin.read().decode("utf-8")
    assert fetched(server, "charset.test/nonsense").headers.get_content_charset() == "klingon-8"
    assert "Köln" in fetched(server, "charset.test/utf16").read().decode("utf-16")


def test_redirects_without_end(server: LocalServer) -> None:
    """Two addresses that point at each other, one at itself, and a chain of thirty that does end."""
    location = {path: fetched(server, f"loop.test{path}").headers["Location"] for path in ("/a", "/b", "/self")}
    assert location == {path: f"http://loop.test{to}" for path, to in (("/a", "/b"), ("/b", "/a"), ("/self", "/self"))}
    url, hops = "loop.test/chain/1", 0
    while (answer := fetched(server, url)).status == 301:
        url, hops = answer.headers["Location"].removeprefix("http://"), hops + 1
    assert (answer.status, hops) == (200, 30)


def test_errors_and_a_third_try(server: LocalServer) -> None:
    """Statuses as asked for, Retry-After where it belongs, and a page that is there at the third try."""
    answers = {status: fetched(server, f"error.test/{status}") for status in (404, 410, 429, 500, 503)}
    assert [answer.status for answer in answers.values()] == list(answers)
    waits = {status: answer.headers["Retry-After"] for status, answer in answers.items()}
    assert waits == {404: None, 410: None, 429: "1", 500: None, 503: "1"}
    assert [fetched(server, "error.test/flaky").status for _ in range(4)] == [503, 503, 200, 200]


@pytest.mark.parametrize(("path", "has_head"), [("/head", False), ("/body", True)])
def test_resets(server: LocalServer, path: str, has_head: bool) -> None:
    """The connection is reset, not closed: before the header or inside the body."""
    with asked(server, f"reset.test{path}") as connection, pytest.raises(ConnectionResetError):
        received = b""
        while data := connection.recv(65536):
            received += data
            assert has_head
            assert received.startswith(b"HTTP/1.1 200")


def test_a_gzip_bomb_is_a_megabyte_that_unpacks_to_a_gigabyte(server: LocalServer) -> None:
    """A whole answer of a megabyte, whose first eighth unpacks to an eighth of the gigabyte its last bytes promise."""
    packed = chunks(everything(server, "bomb.test/gzip"))
    assert len(packed) < 2**21
    assert int.from_bytes(packed[-4:], "little") == 2**30
    assert len(zlib.decompressobj(31).decompress(packed[: len(packed) // 8])) > 2**27 - 2**22


@pytest.mark.parametrize("encoding", ["br", "zstd"])
def test_other_bombs_grow_as_fast(server: LocalServer, encoding: str) -> None:
    """The first kilobytes of the brotli and zstandard bombs unpack to many megabytes."""
    raw = everything(server, f"bomb.test/{encoding}")
    assert f"Content-Encoding: {encoding}\r\n".encode() in raw
    packed = chunks(raw)
    assert len(packed) < 2**21
    unpacker = zstandard.ZstdDecompressor().decompressobj() if encoding == "zstd" else brotli.Decompressor()
    unpack = unpacker.decompress if encoding == "zstd" else unpacker.process
    size = 0
    for first in range(0, len(packed), 64):
        size += len(unpack(packed[first : first + 64]))
        if size > 2**24:
            break
    assert size > 2**24


def test_ten_megabytes_of_nested_tags(server: LocalServer) -> None:
    """Two million elements, each inside the one before."""
    body = fetched(server, "bomb.test/tags").read()
    assert body.count(b"<div>") > 2_000_000
    assert b"</div>" not in body


def test_types_that_lie(server: LocalServer) -> None:
    """A picture that says it is a page, a film, and an answer that does not say."""
    image = fetched(server, "type.test/image")
    assert (image.headers["Content-Type"], image.read()[:4]) == ("text/html; charset=utf-8", b"\x89PNG")
    assert fetched(server, "type.test/video").headers["Content-Type"] == "video/mp4"
    assert fetched(server, "type.test/missing").headers["Content-Type"] is None


@pytest.mark.parametrize("start", ["/calendar?y=2024&m=1", "/a/b/", "/session", "/query"])
def test_traps_lead_ever_deeper(server: LocalServer, start: str) -> None:
    """Thirty steps in, there are still only links never seen before, and the way is the same each time."""
    path, seen = start, {start}
    for _ in range(30):
        text = fetched(server, f"trap.test{path}").read().decode()
        assert text == fetched(server, f"trap.test{path}").read().decode()
        links = [unescape(link) for link in re.findall('href="(.*?)"', text)]
        path = next(link for link in reversed(links) if link not in seen)
        seen.add(path)


def test_redirects_to_private_addresses(server: LocalServer) -> None:
    """A crawler that follows these reaches into the network it runs in."""
    targets = [fetched(server, f"private.test{path}").headers["Location"] for path in ADDRESSES["private.test"]]
    assert targets[:3] == ["http://127.0.0.1:1/", "http://169.254.169.254/latest/meta-data/", "http://[::1]/"]


def test_headers_nobody_expects(server: LocalServer) -> None:
    """Half a megabyte in one line, five thousand lines, a line without a colon, no status line at all."""
    raw = {path: everything(server, f"header.test{path}") for path in ADDRESSES["header.test"]}
    assert len(raw["/huge"].partition(b"\r\n\r\n")[0]) > 500_000
    assert raw["/many"].count(b"\r\nX-") == 5000
    assert b"\r\nthis line has no colon\r\n" in raw["/no-colon"]
    assert raw["/no-status"].startswith(b"<!DOCTYPE")
    assert raw["/bad-status"].startswith(b"HTTP/1.1 abc")


def test_titles_frames_bases_and_refreshes(server: LocalServer) -> None:
    """Markup that trips readers of pages, as it stands on these hosts."""
    assert b"<title>&lt;script&gt;" in fetched(server, "title.test/escaped").read()
    assert b"<title><script>" in fetched(server, "title.test/raw").read()
    assert len(fetched(server, "title.test/huge").read()) > 90_000
    assert b'<frame src="/left.html">' in fetched(server, "frames.test/").read()
    assert b'<base href="http://base.test/deep/folder/">' in fetched(server, "base.test/").read()
    assert fetched(server, "base.test/deep/folder/page.html").status == 200
    assert fetched(server, "base.test/page.html").status == 404
    assert b'http-equiv="refresh"' in fetched(server, "refresh.test/").read()
    assert fetched(server, "refresh.test/landed.html").status == 200
