"""`opilio split` and `opilio merge`: what they say, and what they refuse."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from made_worlds import make_world
from opilio.cli import cli
from opilio.errors import InputError
from opilio.store import Store
from parts_facts import differences, facts


def run(*words: object) -> str:
    """What a command says."""
    result = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def rows_of(output: str) -> list[list[str]]:
    """The words of each line."""
    return [line.split() for line in output.splitlines()]


def test_a_dry_run_counts_what_a_split_then_does(tmp_path: Path) -> None:
    """--dry-run writes nothing and counts the same as the split; the table names each part with its topic."""
    whole = make_world(tmp_path / "whole", 21)
    told = json.loads(run("split", whole, tmp_path / "parts", "--dry-run", "--json"))
    assert told["dry_run"] and not (tmp_path / "parts").exists()
    assert "nothing was written" in run("split", whole, tmp_path / "parts", "--dry-run")
    lines = rows_of(run("split", whole, tmp_path / "parts"))
    assert lines[0] == ["collection", "topic", "pages", "urls", "waiting", "elsewhere", "links", "warc", "files"]
    for part, line in zip(told["parts"], lines[1:], strict=False):
        topic = part["topic"].split() or ["(all", "others)"]
        assert line[: len(topic) + 4] == [part["name"], *topic, *(str(part[n]) for n in ("pages", "urls", "waiting"))]
    assert sum(part["pages"] for part in told["parts"]) == sum(facts(whole)["pages"].values())
    assert {folder.name for folder in (tmp_path / "parts").iterdir()} == {part["name"] for part in told["parts"]}


def test_parts_are_merged_by_name(tmp_path: Path) -> None:
    """A split by chosen topics and a merge of the folders give the collection back; --json tells the same."""
    whole = make_world(tmp_path / "whole", 22)
    told = json.loads(run("split", whole, tmp_path / "parts", "--topic", "a/x", "--topic", "B", "--json"))
    assert [part["name"] for part in told["parts"]] == ["A-x", "B", "rest"]
    merged = json.loads(run("merge", tmp_path / "again", *(part["folder"] for part in told["parts"]), "--json"))
    assert merged["made"]["pages"] == sum(part["pages"] for part in merged["sources"])
    assert not differences(facts(whole), facts(tmp_path / "again"))


def test_strangers_are_merged_with_notes(tmp_path: Path) -> None:
    """The table lists the sources and what was made; what differs between them is said, in lines that are harmless."""
    one = make_world(tmp_path / "one", 1, sites=("a.org",), urls=8)
    two = make_world(tmp_path / "two", 2, sites=("b.org",), urls=8, paths=("", "A", "E"))
    (two / "crawl.toml").write_text('[fetch]\nuser_agent = "other\\u001b[31m"\n[scope]\nlocked_domains = ["z.org"]\n')
    output = run("merge", tmp_path / "both", one, two)
    assert [line for line in output.splitlines() if line.startswith("note: fetch.user_agent is")]
    assert "\x1b" not in output and output.endswith(f"\nmade: {tmp_path / 'both'}\n")
    assert [line[0] for line in rows_of(output)[:4]] == ["collection", "one", "two", "both"]
    settings = (tmp_path / "both" / "crawl.toml").read_text()
    assert "z.org" in settings and "google.com" in settings


def test_a_merged_collection_can_learn_at_once(crawled_taught: Path, tmp_path: Path) -> None:
    """--train trains a model of what the merged collection is taught, by which its pages are judged."""
    run("split", crawled_taught, tmp_path / "parts")
    folders = sorted((tmp_path / "parts").iterdir())
    told = json.loads(run("merge", tmp_path / "again", *folders, "--train", "--json"))
    with Store.open(tmp_path / "again") as store:
        assert store.load_models()[0].version == told["trained"] > 1
        assert store.query("SELECT min(model_version) FROM pages").rows == [(told["trained"],)]


def test_a_topic_that_is_not_there(tmp_path: Path) -> None:
    """The error names the topics that are."""
    whole = make_world(tmp_path / "whole", 23)
    with pytest.raises(InputError, match="no topic 'Z'") as refused:
        run("split", whole, tmp_path / "parts", "--topic", "Z")
    assert "'A', 'A / x', 'B'" in refused.value.hint
