"""The portal's pages for teaching and clusters, and their part of the API, on a collection that was really crawled."""

import json
import shutil
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe

from browser import chromium, signed_in
from conftest import MakeTaught
from opilio import Collection
from opilio.web.pages import environment
from search_pages import Page, make_collection
from web_portal import TOKEN, Portal

TOPIC, OTHER = "statistics", "data compression"


@pytest.fixture
def portal(crawled_taught: Path, tmp_path: Path) -> Iterator[Portal]:
    """A portal of a copy of it."""
    shutil.copytree(crawled_taught, tmp_path / "all" / "c")
    with Portal(tmp_path / "all") as running:
        yield running


def pages_of(portal: Portal, topic: str) -> list[str]:
    """The pages of a topic that are no examples."""
    sql = f"""
        SELECT url FROM collection WHERE topic = '{topic}' AND relevance >= 0.5
        AND url NOT IN (SELECT name FROM training) ORDER BY url
    """
    return [url for (url,) in Collection(portal.shelf.path("c")).sql(sql).rows]


def test_every_page_answers_and_says_what_it_is_about(portal: Portal) -> None:
    """Teach with a topic and with a page, archetypes, models, a comparison, clusters with and without a topic."""
    [url, *_] = pages_of(portal, TOPIC)
    for path, given, said in (
        ("teach", {}, "All changes are learned"),
        ("teach", {"topic": TOPIC}, "Examples of statistics"),
        ("teach", {"url": url}, "Learn from a part of a page"),
        ("teach", {"url": "http://nowhere.test/"}, "not a page of this collection"),
        ("archetypes", {}, "Archetypes of c"),
        ("models", {}, "first model"),
        ("compare", {"first": 1, "second": 1}, "By topic"),
        ("clusters", {}, "Choose a topic"),
        ("clusters", {"topic": TOPIC, "k": 2}, "in 2 clusters"),
        ("clusters", {"topic": "no such"}, "no topic"),
    ):
        status, page = portal.get(f"/c/c/{path}", **given)
        assert (status, said in page) == (200, True), (path, given)
        assert "data-api" not in page  # nobody is signed in


def test_feedback_waits_is_learned_compared_and_undone(portal: Portal) -> None:
    """The whole way through the API, with a sentence for the user at each step."""
    url, other, *_ = pages_of(portal, TOPIC)
    status, said = portal.ask("POST", "/api/c/c/feedback", {"url": url, "verdict": "irrelevant"})
    assert (status, said["said"]) == (200, "a counter-example of statistics from now on")
    portal.ask("POST", "/api/c/c/feedback", {"url": other, "verdict": "belongs", "topic": OTHER})
    assert portal.get("/api/c/c/pending")[1]["count"] == 2
    assert "2 changes not yet learned" in portal.get("/c/c/teach")[1]
    _, trained = portal.ask("POST", "/api/c/c/train", {})
    assert (trained["first"], trained["second"]) == (1, 2)
    _, told = portal.get("/api/c/c/compare", first=1, second=2)
    assert told["moved_pages"] >= 2
    assert "Pages that changed topics" in portal.get("/c/c/compare", first=1, second=2)[1]
    _, undone = portal.ask("POST", "/api/c/c/undo", {"version": 1, "forget": True})
    assert (undone["version"], undone["forgotten"]) == (3, 2)
    assert url in pages_of(portal, TOPIC) and other in pages_of(portal, TOPIC)


def test_examples_are_added_dropped_and_trimmed(portal: Portal) -> None:
    """By address, by text, as a part of a page; files of the server's machine cannot be read that way."""
    [url, *_] = pages_of(portal, TOPIC)
    add = "/api/c/c/examples"
    assert portal.ask("POST", add, {"topic": TOPIC, "example": url, "positive": False})[0] == 200
    assert portal.ask("POST", add, {"topic": TOPIC, "example": "/etc/hostname"})[1]["name"].startswith("http://")
    names = {(one["name"], one["kind"]) for one in portal.get(add, topic=TOPIC)[1]}
    assert not any(kind == "file" for _, kind in names)
    assert portal.ask("POST", f"{add}/drop", {"topic": TOPIC, "name": url})[0] == 200
    assert portal.ask("POST", f"{add}/drop", {"topic": TOPIC, "name": url})[0] == 400
    text = Collection(portal.shelf.path("c")).page_text(url)["text"]
    part = {"topic": TOPIC, "url": url, "text": " ".join(text.split()[:5])}
    assert "5 words" in portal.ask("POST", "/api/c/c/trim", part)[1]["said"]
    assert portal.ask("POST", "/api/c/c/trim", {**part, "text": "xylophones"})[0] == 400


