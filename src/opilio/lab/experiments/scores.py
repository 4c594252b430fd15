"""The measures of experiments by name: what each is called, what it is a function of, and whether more is better.

Curves are taken at a few points, so that crawls of different lengths have values at the same places. A measure in a
table is one point of its curve: `recall@100` is the recall after 100 pages, `static lexical@50` the share of the 50
best pages that was fetched, a name alone the last point.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.distill.graph import WebGraph
from opilio.errors import SettingsError
from opilio.lab.experiments.graph import UNREACHABLE, LinkGraph, authority_distances, distance_shares, whole_web
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
    coverage_curve,
    dynamic_curve,
    first_hit,
    harvest_curve,
    harvest_per_curve,
    kept_accuracy,
    model_accuracy,
    recall_area,
    recall_at_r,
    recall_at_share,
    recall_curve,
    relevant_sites_curve,
    request_recall_curve,
    server_coverage_curve,
    static_curve,
    undoubted,
)
from opilio.lab.experiments.records import ModelRun, RunRecord
from opilio.lab.experiments.tasks import TaskTopic

if TYPE_CHECKING:
    import numpy.typing as npt

    Flags: TypeAlias = npt.NDArray[np.bool_]
    Numbers: TypeAlias = npt.NDArray[np.integer]
    Values: TypeAlias = npt.NDArray[np.float64]
LAST = -1


class Axis(StrEnum):
    """What a measure is a function of."""

    PAGES = "pages fetched"
    REQUESTS = "requests made"
    TOP = "best pages of the pool"
    BEST = "most confident pages"
    MODELS = "models trained"
    LINKS = "links from the start set"
    NONE = ""


@dataclass(frozen=True, eq=False)
class World:
    """What the measures of all crawls of a web share."""

    pages: int
    """Of the web, without redirects and errors."""
    graph: LinkGraph
    hosts: Numbers
    """By page number: the number of its host."""
    links: Numbers
    """By page number: how many links it has."""

    @functools.cached_property
    def web(self) -> WebGraph:
        """The links as link analysis takes them."""
        return whole_web(self.graph, self.hosts)

    @functools.cached_property
    def _reachable(self) -> dict[tuple[int, ...], Flags]:
        return {}

    def reachable(self, starts: tuple[int, ...]) -> Flags:
        """By page number: whether links, and redirects, lead to a page from any of the starts."""
        if starts not in self._reachable:
            self._reachable.clear()  # one start set after the other is scored
            self._reachable[starts] = self.graph.distances(starts) != UNREACHABLE
        return self._reachable[starts]


@dataclass(frozen=True, eq=False)
class CrawlFacts:
    """What the measures of one crawl are made of."""

    run: RunRecord
    topic: TaskTopic
    labelled: Values
    """By page number: 1 for a page with the label, examples included."""
    world: World
    window_pages: int
    distances: int
    """Distances from the start set, in links, that are counted separately."""
    by_words: Numbers
    """The pool, best first; empty when no measure needs it."""
    by_links: Numbers
    reference: RunRecord | None = None
    """The same strategy's crawl from other examples; None when there is none."""

    @property
    def targets(self) -> tuple[int, ...]:
        """The pages to find."""
        return self.topic.targets

    @functools.cached_property
    def crawled(self) -> Numbers:
        """The pages fetched, in order."""
        return self.run.crawled

    @functools.cached_property
    def judged(self) -> Values:
        """The relevance of each page fetched, by the crawl's judge."""
        return self.run.relevances

    @functools.cached_property
    def sites_to_find(self) -> int:
        """Hosts with a target that can be reached from the start pages of the crawl."""
        targets = np.array(self.targets, np.int64)
        return len(np.unique(self.world.hosts[targets[self.world.reachable(self.run.starts)[targets]]]))

    @functools.cached_property
    def counted(self) -> LabelCounts:
        """Whether each page fetched has the label, and whether it says anything of the judge: examples do not, nor do
        pages about which the crawl asked."""
        known = np.array([*self.topic.examples, *self.run.answered])
        return LabelCounts(self.labelled[self.crawled] > 0, ~np.isin(self.crawled, known))

    @functools.cached_property
    def ranked(self) -> Flags:
        """Of the pages accepted, the most confident first, whether they have the label; examples are left out."""
        order = by_confidence(self.judged, self.run.confidences)
        return self.counted.right[order[self.counted.telling[order]]]

    @functools.cached_property
    def models(self) -> tuple[ModelRun, ...]:
        """The models of a real crawl; of a simulated one, the judge that it had all the time."""
        return self.run.models or (ModelRun(1, 0, len(self.topic.examples), "", self.run.judged),)

    @functools.cached_property
    def known(self) -> Numbers:
        """The pages of the reference crawl, in its order."""
        return self.reference.crawled if self.reference is not None else np.zeros(0, np.int64)

    @functools.cached_property
    def known_relevance(self) -> Values:
        """By page number: the relevance that the judge of the reference crawl gave."""
        values = np.zeros(len(self.labelled))
        if self.reference is not None:
            values[self.known] = self.reference.relevances
        return values

    @functools.cached_property
    def authority_distances(self) -> Numbers:
        """How many links the best authorities of the crawl are from its start set; of those that can be reached."""
        found = authority_distances(self.world.graph, self.world.web, self.crawled, self.judged, self.run.starts)
        return found[found >= 0]


