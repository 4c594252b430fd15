"""The portal's assisted review: its API, its page, and the keys."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from browser import chromium, signed_in
from made_crawls import GARDENING, MadeCrawl
from opilio import Collection
from opilio.store import Store
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
