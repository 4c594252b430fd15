"""The portal's page of questions: cards, keys, plain forms, badges; and titles that would like to be more than titles."""

import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browser import chromium, signed_in
from opilio import Collection
from web_portal import TOKEN, Portal

HOSTILE = """<script>alert(1)</script><img src=x onerror="alert(2)">" onclick="alert(3)' {{ 7 * 7 }}"""


@pytest.fixture
def portal(crawled_taught: Path, tmp_path: Path) -> Iterator[Portal]:
    """A portal of a copy of a crawled collection, whose crawl asked questions."""
    shutil.copytree(crawled_taught, tmp_path / "all" / "c")
    with Portal(tmp_path / "all") as running:
        yield running


def of(portal: Portal) -> Collection:
    """The collection itself."""
    return Collection(portal.shelf.path("c"))


def test_questions_are_asked_answered_and_undone_by_the_api(portal: Portal) -> None:
    """The list, an answer with a sentence, the answers, undoing; a wrong answer or page is refused with a reason."""
    _, asked = portal.get("/api/c/c/questions")
    assert len(asked) == 5
    oid = asked[0]["oid"]
    assert portal.ask("POST", "/api/c/c/answer", {"oid": oid, "answer": "yes"})[1]["said"] == "an example from now on"
    assert [one["oid"] for one in portal.get("/api/c/c/answers")[1]] == [oid]
    assert len(portal.get("/api/c/c/questions")[1]) == 4
    assert portal.ask("POST", "/api/c/c/answer/undo", {})[1]["oid"] == oid
    assert portal.get("/api/c/c/questions")[1] == asked
    assert portal.ask("POST", "/api/c/c/answer", {"oid": oid, "answer": "perhaps"})[0] == 422
    assert portal.ask("POST", "/api/c/c/answer", {"oid": -1, "answer": "yes"})[0] == 400
    assert portal.ask("POST", "/api/c/c/answer", {"oid": oid, "answer": "yes"}, token="")[0] == 403


def test_badges_count_the_questions(portal: Portal) -> None:
    """The front page and the crawl page say how many questions wait; none when they are turned off."""
    link = 'href="/c/c/questions"'
    for path in ("/c/c/", "/c/c/watch"):
        page = portal.get(path)[1]
        assert link in page and "5 questions" in page, path
    assert link in portal.get("/c/c/teach")[1]
    assert "data-api" not in portal.get("/c/c/questions")[1], "nobody is signed in"
    of(portal).change_settings({"learn.questions": 0})
    assert link not in portal.get("/c/c/")[1]
    assert "asks no questions" in portal.get("/c/c/questions")[1]


def test_keys_answer_and_undo(portal: Portal) -> None:
    """y, n and s answer the first card, u takes the latest answer back; the page is accessible in light and dark."""
    [first, second, third, *_] = of(portal).questions()
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/c/questions")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert not Axe().run(page).response["violations"]
        for key, count in (("y", 4), ("n", 3), ("s", 2), ("u", 3)):
            page.keyboard.press(key)
            expect(page.locator(".questions > li")).to_have_count(count)
            page.wait_for_load_state()
        assert page.locator("tbody .tag").all_inner_texts() == ["no", "yes"]
    answers = {one["oid"]: one["answer"] for one in of(portal).answers()}
    assert answers == {first["oid"]: "yes", second["oid"]: "no"}
    assert third["oid"] in {one["oid"] for one in of(portal).questions()}


def test_plain_forms_work_without_javascript(portal: Portal) -> None:
    """Signing in, answering and undoing by forms alone; each leads back to the page."""
    [first, *_] = of(portal).questions()
    with chromium() as browser:
        page = browser.new_context(java_script_enabled=False).new_page()
        page.goto(f"{portal.address}/login")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.goto(f"{portal.address}/c/c/questions")
        page.locator(".questions > li").first.get_by_role("button", name="No").click()
        assert page.url == f"{portal.address}/c/c/questions"
        assert page.locator(".questions > li").count() == 4
        assert [(one["oid"], one["answer"]) for one in of(portal).answers()] == [(first["oid"], "no")]
        page.get_by_role("button", name="Undo").click()
        assert page.locator(".questions > li").count() == 5
    assert of(portal).answers() == []


def test_a_form_of_another_site_is_refused(portal: Portal) -> None:
    """The secret in the address must be that of the session, and only forms may send it there."""
    oid = of(portal).questions()[0]["oid"]
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/c/questions")
        action = page.locator(".questions form").first.get_attribute("action")
        cookies = "; ".join(f"{one['name']}={one['value']}" for one in page.context.cookies())
    for address, kind, status in (
        ("/c/c/questions", "application/x-www-form-urlencoded", 403),
        ("/c/c/questions?csrf=wrong", "application/x-www-form-urlencoded", 403),
        (str(action), "text/plain", 403),
        (str(action), "application/x-www-form-urlencoded", 200),
    ):
        headers = {"Content-Type": kind, "Cookie": cookies}
        request = urllib.request.Request(portal.address + address, f"oid={oid}&answer=yes".encode(), headers)
        try:
            with urllib.request.urlopen(request) as response:
                found = response.status
        except urllib.error.HTTPError as error:
            with error:
                found = error.code
        assert found == status, (address, kind)
    assert len(of(portal).answers()) == 1


def test_hostile_titles_are_text(portal: Portal) -> None:
    """Titles, snippets and hosts with markup are shown as text; no script of theirs runs, and nothing is loaded."""
    collection = of(portal)
    oid = collection.questions()[0]["oid"]
    text = HOSTILE.replace("'", "''")
    collection.sql(f"UPDATE pages SET title = '{text}', description = '{text}' WHERE oid = {oid}", write=True)
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.on("dialog", lambda dialog: pytest.fail("a script of a fetched page ran"))
        page.goto(f"{portal.address}/c/c/questions")
        card = page.locator(".questions > li").first
        assert HOSTILE in card.inner_text()
        assert card.locator("script, img, [onclick], [onerror]").count() == 0
        card.get_by_role("button", name="Yes").click()
        page.get_by_role("cell", name="yes").wait_for()
        assert page.locator("tbody th").first.inner_text().startswith(HOSTILE[:20])


def test_a_question_about_an_unsafe_address_has_no_link_to_it(portal: Portal) -> None:
    """An address that is not of the web leads nowhere."""
    collection = of(portal)
    oid = collection.questions()[0]["oid"]
    collection.sql(f"UPDATE crawl SET url = 'javascript:alert(1)' WHERE oid = {oid}", write=True)
    assert 'href="javascript:' not in portal.get("/c/c/questions")[1]
