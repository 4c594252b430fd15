"""Collections, answers and results in notebooks and data frames, as those who use them see them."""

import datetime
import html.parser
from pathlib import Path

import nbclient
import nbformat
import pandas
import polars
import pytest

from browsed import SCRIPT, crawled
from opilio import OpilioError
from opilio.store import Result, frames

HOSTILE = "<script>alert(1)</script>"


class Tags(html.parser.HTMLParser):
    """The tags of a piece of HTML, and whether all that were opened are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_notebook_shows_collections_answers_and_results(crawled_taught: Path, tmp_path: Path) -> None:
    """A real kernel runs a notebook: a card with the topics, cards of what was found, a table; and data frames, which
    show themselves. Nothing of a page is taken for HTML."""
    collection = crawled(crawled_taught, tmp_path)
    cells = [
        f"from opilio import Collection\nbees = Collection({str(collection.folder)!r})\nbees",
        "bees.search('alert OR statistics')",
        "bees.sql('SELECT url, title, relevance FROM collection ORDER BY relevance DESC')",
        "bees.sql('SELECT title, relevance, host FROM collection').to_pandas()",
        "bees.sql('SELECT title, relevance FROM collection').to_polars()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    shown = [cell.outputs[-1]["data"] for cell in notebook.cells]
    card, answer, table = (data["text/html"] for data in shown[:3])
    assert "birds &amp; bees" in card and all(topic in card for topic in ("cryptography", "statistics"))
    assert f"{len(collection.sql('SELECT 1 FROM collection').rows):,} pages" in card
    for text in (card, answer, table):
        tags = Tags(text)
        assert not tags.open and not {"script", "img", "iframe", "style"} & {*tags.tags}
        assert all(link.startswith(("http://", "https://")) for link in tags.links)
    assert SCRIPT not in card + table and "&lt;script&gt;alert" in card + table
    assert all('class="dataframe"' in data["text/html"] for data in shown[3:])
    assert shown[0]["text/plain"] == f"Collection({str(collection.folder)!r})"


def test_results_become_data_frames() -> None:
    """Numbers, times and lists keep their types, missing values stay missing; names are made distinct, and a column of
    mixed values becomes text."""
    at = datetime.datetime(2026, 11, 18, 12, 30)
    result = Result(
        ("n", "x", "x", "at", "tags", "mixed", "big"),
        [(1, 0.5, "a", at, ["b"], 1, 2**70), (2, None, None, None, [], "two", 1), (None, 1.5, "c", at, None, at, None)],
    )
    table = result.to_arrow()
    assert table.column_names == ["n", "x", "x_1", "at", "tags", "mixed", "big"]
    assert [str(kind) for kind in table.schema.types[:4]] == ["int64", "double", "string", "timestamp[us]"]
    assert table["mixed"].to_pylist() == ["1", "two", at.isoformat()] and table["big"].to_pylist()[0] == str(2**70)
    assert isinstance(result.to_pandas(), pandas.DataFrame) and result.to_pandas()["x"].isna().tolist() == [
        False,
        True,
        False,
    ]
    assert isinstance(result.to_polars(), polars.DataFrame) and result.to_polars()["at"].to_list() == [at, None, at]
    assert Result(("a", "b"), []).to_pandas().shape == (0, 2) and Result((), []).to_arrow().num_rows == 0


def test_a_table_is_short_and_escaped() -> None:
    """Long tables and cells are cut, and the table says so."""
    result = Result((HOSTILE, "b"), [(HOSTILE, "x" * 10_000)] * 60, truncated=True)
    text = result._repr_html_()
    assert not Tags(text).open and "script" not in Tags(text).tags
    assert "60 or more rows, the first 50 are shown" in text and len(text) < 50_000


@pytest.mark.parametrize(("package", "method"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_without_the_package_the_error_has_the_command(
    monkeypatch: pytest.MonkeyPatch, package: str, method: str
) -> None:
    """pandas and polars are optional."""
    monkeypatch.setattr(frames, "find_spec", lambda name: None)
    with pytest.raises(OpilioError, match=f"{package} is not installed") as caught:
        getattr(Result(("a",), [(1,)]), method)()
    assert caught.value.hint == f"pip install {package}"


def test_a_card_is_never_an_error(tmp_path: Path, crawled_taught: Path) -> None:
    """A collection whose database is damaged shows what is wrong in its card."""
    collection = crawled(crawled_taught, tmp_path)
    for file in collection.folder.glob("collection.duckdb*"):
        file.write_bytes(b"no database" * 1000)
    card = collection._repr_html_()
    assert "birds &amp; bees" in card and not Tags(card).open
