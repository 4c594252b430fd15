"""Experiments: files read strictly, runs that resume, results that repeat bit for bit, reports in their parts."""

import hashlib
import re
import signal
import time
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opilio
from evaluate_local import TABLE, begin, children, is_alive, record_local
from opilio.errors import InputError, SettingsError
from opilio.lab.experiments import plots
from opilio.lab.experiments.experiment import Experiment, Web, from_table, load
from opilio.lab.experiments.plan import Plan, Selection
from opilio.lab.experiments.records import LOG_FILE, RunLog, RunPlace, RunRecord, read_log
from opilio.lab.experiments.report import html, write_report
from opilio.lab.experiments.results import RESULTS_FILE, RUNS_FILE, SCORES_FILE, Results, ScoreRow, read
from opilio.lab.experiments.runner import Progress, run_experiment
from opilio.lab.experiments.summary import ExperimentSummary, Finding
from opilio.lab.experiments.tasks import is_development
from opilio.lab.webs import RecordedWeb

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a recorded web: the small local web, with its topics as labels."""
    return record_local(tmp_path_factory.mktemp("webs") / "local")


def tiny(local: Path, **changes: Any) -> Experiment:
    """The small experiment on the local web."""
    experiment = from_table({**TABLE, **changes})
    return msgspec.structs.replace(experiment, webs=(Web(str(local)),))


@pytest.fixture(scope="session")
def finished(local: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an experiment that was run with one worker."""
    folder = tmp_path_factory.mktemp("finished")
    write_report(ExperimentSummary(run_experiment(tiny(local), folder, workers=1)), folder)
    return folder


def digests(folder: Path) -> dict[str, str]:
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in (RUNS_FILE, SCORES_FILE, RESULTS_FILE)
    }


# -- files


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"stratgies": []}, "unknown key 'stratgies'. Did you mean 'strategies'?"),
        ({"topics": {"splt": "final"}}, "[topics]: unknown key 'splt'. Did you mean 'split'?"),
        ({"strategies": [{"strategy": "bfs1", "lable": "x"}]}, "[strategies] 1: unknown key 'lable'. Did you mean 'label'?"),
        ({"strategies": ["bfs1", {"strategy": "bfs4", "judge": {"kid": "svm"}}]}, "unknown key 'kid'. Did you mean 'kind'?"),
        ({"strategies": ["best-frist"]}, "unknown strategies 'best-frist'"),
        ({"judge": "bays"}, "unknown classifiers 'bays'"),
        ({"measures": {"table": ["recal"]}}, "unknown measure 'recal'"),
        ({"measures": {"table": ["auc@10"]}}, "'auc@10' names no point"),
        ({"settings": {"frontier.max_qeued": 1}}, "unknown key 'max_qeued'. Did you mean 'max_queued'?"),
        ({"topics": {"split": "finale"}}, "Invalid enum value 'finale'"),
        ({"tasks": ["from nowhere"]}, "Invalid enum value 'from nowhere'"),
        ({"budget": {"pages": "many"}}, "Expected `int`"),
        ({"strategies": ["bfs1", "bfs1"]}, "two strategies have the same label"),
        ({"strategies": []}, "no strategies"),
        ({"webs": ["a/x", "b/x"]}, "two webs have the same name"),
        ({"measures": {"baseline": "bfs9"}}, "no strategy has the label of the baseline"),
        ({"repeats": 0}, "'repeats' must be at least 1"),
        ({"name": "../up"}, "'name' must be letters"),
        ({"strategies": [{"strategy": "sql", "settings": {"frontier.order_by": "oid"}}]}, "orders by SQL"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_named(change: dict[str, Any], says: str) -> None:
    """What cannot be run is refused before anything is, with the thing and, for names, the nearest."""
    with pytest.raises(SettingsError) as caught:
        from_table({**TABLE, **change}, "file.toml")
    assert says in caught.value.message + caught.value.hint


def test_short_forms_mean_the_long_ones() -> None:
    """A web as a path, a strategy as a name and a judge as a kind are the tables they stand for."""
    short = from_table({"name": "x", "webs": ["a/b"], "strategies": ["bfs1"], "judge": "truth"})
    full = from_table(
        {"name": "x", "webs": [{"path": "a/b"}], "strategies": [{"strategy": "bfs1"}], "judge": {"kind": "truth"}}
    )
    assert short == full


def test_webs_are_found_from_the_file(tmp_path: Path) -> None:
    """Paths start at the file's folder; a folder of webs takes their place, by name."""
    file = tmp_path / "x.toml"
    file.write_text('name = "x"\nwebs = ["webs/a"]\nstrategies = ["bfs1"]\n')
    assert load(file).webs[0].path == str(tmp_path / "webs" / "a")
    assert load(file, Path("elsewhere")).webs[0].path == str(Path("elsewhere/a"))
    with pytest.raises(SettingsError, match="no such file"):
        load(tmp_path / "y.toml")
    file.write_text("name = ")
    with pytest.raises(SettingsError, match="not valid TOML"):
        load(file)


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda path: path.stem)
def test_the_experiments_of_the_project_can_be_read(path: Path) -> None:
    """Each file is valid, is named after itself, and measures on final topics, but for those by which defaults are
    chosen."""
    experiment = load(path)
    assert experiment.name == path.stem
    assert experiment.question
    chooses = path.stem in {
        "strategies",
        "ablation",
        "ablation-loop",
        "mined-negatives",
        "answers",
        "question",
        "systems",
    }
    assert experiment.topics.split == ("development" if chooses else "final")
    assert f"experiments/{path.name}" in path.read_text()


