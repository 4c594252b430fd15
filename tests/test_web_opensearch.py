"""The search for other programs: what feed readers, browsers and another Opilio make of it."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import feedparser
import pytest

from browser import chromium
from federation_pages import make_federation
from federation_server import FederationServer
from opilio import Collection
from opilio.crawl.peer import LocalPeer
from opilio.seeds import find_seeds
from opilio.web.publishing import publish
from search_pages import Page, make_collection
from seed_services import allowing
from web_portal import Portal

NAME = "Owls & <b>"
PAGES = [
    Page(f"barn owl number{n} in \x01 a barn & <i>field{n}</i>", f"Owl {n} & more", f"http://owls.example/{n}?a=1&b={n}", relevance=0.9)
    for n in range(7)
]  # fmt: skip
NS = {"o": "http://a9.com/-/spec/opensearch/1.1/"}


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """A portal of a collection with a name that needs escaping."""
    place = tmp_path_factory.mktemp("opensearch")
    make_collection(place / NAME, PAGES)
    with Portal(place) as portal:
        yield portal


BASE = "/c/Owls%20%26%20%3Cb%3E/"


def urls_of(answers: list[Any]) -> list[str]:
    return [page.url for page in answers[0].pages]


def test_feeds_are_read_by_a_feed_reader(portal: Portal) -> None:
    """feedparser finds all results in both formats, by rank, with titles, texts and OpenSearch elements."""
    ranked = [one["url"] for one in portal.get(f"/api{BASE}search", q="barn owl", size=5)[1]["results"]]
    for kind in ("rss", "atom"):
        read = feedparser.parse(portal.get(f"{BASE}search.{kind}", q="barn owl", size=5)[1])
        assert not read.bozo, read.get("bozo_exception")
        assert [entry.link for entry in read.entries] == ranked
        assert read.entries[0].title.startswith("Owl ")
        assert "& more" in read.entries[0].title
        shown = read.entries[0].summary_detail
        marked = "&lt;i&gt;field" if shown.type == "text/html" else "<i>field"
        assert marked in shown.value, "text of pages is no markup, neither in a feed nor in what a reader shows"
        assert (read.feed.opensearch_totalresults, read.feed.opensearch_startindex) == ("7", "1")
        assert read.feed.opensearch_itemsperpage == "5"
        assert {link.rel for link in read.feed.links} >= {"self", "search"}
        second = feedparser.parse(portal.get(f"{BASE}search.{kind}", q="barn owl", size=5, page=2)[1])
        assert (len(second.entries), second.feed.opensearch_startindex) == (2, "6")
    links = {link.rel: link.href for link in read.feed.links}
    following = feedparser.parse(portal.get(links["next"].removeprefix(portal.address))[1])
    assert [entry.link for entry in following.entries] == [entry.link for entry in second.entries]


def test_the_description_is_complete_and_its_templates_work(portal: Portal) -> None:
    """The elements that OpenSearch 1.1 requires are there; filled as a client fills them, all templates answer."""
    root = ElementTree.fromstring(portal.get(f"{BASE}opensearch.xml")[1])
    short, about = root.findtext("o:ShortName", "", NS), root.findtext("o:Description", "", NS)
    assert short == NAME
    assert 0 < len(short) <= 16
    assert len(about) <= 1024
    templates = {one.get("type"): one.get("template", "") for one in root.iterfind("o:Url", NS)}
    assert set(templates) >= {"text/html", "application/atom+xml", "application/rss+xml"}
    for kind, template in templates.items():
        filled = re.sub(r"\{\w+\?\}", "", template.replace("{searchTerms}", "barn%20owl"))
        status, text = portal.get(filled.removeprefix(portal.address))
        assert status == 200, kind
        assert "owls.example/3" in text or kind == "application/opensearchdescription+xml"


def test_a_browser_finds_and_uses_the_search(portal: Portal) -> None:
    """In Chromium, every page of the collection links the description, and its template leads to the results."""
    with chromium() as browser:
        page = browser.new_page()
        for path in ("", "search?q=owl"):
            page.goto(portal.address + BASE + path)
            link = page.locator('head link[rel="search"]')
            assert link.get_attribute("type") == "application/opensearchdescription+xml"
            assert link.get_attribute("title") == NAME
            address = link.evaluate("link => link.href")
        template = page.evaluate(
            "async (address) => new DOMParser().parseFromString(await (await fetch(address)).text(), 'text/xml')"
            ".querySelector('Url[type=\"text/html\"]').getAttribute('template')",
            address,
        )
        page.goto(template.replace("{searchTerms}", "barn+owl"))
        assert page.locator("#results a[href*='owls.example/3']").count()
        assert page.locator('input[name="q"]').first.input_value() == "barn owl"


def test_another_opilio_takes_the_results_as_seeds(portal: Portal, tmp_path: Path) -> None:
    """Round trip of two collections: by the description, by a template of either feed, and by REST, the same pages."""
    ranked = [one["url"] for one in portal.get(f"/api{BASE}search", q="barn owl")[1]["results"]]
    for provider in (
        f"opensearch={portal.address}{BASE}opensearch.xml",
        f"opensearch={portal.address}{BASE}search.rss?q={{searchTerms}}&page={{startPage?}}&size=3",
        f"opensearch={portal.address}{BASE}search.atom?q={{searchTerms}}",
        f"opilio={portal.address}{BASE}",
    ):
        assert urls_of(find_seeds("barn owl", allowing(), providers=[provider])) == ranked, provider
    changes = {"fetch.allow_private_addresses": True, "seeds.providers": [f"opilio={portal.address}{BASE}"]}
    other = Collection.create(tmp_path / "other", query="barn owl", settings=changes)
    assert [row[0] for row in other.sql("SELECT url FROM seeds ORDER BY found[1].rank").rows] == ranked


def test_a_federation_is_a_provider_too(tmp_path: Path) -> None:
    """Its description, its feeds and its REST search give the pages of all of its collections."""
    place = make_federation(tmp_path)
    with ExitStack() as stack:
        portal = stack.enter_context(Portal(place))
        peers = [LocalPeer(name, place / name) for name in ("birds", "cars")]
        server = stack.enter_context(FederationServer(peers, tmp_path / "state"))
        assert 'rel="search"' in server.get("/")[1]
        found = server.get("/api/search", q="owl", size=20)[1]["results"]
        read = feedparser.parse(server.get("/search.rss", q="owl", size=20)[1])
        assert not read.bozo
        assert [entry.link for entry in read.entries] == [one["url"] for one in found]
        for provider in (f"opensearch={server.address}/opensearch.xml", f"opilio={server.address}"):
            got = urls_of(find_seeds("owl", allowing(max_per_provider=10), providers=[provider]))
            assert got == [one["url"] for one in found[:10]], provider
        assert portal.get("/c/birds/opensearch.xml")[0] == 200


def test_questions_that_cannot_be_answered(portal: Portal) -> None:
    """No question gives an empty feed, a wrong one an error; sizes that are too large are cut."""
    read = feedparser.parse(portal.get(f"{BASE}search.rss")[1])
    assert (read.bozo, len(read.entries)) == (False, 0)
    assert portal.get(f"{BASE}search.atom", q="(owl")[0] == 400
    assert portal.get(f"{BASE}search.atom", q="owl", size="100000", page="")[0] == 200
    assert portal.get("/c/nothing/opensearch.xml")[0] == 404


def test_a_published_site_has_a_description_where_its_address_is_known(tmp_path: Path) -> None:
    """Browsers can add the search of a static site; without the address of the site there is no description."""
    collection = make_collection(tmp_path / "c", PAGES)
    publish(collection, tmp_path / "site", name="owls", base_url="https://owls.example/")
    root = ElementTree.parse(tmp_path / "site" / "opensearch.xml").getroot()
    [template] = [one.get("template") for one in root.iterfind("o:Url[@type='text/html']", NS)]
    assert template == "https://owls.example/search.html?q={searchTerms}"
    assert 'href="opensearch.xml"' in (tmp_path / "site" / "index.html").read_text()
    publish(collection, tmp_path / "other", name="owls")
    assert not (tmp_path / "other" / "opensearch.xml").exists()
    assert "opensearch" not in (tmp_path / "other" / "index.html").read_text()
