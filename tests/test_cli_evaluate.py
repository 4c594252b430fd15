"""`opilio evaluate` as a user types it: what it prints, where, and how it exits."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import opilio
from command_line import call
from evaluate_local import record_local
from opilio.cli.lab import time_left
from opilio.lab.experiments import plots
from opilio.lab.experiments.records import LOG_FILE, read_log
from opilio.lab.experiments.runner import Progress
from opilio.lab.webs import RecordedWeb

FILE = """
name = "tiny"
webs = ["somewhere/local"]
strategies = ["bfs1", "breadth-first"]
topics = { split = "all", count = 2 }
budget = { pages = 40 }
measures = { curves = ["recall"], table = ["recall@20", "recall"], points = 4 }
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an experiment file and its web."""
    folder = tmp_path_factory.mktemp("evaluate")
    record_local(folder / "webs" / "local")
    (folder / "tiny.toml").write_text(FILE)
    return folder


@pytest.fixture(scope="module")
def out(place: Path) -> Path:
    """The folder of an experiment that was run."""
    ended = call("evaluate", place / "tiny.toml", "--webs", place / "webs", "--folder", place / "out", "--workers", 1)
    assert ended.returncode == 0, ended.stderr
    assert "local, from examples" in ended.stdout
    assert "breadth-first" in ended.stdout
    assert ended.stdout.strip().endswith(str(place / "out" / "report.html"))
    assert "crawling 4 of 4" in ended.stderr
    return place / "out"


def test_called_again_it_finds_its_runs(place: Path, out: Path) -> None:
    """Nothing is run twice, and it says so."""
    ended = call("evaluate", place / "tiny.toml", "--webs", place / "webs", "--folder", out, "--workers", 1)
    assert ended.returncode == 0
    assert "crawling 4 of 4 (4 found in the folder)" in ended.stderr


def test_a_report_is_made_anew(out: Path) -> None:
    """--report writes the same report from the results alone."""
    report = out / "report.html"
    before = report.read_bytes()
    report.unlink()
    ended = call("evaluate", "--report", out, "-q")
    assert (ended.returncode, ended.stdout.strip()) == (0, str(report))
    assert report.read_bytes() == before


def test_a_part_is_run(place: Path, tmp_path: Path) -> None:
    """--only runs what it names; what is not named does not appear."""
    arguments = ("--webs", place / "webs", "--folder", tmp_path, "--workers", 1, "--only", "strategy=bfs*")
    ended = call("evaluate", place / "tiny.toml", *arguments)
    assert ended.returncode == 0
    assert "bfs1" in ended.stdout
    assert "breadth-first" not in ended.stdout
    assert len(read_log(tmp_path)) == 2


def test_a_run_is_shown_page_by_page(place: Path, out: Path) -> None:
    """--show lists the recorded pages in their order, with truth, priority and what was queued; --json has the same."""
    run = next(run for run in read_log(out).values() if run.place.strategy == "bfs1")
    shown = ("--show", "strategy=bfs1", "--show", f"topic={run.place.topic}")
    arguments = ("evaluate", place / "tiny.toml", "--webs", place / "webs", "--folder", out, *shown)
    ended = call(*arguments)
    assert ended.returncode == 0, ended.stderr
    assert f"local, from examples, {run.place.topic}, repeat 0: bfs1" in ended.stdout
    assert "Simulated again: the same pages as in the folder." in ended.stdout
    assert "queued: " in ended.stdout
    found = json.loads(call(*arguments, "--json").stdout)
    urls = RecordedWeb.open(place / "webs" / "local").urls
    assert [page["url"] for page in found["pages"]] == [urls[number] for number in run.crawled]
    assert [page["place"] for page in found["pages"]] == list(range(1, len(run.crawled) + 1))
    assert sum(page["truth"] == "example" for page in found["pages"]) == len(run.starts)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ((), 2, "give an experiment file, or --report"),
        (("tiny.toml", "--report", "out"), 2, "give an experiment file, or --report"),
        (("none.toml",), 1, "no such file"),
        (("tiny.toml", "--webs", "nowhere"), 1, "no recorded web there"),
        (("tiny.toml", "--only", "colour=red"), 1, "KIND is one of web, topic, task, strategy"),
        (("--report", "nowhere"), 1, "no results there"),
        (
            ("tiny.toml", "--webs", "webs", "--show", "colour=red"),
            1,
            "KIND is one of web, topic, task, strategy, repeat",
        ),
        (("tiny.toml", "--webs", "webs", "--show", "strategy=bfs1"), 1, "2 runs fit"),
        (("tiny.toml", "--webs", "webs", "--show", "repeat=3"), 1, "numbered 0, 1"),
        (("tiny.toml", "--show", "strategy=bfs1", "--only", "strategy=bfs1"), 2, "--show goes without --only"),
        (("tiny.toml", "--json"), 2, "--json only with --show"),
    ],
)
def test_mistakes_are_named(
    place: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], code: int, says: str
) -> None:
    """A wrong call ends with a message and a hint, never a traceback."""
    monkeypatch.chdir(place)
    ended = call("evaluate", *arguments)
    assert ended.returncode == code
    assert says in ended.stderr
    assert "hint: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_without_matplotlib_there_is_a_hint(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables come, figures do not, and how to get them is said."""
    monkeypatch.setattr(plots, "find_spec", lambda name: None)
    monkeypatch.setattr("opilio.cli.lab.can_plot", plots.can_plot)
    ended = call("evaluate", "--report", out)
    assert ended.returncode == 0
    assert "recall@20" in ended.stdout
    assert "pip install 'opilio[evaluate]'" in ended.stderr


def test_ctrl_c_ends_it_and_it_goes_on(place: Path, tmp_path: Path) -> None:
    """An interrupted experiment exits with 130 at once, keeps its runs, and needs only the rest."""
    file = tmp_path / "long.toml"
    file.write_text(FILE.replace("count = 2", "count = 6").replace("pages = 40", "pages = 250"))
    command = [sys.executable, "-m", "opilio", "evaluate", file, "--webs", place / "webs", "--folder", tmp_path / "out"]
    env = {**os.environ, "PYTHONPATH": str(Path(opilio.__file__).parent.parent)}
    process = subprocess.Popen([*map(str, command), "--workers", "2"], env=env, stderr=subprocess.PIPE, text=True)
    log = tmp_path / "out" / LOG_FILE
    limit_s = time.monotonic() + 30
    while not (log.exists() and log.stat().st_size) and time.monotonic() < limit_s:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    kept = len(read_log(tmp_path / "out"))
    assert 1 <= kept < 12
    ended = call(*command[3:], "--workers", 1)
    assert ended.returncode == 0
    assert f"({kept} found in the folder)" in ended.stderr


def test_the_time_that_is_left() -> None:
    """Told by what was done in this call, not by what was found."""
    assert time_left(Progress("crawling", 30, 50, already=10), 40.0) == "40 s left"
    assert time_left(Progress("crawling", 10, 50, already=10), 40.0) == ""
    assert time_left(Progress("crawling", 50, 50), 40.0) == ""
