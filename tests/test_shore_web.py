"""The web of the demo: well-formed, true to what it says about itself, and a good place for a crawl."""

from __future__ import annotations

import dataclasses
import http.client
import io
import re
import struct
import zlib
from collections import Counter
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pypdfium2
import pytest
from click.testing import CliRunner

from opilio import Collection
from opilio.analyze.language import language_of
from opilio.cli import demo as demo_module
from opilio.lab.local_web import LocalServer, LocalWeb
from opilio.lab.shore_web import weave
from opilio.lab.shore_web.pictures import HEIGHT_PX, MOTIFS, WIDTH_PX, picture
from opilio.lab.shore_web.sites import WEBSITES
from opilio.lab.shore_web.texts import FOLDER, TOPICS, Article, read_articles

LINK = re.compile(r'(?:href|src|content)="([^"#]+)"')
MIN_WORDS = 120
MAX_TEXT_BYTES = 400_000


@pytest.fixture(scope="module")
def web() -> LocalWeb:
    """The web, woven once: drawing its pictures takes some seconds."""
    return weave()


@pytest.fixture(scope="module")
def articles() -> list[Article]:
    """Its texts."""
    return read_articles()


def pixels(body: bytes) -> tuple[int, int, bytes]:
    """Width, height and rows of a PNG file, read by an independent reader that checks every sum."""
    assert body.startswith(b"\x89PNG\r\n\x1a\n")
    at, parts = 8, []
    while at < len(body):
        (length,) = struct.unpack_from(">I", body, at)
        kind, data = body[at + 4 : at + 8], body[at + 8 : at + 8 + length]
        assert struct.unpack_from(">I", body, at + 8 + length)[0] == zlib.crc32(kind + data)
        parts.append((kind, data))
        at += length + 12
    assert [kind for kind, _ in parts] == [b"IHDR", b"IDAT", b"IEND"]
    width, height, depth, colours = struct.unpack_from(">IIBB", parts[0][1])
    rows = zlib.decompress(parts[1][1])
    assert (depth, colours, len(rows)) == (8, 2, height * (3 * width + 1))
    return width, height, rows


def test_every_link_resolves_or_is_listed_as_dead(web: LocalWeb) -> None:
    """No link, picture, icon or feed of a page leads nowhere by mistake, no dead one leads somewhere, none leaves."""
    there = web.pages.keys() | web.redirects.keys() | web.files.keys()
    linked: set[str] = set()
    for page in web.pages.values():
        if page.content_type.startswith("text/html"):
            found = {urljoin(page.url, href) for href in LINK.findall(page.body.decode()) if "/" in href}
            linked |= {url for url in found if url.startswith("http://")}
    assert linked - there == web.dead
    assert not web.dead & there
    assert {urlsplit(url).hostname for url in linked} <= {*web.hosts, "gone.test"}
    assert {target for _, target in web.redirects.values()} <= web.pages.keys() | web.redirects.keys()


def test_all_pages_can_be_reached_from_a_bookmark(web: LocalWeb) -> None:
    """A crawl that follows every link from one page meets all others."""
    seen, queue = set(), [web.seeds("Moths", 1)[0]]
    while queue:
        url = queue.pop()
        while url in web.redirects:
            url = web.redirects[url][1]
        if url in seen or url not in web.pages:
            continue
        seen.add(url)
        if web.pages[url].content_type.startswith("text/html"):
            queue += [urljoin(url, href) for href in LINK.findall(web.pages[url].body.decode())]
    assert seen == web.pages.keys()


def test_it_has_the_size_and_the_troubles_of_a_web(web: LocalWeb) -> None:
    """Some hundred pages on some dozen hosts, most not on a topic; copies, redirects, drafts, feeds, PDF are there."""
    assert 350 <= len(web.pages) <= 450
    assert 35 <= len(web.hosts) <= 45
    assert 0.3 <= sum(bool(page.topic) for page in web.pages.values()) / len(web.pages) <= 0.5
    assert len(web.copies) > 20
    assert len(web.dead) > 30
    assert web.noindex
    assert all(
        b"Disallow: /drafts/" in web.files[f"http://{urlsplit(url).hostname}/robots.txt"][1] for url in web.noindex
    )
    assert sum(url.endswith("/feed.xml") for url in web.files) == len(WEBSITES) + 1  # the mirror
    assert sum(url.endswith("/sitemap.xml") for url in web.files) == 3
    for page in (page for page in web.pages.values() if page.content_type == "application/pdf"):
        text = pypdfium2.PdfDocument(io.BytesIO(page.body))[0].get_textpage().get_text_range()
        assert len(text.split()) > MIN_WORDS