@dataclass(frozen=True)
class Measure:
    """A measure as tables and plots need it."""

    name: str
    axis: Axis
    says: str
    """In words."""
    curve: Callable[[CrawlFacts], Values]
    """Its values: after 1, 2, ... pages, of the 1, 2, ... best pages, or a single one. Nan: there is none."""
    lower_is_better: bool = False
    decimals: int = 3
    is_quality: bool = True
    """False: it shows how a crawl went, and no value of it is better than another."""

    @property
    def needs_pool(self) -> bool:
        """Whether it ranks the pages of all crawlers of a topic."""
        return self.name.startswith(("static", "dynamic"))

    @property
    def needs_reference(self) -> bool:
        """Whether it looks at a second crawl of the same topic."""
        return self.name.endswith("coverage")


def single(value: float) -> Values:
    """A measure that is one number."""
    return np.array([float(value)])


Curve: TypeAlias = Callable[[CrawlFacts], "Values"]
Choice: TypeAlias = Callable[[CrawlFacts], "Flags"]


def _recall_after(percent: int, facts: CrawlFacts) -> Values:
    return single(recall_at_share(facts.crawled, facts.targets, facts.world.pages, percent / 100))


def _harvest_after(percent: int, facts: CrawlFacts) -> Values:
    """The share of pages that have the label, of those fetched with so much of the web as a budget."""
    pages = facts.crawled[: max(1, round(percent / 100 * facts.world.pages))]
    return single(float(facts.labelled[pages].mean()) if len(pages) else 0.0)


def _sites(facts: CrawlFacts) -> Values:
    """Nan when no target can be reached."""
    found = relevant_sites_curve(facts.crawled, facts.targets, facts.world.hosts)
    return found / facts.sites_to_find if facts.sites_to_find else np.full(max(1, len(found)), np.nan)


def _crawls() -> Iterator[Measure]:
    """What a crawl fetched, and how soon."""
    yield Measure("recall", Axis.PAGES, "share of the targets fetched", lambda f: recall_curve(f.crawled, f.targets))
    yield Measure("precision", Axis.PAGES, "share of the pages fetched that have the label",
                  lambda f: harvest_curve(f.crawled, f.labelled, max(1, len(f.crawled))))  # fmt: skip
    yield Measure("harvest", Axis.PAGES, "share of the latest pages that have the label (moving average)",
                  lambda f: harvest_curve(f.crawled, f.labelled, f.window_pages))  # fmt: skip
    yield Measure("precision per request", Axis.PAGES, "pages with the label, divided by all requests made for pages",
                  lambda f: harvest_per_curve(
                      f.crawled, f.labelled, f.run.requests_until, max(1, len(f.crawled))))  # fmt: skip
    yield Measure("precision per second", Axis.PAGES, "pages with the label, divided by the seconds of a real crawl",
                  lambda f: harvest_per_curve(
                      f.crawled, f.labelled, f.run.seconds_until, max(1, len(f.crawled))), decimals=2)  # fmt: skip
    yield Measure("harvest per request", Axis.PAGES, "latest pages with the label, divided by the requests for them",
                  lambda f: harvest_per_curve(
                      f.crawled, f.labelled, f.run.requests_until, f.window_pages))  # fmt: skip
    yield Measure("harvest per second", Axis.PAGES, "latest pages with the label, divided by the seconds they took",
                  lambda f: harvest_per_curve(
                      f.crawled, f.labelled, f.run.seconds_until, f.window_pages), decimals=2)  # fmt: skip
    yield Measure("request recall", Axis.REQUESTS, "share of the targets fetched, after so many requests",
                  lambda f: request_recall_curve(f.crawled, f.targets, f.run.requests_until))  # fmt: skip
    yield Measure("sites", Axis.PAGES, "share of the hosts with a target that can be reached on which one was fetched",
                  _sites)  # fmt: skip
    yield Measure("relevant sites", Axis.PAGES, "hosts on which a target was fetched",
                  lambda f: relevant_sites_curve(f.crawled, f.targets, f.world.hosts), decimals=1)  # fmt: skip
    yield Measure("judged harvest", Axis.PAGES, "mean relevance of the latest pages by the crawl's own judge",
                  lambda f: harvest_curve(np.arange(len(f.crawled)), f.judged, f.window_pages))  # fmt: skip
    yield Measure("static lexical", Axis.TOP, "share fetched of the pages most like the description",
                  lambda f: static_curve(f.crawled, f.by_words))  # fmt: skip
    yield Measure("static linkage", Axis.TOP, "share fetched of the pages best by keywords and PageRank",
                  lambda f: static_curve(f.crawled, f.by_links))  # fmt: skip
    yield Measure("dynamic lexical", Axis.PAGES, "mean rank of the pages fetched, by likeness to the description",
                  lambda f: dynamic_curve(f.crawled, f.by_words), lower_is_better=True, decimals=0)  # fmt: skip
    yield Measure("dynamic linkage", Axis.PAGES, "mean rank of the pages fetched, by keywords and PageRank",
                  lambda f: dynamic_curve(f.crawled, f.by_links), lower_is_better=True, decimals=0)  # fmt: skip
    for percent in (5, 10, 20):
        yield Measure(f"rc{percent}", Axis.NONE, f"recall after {percent} % of the web",
                      partial(_recall_after, percent))  # fmt: skip
        yield Measure(f"hr{percent}", Axis.NONE, f"harvest rate over the first {percent} % of the web",
                      partial(_harvest_after, percent))  # fmt: skip
    yield Measure("rc1R", Axis.NONE, "recall after as many pages as there are targets",
                  lambda f: single(recall_at_r(f.crawled, f.targets)))  # fmt: skip
    yield Measure("auc", Axis.NONE, "mean recall over the first 20 % of the web",
                  lambda f: single(recall_area(f.crawled, f.targets, f.world.pages)))  # fmt: skip


