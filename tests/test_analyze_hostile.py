"""Pages made to break us: nothing raises, nothing takes long, everything that comes out is sound."""

from __future__ import annotations

import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.analyze import Analyzer
from opilio.analyze.markup import read_markup
from opilio.model import Document, normalize, url_key
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings

URL = "http://site.test/docs/page.html"
MAX_CPU_S = 3.0
"""Generous, for slow machines: each page takes well under one second."""

HOSTILE = {
    "nested blocks": b"<div>" * 100_000 + b"x",
    "nested inline": b"<b>" * 100_000 + b"x",
    "nested tables": b"<table><tr><td>" * 30_000 + b"x",
    "nested links": b"<a href=x>y<div>" * 20_000,
    "nested drawings": b"<svg><a href=x><text>" * 20_000,
    "nested navigation": b"<nav><a href=/x>y</a>" * 20_000,
    "nested lists": b"<ul><li>" * 50_000,
    "nested templates": b"<template>" * 20_000 + b"<a href=x>t</a>",
    "nested formatting": b"<b><i><u><s>" * 2_000 + b"<p>" * 2_000 + b"</b></i>" * 2_000,
    "nested hidden": b"<div hidden>" * 50_000,
    "unclosed quotes": b"<quote>" * 1000 + b"<a href='" * 100_000,
    "attributes": b"<a " + b" ".join(b"a%d=1" % i for i in range(50_000)) + b" href=/x>z</a>",
    "brackets": b"<" * 10_000_000,
    "open tags": b"<a" * 3_000_000,
    "ampersands": b"&" * 5_000_000,
    "entities": b"&amp;&CounterClockwiseContourIntegral;" * 200_000,
    "zero bytes": b"<p>a" + b"\0" * 5_000_000 + b"b",
    "comments": b"<!--" * 1_000_000,
    "spaces": b"<pre>" + b" " * 5_000_000 + b"x",
    "long address": b"<a href='" + b"x" * 5_000_000 + b"'>a</a>",
    "long base": b"<base href='/" + b"x" * 1_000_000 + b"/'>" + b"<a href=y>a</a>" * 1000,
    "long word": b"x" * 5_000_000,
    "many links": b"<a href=x>" * 100_000,
    "many distinct links": b"".join(b"<a href=/%d>%d</a> " % (i, i) for i in range(100_000)),
    "many metas": b"<meta name=robots content=none>" * 100_000,
    "refresh": b"<meta http-equiv=refresh content='" + b"1 ; " * 500_000 + b"'>",
    "xhtml": b"<script " * 500_000,
    "block in link": b"<a href=/x>" + b"<p>word</p>" * 100_000 + b"</a>",
    "preformatted": b"<pre><a href=x>y\n" * 50_000,
    "regions": b"<nav>a</nav>" * 100_000,
    "cells": b"<table><tr>" + b"<td>a" * 200_000,
    "random controls": bytes(range(32)) * 10_000,
    "nothing": b"",
}


def check(page: Document | None) -> None:
    """What must hold of every document."""
    assert page is not None
    encoded = msgspec.msgpack.encode(page)  # encodes strings as UTF-8: fails on lone surrogates
    assert msgspec.msgpack.decode(encoded, type=Document) == page
    for text in (page.text, page.main_text):
        assert all(line and line == " ".join(line.split()) for line in text.split("\n")) or not text
    assert len(page.text) <= 500_000
    assert len(page.term_ids) == 2 * len(page.term_counts)
    assert len(page.shingles) in (0, 256)
    assert len(page.links) <= TrapSettings().max_links_per_page
    assert len({(link.url, link.anchor) for link in page.links}) == len(page.links)
    assert [link.position for link in page.links] == sorted({link.position for link in page.links})
    for link in page.links:
        assert normalize(link.url) == link.url != URL
        assert link.key == url_key(link.url)
        assert link.anchor == " ".join(link.anchor.split()) or len(link.anchor) == 200
        assert max(len(link.anchor), len(link.context)) <= 200
        assert "\x01" not in link.anchor + link.context


@pytest.mark.parametrize("mime", ["text/html", "application/xhtml+xml"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_page(name: str, mime: str) -> None:
    """Each page is read within seconds of CPU time, whatever it does."""
    analyzer = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings())
    started_s = time.process_time()
    page = analyzer.analyze(HOSTILE[name], mime, URL)
    assert time.process_time() - started_s < MAX_CPU_S
    check(page)


@pytest.mark.parametrize("name", ["brackets", "spaces", "long word", "nothing", "entities"])
def test_hostile_text(name: str) -> None:
    """The same bytes as plain text."""
    check(Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()).analyze(HOSTILE[name], "text/plain", URL))


