"""Pages longer than `fetch.accept` or `fetch.cut_bytes` says are cut: over loopback, in each form that a body can
have."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import brotli
import pytest
from warcio.archiveiterator import ArchiveIterator

from fetch_servers import WebServer, fetch, html, reply, to_server
from opilio import Collection
from opilio.fetch.transport import replay
from opilio.model import Lease, LeaseKind, Outcome
from opilio.settings import Settings, override
from opilio.store.warc import recover

CUT = 5000
PAGE = "".join(f"<p>owl {number} ö <a href='/{number}'>next</a>" for number in range(2000)).encode()
PDF = b"%PDF-1.4\n" + b"\xe2\xe3\xcf\xd3 words " * 1000


def chunked(body: bytes, size: int = 700, **headers: str) -> bytes:
    """A response in chunks, without a length."""
    lines = ["HTTP/1.1 200 OK", "Transfer-Encoding: chunked", "Content-Type: text/html; charset=utf-8"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return "\r\n".join([*lines, "", ""]).encode() + chunks + b"0\r\n\r\n"


def stored_gzip(body: bytes) -> bytes:
    """gzip that compresses nothing, so that more bytes come in than go out."""
    return gzip.compress(body, 0)


FORMS = {
    "/plain": html(PAGE),
    "/chunked": chunked(PAGE),
    "/gzip": html(gzip.compress(PAGE), Content_Encoding="gzip"),
    "/stored": html(stored_gzip(PAGE), Content_Encoding="gzip"),
    "/br": html(brotli.compress(PAGE), Content_Encoding="br"),
    "/deflate": html(zlib.compress(PAGE), Content_Encoding="deflate"),
    "/gzip-chunked": chunked(gzip.compress(PAGE), 100, Content_Encoding="gzip"),
    "/bomb": html(gzip.compress(PAGE[:2000] + b" " * 3_000_000), Content_Encoding="gzip"),
    "/untyped": reply(b"<!doctype html>" + PAGE, Content_Type="application/octet-stream"),
    "/text": reply(PAGE, Content_Type="text/plain"),
    "/no-type": reply(PAGE),
    "/no-type-chunked": chunked(PAGE).replace(b"Content-Type: text/html; charset=utf-8\r\n", b""),
    "/no-type-gzip": reply(gzip.compress(PAGE), Content_Encoding="gzip"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    """Long pages in all forms, short ones, and documents that must stay whole."""
    routes: dict[str, Any] = {
        **FORMS,
        "/short": html(PAGE[:CUT]),
        "/pdf": reply(PDF, Content_Type="application/pdf"),
        "/pdf-as-html": html(PDF),
        "/pdf-without-type": reply(PDF),
        "/image-as-html": html(b"\x89PNG\r\n\x1a\n" + bytes(20_000)),
        "/error": reply(PAGE * 10, "404 Not Found", Content_Type="text/html"),
    }
    with WebServer(routes) as running:
        yield running


def settings_for(server: WebServer, **changes: Any) -> Settings:
    """Settings that cut."""
    return to_server(server.address, cut_bytes=CUT, **changes)


@pytest.mark.parametrize("path", FORMS)
def test_a_long_page_is_cut_in_any_form(server: WebServer, path: str) -> None:
    """The decoded body ends at the limit, says so, and is an ordinary page otherwise. Read again from what was kept, it
    is the same, also under other settings."""
    response = fetch(settings_for(server), f"http://a.test{path}")
    expected = {"/bomb": PAGE[:2000] + b" " * 3000, "/untyped": (b"<!doctype html>" + PAGE)[:CUT]}.get(path, PAGE[:CUT])
    assert (response.fetch.outcome, response.fetch.cut) == (Outcome.OK, True), response.fetch
    slack = 100 if path == "/stored" else 0
    assert expected.startswith(response.body) and len(response.body) >= CUT - slack
    assert response.fetch.detail == f"cut at {len(response.body)} bytes"
    again = replay(
        Lease(1, "http://a.test/"), "", 0.0, response.raw_head, response.raw_body, settings_for(server), cut=True
    )
    assert (again.body, again.fetch.cut) == (response.body, True)
    if path == "/bomb":  # cut, it does no harm; whole, it is refused
        return
    uncut = replay(Lease(1, "http://a.test/"), "", 0.0, response.raw_head, response.raw_body, Settings(), cut=True)
    assert uncut.fetch.outcome is Outcome.OK and uncut.fetch.cut and uncut.body.startswith(response.body)


def test_what_is_not_cut(server: WebServer) -> None:
    """A page of exactly that length, and documents, of which a part could not be read: they are refused by their size
    in `accept`, whatever type they are sent as. So is a decompression bomb, unless `cut_bytes` says where to cut."""
    config = settings_for(server)
    short = fetch(config, "http://a.test/short")
    assert (short.body, short.fetch.cut, short.fetch.detail) == (PAGE[:CUT], False, "")
    for path in ("/pdf", "/pdf-as-html", "/pdf-without-type"):
        whole = fetch(config, f"http://a.test{path}")
        assert (whole.body, whole.fetch.content_type, whole.fetch.cut) == (PDF, "application/pdf", False)
        small = override(config, {"fetch.accept": {"text/html": 2**20, "application/pdf": 9000}})
        assert fetch(small, f"http://a.test{path}").fetch.outcome is Outcome.TOO_LARGE
    assert fetch(config, "http://a.test/image-as-html").fetch.outcome is Outcome.WRONG_TYPE
    plain = fetch(to_server(server.address), "http://a.test/plain")
    assert (plain.body, plain.fetch.cut) == (PAGE, False)
    assert fetch(to_server(server.address), "http://a.test/bomb").fetch.outcome is Outcome.BOMB


@pytest.mark.parametrize("path", [path for path in FORMS if path not in ("/bomb", "/untyped")])
def test_text_is_cut_at_the_size_of_its_type(server: WebServer, path: str) -> None:
    """Without `cut_bytes`, a page that is longer than `accept` says is cut there, in any form."""
    accept = {"text/html": CUT, "text/plain": CUT, "application/pdf": 2**20, "application/octet-stream": 2**20}
    response = fetch(to_server(server.address, accept=accept), f"http://a.test{path}")
    assert (response.fetch.outcome, response.fetch.cut) == (Outcome.OK, True), response.fetch
    assert PAGE.startswith(response.body) and CUT - 100 <= len(response.body) <= CUT
    assert response.fetch.detail == f"cut at {len(response.body)} bytes"
    whole = fetch(to_server(server.address, accept={**accept, "text/html": 2**20, "text/plain": 2**20}),
                  f"http://a.test{path}")  # fmt: skip
    assert (whole.body, whole.fetch.cut) == (PAGE, False)


def test_the_limit_of_the_type_does_not_count(server: WebServer) -> None:
    """Text is cut at `cut_bytes` also where `accept` has a smaller or a larger size; a type that is not accepted is
    refused as ever."""
    for size in (100, 1000, 2**20):
        config = override(settings_for(server), {"fetch.accept": {"text/html": size}})
        for path in ("/plain", "/gzip", "/chunked", "/no-type", "/no-type-chunked", "/no-type-gzip"):
            assert fetch(config, f"http://a.test{path}").body == PAGE[:CUT], (size, path)
        assert fetch(config, "http://a.test/short").body == PAGE[:CUT]
        assert fetch(config, "http://a.test/text").fetch.outcome is Outcome.WRONG_TYPE


def test_other_responses_are_as_before(server: WebServer) -> None:
    """An error stays an error. A robots.txt is cut at its own limit."""
    config = settings_for(server)
    assert fetch(config, "http://a.test/error").fetch.outcome is Outcome.CLIENT_ERROR
    robots = fetch(override(config, {"robots.max_bytes": 900}), "http://a.test/text", LeaseKind.HOST)
    assert len(robots.body) == 900 and robots.fetch.cut


def long_page(title: str, cut_in: bytes) -> bytes:
    """A page that the limit cuts in the middle of some markup."""
    head = f"<html><title>{title}</title><body><p>{title} lives here <a href='/linked/{title}'>more</a> ".encode()
    filler = b"word " * CUT
    until = CUT - len(cut_in) // 2
    return head + filler[: until - len(head)] + cut_in + b" <a href='/beyond'>beyond</a> lost" + filler


MIDDLES = {
    "tag": b"<a href='/half/way/to/somewhere'>half</a>",
    "attribute": b"<a title='a long title' href=/half/way>half</a>",
    "comment": b"<!-- <a href='/half/comment'>no</a> -->",
    "entity": b"&nbsp;&eacute;&amp;",
    "letter": "ööööööö".encode(),
    "script": b"<script>var link = '<a href=/half/script>x</a>'</script>",
}


def test_a_crawl_uses_the_pages_up_to_the_cut(tmp_path: Path) -> None:
    """Text and links before the cut are kept, what the cut tears apart gives neither a link nor garbage. The page, the
    visit and the WARC record say that it was cut, and a recovery reads that. Pages that were cut at the same length are
    no duplicates by their size, also after a restart."""
    routes: dict[str, Any] = {f"/{name}": html(long_page(name, middle)) for name, middle in MIDDLES.items()}
    for place, name in enumerate(MIDDLES):
        routes[f"/linked/{name}"] = html(f"<title>{name} 2</title>more on {name} {'.' * 20 * place}".encode())
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("\n".join(f"http://a.test/{name}" for name in MIDDLES))
    with WebServer(routes) as server:
        collection = Collection.create(
            tmp_path / "c", seeds=seeds,
            settings={"fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0, "run.workers": -1,
                      "fetch.cut_bytes": CUT, "duplicates.ip_size": "trust", "duplicates.near_jaccard": 0.0,
                      "search.index": False, "limits.max_pages": 4},
        )  # fmt: skip
        collection.crawl()
        status = collection.crawl(settings={"limits.max_pages": 0})
    assert status.outcomes["ok"] == 2 * len(MIDDLES), status.outcomes
    urls = {url for (url,) in collection.sql("SELECT url FROM crawl").rows}
    assert urls == {f"http://a.test/{part}{name}" for part in ("", "linked/") for name in MIDDLES}
    rows = collection.sql("SELECT url, cut, body_bytes, text, title FROM collection WHERE url NOT LIKE '%linked%'").rows
    assert len(rows) == len(MIDDLES)
    for url, cut, size, text, title in rows:
        name = url.rsplit("/", 1)[1]
        assert (cut, size, title) == (True, CUT, name)
        assert f"{name} lives here" in text
        assert not any(part in text for part in ("lost", "beyond", "<", "href", "half", "var ")), (name, text[-60:])
    assert collection.sql("SELECT count(*) FROM pages WHERE NOT cut").rows == [(len(MIDDLES),)]
    assert collection.page("http://a.test/tag")["cut"] and not collection.page("http://a.test/linked/tag")["cut"]
    said = collection.sql("SELECT DISTINCT detail FROM visits WHERE kind = 'page' AND detail <> ''").rows
    assert said == [(f"cut at {CUT} bytes",)]
    marked, recovered = {}, {}
    for file in sorted((collection.folder / "warc").glob("*.warc.gz")):
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream):
                if record.rec_type == "response" and "robots" not in record.rec_headers["WARC-Target-URI"]:
                    marked[record.rec_headers["WARC-Target-URI"]] = record.rec_headers.get_header("WARC-Truncated")
                    assert record.http_headers.get_header("Content-Length") == str(len(record.content_stream().read()))
        recovered |= {record.url: record.cut for record in recover(file) if "robots" not in record.url}
    assert marked == {url: None if "linked" in url else "length" for url in urls}
    assert recovered == {url: "linked" not in url for url in urls}
