"""The archive as archivists expect it: records of every answer, and a WACZ that their own programs take."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from surt import surt as their_surt
from wacz.validate import Validation
from warcio.archiveiterator import ArchiveIterator

from command_line import call
from fetch_servers import Handler, WebServer, html, reply
from opilio import Collection
from opilio.store.wacz import surt
from opilio.store.warc import NOT_MODIFIED_PROFILE

LINKS = "".join(
    f'<a href="/{name}">{name}</a> ' for name in ("same", "moved", "gone", "large", "other", "slow", "again?b=2&a=1")
)
PAGE = f"<title>Start</title><p>An owl hunts at night. {LINKS}".encode()
SAME = b"<title>Same</title><p>Owls nest in old barns and hollow trees."


def unchanged(request: bytes) -> bytes:
    return reply(status="304 Not Modified") if b"If-None-Match" in request else html(SAME, ETag='"v1"')


async def conditional(request: bytes, reader: object, writer: object) -> None:
    """A page that has not changed since it was fetched."""
    writer.write(unchanged(request))  # type: ignore[attr-defined]


async def stalling(request: bytes, reader: object, writer: object) -> None:
    """Only the head of an answer, then nothing until the client gives up."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 99\r\n\r\n<p>so")  # type: ignore[attr-defined]
    import asyncio

    await asyncio.sleep(30)


ROUTES: dict[str, bytes | Handler] = {
    "/": html(PAGE),
    "/same": conditional,
    "/moved": reply(status="301 Moved Permanently", Location="/same"),
    "/gone": reply(b"no such page", status="404 Not Found"),
    "/large": reply(b"%PDF-1.7" + b"x" * 5000, Content_Type="application/pdf"),
    "/other": reply(b"\0" * 50, Content_Type="video/mp4"),
    "/slow": stalling,
    "/again?b=2&a=1": html(b"<title>Again</title><p>Another page about owls and the mice they eat."),
    "/robots.txt": reply(b"User-agent: *\nDisallow: /secret\n", Content_Type="text/plain"),
}


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection that met every kind of answer, and visited its pages twice."""
    folder = tmp_path_factory.mktemp("wacz")
    (folder / "seeds.txt").write_text("http://a.test/")
    with WebServer(ROUTES) as server:
        settings = {
            "fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0, "fetch.read_timeout_s": 0.4,
            "fetch.accept": {"text/html": 4000, "application/pdf": 4000}, "fetch.max_tries": 1, "run.workers": -1,
        }  # fmt: skip
        collection = Collection.create(folder / "c", seeds=folder / "seeds.txt", settings=settings)
        collection.crawl()
        collection.crawl(recrawl=True)
    return folder / "c"


def test_every_answer_has_its_record(crawled: Path) -> None:
    """Refused and broken answers are there with their heads, marked as truncated; an unchanged page is a revisit."""
    records = {}
    for file in sorted((crawled / "warc").glob("*.warc.gz")):
        with file.open("rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                body = record.raw_stream.read()
                if record.rec_type in ("response", "revisit"):
                    url = record.rec_headers.get_header("WARC-Target-URI")
                    records.setdefault(url.removeprefix("http://a.test"), []).append((record, body))
    assert set(records) == set(ROUTES)
    outcomes = dict(Collection(crawled).sql("SELECT url, outcome FROM crawl").rows)
    for path, outcome, why in (
        ("/large", "too-large", "length"),
        ("/other", "wrong-type", "unspecified"),
        ("/slow", "timed-out", "time"),
    ):
        [(record, body)] = records[path]
        assert outcomes[f"http://a.test{path}"] == outcome
        assert (record.rec_headers.get_header("WARC-Truncated"), body) == (why, b"")
        assert record.rec_headers.get_header("Opilio-Outcome") == outcome
        assert record.http_headers.get_header("X-Archive-Orig-Content-Length") is not None
        assert record.http_headers.get_header("Content-Length") == "0"
    (first, body), (again, _) = records["/same"]
    assert (first.rec_type, body) == ("response", SAME)
    assert (again.rec_type, again.http_headers, again.rec_headers.get_header("Content-Length")) == (
        "revisit",
        None,
        "0",
    )
    assert again.rec_headers.get_header("WARC-Profile") == NOT_MODIFIED_PROFILE
    assert again.rec_headers.get_header("WARC-Refers-To-Target-URI") == "http://a.test/same"
    assert again.rec_headers.get_header("WARC-Refers-To-Date") == first.rec_headers.get_header("WARC-Date")
    assert not any(record.rec_headers.get_header("WARC-Truncated") for record, _ in records["/"])


def test_the_validator_takes_the_wacz(crawled: Path, tmp_path: Path) -> None:
    """The WACZ is valid by its authors' own program; its index has each record that can be replayed, sorted."""
    target = tmp_path / "owls.wacz"
    assert call("export", crawled, target).returncode == 0
    check = Validation(str(target))
    assert check.version == "1.1.1"
    assert check.check_required_contents() == 0
    for passed in (
        check.frictionless_validate,
        check.check_file_paths,
        check.check_file_hashes,
        check.check_compression,
        check.check_indexes,
    ):
        assert passed()
    with zipfile.ZipFile(target) as archive:
        lines = gzip.decompress(archive.read("indexes/index.cdx.gz")).decode().splitlines()
        blocks = archive.read("indexes/index.idx").decode().splitlines()
        pages = [json.loads(line) for line in archive.read("pages/pages.jsonl").splitlines()]
        found = []
        for line in lines:
            key, when, facts = line.split(" ", 2)
            place = json.loads(facts)
            assert key == their_surt(place["url"])
            assert len(when) == 14
            data = archive.read(f"archive/{place['filename']}")[int(place["offset"]) :][: int(place["length"])]
            assert f"WARC-Target-URI: {place['url']}\r\n".encode() in gzip.decompress(data)
            found.append(place["url"])
    assert lines == sorted(lines)
    assert "http://a.test/large" not in found
    assert found.count("http://a.test/same") == 2
    assert len(blocks) == 2
    assert {page["url"] for page in pages[1:]} == {
        "http://a.test/",
        "http://a.test/same",
        "http://a.test/again?b=2&a=1",
    }
    ran = call("export", crawled, target, "--where", "relevance > 0")
    assert (ran.returncode, "whole collection" in ran.stderr) == (1, True)


