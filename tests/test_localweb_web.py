"""The local web as a value: the same every time, safe, connected, and true to what it says about itself."""

from __future__ import annotations

import hashlib
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.errors import InputError
from opilio.lab.local_web import LocalWeb, build
from opilio.lab.local_web.harvest import Doc, harvest, signature_of
from opilio.lab.local_web.sections import SECTIONS
from opilio.lab.local_web.weave import DocPages, Traits, sites_of

HOST = "math.python.test"


@pytest.fixture(scope="module")
def cache_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of our own, so that no test reads what another version of the code left behind."""
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(home))
        yield home


@pytest.fixture(scope="module")
def web(cache_home: Path) -> LocalWeb:
    """The small web."""
    return build("small")


class Reader(HTMLParser):
    """An independent reader of pages: what tags, attributes, links and text a browser would see."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.links: list[str] = []
        self.title = ""
        self.text = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.links += [value or "" for name, value in attrs if name == "href" and tag == "a"]
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "title":
            self.title += data
        elif not {"script", "style"} & set(self.open):
            self.text += data


def read(body: bytes) -> Reader:
    """Read a page to its end, with every element closed."""
    reader = Reader()
    reader.feed(body.decode())
    reader.close()
    assert not reader.open
    return reader


def digest(web: LocalWeb) -> str:
    """A fingerprint of everything in a web."""
    parts = [f"{url} {page.topic} {page.title}".encode() + page.body for url, page in web.pages.items()]
    parts.append(repr([web.redirects, web.files, web.copies, sorted(web.noindex), web.hosts, web.ranked]).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def reached_from(web: LocalWeb, seeds: list[str]) -> set[str]:
    """Every address a crawler that follows all links gets to see."""
    seen, waiting = set(seeds), list(seeds)
    while waiting:
        url = waiting.pop()
        if url in web.redirects:
            found = [web.redirects[url][1]]
        else:
            found = [urljoin(url, link) for link in re.findall(r'<a [^>]*href="([^"]*)"', web.pages[url].body.decode())]
        for link in found:
            if link not in seen:
                seen.add(link)
                waiting.append(link)
    return seen


def test_same_packages_and_seed_give_the_same_web(web: LocalWeb, tmp_path: Path) -> None:
    """Built anew in another process with another hash seed, the web is the same to the byte."""
    program = f"import sys; sys.path[:0] = [{str(Path(__file__).parent)!r}]; import test_localweb_web as t\n"
    program += "print(t.digest(t.build('small')))"
    environment = os.environ | {"PYTHONHASHSEED": "7", "XDG_CACHE_HOME": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    child = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert child.stdout.strip() == digest(web)


def test_the_web_tells_nothing_of_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default values such as `os.environ` are not shown, and no variable of ours reaches the processes that read."""
    monkeypatch.setenv("OPILIO_SECRET", "swordfish-4711")
    docs = harvest(section for section in SECTIONS if section.host in ("os.python.test", "wsgi.python.test"))
    assert len(docs) > 100
    assert not any("swordfish" in f"{doc}" or str(Path.home()) + "/" in doc.signature for doc in docs)

    def function(a: object = os.environ, b: str = str(Path.home() / "x"), c: int = 3, d: str = "plain") -> None:
        """Has default values."""

    assert signature_of(function).startswith("(a: 'object' = ..., b: 'str' = ..., c: 'int' = 3, d: 'str' = 'plain')")


def test_another_seed_gives_another_web(web: LocalWeb) -> None:
    """The seed decides what is chosen, not what exists: other dice, same hosts."""
    other = build("small", seed=1)
    assert digest(other) != digest(web)
    assert other.hosts == web.hosts


def test_statistics_of_the_small_web(web: LocalWeb) -> None:
    """The figures tests and documentation rely on."""
    documents = [page for page in web.pages.values() if page.topic]
    links = [len(read(page.body).links) for page in documents]
    assert 250 <= len(web.pages) <= 350
    assert len(web.hosts) == 12
    assert len(web.topics) == 8
    assert len(documents) > len(web.pages) / 2
    assert 30 <= statistics.median(links) <= 80
    assert statistics.median(len(page.body) for page in documents) > 8000
    assert {urlsplit(url).hostname for url in web.pages} == set(web.hosts)


def test_a_number_asks_for_about_so_many_pages_of_what_is_installed(cache_home: Path) -> None:
    """Sizes in between reach beyond the small web's hosts; an impossible size is refused with a hint."""
    if sys.platform == "win32" or os.environ.get("OPILIO_TEST_FULL_WEB") != "1":
        pytest.skip("reads every installed package; set OPILIO_TEST_FULL_WEB=1")
    medium, full = build(1000), build("full")
    assert 800 <= len(medium.pages) <= 1200
    assert len(full.pages) >= 6000
    assert len(full.hosts) >= 60
    documents = [page for page in full.pages.values() if page.topic]
    assert 15_000 <= statistics.median(len(page.body) for page in documents) <= 30_000
    assert 50 <= statistics.median(page.body.count(b"<a ") for page in documents) <= 80
    assert len(reached_from(full, full.seeds(full.topics[0], 3)) & set(full.pages)) > 0.9 * len(full.pages)


@pytest.mark.parametrize("size", [0, -1, "huge", True, 1.5])
def test_an_impossible_size_is_refused(size: object) -> None:
    """What we were told wrong is an error that says what would be right."""
    with pytest.raises(InputError) as caught:
        build(size)  # type: ignore[arg-type]
    assert "small" in caught.value.hint


def test_every_page_is_reached_from_a_handful_of_seeds(web: LocalWeb) -> None:
    """From two pages of one topic a crawler finds the whole web, and no link leads out of it or to nothing."""
    seen = reached_from(web, web.seeds("statistics", 2))  # a link to nothing would be a KeyError in there
    assert seen >= set(web.pages)


def test_hosts_are_linked_to_each_other_in_the_text(web: LocalWeb) -> None:
    """Real references lead from host to host: base classes and called functions, not only sidebars and hubs."""
    crossing = 0
    for page in web.pages.values():
        references = re.findall(r'class="reference internal" href="http://([^/"]+)', page.body.decode())
        crossing += sum(host != urlsplit(page.url).hostname for host in references)
    assert crossing >= 10  # 19 when written; the full web has thousands


def test_pages_are_well_formed_and_titled(web: LocalWeb) -> None:
    """Each page parses with every element closed, says its title in the head, and links to `.test` only."""
    for page in web.pages.values():
        reader = read(page.body)
        assert reader.title == page.title
        for link in reader.links:
            assert (urlsplit(urljoin(page.url, link)).hostname or "").endswith(".test")


_TRICKS = (
    "<script>alert(1)</script>", '" onclick="x', "</title>", "</pre></main>", "`<b>`", ":func:`~math.<i>`", "</script>",
    "See Also\n--------\n<img src=x onerror=y>", "http://evil.example/", "javascript:alert(1)", "<!--", "&lt;i&gt;",
    "`text <https://evil.example/>`_", "''", "math.sqrt()", "`math.sqrt`",
)  # fmt: skip
_NASTY = st.lists(
    st.one_of(
        st.text(max_size=30),
        st.sampled_from(_TRICKS),
    ),
    min_size=1,
    max_size=6,
).map(" ".join)
_TAGS = """html head meta title style script link body header a span div nav h1 h2 h3 ul li main p code article em
strong section dl dt dd pre footer"""
_ATTRIBUTES = "lang charset name content property type class href id role title aria-label aria-hidden data-kind rel"


@settings(max_examples=60)
@given(text=_NASTY, signature=_NASTY, source=_NASTY, entry=_NASTY)
def test_nothing_in_a_docstring_becomes_markup(text: str, signature: str, source: str, entry: str) -> None:
    """However a docstring tries, the page has our elements and attributes only, one script, and no foreign link."""
    docs = [
        Doc("math", "module", HOST, "math", text, entries=((entry, entry),)),
        Doc("math.sqrt", "function", HOST, "math", text, signature=signature, source=source),
    ]
    sites = sites_of(docs, ())
    nothing: frozenset[str] = frozenset()
    writer = DocPages(sites, Traits(nothing, nothing, nothing, nothing))
    for place in (0, 1):
        page = writer.write(sites[0], sites[0].entries[place])
        reader = read(page.body)
        assert reader.tags <= set(_TAGS.split())
        assert reader.attributes <= set(_ATTRIBUTES.split())
        assert page.body.lower().count(b"</script") == 1
        assert all(link.startswith("/") or link == f"http://{HOST}/" for link in reader.links)


def test_names_in_prose_lead_to_their_pages() -> None:
    """A quoted name, a role, a call and a See Also entry become links; an unknown name and the real web do not."""
    text = "Like `isqrt` or :func:`~math.ceil`, see floor() at https://example.com/.\n\n"
    text += "See Also\n--------\ntrunc : cut it\nnowhere : unknown"
    names = ["isqrt", "ceil", "floor", "trunc"]
    docs = [Doc(f"math.{name}", "function", HOST, "math", f"The {name} of a number.") for name in names]
    docs += [Doc("math", "module", HOST, "math", "Math."), Doc("math.sqrt", "function", HOST, "math", text)]
    sites = sites_of(docs, ())
    nothing: frozenset[str] = frozenset()
    writer = DocPages(sites, Traits(nothing, nothing, nothing, nothing))
    page = writer.write(sites[0], next(e for e in sites[0].entries if e.doc.name == "math.sqrt"))
    article = page.body.decode().partition("<article>")[2].partition("</article>")[0]
    assert re.findall(r'href="([^"]*)"', article) == [f"/math/{name}.html" for name in names]


def test_copies_are_what_they_claim(web: LocalWeb) -> None:
    """A mirrored page has the bytes of its original; a print view has its words and a few more."""
    mirrored = {copy: original for copy, original in web.copies.items() if "mirror." in copy}
    printed = {copy: original for copy, original in web.copies.items() if "/print/" in copy and copy not in mirrored}
    assert len(mirrored) >= 10
    assert len(printed) >= 4
    for copy, original in mirrored.items():
        assert web.pages[copy].body == web.pages[original].body
    for copy, original in printed.items():
        main = read(web.pages[copy].body).text.split()
        shared = set(main) & set(read(web.pages[original].body).text.split())
        assert web.pages[copy].body != web.pages[original].body
        assert len(shared) > 0.8 * len(set(main))
    assert any(b'rel="canonical"' in web.pages[copy].body for copy in printed)


def test_every_host_has_robots_and_some_have_more(web: LocalWeb) -> None:
    """robots.txt everywhere; somewhere a private folder that pages link to, a delay, a sitemap of real pages."""
    robots = {host: web.files[f"http://{host}/robots.txt"][1].decode() for host in web.hosts}
    private = [host for host, text in robots.items() if "Disallow: /private/" in text]
    assert private
    assert all(f"http://{host}/private/notes.html" in web.pages for host in private)
    assert any("Crawl-delay: 0.2" in text for text in robots.values())
    maps = [url for url in web.files if url.endswith("/sitemap.xml")]
    assert maps
    for url in maps:
        assert f"Sitemap: {url}" in robots[urlsplit(url).hostname or ""]
        assert set(re.findall(r"<loc>(.*?)</loc>", web.files[url][1].decode())) <= set(web.pages)
    assert web.noindex
    assert all(b"noindex" in web.pages[url].body for url in web.noindex)


def test_redirects_end_at_pages(web: LocalWeb) -> None:
    """Old addresses lead, in at most two steps, to a page; none hides a page."""
    assert not set(web.redirects) & set(web.pages)
    for _, target in web.redirects.values():
        assert target in web.pages or web.redirects[target][1] in web.pages


def test_seeds_are_pages_of_their_topic(web: LocalWeb) -> None:
    """What a crawl starts from is on topic and may be indexed."""
    for topic in web.topics:
        seeds = web.seeds(topic, 5)
        assert len(seeds) == 5
        assert all(web.pages[url].topic == topic and url not in web.noindex for url in seeds)
    with pytest.raises(InputError, match="no topic 'knitting'"):
        web.seeds("knitting", 1)


def test_bookmarks_have_folders_as_browsers_write_them(web: LocalWeb) -> None:
    """Each topic is a folder with its seeds; a slash nests; every folder that is opened is closed."""
    nested = LocalWeb(
        web.pages, {}, {}, {}, frozenset(), [], ["a", "b/x", "b/y"],
        {"a": web.seeds("statistics", 3), "b/x": web.seeds("mathematics", 3), "b/y": web.seeds("networking", 3)},
    )  # fmt: skip
    text = nested.bookmarks(per_topic=2)
    assert text.startswith("<!DOCTYPE NETSCAPE-Bookmark-file-1>")
    assert re.findall("<H3>(.*?)</H3>", text) == ["a", "b", "x", "y"]
    assert text.count("<A HREF=") == 6
    assert text.count("<DL><p>") == text.count("</DL><p>") == 5
    assert nested.bookmarks(["a"]).count("<A HREF=") == 3


def test_a_corrupt_cache_is_rebuilt(web: LocalWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are no web are thrown away; the web is built again and kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = build("small")
    assert first.cache_file is not None
    for file in first.cache_file.parent.iterdir():
        file.write_bytes(file.read_bytes()[:1000])
    again = build("small")
    assert digest(again) == digest(first) == digest(web)
    assert first.cache_file.stat().st_size > 1000


def test_a_web_without_a_cache_is_still_built(web: LocalWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder that cannot be made costs time, nothing else."""
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    uncached = build("small")
    assert uncached.cache_file is None
    assert digest(uncached) == digest(web)
