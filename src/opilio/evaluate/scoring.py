"""From the crawls of one topic to values: all strategies together, for some measures rank the pages of all of them."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.analyze.keywords import term_ids
from opilio.evaluate.analysed import Analysed
from opilio.evaluate.experiment import Experiment
from opilio.evaluate.graph import LinkGraph
from opilio.evaluate.quality import lexical_order, linkage_order, pool_pagerank
from opilio.evaluate.records import Run
from opilio.evaluate.scores import Facts, Measure, column_parts, points_of, values_at
from opilio.evaluate.tasks import Topic

Score = tuple[str, str, int, float]
"""Strategy, measure, point of its curve, value."""
_NOTHING: NDArray[np.int64] = np.zeros(0, np.int64)


class Group(msgspec.Struct, frozen=True, array_like=True):
    """Runs that differ in their strategy only."""

    web: str
    topic: str
    repeat: int
    runs: tuple[Run, ...]
    everything: bytes
    """uint32: the pages that any crawl of this web and task fetched, of whatever topic: PageRank is found over them."""


def wanted_measures(experiment: Experiment) -> dict[Measure, list[int]]:
    """The measures of an experiment, each with the points that its tables name."""
    found: dict[Measure, list[int]] = {}
    for column in (*experiment.measures.curves, *experiment.measures.table):
        measure, point = column_parts(column)
        found.setdefault(measure, []).append(point)
    return found


class Scorer:
    """Scores the crawls of one web."""

    def __init__(self, experiment: Experiment, analysed: Analysed, graph: LinkGraph) -> None:
        self._experiment = experiment
        self._analysed = analysed
        self._graph = graph
        self._measures = wanted_measures(experiment)
        self._popularity: tuple[bytes, NDArray[np.float64]] = (b"", np.zeros(0))

    def score(self, group: Group, topic: Topic) -> list[Score]:
        """All values of a group."""
        by_words, by_links = self._orders(group, topic)
        labelled = topic.relevance(len(self._analysed.web))
        settings, web = self._experiment.measures, self._analysed.web
        budget_pages = self._experiment.budget.of(web.info.pages)
        scores: list[Score] = []
        for run in group.runs:
            facts = Facts(
                run.crawled, run.relevances, topic.targets, labelled, web.info.pages, settings.window_pages,
                by_words, by_links,
            )  # fmt: skip
            for measure, wanted in self._measures.items():
                points = points_of(measure, wanted, budget_pages, settings.points, settings.top)
                values = values_at(measure.curve(facts), points)
                scores += [(run.place.strategy, measure.name, p, v) for p, v in zip(points, values, strict=True)]
        return scores

    def _orders(self, group: Group, topic: Topic) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
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
