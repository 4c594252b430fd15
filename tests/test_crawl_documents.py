"""Crawls of documents that are not web pages: each is a page with title, text and links; a broken one costs itself."""

from pathlib import Path

import pytest

import analyze_documents as files
from fetch_servers import WebServer, html, reply
from opilio import Collection

DOCUMENTS = {
    "/a.pdf": (files.pdf("Owls hunt at night"), "application/pdf"),
    "/b.docx": (files.docx("<w:p><w:r><w:t>Hawks hunt by day</w:t></w:r></w:p>"), "application/octet-stream"),
    "/c.pptx": (files.pptx(), "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    "/d.odt": (files.opendocument(), "application/vnd.oasis.opendocument.text"),
    "/e.epub": (files.epub(), "application/epub+zip"),
    "/f.rtf": (files.rtf(), "application/msword"),
    "/g.doc": (files.doc(), "application/msword"),
    "/h.ppt": (files.ppt(), "application/vnd.ms-powerpoint"),
    "/i.zip": (files.zipped({"read.txt": "Larks sing", "more/sub.zip": files.zipped({"x.html": "<p>Rooks caw"})}), "application/zip"),
    "/j.tgz": (files.tarred({"notes.txt": b"Wrens nest in walls"}, "w:gz"), "application/x-gzip"),
    "/k.pdf": (files.pdf("Sent under a wrong name"), "text/html"),
}  # fmt: skip
BROKEN = {
    "/broken.pdf": (b"%PDF-1.7\n" + bytes(range(256)) * 40, "application/pdf"),
    "/bomb.zip": (files.zipped({"zeros.txt": b"0" * 80_000_000}), "application/zip"),
    "/unknown.bin": (b"\x00\x01\x02\x03" * 900, "application/octet-stream"),
    "/cut.docx": (files.docx("<w:p/>")[:300], "application/zip"),
}


@pytest.mark.parametrize("workers", [-1, 1])
def test_documents_are_pages(workers: int, tmp_path: Path) -> None:
    """Every format is stored with its text; links in documents are followed; what cannot be read says why, and the
    crawl goes on."""
    home = "".join(f'<a href="{path}">{path}</a> ' for path in (*DOCUMENTS, *BROKEN)).encode()
    routes = {
        "/": html(home),
        **{path: reply(body, content_type=mime) for path, (body, mime) in (DOCUMENTS | BROKEN).items()},
    }
    with WebServer(routes) as server:
        seeds = tmp_path / "seeds.txt"
        seeds.write_text("http://docs.test/")
        settings = {
            "fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0, "run.workers": workers,
            "fetch.backoff_s": 0.1, "duplicates.ip_size": "off", "duplicates.content": False, "duplicates.suffix": False, "limits.max_depth": 1,
        }  # fmt: skip
        collection = Collection.create(tmp_path / "c", seeds=seeds, settings=settings)
        collection.crawl()
    stored = dict(collection.sql("SELECT url, text FROM collection").rows)
    missing = [path for path in DOCUMENTS if not stored.get(f"http://docs.test{path}", "").strip()]
    assert not missing, collection.sql("SELECT url, v.outcome, detail FROM visits v JOIN crawl USING (oid)").rows
    assert "Owls hunt at night" in stored["http://docs.test/a.pdf"]
    assert "Rooks caw" in stored["http://docs.test/i.zip"]
    assert "Wrens nest" in stored["http://docs.test/j.tgz"]
    links = collection.sql(
        "SELECT count(*) FROM links l JOIN crawl c ON c.oid = l.oid_src WHERE c.url LIKE '%.pdf'"
    ).rows
    assert links[0][0] > 0
    said = dict(
        collection.sql("SELECT c.url, v.detail FROM visits v JOIN crawl c USING (oid) WHERE v.outcome <> 'ok'").rows
    )
    for path in BROKEN:
        assert said.get(f"http://docs.test{path}"), path
    assert "unpacks" in said["http://docs.test/bomb.zip"]


def test_a_document_is_recovered_from_its_warc_record(tmp_path: Path) -> None:
    """A page known to the WARC file alone is read again as it was read first, whatever its format."""
    with WebServer({"/a.pdf": reply(files.pdf("Owls hunt at night"), content_type="application/pdf")}) as server:
        seeds = tmp_path / "seeds.txt"
        seeds.write_text("http://docs.test/a.pdf")
        settings = {"fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0, "run.workers": -1}
        collection = Collection.create(tmp_path / "c", seeds=seeds, settings=settings)
        collection.crawl()
        (before,) = collection.sql("SELECT text, title FROM pages").rows
        for table in ("pages", "visits"):
            collection.sql(f"DELETE FROM {table}", write=True)
        collection.sql("UPDATE crawl SET state = 'waiting', outcome = NULL", write=True)
        asked = len(server.requests)
        collection.crawl()
        assert collection.sql("SELECT text, title FROM pages").rows == [before]
        assert len([head for head in server.requests[asked:] if b"a.pdf" in head]) == 0
