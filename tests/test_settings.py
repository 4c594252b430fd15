"""Settings: one TOML file, frozen, with errors that name the next step."""

import tomllib
from pathlib import Path

import pytest

from opilio.errors import SettingsError
from opilio.model import TRANSITIONS, Outcome, OutcomeKind, UrlState, may_become
from opilio.settings import Settings, from_table, load, override, parse_assignment, to_toml


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
         "scope.only_domains": ["a.example"], "fetch.user_agent": 'quote " back \\ \n', "robots.obey": False},
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
