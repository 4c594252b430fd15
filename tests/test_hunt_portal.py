"""Defects of making, browsing, teaching, reviewing and publishing collections: each was there once."""

import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from browser import chromium, signed_in
from conftest import MakeTaught
from opilio.web.publishing import publish
from search_pages import Page, make_collection
from web_portal import TOKEN, Portal

SEEDS = ["http://start.example/"]


def said_of(texts: int) -> list[Page]:
    """Pages about owls, each relevant."""
    return [Page(f"the owl number {n} flies at night", title=f"Owl {n}", relevance=0.9) for n in range(texts)]


# -- the wizard


def test_two_clicks_make_one_collection(tmp_path: Path) -> None:
    """Of several requests for a collection of one name, one makes it; the others do not take it away again."""
    with Portal(tmp_path) as portal, ThreadPoolExecutor(4) as pool:
        for name in ("a", "b", "c"):
            wish = {"name": name, "start": False, "seeds": SEEDS}
            answers = list(pool.map(lambda _, wish=wish: portal.ask("POST", "/api/collections", wish), range(4)))
            assert sorted(status for status, _ in answers) == [200, 400, 400, 400], answers
            assert portal.get(f"/api/c/{name}/portal")[0] == 200


def test_a_name_that_failed_can_be_taken_again(tmp_path: Path) -> None:
    """A wish that cannot be fulfilled leaves nothing behind, and its error names no file of the server."""
    taxonomy = "topics:\n  Birds:\n    examples:\n      - file:no-such-file.txt\n"
    with Portal(tmp_path) as portal:
        for wrong in ({"taxonomy": taxonomy}, {"taxonomy": "]["}, {"bookmarks": "nothing"}):
            wish = {"name": "birds", "start": False, "seeds": SEEDS, **wrong}
            status, answer = portal.ask("POST", "/api/collections", wish)
            assert status == 400
            assert "/tmp" not in answer["error"] + answer["hint"], answer
            assert not list(tmp_path.iterdir())
        assert portal.ask("POST", "/api/collections", {"name": "birds", "start": False, "seeds": SEEDS})[0] == 200


def test_the_portal_reads_no_files_of_its_machine(tmp_path: Path) -> None:
    """A taxonomy that names a file is refused: its text would be an example, which all who read the portal may see."""
    secret = tmp_path / "secret.txt"
    secret.write_text("the owl is in the attic")
    (tmp_path / "shelf").mkdir()
    taxonomy = f"topics:\n  Birds:\n    examples:\n      - file:{secret}\n"
    with Portal(tmp_path / "shelf") as portal:
        wish = {"name": "birds", "start": False, "seeds": SEEDS, "taxonomy": taxonomy}
        status, answer = portal.ask("POST", "/api/collections", wish)
        assert status == 400
        assert "files" in answer["error"]
        assert not list((tmp_path / "shelf").iterdir())


def test_a_name_too_long_for_a_folder_is_refused(tmp_path: Path) -> None:
    """80 letters may be more bytes than a folder's name may have."""
    with Portal(tmp_path) as portal:
        status, answer = portal.ask(
            "POST", "/api/collections", {"name": "\U0001d49c" * 80, "start": False, "seeds": SEEDS}
        )
        assert status == 400
        assert answer["hint"]


# -- browsing


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


def test_a_long_word_does_not_widen_a_phone(tmp_path: Path) -> None:
    """The name of a topic and a title without a space are broken, in lists, tags and choices too."""
    word, url = "W" * 200, "http://h0.example/0.html"
    collection = make_collection(tmp_path / "c", [Page("an owl", title=word, relevance=0.9)])
    collection.sql(f"UPDATE topics SET name = '{word}', path = '{word}' WHERE kcid = 1", write=True)
    with Portal(tmp_path) as portal, chromium() as browser:
        page = signed_in(browser, portal.address, viewport={"width": 390, "height": 800})
        for path in ("", "topic", f"topic?topic={word}", f"page?url={url}", f"teach?url={url}"):
            page.goto(f"{portal.address}/c/c/{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path


# -- teaching


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


# -- publishing


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


# -- the review


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
