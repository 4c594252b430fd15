"""What judgements are worth: by label, by confidence, by metric, by model; coverage and distances of crawls."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluate_local import TABLE, record_local
from evaluate_standin import make_analysed
from opilio.lab.experiments.analysed import analyse
from opilio.lab.experiments.experiment import Web, from_table
from opilio.lab.experiments.graph import LinkGraph, authority_distances, distance_shares, whole_web
from opilio.lab.experiments.measures import (
    ALONE,
    Accuracy,
    LabelCounts,
    accepted,
    accuracy,
    alone,
    best_precision,
    best_recall,
    by_confidence,
    first_hit,
    kept_accuracy,
    model_accuracy,
    undoubted,
)
from opilio.lab.experiments.records import UNDOUBTED, ModelRun
from opilio.lab.experiments.results import Results
from opilio.lab.experiments.runner import run_experiment
from opilio.lab.experiments.scores import LAST, MEASURES
from opilio.lab.experiments.summary import ExperimentSummary
from opilio.lab.experiments.tasks import TaskMaker
from opilio.lab.webs import RecordedWeb

pages = st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), max_size=30)
METRICS = ("collocations", "directory", "passages", "terms", "vector")


@given(pages)
def test_accuracy_is_counted_without_examples(rows: list[tuple[bool, bool, bool]]) -> None:
    """Precision and recall are what counting by hand gives, examples left out; a share of nothing is not known."""
    chosen, right, telling = (np.array([row[at] for row in rows], bool) for at in range(3))
    found = accuracy(chosen, LabelCounts(right, telling))
    kept = [row for row in rows if row[2]]
    hits = sum(c and r for c, r, _ in kept)
    for value, of in ((found.precision, sum(c for c, _, _ in kept)), (found.recall, sum(r for _, r, _ in kept))):
        assert np.isnan(value) if not of else value == pytest.approx(hits / of)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.4, 0.5, 1.0]), st.integers(0, 31), st.booleans()), max_size=40))
def test_every_accepted_page_has_one_kind(rows: list[tuple[float, int, bool]]) -> None:
    """A page accepted is beyond doubt or spoken for by exactly one kind of metric; others belong to none."""
    judged = np.array([row[0] for row in rows])
    # A directory speaks only where no other metric does.
    codes = [code & ~2 or 2 for _, code, _ in rows]
    votes = np.array([code | UNDOUBTED * sure for code, (_, _, sure) in zip(codes, rows, strict=True)], np.int64)
    kinds = [undoubted(judged, votes), *(alone(kind, judged, votes, METRICS) for kind in ALONE)]
    assert np.array_equal(np.sum(kinds, axis=0), accepted(judged).astype(int))


def test_kinds_of_metrics() -> None:
    """Words go before vectors, the whole page before a passage; a directory is what nobody else spoke for."""
    names = [{"terms"}, {"collocations", "passages"}, {"vector", "passages"}, {"passages"}, {"directory"}]
    votes = np.array([sum(1 << METRICS.index(name) for name in said) for said in names])
    found = {kind: np.flatnonzero(alone(kind, np.ones(5), votes, METRICS)).tolist() for kind in ALONE}
    assert found == {"words": [0, 1], "vector": [2], "passages": [3], "directory": [4]}


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-5, 5)), max_size=30))
def test_the_most_confident_come_first(rows: list[tuple[float, float]]) -> None:
    """All pages accepted and no others, in the order of their confidence, the earlier of equal ones first."""
    judged, confidence = (np.array([row[at] for row in rows]) for at in range(2))
    expected = sorted((n for n, (r, _) in enumerate(rows) if r >= 0.5), key=lambda n: (-rows[n][1], n))
    assert by_confidence(judged, confidence).tolist() == expected


def test_the_best_against_the_labels() -> None:
    """Precision and recall of the best pages, and the place of the first that is right, by hand."""
    ranked = np.array([False, True, True, False])
    assert best_precision(ranked).tolist() == pytest.approx([0, 1 / 2, 2 / 3, 1 / 2])
    assert best_recall(ranked, 4).tolist() == [0, 0.25, 0.5, 0.5]
    assert first_hit(ranked, 9) == 2
    nothing = np.zeros(0, bool)
    assert first_hit(nothing, 9) == first_hit(ranked[:1], 9) == 10, "nobody finds what was not accepted"
    assert np.isnan(best_precision(nothing)).all()
    assert best_recall(nothing, 4).tolist() == [0]


def model(version: int, trained_after: int, judged: list[float]) -> ModelRun:
    return ModelRun(version, trained_after, 5, "", np.array(judged, "<f4").tobytes())


def test_models_are_measured_on_the_same_pages_and_as_they_left_them() -> None:
    """The first model is asked about all pages, but the collection it left ends where the second was trained."""
    models = [model(1, 1, [1, 1, 1, 0, 1, 1]), model(2, 4, [1, 0, 1, 1, 0, 1])]
    counted = LabelCounts(np.array([1, 0, 1, 1, 0, 1], bool), np.array([0, 1, 1, 1, 1, 1], bool))
    assert model_accuracy(models, counted) == [Accuracy(2 / 4, 2 / 3), Accuracy(1.0, 1.0)]
    assert kept_accuracy(models, counted) == [Accuracy(1 / 2, 1 / 2), Accuracy(1.0, 1.0)]


@settings(max_examples=40)
@given(
    st.integers(3, 12).flatmap(lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=4), min_size=n, max_size=n)),
    st.randoms(use_true_random=False),
)
def test_distances_go_by_the_links_of_the_crawl(links: list[list[int]], lot: Any) -> None:
    """Authorities are pages that were fetched, and their distances are those of another library's search in the graph
    of the pages that were fetched."""
    analysed = make_analysed(links, hosts=len(links))
    graph = LinkGraph.of(analysed)
    crawled = np.array(sorted(lot.sample(range(len(links)), lot.randint(1, len(links)))))
    start = int(crawled[0])
    other = nx.DiGraph([(a, b) for a, row in enumerate(links) for b in row if {a, b} <= set(crawled.tolist())])
    other.add_node(start)
    expected = nx.single_source_shortest_path_length(other, start)
    found = authority_distances(graph, whole_web(graph, np.arange(len(links))), crawled, np.ones(len(crawled)), [start])
    # Every authority has a link to it from another page that was fetched. The scores of HITS vanish where few links are.
    linked = {b for a, row in enumerate(links) for b in row if a != b and {a, b} <= set(crawled.tolist())}
    assert not Counter(found.tolist()) - Counter(expected.get(page, -1) for page in linked)
    assert len(found) > 0 or not linked


def test_shares_of_distances() -> None:
    """All that is beyond the last distance is counted together; of no authorities nothing is known."""
    assert distance_shares(np.array([0, 1, 1, 3, 9]), 2).tolist() == [0.2, 0.4, 0.0, 0.4]
    assert np.isnan(distance_shares(np.zeros(0, np.int64), 2)).tolist() == [True] * 4


# -- in an experiment


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The local web, recorded."""
    return record_local(tmp_path_factory.mktemp("webs") / "local")


