"""WARC files, judged by warcio, an independent reader."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import random
import resource
import signal
import subprocess
import sys
import textwrap
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from opilio.errors import StoreError
from opilio.store.warc import REVISIT_PROFILE, RecordMaker, WarcFiles, WarcWriter, archived_head, recover, truncate_torn

REQUEST = b"GET /a HTTP/1.1\r\nHost: a.test\r\nUser-Agent: Opilio/0.1\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
NOW_S = 1_763_200_000.25


def read(path: Path) -> list[dict[str, Any]]:
    """All records as warcio sees them, digests verified."""
    records = []
    with path.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            body = record.content_stream().read() if record.rec_type == "revisit" else record.raw_stream.read()
            records.append(
                {"type": record.rec_type, "warc": record.rec_headers, "http": record.http_headers, "body": body}
            )
            assert record.digest_checker is None or not record.digest_checker.problems
    return records


def sha1(data: bytes) -> str:
    """A digest as WARC headers write it."""
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def write_pages(writer: WarcWriter, count: int, size: int = 200) -> list[tuple[str, bytes]]:
    """Write `count` pages with random bodies."""
    rng, pages = random.Random(3), []
    for number in range(count):
        pages.append((f"http://a.test/{number}", rng.randbytes(size)))
        writer.write(pages[-1][0], "192.0.2.1", NOW_S + number, REQUEST, HEAD, pages[-1][1])
    return pages


def test_records_as_warcio_reads_them(tmp_path: Path) -> None:
    """A file begins with warcinfo; request and response name each other, the address, the time and true digests."""
    writer = WarcWriter(tmp_path, "w1", user_agent="Opilio/0.1 (+http://me.test)")
    place = writer.write("http://a.test/a", "192.0.2.1", NOW_S, REQUEST, HEAD, b"<p>hello")
    writer.close()
    info, request, response = read(tmp_path / place.file)
    assert place.file.startswith("opilio-")
    assert place.file.endswith("-w1-00001.warc.gz")
    assert info["type"] == "warcinfo"
    assert b"http-header-user-agent: Opilio/0.1 (+http://me.test)" in info["body"]
    assert request["type"] == "request"
    assert request["http"].get_header("Host") == "a.test"
    assert request["warc"].get_header("WARC-Concurrent-To") == response["warc"].get_header("WARC-Record-ID")
    assert response["type"] == "response"
    assert response["body"] == b"<p>hello"
    assert response["http"].get_statuscode() == "200"
    assert response["warc"].get_header("WARC-Target-URI") == "http://a.test/a"
    assert response["warc"].get_header("WARC-IP-Address") == "192.0.2.1"
    assert response["warc"].get_header("WARC-Date") == "2025-11-15T09:46:40.250000Z"
    assert response["warc"].get_header("WARC-Payload-Digest").startswith("sha1:")


def test_a_record_can_be_read_alone_at_its_place(tmp_path: Path) -> None:
    """Offset and length are those of the response's gzip member, which ends the file."""
    writer = WarcWriter(tmp_path)
    write_pages(writer, 5)
    place = writer.write("http://a.test/last", "", NOW_S, REQUEST, HEAD, b"the last")
    data = (tmp_path / place.file).read_bytes()
    assert place.offset + place.length == len(data)
    [record] = ArchiveIterator(io.BytesIO(data[place.offset :]))
    assert record.rec_headers.get_header("WARC-Target-URI") == "http://a.test/last"
    assert zlib.decompress(data[place.offset :], wbits=31).startswith(b"WARC/1.1\r\n")


