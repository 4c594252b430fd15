"""Markdown of pages: what is kept, what is left out, and that it is safe whatever the page is."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.analyze.content import Source
from opilio.analyze.html import read_html
from opilio.analyze.markdown import front_matter, markdown, page_markdown, text_markdown
from opilio.analyze.targets import Targets
from opilio.analyze.terms import tokenize
from test_analyze_hostile import HOSTILE, MAX_CPU_S

URL = "http://site.test/docs/page.html"
WORDS = "The owl hunts at night over the marsh and along the hedges, and nobody hears it come or go. "
PAGE = f"""<!doctype html><title>Owls</title><base href="/docs/"><body>
<header><h1>The site of birds</h1></header><nav><ul><li><a href="/">Home</a></ul></nav>
<main><h1>Owls <a href="#top">&para;</a></h1><p>{WORDS * 2}See <a href="barn owl.html?x=1">the barn owl</a>.</p>
<h2>What they eat</h2><ul><li>mice<ul><li>field mice</li></ul></li><li>voles</li></ul>
<p><a href="/a">All pages</a> <a href="/b">about mice</a></p>
<ol><li>wait</li><li>strike</li></ol>
<pre><code class="language-python">for owl in owls:
    print("#", owl)</code></pre>
<table><tr><th>Owl</th><th>Length</th></tr><tr><td>Barn</td><td>35 cm</td></tr></table>
<table><tr><td><h2>Calls</h2><p>It screeches.</p></td></tr></table>
<p hidden>secret</p><aside>Buy a nest box</aside></main>
<footer>Imprint</footer>"""


def test_a_page_keeps_its_structure_and_loses_its_boilerplate() -> None:
    """Headings, nested and numbered lists, links, code with its language and tables are there; the rest is not."""
    written = markdown(PAGE, URL)
    assert written.startswith("# Owls\n\nThe owl hunts")
    assert "See [the barn owl](http://site.test/docs/barn%20owl.html?x=1)." in written
    assert "\n\n## What they eat\n\n- mice\n  - field mice\n" in written
    assert "1. wait\n2. strike" in written
    assert '```python\nfor owl in owls:\n    print("#", owl)\n```' in written
    assert "| Barn | 35 cm |" in written
    assert "## Calls\n\nIt screeches." in written, "a table for layout is no table"
    for gone in ("site of birds", "Home", "All pages", "secret", "nest box", "Imprint", "\u00b6"):
        assert gone not in written


def test_the_words_are_those_of_the_main_text() -> None:
    """Two renderings of one page, this and the main text, have the same words, but for code fences and addresses."""
    content = read_html(PAGE.encode(), Source(URL, "utf-8", Targets(), 100))
    assert content is not None
    shown = markdown(PAGE.replace("href=", "data-href="), URL)
    kept = set(tokenize(content.main_text))
    assert kept <= {*tokenize(shown)}
    links_and_marks = {*tokenize("all pages about python 1 2 3")}  # without addresses, a line of links is text
    assert {*tokenize(shown)} - kept <= links_and_marks


def test_a_list_of_links_keeps_them() -> None:
    """Of a page with hardly more than links, the links are what it says; menus still go."""
    written = markdown("<nav><a href=/>Home</a></nav><h1>Owls</h1><ul><li><a href=/a>Barn owl</a></ul>", URL)
    assert written == "# Owls\n\n- [Barn owl](http://site.test/a)"


def test_a_page_that_is_all_links_is_kept_whole() -> None:
    """If nothing is left without boilerplate, the whole page is used: a hub is its links."""
    written = markdown("<nav><ul><li><a href=/a>Barn owl</a><li><a href=/b>Tawny owl</a></ul></nav>", URL)
    assert written == "- [Barn owl](http://site.test/a)\n- [Tawny owl](http://site.test/b)"


@pytest.mark.parametrize(
    "html",
    [
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "<a href='javascript:alert(1)'>x</a>",
        "<a href=' java\nscript:alert(1)'>x</a>",
        "<a href='/x' title='\"><script>alert(1)</script>'>x</a>",
        "<td><table><tr><td>&lt;img src=x onerror=alert(1)&gt;</table>",
        "<img src=x onerror=alert(1) alt='![x](javascript:alert(1))'>",
        "[x](javascript:alert&#40;1&#41;)",
        "<code>`</code>&lt;script&gt;alert(1)&lt;/script&gt;",
    ],
)
def test_markdown_of_a_hostile_page_shows_as_text(html: str) -> None:
    """No script, handler or address of a script survives when the Markdown is rendered as HTML."""
    from markdown_it import MarkdownIt

    rendered = MarkdownIt("commonmark", {"html": True}).render(markdown(f"<main><p>{html} and words</main>", URL))
    assert "<script" not in rendered
    assert "<img" not in rendered
    assert 'href="javascript' not in rendered


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pages_take_no_time(name: str) -> None:
    """Whatever the page is, its Markdown comes soon, and can be written as UTF-8."""
    started_s = time.process_time()
    markdown(HOSTILE[name][:1_000_000], URL).encode()
    assert time.process_time() - started_s < MAX_CPU_S


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.from_regex("[a-z_]{1,10}", fullmatch=True), st.text() | st.integers() | st.lists(st.text())))
def test_front_matter_is_yaml(facts: dict[str, object]) -> None:
    """Whatever a title is, a reader of YAML gets it back, and only what is empty is left out."""
    read = yaml.safe_load(front_matter(facts).strip("-\n")) or {}
    assert read == {name: value for name, value in facts.items() if value not in ("", [])}


def test_a_page_that_is_no_html_is_its_text() -> None:
    """The text of a PDF becomes paragraphs; signs in it stay signs."""
    written = page_markdown(None, URL, {"title": "A: b"}, text="# 1 of *all*\n1. Owls\n--- end")
    assert written == f'---\nurl: "{URL}"\ntitle: "A: b"\n---\n\n\\# 1 of \\*all\\*\n\n1\\. Owls\n\n\\--- end\n'
    assert text_markdown("") == ""
