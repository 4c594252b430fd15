"""The SQL console: it answers, refuses to write without leave, shows where an error is, and gives files."""

import csv
import io
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe

from browser import chromium, signed_in
from opilio import Collection
from opilio.store.questions import QUESTIONS
from web_portal import Portal

API = "/api/c/collection/sql"
PAGE = "/c/collection/sql"


@pytest.fixture(scope="module")
def crawled(crawled_taught: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a collection of a hundred pages."""
    place = tmp_path_factory.mktemp("console")
    shutil.copytree(crawled_taught, place / "collection")
    return place


@pytest.fixture(scope="module")
def portal(crawled: Path) -> Iterator[Portal]:
    """A portal that shows it."""
    with Portal(crawled) as server:
        yield server


def test_a_query_is_answered_as_json_csv_and_a_page(portal: Portal, crawled: Path) -> None:
    """All three have the rows that Python gets; a value of the web is text in the page, whatever it looks like."""
    sql = "SELECT url, relevance, visited FROM collection ORDER BY url LIMIT 5"
    rows = Collection(crawled / "collection").sql(sql).rows
    code, told = portal.get_with_token(API, sql=sql)
    assert code == 200 and told["columns"] == ["url", "relevance", "visited"]
    assert told["kinds"] == ["text", "number", "time"] and not told["truncated"]
    assert [row[0] for row in told["rows"]] == [row[0] for row in rows]
    code, text = portal.get_with_token(API, sql=sql, format="csv")
    read = list(csv.reader(io.StringIO(text)))
    assert read[0] == told["columns"] and [row[0] for row in read[1:]] == [row[0] for row in rows]
    code, page = portal.get_with_token(
        PAGE, sql="SELECT '<script>alert(1)</script>' AS title, 1 AS n UNION SELECT 'x', 2"
    )
    assert code == 200 and "<script>alert" not in page and "&lt;script&gt;alert" in page


def test_odd_values_are_answers_too(portal: Portal) -> None:
    """What JSON has no word for, lists and structures do not break the answer; columns without rows are one."""
    odd = "SELECT 'nan'::DOUBLE AS n, 'inf'::FLOAT AS i, [1, 2] AS l, {'a': DATE '2024-01-02'} AS s, '\\x00'::BLOB AS b"
    assert portal.get_with_token(API, sql=odd)[1]["rows"] == [[None, None, [1, 2], {"a": "2024-01-02"}, "00"]]
    assert portal.get_with_token(PAGE, sql=odd)[0] == 200
    told = portal.get_with_token(API, sql="SELECT url FROM pages JOIN crawl USING (oid) WHERE false")[1]
    assert (told["columns"], told["rows"]) == (["url"], [])
    assert portal.get_with_token(API, sql="FROM range(2000)", max_rows=10)[1]["truncated"]
    assert "Only the first 1,000" in portal.get_with_token(PAGE, sql="FROM range(2000)")[1]


@pytest.mark.parametrize(
    "sql", ["DELETE FROM pages", "UPDATE topics SET type = 'good'", "DROP TABLE pages", "COPY pages TO 'x.csv'",
            "SELECT 1; DELETE FROM pages", "FROM read_csv('/etc/passwd')"],
)  # fmt: skip
def test_reading_changes_nothing(portal: Portal, crawled: Path, sql: str) -> None:
    """Without leave a change is refused with a sentence, on the page and by the API, also with a token: GET reads."""
    before = Collection(crawled / "collection").sql("SELECT count(*), (SELECT count(*) FROM pages) FROM topics").rows
    code, told = portal.get_with_token(API, sql=sql)
    assert code == 400 and told["error"] and told["hint"]
    code, page = portal.get_with_token(PAGE, sql=sql)
    assert code == 400 and 'role="alert"' in page
    assert portal.ask("POST", API, {"sql": sql}, token="")[0] == 403
    after = Collection(crawled / "collection").sql("SELECT count(*), (SELECT count(*) FROM pages) FROM topics").rows
    assert before == after


def test_a_statement_of_ones_own_needs_the_token(portal: Portal) -> None:
    """Without it neither the page nor the API runs a statement, and the page offers only what everyone may do."""
    assert portal.get(API, sql="SELECT 1")[0] == 403
    assert portal.get(PAGE, sql="SELECT 1")[0] == 403
    code, page = portal.get(PAGE, question="harvest-per-minute")
    assert code == 200 and "answer-head" in page
    assert "/api/c/collection/sql?" not in page and "<button>Run</button>" not in page


def test_who_may_changes_rows_and_nothing_else(crawled: Path, tmp_path: Path) -> None:
    """With the token an UPDATE runs and says how many rows; what reaches beyond rows is refused all the same."""
    shutil.copytree(crawled / "collection", tmp_path / "collection")
    with Portal(tmp_path) as portal:
        code, told = portal.ask("POST", API, {"sql": "UPDATE topics SET description = 'changed' WHERE pcid IS NULL"})
        assert (code, told) == (200, {"said": "1 row changed", "rows": 1})
        assert portal.get_with_token(API, sql="SELECT description FROM topics WHERE pcid IS NULL")[1]["rows"] == [
            ["changed"]
        ]
        assert portal.ask("POST", API, {"sql": "DROP TABLE pages"})[0] == 400
        assert portal.ask("POST", API, {"sql": "ATTACH 'x.duckdb'"})[0] == 400


def test_every_question_has_its_page(portal: Portal) -> None:
    """A click runs it and shows what it is about; the one that writes is only shown."""
    for one in QUESTIONS:
        code, page = portal.get(PAGE, question=one.name)
        assert code == 200, one.name
        assert one.title in page and 'role="alert"' not in page
        assert ("answer-head" in page) is not one.writes
    assert {one["name"] for one in portal.get("/api/c/collection/sql/questions")[1]} == {one.name for one in QUESTIONS}
    assert portal.get(PAGE, question="nothing")[0] == 400


def test_the_console_in_a_browser(portal: Portal) -> None:
    """Keys run, names go into the statement, an error is pointed at, an answer is drawn, a write needs the switch."""
    with chromium() as browser:
        page = signed_in(browser, portal.address)
        page.goto(portal.address + PAGE)
        editor = page.get_by_label("Statement")
        editor.fill("SELECT state, count(*) AS urls\nFROM  GROUP BY state")
        editor.evaluate("field => field.setSelectionRange(36, 36)")
        page.locator("details.table summary", has_text="crawl").first.click()
        page.locator("details.table").first.get_by_role("button", name="crawl", exact=True).click()
        assert "FROM crawl GROUP" in editor.input_value()
        editor.press("Control+Enter")
        page.locator("#drawn svg rect.fill-one").first.wait_for()
        assert page.locator("table.answer tbody tr").count() >= 2
        page.get_by_label("Statement").fill("SELECT url,\n       tittle FROM collection")
        page.get_by_role("button", name="Run").click()
        page.get_by_role("alert").wait_for()
        assert "line 2, column 8" in page.get_by_role("alert").inner_text()
        assert page.evaluate("window.getSelection().toString()") == "tittle"
        page.get_by_label("Statement").fill("UPDATE topics SET description = 'by hand'")
        page.get_by_role("button", name="Run").click()
        page.get_by_role("alert", name="").get_by_text("UPDATE would change the collection").wait_for()
        page.get_by_label("Allow changes").check()
        page.get_by_role("button", name="Run").click()
        page.locator("#said", has_text="rows changed").wait_for()
        page.goto(f"{portal.address}{PAGE}?question=harvest-per-minute")
        assert page.locator("#earlier li").count() == 3
        assert Axe().run(page).violations_count == 0
