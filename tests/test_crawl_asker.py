"""A running crawl asks its user: when, what becomes of the answers, and that it waits for nobody."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from fetch_servers import WebServer
from learn_webs import OwlWeb
from opilio import Collection
from opilio.crawl import asker
from opilio.crawl.asker import ASK_AT_PAGES
from opilio.crawl.watcher import Watcher
from opilio.learn.asking import ask_round
from opilio.learn.questions import UserQuestion
from opilio.settings import Settings
from opilio.store import Store
from running_crawls import crawl_beside, wait_for


def web_of() -> OwlWeb:
    """Pages about owls, and pages about rivers in which owls are named."""
    web = OwlWeb()
    web.add("owl", 30, owl=0.3)
    web.add("river", 80, river=0.3, owl=0.05)
    paths = list(web.texts)
    random.Random(1).shuffle(paths)
    web.texts = {path: web.texts[path] for path in paths}
    return web


def collect(web: OwlWeb, server: WebServer, folder: Path, **changes: Any) -> Collection:
    """A collection with three examples, which mines no negatives and fetches one page at a time."""
    taxonomy = web.taxonomy(folder, {"owls": [f"/owl/{number}" for number in range(3)]})
    settings: dict[str, Any] = {
        "classify__classifier": "bayes", "learn__mined_negatives": 0, "learn__synchronous": True,
        "fetch__in_flight": 1, "search__index": False, "limits__max_pages": 60,
    }  # fmt: skip
    return web.collection(server, folder / "c", taxonomy, **(settings | changes))


def is_about_owls(question: dict[str, Any]) -> bool:
    """A user who wants owls."""
    return "/owl/" in question["url"]


def rows(collection: Collection, sql: str) -> list[tuple[Any, ...]]:
    """The answer to a query."""
    return collection.sql(sql).rows


def test_a_crawl_asks_in_rounds_and_waits_for_nobody(tmp_path: Path) -> None:
    """Nobody answers: the crawl goes on to its end, each round replaces the one before, and the last one waits in the
    database for the user who comes later."""
    web = web_of()
    with WebServer(web.routes()) as server:
        collection = collect(web, server, tmp_path)
        status = collection.crawl()
    assert status.pages == 60
    assert status.counters["rounds of questions"] == sum(pages <= 60 for pages in ASK_AT_PAGES) == 2
    assert status.questions == collection.status().questions == len(collection.questions()) == 5
    assert rows(collection, "SELECT count(DISTINCT asked), count(answer) FROM questions") == [(2, 0)]
    assert len(rows(collection, "FROM models")) == 1


def test_questions_stay_until_a_user_could_have_read_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fast crawl, for which many rounds come due, does not replace questions again and again: the first round stays
    until the end, where the last one is chosen from all pages. Without the rest there are up to seven."""
    monkeypatch.setattr(asker, "ASK_AT_PAGES", (25, 30, 35, 40, 45, 50, 55))
    monkeypatch.setattr(asker, "REST_S", 60.0)
    rounds: list[list[UserQuestion]] = []

    def counted(store: Store, settings: Settings) -> list[UserQuestion]:
        rounds.append(ask_round(store, settings))
        return rounds[-1]

    monkeypatch.setattr(asker, "ask_round", counted)
    web = web_of()
    with WebServer(web.routes()) as server:
        collection = collect(web, server, tmp_path, learn__synchronous=False, fetch__host_delay_s=0.06)
        status = collection.crawl()
    assert 1 <= len(rounds) <= 2
    assert status.questions == len(collection.questions()) == 5


