"""Contestants that really crawl: the same task as a simulated one, the same record, and what only they can do."""

import signal
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet as pq
import pytest

from evaluate_local import TABLE, begin, children, is_alive, record_local
from opilio import Collection, learn
from opilio.classify.keywords import QueryJudge
from opilio.errors import SettingsError
from opilio.features.classifier_input import ClassifierInput
from opilio.lab.experiments import analyse
from opilio.lab.experiments import crawls as real
from opilio.lab.experiments.crawls import training_of
from opilio.lab.experiments.experiment import Experiment, JudgeChoice, MeasureChoice, Web, from_table
from opilio.lab.experiments.records import LOG_FILE, RunRecord, read_log
from opilio.lab.experiments.results import MODELS_FILE, SCORES_FILE
from opilio.lab.experiments.runner import run_experiment
from opilio.lab.experiments.tasks import HITS, Start, TaskMaker
from opilio.lab.webs import RecordedWeb
from opilio.model import TrainingReason
from opilio.settings import Settings, override
from opilio.store import Store

BAYES = {"kind": "bayes", "settings": {"classify.focus": "soft"}, "negatives": 20}


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a recorded web: the small local web, with its topics as labels."""
    return record_local(tmp_path_factory.mktemp("webs") / "local")


def make(local: Path, strategies: list[Any], **changes: Any) -> Experiment:
    table = {
        **TABLE,
        "topics": {"split": "all", "labels": ["cryptography"]},
        "measures": {},
        "strategies": strategies,
        **changes,
    }
    return msgspec.structs.replace(from_table(table), webs=(Web(str(local)),))


def runs_of(experiment: Experiment, folder: Path) -> dict[tuple[str, str], RunRecord]:
    runs = run_experiment(experiment, folder, workers=1).runs
    return {(run.place.task, run.place.strategy): run for run in runs}


def test_a_real_crawl_goes_where_the_simulation_goes(local: Path, tmp_path: Path) -> None:
    """By keywords, which need no training, engine and database visit the same pages in the same order as a simulation,
    with the same judgements, depths and requests; real crawls of orders in SQL are possible too."""
    strategies = [
        {"strategy": name, "label": f"{name} {kind}", "real": kind == "real"}
        for name in ("best-first", "breadth-first", "bfs4")
        for kind in ("simulated", "real")
    ]
    by_sql = {"strategy": "sql", "settings": {"frontier.order_by": "oid"}, "real": True}
    experiment = make(local, [*strategies, by_sql], tasks=["from neighbours"])
    runs = runs_of(experiment, tmp_path)
    for name in ("best-first", "breadth-first", "bfs4"):
        mine, theirs = (runs["from neighbours", f"{name} {kind}"] for kind in ("real", "simulated"))
        assert len(mine.crawled) == 60
        for part in ("pages", "depths", "requests", "starts"):
            assert getattr(mine, part) == getattr(theirs, part), part
        assert mine.relevances == pytest.approx(theirs.relevances)
    assert (
        runs["from neighbours", "sql"].crawled.tolist() != runs["from neighbours", "best-first real"].crawled.tolist()
    )


@pytest.fixture(scope="module")
def trained(local: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, str], RunRecord]]:
    """A real and a simulated crawl, led by what they learned, with the folder of their results."""
    folder = tmp_path_factory.mktemp("trained")
    strategies = [
        {"strategy": "best-first", "label": "simulated", "judge": BAYES},
        {"strategy": "best-first", "label": "real", "judge": BAYES, "real": True},
    ]
    measures = {"table": ["model precision@1", "accepted precision", "models"], "curves": ["kept recall"]}
    return folder, runs_of(make(local, strategies, measures=measures), folder)


def test_a_real_crawl_learns_first(trained: tuple[Path, dict[tuple[str, str], RunRecord]]) -> None:
    """From examples they are fetched first, and the model is trained on all five before anything else is fetched; from
    neighbours it is trained before the first page, on the same number of documents."""
    _, runs = trained
    for task, fetched in (("from examples", 5), ("from neighbours", 0)):
        run = runs[task, "real"]
        [model] = run.models
        assert (model.version, model.pages, model.documents) == (1, fetched, 5)
        assert len(model.relevances) == len(run.crawled) == 60
        assert ((model.relevances >= 0.5) == (run.relevances >= 0.5))[fetched:].all(), "it judged all other pages"
    assert set(runs["from examples", "real"].crawled[:5].tolist()) == set(runs["from examples", "real"].starts)
    assert runs["from examples", "simulated"].models == ()


def test_a_real_crawl_without_negatives_meets_strangers(local: Path, tmp_path: Path) -> None:
    """Where an experiment names no pages that are not wanted, a crawl learns from some that it met, unless told not to;
    with negatives (the test above) there is one model."""
    judge = {**BAYES, "negatives": 0}
    strategies = [
        {"strategy": "best-first", "label": f"at most {most}", "judge": judge, "real": True, "settings": settings}
        for most, settings in ((50, {}), (0, {"learn.mined_negatives": 0}))
    ]
    runs = runs_of(make(local, strategies, tasks=["from examples"]), tmp_path)
    assert {model.reason for model in runs["from examples", "at most 50"].models[1:]} == {TrainingReason.NEGATIVES}
    assert [model.reason for model in runs["from examples", "at most 0"].models] == [TrainingReason.FIRST]


def test_a_simulated_judge_learns_as_that_of_a_real_crawl(local: Path, tmp_path: Path) -> None:
    """A judge that learns from the pages met leads a simulation where a real crawl goes, and accepts the same pages,
    as long as all pages met are in its sample; without learning it accepts others."""
    svm = {"kind": "svm", "settings": {"classify.spaces": ["terms"]}}
    strategies = [
        {"strategy": "best-first", "label": "real", "judge": svm, "real": True},
        {"strategy": "best-first", "label": "learns", "judge": {**svm, "learns": True}},
        {"strategy": "best-first", "label": "fixed", "judge": svm},
    ]
    runs = runs_of(make(local, strategies, tasks=["from neighbours"]), tmp_path)
    real_run, learns, fixed = (runs["from neighbours", name] for name in ("real", "learns", "fixed"))
    assert learns.crawled.tolist() == real_run.crawled.tolist()
    assert learns.relevances == pytest.approx(real_run.relevances, abs=0.1), "the last model met a page more or less"
    assert (learns.relevances >= 0.5).sum() < (fixed.relevances >= 0.5).sum()


def test_only_calibrated_judges_learn(local: Path) -> None:
    """A judge that would not learn in a real crawl cannot learn in a simulation."""
    for judge in ({"kind": "bayes"}, {"kind": "svm", "settings": {"classify.calibrate": False}}):
        with pytest.raises(SettingsError, match="cannot learn"):
            make(local, [{"strategy": "best-first", "judge": {**judge, "learns": True}}])


def test_both_see_the_same_documents(local: Path, tmp_path: Path) -> None:
    """What a real crawl that starts elsewhere gathers to learn from is what a simulated judge is given: the same
    examples and the same OTHERS, word by word."""
    analysed = analyse(RecordedWeb.open(local), workers=1)
    topic = TaskMaker(analysed).topic("cryptography")
    judge = JudgeChoice("bayes", negatives=20)
    real._write_others(tmp_path / "others", judge, analysed, topic, 0)
    (tmp_path / "seeds.txt").write_text("http://nowhere.test/\n")
    settings = override(Settings(), {"classify.others": str(tmp_path / "others")})
    collection = Collection.create(tmp_path / "c", seeds=tmp_path / "seeds.txt", settings=settings)
    real._teach(collection, analysed, topic, [])
    with Store.open(collection.folder) as store:
        mine = learn.gather(store, settings)
    theirs = training_of(judge, analysed, topic, 0)

    def words(examples: Any) -> list[list[int]]:
        return sorted(sorted(int(stem) for stem in example.item.stems if stem) for example in examples)

    assert words(mine.examples) == words(theirs.examples)
    assert words(mine.others) == words(theirs.others)
    assert len(mine.others) > 20
    assert mine.keywords == theirs.keywords


def test_models_are_kept_for_everybody(trained: tuple[Path, dict[tuple[str, str], RunRecord]]) -> None:
    """Each model of a real crawl is a row of a file, with what it says of all pages."""
    folder, runs = trained
    rows = pq.read_table(folder / MODELS_FILE).to_pylist()
    assert [(row["task"], row["strategy"], row["version"]) for row in rows] == [
        ("from examples", "real", 1),
        ("from neighbours", "real", 1),
    ]
    assert rows[0]["judged"] == runs["from examples", "real"].models[0].relevances.tolist()


def test_a_real_crawl_repeats(
    local: Path, trained: tuple[Path, dict[tuple[str, str], RunRecord]], tmp_path: Path
) -> None:
    """Made again, a crawl that trains while it runs is the same in all that is kept of it but the time it took."""
    again = runs_of(make(local, [{"strategy": "best-first", "label": "real", "judge": BAYES, "real": True}]), tmp_path)
    for task in ("from examples", "from neighbours"):
        first, second = (
            msgspec.structs.replace(run, took_s=0.0, seconds=b"")
            for run in (trained[1][task, "real"], again[task, "real"])
        )
        assert first == second


def test_seconds_are_those_of_a_real_crawl(local: Path, tmp_path: Path) -> None:
    """A real crawl has harvest per second: pages with the label by the time they took. A simulated one has none."""
    assert {"harvest", "harvest per request", "harvest per second"} < set(MeasureChoice().table)
    strategies = [{"strategy": "best-first", "label": name, "real": name == "real"} for name in ("real", "simulated")]
    names = ["precision", "precision per request", "precision per second"]
    experiment = make(local, strategies, tasks=["from examples"], judge=BAYES,
                      measures={"table": names, "curves": ["precision"]})  # fmt: skip
    runs = {name: run for (_, name), run in runs_of(experiment, tmp_path).items()}
    spent = runs["real"].seconds_until
    assert len(spent) == len(runs["real"].crawled) and spent[0] > 0
    assert (np.diff(spent) > 0).all() and spent[-1] < runs["real"].took_s
    values = {
        (row["strategy"], row["measure"]): row["value"] for row in pq.read_table(tmp_path / SCORES_FILE).to_pylist()
    }
    found = values["real", "precision"] * len(spent)
    assert values["real", "precision per second"] == pytest.approx(found / spent[-1])
    assert values["real", "precision per request"] == pytest.approx(found / runs["real"].requests_until[-1])
    assert set(values) == {("real", name) for name in names} | {("simulated", name) for name in names[:2]}
    assert not runs["simulated"].seconds


def test_examples_that_ask_not_to_be_kept_are_given_as_text(tmp_path: Path) -> None:
    """A page that says noindex is not in the collection; as an example it is learned from all the same."""
    from evaluate_webs import make_web, page

    words = " ".join(f"bird{i} feather{i} wing{i}" for i in range(20))
    pages = [
        page(f"http://b.test/{i}", f"<meta name=robots content=noindex><p>{words} number{i}</p><a href='/{i + 1}'>x</a>", ("birds",))
        for i in range(8)
    ] + [page(f"http://c.test/{i}", f"<p>cars and roads number{i} " + "motor wheel " * 20) for i in range(20)]  # fmt: skip
    analysed = analyse(make_web(tmp_path / "web", pages), workers=1)
    topic = TaskMaker(analysed, examples=3).topic("birds")
    settings = override(Settings(), {"classify.classifier": "bayes", "fetch.in_flight": 1, "run.workers": -1,
                                     "fetch.host_delay_s": 0.0, "learn.synchronous": True, "store.warc": False})  # fmt: skip
    found = real.crawl_for_real(
        analysed, topic, topic.examples, JudgeChoice("bayes", negatives=10), settings, max_pages=5, seed=0
    )
    assert [model.documents for model in found.models] == [3]
    assert found.crawl.outcomes["noindex"] > 5, "none of them was kept"
    assert len(found.crawl) == 5, "as many as asked for, though the crawl went on until it would have kept five"


def test_what_cannot_be_real_is_refused(local: Path) -> None:
    """No real crawl can look at the labels, nor learn without anything to tell its topic from."""
    with pytest.raises(SettingsError, match="no real crawl can look at the labels"):
        make(local, [{"strategy": "best-first", "judge": "truth", "real": True}])
    with pytest.raises(SettingsError, match="no documents of OTHERS"):
        make(
            local, [{"strategy": "best-first", "judge": {"kind": "svm", "negatives": 0, "others": False}, "real": True}]
        )
    with pytest.raises(SettingsError, match="compares two crawls"):
        make(local, ["bfs1"], measures={"table": ["coverage"]})


def test_settings_of_a_real_crawl(local: Path) -> None:
    """It waits for nothing and for nobody, is judged by its judge's settings, and an experiment may change all that."""
    plain = {"strategy": "best-first", "real": True, "judge": BAYES}
    experiment = make(
        local, [plain, {**plain, "label": "other", "settings": {"learn.synchronous": False, "classify.focus": "hard"}}]
    )
    first, second = (experiment.settings_of(contestant) for contestant in experiment.strategies)
    assert (first.fetch.in_flight, first.fetch.host_delay_s, first.store.warc) == (1, 0.0, False)
    assert (first.learn.synchronous, first.classify.classifier, first.classify.focus) == (True, "bayes", "soft")
    assert (second.learn.synchronous, second.classify.focus) == (False, "hard")


