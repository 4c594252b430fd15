"""The command `opilio distill`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import opilio
from distill_webs import Web
from opilio import Collection
from opilio.store import Store

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(opilio.__file__).parent.parent)}
TOPICS = [(0, None, "", "path"), (1, 0, "Birds", "good"), (2, 0, "Cars", "good")]


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opilio", "distill", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection in which page 0 of topic Birds links to 1 and 2, and page 3 of Cars to 4."""
    root = tmp_path_factory.mktemp("cli")
    (root / "seeds.txt").write_text("http://h0.org/0\n")
    Collection.create(root / "birds", seeds=root / "seeds.txt")
    web = Web(
        [0, 1, 2, 3, 4], [(0, 1), (0, 2), (3, 4)], kcid=[1, 1, 1, 2, 2], accepted=[True] * 5, topics=TOPICS,
        waiting=frozenset([2]),
    )  # fmt: skip
    with Store.open(root / "birds") as store:
        web.fill(store)
        with store.writing() as to:
            to.execute("UPDATE pages SET title = 'Owls' || chr(27) || '[2J of the world' WHERE oid = 1")
    return root / "birds"


def test_lists_hubs_and_authorities(folder: Path) -> None:
    """With titles and URLs; a page not fetched says so, and nobody's title steers the terminal."""
    ran = run(folder, "--topic", "birds", "--method", "hits")
    assert ran.returncode == 0, ran.stderr
    hubs, _, authorities = ran.stdout.partition("authorities")
    assert "page 0" in hubs
    assert "http://h0.org/0" in hubs
    assert "of the world" in authorities
    assert "(not fetched)" in authorities
    assert "\x1b" not in ran.stdout
    assert "http://h4.org/4" not in ran.stdout


@pytest.mark.parametrize("method", ["weighted", "hits", "focus", "pagerank"])
def test_as_json(folder: Path, method: str) -> None:
    """One object; as many pages as asked for."""
    ran = run(folder, "--method", method, "--top", "1", "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["method"] == method
    assert len(told["authorities"]) == 1
    assert len(told["hubs"]) == (method != "pagerank")


def test_says_when_no_link_counts(tmp_path: Path) -> None:
    """A fresh collection has no hubs, which is no error."""
    (tmp_path / "seeds.txt").write_text("http://h0.org/0\n")
    Collection.create(tmp_path / "birds", seeds=tmp_path / "seeds.txt")
    ran = run(tmp_path / "birds")
    assert ran.returncode == 0, ran.stderr
    assert "no link counts" in ran.stdout


def test_errors_name_the_next_step(folder: Path, tmp_path: Path) -> None:
    """No collection, no such topic."""
    ran = run(tmp_path)
    assert (ran.returncode, "hint:" in ran.stderr) == (1, True)
    ran = run(folder, "--topic", "Brids")
    assert ran.returncode == 1
    assert "Birds" in ran.stderr
