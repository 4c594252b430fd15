"""`opilio pause`, `resume`, `host` and the ready questions of `opilio sql`."""

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from conftest import MakeCollection
from made_crawls import mutual_funds
from opilio import Collection
from opilio.cli import cli
from opilio.errors import CollectionError, InputError
from opilio.store import Store
from opilio.store.questions import QUESTIONS
from running_crawls import PLAIN, SEEDS, STEERED, paused, running


def run(*words: object) -> str:
    """What a command says."""
    result = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_crawl_that_runs_is_steered(make_collection: MakeCollection) -> None:
    """Each command says what it has done, and the status tells of the pause."""
    collection = make_collection(SEEDS, fetch__host_delay_s=0.05, **PLAIN)
    folder = collection.folder
    with running(collection) as (other, _):
        assert run("pause", folder) == "paused: requests under way are finished\n"
        paused(other)
        assert "paused; continue with: opilio resume" in run("status", folder)
        assert json.loads(run("status", folder, "--json"))["paused"] is True
        assert run("host", "boost", folder, STEERED).startswith(f"{STEERED} is boosted 10 times; ")
        assert run("host", "boost", folder, STEERED, 1).startswith(f"{STEERED} is no longer boosted; ")
        dropped = run("host", "lock", folder, STEERED)
        assert dropped.startswith(f"{STEERED} is locked; ") and not dropped.endswith(" 0 queued URLs were dropped\n")
        assert run("host", "unlock", folder, STEERED).startswith(f"{STEERED} is unlocked; ")
        assert run("resume", folder) == "the crawl goes on\n"
        assert "paused" not in run("status", folder)


def test_where_no_crawl_runs(make_collection: MakeCollection) -> None:
    """Pausing says so, locking is kept for later, and what cannot be is an error with a hint."""
    folder = make_collection(SEEDS).folder
    assert run("pause", folder) == run("resume", folder) == f"no crawl runs in {folder}\n"
    assert json.loads(run("stop", folder, "--json")) is False
    assert json.loads(run("status", folder, "--json")) == dataclasses.asdict(Collection(folder).status())
    assert run("host", "lock", folder, "http://ADS.example.org/") == (
        "http://ADS.example.org/ is locked; 0 queued URLs were dropped\n"
    )
    assert "ads.example.org" in Collection(folder).settings.scope.locked_domains
    run("host", "lock", folder, "http://ADS.example.org/banner", "tracker.example.org")
    assert Collection(folder).settings.scope.locked_urls == ("http://ads.example.org/banner",)
    assert run("host", "lock", folder).splitlines()[-2:] == ["tracker.example.org", "http://ads.example.org/banner"]
    with pytest.raises(CollectionError):
        run("host", "boost", folder, STEERED)
    with pytest.raises(InputError):
        run("host", "unlock", folder, STEERED)
    result = CliRunner().invoke(cli, ["host", "boost", str(folder), STEERED, "0.5"])
    assert result.exit_code == 2, "a factor below 1 is no boost"


def test_ready_questions(tmp_path: Path) -> None:
    """They are listed with what they show, and asked by name in every form; one that writes needs leave."""
    (tmp_path / "seeds.txt").write_text("http://funds.example/")
    folder = Collection.create(tmp_path / "funds", seeds=tmp_path / "seeds.txt").folder
    with Store.open(folder) as store:
        mutual_funds().fill(store)
    listed = run("sql", folder, "--questions")
    assert all(f"{one.name}" in listed and one.shows in listed for one in QUESTIONS)
    census = json.loads(run("sql", folder, "--question", "census", "--format", "json"))
    assert {"topic": "Business/Investment", "mark": "path", "pages": 60, "relevant": 0} in census
    with pytest.raises(Exception, match="UPDATE would change"):
        run("sql", folder, "--question", "mark-ancestor-good")
    run("sql", folder, "--question", "mark-ancestor-good", "--write")
    assert Collection(folder).sql("SELECT path FROM topics WHERE type = 'good' ORDER BY path").rows == [
        ("Business/Investment",),
        ("Gardening",),
    ]
    with pytest.raises(InputError) as caught:
        run("sql", folder, "--question", "censsus")
    assert "census" in caught.value.hint
