"""`opilio federate` and `opilio offer`: what they take, what they refuse, and the server as a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

import opilio
from federation_server import free_address
from made_crawls import MadeCrawl
from opilio import Collection
from opilio.cli import cli
from opilio.cli.federate import default_state, entries_at
from opilio.errors import InputError, SettingsError
from opilio.federation.peers import read_peers
from opilio.store import Store
from search_pages import Page, make_collection
from web_portal import TOKEN, Portal

PAGES = [Page("The barn owl nests in barns", "Barn owls"), Page("a finch in the garden", "Finches")]


def test_places_become_peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collection, a folder with several, and an address whose token a variable has."""
    make_collection(tmp_path / "birds", [])
    make_collection(tmp_path / "bees", [])
    assert [(one.name, one.at) for one in entries_at(str(tmp_path / "birds"))] == [("birds", str(tmp_path / "birds"))]
    assert [one.name for one in entries_at(str(tmp_path))] == ["bees", "birds"]
    monkeypatch.setenv("OPILIO_TOKEN_TALL_SHIPS_2", "secret")
    [ships] = entries_at("http://ships.example:8765/c/tall%20ships-2/")
    assert (ships.name, ships.at, ships.token) == (
        "tall ships-2", "http://ships.example:8765/c/tall%20ships-2", "secret",
    )  # fmt: skip
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert default_state() == tmp_path / "state" / "opilio" / "federation"