@pytest.fixture(scope="module")
def results(web: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Two seed sets of three topics, with measures that need both, and some that not all crawls have a value of."""
    shown = {
        "curves": ["coverage", "authorities", "best precision", "model precision", "server coverage"],
        "table": [
            "coverage@20",
            "accepted precision",
            "accepted",
            "hosts",
            "links",
            "authorities@2",
            "first hit",
            "sites",
            "relevant sites",
            "precision per request",
            "request recall@20",
        ],
        "points": 3,
        "distances": 3,
        "models": 2,
    }
    table = {**TABLE, "repeats": 2, "tasks": ["from examples"], "measures": shown, "budget": {"pages": 40}}
    table["strategies"] = ["bfs1", {"strategy": "bfs1", "label": "labels", "judge": "truth"}]
    experiment = msgspec.structs.replace(from_table(table), webs=(Web(str(web)),))
    found = run_experiment(experiment, tmp_path_factory.mktemp("out"), workers=1)
    assert RecordedWeb.open(web).labels
    return found


def test_coverage_is_by_the_other_seed_set(results: Results) -> None:
    """Each crawl is compared with the one of the same strategy and topic from the other examples, by hand."""
    runs = {(run.place.topic, run.place.repeat, run.place.strategy): run for run in results.runs}
    scores = {(s.topic, s.repeat, s.strategy, s.point): s.value for s in results.scores if s.measure == "coverage"}
    assert scores
    for (topic, repeat, strategy, point), value in scores.items():
        mine, other = runs[topic, repeat, strategy], runs[topic, 1 - repeat, strategy]
        assert not set(mine.starts) & set(other.starts)
        judge = runs[topic, 1 - repeat, "labels"]  # its judge is the label itself
        labelled = dict(zip(judge.crawled.tolist(), judge.relevances.tolist(), strict=True))
        if strategy == "labels":
            wanted = {page for page, relevance in labelled.items() if relevance}
            found = len(wanted & set(mine.crawled[:point].tolist())) / max(len(wanted), 1)
            assert value == pytest.approx(found)
    assert max(scores.values()) > 0.2


def test_a_value_that_is_not_there_is_left_out(results: Results) -> None:
    """The precision of a judge that accepted nothing is no row; comparisons are made on the topics that both have, and
    sizes are never called better."""
    runs = [run for run in results.runs if run.place.strategy == "bfs1"]
    rows = [s for s in results.scores if s.measure == "accepted precision" and s.strategy == "bfs1"]
    some = [run for run in runs if (run.relevances[5:] >= 0.5).any()]
    assert len(rows) == len(some)
    summary = ExperimentSummary(results)
    assert summary.verdicts("local", "from examples", "hosts") == {}
    for verdict in summary.verdicts("local", "from examples", "accepted precision").values():
        assert verdict.comparison.topics <= 3
    assert summary.mean("local", "from examples", "labels", "accepted precision").interval.value == 1.0  # type: ignore[union-attr]


def test_shares_of_authorities_sum_to_one(results: Results) -> None:
    """The histogram has all distances from 0 on, and what is farther."""
    by_run: dict[tuple[Any, ...], dict[int, float]] = {}
    for score in results.scores:
        if score.measure == "authorities":
            by_run.setdefault((score.topic, score.repeat, score.strategy), {})[score.point] = score.value
    assert by_run
    for values in by_run.values():
        assert sorted(values) == [0, 1, 2, 3, 4]
        assert sum(values.values()) == pytest.approx(1.0)


def test_sites_are_those_that_can_be_found(results: Results, web: Path) -> None:
    """The share of hosts with a target found, of those with a target that another library's search reaches."""
    analysed = analyse(RecordedWeb.open(web), workers=1)
    maker = TaskMaker(analysed)
    ends = LinkGraph.of(analysed)
    links = nx.DiGraph([(page, int(link)) for page in range(len(ends)) for link in ends.links_of(page)])
    hosts = [url.split("/")[2] for url in analysed.web.urls]
    values = {(s.topic, s.repeat, s.strategy, s.measure): s.value for s in results.scores if s.point in (LAST, 40)}
    for run in results.runs:
        place = run.place
        targets = set(maker.topic(place.topic, place.repeat).targets)
        reached = {page for start in run.starts for page in nx.descendants(links, start)}
        found = {hosts[page] for page in targets & set(run.crawled.tolist())}
        key = place.topic, place.repeat, place.strategy
        assert values[*key, "relevant sites"] == len(found)
        assert values[*key, "sites"] == pytest.approx(len(found) / len({hosts[page] for page in targets & reached}))
        labelled = targets | set(run.starts)
        right = len(labelled & set(run.crawled.tolist()))
        assert values[*key, "precision per request"] == pytest.approx(right / run.requests_until[-1])


def test_every_measure_says_what_it_is() -> None:
    """Names are told apart, and each measure has its words."""
    assert all(measure.says and name == measure.name for name, measure in MEASURES.items())
    assert len({measure.says for measure in MEASURES.values()}) >= len(MEASURES) - len(ALONE)


def test_figures_of_all_axes(results: Results, tmp_path: Path) -> None:
    """Curves over models and pages and histograms of distances are drawn, also where some crawls have no value."""
    from opilio.lab.experiments import plots
    from opilio.lab.experiments.report import write_report

    text = write_report(ExperimentSummary(results), tmp_path).read_text("utf-8")
    assert (
        "links from the start set" in plots.draw(ExperimentSummary(results), "local", "from examples").decode() or text
    )
    assert "authorities@2" in text
