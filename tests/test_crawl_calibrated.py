"""The default: crawls whose model is calibrated on the pages met. Answers help, and never empty what is accepted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fetch_servers import WebServer
from learn_webs import OwlWeb
from opilio import Collection
from opilio.crawl.asker import ASK_HITS_AT_PAGES
from opilio.learn.asking import can_answer
from opilio.learn.training_data import MANY_CONFIRMED, MIN_CONFIRMED
from opilio.model.training import CALIBRATED
from opilio.store import Store
from test_crawl_asker import is_about_owls, web_of

DEFAULT: dict[str, Any] = {
    "classify__calibrate": True, "learn__mined_negatives": 50, "learn__synchronous": True, "fetch__in_flight": 1,
    "search__index": False, "limits__max_pages": 100,
}  # fmt: skip
"""The settings of a user, but one page at a time, so that a crawl can be repeated."""


def crawled(
    folder: Path, answers: int, answerer: Callable[[dict[str, Any]], bool] = is_about_owls
) -> tuple[Collection, dict[str, Any]]:
    """A crawl of owls among rivers in which owls are named, and what its last model expects of itself."""
    folder.mkdir()
    web = web_of()
    taxonomy = web.taxonomy(folder, {"owls": [f"/owl/{number}" for number in range(3)]})
    with WebServer(web.routes()) as server:
        collection = web.collection(server, folder / "c", taxonomy, **DEFAULT, learn__questions=answers)
        collection.crawl(answerer=answerer)
    [estimates] = collection.sql("SELECT estimates FROM models ORDER BY version DESC LIMIT 1").rows[0]
    return collection, json.loads(estimates)["1"][CALIBRATED]


def found(collection: Collection) -> list[tuple[bool, float, float]]:
    """Of the stored pages about which the user has said nothing, by relevance: is it about owls, relevance, confidence."""
    sql = """
        SELECT url LIKE '%/owl/%', c.relevance, last(j.confidence ORDER BY j.rowid)
        FROM collection c JOIN judgements j USING (oid)
        WHERE url NOT IN (SELECT name FROM training) GROUP BY url, c.relevance ORDER BY c.relevance DESC, url
    """
    return [(bool(owl), relevance, confidence) for owl, relevance, confidence in collection.sql(sql).rows]


def precision_and_recall(collection: Collection) -> tuple[float, float]:
    pages = found(collection)
    accepted = [owl for owl, relevance, _ in pages if relevance >= 0.5]
    assert accepted, "something is accepted"
    return sum(accepted) / len(accepted), sum(accepted) / max(1, sum(owl for owl, _, _ in pages))


@pytest.fixture(scope="module")
def crawls(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[Collection, dict[str, Any]]]:
    """Crawls of the same web by number of answers."""
    folder = tmp_path_factory.mktemp("calibrated")
    return {answers: crawled(folder / str(answers), answers) for answers in (0, 10)}


def test_answers_do_not_cost_what_was_accepted(crawls: dict[int, tuple[Collection, dict[str, Any]]]) -> None:
    """With ten answers the pages accepted are at least as often right as without, and nearly all owls are accepted."""
    before, after = (precision_and_recall(crawls[answers][0]) for answers in (0, 10))
    assert len(crawls[10][0].answers()) == 10
    assert after[0] >= before[0] and after[0] > 0.8
    assert after[1] > 0.8


def test_relevance_keeps_the_order(crawls: dict[int, tuple[Collection, dict[str, Any]]]) -> None:
    """Calibration moves the threshold, and never changes which of two pages is the better one: relevance rises with
    confidence, is 0.5 where confidence is 0, and the owls come first."""
    for collection, _ in crawls.values():
        pages = found(collection)
        confidences = [confidence for _, _, confidence in pages]
        assert confidences == sorted(confidences, reverse=True)
        assert all((relevance >= 0.5) == (confidence > 0.0) for _, relevance, confidence in pages)
        owls = sum(owl for owl, _, _ in pages)
        assert sum(owl for owl, _, _ in pages[:owls]) >= 0.8 * owls


def test_answers_narrow_the_interval_of_the_precision(crawls: dict[int, tuple[Collection, dict[str, Any]]]) -> None:
    """The model says how many of the accepted pages it expects to be right: with answers it knows that better. It does
    not promise too much: on this web, which is easier than those behind the prior, more are right."""
    widths = {}
    for answers, (collection, expected) in crawls.items():
        assert expected["low"] <= expected["precision"] <= expected["high"]
        assert expected["low"] <= precision_and_recall(collection)[0]
        widths[answers] = expected["high"] - expected["low"]
    assert widths[10] < widths[0]


def test_a_user_who_refuses_everything_is_left_with_something(tmp_path: Path) -> None:
    """Twenty times no, about owls, too: the crawl accepts less, but its best pages still are."""
    collection, expected = crawled(tmp_path / "no", 20, lambda question: False)
    assert {one["answer"] for one in collection.answers()} == {"no"}
    assert sum(relevance >= 0.5 for _, relevance, _ in found(collection)) >= 1
    assert expected["accepted"] >= 1 and expected["precision"] < 0.5


def test_answers_at_once_leave_a_calibrated_model(tmp_path: Path) -> None:
    """The pages that the user has answered were met, too: a model that learns from nearly all pages there are is
    calibrated, and does not go back to accepting everything."""
    web = web_of()
    taxonomy = web.taxonomy(tmp_path, {"owls": [f"/owl/{number}" for number in range(3)]})
    with WebServer(web.routes()) as server:
        small = DEFAULT | {"limits__max_pages": 16}
        collection = web.collection(server, tmp_path / "c", taxonomy, **small, learn__questions=0)
        collection.crawl()
    for url, is_owl in collection.sql("SELECT url, url LIKE '%/owl/%' FROM collection ORDER BY url LIMIT 8").rows:
        collection.feedback(url, "relevant" if is_owl else "irrelevant", topic="owls")
    collection.train()
    [estimates] = collection.sql("SELECT estimates FROM models ORDER BY version DESC LIMIT 1").rows[0]
    assert CALIBRATED in json.loads(estimates)["1"]


def question_web() -> OwlWeb:
    """Pages that say `owl` often, and pages about rivers in which the word stands, too."""
    web = web_of()
    for path, text in web.texts.items():
        web.texts[path] = f"owl {text} owl" if "/owl/" in path else f"{text} owl"
    return web


@contextmanager
def from_a_question(tmp_path: Path, **changes: Any) -> Iterator[Collection]:
    """A collection that has a word and some seeds; its web is served meanwhile."""
    web = question_web()
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("\n".join(web.url(path) for path in list(web.texts)[:ASK_HITS_AT_PAGES]))
    with WebServer(web.routes()) as server:
        settings: dict[str, Any] = {"fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0}
        settings |= {"run.workers": -1, "fetch.per_domain": 10, "learn.questions": 10}
        settings |= {key.replace("__", "."): value for key, value in (DEFAULT | changes).items()}
        yield Collection.create(tmp_path / "c", seeds=seeds, query="owl", settings=settings)


def test_a_question_becomes_a_model_by_its_answers(tmp_path: Path) -> None:
    """A crawl that has words and seeds only asks about its best hits as soon as there are some; the third yes
    makes a model, when a third is no, which is calibrated later and accepts owls; the words are no example any more."""
    with from_a_question(tmp_path) as collection:
        asked: list[dict[str, Any]] = []

        def answer(question: dict[str, Any]) -> bool:
            asked.append(question)
            return is_about_owls(question)

        collection.crawl(answerer=answer)
    first = asked[:5]
    assert [one["relevance"] for one in first] == sorted((one["relevance"] for one in first), reverse=True)
    assert len(asked) == 10 and any(is_about_owls(one) for one in first)
    models = collection.sql("SELECT reason, documents FROM models ORDER BY version").rows
    yes = [place for place, one in enumerate(asked, 1) if is_about_owls(one)]
    assert models[0] == ("feedback", 5 if yes[MIN_CONFIRMED - 1] <= 5 else 10), "the answers, without the words"
    precision, recall = precision_and_recall(collection)
    assert precision > 0.8 and recall > 0.6


@pytest.mark.parametrize("questions", [MANY_CONFIRMED - 1, MANY_CONFIRMED])
def test_words_that_the_answers_confirm_are_not_replaced_early(questions: int, tmp_path: Path) -> None:
    """When all answers are yes, the words judge until ten pages are confirmed; a model that is asked for is trained."""
    with from_a_question(tmp_path, learn__questions=questions) as collection:
        collection.crawl(answerer=lambda question: True)
        trained = [documents for (documents,) in collection.sql("SELECT documents FROM models ORDER BY version").rows]
        assert len(collection.answers()) == questions
        assert trained[:1] == ([MANY_CONFIRMED] if questions == MANY_CONFIRMED else [])
        assert collection.train() == len(trained) + 1


@pytest.mark.parametrize("questions", [10, 0])
def test_a_crawl_by_words_proposes_to_answer_where_it_asks(questions: int, tmp_path: Path) -> None:
    """There is no model yet, but questions wait: answering them is a remedy, unless questions are turned off."""
    with from_a_question(tmp_path, learn__questions=questions, limits__max_pages=30) as collection:
        collection.crawl()
    assert not collection.models()
    assert bool(collection.questions()) == bool(questions)
    with Store.open(collection.folder) as store:
        assert can_answer(store, collection.settings) == bool(questions)
