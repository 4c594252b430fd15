"""Everybody can use the portal: axe finds nothing serious on any page, by day and by night, on a desk and on a phone."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

import search_pages
from browser import chromium, signed_in
from conftest import TAUGHT_TOPICS
from opilio.web import teaching
from search_pages import make_collection
from web_portal import Portal

SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def portal(crawled_taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """A portal of a small crawl."""
    place = tmp_path_factory.mktemp("usable")
    shutil.copytree(crawled_taught, place / "docs")
    with Portal(place) as portal:
        yield portal


def paths(portal: Portal) -> list[str]:
    """Every kind of page, with something on it."""
    with portal.shelf.reading("docs") as collection:
        url = collection.sql("SELECT url FROM collection ORDER BY relevance DESC LIMIT 1").rows[0][0]
    topic = quote(TAUGHT_TOPICS[0])
    inside = [
        "/", f"/topic?topic={topic}", f"/page?url={quote(url)}", "/search?q=data", "/search", "/distill?search=data", "/watch", "/teach",
        f"/clusters?topic={topic}&k=2", f"/review?topic={topic}", "/sql", f"/sql?sql={quote('FROM harvest')}",
    ]  # fmt: skip
    return ["/collections", "/new", "/login", "/api", "/nothing", *(f"/c/docs{path}" for path in inside)]


def findings(page: Page, rules: list[str]) -> list[str]:
    """What axe says of a page that is serious, by these rules or by all."""
    options = {"runOnly": {"type": "rule", "values": rules}} if rules else {}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{v['id']}: {n['html'][:200]}" for v in found if v["impact"] in SERIOUS for n in v["nodes"]]


@pytest.fixture(scope="module")
def found(portal: Portal) -> dict[str, dict[str, list[str]]]:
    """What axe says by day and by night, by page: each page is opened once, and seen in both lights."""
    wrong: dict[str, dict[str, list[str]]] = {"light": {}, "dark": {}}
    with chromium() as browser:
        page = signed_in(browser, portal.address, color_scheme="light")
        for path in paths(portal):
            page.goto(portal.address + path)
            if "/watch" in path:
                page.wait_for_timeout(1000)  # its charts come by and by
            wrong["light"][path] = findings(page, [])
            page.emulate_media(color_scheme="dark")
            wrong["dark"][path] = findings(page, ["color-contrast"])  # what else there is to find is the same by night
            page.emulate_media(color_scheme="light")
    return wrong


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(found: dict[str, dict[str, list[str]]], scheme: str) -> None:
    """Names of fields, contrast, order of headings, roles: no serious finding on any page."""
    assert {path: wrong for path, wrong in found[scheme].items() if wrong} == {}


def test_a_phone_need_not_scroll_sideways(portal: Portal) -> None:
    """No page is wider than a narrow screen."""
    wide = []
    with chromium() as browser:
        page = signed_in(browser, portal.address, viewport={"width": 390, "height": 800})
        for path in paths(portal):
            page.goto(portal.address + path)
            page.wait_for_timeout(200)
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > 390:
                wide.append((path, width))
    assert wide == []


def test_a_phone_has_one_row_of_navigation_no_hint_of_keys_and_short_lists(
    portal: Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The menu scrolls sideways; the key of the search is shown only where there is a keyboard; archetypes have pages."""
    monkeypatch.setattr(teaching, "PER_PAGE", 3)
    with chromium() as browser:
        size = {"width": 390, "height": 800}
        page = signed_in(browser, portal.address, viewport=size, has_touch=True, is_mobile=True)
        page.goto(f"{portal.address}/c/docs/archetypes")
        menu = page.get_by_role("navigation", name="Collection").get_by_role("link")
        boxes = [box for box in (link.bounding_box() for link in menu.all()) if box]
        assert len(boxes) == 6 and len({round(box["y"]) for box in boxes}) == 1
        assert not page.locator(".find kbd").is_visible()
        assert page.locator("#archetypes > li").count() == 3
        first = page.locator("#archetypes .title").first.inner_text()
        page.get_by_role("link", name="Next").click()
        page.wait_for_url("**page=2")
        assert page.locator("#archetypes .title").first.inner_text() != first
        desk = signed_in(browser, portal.address)
        desk.goto(f"{portal.address}/c/docs/")
        assert desk.locator(".find kbd").is_visible()


def test_pages_can_be_read_without_scripts(portal: Portal, tmp_path: Path) -> None:
    """With JavaScript off, the tree, a topic, a page and a search still show what there is."""
    with chromium() as browser:
        page = browser.new_context(java_script_enabled=False).new_page()
        for path in ("/c/docs/", f"/c/docs/topic?topic={quote(TAUGHT_TOPICS[0])}", "/c/docs/search?q=data"):
            page.goto(portal.address + path)
            assert page.locator("main a[href*='/page?url=']").count() > 2, path


def test_a_long_word_does_not_widen_a_phone(tmp_path: Path) -> None:
    """The name of a topic and a title without a space are broken, in lists, tags and choices too."""
    word, url = "W" * 200, "http://h0.example/0.html"
    collection = make_collection(tmp_path / "c", [search_pages.Page("an owl", title=word, relevance=0.9)])
    collection.sql(f"UPDATE topics SET name = '{word}', path = '{word}' WHERE kcid = 1", write=True)
    with Portal(tmp_path) as portal, chromium() as browser:
        page = signed_in(browser, portal.address, viewport={"width": 390, "height": 800})
        for path in ("", "topic", f"topic?topic={word}", f"page?url={url}", f"teach?url={url}"):
            page.goto(f"{portal.address}/c/c/{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