def _sizes() -> Iterator[Measure]:
    """How large a crawl was (BINGO, table 1; OASIS, tables 4 and 8)."""
    found: dict[tuple[str, str], Callable[[CrawlFacts], float]] = {
        ("pages", "pages fetched until the budget was spent or nothing was left"): lambda f: len(f.crawled),
        ("requests", "URLs requested, those that failed or led elsewhere included"): lambda f: _most(f.run.requests),
        ("links", "links on the pages fetched"): lambda f: f.world.links[f.crawled].sum(),
        ("hosts", "hosts of the pages fetched"): lambda f: len(np.unique(f.world.hosts[f.crawled])),
        ("depth", "links followed from a start page, at most"): lambda f: _most(f.run.depths, "<u2"),
        ("accepted", "pages that the judge accepted"): lambda f: _accepted(f).sum(),
        ("undoubted", "pages accepted beyond doubt"): lambda f: _undoubted(f).sum(),
        ("to inspect", "pages accepted, but not beyond doubt"): lambda f: _doubted(f).sum(),
        ("models", "models trained"): lambda f: len(f.models),
    }
    for (name, says), count in found.items():
        yield Measure(name, Axis.NONE, says, _number(count), decimals=0, is_quality=False)


def _coverage() -> Iterator[Measure]:
    """Two crawls of a topic from disjoint start sets (Focus 3.5, 3.6)."""
    yield Measure("coverage", Axis.PAGES, "share of the pages with the label that a crawl from other examples found",
                  lambda f: coverage_curve(f.crawled, f.known, f.labelled))  # fmt: skip
    yield Measure("judged coverage", Axis.PAGES, "share of the pages that are relevant to the judge of such a crawl",
                  lambda f: coverage_curve(f.crawled, f.known, f.known_relevance))  # fmt: skip
    yield Measure("server coverage", Axis.PAGES, "share of the servers that have pages relevant to that judge",
                  lambda f: server_coverage_curve(f.crawled, f.known, f.known_relevance, f.world.hosts))  # fmt: skip
    yield Measure("authorities", Axis.LINKS, "share of the best 100 authorities, by distance from the start set",
                  lambda f: distance_shares(f.authority_distances, f.distances), is_quality=False)  # fmt: skip
    yield Measure("authority distance", Axis.NONE, "mean distance of the best 100 authorities from the start set",
                  _number(lambda f: f.authority_distances.mean() if len(f.authority_distances) else np.nan), decimals=2,
                  is_quality=False)  # fmt: skip
    yield Measure("farthest authority", Axis.NONE, "distance of the farthest of the best 100 authorities",
                  _number(lambda f: max(f.authority_distances.tolist(), default=np.nan)), decimals=1,
                  is_quality=False)  # fmt: skip