def test_archetypes_marks_and_models(portal: Portal) -> None:
    """Confirm, reject, want no more, and use an older model again."""
    first, second, *_ = pages_of(portal, TOPIC)
    assert portal.ask("POST", "/api/c/c/archetypes/confirm", {"topic": TOPIC, "url": first})[0] == 200
    assert portal.ask("POST", "/api/c/c/archetypes/reject", {"topic": TOPIC, "url": second})[0] == 200
    assert portal.ask("POST", "/api/c/c/mark", {"topic": OTHER, "good": False})[1]["changed"] == {OTHER: "null"}
    assert portal.ask("POST", "/api/c/c/models/use", {"version": 1})[1]["version"] == 2
    assert portal.ask("POST", "/api/c/c/models/use", {"version": 9})[0] == 400
    assert [model["version"] for model in portal.get("/api/c/c/models")[1]] == [2, 1]


def test_a_split_makes_topics_and_bad_ones_do_not(portal: Portal) -> None:
    """Clusters come as JSON and go back as subtopics."""
    _, found = portal.get("/api/c/c/clusters", topic=TOPIC, k=2)
    body = {"topic": TOPIC, "clusters": [{**one, "name": f"part {n}"} for n, one in enumerate(found["clusters"])]}
    _, made = portal.ask("POST", "/api/c/c/split", body)
    assert made["topics"] == ["statistics / part 0", "statistics / part 1"]
    assert portal.ask("POST", "/api/c/c/split", body)[0] == 400
    assert portal.ask("POST", "/api/c/c/split", body, token="wrong")[0] == 403


def test_changes_need_the_token(portal: Portal) -> None:
    """Every route that changes something refuses a stranger."""
    for path in ("feedback", "examples", "examples/drop", "mark", "trim", "train", "undo", "models/use", "split", "review",
                 "review/back", "review/learn", "review/anew", "archetypes/confirm", "archetypes/reject"):  # fmt: skip
        assert portal.ask("POST", f"/api/c/c/{path}", {}, token="")[0] == 403, path


def test_the_feedback_form_escapes_and_is_for_those_who_signed_in() -> None:
    """An address of a stranger stays an attribute; without a session there is no form."""
    form, evil = environment().get_template("feedback.html"), 'http://x/"><script>alert(1)</script>'
    given = {"name": "a b", "result": {"url": evil, "topic": TOPIC}, "given": {}, "csrf": "x", "here": "/c/a%20b/"}
    shown = form.render(**given, signed_in=True, topics=[TOPIC, OTHER])
    assert "<script>" not in shown and "/api/c/a%20b/feedback" in shown
    assert f"<option>{OTHER}</option>" in shown and f"<option>{TOPIC}</option>" not in shown
    assert "<form" in form.render(**given, signed_in=True)
    assert form.render(**given, signed_in=False).strip() == ""


def test_a_crawl_that_waits_between_its_phases_is_told_to_go_on(portal: Portal) -> None:
    """Only then do the pages say so."""
    says = "The crawl waits for you"
    assert says not in portal.get("/c/c/teach")[1]
    Collection(portal.shelf.path("c")).sql("UPDATE progress SET phase = 'paused'", write=True)
    assert says in portal.get("/c/c/teach")[1]


