"""Pictures of relevant pages and icons of their sites: found, fetched politely, stored, shown and published."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from browser import chromium
from drawn_pictures import gif, ico, jpeg, png, webp
from fetch_servers import WebServer, html, reply
from killed_crawls import kill_a_crawl
from opilio import Collection
from opilio.analyze import Analyzer
from opilio.analyze.pictures import read_picture
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings
from opilio.web.publishing import publish
from running_crawls import ORDERLESS
from web_portal import Portal

OWLS = "Owls hunt at night. The owl sees in the dark, and an owl hears a mouse. " * 3
TALK = "Trains leave on time from the station of the town. " * 3
PAGES = {
    "/": ("Owls of the world", OWLS, "", ["/barn", "/snow", "/list", "/far", "/big", "/lie", "/trains", "/none"]),
    "/barn": ("Barn owl", f"{OWLS} barn", '<meta property="og:image" content="/barn.png">', []),
    "/snow": ("Snowy owl", f"{OWLS} snow", '<meta name="twitter:image" content="moved.png">', []),
    "/list": (
        "Owl list",
        f"{OWLS} list <img src=dot.png width=1 height=1><img src=list.png width=300 height=200>",
        "",
        [],
    ),
    "/far": ("Far owl", f"{OWLS} far", '<meta property="og:image" content="http://pictures.test/secret/far.png">', []),
    "/big": ("Big owl", f"{OWLS} big", '<meta property="og:image" content="/big.png">', []),
    "/lie": ("Lying owl", f"{OWLS} lie", '<meta property="og:image" content="/lie.png">', []),
    "/trains": ("Trains", TALK, '<meta property="og:image" content="/trains.png">', []),
    "/none": ("Plain owl", f"{OWLS} plain", "", []),
}


def page(title: str, text: str, head: str, links: list[str]) -> bytes:
    anchors = " ".join(f'<a href="{link}">owl {link}</a>' for link in links)
    return html(f"<title>{title}</title>{head}<link rel=icon href=/icon.svg><body><p>{text}</p>{anchors}".encode())


@pytest.fixture
def server() -> Iterator[WebServer]:
    """Pages about owls with pictures, good and bad, on any host."""
    image = {"Content_Type": "image/png"}
    routes: dict[str, Any] = {path: page(*told) for path, told in PAGES.items()}
    routes |= {
        "/robots.txt": html(b"User-agent: *\nDisallow: /secret/\n"),
        "/favicon.ico": reply(ico(16, 32)),
        "/barn.png": reply(png(400, 300), **image),
        "/moved.png": reply(status="302 Found", Location="/snow.png"),
        "/snow.png": reply(png(320, 200, (20, 60, 200)), Content_Type="text/plain"),
        "/list.png": reply(png(300, 200, (20, 160, 20)), **image),
        "/big.png": reply(b"\x89PNG\r\n\x1a\n" + random.Random(1).randbytes(400_000), **image),
        "/lie.png": reply(b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>", **image),
        "/trains.png": reply(png(300, 200), **image),
    }
    with WebServer(routes) as made:
        yield made


@pytest.fixture
def collection(server: WebServer, tmp_path: Path) -> Collection:
    """A collection about owls that starts at their list."""
    (tmp_path / "seeds.txt").write_text("http://birds.test/")
    settings: dict[str, Any] = {
        "fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0, "fetch.backoff_s": 0.05,
        "store.batch_s": 0.1, "run.workers": -1, **{k.replace("__", "."): v for k, v in ORDERLESS.items()},
    }  # fmt: skip
    return Collection.create(tmp_path / "owls", seeds=tmp_path / "seeds.txt", query="owl", settings=settings)


def outcomes(collection: Collection) -> dict[str, str]:
    rows = collection.sql("SELECT url, outcome || coalesce(' ' || width || 'x' || height, '') FROM pictures").rows
    return {url.removeprefix("http://birds.test"): said for url, said in rows}


EXPECTED = {
    "/favicon.ico": "ok 32x32", "/barn.png": "ok 400x300", "/moved.png": "ok 320x200", "/list.png": "ok 300x200",
    "http://pictures.test/secret/far.png": "robots", "/big.png": "too-large", "/lie.png": "wrong-type",
}  # fmt: skip


def test_the_bytes_of_a_picture_say_what_it_is() -> None:
    """Five formats with their sizes; drawings, texts, broken, cut and enormous files are none, and nothing raises."""
    real = {
        "image/png": png(7, 5), "image/gif": gif(7, 5), "image/jpeg": jpeg(7, 5), "image/x-icon": ico(7),
    }  # fmt: skip
    for mime_type, data in real.items():
        read = read_picture(data)
        assert read is not None and (read.content_type, read.data) == (mime_type, data)
        assert (read.width, read.height) == ((7, 7) if mime_type == "image/x-icon" else (7, 5))
    for kind in ("VP8X", "VP8L", "VP8 "):
        read = read_picture(webp(7, 5, kind))
        assert read is not None and (read.content_type, read.width, read.height) == ("image/webp", 7, 5)
    for bad in (
        b"",
        b"<svg/>",
        b"\xef\xbb\xbf<svg/>",
        b"%PDF-1.7",
        gif(0, 5),
        gif(7, 10_001),
        b"RIFF1234WAVEfmt ",
        ico(),
    ):
        assert read_picture(bad) is None
    chance = random.Random(1)
    for data in (*real.values(), *(webp(7, 5, kind) for kind in ("VP8X", "VP8L", "VP8 "))):
        for cut in range(min(60, len(data))):
            read_picture(data[:cut])
            read_picture(data[:cut] + chance.randbytes(40))


def test_a_page_names_its_picture_and_its_icon() -> None:
    """The picture for previews, else the first large one of the content: no decoration, no logo of the header, no
    embedded data; an icon that is no drawing. Addresses are resolved against the base of the page."""
    analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())

    def named(text: str) -> tuple[str, str]:
        document = analyzer.analyze(text.encode(), "text/html", "http://x.test/a/b.html")
        assert document is not None
        return document.picture.removeprefix("http://x.test"), document.icon.removeprefix("http://x.test")

    assert named('<base href="/c/"><meta property="og:image" content="p.png"><img src=q.png width=900 height=900>') == (
        "/c/p.png",
        "",
    )
    assert named("<header><img src=logo.png width=300 height=200></header><img src=x.png width=20 height=900>"
                 "<img src=y.png width=300 height=200>") == ("/a/y.png", "")  # fmt: skip
    assert named("<img src=plain.png><figure><a><img src=f.png></a></figure>") == ("/a/f.png", "")
    assert named('<figure><img src="data:image/png;base64,AAAA"></figure><link rel="shortcut icon" href="/i.ico">') == (
        "",
        "/i.ico",
    )
    assert named("<link rel=icon href=/i.svg?v=1><link rel=apple-touch-icon href=//y.test/t.png>") == (
        "",
        "http://y.test/t.png",
    )
    assert named('<meta property="og:image" content="javascript:alert(1)">') == ("", "")


def test_a_crawl_fetches_the_pictures_of_relevant_pages(collection: Collection, server: WebServer) -> None:
    """Those and no others, each once, by the rules of robots.txt, within the limits of size and type, redirects
    followed; they are no pages in any figure, and what was fetched is not fetched again by the next crawl."""
    status = collection.crawl()
    assert outcomes(collection) == EXPECTED
    assert "/trains.png" not in server.paths() and "/secret/far.png" not in server.paths()
    assert "/dot.png" not in server.paths() and "/icon.svg" not in server.paths()
    assert all(server.paths().count(path) == 1 for path in ("/favicon.ico", "/barn.png", "/moved.png", "/snow.png"))
    assert status.pages == len(PAGES) == collection.status().pages
    assert collection.sql("SELECT count(*) FROM crawl").rows == [(len(PAGES),)]
    assert status.counters["pictures"] == 4
    kinds = (
        "SELECT kind, count(*), count(nullif(warc_file, '')) FROM visits WHERE kind IN ('picture', 'icon') GROUP BY 1"
    )
    assert {kind: (made, kept) for kind, made, kept in collection.sql(kinds).rows} == {
        "icon": (1, 1),
        "picture": (6, 6),
    }
    before = len(server.requests)
    collection.crawl()
    assert outcomes(collection) == EXPECTED and len(server.requests) - before <= 2  # robots.txt at most


def test_pictures_can_be_limited_and_turned_off(collection: Collection, server: WebServer) -> None:
    """At most so many for a host, icons beside; 0 requests none, and pages do not even note their addresses."""
    collection.crawl(settings={"fetch.pictures_per_host": 0})
    assert outcomes(collection) == {} and "/favicon.ico" not in server.paths()
    assert collection.sql("SELECT count(*) FROM page_pictures").rows == [(0,)]
    collection.sql("INSERT INTO page_pictures SELECT oid, sid, url || '.png', '' FROM crawl", write=True)
    collection.crawl(settings={"fetch.pictures_per_host": 2})
    assert sum(url != "/favicon.ico" for url in outcomes(collection)) == 2


def test_a_killed_crawl_gets_its_pictures_later(collection: Collection, server: WebServer) -> None:
    """What was not stored when it was killed is found again by the next crawl; what was, is not requested again."""
    kill_a_crawl(collection, 0.3, lambda: "/barn" in server.paths())
    stored = {url for url, said in outcomes(collection).items() if said.startswith("ok")}
    before = len(server.paths())
    collection.crawl()
    assert outcomes(collection) == EXPECTED
    assert not stored & set(server.paths()[before:])


def test_a_new_form_of_a_page_has_a_new_picture(collection: Collection, server: WebServer) -> None:
    """Visited again, a page that names another picture gets that one; the old one is no longer shown."""
    collection.crawl()
    title, text, _, links = PAGES["/barn"]
    server.routes["/barn"] = page(title, f"{text} anew", '<meta property="og:image" content="/new.png">', links)
    server.routes["/new.png"] = reply(png(200, 100))
    collection.sql("UPDATE crawl SET state = 'waiting' WHERE url = 'http://birds.test/barn'", write=True)
    collection.crawl()
    assert outcomes(collection) == EXPECTED | {"/new.png": "ok 200x100"}
    shown = collection.page("http://birds.test/barn")["picture"]
    assert shown == {"url": "http://birds.test/new.png", "width": 200, "height": 100}


def test_the_portal_and_a_published_site_show_them(collection: Collection, tmp_path: Path) -> None:
    """From their own origin, with the type of the bytes and no guessing; a browser decodes them; an address that is
    not stored is no picture; a published site has the files, and a preview of a page its picture."""
    collection.crawl()
    site = tmp_path / "site"
    publish(collection, site, name="Owls", base_url="https://example.org/")
    assert sorted(path.suffix for path in (site / "pictures").iterdir()) == [".ico", ".png", ".png", ".png"]
    barn = next(text for path in (site / "pages").iterdir() if "<h1>Barn owl" in (text := path.read_text("utf-8")))
    assert '<meta property="og:image" content="https://example.org/pictures/' in barn
    with Portal(collection.folder) as portal, chromium() as browser:
        with urlopen(f"{portal.address}/c/owls/picture?url=http://birds.test/favicon.ico") as icon:
            assert icon.headers["content-type"] == "image/x-icon" and icon.read() == ico(16, 32)
            assert icon.headers["x-content-type-options"] == "nosniff"
            assert "sandbox" in icon.headers["content-security-policy"]
        assert portal.get("/c/owls/picture", url="http://birds.test/lie.png")[0] == 404
        page = browser.new_context().new_page()
        page.on("console", lambda message: pytest.fail(message.text) if message.type == "error" else None)
        for front in (f"{portal.address}/c/owls/", (site / "index.html").as_uri()):
            page.goto(front)
            page.wait_for_load_state("networkidle")
            sizes = page.locator(".best img").evaluate_all("all => all.map((one) => [one.className, one.naturalWidth])")
            assert ["icon", 32] in sizes and all(width for _, width in sizes)
            page.locator(".best .title", has_text="Barn owl").or_(
                page.locator(".brief .title", has_text="Barn owl")
            ).first.click()
            assert page.locator("img.page-picture").evaluate("one => one.naturalWidth") == 400
        page.goto(f"{portal.address}/c/owls/search?q=barn+owl")
        found = page.locator("#results li", has_text="Barn owl").first.locator("img")
        assert found.evaluate_all("all => all.map((one) => one.className)") == ["icon", "thumbnail"]
