"""The portal as files: complete, closed in itself, safe, and put in place in one step."""

import html
import json
import re
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from browsed import SCRIPT, crawled
from browser import chromium
from conftest import MakeCollection
from opilio import Collection
from opilio.cli import cli
from opilio.errors import InputError
from opilio.web import publishing
from opilio.web.front import headline
from opilio.web.publishing import MARKER, file_name, publish
from opilio.web.site_index import UNSPACED, SiteIndex, script_json, words_of
from search_pages import Page, make_collection

PER_TOPIC = 8
ATOM, SITEMAP = "{http://www.w3.org/2005/Atom}", "{http://www.sitemaps.org/schemas/sitemap/0.9}"


@pytest.fixture(scope="module")
def collection(crawled_taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """A crawled collection."""
    return crawled(crawled_taught, tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def site(collection: Collection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its site."""
    target = tmp_path_factory.mktemp("out") / "site"
    publish(collection, target, name="Birds & <bees>", pages_per_topic=PER_TOPIC)
    return target


class Links(HTMLParser):
    """What a page refers to, and what stands in it that a strict policy forbids."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.forbidden: list[str] = []
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element refers to."""
        values = {name: value or "" for name, value in attrs}
        self.forbidden += [f"{tag} {name}" for name in values if name.startswith("on") or name == "style"]
        if tag == "script" and "src" not in values:
            self.forbidden.append("a script in the page")
        if tag in ("button", "iframe", "object", "base"):
            self.forbidden.append(tag)
        if tag == "form":
            self.loaded.append(values["action"])
        if values.get("http-equiv", "").lower() == "content-security-policy":
            self.policy = values["content"]
        for name in ("src", "href"):
            if name in values:
                (self.links if tag == "a" else self.loaded).append(values[name])


def test_every_page_of_a_site_refers_to_files_of_it_and_is_closed_in(site: Path) -> None:
    """Links are relative and lead to files that are there, or outside; nothing is loaded from elsewhere; no scripts,
    styles, forms or handlers stand in a page, and each has the policy."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 10
    for path in pages:
        found = Links()
        found.feed(path.read_text(encoding="utf-8"))
        assert not found.forbidden, path
        assert "default-src 'none'" in found.policy
        for link in [*found.loaded, *found.links]:
            parts = urlsplit(link)
            if link in found.links and parts.scheme in ("http", "https"):
                continue
            assert not parts.scheme and not parts.netloc and not link.startswith("/"), (path, link)
            if parts.path:
                assert (path.parent / unquote(parts.path)).resolve().is_file(), (path, link)


def test_a_site_has_the_best_pages_of_each_topic(site: Path, collection: Collection) -> None:
    """Exactly those: the best so many relevant ones of every topic that has any, each with a file of its own."""
    expected: set[str] = set()
    for path in ("", "cryptography", "cryptography / hashes", "data compression", "statistics"):
        told = collection.topic_pages(path, relevant=True, per_page=PER_TOPIC)
        urls = [page["url"] for page in told["results"]]
        expected.update(urls)
        if urls:
            text = (site / "topics" / f"{file_name(path)}.html").read_text(encoding="utf-8")
            assert all(f"{file_name(url)}.html" in text for url in urls)
    assert {path.name for path in (site / "pages").iterdir()} == {f"{file_name(url)}.html" for url in expected}


def test_the_front_of_a_site_shows_what_the_live_one_does(site: Path, collection: Collection) -> None:
    """The headline, the map with links into the site, the sentence of each best page, growth and what is new."""
    report, text = collection.portal(), (site / "index.html").read_text("utf-8")
    assert headline(report) in text and text.count('class="spark-line"') == 2 and 'id="new"' in text
    shown = [page for topic in report["wanted"] for page in topic["best"] if page["summary"]]
    assert shown and all(page["summary"][:30] in html.unescape(text) for page in shown)
    assert re.search(r'<svg class="map map-wide".*?<a href="topics/.*?<a href="pages/.*?</svg>', text, re.DOTALL)


def test_a_title_that_is_a_script_stays_text(site: Path) -> None:
    """In pages, in feeds, and in the index that the search loads."""
    texts = [path.read_text(encoding="utf-8") for end in ("html", "js", "xml") for path in site.rglob(f"*.{end}")]
    assert not any("<script>alert" in text for text in texts)
    assert any("alert(" in text for text in texts)


def test_json_in_a_script_cannot_end_it() -> None:
    """Whatever is in a title, and it reads back as it was."""
    hostile = ["</script><!--", "\u2028\u2029", "a & b", '"\\', "lone \ud800"]
    text = script_json(hostile)
    assert not re.search("[<>&\u2028\u2029]", text)
    assert json.loads(text)[:4] == hostile[:4]


def test_a_browser_reads_and_searches_a_site_from_files(site: Path) -> None:
    """No server, no network: from the front to a page; the search finds by title, address and topic, in whatever form
    a word is typed, shows where it stands, loads no more of the index than it needs, and a title that is a script does
    not run."""
    with chromium() as browser:
        page = browser.new_context(offline=True).new_page()
        page.on("pageerror", lambda error: pytest.fail(f"a script failed: {error}"))
        page.on("dialog", lambda dialog: pytest.fail(f"a title ran: {dialog.message}"))
        page.on("console", lambda message: pytest.fail(message.text) if message.type == "error" else None)
        page.goto((site / "index.html").as_uri())
        assert page.get_by_role("heading", level=1).inner_text() == "Birds & <bees>"
        assert page.evaluate("getComputedStyle(document.querySelector('.split')).display") == "grid"
        page.get_by_role("navigation").get_by_role("link", name="data compression").click()
        page.locator(".results .title").first.click()
        assert page.locator("svg.drawing, p.quiet").count()
        page.fill("#find", "Compressions")
        page.press("#find", "Enter")
        page.locator("#found mark").first.wait_for()
        assert page.url.endswith("search.html?q=Compressions") and page.input_value("#words") == "Compressions"
        assert all("compression" in text.lower() for text in page.locator("#found mark").all_inner_texts())
        loaded = page.locator("head script[src^='search/']").evaluate_all(
            "all => all.map((one) => one.getAttribute('src'))"
        )
        assert len(loaded) < len(list((site / "search").rglob("*.js")))
        page.fill("#words", "ALERT compression")
        page.wait_for_function("document.querySelector('#found .title')?.textContent.includes('alert(')")
        assert SCRIPT in page.locator("#found .title").first.inner_text()
        page.locator("#found .title").first.click()
        assert SCRIPT in page.get_by_role("heading", level=1).inner_text()


def test_the_search_ranks_texts_and_titles_as_bm25_does(tmp_path: Path) -> None:
    """A word that stands only in texts is found; a page that is about it, or has it in the title, comes first; plurals,
    English verb forms, beginnings, accents and scripts without blanks count as the word, words that merely look alike
    do not; no page with all words: those with the most."""
    texts = {
        "hill": ("Etna", "A mountain. " * 40 + "Its lava is black."),
        "flow": ("Rivers of fire", "Lava flows and lava cools. A flow of lava is hot."),
        "title": ("Lava", "It flows from a crater, and cools into rock."),
        "none": ("Owls", "The owl flies at night over the café."),
        "many": ("Mountains", "Volcanoes are mountains: 東京 has one, 火山 is the word."),
        "verbs": ("Work", "She stopped making stories; he carries a string, squeaks and strews."),
    }
    index = SiteIndex(tmp_path)
    for name, (title, text) in texts.items():
        page = {"title": title, "url": f"http://x.test/{name}", "file": f"{name}.html", "topic": "", "topic_file": ""}
        index.add(page, title, text, page["url"], text)
    index.finish()
    (tmp_path / "published.js").write_bytes(publishing.asset("published.js"))
    (tmp_path / "search.html").write_text(
        "<meta charset=utf-8><input id=words><p id=count></p><ol id=found></ol><p id=more></p>"
        "<script src=published.js></script>", "utf-8",
    )  # fmt: skip
    questions = {
        "lava": ["title", "flow", "hill"], "LAVAS": ["title", "flow", "hill"], "volcano": ["many"], "volc": ["many"],
        "owls night": ["none"], "cafe": ["none"], "火山": ["many"], "mountain": ["many", "hill"], "constructor": [],
        "squeaking": ["verbs"], "made": [], "makes": ["verbs"], "make": ["verbs"], "stop": ["verbs"], "story": ["verbs"],
        "stopping": ["verbs"], "carried": ["verbs"], "carrying": ["verbs"], "cars": [], "stress": [], "flies": ["none"],
        "lava owl crater": ["title"], "flow lava cool": ["flow", "title"], "": [],
    }  # fmt: skip
    folded = [
        "Straße ÉTÉ naïve",
        "x_y-z 3½ ﬁne",
        "東京タワー A東B 京",
        "İstanbul ΣΟΦΟΣ",
        "한국어 ไทย",
        "\U0001d518nicode ́e",
    ]
    with chromium() as browser:
        page = browser.new_context(offline=True).new_page()
        page.on("pageerror", lambda error: pytest.fail(f"a script failed: {error}"))
        page.goto((tmp_path / "search.html").as_uri())
        asked = page.evaluate(
            """async (questions) => Promise.all(questions.map(async (text) => {
                 const found = await find(text);
                 return (await Promise.all(found.pages.map((page) => load(`pages/${page}`)))).map((page) => page.file);
               }))""",
            list(questions),
        )
        assert dict(zip(questions, asked, strict=True)) == {
            q: [f"{n}.html" for n in names] for q, names in questions.items()
        }
        page.fill("#words", "lava owl")
        page.get_by_text("No page has all of these words").wait_for()
        page.fill("#words", "black lava")
        page.wait_for_function("document.querySelectorAll('#found li').length === 1")
        assert page.locator("#found .snippet").inner_text().startswith("… ")
        assert page.locator("#found mark").all_inner_texts() == ["lava", "black"]
        found = page.evaluate("([texts, unspaced]) => texts.map((text) => wordsOf(text, unspaced))", [folded, UNSPACED])
    assert found == [words_of(text) for text in folded]


def test_feeds_sitemap_and_previews(collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The feeds have the newest relevant pages with their addresses and summaries, as XML that parses whatever a title
    has in it; the sitemap lists every page of the site, in several files if need be, and only where the site has an
    address; every page has a title and a description for previews."""
    monkeypatch.setattr(publishing, "SITEMAP_URLS", 10)
    with pytest.raises(InputError, match="not the address of a site"):
        publish(collection, tmp_path / "site", name="x", base_url="ftp://example.org")
    target = tmp_path / "site"
    publish(collection, target, name="Birds & \x07<bees>", pages_per_topic=PER_TOPIC, base_url="https://example.org/b")
    listed = [page for topic in collection.portal()["tree"]["children"] for page in
              collection.topic_pages(topic["topic"], relevant=True, per_page=PER_TOPIC)["results"]]  # fmt: skip
    atom = ElementTree.parse(target / "atom.xml").getroot()
    rss = ElementTree.parse(target / "rss.xml").getroot()
    links = [entry.find(f"{ATOM}link").get("href") for entry in atom.iter(f"{ATOM}entry")]  # type: ignore[union-attr]
    assert links == [item.findtext("link") for item in rss.iter("item")]
    newest = max(page["visited"] for page in listed)
    assert links and atom.findtext(f"{ATOM}updated") == f"{newest.replace(' ', 'T')}Z"
    times = [parsedate_to_datetime(item.findtext("pubDate") or "") for item in rss.iter("item")]
    assert times == sorted(times, reverse=True) and times[0].strftime("%Y-%m-%d %H:%M:%S") == newest
    assert SCRIPT in [item.findtext("title") for item in rss.iter("item")]
    maps = [one.text for one in ElementTree.parse(target / "sitemap.xml").getroot().iter(f"{SITEMAP}loc")]
    assert len(maps) > 1
    urls = [loc.text for one in maps for loc in
            ElementTree.parse(target / str(one).rpartition("/")[2]).getroot().iter(f"{SITEMAP}loc")]  # fmt: skip
    files = {path.relative_to(target).as_posix() for path in target.rglob("*.html")} - {"index.html"}
    assert sorted(urls) == sorted(["https://example.org/b/", *(f"https://example.org/b/{file}" for file in files)])
    text = (target / "index.html").read_text("utf-8")
    assert '<meta property="og:title" content="Birds &amp; \x07&lt;bees&gt;">' in text
    assert f'<meta property="og:description" content="{headline(collection.portal())}">' in text
    assert '<meta property="og:url" content="https://example.org/b/">' in text


def test_publishing_again_replaces_the_site_and_nothing_else(collection: Collection, tmp_path: Path) -> None:
    """A folder of somebody else is refused and left alone; an old site goes with all its files; a failure leaves the
    old one; nothing is left beside."""
    target = tmp_path / "site"
    publish(collection, target, name="first", pages_per_topic=1)
    (target / "pages" / "stale.html").write_text("old")
    told: list[tuple[int, int]] = []
    written = publish(
        collection, target, name="second", pages_per_topic=1, progress=lambda *said: told.append(said)
    )  # fmt: skip
    assert not (target / "pages" / "stale.html").exists() and "second" in (target / MARKER).read_text()
    assert told[-1] == (written["topics"] + written["pages"],) * 2

    def fail(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(collection, target, name="third", pages_per_topic=1, progress=fail)
    assert "second" in (target / MARKER).read_text()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="not made by"):
        publish(collection, mine, name="x")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "site"]
    assert [path.name for path in mine.iterdir()] == ["letter.txt"]


def test_nothing_relevant_is_nothing_to_publish(make_collection: MakeCollection, tmp_path: Path) -> None:
    """A collection without relevant pages is refused with a hint, and leaves no folder."""
    collection = make_collection(["http://directory.test/"])
    with pytest.raises(InputError, match="nothing to publish") as caught:
        publish(collection, tmp_path / "site", name="x")
    assert caught.value.hint and not (tmp_path / "site").exists()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_the_command_publishes_and_says_where(collection: Collection, tmp_path: Path) -> None:
    """`opilio publish` names the index, counts what it wrote, and has an example in its help."""
    target = tmp_path / "site"
    given = ["publish", str(collection.folder), str(target), "--pages-per-topic", "2", "--json"]
    result = CliRunner().invoke(cli, given)
    assert result.exit_code == 0, result.output
    assert str(target / "index.html") in result.output and '"pages"' in result.output
    assert "birds &amp; bees" in (target / "index.html").read_text(encoding="utf-8")
    assert "opilio publish birds site" in CliRunner().invoke(cli, ["publish", "--help"]).output


def said_of(texts: int) -> list[Page]:
    """Pages about owls, each relevant."""
    return [Page(f"the owl number {n} flies at night", title=f"Owl {n}", relevance=0.9) for n in range(texts)]


def test_a_site_behind_a_link_is_replaced_where_it_lies(tmp_path: Path) -> None:
    """A link to the folder of a site stays one, the site it leads to is the new one, and nothing is left beside it."""
    collection = make_collection(tmp_path / "c", said_of(3))
    (tmp_path / "www").mkdir()
    publish(collection, tmp_path / "www" / "site", name="Old")
    (tmp_path / "link").symlink_to(tmp_path / "www" / "site")
    publish(collection, tmp_path / "link", name="New")
    assert (tmp_path / "link").is_symlink()
    assert "New" in (tmp_path / "www" / "site" / "index.html").read_text()
    assert [path.name for path in (tmp_path / "www").iterdir()] == ["site"]
    assert not list(tmp_path.glob(".*"))