def test_a_user_trims_retrains_undoes_and_splits_in_a_browser(portal: Portal) -> None:
    """The selection is taken, training leads to the comparison, undoing back; clusters become topics by a click."""
    [url, *_] = pages_of(portal, TOPIC)
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/c/teach?url={quote(url)}&topic={TOPIC}")
        page.evaluate("""() => {
            const range = document.createRange(), text = document.getElementById("text").firstChild;
            range.setStart(text, 0); range.setEnd(text, 40);
            const selection = getSelection(); selection.removeAllRanges(); selection.addRange(range);
        }""")
        page.get_by_role("button", name="Take the selection").click()
        assert 40 <= len(page.locator("#trim-text").input_value()) < 80  # to the end of the word
        page.get_by_role("button", name="Learn from this part").click()
        page.get_by_role("heading", name="1 change not yet learned").wait_for()
        page.get_by_role("button", name="Retrain and re-judge").click()
        page.get_by_role("heading", name="Model 1 and model 2").wait_for()
        page.get_by_label("and undo my changes since then").check()
        page.get_by_role("button", name="Undo: model 1 again").click()
        page.get_by_role("heading", name="All changes are learned").wait_for()
        for path in (f"clusters?topic={TOPIC}&k=2", f"teach?topic={TOPIC}", "archetypes"):
            page.goto(f"{portal.address}/c/c/{path}")
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()
        page.keyboard.press("j")
        page.keyboard.press("c")
        page.get_by_text("confirmed").first.wait_for()
        page.goto(f"{portal.address}/c/c/clusters?topic={TOPIC}&k=2")
        page.get_by_label("Name of the subtopic").first.fill("first half")
        page.locator("li[data-cluster] input[type=checkbox]").nth(1).uncheck()
        page.get_by_role("button", name="Make these subtopics").click()
        page.wait_for_url("**/teach")
        page.get_by_role("link", name="statistics / first half").wait_for()


def test_what_no_topic_took_can_be_given_to_one(tmp_path: Path) -> None:
    """The list of OTHERS offers the topics, and no button that could only fail."""
    make_collection(tmp_path / "c", [Page("a page", title="Lost", relevance=0.0, kcid=0)])
    url = "http://h0.example/0.html"
    with Portal(tmp_path) as portal:
        text = signed_in_page(portal, "/c/c/topic?topic=OTHERS")
        assert "Lost" in text
        assert "<option>Birds / Owls</option>" in text
        assert portal.ask("POST", "/api/c/c/feedback", {"url": url, "verdict": "irrelevant"})[0] == 400
        assert 'value="irrelevant"' not in text
        given = {"url": url, "verdict": "belongs", "topic": "Birds / Owls"}
        assert portal.ask("POST", "/api/c/c/feedback", given)[0] == 200
        text = signed_in_page(portal, "/c/c/topic?topic=")
        assert "<option>" not in text


def signed_in_page(portal: Portal, path: str) -> str:
    """A page as somebody who has signed in gets it."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    body, kind = json.dumps({"token": TOKEN}).encode(), {"Content-Type": "application/json"}
    opener.open(urllib.request.Request(f"{portal.address}/api/login", body, kind)).close()
    with opener.open(portal.address + path) as response:
        return str(response.read().decode())


def test_a_mark_waits_to_be_learned_like_an_example(make_taught: MakeTaught) -> None:
    """A topic that is not wanted any more is still judged as wanted until a model is trained: what waits says so."""
    collection = make_taught()
    collection.crawl()
    relevant = collection.portal()["crawl"]["relevant"]
    collection.mark("statistics", good=False)
    waits = collection.pending()
    assert collection.portal()["crawl"]["relevant"] == relevant
    assert [(one["topic"], one["change"]) for one in waits["changes"]] == [("statistics", "not wanted any more")]
    collection.mark("statistics", good=True)
    assert collection.pending()["count"] == 0  # all is as it was
    collection.mark("statistics", good=False)
    before = waits["model"]
    collection.train()
    assert collection.pending()["count"] == 0
    assert collection.portal()["crawl"]["relevant"] < relevant
    assert collection.forget_changes(before) == 0  # marks are not taken back
    collection.use_model(before)
    assert [one["change"] for one in collection.pending()["changes"]] == ["not wanted any more"]
