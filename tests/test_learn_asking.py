"""Asking the user when no crawl runs: the questions, what answers teach, skipping and undoing."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import TAUGHT_TOPICS
from opilio import Collection
from opilio.errors import InputError
from opilio.learn.asking import ask_round
from opilio.store import Store

CRYPTOGRAPHY, COMPRESSION, STATISTICS = TAUGHT_TOPICS


@pytest.fixture
def collection(crawled_taught: Path, tmp_path: Path) -> Collection:
    """A copy of a crawled collection, to be changed; its own crawl had asked, and nobody had answered."""
    shutil.copytree(crawled_taught, tmp_path / "c")
    made = Collection(tmp_path / "c")
    made.sql("DELETE FROM questions", write=True)
    return made


def taught(collection: Collection) -> set[tuple[str, str, bool]]:
    """What is learned from, beside what was given at the beginning."""
    return {(one["topic"], one["name"], one["positive"]) for one in collection.examples() if one["source"] != "given"}


def state(collection: Collection) -> list[dict[str, Any]]:
    """All training documents."""
    return collection.examples()


def test_questions_are_about_pages_of_wanted_topics(collection: Collection) -> None:
    """Five questions without a crawl, none about an example, each with its reason; asking changes nothing."""
    found = collection.questions()
    assert len(found) == 5
    given = {one["name"] for one in collection.examples()}
    assert not {one["url"] for one in found} & given
    assert {one["topic"] for one in found} <= set(TAUGHT_TOPICS)
    assert all(one["why"] and one["benefit_words"] and one["answer"] is None for one in found)
    assert collection.questions() == found
    assert collection.sql("SELECT count(*) FROM questions").rows == [(0,)]


def test_answers_are_examples_and_counterexamples(collection: Collection) -> None:
    """Yes and no teach what feedback teaches; a skipped page teaches nothing; none of them is asked about again."""
    first, second, third, *others = collection.questions()
    assert collection.answer(first["oid"], True)["answer"] == "yes"
    assert collection.answer(second["oid"], "no")["said"] == "a counter-example from now on"
    collection.answer(third["oid"], "skip")
    assert taught(collection) == {(first["topic"], first["url"], True), (second["topic"], second["url"], False)}
    assert collection.questions() == others
    for one in others:
        collection.answer(one["oid"], "skip")
    answered = {one["oid"] for one in (first, second, third, *others)}
    assert not {one["oid"] for one in collection.questions()} & answered
    assert collection.pending()["count"] == 2
    assert [one["answer"] for one in collection.answers()] == ["skip", "skip", "skip", "no", "yes"]


def test_an_answer_can_be_undone(collection: Collection) -> None:
    """The training data is what it was, and the question is open again; then there is nothing more to undo."""
    before = state(collection)
    first, second, *_ = asked = collection.questions()
    collection.answer(first["oid"], True)
    collection.answer(second["oid"], False)
    assert collection.undo_answer()["oid"] == second["oid"]
    assert collection.undo_answer(first["oid"])["oid"] == first["oid"]
    assert state(collection) == before and collection.pending()["count"] == 0
    assert collection.questions() == asked
    with pytest.raises(InputError, match="no answer to undo"):
        collection.undo_answer()


def test_the_latest_answer_counts(collection: Collection) -> None:
    """Another answer to the same question replaces the first."""
    [first, *_] = collection.questions()
    collection.answer(first["oid"], True)
    collection.answer(first["oid"], False)
    assert taught(collection) == {(first["topic"], first["url"], False)}
    collection.answer(first["oid"], "skip")
    assert not taught(collection)


def test_undoing_leaves_later_feedback(collection: Collection) -> None:
    """What the user said of the page after the answer is not undone with the answer."""
    [first, *_] = collection.questions()
    collection.answer(first["oid"], True)
    collection.feedback(first["url"], "irrelevant", first["topic"])
    collection.undo_answer()
    assert taught(collection) == {(first["topic"], first["url"], False)}


def test_undoing_all_changes_opens_the_questions_again(collection: Collection) -> None:
    """`opilio feedback --undo` takes the answers back with everything else."""
    [first, *_] = asked = collection.questions()
    collection.answer(first["oid"], True)
    collection.forget_changes(collection.models()[0]["version"])
    assert not taught(collection) and collection.questions() == asked


def test_the_number_of_answers_is_limited(collection: Collection) -> None:
    """The last round asks only for the answers that are left, and then there are no questions."""
    collection.change_settings({"learn.questions": 7})
    for _ in range(5):
        collection.answer(collection.questions()[0]["oid"], True)
    assert len(collection.questions()) == 2
    for _ in range(2):
        collection.answer(collection.questions()[0]["oid"], False)
    assert collection.questions() == []


def test_asking_can_be_turned_off(collection: Collection) -> None:
    """With `learn.questions = 0` there are no questions, not even those of an earlier crawl."""
    with Store.open(collection.folder) as store:
        assert ask_round(store, collection.settings)
    collection.change_settings({"learn.questions": 0})
    assert collection.questions() == []


def test_a_new_round_replaces_open_questions(collection: Collection) -> None:
    """Questions that nobody answered give way to better ones; answered ones stay."""
    first, second, *_ = collection.questions()
    collection.answer(first["oid"], True)
    collection.sql(f"UPDATE pages SET relevance = 0.1 WHERE oid = {second['oid']}", write=True)
    with Store.open(collection.folder) as store:
        ask_round(store, collection.settings)
    assert second["oid"] not in {one["oid"] for one in collection.questions()}
    assert [one["oid"] for one in collection.answers()] == [first["oid"]]


def test_a_replaced_question_can_still_be_answered(collection: Collection) -> None:
    """Who saw a question before it was replaced is not told that it does not exist; undoing the answer opens it."""
    first, second, *_ = collection.questions()
    collection.answer(first["oid"], "skip")
    collection.sql(f"UPDATE pages SET relevance = 0.1 WHERE oid = {second['oid']}", write=True)
    with Store.open(collection.folder) as store:
        ask_round(store, collection.settings)
    collection.answer(second["oid"], False)
    assert taught(collection) == {(second["topic"], second["url"], False)}
    collection.undo_answer()
    assert second["oid"] in {one["oid"] for one in collection.questions()}


def test_a_page_with_feedback_is_no_question_any_more(collection: Collection) -> None:
    """Who has spoken about a page by other means is not asked about it."""
    first, second, *_ = collection.questions()
    collection.answer(first["oid"], True)
    collection.feedback(second["url"], "relevant")
    assert second["oid"] not in {one["oid"] for one in collection.questions()}


def test_a_page_without_a_question_cannot_be_answered(collection: Collection) -> None:
    """The error names the page and the command for other pages."""
    with pytest.raises(InputError, match="no question about page 999999"):
        collection.answer(999999, True)
    with pytest.raises(InputError, match="'perhaps' is no answer"):
        collection.answer(collection.questions()[0]["oid"], "perhaps")


def test_questions_need_a_model(collection: Collection) -> None:
    """With keywords alone nothing can be learned from answers, so nothing is asked."""
    collection.change_settings({"classify.classifier": "keywords"})
    assert collection.questions() == []
