"""Sifting archives into a collection: what is on topic is stored as if it had been crawled, once, whatever happens."""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

import sift_processes
from archives import DATE, MadePage, made_pages, response, write_warc
from command_line import call
from opilio import Collection
from opilio.crawl.repair import repair
from opilio.crawl.verification import verify
from opilio.errors import InputError
from opilio.lab.local_web import LocalServer
from opilio.sift import SiftReport, sift
from opilio.sift.pool import SiftProgram

QUERY = "owl hunts night voles barns towers caves"


@pytest.fixture
def owls(tmp_path: Path) -> Collection:
    """A collection that judges by words, and has no page."""
    return make_owls(tmp_path / "owls")


def make_owls(folder: Path) -> Collection:
    return Collection.create(folder, query=QUERY, needs_seeds=False, settings={"learn.questions": 0})


def urls(collection: Collection) -> list[str]:
    return sorted(url for (url,) in collection.sql("SELECT url FROM collection").rows)


def on_topic(pages: list[MadePage]) -> list[str]:
    return sorted(page.url for page in pages if page.on_topic)


def test_pages_on_topic_join_the_collection(owls: Collection, tmp_path: Path) -> None:
    """Of 60 pages the 20 about owls are stored with links, words and WARC record; the others are only counted.

    Search, explain and verify work as for crawled pages, and the same archive is not judged a second time.
    """
    pages = made_pages(60)
    file = write_warc(tmp_path / "a.warc.gz", pages)
    report = sift(owls, [str(file)], workers=2)
    assert (report.judged, report.on_topic, report.stored, report.done) == (60, 20, 20, 1)
    assert urls(owls) == on_topic(pages)
    assert verify(owls.folder).defects == 0
    assert owls.search("owl")["total"] == 20
    linked = owls.sql("SELECT count(*) FROM links JOIN crawl c ON c.oid = oid_dst WHERE state = 'waiting'").rows
    assert linked == [(40,)], "each links to two pages about ships, which are queued for a crawl"
    [page] = [page for page in pages if page.url == urls(owls)[3]]
    told = owls.explain(page.url)
    assert told["archive"] == {"archive": str(file), "offset": told["archive"]["offset"], "captured": DATE}
    with file.open("rb") as raw:
        raw.seek(told["archive"]["offset"])
        assert next(iter(ArchiveIterator(raw))).rec_headers["WARC-Target-URI"] == page.url
    assert told["judgement"]["relevance"] >= 0.5
    assert told["steps"][-1]["reasons"]
    [copy] = (owls.folder / "warc").glob("*.warc.gz")
    with copy.open("rb") as raw:
        copied = {
            r.rec_headers["WARC-Target-URI"]: r.content_stream().read() for r in ArchiveIterator(raw) if r.http_headers
        }
    assert copied == {page.url: page.body for page in pages if page.on_topic}
    again = sift(owls, [str(file)])
    assert (again.judged, again.stored, again.done) == (0, 0, 1)


def test_pages_off_topic_are_stored_on_request(owls: Collection, tmp_path: Path) -> None:
    """With `keep_off_topic`, every page is stored, and those off topic are not relevant."""
    pages = made_pages(12)
    report = sift(owls, [str(write_warc(tmp_path / "a.warc.gz", pages))], keep_off_topic=True)
    assert (report.on_topic, report.stored) == (4, 12)
    assert owls.sql("SELECT count(*) FROM collection WHERE relevant").rows == [(4,)]
    assert verify(owls.folder).defects == 0


def test_pages_that_are_there_are_recognised(owls: Collection, tmp_path: Path) -> None:
    """A page that another archive has brought is counted as there; the same text at another address is a duplicate."""
    pages = made_pages(30)
    sift(owls, [str(write_warc(tmp_path / "a.warc.gz", pages[:15]))])
    copy = MadePage("http://mirror.example/copy.html", pages[0].body, True)
    report = sift(owls, [str(write_warc(tmp_path / "b.warc.gz", [*pages, copy]))])
    assert (report.stored, report.there_already, report.duplicates) == (5, 5, 1)
    assert urls(owls) == on_topic(pages)
    assert verify(owls.folder).defects == 0


