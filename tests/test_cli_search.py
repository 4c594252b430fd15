"""`opilio search`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from opilio.cli import cli
from opilio.errors import InputError
from search_pages import Page, make_collection

PAGES = [
    Page("The barn owl nests\x1b[31m in barns", "Barn \x1b]0;owls", relevance=0.2, kcid=2),
    Page("Owls hunt mice at night", "Night birds", relevance=0.9),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "birds"
    make_collection(folder, PAGES)
    return folder


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["search", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_results_are_shown(folder: Path) -> None:
    """Results come with address, topic and snippet; what strangers wrote cannot steer the terminal."""
    said = run(str(folder), "owl", "--rank", "relevance=1")
    assert said.startswith("2 of 2 pages")
    assert said.index("Night birds") < said.index("Barn")
    assert "http://h1.example/1.html" in said
    assert "\x1b]" not in said
    assert "\x1b[31m" not in said


def test_filters_and_json(folder: Path) -> None:
    """Filters narrow, and --json gives the whole answer."""
    answer = json.loads(run(str(folder), "owl", "--topic", "Birds / Owls", "-n", "1", "--json"))
    assert [one["oid"] for one in answer["results"]] == [0]
    assert answer["facets"]["topic"]


def test_similar(folder: Path) -> None:
    """--similar takes the place of a question."""
    assert "Night birds" in run(str(folder), "--similar", "http://h0.example/0.html")


def test_mistakes_are_told(folder: Path) -> None:
    """A wrong question or weight is refused with an error that says what is wrong."""
    for arguments in (["owl ("], ["owl", "--rank", "fame=1"], ["owl", "--rank", "bm25=much"]):
        with pytest.raises(InputError):
            run(str(folder), *arguments)
