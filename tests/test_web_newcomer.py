"""The first hour in the portal, in a real Chromium: no empty page without a next step, no button that cannot work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser import chromium, signed_in
from fetch_servers import WebServer
from opilio import Collection
from opilio.lab.local_web import LocalServer, build
from opilio.web.finding import proposals
from test_learn_words import asked, relevant
from web_portal import Portal

PHONE = {"width": 390, "height": 780}


@pytest.fixture
def asked_for(tmp_path: Path) -> Iterator[Collection]:
    """A collection made from a question, crawled and without a model."""
    with asked(tmp_path, search__index=True) as collection:
        collection.crawl()
        yield collection


def words_left(page: Page) -> str:
    return page.locator("[data-taught] .taught").inner_text()


def test_an_empty_shelf_leads_to_the_form(tmp_path: Path) -> None:
    """Without collections the start page says what there is to do, and each card opens the form with its fields."""
    with Portal(tmp_path) as portal, chromium() as browser:
        page = signed_in(browser, portal.address, viewport=PHONE)
        expect(page.locator("main")).to_contain_text("Nothing here yet")
        expect(page.locator("main")).to_contain_text("opilio demo")
        for card, field in (("Bookmarks", "#bookmarks"), ("A few good pages", "#examples"), ("A question", "#query")):
            page.goto(portal.address + "/collections")
            page.get_by_role("link", name=card, exact=True).click()
            expect(page.locator(field)).to_be_visible()
        page.fill("#query", "barn owls")
        page.keyboard.press("Tab")
        page.get_by_role("button", name="Make it and crawl").click()
        expect(page.locator("#said")).to_contain_text("not where to start. Search for them")


def test_the_check_of_links_uses_the_settings_of_the_form(tmp_path: Path) -> None:
    """A machine that reaches nothing directly: the check says that none answered and what to do; with the settings that
    the crawl would use, it finds the pages and the dead one."""
    with LocalServer(build("small")) as server, Portal(tmp_path) as portal, chromium() as browser:
        text = server.web.bookmarks(["cryptography"], 3)
        gone = server.web.bookmarks(["cryptography"], 1).split('HREF="')[1].split('"')[0] + "-gone"
        (tmp_path / "mine.html").write_text(text.replace("<DL><p>", f'<DL><p>\n<DT><A HREF="{gone}">gone</A>', 1))
        page = signed_in(browser, portal.address)
        page.goto(portal.address + "/new")
        page.set_input_files("#bookmarks", tmp_path / "mine.html")
        page.get_by_role("button", name="Check the links").click()
        expect(page.locator("#checked")).to_contain_text("4 bookmarks checked, 4 dead", timeout=60_000)
        expect(page.locator("#checked")).to_contain_text("None answered. Is this machine connected?")
        page.get_by_text("More settings", exact=True).click()
        page.fill("#settings", f'fetch.connect_to={{"*"="{server.address}"}}\nfetch.host_delay_s=0.0')
        page.get_by_role("button", name="Check the links").click()
        expect(page.locator("#checked")).to_contain_text("4 bookmarks checked, 1 dead", timeout=60_000)
        expect(page.locator("#checked")).not_to_contain_text("None answered")


def test_a_crawl_that_stored_nothing_offers_nothing_to_learn_from(tmp_path: Path) -> None:
    """All seeds are dead: no page offers to learn from hits or to answer questions, and the front leads to the seeds."""
    (tmp_path / "seeds.txt").write_text("http://owls.test/gone\n")
    with WebServer({}) as server:
        settings = {"fetch.connect_to": {"*": server.address}}
        collection = Collection.create(tmp_path / "c", seeds=tmp_path / "seeds.txt", query="owls", settings=settings)
        collection.crawl()
    with Portal(tmp_path) as portal:
        for where in ("watch", "teach", "questions"):
            status, text = portal.get_with_token(f"/c/c/{where}")
            assert status == 200 and "Learn from the" not in text and "Answer questions" not in text, where
        front = portal.get_with_token("/c/c/")[1]
        assert 'href="/c/c/watch#seeds-head"' in front and "or continue the crawl" not in front
        assert 'id="seeds-head"' in portal.get("/c/c/watch")[1]


def test_a_question_is_taught_by_clicks(asked_for: Collection) -> None:
    """Before there is a model no button promises to train one; the page says how many pages must be confirmed. No to a
    find, after a yes, says how many similar pages left the topic; after three times yes the usual button is there and trains."""
    before = relevant(asked_for, "casino")
    with Portal(asked_for.folder.parent) as portal, chromium() as browser:
        page = signed_in(browser, portal.address)
        watch = f"{portal.address}/c/{asked_for.folder.name}/watch"
        page.goto(watch)
        assert "3 more yes make a model" in words_left(page)
        expect(page.get_by_role("button", name="Retrain now")).to_have_count(0)
        finds = page.locator("ol.finds > li")
        yes = page.get_by_role("button", name="Yes", exact=True)
        finds.filter(has_text="/owl/").filter(has=yes).first.get_by_role("button", name="Yes", exact=True).click()
        expect(page.locator("[data-taught] .taught")).to_contain_text("; 2 more yes", timeout=20_000)
        finds.filter(has_text="casino").first.get_by_role("button", name="No", exact=True).click()
        expect(page.locator("#said")).to_contain_text("similar pages left the topic")
        left = [url for url in before if url not in relevant(asked_for, "casino")]
        assert len(left) > 3  # the page that was refused, and others: how many depends on which page that was
        page.goto(watch)
        for count in (1, 0):
            finds.filter(has_text="/owl/").filter(has=yes).first.get_by_role("button", name="Yes", exact=True).click()
            if count:
                expect(page.locator("[data-taught] .taught")).to_contain_text(f"; {count} more yes", timeout=20_000)
        page.get_by_role("button", name="Retrain now").click()
        expect(page.locator("#said")).to_contain_text("model 1 is in use now", timeout=60_000)
    assert asked_for.models()[0]["documents"] >= 3


def test_the_best_hits_are_learned_by_one_click(asked_for: Collection) -> None:
    """The page of questions offers to learn from the best hits unseen; then there is a model, and the offer is gone."""
    with Portal(asked_for.folder.parent) as portal, chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/{asked_for.folder.name}/questions")
        page.get_by_role("button", name="Learn from the 8 best hits").click()
        expect(page.locator("#said")).to_contain_text("model 1 is in use now", timeout=60_000)
        expect(page.get_by_role("button", name="Learn from the 8 best hits")).to_have_count(0)
    assert asked_for.sql("SELECT count(*) FROM training WHERE source = 'hit'").rows == [(8,)]


def test_a_search_that_finds_nothing_leads_on(asked_for: Collection) -> None:
    """A misspelled word: questions that do find pages are offered, and no others; a phrase is left as it is."""
    assert proposals("lampp of moth") == ["lampp~ of moth~", "lampp OR of OR moth"]
    assert proposals('"barn owl"') == [] and proposals("title:owl x") == []
    with Portal(asked_for.folder.parent) as portal, chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/{asked_for.folder.name}/search?q=rescu%20owll")
        page.get_by_role("link", name="rescu~ owll~").click()
        expect(page.locator("ol.results > li").first).to_be_visible()
        page.goto(f"{portal.address}/c/{asked_for.folder.name}/search?q=xylophone")
        expect(page.locator("#results")).to_contain_text("Nothing found. Try fewer words")