def test_the_file_of_the_guide_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of peers in docs/guides/federation.md is one."""
    guide = Path(__file__).parent.parent / "docs" / "guides" / "federation.md"
    [block] = re.findall(r"^```toml\n(.*?)^```", guide.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    (tmp_path / "peers.toml").write_text(block)
    monkeypatch.setenv("SHIPS_TOKEN", "secret")
    birds, ships = read_peers(tmp_path / "peers.toml")
    assert (birds.name, birds.at, birds.is_remote) == ("birds", str((tmp_path / "../birds").absolute()), False)
    assert (ships.name, ships.at, ships.token) == ("ships", "https://ships.example/c/ships", "secret")


def test_wrong_places_are_told(tmp_path: Path) -> None:
    """What is no collection, has no token, or has a name that another has is an error that says what to do."""
    (tmp_path / "empty").mkdir()
    for place, said in [
        (str(tmp_path / "nowhere"), "no such folder"),
        (str(tmp_path / "empty"), "no collection there"),
        ("http://ships.example/ships", "not the address of a collection"),
        ("http://me:secret@ships.example/c/ships", "not the address of a collection"),
        ("http://ships.example/c/ships", "token is not known"),
    ]:
        with pytest.raises(InputError, match=said) as caught:
            entries_at(place)
        assert caught.value.hint
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        make_collection(tmp_path / folder / "birds", [])
    result = CliRunner().invoke(cli, ["federate", str(tmp_path / "a"), str(tmp_path / "b")])
    assert isinstance(result.exception, InputError)
    assert "two collections are called 'birds'" in result.exception.message
    result = CliRunner().invoke(cli, ["federate"])
    assert isinstance(result.exception, InputError)


def test_the_server_as_a_process(tmp_path: Path) -> None:
    """It starts though a peer is away, says so, answers, and ends when it is told to."""
    (tmp_path / "there").mkdir()
    make_collection(tmp_path / "birds", PAGES)
    make_collection(tmp_path / "there" / "bees", [Page("honey bees and an owl", "Bees", "http://bees.example/")])
    with Portal(tmp_path / "there") as portal:
        file = tmp_path / "peers.toml"
        file.write_text(
            f'[[peer]]\nname = "birds"\nat = "birds"\n'
            f'[[peer]]\nname = "bees"\nat = "{portal.address}/c/bees"\ntoken = "{TOKEN}"\n'
            f'[[peer]]\nname = "away"\nat = "{free_address("away")}"\ntoken = "x"\n'
        )
        file.chmod(0o600)
        command = [sys.executable, "-m", "opilio", "federate", "--peers", str(file), "--port", "0"]
        environment = {**os.environ, "PYTHONPATH": str(Path(opilio.__file__).parent.parent), "OPILIO_TOKEN": "mine"}
        process = subprocess.Popen(
            [*command, "--state", str(tmp_path / "state")], env=environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline().strip() for _ in range(4)]
            assert lines[0] == "birds: 2 pages, 0 topics"
            assert lines[1].startswith("bees: 1 pages")
            address, _, token = lines[2].partition("/login#")
            assert token == "mine"
            with urllib.request.urlopen(f"{address}/api/search?q=owl&ask_all=true", timeout=20) as response:
                answer = json.load(response)
            assert {one["name"]: one["answered"] for one in answer["peers"]} == {
                "birds": True, "bees": True, "away": False,
            }  # fmt: skip
            assert answer["total"] == 2
        finally:
            process.send_signal(signal.SIGTERM)
            _, complained = process.communicate(timeout=20)
    assert "away" in complained
    assert "refused" in complained
    assert "Traceback" not in complained


BAKING, SOWING = "oven flour oven flour yeast", "soil seed flower bed"


def made(folder: Path, wanted: str, text: str, others: str) -> None:
    """A collection that wants one topic, with pages of it and some about something else."""
    make_collection(folder, [])
    crawl = MadeCrawl(topics=((0, None, "", "path"), (1, 0, wanted, "good")))
    crawl.add(6, kcid=1, relevance=0.9, text=text)
    crawl.add(4, kcid=0, relevance=0.0, text=others, host=3)
    crawl.add(20, kcid=0, relevance=0.0, text="cookies privacy login")
    with Store.open(folder) as store:
        crawl.fill(store)


def test_offering_by_hand(tmp_path: Path) -> None:
    """A dry run shows what would be handed over; the second run hands it over, the third has nothing left."""
    made(tmp_path / "gardens", "Gardening", SOWING, BAKING)
    made(tmp_path / "cooks", "Cooking", BAKING, "mutual fund manager")
    Collection(tmp_path / "cooks").sql("UPDATE crawl SET url = url || '/cooks', key = oid + 1000", write=True)
    file = tmp_path / "peers.toml"
    file.write_text(
        f'[[peer]]\nname = "cooks"\nat = "cooks"\n[[peer]]\nname = "me"\nat = "gardens"\n'
        f'[[peer]]\nname = "away"\nat = "{free_address("away")}"\ntoken = "x"\n'
    )
    command = ["offer", str(tmp_path / "gardens"), "--peers", str(file)]
    dry = CliRunner().invoke(cli, [*command, "--dry-run"], catch_exceptions=False).output
    assert "cooks: 4 URLs suit it" in dry
    assert dry.count("http://h3.org/") == 4
    assert "away (http" in dry
    assert "may be read by others" in dry  # the file has a token
    assert "me:" not in dry
    told = json.loads(CliRunner().invoke(cli, [*command, "--json"], catch_exceptions=False).stdout)
    [cooks, away] = told["peers"]
    assert (cooks["count"], cooks["new"]) == (4, 4)
    assert "refused" in away["trouble"]
    partly = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert partly.exit_code == 0, "one of them was there"
    assert "away" not in partly.stdout
    assert "warning: away (http" in partly.stderr
    again = CliRunner().invoke(cli, command, catch_exceptions=False).output
    assert "cooks: 0 URLs forwarded" in again
    came = Collection(tmp_path / "cooks").sql("SELECT peer, topic, count(*) FROM offers WHERE incoming GROUP BY ALL")
    assert came.rows == [("gardens", "Cooking", 4)]
    result = CliRunner().invoke(cli, ["offer", str(tmp_path / "gardens")])
    assert isinstance(result.exception, SettingsError)


@pytest.mark.parametrize("more", [[], ["--dry-run"], ["--json"]])
def test_offering_fails_when_nobody_is_there(tmp_path: Path, more: list[str]) -> None:
    """When none of the others can be told anything, the command fails, says who and why, and what to do."""
    made(tmp_path / "gardens", "Gardening", SOWING, BAKING)
    (tmp_path / "peers.toml").write_text(
        f'[[peer]]\nname = "away"\nat = "{free_address("away")}"\ntoken = "x"\n'
        '[[peer]]\nname = "gone"\nat = "nowhere"\n[[peer]]\nname = "me"\nat = "gardens"\n'
    )
    (tmp_path / "peers.toml").chmod(0o600)
    environment = {**os.environ, "PYTHONPATH": str(Path(opilio.__file__).parent.parent)}
    command = [sys.executable, "-m", "opilio", "offer", str(tmp_path / "gardens"), "--peers", "peers.toml", *more]
    result = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    said = result.stderr.splitlines()
    assert [line.split()[1] for line in said if line.startswith("warning: ")] == ["away", "gone"]
    assert "refused" in said[0]
    assert "no collection there" in said[1]
    assert said[2].startswith("error: nothing c")
    assert said[2].endswith(" away, gone")
    assert said[3].startswith("hint: ")
    assert len(said) == 4
    if "--json" in more:
        assert [one["count"] for one in json.loads(result.stdout)["peers"]] == [0, 0]
    else:
        assert not result.stdout