@pytest.mark.parametrize(
    "url",
    [
        "http://www.example.org/", "https://www2.example.org:8443/a/b/?b=2&a=1", "http://127.0.0.1:8000/x",
        "http://a.example/%7Euser/A%20b.html?q=%C3%A4&x", "http://a.example/a//b/", "http://a.example/?",
        "http://a.example/i.php?PHPSESSID=0123456789abcdef0123456789abcdef&b=1", "http://a.example/a;b,c=d/(e)'!*",
    ],
)  # fmt: skip
def test_addresses_are_sorted_as_others_do(url: str) -> None:
    """SURT is that of the library that pywb looks addresses up with."""
    assert surt(url) == their_surt(url)


@contextmanager
def replayed(folder: Path, wacz: Path) -> Iterator[str]:
    """pywb with this archive; the address of its replay."""
    subprocess.run(["wb-manager", "init", "owls"], cwd=folder, check=True, capture_output=True)
    subprocess.run(
        ["wb-manager", "add", "--unpack-wacz", "owls", str(wacz)], cwd=folder, check=True, capture_output=True
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen(
        ["wayback", "-p", str(port), "-b", "127.0.0.1"], cwd=folder, env={**os.environ, "NO_PROXY": "*"}
    )
    try:
        deadline_s = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < deadline_s
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/owls"
    finally:
        server.terminate()
        server.wait(10)


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("wayback") is None,
    reason="pywb needs an environment of its own on PATH: its brotlipy takes the place of brotli, which Opilio needs",
)
def test_pywb_replays_the_wacz(crawled: Path, tmp_path: Path) -> None:
    """pywb shows each page as it was, also at the time of the second visit, when the server said: not modified."""
    Collection(crawled).export(tmp_path / "owls.wacz")
    [(first,), (again,)] = (
        Collection(crawled)
        .sql(
            "SELECT strftime(visited, '%Y%m%d%H%M%S') FROM visits v JOIN crawl c USING (oid) WHERE url LIKE '%/same' ORDER BY visited"
        )
        .rows
    )
    with replayed(tmp_path, tmp_path / "owls.wacz") as archive:
        for when, path, text in (
            (first, "same", b"hollow trees"),
            (again, "same", b"hollow trees"),
            (first, "again?b=2&a=1", b"the mice"),
            (first, "moved", b"hollow trees"),
        ):
            with urllib.request.urlopen(f"{archive}/{when}mp_/http://a.test/{path}", timeout=30) as answer:
                assert answer.status == 200
                assert text in answer.read(), (when, path)
