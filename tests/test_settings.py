"""Settings: one TOML file, frozen, with errors that name the next step."""

import dataclasses
import pickle
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest

from opilio import Collection
from opilio.errors import SettingsError
from opilio.model import TRANSITIONS, Outcome, OutcomeKind, UrlState, may_become
from opilio.settings import (
    RENAMED,
    LimitSettings,
    Settings,
    current_names,
    from_table,
    load,
    override,
    parse_assignment,
    to_toml,
)

FREE = {"meta": "free", "spaces": ["terms", "pairs"], "meta_weights": {"terms": 2, "pairs": 1.0}}


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"fetch": {"delay": 1}}, r"\[fetch\]: unknown key 'delay'. Did you mean 'host_delay_s'\?"),
        ({"fech": {}}, "unknown section 'fech'. Did you mean 'fetch'"),
        ({"fetch": {"per_host": "two"}}, "per_host: 'two' is not int"),
        ({"fetch": {"per_host": True}}, "per_host: True is not int"),
        ({"fetch": {"per_host": 0}}, "must be at least 1"),
        ({"limits": {"max_pages": -1}}, "must not be negative"),
        ({"duplicates": {"ip_path": "maybe"}}, "not one of learn, trust, off"),
        ({"fetch": 3}, "is a section"),
        ({"scope": {"only_domains": [1]}}, "a list of strings"),
        ({"fetch": {"accept": {"text/html": "big"}}}, "accept.text/html: 'big' is not int"),
        ({"classify": {"meta_thresholds": ["high"]}}, "a list of numbers"),
        ({"classify": {"meta": "free"}}, "weights for no space, but the spaces are terms, pairs, terms"),
        ({"classify": FREE | {"meta_weights": {"terms": 1, "tems": 1}}}, "weights for terms, tems, but the spaces are"),
        ({"classify": FREE | {"meta_weights": {"terms": -1, "pairs": 1}}}, "weights must be 0 or more"),
        ({"classify": FREE | {"meta_weights": {"terms": 0, "pairs": 0}}}, "at least one above 0"),
        ({"classify": FREE | {"meta_thresholds": [1]}}, "two numbers, t1 and t2"),
        ({"classify": FREE | {"meta_thresholds": [-1, 1]}}, "t1 >= t2"),
    ],
)
def test_a_wrong_setting_is_named_with_the_right_one(table: dict[str, object], says: str) -> None:
    """Every mistake names its place and, where it can, what was meant."""
    with pytest.raises(SettingsError, match=says):
        from_table(table)


def test_what_is_written_is_what_is_read() -> None:
    """Settings that differ from the defaults survive the way through TOML."""
    changed = override(
        Settings(),
        {"limits.max_pages": 7, "fetch.host_delay_s": 0, "fetch.connect_to": {"*.test": "127.0.0.1:80"},
         "scope.only_domains": ["a.example"], "fetch.user_agent": 'quote " back \\ \n', "robots.obey": False,
         "classify.meta": "free", "classify.meta_weights": {"terms": 2, "pairs": 0.5, "terms+anchors": 1},
         "classify.meta_thresholds": [1, -0.5]},
    )  # fmt: skip
    assert from_table(tomllib.loads(to_toml(changed))) == changed
    assert to_toml(Settings()) == ""


def test_bad_toml_names_the_line(tmp_path: Path) -> None:
    """A syntax error is one line, not a traceback."""
    file = tmp_path / "crawl.toml"
    file.write_text("[fetch]\nper_host = = 2\n")
    with pytest.raises(SettingsError, match="line 2"):
        load(file)


def test_assignments_on_the_command_line() -> None:
    """Values are read as TOML, else as plain strings."""
    assert parse_assignment("fetch.per_host=1") == ("fetch.per_host", 1)
    assert parse_assignment("frontier.strategy=bfs16") == ("frontier.strategy", "bfs16")
    with pytest.raises(SettingsError, match=r"section\.key=value"):
        parse_assignment("per_host=1")


def test_every_outcome_has_a_kind_and_an_allowed_end() -> None:
    """Each outcome belongs to one family and leads to a state a leased URL may take."""
    for outcome in Outcome:
        assert outcome.kind in OutcomeKind
        assert may_become(UrlState.LEASED, outcome.final_state)
        assert not (outcome.may_retry and outcome.kind is not OutcomeKind.FAILED)
    assert set(TRANSITIONS) == set(UrlState)


