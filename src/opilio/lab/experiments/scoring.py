"""From the crawls of one topic to values: all strategies together, for some measures rank the pages of all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.analyze.terms import term_ids
from opilio.lab.experiments.analysed import Analysed
from opilio.lab.experiments.experiment import Experiment, MeasureChoice
from opilio.lab.experiments.graph import LinkGraph
from opilio.lab.experiments.measures import lexical_order, linkage_order, pool_pagerank, value_after
from opilio.lab.experiments.records import RunRecord
from opilio.lab.experiments.scores import LAST, Axis, CrawlFacts, Measure, World, column_parts
from opilio.lab.experiments.tasks import TaskTopic
from opilio.model import host_of

Score = tuple[str, str, int, float]
"""Strategy, measure, point of its curve, value."""
_NOTHING: NDArray[np.int64] = np.zeros(0, np.int64)


class RunGroup(msgspec.Struct, frozen=True, array_like=True):
    """Runs that differ in their strategy only."""

    web: str
    topic: str
    repeat: int
    runs: tuple[RunRecord, ...]
    everything: bytes
    """uint32: the pages that any crawl of this web and task fetched, of whatever topic: PageRank is found over them."""
    references: tuple[RunRecord, ...] = ()
    """The crawls of the same strategies from other examples, in the same order, when a measure needs them."""


def wanted_measures(experiment: Experiment) -> dict[Measure, list[int]]:
    """The measures of an experiment, each with the points that its tables name."""
    found: dict[Measure, list[int]] = {}
    for column in (*experiment.measures.curves, *experiment.measures.table):
        measure, point = column_parts(column)
        found.setdefault(measure, []).append(point)
    return found


def points_of(measure: Measure, wanted: Sequence[int], budget_pages: int, shown: MeasureChoice) -> list[int]:
    """Where a curve is looked at: `wanted` points of table columns, and the regular ones."""
    over_budget = [max(1, round(budget_pages * (i + 1) / shown.points)) for i in range(shown.points)]
    regular: dict[Axis, Sequence[int]] = {
        Axis.PAGES: over_budget,
        Axis.REQUESTS: over_budget,
        Axis.TOP: shown.top,
        Axis.BEST: shown.top,
        Axis.MODELS: range(1, shown.models + 1),
        Axis.LINKS: range(shown.distances + 2),
        Axis.NONE: (),
    }
    return sorted({*regular[measure.axis], *(point for point in wanted if point != LAST)}) or [LAST]


def values_at(measure: Measure, values: NDArray[np.float64], points: Sequence[int]) -> list[float]:
    """The values at some points; a curve that ended early keeps its last value. Distances begin at 0."""
    first = 0 if measure.axis is Axis.LINKS else 1
    return [value_after(values, len(values) if point == LAST else point + 1 - first) for point in points]


class RunScorer:
    """Scores the crawls of one web."""

    def __init__(self, experiment: Experiment, analysed: Analysed, graph: LinkGraph) -> None:
        self._experiment = experiment
        self._analysed = analysed
        self._graph = graph
        self._measures = wanted_measures(experiment)
        self._popularity: tuple[bytes, NDArray[np.float64]] = (b"", np.zeros(0))
        _, hosts = np.unique([host_of(url) for url in analysed.web.urls], return_inverse=True)
        self._world = World(analysed.web.info.pages, graph, hosts, np.diff(analysed.starts))

    def score(self, group: RunGroup, topic: TaskTopic) -> list[Score]:
        """All values of a group; where a crawl has none, there is no row."""
        by_words, by_links = self._orders(group, topic)
        labelled = topic.relevance(len(self._analysed.web))
        shown, scores = self._experiment.measures, list[Score]()
        budget_pages = self._experiment.budget.of(self._world.pages)
        references = group.references or (None,) * len(group.runs)
        for run, reference in zip(group.runs, references, strict=True):
            facts = CrawlFacts(
                run, topic, labelled, self._world, shown.window_pages, shown.distances, by_words, by_links, reference
            )
            for measure, wanted in self._measures.items():
                points = points_of(measure, wanted, budget_pages, shown)
                values = values_at(measure, measure.curve(facts), points)
                scores += [
                    (run.place.strategy, measure.name, point, value)
                    for point, value in zip(points, values, strict=True)
                    if not math.isnan(value)
                ]
        return scores

    def _orders(self, group: RunGroup, topic: TaskTopic) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        if not any(measure.needs_pool for measure in self._measures):
            return _NOTHING, _NOTHING
        pool = np.unique(np.concatenate([_NOTHING, *(run.crawled for run in group.runs)]))
        if self._popularity[0] != group.everything:
            everything = np.frombuffer(group.everything, "<u4").astype(np.int64)
            self._popularity = group.everything, pool_pagerank(self._graph, everything)
        return (
            lexical_order(pool, self._terms, term_ids(topic.description)),
            linkage_order(pool, self._terms, term_ids(topic.keywords), self._popularity[1]),
        )

    def _terms(self, page: int) -> tuple[NDArray[np.uint32], NDArray[np.integer]]:
        document = self._analysed.documents[page]
        if document is None:
            return np.zeros(0, np.uint32), np.zeros(0, np.uint16)
        return np.frombuffer(document.term_ids, "<u4"), np.frombuffer(document.term_counts, "<u2")