def test_settings_of_strategies_add_up(local: Path) -> None:
    """A strategy's own settings win over the experiment's, and each repeat has its own seed."""
    experiment = tiny(local, settings={"frontier.max_queued": 9}, strategies=["bfs4", {"strategy": "bfs1", "settings": {"frontier.max_queued": 0}}])  # fmt: skip
    first, second = experiment.strategies
    assert experiment.settings_of(first).frontier.max_queued == 9
    assert experiment.settings_of(second).frontier.max_queued == 0
    assert experiment.settings_of(first, 2).run.seed == 2


def test_old_names_of_settings_work_in_an_experiment(local: Path) -> None:
    """A strategy's setting beats the experiment's, whichever name each of them uses; old names give a notice."""
    contestant = {"strategy": "bfs1", "settings": {"frontier.max_queued": 3}}
    with pytest.warns(FutureWarning, match=r"frontier\.max_waiting is now called frontier\.max_queued"):
        experiment = tiny(local, settings={"frontier.max_waiting": 9}, strategies=["bfs4", contestant])
    with pytest.warns(FutureWarning):
        limits = [experiment.settings_of(one).frontier.max_queued for one in experiment.strategies]
    assert limits == [9, 3]


# -- the log


runs = st.builds(
    RunRecord,
    st.builds(RunPlace, st.text(), st.text(), st.text(), st.integers(0, 9), st.text()),
    st.uuids().map(str),
    st.binary(max_size=40),
)


@settings(max_examples=20)
@given(st.lists(runs, max_size=3), st.integers(0, 400), st.integers(0, 255))
def test_a_torn_log_keeps_its_whole_runs(
    tmp_path_factory: pytest.TempPathFactory, written: list[RunRecord], cut: int, byte: int
) -> None:
    """However much is missing or wrong at the end, the runs before it are there, and appending goes on."""
    folder = tmp_path_factory.mktemp("log")
    ends = [0]
    with RunLog(folder) as log:
        for run in written:
            log.append(run)
            ends.append(log.path.stat().st_size)
    data = log.path.read_bytes()
    damaged = data[: max(0, len(data) - cut)] + bytes([byte]) * (cut % 7)
    log.path.write_bytes(damaged)
    whole = [run for run, end in zip(written, ends[1:], strict=True) if data[:end] == damaged[:end]]
    with RunLog(folder) as log:
        assert list(log.runs.values()) == whole
        log.append(RunRecord(RunPlace("w", "t", "l", 0, "s"), "new"))
    assert list(read_log(folder)) == [*(run.key for run in whole), "new"]


def test_a_folder_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    """A second experiment in the same folder is refused while the first runs."""
    with RunLog(tmp_path), pytest.raises(InputError, match="another process"):
        RunLog(tmp_path)


# -- running


def test_results_repeat_bit_for_bit(local: Path, finished: Path, tmp_path: Path) -> None:
    """Two workers write the same bytes as one, in whatever order the runs come."""
    run_experiment(tiny(local), tmp_path, workers=2)
    assert digests(tmp_path) == digests(finished)


