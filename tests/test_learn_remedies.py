"""Remedies: one declaration gives a command that parses, an operation that takes its arguments, and what is stored."""

import shlex
from pathlib import Path

import click
import pytest

from made_crawls import mutual_funds
from opilio import learn
from opilio.cli import cli
from opilio.crawl.operations import OPERATIONS
from opilio.errors import InputError
from opilio.learn import remedies
from opilio.learn.census import back_links, low_harvest
from opilio.learn.remedies import CRAWL, PLACEHOLDERS, SETTING_WORDS, Remedy, from_json, in_words, to_json
from opilio.settings import Settings, override
from opilio.store import Store
from opilio.web.watching import REMEDY_SETTINGS

EVERY = [
    remedies.mark_good("Business/Mutual Funds", "want it"), remedies.answer_questions(), remedies.train(1),
    remedies.train(3), remedies.order_by("evidence", "all of it"), remedies.stop("enough"), remedies.see_census(),
    remedies.crawl_with("to go on", limits__min_harvest=0.025), remedies.crawl_with("to go on", limits__recall=0),
    remedies.resume("go on"), back_links("few are queued"), *low_harvest("Funds", found_any=True),
]  # fmt: skip


@pytest.mark.parametrize("remedy", EVERY, ids=lambda remedy: f"{remedy.operation} {remedy.label}")
def test_a_remedy_can_be_carried_out(remedy: Remedy) -> None:
    """The operation exists and takes the arguments, except those that the user gives; the settings exist."""
    if remedy.operation == CRAWL:
        settings = remedy.arguments["settings"]
        given = {name: value for name, value in settings.items() if value is not None}
        override(Settings(), given)
        assert given.keys() <= REMEDY_SETTINGS, "the portal changes them"
        assert settings.keys() - given.keys() <= PLACEHOLDERS.keys()
        return
    given = {name: value for name, value in remedy.arguments.items() if value is not None}
    missing = remedy.arguments.keys() - given.keys()
    assert missing <= PLACEHOLDERS.keys()
    OPERATIONS[remedy.operation].check(given | dict.fromkeys(missing, "http://a.test/"))
    with pytest.raises(InputError):
        OPERATIONS[remedy.operation].check({**given, "nonsense": 1})


@pytest.mark.parametrize("remedy", EVERY, ids=lambda remedy: f"{remedy.operation} {remedy.label}")
def test_the_command_of_a_remedy_parses(remedy: Remedy) -> None:
    """The command line has a command that takes these arguments and options, also when a name has spaces."""
    name, *words = shlex.split(remedy.command("my funds"))
    assert name == "opilio" and "my funds" in words
    command: click.Command = cli
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0))  # type: ignore[assignment]
        assert command is not None
    command.make_context("opilio", words)


def test_buttons_speak_in_words() -> None:
    """No label names a setting, and every setting that the portal changes has words."""
    assert SETTING_WORDS.keys() == REMEDY_SETTINGS
    shown = [remedy.label for remedy in EVERY if None not in remedy.arguments.get("settings", {}).values()]
    assert not [label for label in shown if "_" in label or "." in label.replace("2.5%", "")]
    assert "Continue, ordered by evidence, exploring with 10% of the requests" in shown


def test_what_is_stored_comes_back(tmp_path: Path) -> None:
    """Why, operation and arguments are kept; command and label follow from them, in whichever folder it is by then."""
    described = [remedy.described("old place") for remedy in EVERY]
    text = to_json(described)
    assert "old place" not in text
    assert from_json(text, "new") == [remedy.described("new") for remedy in EVERY]
    assert to_json([]) == "" and from_json("", "new") == []
    later = to_json([described[0], {"why": "", "operation": "of a later version", "arguments": {}}])
    assert from_json(later, "new") == [EVERY[0].described("new")]
    assert in_words(described[:1]) == "want it: opilio topics mark 'old place' 'Business/Mutual Funds' good"


def test_the_census_proposes_what_makes_sense_now(tmp_path: Path) -> None:
    """Questions only where some can be asked, training only where something is to be learned, and an order only where
    it is not in use already; the paper's remedy always comes first."""
    with Store.create(tmp_path) as store:
        mutual_funds().fill(store)
        plain = [one["operation"] for one in learn.take_census(store)["remedies"]]
        state = learn.CrawlState(can_answer=True, pending=2, strategy="bfs")
        told = learn.take_census(store, state=state)["remedies"]
        best = learn.take_census(store, state=learn.CrawlState(strategy="evidence"))["remedies"]
    assert plain[0] == "mark" and not {"questions", "train", "policy"} & set(plain)
    assert [one["operation"] for one in told][:4] == ["mark", "train", "questions", "policy"]
    assert told[1]["why"] == "2 changes of the examples are not learned yet"
    assert "policy" not in [one["operation"] for one in best]