def test_ctrl_c_in_a_real_crawl_ends_the_experiment(local: Path, tmp_path: Path) -> None:
    """A crawl takes Ctrl-C as a wish to end cleanly; an experiment must not take such a crawl for a finished run."""
    topics = {"split": "all"}
    experiment = make(local, [{"strategy": "best-first", "real": True, "judge": BAYES}], topics=topics)
    process = begin(experiment, tmp_path, workers=1)
    log, limit_s = tmp_path / LOG_FILE, time.monotonic() + 60
    while not (log.exists() and log.stat().st_size) and time.monotonic() < limit_s:
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) != 0
    runs = read_log(tmp_path).values()
    assert runs
    assert all(len(run.crawled) == 60 for run in runs)
    assert not np.isnan(next(iter(runs)).relevances).any()


def test_a_killed_experiment_leaves_nothing(local: Path, tmp_path: Path) -> None:
    """After kill -9 workers end in the middle of their crawls, which would take minutes, and take their files with them."""
    slow = {"strategy": "best-first", "real": True, "judge": BAYES, "settings": {"fetch.host_delay_s": 60.0}}
    crawls = tmp_path / "crawls"
    crawls.mkdir()
    process = begin(make(local, [slow]), tmp_path / "out", workers=2, TMPDIR=str(crawls))
    limit_s = time.monotonic() + 60
    while not list(crawls.glob("opilio-evaluate-*/collection/*")) and time.monotonic() < limit_s:
        time.sleep(0.05)
    workers = children(process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while any(map(is_alive, workers)) and time.monotonic() < limit_s:
        time.sleep(0.05)
    assert workers
    assert not any(map(is_alive, workers))
    assert not list(crawls.glob("opilio-evaluate-*"))


def test_labels_answer_the_questions_of_a_real_crawl(local: Path, tmp_path: Path) -> None:
    """With `answers` a crawl asks, the labels answer, and a model is trained for each round, the same in each run;
    without it nothing is asked."""
    judge = {**BAYES, "negatives": 0}
    strategies = [
        {"strategy": "best-first", "label": f"{answers} answers", "judge": judge, "real": True, "answers": answers}
        for answers in (0, 10)
    ]
    settings = {"learn.mined_negatives": 0}
    task = "from examples"
    runs = runs_of(make(local, strategies, settings=settings, tasks=[task]), tmp_path / "one")
    again = runs_of(make(local, strategies[1:], settings=settings, tasks=[task]), tmp_path / "two")
    reasons = [model.reason for model in runs[task, "10 answers"].models]
    assert reasons == ["first", "feedback", "feedback"]
    assert [model.documents for model in runs[task, "10 answers"].models][1:] == [10, 15]
    assert [model.reason for model in runs[task, "0 answers"].models] == ["first"]
    asked = runs[task, "10 answers"].answered
    assert len(asked) == 10 and set(asked) <= set(runs[task, "10 answers"].crawled.tolist())
    assert not runs[task, "0 answers"].answered
    assert runs[task, "10 answers"].pages == again[task, "10 answers"].pages
    assert runs[task, "10 answers"].relevances == pytest.approx(again[task, "10 answers"].relevances)


@pytest.mark.parametrize("wrong", [{"answers": 5}, {"answers": -1, "real": True}])
def test_only_real_crawls_ask_questions(local: Path, wrong: dict[str, Any]) -> None:
    """A simulated crawl cannot ask, and no crawl can have fewer than no answers: refused before anything runs."""
    with pytest.raises(SettingsError, match="only real crawls ask questions"):
        make(local, [{"strategy": "best-first", **wrong}])


def test_a_crawl_from_a_question_needs_no_example(local: Path, tmp_path: Path) -> None:
    """From a question a crawl gets words and hits. Without answers no model is trained and the words judge, in a real
    crawl as in a simulated one, whatever judge is set; with answers, the third yes makes a model."""
    strategies = [
        {"strategy": "best-first", "label": "simulated", "judge": "svm"},
        {"strategy": "best-first", "label": "words", "judge": "svm", "real": True},
        {"strategy": "best-first", "label": "answered", "judge": "svm", "real": True, "answers": 25},
    ]
    runs = runs_of(make(local, strategies, tasks=["from a question"]), tmp_path)
    simulated, words, answered = (runs["from a question", one["label"]] for one in strategies)
    assert not simulated.skipped and not words.skipped and not answered.skipped
    analysed = analyse(RecordedWeb.open(local))
    maker = TaskMaker(analysed)
    topic = maker.task(maker.topic("cryptography"), Start.QUESTION)
    assert simulated.starts == words.starts == topic.hits and len(topic.hits) == HITS
    assert words.models == () and words.crawled.tolist() == simulated.crawled.tolist()
    judged = word_judgements(analysed, topic, words)
    assert words.relevances == pytest.approx(judged, abs=1e-6)
    assert set(answered.answered[:5]) == set(topic.hits[:5])
    assert len(set(answered.answered) & set(topic.targets)) >= 3 and answered.models
    assert set(answered.answered) <= {*topic.hits, *answered.crawled.tolist()}


def word_judgements(analysed: Any, topic: Any, run: RunRecord) -> list[float]:
    """What the classifier `query` says of the pages of a run."""
    judge = QueryJudge({0: topic.keywords})
    pages = [analysed.documents[page] for page in run.crawled.tolist()]
    return [judge.judge(ClassifierInput.of(page, "")).relevance for page in pages]