OLD_NAMES = {
    "frontier.max_waiting": 7,
    "documents.max_unfolded_bytes": 8,
    "classify.examples_wait_s": 9.0,
    "learn.strangers": 10,
    "learn.wait": True,
}


def value_of(settings: Settings, dotted: str) -> Any:
    """One setting by its dotted name."""
    section, _, key = dotted.partition(".")
    return getattr(getattr(settings, section), key)


@pytest.mark.parametrize(("old", "value"), OLD_NAMES.items())
def test_an_old_name_works_everywhere_with_a_notice(old: str, value: object, tmp_path: Path) -> None:
    """In a file, in a dict and on the command line an old name sets what now has the new one, and a warning says so."""
    new, notice = RENAMED[old], f"{old} is now called {RENAMED[old]}"
    section, _, key = old.partition(".")
    file = tmp_path / "crawl.toml"
    file.write_text(f"[{section}]\n{key} = {str(value).lower()}\n")
    with pytest.warns(FutureWarning, match=notice):
        settings = load(file)
    assert value_of(settings, new) == value
    with pytest.warns(FutureWarning, match=notice):
        assert override(Settings(), {old: value}) == settings
    with pytest.warns(FutureWarning, match=notice):
        assert parse_assignment(f"{old}={str(value).lower()}") == (new, value)
    assert key not in to_toml(settings, everything=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_table(tomllib.loads(to_toml(settings))) == settings


def test_every_renamed_setting_leads_to_one_that_exists() -> None:
    """The table of renamed settings is tested whole, names only settings that exist, and no old one exists any more."""
    known = {
        f"{section.name}.{key.name}"
        for section in dataclasses.fields(Settings)
        for key in dataclasses.fields(getattr(Settings(), section.name))
    }
    assert set(OLD_NAMES) == set(RENAMED)
    assert set(RENAMED.values()) <= known
    assert not known & set(RENAMED)


def test_a_new_name_beats_an_old_one() -> None:
    """A file with both names keeps the new one's value; changes that are merged by name let the later one win."""
    with pytest.warns(FutureWarning):
        assert from_table({"learn": {"mined_negatives": 1, "strangers": 2}}).learn.mined_negatives == 1
    with pytest.warns(FutureWarning):
        merged = {"learn.mined_negatives": 1} | current_names({"learn.strangers": 2})
    assert merged == {"learn.mined_negatives": 2}


def test_the_command_line_says_once_that_a_name_is_old(tmp_path: Path) -> None:
    """`opilio` shows one `notice:` line for each old name, shows the new names, and writes them when it next writes."""
    (tmp_path / "seeds.txt").write_text("http://a.test/\n")
    collection = Collection.create(tmp_path / "made", seeds=tmp_path / "seeds.txt")
    file = collection.folder / "crawl.toml"
    file.write_text(f"{file.read_text()}\n[learn]\nwait = true\nstrangers = 3\n")
    program = "from opilio.cli import main; main(); main()"
    call = [sys.executable, "-c", program, "settings", str(collection.folder)]
    ended = subprocess.run(call, capture_output=True, text=True, check=True)
    assert ended.stderr.splitlines() == [
        f"notice: the setting {old} is now called {new}; the old name will not work in the next release"
        for old, new in (("learn.strangers", "learn.mined_negatives"), ("learn.wait", "learn.synchronous"))
    ]
    assert ended.stdout == 2 * "[learn]\nmined_negatives = 3\nsynchronous = true\n"
    with pytest.warns(FutureWarning):
        Collection(collection.folder).change_settings({"limits.max_pages": 9})
    assert file.read_text().endswith("[limits]\nmax_pages = 9\n\n[learn]\nmined_negatives = 3\nsynchronous = true\n")


def test_settings_are_values() -> None:
    """Sections are equal by what they hold, can be keys, are shown and copied with all of it, and never change."""
    one, same = LimitSettings(max_pages=5), dataclasses.replace(LimitSettings(), max_pages=5)
    assert one == same
    assert hash(one) == hash(same)
    assert one != LimitSettings()
    assert repr(one).startswith("LimitSettings(max_pages=5, max_time_s=0.0,")
    assert pickle.loads(pickle.dumps(Settings(limits=one))) == Settings(limits=same)
    for change in (lambda: setattr(one, "max_pages", 6), lambda: delattr(one, "max_pages")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert one == same
