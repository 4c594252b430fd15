"""`opilio census`: the tables, the remedy, JSON, and the same while a crawl runs."""

import io
import json
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from conftest import MakeTaught
from made_crawls import mutual_funds
from opilio import Collection
from opilio.cli import cli
from opilio.cli.display import sparkline
from opilio.cli.distill import BAR_CELLS, bar
from opilio.cli.panel import panel
from opilio.crawl.operations.client import NOTE
from opilio.store import Store


@pytest.fixture
def funds(tmp_path: Path) -> Path:
    """A collection that holds the paper's crawl."""
    folder, seeds = tmp_path / "funds", tmp_path / "seeds.txt"
    seeds.write_text("http://funds.example/")
    Collection.create(folder, seeds=seeds)
    with Store.open(folder) as store:
        mutual_funds().fill(store)
    return folder


def run(*words: str) -> str:
    result = CliRunner().invoke(cli, ["census", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_tables_and_remedy(funds: Path) -> None:
    """Counts by topic and host with bars, the words instead, and the command of the paper in full."""
    said = run(str(funds))
    lines = {" ".join(line.split()[:4]) for line in said.splitlines()}
    whole = [" ".join(line.split()) for line in said.splitlines()]
    assert "139 pages: 50 relevant," in lines
    assert any(line.startswith("Business/Investment on the way 80 20 60 ") for line in whole)
    assert "h2.org 60 0 █" + "█" * (BAR_CELLS - 1) in lines
    assert "broker" in said
    assert any(line.startswith("off topic 25 25 ") for line in whole)
    assert " ".join(said.split()).count(" ".join(f"opilio topics mark {funds} Business/Investment good".split())) == 1
    assert "60 pages about Business/Investment, above a wanted topic" in said


def test_a_part_as_json(funds: Path) -> None:
    """--last and --topic choose pages, --json gives plain values."""
    told = json.loads(run(str(funds), "--json", "--last", "10", "--topic", "Gardening"))
    assert (told["pages"], told["topic"], told["last_pages"]) == (10, "Gardening", 10)
    assert [topic["pages"] for topic in told["topics"] if topic["topic"] == "Gardening"] == [10]


def test_bars() -> None:
    """The longest is full, none is none, and the others are in proportion, in eighths of a cell."""
    assert bar(7, 7) == "█" * BAR_CELLS
    assert bar(0, 7) == "" == bar(0, 0)
    assert bar(1, 2) == "█" * (BAR_CELLS // 2)
    assert bar(1, 8 * BAR_CELLS) == "▏"
    assert sparkline([0.0]) == "▁"


def test_while_a_crawl_runs(make_taught: MakeTaught) -> None:
    """The crawl answers for its database; its panel shows what it noticed."""
    collection = make_taught(fetch__host_delay_s=0.5, limits__max_pages=0, limits__max_time_s=60.0)
    crawl = threading.Thread(target=collection.crawl)
    crawl.start()
    until_s = time.monotonic() + 20
    while not (collection.folder / NOTE).exists():  # asking before would open the database under the crawl's feet
        assert time.monotonic() < until_s
        time.sleep(0.02)
    try:
        told = collection.census()
        assert {topic["mark"] for topic in told["topics"]} >= {"good"}
        status = collection.status()
    finally:
        collection.stop()
        crawl.join()
    status.notices = [{"kind": "topic", "text": "topic 'x' starves", "remedy": "opilio topics add y x URL"}]
    status.harvest, status.recall = 0.5, 0.25
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(panel(status, 96))
    drawn = console.export_text()
    assert "topic: topic 'x' starves" in drawn
    assert "recall about 25%" in drawn
    assert told["pages"] <= collection.census()["pages"]