def test_records_of_several_makers_in_one_file(tmp_path: Path) -> None:
    """Records made elsewhere, by several workers, are appended as they come: each can be read at its place."""
    makers, files = [RecordMaker(), RecordMaker()], WarcFiles(tmp_path, "bridge", max_bytes=2000)
    places = []
    for number in range(12):
        records = makers[number % 2].make(
            f"http://a.test/{number}", "", NOW_S, REQUEST, HEAD, b"page %d" % (number // 4)
        )
        places.append(files.append(records))
    assert len({place.file for place in places}) > 1
    kinds = []
    for number, place in enumerate(places):
        data = (tmp_path / place.file).read_bytes()[place.offset : place.offset + place.length]
        [record] = ArchiveIterator(io.BytesIO(data))
        assert record.rec_headers.get_header("WARC-Target-URI") == f"http://a.test/{number}"
        kinds.append(record.rec_type)
    assert kinds == ["response", "response", "revisit", "revisit"] * 3, "each maker remembers its own payloads"
    for file in {place.file for place in places}:
        read(tmp_path / file)


def test_same_payload_becomes_a_revisit(tmp_path: Path) -> None:
    """A body written before is not written again, but referred to by address, date and record."""
    writer = WarcWriter(tmp_path)
    writer.write("http://a.test/1", "", NOW_S, REQUEST, HEAD, b"same")
    writer.write("http://a.test/empty", "", NOW_S, REQUEST, HEAD, b"")
    writer.write("http://a.test/empty2", "", NOW_S, REQUEST, HEAD, b"")
    place = writer.write("http://a.test/2", "", NOW_S + 5, REQUEST, HEAD, b"same")
    records = read(tmp_path / place.file)
    first, revisit = records[2], records[-1]
    assert [r["type"] for r in records if r["type"] != "request"] == [
        "warcinfo",
        "response",
        "response",
        "response",
        "revisit",
    ]
    assert revisit["warc"].get_header("WARC-Profile") == REVISIT_PROFILE
    assert revisit["warc"].get_header("WARC-Refers-To-Target-URI") == "http://a.test/1"
    assert revisit["warc"].get_header("WARC-Refers-To-Date") == first["warc"].get_header("WARC-Date")
    assert revisit["warc"].get_header("WARC-Refers-To") == first["warc"].get_header("WARC-Record-ID")
    assert revisit["warc"].get_header("WARC-Payload-Digest") == first["warc"].get_header("WARC-Payload-Digest")
    assert revisit["body"] == b""
    assert revisit["http"].get_statuscode() == "200"


def test_memory_of_payloads_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The payload not met for longest is forgotten first: it is written whole again."""
    monkeypatch.setattr("opilio.store.warc.REMEMBERED_PAYLOADS", 2)
    writer = WarcWriter(tmp_path)
    for body in (b"a", b"b", b"a", b"c", b"a", b"b"):
        place = writer.write("http://a.test/", "", NOW_S, b"", HEAD, body)
    kinds = [record["type"] for record in read(tmp_path / place.file)]
    assert kinds == ["warcinfo", "response", "response", "revisit", "response", "revisit", "response"]


def test_files_are_rotated(tmp_path: Path) -> None:
    """No file grows past the limit, each is complete, and names do not collide with those of another worker."""
    writers = [WarcWriter(tmp_path, "0", max_bytes=4000) for _ in range(2)]
    pages = [page for writer in writers for page in write_pages(writer, 20, 600)]
    files = sorted(tmp_path.iterdir())
    assert len(files) > 8
    assert all(file.stat().st_size <= 4000 for file in files)
    found = [r["warc"].get_header("WARC-Target-URI") for file in files for r in read(file) if r["type"] == "response"]
    assert sorted(found) == sorted(url for url, _ in pages)
    assert all(read(file)[0]["type"] == "warcinfo" for file in files)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
         b"HTTP/1.1 200 OK\r\nX-Archive-Orig-Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\nContent-Length: 98\r\n\r\n",
         b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
        (b"HTTP/1.1 200 OK\nContent-Encoding: gzip\n\n",
         b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\n"),
        (b"HTTP/2 200 \r\n\r\n", b"HTTP/2 200 \r\nContent-Length: 5\r\n\r\n"),
        (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"),
    ],
)  # fmt: skip
def test_head_fits_the_archived_body(raw: bytes, expected: bytes) -> None:
    """Chunking is renamed away, the length is the body's, line ends are CRLF, and other headers stay."""
    assert archived_head(raw, 5) == expected


@settings(max_examples=60)
@given(
    st.text(max_size=60), st.text(max_size=20), st.binary(max_size=80), st.binary(max_size=80), st.binary(max_size=99)
)
def test_nothing_can_inject_a_header_or_a_record(
    tmp_path_factory: pytest.TempPathFactory, url: str, ip: str, request_head: bytes, head: bytes, body: bytes
) -> None:
    """Whatever bytes come as URL, address, heads and body, warcio finds our records, our fields and intact digests."""
    folder = tmp_path_factory.mktemp("w")
    writer = WarcWriter(folder)
    evil = "\r\nWARC-Type: evil\r\n\r\n"
    place = writer.write(url + evil + url, ip + evil, NOW_S, request_head, head + evil.encode(), body)
    with (folder / place.file).open("rb") as file:
        records = [
            (record.rec_type, record.rec_headers.headers, record.raw_stream.read())
            for record in ArchiveIterator(file, no_record_parse=True)
        ]
    assert [kind for kind, _, _ in records] == ["warcinfo", *(["request"] if request_head else []), "response"]
    assert [value for _, fields, _ in records for name, value in fields if name == "WARC-Type"] == [
        r[0] for r in records
    ]
    for _, fields, block in records:
        assert dict(fields)["WARC-Block-Digest"] == sha1(block)
    assert dict(records[-1][1])["WARC-Payload-Digest"] == sha1(body)
    assert records[-1][2].endswith(b"\r\n\r\n" + body)
    [back] = recover(folder / place.file)
    assert back.raw_body == body
    assert b"\r\n\r\n" not in back.raw_head[:-4]


# -- reading back


def test_recover_gives_back_what_was_written(tmp_path: Path) -> None:
    """From any record on, all later responses come back with their bytes; a revisit with the body it refers to."""
    writer = WarcWriter(tmp_path)
    pages = write_pages(writer, 6)
    place = writer.write("http://b.test/again", "192.0.2.7", NOW_S, REQUEST, HEAD, pages[2][1])
    path = tmp_path / place.file
    everything = list(recover(path))
    assert [(r.url, r.raw_body) for r in everything] == [*pages, ("http://b.test/again", pages[2][1])]
    assert everything[0].raw_head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n")
    assert everything[1].date_s == NOW_S + 1
    assert everything[-1].ip == "192.0.2.7"
    after_third = everything[3].offset + everything[3].length
    assert [r.url for r in recover(path, after_third)] == [r.url for r in everything[4:]]
    assert list(recover(path, path.stat().st_size)) == []


@settings(max_examples=40)
@given(st.floats(0, 1), st.one_of(st.binary(max_size=40), st.just(b"\x1f\x8b\x08" * 5)))
def test_torn_files_are_cut_to_whole_pairs(
    tmp_path_factory: pytest.TempPathFactory, part: float, garbage: bytes
) -> None:
    """Cut at any byte, with any garbage behind: after truncate_torn warcio reads it, and no intact response is lost."""
    folder = tmp_path_factory.mktemp("w")
    writer = WarcWriter(folder)
    pages = write_pages(writer, 4, 50)
    [path] = folder.iterdir()
    whole = list(recover(path))
    cut = int(path.stat().st_size * part)
    os.truncate(path, cut)
    with path.open("ab") as file:
        file.write(garbage)
    kept = [r for r in whole if r.offset + r.length <= cut]
    truncate_torn(path)
    assert [r.url for r in recover(path)] == [r.url for r in kept] == [url for url, _ in pages[: len(kept)]]
    if path.stat().st_size:
        assert read(path)[0]["type"] == "warcinfo"
    assert path.stat().st_size == (kept[-1].offset + kept[-1].length if kept else path.stat().st_size)
    assert truncate_torn(path) == 0


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=30))
def test_damage_in_the_middle_costs_only_what_it_hits(
    tmp_path_factory: pytest.TempPathFactory, where: int, garbage: bytes
) -> None:
    """Bytes overwritten anywhere lose at most the records they touch."""
    folder = tmp_path_factory.mktemp("w")
    write_pages(WarcWriter(folder), 5, 300)
    [path] = folder.iterdir()
    whole = list(recover(path))
    at = where % (path.stat().st_size - len(garbage))
    with path.open("r+b") as file:
        file.seek(at)
        file.write(garbage)
    safe = [r.url for r in whole if at >= r.offset + r.length or at + len(garbage) <= r.offset]
    assert set(safe) <= {r.url for r in recover(path)}


