"""`opilio record`: from whatever there is to a recorded web."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest
import zstandard
from click.testing import CliRunner
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from conftest import MakeCollection
from evaluate_webs import make_web, page, redirect, town
from opilio.analyze import Analyzer
from opilio.cli import cli
from opilio.errors import InputError
from opilio.lab.local_web import LocalServer
from opilio.lab.webs import RecordedWeb, record
from opilio.lab.webs.sources import HostSpread
from opilio.model import host_of
from opilio.settings import Settings
from opilio.store.warc import WarcWriter


def contents(web: RecordedWeb) -> dict[str, tuple[Any, ...]]:
    return {url: (web.status(n), web.body(n), web.redirect(n), web.topics(n)) for n, url in enumerate(web.urls)}


# -- corpora

PAGES = [
    {"url": "http://a.test/ä?x=1", "html": "<p>Grüße", "topics": ["Science.Birds", "People"], "links": []},
    {
        "url": "http://a.test/old.html",
        "html": "<title>1997</title>",
        "headers": "Server: NCSA/1.4.2\nContent-type: text/html\nContent-length: 99",
    },
    {"url": "http://a.test/away", "html": "gone away", "status": 410, "topics": None, "content_type": "text/plain"},
]


def write_corpus(folder: Path, *, packed: bool) -> None:
    folder.mkdir()
    for name, rows in (("pages", PAGES), ("redirects", [{"from": "http://a.test", "to": "http://a.test/old.html"}])):
        data = "\n".join(map(json.dumps, rows)).encode()
        if packed:
            (folder / f"{name}.jsonl.zst").write_bytes(zstandard.compress(data))
        else:
            (folder / f"{name}.jsonl").write_bytes(data)


@pytest.mark.parametrize("packed", [True, False])
def test_corpora(packed: bool, tmp_path: Path) -> None:
    """Pages, labels, headers and redirects of JSON lines; text is served as UTF-8, and the head says so."""
    write_corpus(tmp_path / "corpus", packed=packed)
    web = record(tmp_path / "web", [tmp_path / "corpus"]).web
    assert contents(web) == {
        "http://a.test/": (301, b"", "http://a.test/old.html", ()),
        "http://a.test/%C3%A4?x=1": (200, "<p>Grüße".encode(), "", ("People", "Science.Birds")),
        "http://a.test/old.html": (200, b"<title>1997</title>", "", ()),
        "http://a.test/away": (410, b"gone away", "", ()),
    }
    head = web.head(web.number("http://a.test/old.html"))
    assert head.startswith(b"HTTP/1.1 200 OK\r\nServer: NCSA/1.4.2\r\n")
    assert b"Content-Type: text/html; charset=utf-8\r\n" in head
    assert b"Content-Length: 19\r\n" in head
    assert b"text/plain; charset=utf-8" in web.head(web.number("http://a.test/away"))


@pytest.mark.parametrize(
    "line", ["{", "[1]", '{"html": "x"}', '{"url": "http://a.test/"}', '"x"', '{"from": "http://a.test/"}']
)
def test_a_bad_line_is_named(line: str, tmp_path: Path) -> None:
    """A line that is no page is an error with its number, and nothing is left behind."""
    file = tmp_path / "pages.jsonl"
    file.write_text(f"{json.dumps(PAGES[0])}\n{line}\n")
    with pytest.raises(InputError, match="line 2"):
        record(tmp_path / "web", [file])
    assert list(tmp_path.iterdir()) == [file]


# -- folders of HTML files


def test_html_below_a_base_url(tmp_path: Path) -> None:
    """Files stand where their folders say; a folder leads to its index; what is hidden or no page is left out."""
    site = tmp_path / "site"
    for name in ("index.html", "birds/index.html", "birds/owl & co.htm", "birds/.draft.html", "style.css", "note.txt"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(name)
    web = record(tmp_path / "web", [site], base_url="http://a.test/my/index.html", labels="folders").web
    assert contents(web) == {
        "http://a.test/my/": (301, b"", "http://a.test/my/index.html", ()),
        "http://a.test/my/index.html": (200, b"index.html", "", ()),
        "http://a.test/my/birds/": (301, b"", "http://a.test/my/birds/index.html", ()),
        "http://a.test/my/birds/index.html": (200, b"birds/index.html", "", ("birds",)),
        "http://a.test/my/birds/owl%20%26%20co.htm": (200, b"birds/owl & co.htm", "", ("birds",)),
        "http://a.test/my/note.txt": (200, b"note.txt", "", ()),
    }
    assert b"Content-Type: text/plain" in web.head(web.number("http://a.test/my/note.txt"))


@pytest.mark.parametrize(("name", "gap"), [("urls.tsv", "\t"), ("urls.csv", ",")])
def test_html_with_a_map(name: str, gap: str, tmp_path: Path) -> None:
    """The map says which file is which page and what it is about."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "1.html").write_text("one")
    (site / "2.html").write_text("two")
    lines = [
        ("file", "url", "topics"),
        ("1.html", "http://a.test/x", "birds|science"),
        ("2.html", "https://b.test", ""),
    ]
    (site / name).write_text("\n".join(map(gap.join, lines)))
    web = record(tmp_path / "web", [site]).web
    assert contents(web) == {
        "http://a.test/x": (200, b"one", "", ("birds", "science")),
        "https://b.test/": (200, b"two", "", ()),
    }


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "nothing to record"),
        ({"a.html": "x"}, "base-url"),
        ({"urls.tsv": "1.html\thttp://a.test/\n"}, "columns file and url"),
        ({"urls.tsv": "file\turl\n1.html\thttp://a.test/\n"}, "line 2: there is no file 1.html"),
        ({"urls.csv": "file,url\na.html,mailto:x\n", "a.html": "x"}, "line 2: 'mailto:x' is not"),
        ({"urls.csv": "file,url\n"}, "nothing was recorded"),
        ({"collection.duckdb": ""}, "no WARC files"),
    ],
)
def test_folders_that_cannot_be_used(files: dict[str, str], said: str, tmp_path: Path) -> None:
    """Each error says what is wrong with which folder, and what to do; nothing is left behind."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.raises(InputError) as caught:
        record(tmp_path / "web", [folder])
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == [folder]


# -- WARC files


def write_foreign(path: Path, *, compress: bool) -> None:
    """A WARC file as another program writes it: chunked bodies, requests, metadata, revisits, DNS answers."""
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=compress)

        def add(
            url: str, kind: str, status: str = "200 OK", body: bytes = b"", headers: Any = (), **fields: str
        ) -> Any:
            http = StatusAndHeaders(status, list(headers), protocol="HTTP/1.1") if kind != "resource" else None
            made = writer.create_warc_record(url, kind, io.BytesIO(body), http_headers=http, warc_headers_dict=fields)
            writer.write_record(made)
            return made

        writer.write_record(writer.create_warcinfo_record("x.warc", {"software": "another"}))
        chunked = [("Transfer-Encoding", "chunked"), ("Content-Type", "text/html")]
        first = add("http://w.test/", "response", body=b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", headers=chunked)
        add("http://w.test/lie", "response", body=b"not in chunks", headers=chunked)
        add("http://w.test/old", "response", "302 Found", headers=[("Location", "/")])
        add("http://w.test/none", "response", "404 Not Found", body=b"none")
        add("http://w.test/file.txt", "resource", body=b"a file", **{"Content-Type": "text/plain"})
        again = writer.create_revisit_record(
            "http://w.test/same",
            digest=first.rec_headers.get_header("WARC-Payload-Digest"),
            refers_to_uri="http://w.test/",
            refers_to_date=first.rec_headers.get_header("WARC-Date"),
            http_headers=StatusAndHeaders("200 OK", [("X-Again", "yes")], protocol="HTTP/1.1"),
        )
        writer.write_record(again)
        lost = writer.create_revisit_record(
            "http://w.test/lost", digest="sha1:NOWHERE", refers_to_uri="http://w.test/", refers_to_date="2001-01-01T00:00:00Z",
            http_headers=StatusAndHeaders("200 OK", [], protocol="HTTP/1.1"),
        )  # fmt: skip
        writer.write_record(lost)


@pytest.mark.parametrize("form", ["plain", "by record", "as a whole"])
def test_foreign_warc_files(form: str, tmp_path: Path) -> None:
    """WARC files of another program (warcio writes them) give their answers, however they are packed."""
    path = tmp_path / ("x.warc" if form == "plain" else "x.warc.gz")
    write_foreign(path, compress=form == "by record")
    if form == "as a whole":
        path.write_bytes(gzip.compress(path.read_bytes()))
    report = record(tmp_path / "web", [path])
    assert contents(report.web) == {
        "http://w.test/": (200, b"abcde", "", ()),
        "http://w.test/lie": (200, b"not in chunks", "", ()),
        "http://w.test/old": (302, b"", "http://w.test/", ()),
        "http://w.test/none": (404, b"none", "", ()),
        "http://w.test/file.txt": (200, b"a file", "", ()),
        "http://w.test/same": (200, b"abcde", "", ()),
    }
    assert b"X-Again: yes" in report.web.head(report.web.number("http://w.test/same"))
    assert (report.lost_revisits, report.damaged) == (1, [])


def write_ours(folder: Path, count: int = 20, max_bytes: int = 1500) -> list[Path]:
    """Our own WARC files, each with few records, so that revisits refer to other files."""
    writer = WarcWriter(folder, max_bytes=max_bytes)
    for n in range(count):
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
        body = b"same again" if n % 5 == 4 else b"page %d" % n
        writer.write(f"http://o.test/{n}", "127.0.0.1", 1000.0 + n, b"GET / HTTP/1.1\r\n\r\n", head, body)
    writer.close()
    return sorted(folder.iterdir())


def test_revisits_of_other_files(tmp_path: Path) -> None:
    """A body that stands in an earlier file is found, whatever the order of the files."""
    files = write_ours(tmp_path / "warc")
    assert len(files) > 3
    web = record(tmp_path / "web", [tmp_path / "warc"]).web
    assert len(web) == 20
    assert web.body(web.number("http://o.test/19")) == b"same again"
    (tmp_path / "warc" / files[0].name).rename(tmp_path / "warc" / "z.warc.gz")
    assert record(tmp_path / "again", [tmp_path / "warc"]).web.digest == web.digest


def test_torn_files(tmp_path: Path) -> None:
    """A file that ends in the middle gives what stands before, and the report names it."""
    (file,) = write_ours(tmp_path / "warc", 9, max_bytes=10**6)
    file.write_bytes(file.read_bytes()[:-30])
    report = record(tmp_path / "web", [file])
    assert report.damaged == [str(file)]
    assert report.web.urls == [f"http://o.test/{n}" for n in range(8)]


@pytest.mark.parametrize("data", [b"", b"\x1f\x8b", b"hello", b"WARC/1.0\r\nContent-Length: x\r\n\r\n"])
def test_what_is_no_warc_file(data: bytes, tmp_path: Path) -> None:
    """A file that only has the name of a WARC file is an error, not a crash."""
    (tmp_path / "x.warc.gz").write_bytes(data)
    with pytest.raises(InputError, match="nothing was recorded"):
        record(tmp_path / "web", [tmp_path / "x.warc.gz"])


# -- collections


def test_a_collection(small_server: LocalServer, make_collection: MakeCollection, tmp_path: Path) -> None:
    """A recorded crawl answers each page as the server did; labels are the topics that pages were judged to be of."""
    topic = small_server.web.topics[0]
    seeds = small_server.web.seeds(topic, 3)
    collection = make_collection(seeds, limits__max_pages=40)
    collection.crawl()
    web = record(tmp_path / "web", [collection.folder]).web
    for (url,) in collection.sql("SELECT url FROM collection").rows:
        n = web.number(url)
        assert web.status(n) == 200
        if url in small_server.web.pages:
            assert web.body(n) == small_server.web.pages[url].body
    for source, target in collection.sql(
        "SELECT s.url, d.url FROM redirects r JOIN crawl s ON s.oid = r.oid_src JOIN crawl d ON d.oid = r.oid_dst"
    ).rows:
        assert web.redirect(web.number(source)) == target
    assert web.labels == {}
    assert any(url.endswith("/robots.txt") for url in web.urls)


def test_judged_labels(small_server: LocalServer, tmp_path: Path, make_collection: MakeCollection) -> None:
    """--labels judged takes the topic of each relevant page."""
    collection = make_collection(small_server.web.seeds(small_server.web.topics[0], 3), limits__max_pages=20)
    collection.crawl()
    topics = collection.sql("SELECT kcid, path FROM topics WHERE path <> ''").rows
    collection.sql("UPDATE pages SET relevance = 0.1", write=True)
    if not topics:
        collection.sql("UPDATE topics SET path = 'birds/owls' WHERE kcid = 0", write=True)
        topics = [(0, "birds/owls")]
    kcid, path = topics[0]
    collection.sql(
        f"UPDATE pages SET relevance = 0.9, kcid = {kcid} WHERE oid IN (SELECT min(oid) FROM pages)", write=True
    )
    ((url,),) = collection.sql("SELECT url FROM collection WHERE relevance > 0.5").rows
    web = record(tmp_path / "web", [collection.folder], labels="judged").web
    assert web.labels == {path: [web.number(url)]}


# -- what is done on the way

LINKS = """<html><head><meta http-equiv="refresh" content="5; URL=there.html"><link rel="canonical" href='/wp/a.html'></head>
<body><a class=x href=../b.html>b</a> <A HREF = "c.html#part&amp;x">c</A> <a href='/d?q=1&amp;r=2'>d</a> <a href="#here">h</a>
<a href="http://other.test/e">e</a> <a href="mailto:x@one.test">m</a> <a href="">self</a> <a href="caf%C3%A9.html">f</a>
<a href="kaffee\xe4.html">g</a> <area href="http://one.test/map"> <iframe src="frame.html"></iframe> <a title="a > b" href=z>z</a>"""


@pytest.mark.parametrize("base", ["", '<base href="/deep/er/">', '<base href="http://other.test/">'])
@pytest.mark.parametrize("coded", ["", "gzip"])
def test_spreading_keeps_the_graph(base: str, coded: str, tmp_path: Path) -> None:
    """After spreading, every link leads where it led before, at its new place, also in packed pages."""
    url = "http://one.test/wp/page.html"
    text = (base + LINKS).encode()
    headers = [("Content-Type", "text/html; charset=utf-8")] + ([("Content-Encoding", coded)] if coded else [])
    source = make_web(tmp_path / "source", [page(url, gzip.compress(text) if coded else text, headers=headers)])
    web = record(tmp_path / "web", [source.folder], spread_hosts=7).web
    spread = HostSpread(7)
    list(spread.answers(page(url)))  # it learns the host from the first page
    settings = Settings()
    analyzer = Analyzer(settings.traps, settings.robots, settings.store)
    before = analyzer.analyze(text, "text/html; charset=utf-8", url)
    after = analyzer.analyze(web.body(0), "text/html; charset=utf-8", web.urls[0])
    assert before is not None
    assert after is not None
    assert web.urls == [spread.url(url)]
    own = {url, spread.url(url)}
    assert [spread.url(link.url) for link in before.links if link.url not in own] == [
        link.url for link in after.links if link.url not in own
    ]
    assert len(before.links) > 6
    assert [link.anchor for link in before.links] == [link.anchor for link in after.links]
    assert after.canonical == spread.url(before.canonical)
    assert b"content-encoding" not in web.head(0).lower()


def test_spreading_a_site(tmp_path: Path) -> None:
    """One host becomes many, all used, with its rules on each; redirects follow, other hosts stay."""
    site = [page(f"http://one.test/{n}", f'<a href="{n + 1}">next</a>', (f"t{n}",)) for n in range(60)]
    site += [redirect("http://one.test/old", "/1"), page("http://two.test/", '<a href="http://one.test/5">5</a>')]
    site.append(page("http://one.test/robots.txt", "User-agent: *", headers=[("Content-Type", "text/plain")]))
    source = make_web(tmp_path / "source", site)
    web = record(tmp_path / "web", [source.folder], spread_hosts=4).web
    hosts = {host_of(url) for url in web.urls}
    assert hosts == {*(f"one-test-{i}.test" for i in range(4)), "two.test"}
    assert sum(url.endswith("/robots.txt") for url in web.urls) == 4
    assert len(web) == 60 + 1 + 1 + 4
    spread = HostSpread(4)
    list(spread.answers(site[0]))
    for n in range(60):
        number = web.number(spread.url(f"http://one.test/{n}"))
        assert web.topics(number) == (f"t{n}",)
        assert web.body(number).decode() == f'<a href="{spread.url(f"http://one.test/{n + 1}")}">next</a>'
    assert web.redirect(web.number(spread.url("http://one.test/old"))) == spread.url("http://one.test/1")
    assert spread.url("http://one.test/5").encode() in web.body(web.number("http://two.test/"))


def test_dropping_and_joining(tmp_path: Path) -> None:
    """Several sources become one web; what matches a pattern is left out of it."""
    one = make_web(tmp_path / "one", town())
    two = make_web(tmp_path / "two", [page("http://x.test/"), page("http://x.test/index/a")])
    report = record(tmp_path / "web", [one.folder, two.folder], drop=["*/index/*", "*h1.town*"])
    assert set(report.web.urls) == {url for url in one.urls if "h1.town" not in url} | {"http://x.test/"}
    assert report.dropped == len(one) + len(two) - len(report.web)
    copy = record(tmp_path / "copy", [one.folder]).web
    assert copy.digest == one.digest


def test_the_command(tmp_path: Path) -> None:
    """`opilio record` says what it made; a wrong source is an error that names it."""
    make_web(tmp_path / "one", town())
    told = CliRunner().invoke(cli, ["record", str(tmp_path / "web"), "--from", str(tmp_path / "one"), "--drop", "*/3"])
    assert told.exit_code == 0, told.output
    web = RecordedWeb.open(tmp_path / "web")
    assert web.digest in told.output
    assert f"{web.info.pages} pages" in told.output
    assert "4 answers were left out" in told.output
    for source in ("nowhere", "one/web.json"):
        failed = CliRunner().invoke(cli, ["record", str(tmp_path / "x"), "--from", str(tmp_path / source)])
        assert isinstance(failed.exception, InputError)
        assert source in failed.exception.message
        assert failed.exception.hint
