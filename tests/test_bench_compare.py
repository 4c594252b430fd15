"""Comparing crawlers over HTTP: what counts is what the server saw, and values are those of `opilio evaluate`."""

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from evaluate_webs import make_web as record_pages
from evaluate_webs import page, redirect
from opilio.lab.experiments.experiment import Experiment, from_table
from opilio.lab.experiments.plan import Selection
from opilio.lab.experiments.runner import run_experiment
from opilio.lab.experiments.scores import MEASURES
from opilio.lab.experiments.summary import ExperimentSummary
from opilio.lab.webs import RecordedWeb
from opilio.lab.webs.generated import make_web
from opilio.lab.webs.server import Request

ROOT = Path(__file__).parent.parent
LIAR = """
import argparse, re, sys, urllib.request

parser = argparse.ArgumentParser()
for name in ("--seeds", "--proxy", "--pages"):
    parser.add_argument(name)
options = parser.parse_args()
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": options.proxy}))
for seed in [*open(options.seeds).read().split(), "http://h00.made.test/nowhere"] * 2:
    try:
        opener.open(seed).read()
    except OSError:
        pass
print('{"pages": 1000000}')
"""


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, with only the peers of a test."""
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("bench.quality.compare")
    monkeypatch.setattr(module, "ALL_PEERS", ())
    for name in module.SPEEDS:
        monkeypatch.setitem(MEASURES, name, None)  # taken back afterwards
    return module


def small(folder: Path, **changes: object) -> Experiment:
    """Breadth-first on the made web, one request at a time."""
    settings = {"fetch.host_delay_s": 0.0, "fetch.in_flight": 1, "run.workers": -1}
    table = {
        "name": "small", "webs": [str(folder)], "strategies": ["breadth-first"], "judge": "keywords",
        "topics": {"split": "all", "count": 1}, "budget": {"pages": 40}, "settings": settings,
        "measures": {"curves": ["recall"], "table": ["recall@20", "recall", "precision", "pages"]},
    }  # fmt: skip
    return from_table({**table, **changes})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RecordedWeb:
    """A recorded web."""
    return make_web(tmp_path_factory.mktemp("compare") / "made")


def test_a_slow_crawler_is_ended(compare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time limit its processes are killed, which is reported, and the comparison goes on."""
    monkeypatch.setattr(compare, "LIMIT_S", 0.5)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    said = compare.execute(command, SimpleNamespace(address="127.0.0.1:9"), tmp_path)
    assert said.strip() == "ended after 0.5 s"


def test_only_answers_of_pages_count(compare: ModuleType, tmp_path: Path) -> None:
    """A page counts once, when it was answered with 200, in the order of requests; whatever the form of its URL."""
    web = record_pages(
        tmp_path / "web", [page("http://a.test/1"), page("http://a.test/2"), redirect("http://a.test/to", "/2")]
    )
    log = [
        Request("http://a.test/robots.txt", "GET", 0.0, status=404),
        Request("http://a.test/to", "GET", 0.0, status=301),
        Request("http://A.test:80/2", "GET", 0.0, status=200),
        Request("http://a.test/1", "HEAD", 0.0, status=200),
        Request("http://a.test/2", "GET", 0.0, status=200),
        Request("http://a.test/1", "GET", 0.0, status=0),
        Request("http://a.test/1", "GET", 0.0, status=200),
    ]
    pages, again = compare.fetched_pages(web, log)
    assert [web.urls[n] for n in pages] == ["http://a.test/2", "http://a.test/1"]
    assert again == 1


def test_opilio_over_http_has_the_values_of_the_simulation(
    compare: ModuleType, made: RecordedWeb, tmp_path: Path
) -> None:
    """The same strategy has the same recall by `opilio crawl` over HTTP as in process, for a single worker; runs that
    are in the folder are not made again."""
    experiment = small(made.folder)
    inside = ExperimentSummary(run_experiment(experiment, tmp_path / "inside", workers=1))
    comparison = compare.Comparison(experiment, tmp_path / "outside", Selection())
    comparison.add_web(made.folder.name)
    outside = ExperimentSummary(comparison.results())
    where = (made.folder.name, "from examples", "breadth-first")
    for column in ("recall@20", "recall", "precision", "pages"):
        assert outside.values(*where, column) == inside.values(*where, column)
    assert all(value > 0 for value in outside.values(*where, "pages/s").values())
    runs = comparison.log.runs
    comparison.log.close()
    again = compare.Comparison(experiment, tmp_path / "outside", Selection())
    again.add_web(made.folder.name)
    assert [run.took_s for run in again.log.runs.values()] == [run.took_s for run in runs.values()]


def test_a_peer_is_believed_nothing(
    compare: ModuleType, made: RecordedWeb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that says it fetched a million pages has those that the server gave it: its start pages, each once."""
    contestants = importlib.import_module("bench.peers.contestants")
    script = tmp_path / "msgspec_peer.py"
    script.write_text(LIAR)
    monkeypatch.setattr(contestants, "PEERS", tmp_path)
    monkeypatch.setattr(
        compare, "ALL_PEERS", (contestants.Peer("liar", "msgspec"), contestants.Peer("none", "not-there"))
    )
    comparison = compare.Comparison(small(made.folder), tmp_path / "out", Selection.parse(["strategy=liar"]))
    assert comparison.missing == ["not-there"]
    assert [one.name for one in comparison.crawlers] == ["liar"]
    comparison.add_web(made.folder.name)
    (run,) = comparison.runs
    assert len(run.crawled) == 5
    assert run.outcomes["requests"] == 12
    assert run.outcomes["again"] == 5
    assert all(made.topics(n) == (run.place.topic,) for n in run.crawled.tolist())


def test_a_topic_is_told_as_a_user_would(compare: ModuleType, made: RecordedWeb, tmp_path: Path) -> None:
    """Away from the examples they are given as files, so that learning from them fetches nothing."""
    experiment = small(made.folder, tasks=["from neighbours"], budget={"pages": 5})
    comparison = compare.Comparison(experiment, tmp_path / "out", Selection())
    comparison.add_web(made.folder.name)
    (run,) = comparison.runs
    starts = run.crawled[:5].tolist()
    assert len(starts) == 5
    assert not any(made.topics(n) == (run.place.topic,) for n in starts)
    settings = comparison.crawlers[0].settings()
    assert settings.classify.classifier == "keywords"
    with pytest.raises(SystemExit, match="labels judge in process only"):
        compare.Own(small(made.folder, judge="truth"), experiment.strategies[0]).settings()