def test_garbage_files(tmp_path: Path) -> None:
    """A file of noise or of nothing gives no records and is cut to nothing, without an error."""
    path = tmp_path / "x.warc.gz"
    for content in (b"", b"noise" * 1000, b"\x1f\x8b\x08" * 1000, os.urandom(5000)):
        path.write_bytes(content)
        assert list(recover(path)) == []
        assert truncate_torn(path) == len(content)


WRITER = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    from opilio.store.warc import WarcWriter
    writer = WarcWriter(Path(sys.argv[1]), max_bytes=3_000_000)
    for number in range(100_000):
        body = os.urandom(20_000)
        place = writer.write(f"http://a.test/{number}", "", 1e9, b"GET / HTTP/1.1", b"HTTP/1.1 200 OK", body)
        print(place.file, place.offset, place.length, flush=True)
""")


def test_kill_9_leaves_every_acknowledged_record(tmp_path: Path) -> None:
    """After kill -9 every record whose place we were told is intact."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert child.stdout is not None
    places = [child.stdout.readline().split() for _ in range(400)]
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert len({name for name, *_ in places}) > 1
    for name in {name for name, *_ in places}:
        truncate_torn(tmp_path / name)
        intact = {(record.offset, record.length) for record in recover(tmp_path / name)}
        assert {(int(o), int(n)) for other, o, n in places if other == name} <= intact
        read(tmp_path / name)


def test_full_disk_writes_nothing_of_a_record(tmp_path: Path) -> None:
    """When the disk is full the record is refused with a hint and the file ends with the record before it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    writer = WarcWriter(tmp_path)
    write_pages(writer, 2)
    [path] = tmp_path.iterdir()
    before = path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 500, hard))
    try:
        with pytest.raises(StoreError) as caught:
            writer.write("http://a.test/big", "", NOW_S, REQUEST, HEAD, os.urandom(5000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "Make room" in caught.value.hint
    assert path.read_bytes() == before
    writer.write("http://a.test/later", "", NOW_S, REQUEST, HEAD, b"fits again")
    assert [r.url for r in recover(path)][-1] == "http://a.test/later"


def test_workers_need_no_database() -> None:
    """Importing the WARC half of the store loads neither DuckDB nor Arrow into a worker."""
    code = "import sys, opilio.store.warc; print({'duckdb', 'pyarrow'} & set(sys.modules))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert out.stdout.strip() == "set()"