def test_a_killed_sifting_goes_on_where_it_stopped(owls: Collection, tmp_path: Path) -> None:
    """Killed with kill -9 some times, it ends with every page once, and judges no page that was committed again. Its
    workers end by themselves, and print nothing."""
    pages = made_pages(1500, links=False)
    file = write_warc(tmp_path / "a.warc.gz", pages)
    kills = 0
    for _ in range(3):
        command = [sys.executable, sift_processes.__file__, str(owls.folder), str(file)]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
            assert process.stdout is not None and process.stderr is not None
            before = int(process.stdout.readline() or 0)
            for line in process.stdout:
                if int(line) > before:
                    process.kill()
                    kills += 1
                    break
            assert process.stderr.read() == "", "it ends when the last worker has ended"
    [(judged,)] = owls.sql("SELECT coalesce(sum(judged), 0) FROM archives").rows
    stored = len(urls(owls))
    assert kills
    report = sift(owls, [str(file)])
    assert (judged + report.judged, stored + report.stored) == (1500, 500)
    assert urls(owls) == on_topic(pages)
    assert verify(owls.folder).defects == 0


def test_a_page_that_ends_its_worker_is_left_out(owls: Collection, tmp_path: Path) -> None:
    """A page that ends every process that reads it costs that page alone, and is reported."""
    pages = made_pages(40)
    program = SiftProgram("sift_processes:work_until_poison")
    report = sift(owls, [str(write_warc(tmp_path / "a.warc.gz", pages))], workers=1, program=program)
    assert report.left_out["lost"] == 1
    assert report.judged == 39
    assert any("/7.html" in problem for problem in report.problems)
    assert urls(owls) == on_topic(pages)


def test_all_kinds_of_archives(owls: Collection, tmp_path: Path) -> None:
    """WET, WACZ, folders and patterns are read; so are chunked, compressed and wrongly declared bodies.

    Revisit records and files that are no archives are reported, and stop nothing.
    """
    folder = tmp_path / "archives"
    (folder / "deep").mkdir(parents=True)
    page = made_pages(1)[0].body
    text = b"The owl hunts at night for voles and sleeps in barns, old towers and caves. " * 3
    with (folder / "a.warc.gz").open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        chunked = b"%x\r\n%s\r\n%x;x=y\r\n%s\r\n0\r\n\r\n" % (50, page[:50], len(page) - 50, page[50:])
        response(writer, "http://a.example/chunked", chunked, ("Transfer-Encoding", "chunked"))
        packed = gzip.compress(page.replace(b"Owls", b"Packed owls"))
        response(writer, "http://a.example/packed", packed, ("Content-Encoding", "gzip"))
        unpacked = page.replace(b"owl", b"barn owl")
        response(writer, "http://a.example/unpacked", unpacked, ("Content-Encoding", "br"))
        head = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
        writer.write_record(
            writer.create_revisit_record(
                "http://a.example/again", "sha1:x", "http://a.example/", DATE, http_headers=head
            )
        )
        response(writer, "http://a.example/picture", base64.b64decode("iVBORw0KGgo="), kind="image/png")
        response(writer, "urn:not-the-web", page)
        response(writer, "http://a.example/noindex", page, ("X-Robots-Tag", "noindex"))
        response(writer, "http://a.example/robots.txt", b"User-agent: *", kind="text/plain")
    with gzip.open(folder / "deep" / "b.wet.gz", "wb") as file:
        writer = WARCWriter(file, gzip=False)
        record = writer.create_warc_record(
            "http://wet.example/", "conversion", payload=io.BytesIO(text), warc_content_type="text/plain",
            length=len(text), warc_headers_dict={"WARC-Date": DATE},
        )  # fmt: skip
        writer.write_record(record)
    inner = write_warc(
        tmp_path / "inner.warc.gz", [MadePage("http://wacz.example/", page.replace(b"</p>", b" owls</p>"), True)]
    )
    with zipfile.ZipFile(folder / "c.wacz", "w") as packed_files:
        packed_files.write(inner, "archive/data.warc.gz")
        packed_files.writestr("pages/pages.jsonl", "{}")
    (tmp_path / "d.bin").write_bytes(os.urandom(3000))
    report = sift(owls, [str(folder), str(tmp_path / "*.bin")])
    assert set(urls(owls)) | {"http://a.example/unpacked", "http://a.example/packed", "http://wacz.example/"} == {
        "http://a.example/chunked", "http://a.example/packed", "http://a.example/unpacked", "http://wet.example/",
        "http://wacz.example/",
    }  # fmt: skip
    assert report.judged == report.on_topic == 5
    assert report.stored + report.duplicates == 5
    assert report.left_out["noindex"] == 1, "as in a crawl, such a page is neither judged nor stored"
    assert report.left_out["revisit records"] == 1
    assert report.left_out["records of no web address"] == 1
    assert report.left_out["robots.txt files"] == 1
    assert any("d.bin" in problem for problem in report.problems)
    assert verify(owls.folder).defects == 0
    with pytest.raises(InputError, match="no such file"):
        sift(owls, [str(tmp_path / "missing.warc.gz")])


