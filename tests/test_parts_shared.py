"""Which pages two collections share: by address and by text, as a report in Python, as text and as JSON."""

import json
from pathlib import Path

import pytest

from command_line import call
from opilio import Collection, shared_pages
from webs import Page, Web


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two collections of four and three pages: one page of both is relevant in both, one in the first only, and one
    has another address in the second."""
    first = Web(
        [
            Page("owls hunt at night", "Owls", "http://a.test/owl", relevance=0.9),
            Page("herons wade", "Herons", "http://a.test/heron", relevance=0.8),
            Page("a mirrored text about ducks", "Ducks", "http://a.test/duck", relevance=0.7),
            Page("only here", "Here", "http://b.test/1", relevance=0.1),
        ]
    )
    second = Web(
        [
            Page("owls hunt at night", "Owls", "http://a.test/owl", relevance=0.6),
            Page("herons wade", "Herons", "http://a.test/heron", relevance=0.2),
            Page("a mirrored text about ducks", "Ducks", "http://mirror.test/duck", relevance=0.9),
        ]
    )
    first.stored(tmp_path / "first")
    second.stored(tmp_path / "second")
    return tmp_path / "first", tmp_path / "second"


def test_shared_pages(folders: tuple[Path, Path]) -> None:
    """Counted by hand: 3 shared, 2 of them relevant in both, 1 by its text."""
    report = shared_pages(*folders)
    assert (report.pages, report.relevant) == ((4, 3), (3, 2))
    assert [(page.url, page.other_url) for page in report.shared] == [
        ("http://a.test/duck", "http://mirror.test/duck"),
        ("http://a.test/owl", "http://a.test/owl"),
        ("http://a.test/heron", "http://a.test/heron"),
    ]
    assert [page.title for page in report.shared_relevant] == ["Ducks", "Owls"]
    assert report.same_text == 1
    assert report.hosts == ("a.test",)
    back = shared_pages(*folders[::-1])
    assert {page.url for page in back.shared} == {page.other_url for page in report.shared}
    assert len(shared_pages(folders[0], folders[0]).shared) == 4


def test_shared_as_text_and_as_json(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """The command prints counts, shares and a list that can be cut; JSON has all of it; a folder that is none is an
    error with a hint."""
    shown = call("shared", *folders, "--limit", "1")
    assert shown.returncode == 0, shown.stderr
    assert (
        "shared: 3 pages, 2 relevant in both (66.7% and 100.0% of the relevant ones), 1 by their text" in shown.stdout
    )
    assert "http://a.test/duck = http://mirror.test/duck" in shown.stdout
    assert "and 2 more" in shown.stdout
    assert "http://a.test/heron" not in call("shared", *folders, "--relevant").stdout
    told = json.loads(call("shared", *folders, "--json").stdout)
    assert (told["shared"], told["shared_relevant"], told["hosts"]) == (3, 2, ["a.test"])
    assert [page["url"] for page in told["list"]][-1] == "http://a.test/heron"
    wrong = call("shared", folders[0], tmp_path / "none")
    assert wrong.returncode == 1 and "hint: " in wrong.stderr


def test_collections_that_share_nothing(folders: tuple[Path, Path], tmp_path: Path) -> None:
    """Nothing is shared with a collection that has no pages, and no share is computed of nothing."""
    seeds = tmp_path / "empty.txt"
    seeds.write_text("http://c.test/\n")
    Collection.create(tmp_path / "empty", seeds=seeds)
    report = shared_pages(folders[0], tmp_path / "empty")
    assert (report.shared, report.pages) == ((), (4, 0))
    assert "0 relevant in both (0.0% and 0.0%" in call("shared", folders[0], tmp_path / "empty").stdout