def _judgements() -> Iterator[Measure]:
    """What the judge's word is worth (BINGO 5.2, OASIS 5)."""
    chosen: dict[str, tuple[str, Choice]] = {
        "accepted": ("accepted", _accepted),
        "undoubted": ("accepted beyond doubt", _undoubted),
        "doubted": ("accepted, but not beyond doubt", _doubted),
    }
    for name, (says, choice) in chosen.items():
        yield Measure(f"{name} precision", Axis.NONE, f"share of the pages {says} that have the label",
                      _precision(choice))  # fmt: skip
        yield Measure(f"{name} recall", Axis.NONE, f"share of the pages fetched that have the label that were {says}",
                      _recall(choice))  # fmt: skip
    for kind in ALONE:
        yield Measure(f"{kind} alone", Axis.NONE, f"pages accepted because of {kind} alone",
                      _size(_alone(kind)), decimals=0, is_quality=False)  # fmt: skip
        yield Measure(f"{kind} alone precision", Axis.NONE, "share of them that have the label",
                      _precision(_alone(kind)))  # fmt: skip
    yield Measure("best precision", Axis.BEST, "share of the most confident pages that have the label",
                  lambda f: best_precision(f.ranked))  # fmt: skip
    yield Measure("best recall", Axis.BEST, "share of the targets that are among the most confident pages",
                  lambda f: best_recall(f.ranked, len(f.targets)))  # fmt: skip
    yield Measure("first hit", Axis.NONE, "pages to look at until one has the label, the most confident first",
                  _number(lambda f: first_hit(f.ranked, len(f.crawled))), lower_is_better=True, decimals=0)  # fmt: skip


def _models() -> Iterator[Measure]:
    """What each model of a crawl is worth: does accuracy rise from one training to the next (BINGO demo)?"""
    for name, says, find in (
        ("model", "of all pages of the crawl", model_accuracy),
        ("kept", "of the pages fetched until the next model came", kept_accuracy),
    ):
        yield Measure(f"{name} precision", Axis.MODELS, f"share with the label of what a model accepts {says}",
                      _by_model(find, lambda found: found.precision))  # fmt: skip
        yield Measure(f"{name} recall", Axis.MODELS, f"share that a model accepts of what has the label, {says}",
                      _by_model(find, lambda found: found.recall))  # fmt: skip


def _number(count: Callable[[CrawlFacts], float]) -> Curve:
    return lambda facts: np.array([float(count(facts))])


def _size(chosen: Choice) -> Curve:
    return lambda facts: single(chosen(facts).sum())


def _precision(chosen: Choice) -> Curve:
    return lambda facts: single(accuracy(chosen(facts), facts.counted).precision)


def _recall(chosen: Choice) -> Curve:
    return lambda facts: single(accuracy(chosen(facts), facts.counted).recall)


def _by_model(
    find: Callable[[Sequence[ModelRun], LabelCounts], list[Accuracy]], part: Callable[[Accuracy], float]
) -> Curve:
    return lambda facts: np.array([part(found) for found in find(facts.models, facts.counted)])


def _accepted(facts: CrawlFacts) -> Flags:
    return accepted(facts.judged)


def _undoubted(facts: CrawlFacts) -> Flags:
    return undoubted(facts.judged, facts.run.votes)


def _doubted(facts: CrawlFacts) -> Flags:
    return _accepted(facts) & ~_undoubted(facts)


def _alone(kind: str) -> Choice:
    return lambda facts: alone(kind, facts.judged, facts.run.votes, facts.run.metrics)


def _most(array: bytes, kind: str = "<u4") -> int:
    return max(np.frombuffer(array, kind).tolist(), default=0)


MEASURES = {
    measure.name: measure for group in (_crawls, _sizes, _coverage, _judgements, _models) for measure in group()
}


def check_column(column: str, where: str) -> None:
    """Fail on a measure that does not exist, and name the nearest."""
    name, at, point = column.partition("@")
    if name not in MEASURES:
        near = difflib.get_close_matches(name, MEASURES, n=1)
        did_you_mean = f"Did you mean {near[0]!r}? " if near else ""
        raise SettingsError(f"{where}: unknown measure {name!r}", f"{did_you_mean}Known: {', '.join(MEASURES)}.")
    if at and (
        not point.isdigit()
        or (int(point) < 1 and MEASURES[name].axis is not Axis.LINKS)
        or MEASURES[name].axis is Axis.NONE
    ):
        raise SettingsError(f"{where}: {column!r} names no point of {name!r}", "For example: recall@100")


def column_parts(column: str) -> tuple[Measure, int]:
    """The measure of a column and its point, `LAST` when none is named."""
    name, _, point = column.partition("@")
    return MEASURES[name], int(point) if point else LAST
