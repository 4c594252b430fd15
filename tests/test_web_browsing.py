"""The portal in a browser and by its API: the front, topics, a page with its neighbours, and what is not stored."""

import html
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from browsed import SCRIPT, crawled
from browser import chromium, signed_in
from conftest import MakeTaught
from made_worlds import make_world
from opilio import Collection, merge
from opilio.web.browsing import SEEN, cut, draw, look_of
from opilio.web.front import Rectangle, headline, precision_words, squarify
from opilio.web.shelf import Shelf
from web_portal import Portal

NAME = quote("birds & bees")


@pytest.fixture(scope="module")
def place(crawled_taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a crawled collection."""
    folder = tmp_path_factory.mktemp("portal")
    crawled(crawled_taught, folder)
    return folder


@pytest.fixture(scope="module")
def collection(place: Path) -> Collection:
    """That collection."""
    return Collection(place / "birds & bees")


@pytest.fixture(scope="module")
def portal(place: Path) -> Iterator[Portal]:
    """A server that shows it."""
    with Portal(place) as server:
        yield server


def test_the_front_shows_topics_pages_and_notices_and_escapes_them(portal: Portal) -> None:
    """Each wanted topic with its pages, OTHERS, hubs, what is new, notices; a title that is a script is text."""
    status, text = portal.get(f"/c/{NAME}/", days=7)
    assert status == 200
    for expected in (
        "cryptography",
        "data compression",
        "statistics",
        "hashes",
        "Off topic",
        "Hubs",
        "widen the topic",
    ):
        assert expected in text
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text
    assert "the harvest &lt;i&gt;fell" in text


def test_the_front_says_draws_and_links_what_was_found(portal: Portal, collection: Collection) -> None:
    """A headline in words, who says how much is on topic, each topic and site of the map as a link, growth; no title of
    a list is there twice, and no style stands in the page itself."""
    report = collection.portal()
    _, text = portal.get(f"/c/{NAME}/")
    assert headline(report) in text and f"from {report['found']['sites']} sites" in text
    assert precision_words({"kind": "checked", "value": 0.78, "low": 0.66, "high": 0.87, "judged": 40}) == (
        "about 78 % on topic by a checked sample of 40 pages (66 to 87 %)"
    )
    assert "as the model expects, not checked" in text or report["found"]["precision"] is None
    for topic in report["wanted"]:
        for site in topic["sites"]:
            to = f"/c/{NAME}/search?topic={quote(topic['topic'])}&amp;host={quote(site['host'])}"
            assert text.count(f'href="{to}"') == 3  # both drawings and the list
    assert text.count('class="spark-line"') == 2 and 'class="monogram' in text
    titles = [title.casefold() for title in re.findall(r'<a class="title"[^>]*>([^<]*)</a>', text)]
    assert len(titles) == len(set(titles)) > 5 and "style=" not in text


def test_the_headline_names_six_topics_or_five_and_how_many_more() -> None:
    """Up to six topics are named, the fullest first; of more, five, and the others are counted."""

    def said(topics: int, others: int = 0) -> str:
        wanted = [{"name": f"t{n}", "relevant": 9 - n} for n in range(topics)]
        return headline({"found": {"pages": 9, "sites": 2}, "wanted": wanted, "wanted_topics": topics + others})

    assert said(1) == "9 pages about t0 from 2 sites"
    assert said(6) == "9 pages about t0, t1, t2, t3, t4 and t5 from 2 sites"
    assert said(7) == "9 pages about t0, t1, t2, t3, t4 and 2 more topics from 2 sites"
    assert said(4, 1) == "9 pages about t0, t1, t2, t3 and 1 more topic from 2 sites"


def test_the_front_shows_what_is_new_since_the_last_visit(portal: Portal) -> None:
    """A reader who is signed in sees the last visit in place of days; others get no cookie."""
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/{NAME}/")
        assert "In the last day of crawling" in page.locator("#new").inner_text()
        [seen] = [cookie for cookie in page.context.cookies() if cookie["name"] == SEEN]
        assert seen["httpOnly"] and seen["sameSite"] == "Strict"
        page.context.add_cookies([{**seen, "value": f"0-{int(time.time()) - 86_400}"}])  # type: ignore[list-item]
        for _ in range(2):  # the second look is part of the same visit
            page.goto(f"{portal.address}/c/{NAME}/")
            assert "Since your last visit" in page.locator("#new").inner_text()
        page.get_by_role("link", name="7 days").click()
        assert "In the last 7 days" in page.locator("#new").inner_text()
        reader = browser.new_context().new_page()
        reader.goto(f"{portal.address}/c/{NAME}/")
        assert "In the last day" in reader.locator("#new").inner_text() and not reader.context.cookies()


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=20))
def test_the_map_gives_each_its_share_of_the_room(sizes: list[int]) -> None:
    """Areas are in the ratio of the sizes, and every rectangle lies within the drawing."""
    ordered = sorted(sizes, reverse=True)
    placed = squarify(ordered, Rectangle(0, 0, 960, 400))
    for size, one in zip(ordered, placed, strict=True):
        assert one.width * one.height == pytest.approx(size / sum(sizes) * 960 * 400, rel=1e-6)
        assert one.x >= 0 and one.y >= 0 and one.x + one.width <= 960.001 and one.y + one.height <= 400.001


def test_the_api_says_what_python_says(portal: Portal, collection: Collection) -> None:
    """The four routes answer with what `Collection` gives; wrong values are refused with a hint."""
    url = collection.portal()["wanted"][0]["best"][0]["url"]
    api = f"/api/c/{NAME}"
    assert portal.get(f"{api}/portal", days=3) == (200, collection.portal(3))
    asked = {"order": "title", "page": 1, "own": True, "per_page": 5}
    assert portal.get(f"{api}/topic", topic="cryptography", **asked)[1] == collection.topic_pages(
        "cryptography", order="title", own=True, per_page=5
    )
    assert portal.get(f"{api}/page", url=url) == (200, collection.page(url))
    assert portal.get(f"{api}/neighbours", url=url, most=3) == (200, collection.neighbours(url, 3))
    for path, wrong in (("topic", {"topic": "cryptogrphy"}), ("topic", {"order": "size"}), ("portal", {"days": 0})):
        status, answer = portal.get(f"{api}/{path}", **wrong)
        assert status == 400 and answer["hint"]
    assert portal.get(f"{api}/page", url="http:///")[0] == 400


def test_pages_of_results_lead_to_each_other(portal: Portal, collection: Collection) -> None:
    """The link to the next page keeps the order, and leads to what comes next; beyond the last page it says so."""
    second = collection.topic_pages("", order="newest", page=2)
    assert second["results"], "the fixture has two pages of results"
    _, text = portal.get(f"/c/{NAME}/topic", order="newest")
    [to] = re.findall(r'rel="next" href="([^"]+)"', text)
    status, text = portal.ask("GET", html.unescape(to), token="")
    assert status == 200 and [quote(shown["url"], safe="") in text for shown in second["results"]].count(False) == 0
    status, text = portal.get(f"/c/{NAME}/topic", topic="OTHERS", page=99)
    assert status == 200 and "There is no page 99" in text


def test_orders_without_link_scores_say_so_and_links_can_be_analysed_now(
    portal: Portal, collection: Collection
) -> None:
    """No silent order: the page tells what is missing and offers the analysis, which lists hubs or says there are none."""
    collection.sql("DELETE FROM link_scores", write=True)
    status, text = portal.get(f"/c/{NAME}/topic", topic="statistics", order="hub")
    assert status == 200 and "No link analysis of this topic is stored" in text and "analyse=1" in text
    assert "opilio distill" in text
    status, text = portal.get(f"/c/{NAME}/topic", topic="statistics", analyse=1)
    assert status == 200 and ("<h2>Hubs</h2>" in text or "None: no link leads" in text)


def test_a_page_shows_text_reasons_neighbours_and_record(portal: Portal, collection: Collection) -> None:
    """The main text, terms with weights, the way from a seed, a drawing with links and its table, the WARC record."""
    url = collection.portal()["wanted"][0]["best"][0]["url"]
    told = collection.page(url)
    status, text = portal.get(f"/c/{NAME}/page", url=url)
    assert status == 200
    for expected in ("<svg", "The same as a table", "How the crawl came here", "Terms for and against", "seed"):
        assert expected in text
    assert told["warc_file"] in text
    assert told["why"]["steps"][0]["reasons"][0]["feature"] in text
    assert text.count("<circle") == len(told["neighbours"]["from"]) + len(told["neighbours"]["to"]) + 1


def test_a_url_that_is_not_stored_is_a_404_that_tells_what_is_known(portal: Portal, collection: Collection) -> None:
    """One that waits says so and lists who links to it; one that nobody knows says what to do."""
    [[waits]] = collection.sql("SELECT url FROM crawl WHERE state = 'waiting' ORDER BY oid LIMIT 1").rows
    status, text = portal.get(f"/c/{NAME}/page", url=waits)
    assert status == 404 and "It is queued" in text and "Pages that link to it" in text
    status, answer = portal.get(f"/api/c/{NAME}/page", url=waits)
    assert status == 404 and answer["known"]["state"] == "waiting" and answer["hint"]
    status, text = portal.get(f"/c/{NAME}/page", url="http://nobody.test/")
    assert status == 404 and "No stored page links to it" in text


def test_similar_pages_are_a_page_and_a_part(portal: Portal, collection: Collection) -> None:
    """The same list with and without the frame of a page; the page itself is not in it."""
    url = collection.portal()["wanted"][0]["best"][0]["url"]
    status, whole = portal.get(f"/c/{NAME}/similar", url=url)
    assert status == 200 and "<html" in whole
    status, part = portal.get(f"/c/{NAME}/similar", url=url, part=1)
    assert status == 200 and "<html" not in part
    found = [page["url"] for page in collection.similar(url)]
    assert url not in found and all(quote(address, safe="") in part for address in found)


def test_a_browser_walks_from_the_front_to_a_page_and_its_neighbour(portal: Portal) -> None:
    """By keyboard and mouse: a topic, its page with similar pages taken in, a neighbour in the drawing; no script of a
    title runs, and nothing is wider than a phone."""
    with chromium() as browser:
        page = signed_in(browser, portal.address, viewport={"width": 390, "height": 844})
        page.on("dialog", lambda dialog: pytest.fail(f"a title ran: {dialog.message}"))
        page.goto(f"{portal.address}/c/{NAME}/")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.get_by_role("navigation", name="Topics").get_by_role("link", name="data compression").click()
        assert page.get_by_role("heading", level=1).inner_text() == "data compression"
        page.get_by_role("link", name="by title").click()
        page.get_by_role("link", name="surest first").click()
        page.get_by_role("link", name="alert('title')").first.click()
        assert SCRIPT in page.get_by_role("heading", level=1).inner_text()
        page.locator("#similar ol, #similar .quiet").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        near = page.locator("svg a").first
        near.focus()
        page.keyboard.press("Enter")
        page.wait_for_function("!document.title.includes('alert')")
        assert page.locator("svg.drawing").count() == 1


def test_a_crawl_that_runs_answers_for_the_portal(make_taught: MakeTaught) -> None:
    """The front, a topic and a page are read from the crawl that holds the database; the front says that it runs."""
    collection = make_taught(limits__max_pages=0, fetch__host_delay_s=0.1)
    thread = threading.Thread(target=collection.crawl)
    thread.start()
    try:
        deadline_s = time.monotonic() + 30
        while not (collection.folder / "engine.json").exists() or not collection.portal()["new"]["best"]:
            assert time.monotonic() < deadline_s, "the crawl finds nothing"
            time.sleep(0.05)
        with Portal(collection.folder.parent) as portal:
            status, text = portal.get(f"/c/{collection.folder.name}/")
            assert status == 200 and "crawling now" in text
            best = collection.portal()["new"]["best"][0]
            assert portal.get(f"/c/{collection.folder.name}/topic", topic="statistics")[0] == 200
            status, text = portal.get(f"/c/{collection.folder.name}/page", url=best["url"])
            assert status == 200 and "Terms for and against" in text
    finally:
        collection.stop()
        thread.join(60)
    assert not collection.portal()["crawl"]["running"]


def neighbour(url: str, **values: object) -> dict[str, object]:
    """A row as `neighbours` gives it."""
    made = {
        "url": url,
        "title": "t",
        "topic": "A",
        "relevance": 1.0,
        "stored": True,
        "state": "fetched",
        "outcome": "ok",
    }
    return {**made, "anchor": "words", **values}


def test_a_drawing_has_a_node_and_an_edge_for_each_neighbour() -> None:
    """Left those that link here, right those linked from here, none outside the frame or on another."""
    page = neighbour("http://a.test/")
    left = [neighbour(f"http://l.test/{n}", title="x" * 300) for n in range(12)]
    right = [neighbour(f"http://r.test/{n}") for n in range(3)]
    drawing = draw({"page": page, "from": left, "to": right})
    assert drawing is not None and len(drawing.nodes) == len(drawing.edges) == 15
    places = {(node.x, node.y) for node in drawing.nodes}
    assert len(places) == 15 and all(0 < x < drawing.width and 0 < y < drawing.height for x, y in places)
    assert all(node.x < drawing.centre.x for node in drawing.nodes[:12])
    assert all(node.x > drawing.centre.x for node in drawing.nodes[12:])
    assert max(len(node.label) for node in drawing.nodes) <= 44
    assert draw({"page": page, "from": [], "to": []}) is None


def test_neighbours_look_as_they_are_judged() -> None:
    """Relevant and of the same topic, of another, not relevant, and not stored are told apart."""
    page = neighbour("http://a.test/")
    looks = [neighbour("b"), neighbour("b", topic="B"), neighbour("b", relevance=0.2), neighbour("b", stored=False)]
    assert [look_of(page, near) for near in looks] == ["same", "other", "low", "unknown"]
    assert look_of(page, neighbour("b", relevance=None)) == "low"
    assert cut("a\n b\tc", 10) == "a b c" and cut("abcdef", 4) == "abc…"


def two_strangers(place: Path) -> tuple[Path, Path]:
    """Collections of which the second is numbered anew in a merge: topics and models."""
    one = make_world(place / "one", 1, sites=("a.org",), urls=8)
    two = make_world(place / "two", 3, sites=("b.org",), urls=8, paths=("", "A", "Q"))
    return one, two


def test_a_portal_does_not_show_what_is_half_made(tmp_path: Path) -> None:
    """While a merge runs, a portal on the folder of its target lists the whole collections, and lets it finish."""
    one, two = two_strangers(tmp_path)
    shown: set[str] = set()

    def look(doing: str, done: int, steps: int) -> None:
        assert done == 0 or (tmp_path / ".both.unfinished" / "collection.duckdb").exists()
        shown.update(Shelf(tmp_path).names())

    merge(tmp_path / "both", [one, two], on_progress=look)
    assert shown == {"one", "two"} and Shelf(tmp_path).names() == ["both", "one", "two"]


def test_feed_readers_find_the_newest_relevant_pages(portal: Portal, collection: Collection) -> None:
    """Every page of a collection names its feed, which is well-formed for feedparser and has its own address."""
    import feedparser

    newest = collection.sql("SELECT url FROM collection WHERE relevant ORDER BY visited DESC, url LIMIT 50").rows
    assert f'href="/c/{NAME}/atom.xml"' in portal.get(f"/c/{NAME}/")[1]
    for path, version in (("feed", "atom10"), ("atom.xml", "atom10"), ("rss.xml", "rss20")):
        read = feedparser.parse(f"{portal.address}/c/{NAME}/{path}")
        assert read.status == 200
        assert not read.bozo, read.get("bozo_exception")
        assert read.version == version
        assert [(entry.link,) for entry in read.entries] == newest
        assert f"{portal.address}/c/{NAME}/" in [link.href for link in read.feed.links]
    assert portal.get(f"/c/{NAME}/other.xml")[0] in (400, 404, 422)