def test_a_run_is_what_a_simulation_gives(local: Path, finished: Path) -> None:
    """A run of the file is the crawl that the simulator makes of the same task, judge and settings."""
    from opilio.lab.experiments.analysed import analyse
    from opilio.lab.experiments.simulate import Answers, Simulation
    from opilio.lab.experiments.tasks import Start, TaskMaker

    experiment = tiny(local)
    analysed = analyse(RecordedWeb.open(local), workers=1)
    rows = [row for row in pq.read_table(finished / RUNS_FILE).to_pylist() if row["strategy"] == "by labels"]
    assert rows
    for row in rows:
        topic = TaskMaker(analysed).topic(row["topic"])
        truth = topic.relevance(len(analysed.web))
        chosen = experiment.settings_of(experiment.strategies[2])
        crawl = Simulation(Answers(analysed), chosen, topic.starts(Start(row["task"])), truth, max_pages=60).run()
        assert row["pages"] == crawl.pages.tolist()
        assert row["judged"] == truth[crawl.pages].tolist()


def test_scores_are_the_measures_of_the_runs(local: Path, finished: Path) -> None:
    """Recall in the scores is what counting targets in the runs by hand gives, at each point."""
    web = RecordedWeb.open(local)
    scores = {(s.task, s.topic, s.strategy, s.point): s.value for s in read(finished).scores if s.measure == "recall"}
    examples: dict[str, set[int]] = {}
    for row in pq.read_table(finished / RUNS_FILE).to_pylist():
        if row["task"] == "from examples":
            examples[row["topic"]] = set(row["pages"][:5])  # the crawl starts with them
    for row in pq.read_table(finished / RUNS_FILE).to_pylist():
        targets = set(web.labels[row["topic"]]) - examples[row["topic"]]
        for point in (12, 20, 24, 36, 48, 60):
            found = len(targets & set(row["pages"][:point])) / len(targets)
            assert scores[row["task"], row["topic"], row["strategy"], point] == pytest.approx(found)


def test_nothing_is_run_twice(local: Path, finished: Path, tmp_path: Path) -> None:
    """Called again, all runs are found; with another strategy, only its own are made; a new measure needs none."""
    (tmp_path / LOG_FILE).write_bytes((finished / LOG_FILE).read_bytes())
    seen: list[Progress] = []
    more = tiny(local, strategies=[*TABLE["strategies"], "bfs16"], measures={"curves": ["precision"], "table": ["rc5"]})
    results = run_experiment(more, tmp_path, workers=1, on_progress=seen.append)
    crawling = [progress for progress in seen if progress.stage == "crawling"]
    assert (crawling[0].done, crawling[0].already, crawling[-1].of) == (18, 18, 24)
    assert {score.measure for score in results.scores} == {"precision", "rc5"}
    seen.clear()
    run_experiment(tiny(local, budget={"pages": 50}), tmp_path, workers=1, on_progress=seen.append)
    assert next(p.already for p in seen if p.stage == "crawling") == 0, "another budget makes other crawls"


