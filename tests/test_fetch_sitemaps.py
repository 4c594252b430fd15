"""Sitemaps of every form, and files that only look like one."""

from __future__ import annotations

import gzip
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.fetch import parse_sitemap
from opilio.model import normalize

URL = "https://www.a.example/sitemap.xml"


def urlset(*urls: str) -> bytes:
    """A sitemap of these URLs."""
    entries = "".join(f"<url><loc>{url}</loc><lastmod>2026-01-01</lastmod></url>" for url in urls)
    return (
        f'<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'.encode()
    )


def test_urlset() -> None:
    """URLs are unescaped, brought to normal form, taken once and in order."""
    body = urlset(
        "\n https://a.example/b?x=1&amp;y=2 ", "https://www.a.example/A#top", "https://a.example/b?x=1&amp;y=2"
    )
    assert parse_sitemap(body, URL, 10) == (["https://a.example/b?x=1&y=2", "https://www.a.example/A"], False)


def test_index() -> None:
    """A sitemap index is told from a sitemap."""
    body = b"<!-- <urlset> --><sitemapindex><sitemap><loc>https://a.example/1.xml.gz</loc></sitemap></sitemapindex>"
    body = body.replace(b"<!-- <urlset> -->", b"<?xml version='1.0'?>")
    assert parse_sitemap(body, URL, 10) == (["https://a.example/1.xml.gz"], True)


def test_gzip_cdata_prefixes_and_images() -> None:
    """A gzipped file, CDATA and namespace prefixes are read; locations of images are not pages."""
    body = (
        b"<s:urlset><s:url><s:loc><![CDATA[https://a.example/x?a=1&b=2]]></s:loc>"
        b"<image:image><image:loc>https://a.example/i.png</image:loc></image:image></s:url></s:urlset>"
    )
    assert parse_sitemap(gzip.compress(body), URL, 10) == (["https://a.example/x?a=1&b=2"], False)


def test_plain_text() -> None:
    """A text file is a list of URLs, one a line."""
    body = b"https://a.example/1\r\n\r\n# no\nhttps://a.example/2\nftp://a.example/3\n"
    assert parse_sitemap(body, URL, 10)[0] == ["https://a.example/1", "https://a.example/2"]


def test_feeds() -> None:
    """RSS and Atom give the links of their entries."""
    rss = b"<rss><channel><link>https://a.example/</link><item><link>https://a.example/1</link></item></channel></rss>"
    atom = (
        b"<feed><link rel='self' href='/feed'/><entry><link href='https://a.example/2'/></entry>"
        b'<entry><link rel="alternate" href="/3"/></entry></feed>'
    )
    assert parse_sitemap(rss, URL, 10)[0] == ["https://a.example/", "https://a.example/1"]
    assert parse_sitemap(atom, URL, 10)[0] == ["https://a.example/2", "https://www.a.example/3"]


def test_a_site_speaks_for_itself_alone() -> None:
    """URLs of another registered domain, and what is no http URL, are left out."""
    body = urlset("https://b.example/", "https://sub.a.example/", "javascript:1", "", "http://a.example.evil.example/")
    assert parse_sitemap(body, URL, 10)[0] == ["https://sub.a.example/"]


def test_limit() -> None:
    """No more URLs are taken than asked for."""
    body = urlset(*(f"https://a.example/{n}" for n in range(100)))
    assert len(parse_sitemap(body, URL, 7)[0]) == 7


def test_utf16() -> None:
    """A byte order mark tells the encoding."""
    body = urlset("https://a.example/é").decode().encode("utf-16")
    assert parse_sitemap(body, URL, 7)[0] == ["https://a.example/%C3%A9"]


def test_entities_are_not_expanded() -> None:
    """A document type with entities that multiply is plain text to us."""
    lol = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    body = f'<!DOCTYPE x [<!ENTITY l0 "lol">{lol}<!ENTITY f SYSTEM "file:///etc/passwd">]>'.encode()
    body += urlset("https://a.example/&l9;&f;", "https://a.example/ok")
    urls, _ = parse_sitemap(body, URL, 10)
    assert urls == ["https://a.example/&l9;&f;", "https://a.example/ok"]


def test_cut_files_give_what_they_hold() -> None:
    """A file that breaks off, packed or not, gives the URLs before the break."""
    body = urlset(*(f"https://a.example/{n * n * 7919}" for n in range(3000)))
    assert len(parse_sitemap(body[: len(body) // 2], URL, 5000)[0]) > 1000
    packed = gzip.compress(body)
    assert len(parse_sitemap(packed[: len(packed) // 2], URL, 5000)[0]) > 500


@pytest.mark.parametrize("unit", [b"<loc>", b"<", b"<loc ", b"<loc> <![CDATA[", b" ", b"<link ", b"<link>", b"<a:"])
def test_hostile_repetition_is_linear(unit: bytes) -> None:
    """A megabyte of half-open elements costs no more than reading it."""
    for root in (b"<urlset>", b"<rss>"):
        begin_s = time.process_time()
        parse_sitemap(root + unit * (1_000_000 // len(unit)), URL, 10)
        assert time.process_time() - begin_s < 2


@given(st.binary(max_size=2000))
def test_any_bytes_are_survived(body: bytes) -> None:
    """Garbage gives URLs in normal form or none, never an exception."""
    for data in (body, b"\x1f\x8b" + body, b"<urlset><loc>" + body, b"<rss><link>" + body):
        urls, _ = parse_sitemap(data, URL, 10)
        assert all(normalize(url) == url for url in urls)