def test_surrogates() -> None:
    """Surrogates, as entities or as bytes, in text, attributes and addresses, come out as replacement characters."""
    body = b"<title>&#xD800;\xed\xa0\x80</title><a href='/&#xDFFF;\xed\xb0\x80' title='&#55357;'></a>&#xDABC;"
    for charset in ("utf-8", "utf-16", "windows-1252", "x"):
        page = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()).analyze(
            body, f"text/html; charset={charset}", URL
        )
        check(page)
    page = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()).analyze(
        b"\x00\xd8x\x00\x00\xdc", "text/html; charset=utf-16le", URL
    )
    check(page)


_PIECES = [
    *("<p>", "</p>", "<div>", "</div>", "<a href=x>", "<a href='/y?a=1&b=2'>", "</a>", "<a>", "<b>", "</b>", "<ul>"),
    *("<li>", "</ul>", "<table>", "<tr>", "<td>", "</table>", "<nav>", "</nav>", "<main>", "</main>", "<article>"),
    *("<footer>", "</footer>", "<header>", "<aside>", "<img alt=pic>", "<br>", "<script>", "</script>", "<style>"),
    *("<svg>", "</svg>", "<title>", "</title>", "<base href=/z/>", "<iframe src=f>", "</iframe>", "<frameset>"),
    *("<frame src=g>", "<select>", "<option>", "<template>", "</template>", "<template shadowrootmode=open>", "<form>"),
    *("<map><area href=h alt=H>", "<pre>", "</pre>", "<button>", "<ruby><rt>", "<rp>", "<math>", "<object>", "<x-y>"),
    *("<span role=main>", "</span>", "<dialog>", "<p hidden>", "<caption>", "<noscript>", "<textarea>", "<![CDATA["),
    *("<meta name=robots content=none>", "<meta http-equiv=refresh content='0;url=r'>", "<link rel=canonical href=c>"),
    *("word", " ", "\n", "two words", "&nbsp;", "&shy;", "&#1;", "&#2;", "&amp;", "\x00", "\x01", "\u2028", "é"),
    *("<a href='http://u:p@h.test:80/%7e/../q;sid=1?utm_source=x#f'>", "<a href='//[::1]/'>", "<a href='http://['>"),
    *("<a href=' \t?q= '>", "<a href='\x01x'>", "<a href='mailto:a'>", "<a rel=nofollow href=n>", "<!--", "-->", "<"),
]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(_PIECES) | st.text(max_size=8), max_size=60).map("".join))
def test_random_soup(html: str) -> None:
    """Tags in any order and nesting make a sound document."""
    check(
        Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()).analyze(
            html.encode("utf-8", "replace"), "text/html", URL
        )
    )


@settings(max_examples=100)
@given(
    st.binary(max_size=300),
    st.sampled_from(
        ["utf-8", "utf-16", "utf-16be", "shift_jis", "gbk", "koi8-r", "hz-gb-2312", "iso-2022-jp", "", "?"]
    ),
    st.dictionaries(st.sampled_from(["x-robots-tag", "link"]), st.text(max_size=40)),
)
def test_random_bytes(body: bytes, charset: str, headers: dict[str, str]) -> None:
    """So do any bytes in any charset, with any headers."""
    page = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()).analyze(
        b"<p>" + body, f"text/html; charset={charset}", URL, headers
    )
    check(page)


@settings(max_examples=100)
@given(st.lists(st.sampled_from(_PIECES), max_size=40))
def test_anchors_are_those_of_the_tree(pieces: list[str]) -> None:
    """Numbered links in any soup keep their own number as anchor: places are never shifted from one link to another."""
    html = "".join(f"{piece}<a href=/link{number}>n{number}</a>" for number, piece in enumerate(pieces))
    page = Analyzer(TrapSettings(), RobotsSettings(), StoreSettings()).analyze(html.encode(), "text/html", URL)
    assert page is not None
    for link in page.links:
        if link.url.startswith("http://site.test/link") and link.anchor:
            number = link.url.removeprefix("http://site.test/link")
            assert link.anchor.split()[0].startswith(f"n{number}")


@settings(max_examples=200)
@given(st.lists(st.sampled_from(_PIECES), max_size=40).map("".join))
def test_no_link_is_lost_in_rendering(html: str) -> None:
    """Every link that is shown, but those of framesets and drawings, has a span in the rendered text, for its place and
    context."""
    page = read_markup(html.encode(), "utf-8", 1000, hidden_links=False)
    elements = page.links.elements
    with_span = [element for element in elements if element.tag != "frame" and element.namespace.value == "html"]
    assert len(page.link_spans) == len(with_span)
    assert elements[: len(with_span)] == with_span
