"""The measures of experiments by name: what each is called, what it is a function of, and whether more is better.

Curves are taken at a few points, so that crawls of different lengths have values at the same places. A measure in a
table is one point of its curve: `recall@100` is the recall after 100 pages, `static lexical@50` the share of the 50
best pages that was fetched, a name alone the last point.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.errors import SettingsError
from opilio.evaluate.measures import harvest_curve, recall_area, recall_at_r, recall_at_share, recall_curve, value_after
from opilio.evaluate.quality import dynamic_curve, static_curve

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers: TypeAlias = npt.NDArray[np.integer]
    Values: TypeAlias = npt.NDArray[np.float64]

LAST = -1


class Axis(StrEnum):
    """What a measure is a function of."""

    PAGES = "pages fetched"
    TOP = "best pages of the pool"
    NONE = ""


@dataclass(frozen=True, eq=False)
class Facts:
    """What the measures of one crawl are made of."""

    crawled: Numbers
    judged: Values
    """The relevance of each page fetched, by the crawl's judge."""
    targets: Sequence[int]
    labelled: Values
    """By page number: 1 for a page with the label, examples included."""
    web_pages: int
    window_pages: int
    by_words: Numbers
    """The pool, best first; empty when no measure needs it."""
    by_links: Numbers


@dataclass(frozen=True)
class Measure:
    """A measure as tables and plots need it."""

    name: str
    axis: Axis
    says: str
    """In words."""
    curve: Callable[[Facts], Values]
    """Its values: after 1, 2, ... pages, of the 1, 2, ... best pages, or a single one."""
    lower_is_better: bool = False
    decimals: int = 3

    @property
    def needs_pool(self) -> bool:
        """Whether it ranks the pages of all crawlers of a topic."""
        return self.name.startswith(("static", "dynamic"))


MEASURES = {
    measure.name: measure
    for measure in (
        Measure("recall", Axis.PAGES, "share of the targets fetched", lambda f: recall_curve(f.crawled, f.targets)),
        Measure("precision", Axis.PAGES, "share of the pages fetched that have the label",
                lambda f: harvest_curve(f.crawled, f.labelled, max(1, len(f.crawled)))),
        Measure("harvest", Axis.PAGES, "share of the latest pages that have the label (moving average)",
                lambda f: harvest_curve(f.crawled, f.labelled, f.window_pages)),
        Measure("judged harvest", Axis.PAGES, "mean relevance of the latest pages by the crawl's own judge",
                lambda f: harvest_curve(np.arange(len(f.crawled)), f.judged, f.window_pages)),
        Measure("static lexical", Axis.TOP, "share fetched of the pages most like the description",
                lambda f: static_curve(f.crawled, f.by_words)),
        Measure("static linkage", Axis.TOP, "share fetched of the pages best by keywords and PageRank",
                lambda f: static_curve(f.crawled, f.by_links)),
        Measure("dynamic lexical", Axis.PAGES, "mean rank of the pages fetched, by likeness to the description",
                lambda f: dynamic_curve(f.crawled, f.by_words), lower_is_better=True, decimals=0),
        Measure("dynamic linkage", Axis.PAGES, "mean rank of the pages fetched, by keywords and PageRank",
                lambda f: dynamic_curve(f.crawled, f.by_links), lower_is_better=True, decimals=0),
        Measure("pages", Axis.NONE, "pages fetched until the budget was spent or nothing was left",
                lambda f: np.array([float(len(f.crawled))]), decimals=0),
        Measure("rc5", Axis.NONE, "recall after 5 % of the web",
                lambda f: np.array([recall_at_share(f.crawled, f.targets, f.web_pages)])),
        Measure("rc1R", Axis.NONE, "recall after as many pages as there are targets",
                lambda f: np.array([recall_at_r(f.crawled, f.targets)])),
        Measure("auc", Axis.NONE, "mean recall over the first 20 % of the web",
                lambda f: np.array([recall_area(f.crawled, f.targets, f.web_pages)])),
    )
}  # fmt: skip


def check_column(column: str, where: str) -> None:
    """Fail on a measure that does not exist, and name the nearest."""
    name, at, point = column.partition("@")
    if name not in MEASURES:
        near = difflib.get_close_matches(name, MEASURES, n=1)
        did_you_mean = f"Did you mean {near[0]!r}? " if near else ""
        raise SettingsError(f"{where}: unknown measure {name!r}", f"{did_you_mean}Known: {', '.join(MEASURES)}.")
    if at and (not point.isdigit() or int(point) < 1 or MEASURES[name].axis is Axis.NONE):
        raise SettingsError(f"{where}: {column!r} names no point of {name!r}", "For example: recall@100")


def column_parts(column: str) -> tuple[Measure, int]:
    """The measure of a column and its point, `LAST` when none is named."""
    name, _, point = column.partition("@")
    return MEASURES[name], int(point) if point else LAST


def points_of(measure: Measure, wanted: Sequence[int], budget_pages: int, points: int, top: Sequence[int]) -> list[int]:
    """Where a curve is looked at: `wanted` points of table columns, and the regular ones."""
    if measure.axis is Axis.NONE:
        return [LAST]
    if measure.axis is Axis.TOP:
        regular = [*top]
    else:
        regular = [max(1, round(budget_pages * (i + 1) / points)) for i in range(points)]
    return sorted({*regular, *(point for point in wanted if point != LAST)})


def values_at(values: Values, points: Sequence[int]) -> list[float]:
    """The values at some points; a curve that ended early keeps its last value."""
    return [value_after(values, len(values) if point == LAST else point) for point in points]