def test_a_killed_experiment_goes_on(local: Path, finished: Path, tmp_path: Path) -> None:
    """After kill -9 in the middle no worker is left, finished runs are kept, and the results are those of one go."""
    experiment = tiny(local)
    process = begin(experiment, tmp_path, workers=2)
    log = tmp_path / LOG_FILE
    limit_s = time.monotonic() + 30
    while not (log.exists() and log.stat().st_size) and time.monotonic() < limit_s:
        time.sleep(0.005)
    workers = children(process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = len(read_log(tmp_path))
    assert kept >= 1
    while any(map(is_alive, workers)) and time.monotonic() < limit_s:
        time.sleep(0.05)
    assert workers
    assert not any(map(is_alive, workers))
    seen: list[Progress] = []
    run_experiment(experiment, tmp_path, workers=1, on_progress=seen.append)
    assert next(p.already for p in seen if p.stage == "crawling") >= kept
    assert digests(tmp_path) == digests(finished)


def test_a_part_can_be_run(local: Path, tmp_path: Path) -> None:
    """--only leaves strategies, tasks and topics out; the baseline is then the first that is left."""
    selection = Selection.parse(["strategy=b*-first", "task=*examples", "topic=data*"])
    experiment = tiny(local, topics={"split": "all"})
    facts = run_experiment(experiment, tmp_path, workers=1, selection=selection).facts
    assert (facts.strategies, facts.tasks, facts.baseline) == (["breadth-first"], ["from examples"], "breadth-first")
    assert facts.webs[0].topics == ["data compression", "data structures"]
    with pytest.raises(InputError, match="nothing to run"):
        run_experiment(experiment, tmp_path, selection=Selection.parse(["topic=nothing"]))
    with pytest.raises(InputError, match="not of the form"):
        Selection.parse(["everything"])


def test_topics_are_those_of_the_split(local: Path, tmp_path: Path) -> None:
    """Development and final topics are told apart, and labels by name are refused on the wrong side."""
    chosen = Selection.parse(["strategy=bfs1", "task=from examples"])
    for split in ("development", "final"):
        experiment = tiny(local, topics={"split": split}, budget={"pages": 6})
        topics = run_experiment(experiment, tmp_path / split, workers=1, selection=chosen).facts.webs[0].topics
        assert topics
        assert {is_development(topic) for topic in topics} == {split == "development"}
    other = topics[0]
    with pytest.raises(InputError, match="no topic"):
        run_experiment(tiny(local, topics={"split": "development", "labels": [other]}), tmp_path, workers=1)


def test_what_cannot_be_run_is_left_out_for_all(local: Path, tmp_path: Path) -> None:
    """A seed set that a topic has too few pages for is skipped with its reason, and counts for no strategy."""
    experiment = tiny(local, repeats=5, topics={"split": "all", "labels": ["statistics"]}, tasks=["from examples"])
    results = run_experiment(experiment, tmp_path, workers=1)
    assert [(one.repeat, "not enough" in one.why) for one in results.facts.skipped] == [(4, True)]
    assert {score.repeat for score in results.scores} == {0, 1, 2, 3}
    assert read(tmp_path).facts == results.facts


@pytest.mark.parametrize("kind", ["keywords", "bayes", "svm", "oasis"])
def test_each_classifier_can_judge(local: Path, tmp_path: Path, kind: str) -> None:
    """Each classifier learns from the examples of a task and some negatives, and tells its topic from the rest better
    than chance."""
    from opilio.lab.experiments.analysed import analyse
    from opilio.lab.experiments.crawls import make_judge
    from opilio.lab.experiments.tasks import TaskMaker

    experiment = tiny(local, judge={"kind": kind, "negatives": 50})
    analysed = analyse(RecordedWeb.open(local), workers=1)
    topic = TaskMaker(analysed).topic("cryptography")
    judge = make_judge(experiment, experiment.judge, analysed, topic)
    others = [
        n for n, document in enumerate(analysed.documents) if document and n not in {*topic.examples, *topic.targets}
    ]
    on_topic = np.array([judge(n).relevance for n in topic.targets])[:, None]
    off_topic = np.array([judge(n).relevance for n in others])
    assert ((on_topic > off_topic) + (on_topic == off_topic) / 2).mean() > 0.75, "0.5 is chance"
    assert judge(topic.targets[0]) is judge(topic.targets[0]), "a judgement is made once"


def test_strategies_must_read_pages_alike(local: Path) -> None:
    """A strategy with other settings of reading would crawl another web: refused."""
    experiment = tiny(local, strategies=["bfs1", {"strategy": "bfs4", "settings": {"traps.max_links_per_page": 3}}])
    with pytest.raises(SettingsError, match="differ in settings by which pages are read"):
        Plan(experiment, {"local": RecordedWeb.open(local)}, Selection())


# -- findings and reports


def made_up(values: dict[str, list[float]], measure: str = "recall") -> ExperimentSummary:
    """Results with these values, one for each topic."""
    table = {
        **TABLE,
        "strategies": [{"strategy": "bfs1", "label": name} for name in values],
        "measures": {"curves": [measure], "table": [measure]},
    }
    facts = {
        "experiment": msgspec.to_builtins(from_table(table)), "opilio_version": "0", "commit": "", "baseline": next(iter(values)),
        "strategies": list(values), "settings": {}, "tasks": ["from examples"], "runs": 0, "skipped": [],
        "webs": [{"name": "local", "digest": "d", "pages": 9, "hosts": 1, "budget_pages": 9, "topics": []}],
    }  # fmt: skip
    from opilio.lab.experiments.results import ExperimentFacts

    scores = [
        ScoreRow("local", "from examples", f"topic{i}", 0, name, measure, 10, value)
        for name, found in values.items()
        for i, value in enumerate(found)
    ]
    return ExperimentSummary(Results(msgspec.convert(facts, ExperimentFacts), [], scores))


LOW = [0.1, 0.2, 0.15, 0.3, 0.25, 0.12, 0.18, 0.22]


@pytest.mark.parametrize(
    ("measure", "theirs", "finding"),
    [
        ("recall", [v + 0.1 + v / 9 for v in LOW], Finding.BETTER),
        ("recall", [v - 0.05 - v / 9 for v in LOW], Finding.WORSE),
        ("dynamic lexical", [v + 0.1 + v / 9 for v in LOW], Finding.WORSE),
        ("recall", [v + (0.1 if i % 2 else -0.1) for i, v in enumerate(LOW)], Finding.NOT_SHOWN),
        ("recall", LOW, Finding.NOT_SHOWN),
    ],
)
def test_findings_follow_the_interval(measure: str, theirs: list[float], finding: Finding) -> None:
    """Better and worse are said only when shown, a lower rank is better, and the interval is in the sentence."""
    [verdict] = made_up({"mine": LOW, "theirs": theirs}, measure).verdicts("local", "from examples", measure).values()
    assert verdict.finding is finding
    assert "95% interval" in str(verdict)


def test_few_topics_show_nothing() -> None:
    """Four topics, however clear, are no evidence; one topic is not even compared."""
    summary = made_up({"mine": LOW[:4], "theirs": [v + 0.5 for v in LOW[:4]]})
    assert summary.verdicts("local", "from examples", "recall")["theirs"].finding is Finding.TOO_FEW
    assert made_up({"mine": [0.1], "theirs": [0.2]}).verdicts("local", "from examples", "recall") == {}


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another tag"


def test_the_report_has_all_its_parts(finished: Path) -> None:
    """Each web and task has its figure and table; the page is well formed, loads nothing and runs nothing."""
    text = (finished / "report.html").read_text("utf-8")
    parsed = Tags(text)
    assert parsed.open == []
    names = [tag for tag, _ in parsed.tags]
    assert not {"script", "link", "iframe", "object", "form"} & set(names)
    policy = next(
        a["content"] for tag, a in parsed.tags if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None and "default-src 'none'" in policy
    assert names.count("img") == (2 if plots.can_plot() else 0)
    assert all(
        (attributes["src"] or "").startswith("data:image/svg+xml;base64,")
        for tag, attributes in parsed.tags
        if tag == "img"
    )
    assert not re.search(r"(src|href)=\"?https?:", text)
    for words in ("local, from examples", "local, from neighbours", "by labels", "recall@20"):
        assert words in text
    tables = (finished / "tables.md").read_text("utf-8")
    assert "| strategy | recall@20 | recall | auc |" in tables
    assert "95% interval" in tables


def test_reports_repeat_bit_for_bit(finished: Path, tmp_path: Path) -> None:
    """A report made anew from the files alone is the same, figures included."""
    for name in (SCORES_FILE, RESULTS_FILE):
        (tmp_path / name).write_bytes((finished / name).read_bytes())
    write_report(ExperimentSummary(read(tmp_path)), tmp_path)
    for path in ("report.html", "tables.md", *(f"figures/{file.name}" for file in (finished / "figures").glob("*"))):
        assert (tmp_path / path).read_bytes() == (finished / path).read_bytes(), path


def test_everything_in_a_report_is_escaped() -> None:
    """Names of strategies, topics and webs cannot become markup."""
    evil = "<script>alert('1')</script>\"&"
    summary = made_up({evil: LOW, "other": LOW})
    text = html(summary, {("local", "from examples"): b"<svg/>"})
    assert "<script" not in text
    assert "&lt;script&gt;alert(&#x27;1&#x27;)&lt;/script&gt;&quot;&amp;" in text
    assert Tags(text).open == []


def test_without_matplotlib_tables_still_come(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are left out with a hint; the rest of the report is there."""
    monkeypatch.setattr(plots, "can_plot", lambda: False)
    results = read(finished)
    text = write_report(ExperimentSummary(results), tmp_path).read_text("utf-8")
    assert "pip install 'opilio[evaluate]'" in text
    assert "recall@20" in text
    with pytest.raises(SettingsError, match="matplotlib"):
        plots.draw(ExperimentSummary(results), "local", "from examples")


def test_results_are_plain_files(finished: Path) -> None:
    """Any tool can read the results: web digest, version and settings are in the JSON, curves in the Parquet."""
    import json

    facts = json.loads((finished / RESULTS_FILE).read_text("utf-8"))
    assert facts["opilio_version"] == opilio.__version__
    assert re.fullmatch("[0-9a-f]{64}", facts["webs"][0]["digest"])
    assert tomllib.loads(facts["settings"]["bfs1"])["frontier"]["strategy"] == "bfs1"
    assert pq.read_table(finished / SCORES_FILE).column_names == list(ScoreRow._fields)
    assert str(finished) not in (finished / RESULTS_FILE).read_text("utf-8")


def test_the_example_of_the_guide_can_be_read() -> None:
    """The experiment file shown in the guide is one."""
    text = (ROOT / "docs" / "guides" / "evaluating.md").read_text("utf-8")
    [block] = re.findall(r"^```experiment\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(from_table(tomllib.loads(block)).strategies) > 1