def test_a_lost_database_is_made_again_with_the_origins(owls: Collection, tmp_path: Path) -> None:
    """The WARC files of the collection say which archive a page came from: `repair` brings that back."""
    file = write_warc(tmp_path / "a.warc.gz", made_pages(12))
    sift(owls, [str(file)])
    before = owls.sql("SELECT c.url, s.* EXCLUDE (oid, joined) FROM sifted s JOIN crawl c USING (oid) ORDER BY 1").rows
    assert len(before) == 4
    for name in ("collection.duckdb", "collection.duckdb.wal"):
        (owls.folder / name).unlink(missing_ok="wal" in name)
    report = repair(owls.folder)
    assert report.after is not None
    assert report.after.defects == 0
    after = Collection(owls.folder)
    assert (
        after.sql("SELECT c.url, s.* EXCLUDE (oid, joined) FROM sifted s JOIN crawl c USING (oid) ORDER BY 1").rows
        == before
    )


def test_lists_of_urls_are_fetched_and_judged(small_server: LocalServer, tmp_path: Path) -> None:
    """The URLs of a list are requested, with robots.txt first, and no link of theirs; pages on topic are kept."""
    web = small_server.web
    named = [*web.seeds("cryptography", 4), *web.seeds("statistics", 4)]
    (tmp_path / "urls.txt").write_text("# some pages\n" + "\n".join(named) + "\n")
    settings = {"fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 0.0, "run.workers": -1}
    folder = tmp_path / "c"
    collection = Collection.create(folder, query="hash", needs_seeds=False, settings=settings)
    small_server.clear_log()
    report = sift(collection, [str(tmp_path / "urls.txt")])
    requests = small_server.requests()
    requested = {f"http://{one.host}{one.path}" for one in requests if one.path != "/robots.txt"}
    assert len(requests) > len(requested), "robots.txt was read"
    assert requested <= set(named)
    assert 0 < report.stored <= report.judged <= 8
    assert set(urls(collection)) <= set(named)
    assert not (folder / "url-lists").exists()
    told = collection.explain(urls(collection)[0])
    assert told["archive"]["archive"].startswith(str(tmp_path / "urls.txt"))


def test_a_new_collection_judges_by_the_model_of_another(tmp_path: Path, crawled_taught: Path) -> None:
    """`--model-from` makes a collection with the topics and models of another, and none of its pages."""
    file = write_warc(tmp_path / "a.warc.gz", made_pages(6))
    said = call("sift", tmp_path / "new", file, "--model-from", crawled_taught, "--json")
    assert said.returncode == 0, said.stderr
    new, old = Collection(tmp_path / "new"), Collection(crawled_taught)
    assert [topic["path"] for topic in new.topics()] == [topic["path"] for topic in old.topics()]
    assert [model["version"] for model in new.models()] == [model["version"] for model in old.models()]
    assert json.loads(said.stdout.splitlines()[-1])["model_version"] == old.models()[0]["version"]
    refused = call("sift", tmp_path / "new", file, "--query", "owls")
    assert refused.returncode
    nothing = call("sift", tmp_path / "none", file)
    assert nothing.returncode


def test_examples_are_learned_first(tmp_path: Path) -> None:
    """A new collection with example files trains a model of them, and judges by it."""
    pages = made_pages(30)
    lines = []
    for number, page in enumerate(page for page in made_pages(30, seed=9) if page.on_topic):
        example = tmp_path / f"{number}.html"
        example.write_bytes(page.body)
        lines.append(str(example))
    (tmp_path / "examples.txt").write_text("\n".join(lines))
    ships = [page for page in made_pages(20, seed=8) if not page.on_topic]
    for number, page in enumerate(ships):
        (tmp_path / f"ship{number}.html").write_bytes(page.body)
    collection = Collection.create(tmp_path / "c", examples=tmp_path / "examples.txt", needs_seeds=False)
    report: SiftReport = sift(collection, [str(write_warc(tmp_path / "a.warc.gz", pages))])
    assert report.model_version == 1
    assert set(on_topic(pages)) <= set(urls(collection))
