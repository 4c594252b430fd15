"""Results over topics: means with intervals, curves with standard errors, and strategies compared in pairs.

A topic is one observation; seed sets of it are averaged first. A difference is called shown only when its 95 % interval
leaves out zero and its p value, raised by Holm's method for all strategies of the same column, is below 0.05.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from opilio.lab.experiments.results import Results
from opilio.lab.experiments.scores import LAST, Measure, column_parts
from opilio.lab.experiments.statistics import Comparison, Mean, compare, holm, mean_of, per_topic, standard_error

MIN_TOPICS = 5
"""Fewer say nothing: five that all agree have a p value of 0.06 at best."""
LEVEL_P = 0.05


class Finding(StrEnum):
    """What a comparison shows."""

    BETTER = "better"
    WORSE = "worse"
    NOT_SHOWN = "not shown"
    TOO_FEW = "too few topics"


@dataclass(frozen=True)
class BaselineVerdict:
    """A strategy against the baseline, in one column."""

    comparison: Comparison
    holm_p: float
    measure: Measure

    @property
    def finding(self) -> Finding:
        """What it shows; a lower rank is a better one."""
        gap = self.comparison.difference
        if self.comparison.topics < MIN_TOPICS:
            return Finding.TOO_FEW
        if not self.comparison.is_shown or self.holm_p >= LEVEL_P:
            return Finding.NOT_SHOWN
        return Finding.BETTER if (gap.value > 0) is not self.measure.lower_is_better else Finding.WORSE

    def __str__(self) -> str:
        """In words, never without the interval."""
        found, gap = self.comparison, self.comparison.difference
        digits = self.measure.decimals
        bounds = f"{gap.level:.0%} interval {gap.low:+.{digits}f} to {gap.high:+.{digits}f}"
        facts = f"difference {gap.value:+.{digits}f}, {bounds}, p = {self.holm_p:.2g}, {found.topics} topics"
        words = {
            Finding.BETTER: "better than", Finding.WORSE: "worse than", Finding.NOT_SHOWN: "no difference shown to",
            Finding.TOO_FEW: "too few topics to tell from",
        }  # fmt: skip
        first, second = (f"{mean:.{digits}f}" for mean in found.means)
        return f"{found.measure}: {found.name} ({first}) {words[self.finding]} {found.other} ({second}): {facts}"


@dataclass(frozen=True)
class Curve:
    """A measure over its points, means and standard errors over topics."""

    points: list[int]
    means: list[float]
    standard_errors: list[float]
    topics: int


class ExperimentSummary:
    """The results of an experiment, by web, task, strategy and column."""

    def __init__(self, results: Results) -> None:
        self.facts = results.facts
        self._scores = results.scores
        self._means: dict[tuple[str, str, str, str], Mean | None] = {}
        self._verdicts: dict[tuple[str, str, str], dict[str, BaselineVerdict]] = {}

    @property
    def sections(self) -> list[tuple[str, str]]:
        """Web and task of each part that has values."""
        there = {(row.web, row.task) for row in self._scores}
        places = [(web.name, task) for web in self.facts.webs for task in self.facts.tasks]
        return [place for place in places if place in there]

    @cached_property
    def _values(self) -> dict[tuple[str, str, str, str, int], dict[tuple[str, Hashable], float]]:
        found: dict[tuple[str, str, str, str, int], dict[tuple[str, Hashable], float]] = {}
        for row in self._scores:
            place = (row.web, row.task, row.strategy, row.measure, row.point)
            found.setdefault(place, {})[row.topic, row.repeat] = row.value
        return found

    @cached_property
    def _points(self) -> dict[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], set[int]] = {}
        for web, _, _, measure, point in self._values:
            found.setdefault((web, measure), set()).add(point)
        return {place: sorted(points) for place, points in found.items()}

    def values(self, web: str, task: str, strategy: str, column: str) -> dict[str, float]:
        """By topic."""
        measure, point = column_parts(column)
        points = self._points.get((web, measure.name), [LAST])
        at = points[-1] if point == LAST else point
        return per_topic(self._values.get((web, task, strategy, measure.name, at), {}))

    def mean(self, web: str, task: str, strategy: str, column: str) -> Mean | None:
        """Over topics, with its interval; None when there are no values."""
        key = (web, task, strategy, column)
        if key not in self._means:
            values = self.values(*key)
            self._means[key] = mean_of(list(values.values())) if values else None
        return self._means[key]

    def verdicts(self, web: str, task: str, column: str) -> dict[str, BaselineVerdict]:
        """Each strategy but the baseline against the baseline, on the topics for which both have a value."""
        key = (web, task, column)
        if key not in self._verdicts:
            baseline = self.facts.baseline
            theirs = self.values(web, task, baseline, column)
            measure = column_parts(column)[0]
            found = []
            for name in self.facts.strategies if measure.is_quality else ():
                mine = self.values(web, task, name, column)
                both = mine.keys() & theirs.keys()  # some crawls have no value, such as the precision of nothing
                if name != baseline and len(both) > 1:
                    ours, others = ({topic: value[topic] for topic in sorted(both)} for value in (mine, theirs))
                    found.append(compare(name, ours, baseline, others, measure=column))
            raised = holm([comparison.p for comparison in found])
            self._verdicts[key] = {c.name: BaselineVerdict(c, p, measure) for c, p in zip(found, raised, strict=True)}
        return self._verdicts[key]

    def curve(self, web: str, task: str, strategy: str, measure: str) -> Curve:
        """The points of a curve over topics."""
        points = self._points.get((web, measure), [])
        columns = [per_topic(self._values.get((web, task, strategy, measure, point), {})) for point in points]
        tables = [np.array(list(column.values()), np.float64) for column in columns]
        means = [float(table.mean()) if len(table) else np.nan for table in tables]
        errors = [float(standard_error(table)) for table in tables]
        return Curve(points, means, errors, max((len(table) for table in tables), default=0))
