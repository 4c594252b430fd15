"""The systems of the papers: what each sets, what the user sets beside it, and where it shows."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from conftest import MakeCollection
from opilio import Collection
from opilio.cli import cli
from opilio.errors import InputError, SettingsError
from opilio.lab.experiments.experiment import from_table as experiment_from
from opilio.lab.local_web import LocalServer
from opilio.settings import SYSTEMS, Settings, defaults_of, differences, from_table, override, own_settings, to_toml

NAMES = st.sampled_from(["", *SYSTEMS])
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "frontier.strategy": st.sampled_from(["auto", "bingo", "breadth-first", "sql"]),
        "frontier.n": st.sampled_from([1, 16, 256]),
        "learn.questions": st.sampled_from([0, 20]),
        "limits.max_pages": st.sampled_from([0, 50, 2000]),
        "classify.classifier": st.sampled_from(["svm", "bayes", "cosine", "oasis"]),
    },
)


def value(settings: Settings, dotted: str) -> Any:
    section, _, key = dotted.partition(".")
    return getattr(getattr(settings, section), key)


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_system_sets_what_its_table_says(system: str) -> None:
    """Nothing else differs from the defaults; each value is of the setting's type, and settable."""
    settings = override(Settings(), {"run.system": system})
    assert settings == defaults_of(system) == from_table({"run": {"system": system}})
    for name, wanted in SYSTEMS[system].settings.items():
        assert value(settings, name) == wanted
    assert set(differences(settings, Settings())) <= {"run.system", *SYSTEMS[system].settings}


@given(NAMES, CHANGES)
def test_what_the_user_sets_counts_and_is_all_that_is_written(system: str, changes: dict[str, Any]) -> None:
    """The file has the system and what differs from it; read back, it gives the same settings."""
    settings = override(Settings(), {**changes, "run.system": system})
    for name, wanted in changes.items():
        assert value(settings, name) == wanted
    assert set(own_settings(settings)) <= {*changes, *(["run.system"] if system else [])}
    assert from_table(tomllib.loads(to_toml(settings))) == settings


@given(NAMES, NAMES, CHANGES)
def test_another_system_keeps_what_the_user_set(before: str, after: str, changes: dict[str, Any]) -> None:
    """Be it a default of the first system or of the second, and also by way of a file. All else is as if the second
    system had been chosen at once."""
    first = override(Settings(), {**changes, "run.system": before})
    expected = override(Settings(), {**changes, "run.system": after})
    for settings in (first, from_table(tomllib.loads(to_toml(first)))):
        moved = override(settings, {"run.system": after})
        assert moved == expected
        assert own_settings(moved) == own_settings(expected)


def test_what_is_given_beside_a_system_counts_though_it_is_a_default(tmp_path: Path) -> None:
    """In Python and in a file: the system sets another value, the user gives Opilio's own default."""
    (tmp_path / "seeds.txt").write_text("http://a.test/")
    told = {"learn.questions": 20, "limits.max_pages": 0}
    made = Collection.create(tmp_path / "c", seeds=tmp_path / "seeds.txt", system="best-n-first", settings=told)
    read = from_table({"run": {"system": "best-n-first"}, "learn": {"questions": 20}, "limits": {"max_pages": 0}})
    for settings in (made.settings, read):
        assert (settings.learn.questions, settings.limits.max_pages) == (20, 0)
        assert settings.frontier.strategy == "best-n-first"


def test_an_unknown_system_is_refused() -> None:
    """With the names that there are."""
    for give in (
        lambda: override(Settings(), {"run.system": "fokus"}),
        lambda: from_table({"run": {"system": "fokus"}}),
    ):
        with pytest.raises(SettingsError, match="'fokus' is not one of focus, bingo, best-n-first, oasis"):
            give()


def test_the_command_line_shows_what_a_system_sets(make_collection: MakeCollection) -> None:
    """`settings --diff` names who set what; `status` names the system; a setting that the user has
    given is the user's, also before the system was chosen, and also if it is a default."""
    collection = make_collection(["http://statistics.python.test/"], limits__max_depth=0, learn__questions=5)
    collection.change_settings({"learn.hits": Settings().learn.hits})
    collection.change_settings({"run.system": "oasis"})
    shown = CliRunner().invoke(cli, ["settings", str(collection.folder), "--diff"], catch_exceptions=False).output
    rows = {line.split()[0]: line for line in shown.splitlines()}
    assert rows["classify.classifier"].split() == ["classify.classifier", "oasis", "svm", "system", "oasis"]
    assert rows["learn.questions"].split() == ["learn.questions", "5", "20", "you"]
    assert rows["limits.max_depth"].split() == ["limits.max_depth", "0", "0", "you"]
    assert rows["learn.hits"].split()[-1] == "you"
    plain = CliRunner().invoke(cli, ["settings", str(collection.folder)], catch_exceptions=False).output
    assert 'system = "oasis"' in plain and "classifier" not in plain
    status = CliRunner().invoke(cli, ["status", str(collection.folder)], catch_exceptions=False).output
    assert f"system oasis; what it sets: opilio settings {collection.folder} --diff" in status
    with pytest.raises(InputError, match="nothing to compare"):
        CliRunner().invoke(cli, ["settings", "--diff"], catch_exceptions=False)


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_system_crawls_and_finds(system: str, small_server: LocalServer, tmp_path: Path) -> None:
    """Over HTTP, from bookmarks: each judges by its own model and accepts pages of the topics."""
    file = tmp_path / "bookmarks.html"
    file.write_text(small_server.web.bookmarks(["cryptography", "statistics"]), encoding="utf-8")
    settings = {"fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 0.0, "run.workers": -1}
    settings |= {"limits.max_pages": 80, "learn.learning_pages": 30}
    collection = Collection.create(tmp_path / "c", bookmarks=file, system=system, settings=settings)
    status = collection.crawl()
    assert status.system == system and status.pages == 80
    [[classifier]] = collection.sql("SELECT DISTINCT classifier FROM models").rows
    assert classifier == SYSTEMS[system].settings["classify.classifier"]
    [[accepted]] = collection.sql("SELECT count(*) FROM judgements WHERE accepted").rows
    assert accepted >= 5


def test_an_experiment_compares_whole_systems() -> None:
    """A contestant can be a system; it needs a real crawl, and keeps its own judge."""
    table: dict[str, Any] = {
        "name": "x",
        "webs": ["w"],
        "judge": "svm",
        "strategies": [{"system": "focus", "real": True}],
    }
    experiment = experiment_from(table)
    [focus] = experiment.strategies
    settings = experiment.settings_of(focus)
    assert focus.name == "focus"
    assert (settings.classify.classifier, settings.frontier.strategy) == ("bayes", "sql")
    for wrong, says in (
        ({"system": "focus"}, "cannot be simulated"),
        ({"real": True}, "neither a strategy nor a system"),
    ):
        with pytest.raises(SettingsError, match=says):
            experiment_from({**table, "strategies": [wrong]})