def test_answers_improve_what_is_accepted(tmp_path: Path) -> None:
    """A program answers in place of the user: each round is learned in one training, at the page at which it was asked;
    of the rivers that the crawl accepts without answers, it accepts fewer with them. The same answers give the same
    crawl again."""
    web = web_of()
    accepted, orders = [], []
    with WebServer(web.routes()) as server:
        for number, questions in enumerate((0, 10, 10)):
            folder = tmp_path / str(number)
            folder.mkdir()
            collection = collect(web, server, folder, learn__questions=questions)
            collection.crawl(answerer=is_about_owls)
            assert len(collection.answers()) == questions
            assert [one for (one,) in rows(collection, "SELECT reason FROM models ORDER BY version")] == [
                "first", *["feedback"] * (questions // 5)
            ]  # fmt: skip
            sql = "SELECT count(*) FROM collection WHERE relevance >= 0.5 AND url LIKE '%/river/%'"
            accepted.append(rows(collection, sql)[0][0])
            orders.append(rows(collection, "SELECT oid FROM visits ORDER BY rowid"))
    assert accepted[0] > accepted[1] == accepted[2]
    assert orders[1] == orders[2]


def test_answers_in_a_row_are_learned_in_one_training(tmp_path: Path) -> None:
    """While a crawl runs, five answers within a second make one model, which judges the stored pages within seconds;
    undoing one makes another. The count of open questions follows."""
    web = web_of()
    with WebServer(web.routes()) as server:
        changes = {"learn__synchronous": False, "fetch__host_delay_s": 0.3, "limits__max_pages": 0}
        collection = collect(web, server, tmp_path, **changes)
        crawl = crawl_beside(collection)
        try:
            wait_for(collection, lambda: collection.status().questions == 5)
            asked = collection.questions()
            for question in asked:
                said = collection.answer(question["oid"], is_about_owls(question))
                assert said["url"] == question["url"]
            began_s = time.monotonic()
            assert collection.status().questions == 0
            wait_for(collection, lambda: len(collection.models()) == 2)
            assert time.monotonic() - began_s < 15
            wait_for(collection, lambda: collection.pending()["count"] == 0)
            assert [one["reason"] for one in collection.models()] == ["answer", "first model"]
            collection.undo_answer()
            wait_for(collection, lambda: len(collection.models()) == 3)
            assert collection.models()[0]["reason"] == "undo answer"
        finally:
            collection.stop()
            crawl.join()
    assert len(collection.answers()) >= 4


def test_a_skipped_question_trains_nothing(tmp_path: Path) -> None:
    """Skipping changes no training data, so no model is trained; when all are skipped, a late user is asked again."""
    web = web_of()
    with WebServer(web.routes()) as server:
        changes = {"learn__synchronous": False, "fetch__host_delay_s": 0.1, "limits__max_pages": 0}
        collection = collect(web, server, tmp_path, **changes)
        crawl = crawl_beside(collection)
        try:
            wait_for(collection, lambda: collection.status().pages >= 51 and collection.status().questions == 5)
            skipped = [question["oid"] for question in collection.questions()]
            for oid in skipped:
                collection.answer(oid, "skip")
            wait_for(collection, lambda: collection.status().questions == 5)
            assert not set(skipped) & {question["oid"] for question in collection.questions()}
            assert len(collection.models()) == 1
        finally:
            collection.stop()
            crawl.join()


def test_a_crawl_with_nothing_to_ask_about_tries_ever_more_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crawl from seeds alone has no model and no hits: it looks for questions a few times, not every ten pages."""
    looks: list[int] = []

    def look(store: Store, settings: Settings) -> list[UserQuestion]:
        looks.append(len(store.query("FROM pages").rows))
        return ask_round(store, settings)

    monkeypatch.setattr(asker, "ask_round", look)
    web = web_of()
    seeds = tmp_path / "seeds.txt"
    seeds.write_text(web.url("/owl/0"))
    with WebServer(web.routes()) as server:
        settings: dict[str, Any] = {
            "fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0, "fetch.in_flight": 1,
            "run.workers": -1, "learn.synchronous": True, "search.index": False,
        }  # fmt: skip
        collection = Collection.create(tmp_path / "c", seeds=seeds, settings=settings)
        assert collection.crawl().pages == 110
    assert looks == [10, 20, 30, 45, 67, 100]


def test_a_fall_of_the_harvest_asks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the watcher notices that the harvest fell, the questions are renewed between two of the usual rounds."""
    look = Watcher.look

    def fall_once(self: Watcher) -> None:
        look(self)
        self.falls = int(self._absorber.counters.pages >= 37)

    monkeypatch.setattr(Watcher, "look", fall_once)
    web = web_of()
    with WebServer(web.routes()) as server:
        collection = collect(web, server, tmp_path, limits__max_pages=45)
        collection.crawl()
    sql = "SELECT count(*) FROM pages WHERE visited < (SELECT max(asked) FROM questions)"
    assert rows(collection, sql) == [(37,)]


def test_no_questions_when_they_are_turned_off(tmp_path: Path) -> None:
    """`learn.questions = 0`: nothing is asked, and nothing is stored."""
    web = web_of()
    with WebServer(web.routes()) as server:
        collection = collect(web, server, tmp_path, learn__questions=0, limits__max_pages=30)
        status = collection.crawl()
    assert status.questions == 0 and "rounds of questions" not in status.counters
    assert rows(collection, "SELECT count(*) FROM questions") == [(0,)]
