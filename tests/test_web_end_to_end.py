"""The whole way in a real browser: a wish, a crawl that is watched, the portal, a word about a result, a new ranking."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from browser import chromium, signed_in
from conftest import TAUGHT_TOPICS
from opilio import Collection
from opilio.lab.local_web import LocalServer
from web_portal import Portal

PAGES = 80


@pytest.fixture
def portal(tmp_path: Path) -> Iterator[Portal]:
    """A portal without collections."""
    (tmp_path / "shelf").mkdir()
    with Portal(tmp_path / "shelf") as portal:
        yield portal
        for name in portal.shelf.names():  # a crawl begun here is a process that would outlive the test
            Collection(portal.shelf.path(name)).stop()


def settings(server: LocalServer, **more: object) -> str:
    """Lines of settings, as a user writes them in the wizard."""
    [(pattern, address)] = server.connect_to.items()
    lines = [f'fetch.connect_to={{ "{pattern}" = "{address}" }}', "run.workers=1", "classify.classifier=bayes"]
    return "\n".join([*lines, *(f"{key.replace('__', '.')}={value}" for key, value in more.items())])


def wish(page: Page, portal: Portal, name: str, lines: str) -> None:
    """Fill in the wizard's common part and send it."""
    page.get_by_label("Name").fill(name)
    page.get_by_label("Pages", exact=True).fill(str(PAGES))
    page.get_by_text("More settings").click()
    page.get_by_label("One on each line, as section.key=value").fill(lines)
    page.get_by_role("button", name="Make it and crawl").click()
    page.wait_for_url(f"{portal.address}/c/{name}/watch")


def figure(page: Page, name: str) -> int:
    """A live figure of the dashboard."""
    return int(re.sub(r"\D", "", page.locator(f"[data-live={name}]").inner_text()) or 0)


def test_from_a_wish_to_a_changed_ranking(small_server: LocalServer, portal: Portal, tmp_path: Path) -> None:
    """Bookmarks become a crawl seen live; a result called wrong, learned from, ranks lower; undone, it is as it was."""
    bookmarks = tmp_path / "bookmarks.html"
    bookmarks.write_text(small_server.web.bookmarks(TAUGHT_TOPICS), encoding="utf-8")
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.get_by_role("link", name="New", exact=True).click()
        page.get_by_label("Bookmark file of your browser").set_input_files(bookmarks)
        wish(page, portal, "documents", settings(small_server, fetch__host_delay_s=0.4))  # long enough to be seen

        seen = set()  # the dashboard moves by itself
        deadline_s = time.monotonic() + 90
        while figure(page, "pages") < PAGES and time.monotonic() < deadline_s:
            seen.add(figure(page, "pages"))
            page.wait_for_timeout(200)
        assert figure(page, "pages") == PAGES
        assert len(seen) > 2
        expect(page.locator("#now")).to_contain_text("page limit", timeout=30_000)
        expect(page.locator("#harvest svg")).to_be_visible()

        page.get_by_role("link", name="documents", exact=True).click()
        expect(page.get_by_role("link", name=TAUGHT_TOPICS[0]).first).to_be_visible()

        # A result of the search by confidence is said to be wrong.
        path = f"/c/documents/search?q={quote('topic:' + chr(34) + TAUGHT_TOPICS[1] + chr(34))}&bm25=0&confidence=1"
        page.goto(portal.address + path)
        expect(page.locator(".results .title").nth(4)).to_be_visible(timeout=60_000)  # when there is an index, it is
        before = page.locator(".results .title").all_inner_texts()
        page.locator(".results > li").first.get_by_role("button", name="Not relevant").click()
        expect(page.locator("#said")).to_be_visible()

        page.get_by_role("link", name="Teach", exact=True).click()
        expect(page.get_by_role("heading", name="1 change not yet learned")).to_be_visible()
        page.get_by_role("button", name="Retrain and re-judge").click()
        page.wait_for_url("**/compare?**", timeout=60_000)
        expect(page.get_by_role("heading", name="Keep it, or undo")).to_be_visible()
        compared = page.url

        page.goto(portal.address + path)
        after = page.locator(".results .title").all_inner_texts()
        assert before[0] not in after[:1]
        assert after != before

        page.goto(compared)
        page.get_by_label("and undo my changes since then").check()
        page.get_by_role("button", name=re.compile("Undo")).click()
        page.wait_for_url("**/teach", timeout=60_000)
        page.goto(portal.address + path)
        assert page.locator(".results .title").all_inner_texts() == before


def test_a_question_and_a_pause(small_server: LocalServer, portal: Portal) -> None:
    """A question with a place to begin makes a crawl that a browser can hold, let go and stop."""
    seed = next(url for url, page in small_server.web.pages.items() if page.topic == TAUGHT_TOPICS[1])
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/new")
        page.get_by_label("A question").check()
        page.get_by_label("Words that describe the pages").fill("data compression archive")
        page.get_by_label("Where to start: one address on each line").fill(seed)
        wish(page, portal, "question", settings(small_server, fetch__host_delay_s=0.5))
        page.get_by_role("button", name="Pause").click()
        expect(page.locator("#now")).to_contain_text("paused", timeout=15_000)
        page.wait_for_timeout(2500)  # what was under way comes in
        held = figure(page, "pages")
        page.wait_for_timeout(1500)
        assert figure(page, "pages") == held
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("[data-live=pages]")).not_to_have_text(str(held), timeout=20_000)
        page.get_by_role("button", name="Stop", exact=True).click()
        expect(page.locator("#now")).to_contain_text("stopped", timeout=30_000)
        expect(page.get_by_role("button", name="Continue", exact=True)).to_be_visible()


def test_a_wish_that_cannot_be_met_is_told(portal: Portal) -> None:
    """A wizard without anything to begin from says so on the page, and makes nothing."""
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/new")
        page.get_by_label("Name").fill("nothing")
        page.get_by_role("button", name="Make it and crawl").click()
        expect(page.locator("#said")).to_contain_text("nothing to start from")
    assert portal.shelf.names() == []
