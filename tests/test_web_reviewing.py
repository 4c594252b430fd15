"""The portal's assisted review: its API, its page, and the keys."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from browser import chromium, signed_in
from command_line import call
from made_crawls import GARDENING, MadeCrawl
from opilio import Collection
from opilio.store import Store
from search_pages import Page, make_collection
from web_portal import Portal

TOPIC = "Gardening"
EVIL = "=HYPERLINK(1)<script>alert(1)</script>"


@pytest.fixture
def portal(tmp_path: Path) -> Iterator[Portal]:
    """A portal of a collection with thirty pages of a topic; one has a title that would do harm."""
    (tmp_path / "seeds.txt").write_text("http://h0.org/0")
    folder = Collection.create(tmp_path / "all" / "c", seeds=tmp_path / "seeds.txt").folder
    draw, crawl = random.Random(1), MadeCrawl()
    for _ in range(30):
        crawl.add(kcid=GARDENING, relevance=0.9, text=" ".join(draw.choices(["soil", "seed", "rose", "bed"], k=30)))
    crawl.add(20, kcid=0, relevance=0.0, text="oven flour", host=1)
    with Store.open(folder) as store:
        crawl.fill(store)
        with store.writing() as to:
            to.execute("UPDATE pages SET title = $1", [EVIL])
    with Portal(tmp_path / "all") as running:
        yield running


def test_the_review_goes_on_page_by_page(portal: Portal) -> None:
    """Judging moves on, undoing goes back to the same page, and the report fills."""
    path, topic = "/api/c/c/review", {"topic": TOPIC}
    _, state = portal.get(path, **topic)
    assert (state["left"], state["judged"]) == (10, 0)  # 6 of 30 doubtful ones, 4 of 20 left ones
    first = state["next"]["url"]
    assert portal.ask("POST", path, {**topic, "url": first, "verdict": "yes"})[0] == 200
    assert portal.get(path, **topic)[1]["next"]["url"] != first
    assert portal.ask("POST", f"{path}/back", topic)[1]["url"] == first
    while (state := portal.get(path, **topic)[1])["next"] is not None:
        verdict = "yes" if state["next"]["group"]["kind"] == "doubtful" else "no"
        portal.ask("POST", path, {**topic, "url": state["next"]["url"], "verdict": verdict})
    assert state["estimates"]["precision"]["value"] == state["estimates"]["recall"]["value"] == 1.0
    assert "All samples are judged" in portal.get("/c/c/review", **topic)[1]
    assert portal.ask("POST", f"{path}/learn", topic)[1] == {
        "said": "6 examples and 4 counter-examples to learn from", "yes": 6, "no": 4
    }  # fmt: skip
    assert portal.get("/api/c/c/pending")[1]["count"] >= 10
    assert portal.ask("POST", f"{path}/anew", topic)[1]["said"] == "10 verdicts deleted"


def test_a_group_is_dropped_and_kept_by_one_click(portal: Portal) -> None:
    """The buttons of a group decide, a second click takes it back, and what is kept can be downloaded."""
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/c/review?topic={TOPIC}")
        assert "http://" not in portal.get("/c/c/review/kept.csv", topic=TOPIC)[1]
        row = page.locator("tr", has_text="taken").first
        row.get_by_role("button", name="Keep").click()
        row.locator(".tag", has_text="kept").wait_for()
        assert portal.get("/c/c/review/kept.csv", topic=TOPIC)[1].count("http://") == 30
        row.get_by_role("button", name="Drop").click()
        row.locator(".tag", has_text="dropped").wait_for()
        assert "http://" not in portal.get("/c/c/review/kept.csv", topic=TOPIC)[1]
        row.get_by_role("button", name="Drop").click()
        row.locator(".tag", has_text="open").wait_for()
    said = portal.ask("POST", "/api/c/c/review/decide", {"topic": TOPIC, "group": "x", "decision": "kept"})
    assert said[0] == 400


def test_groups_are_decided_and_exported_by_command(tmp_path: Path) -> None:
    """The report numbers the groups; --drop and --keep take the number, --by-rule takes it back, --export writes."""
    folder, file = make_collection(tmp_path / "c", said_of(20)).folder, tmp_path / "kept.csv"
    report = call("review", folder, "Birds", "--report")
    assert "  1. open     taken" in report.stdout, report.stderr
    assert "1. kept" in call("review", folder, "Birds", "--keep", "1").stdout
    assert call("review", folder, "Birds", "--export", file).stdout == f"{file}: 20 pages\n"
    assert file.read_text().count("http://") == 20
    dropped = call("review", folder, "Birds", "--drop", "doubtful", "--export", file, "--json")
    assert json.loads(dropped.stdout) == {"pages": 0, "open": 0}
    assert "1. open" in call("review", folder, "Birds", "--by-rule", "1").stdout
    wrong = call("review", folder, "Birds", "--drop", "7")
    assert wrong.returncode == 1 and "Groups: doubtful" in wrong.stderr


def test_bad_requests_are_refused(portal: Portal) -> None:
    """A verdict that is none, a page and a topic that are not there, nothing to undo."""
    path = "/api/c/c/review"
    assert portal.ask("POST", path, {"topic": TOPIC, "url": "http://h0.org/1", "verdict": "maybe"})[0] == 422
    assert portal.ask("POST", path, {"topic": TOPIC, "url": "http://no.org/", "verdict": "yes"})[0] == 400
    assert portal.get(path, topic="Owls")[0] == 400
    assert portal.ask("POST", f"{path}/back", {"topic": TOPIC})[0] == 400


def test_text_of_strangers_does_no_harm(portal: Portal) -> None:
    """A title is text on the page, and no formula in the table that is downloaded."""
    status, page = portal.get("/c/c/review", topic=TOPIC)
    assert status == 200 and "<script>alert" not in page
    url = portal.get("/api/c/c/review", topic=TOPIC)[1]["next"]["url"]
    portal.ask("POST", "/api/c/c/review", {"topic": TOPIC, "url": url, "verdict": "no"})
    table = portal.get("/c/c/review/verdicts.csv", topic=TOPIC)[1]
    assert "'=HYPERLINK" in table and ",=HYPERLINK" not in table
    assert portal.get("/api/c/c/review/verdicts", topic=TOPIC)[1][0]["verdict"] == "no"


def test_a_review_by_keys(portal: Portal) -> None:
    """y, n, u, s and z judge and go back; the page has no fault that the accessibility checker knows of."""
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/c/review?topic={TOPIC}")
        assert Axe().run(page).violations_count == 0
        for key, judged in (("y", 1), ("n", 2), ("u", 2), ("s", 2), ("z", 2), ("z", 2), ("z", 1)):
            with page.expect_navigation():
                page.keyboard.press(key)
            page.get_by_text(f"{judged} judged").wait_for()


def said_of(texts: int) -> list[Page]:
    """Pages about owls, each relevant."""
    return [Page(f"the owl number {n} flies at night", title=f"Owl {n}", relevance=0.9) for n in range(texts)]


def test_what_was_skipped_comes_back_in_turn(tmp_path: Path) -> None:
    """Skipping what was skipped before leads to the next one, not to the same page for ever."""
    collection = make_collection(tmp_path / "c", said_of(20))
    shown = []
    for _ in range(12):
        url = collection.review("Birds")["next"]["url"]
        shown.append(url)
        collection.judge("Birds", url, "skip")
    sample = shown[:4]  # a fifth of 20
    assert len(set(sample)) == 4
    assert shown[4:8] == sample
    assert shown[8:12] == sample


def test_skipping_can_be_undone(tmp_path: Path) -> None:
    """A skip is a word like the others: it is counted, and undone by the page, the API and the command."""
    collection = make_collection(tmp_path / "c", said_of(20))
    assert collection.review("Birds")["verdicts"] == 0
    url = collection.review("Birds")["next"]["url"]
    collection.judge("Birds", url, "skip")
    assert collection.review("Birds")["verdicts"] == 1
    assert collection.review("Birds")["next"]["url"] != url
    assert collection.take_back("Birds") == url
    assert collection.review("Birds")["verdicts"] == 0
    assert collection.review("Birds")["next"]["url"] == url


def test_a_review_of_all_topics_teaches_what_it_can(tmp_path: Path) -> None:
    """A page that no topic took is not said to be an example of the root, which has none: nobody would learn it."""
    pages = [*said_of(3), Page("an engine", title="Cars", relevance=0.0, kcid=0)]
    collection = make_collection(tmp_path / "c", pages)
    for number in (0, 3):
        collection.judge("", f"http://h{number % 3}.example/{number}.html", "yes")
    collection.judge("", "http://h1.example/1.html", "no")
    assert collection.learn_review("") == {"yes": 1, "no": 1}
    learned = {(one["topic"], one["name"][-6:], one["positive"]) for one in collection.examples()}
    assert learned == {("Birds", "0.html", True), ("all", "1.html", False)}


def test_a_key_pressed_too_soon_judges_nothing(tmp_path: Path) -> None:
    """A key pressed after a verdict was sent, before the next page is there, is not a verdict on the page before."""
    make_collection(tmp_path / "c", said_of(20))
    with Portal(tmp_path) as portal, chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(f"{portal.address}/c/c/review?topic=Birds")
        url = page.locator(".address a").inner_text()
        held: list[Any] = []
        page.route("**/c/c/review?*", lambda route, _: held.append(route))  # the next page is slow
        with page.expect_response("**/api/c/c/review"):
            page.keyboard.press("y")
        page.wait_for_timeout(200)
        page.keyboard.press("n")
        page.keyboard.press("z")
        page.wait_for_timeout(300)
        for route in held:
            route.continue_()
        page.unroute("**/c/c/review?*")
        page.wait_for_function("url => !document.body.innerText.includes(url)", arg=url)
        verdicts = portal.get("/api/c/c/review/verdicts", topic="Birds")[1]
        assert [(one["url"], one["verdict"]) for one in verdicts] == [(url, "yes")]
        page.keyboard.press("u")
        page.wait_for_function("() => document.body.innerText.includes('1 judged')")