def test_labels_are_complete_and_consistent(web: LocalWeb, articles: list[Article]) -> None:
    """Each topic has its articles in all four languages and bookmarks of them; a copy has its original's label."""
    topics = {topic for topic in TOPICS.values() if topic}
    assert set(web.topics) == topics
    assert {page.topic for page in web.pages.values()} == topics | {""}
    assert all(web.pages[copy].topic == web.pages[url].topic for copy, url in web.copies.items())
    for topic in topics:
        languages = Counter(article.language for article in articles if article.topic == topic)
        assert languages["en"] >= 10
        assert min(languages["de"], languages["fr"]) >= 2
        assert languages["es"] >= 1
        seeds = web.seeds(topic, 6)
        assert len(set(seeds)) == 6
        assert {web.pages[url].topic for url in seeds} == {topic}
    assert "noindex" not in web.bookmarks()


def test_articles_are_long_enough_and_in_their_language(web: LocalWeb, articles: list[Article]) -> None:
    """Every text is worth reading, is in the language it declares by Opilio's own recogniser, and names real slugs."""
    slugs = {article.slug for article in articles}
    assert len(slugs) == len(articles) >= 100
    assert len({article.title for article in articles}) == len(articles)
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < MAX_TEXT_BYTES
    for article in articles:
        text = "\n".join(article.plain)
        assert len(text.split()) >= MIN_WORDS, article.slug
        assert language_of(text, "") == article.language, article.slug
        assert set(article.links) <= slugs - {article.slug}
        assert article.motif in MOTIFS
    for site in WEBSITES:
        front = web.pages[f"http://{site.host}{site.index}"]
        assert f'<html lang="{site.language}">' in front.body.decode()


def test_pictures_are_valid_and_all_different(web: LocalWeb, articles: list[Article]) -> None:
    """Each article has a PNG of its own with many colours, each host an icon, and a second drawing is the same."""
    drawn = {url: body for url, (_, body) in web.files.items() if "/pictures/" in url and "mirror.test" not in url}
    assert len(drawn) == len(articles)
    assert len(set(drawn.values())) == len(drawn)
    for body in drawn.values():
        width, height, rows = pixels(body)
        assert (width, height) == (WIDTH_PX, HEIGHT_PX)
        assert len(set(rows)) > 20
    icons = {url: body for url, (_, body) in web.files.items() if url.endswith(("/icon.png", "/favicon.ico"))}
    without = {"old-lamproom.test"}  # all its addresses have moved
    assert {urlsplit(url).hostname for url in icons} == set(web.hosts) - without
    assert len(set(icons.values())) > 30
    assert all(pixels(body)[0] == pixels(body)[1] for body in icons.values())
    first = articles[0]
    assert picture(first.motif, first.slug) == drawn[f"http://{first.host}/pictures/{first.slug}.png"]


def test_the_demo_ends_with_a_good_collection(tmp_path: Path, web: LocalWeb, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole demo runs, and most of what it accepts is filed where it belongs, as is most of what it fetched."""
    ready = dataclasses.replace(demo_module.WEBS["shore"], make=lambda: web)
    monkeypatch.setitem(demo_module.WEBS, "shore", ready)
    result = CliRunner().invoke(
        demo_module.demo, ["--folder", str(tmp_path / "demo"), "--max-pages", "140", "--no-portal", "--quiet"]
    )
    assert result.exit_code == 0, result.output
    assert "judged relevant" in result.output
    collection = Collection(tmp_path / "demo" / "shore")
    score = demo_module.score(collection, web, web.topics)
    assert score.precision > 0.6
    assert score.recall > 0.6
    assert (tmp_path / "demo" / "site" / "index.html").exists()


def test_the_server_sends_pictures_and_booklets_as_what_they_are(web: LocalWeb) -> None:
    """Pictures arrive as image/png and booklets as application/pdf, byte for byte."""
    drawn = next(url for url in web.files if "/pictures/" in url)
    expected = (
        (drawn, "image/png", web.files[drawn][1]),
        ("http://lamproom.test/booklet.pdf", "application/pdf", web.pages["http://lamproom.test/booklet.pdf"].body),
    )
    with LocalServer(web) as server:
        for url, kind, body in expected:
            connection = http.client.HTTPConnection(server.address)
            connection.request("GET", urlsplit(url).path, headers={"Host": urlsplit(url).hostname or ""})
            response = connection.getresponse()
            assert (response.status, response.headers["Content-Type"], response.read()) == (200, kind, body)
            connection.close()
