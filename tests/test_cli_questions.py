"""`opilio ask`: lists, answers by number, undoing, JSON, and what it says where there is no terminal."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from opilio import Collection
from opilio.cli import cli


@pytest.fixture
def collection(crawled_taught: Path, tmp_path: Path) -> Collection:
    """A copy of a crawled collection, to be changed."""
    shutil.copytree(crawled_taught, tmp_path / "c")
    return Collection(tmp_path / "c")


def ask(collection: Collection, *options: str) -> str:
    """The output of a call that goes well."""
    done = CliRunner().invoke(cli, ["ask", str(collection.folder), *options])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_list_shows_what_is_needed_to_answer(collection: Collection) -> None:
    """Title, address, topic, snippet, reason and benefit of each question; as JSON, what Python returns."""
    found = collection.questions()
    shown = ask(collection, "--list")
    for question in found:
        for part in (question["url"], f"page {question['oid']}, topic {question['topic']}", question["why"]):
            assert part in shown
    assert json.loads(ask(collection, "--format", "json")) == found


def test_without_a_terminal_it_lists_and_tells_how_to_answer(collection: Collection) -> None:
    """Input from a pipe: nothing is asked, the questions are listed, and the option for answers is named."""
    shown = ask(collection)
    assert collection.questions()[0]["url"] in shown and "--answer PAGE yes" in shown
    assert not collection.answers()


def test_answers_by_number_and_undoing(collection: Collection) -> None:
    """Each answer says what it did, the list of answers has them, and --undo takes the latest back."""
    first, second, *_ = collection.questions()
    shown = ask(collection, "--answer", str(first["oid"]), "yes", "--answer", str(second["oid"]), "no")
    assert "an example from now on" in shown and "a counter-example from now on" in shown
    assert "2 changes not yet learned: opilio topics train" in shown
    assert "answered no" in ask(collection, "--answers")
    assert "open again" in ask(collection, "--undo")
    assert [one["oid"] for one in collection.answers()] == [first["oid"]]
    [undone] = json.loads(ask(collection, "--undo", "--format", "json"))
    assert undone["oid"] == first["oid"] and undone["answer"] is None


def test_it_says_why_there_is_no_question(collection: Collection) -> None:
    """Turned off, or all answers given: two sentences that name the setting."""
    collection.change_settings({"learn.questions": 1})
    ask(collection, "--answer", str(collection.questions()[0]["oid"]), "yes")
    assert "all 1 answers are given" in ask(collection, "--list")
    collection.change_settings({"learn.questions": 0})
    assert "asking is turned off" in ask(collection, "--list")


def test_a_hostile_title_cannot_control_the_terminal(collection: Collection) -> None:
    """Escape sequences and line breaks of fetched pages are not printed."""
    oid = collection.questions()[0]["oid"]
    title = r"chr(27) || '[2J' || chr(10) || 'Is it? y'"
    collection.sql(f"UPDATE pages SET title = {title}, description = {title} WHERE oid = {oid}", write=True)
    assert "\x1b" not in ask(collection, "--list")


def test_the_summary_of_a_crawl_names_the_questions(collection: Collection) -> None:
    """`opilio status` says how many wait, and the command that asks them."""
    done = CliRunner().invoke(cli, ["status", str(collection.folder)])
    assert f"questions for you: 5; answer them: opilio ask {collection.folder}" in done.output
