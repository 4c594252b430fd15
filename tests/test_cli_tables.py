"""Tables of the command line: they fit the terminal, and no word of a cell is ever broken or lost."""

import re

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.cli.tables import fitted, table_lines

WORDS = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=30)
CELLS = st.lists(WORDS, max_size=8).map(" ".join)
URL = "http://a-long-host-name.example.test/with/a/long/path/to/a/page-of-some-length.html?and=query"


@given(st.integers(1, 5).flatmap(lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=2, max_size=6)))
def test_a_table_fits_and_breaks_no_word(rows: list[list[str]]) -> None:
    """Whatever the cells: each line fits, unless it has a single word that does not, and all words come out whole."""
    columns, *cells = rows
    lines = table_lines(columns, cells, 60)
    for line in lines:
        assert len(line) <= 60 or len(line.split()) == 1
    shown = cells if not any(columns) else rows
    assert sorted(" ".join(lines).split()) == sorted(word for row in shown for cell in row for word in cell.split())


def test_a_url_that_does_not_fit_has_a_line_of_its_own() -> None:
    """The short columns stay a table with numbers flush right; the URL stands whole below its row, its name below theirs."""
    lines = table_lines(("n", "url", "title"), [("7", URL, "Owls"), ("10", "http://b.test/", "Birds of prey")], 80, "n")
    assert lines == [
        " n  title", "    url", " 7  Owls", f"    {URL}", "10  Birds of prey", "    http://b.test/",
    ]  # fmt: skip
    wide = table_lines(("n", "url", "title"), [("7", URL, "Owls")], 200, "n")
    assert wide[1] == f"7  {URL}  Owls"
    assert re.sub(" +", " ", wide[0]) == "n url title"


def test_a_line_fits_a_terminal_and_is_whole_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal a long line goes on below, indented, its colours not counted; a program that reads it gets it whole."""
    line = "  counted: " + ", ".join(f"{click.style(f'thing {n}', fg='red')} {n}" for n in range(20))
    assert fitted(line) == line
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    lines = click.unstyle(fitted(line)).splitlines()
    assert len(lines) > 3 and all(len(one) <= 60 for one in lines)
    assert lines[0].startswith("  counted: ") and all(re.match(r"    \S", one) for one in lines[1:])
    assert " ".join(" ".join(lines).split()) == " ".join(click.unstyle(line).split())
    assert fitted("  short") == "  short"
