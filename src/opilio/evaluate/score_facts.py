"""What the measures of a crawl are made of, and what a measure is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.distill.graph import WebGraph
from opilio.evaluate.authorities import authority_distances, whole_web
from opilio.evaluate.findings import Counted, by_confidence
from opilio.evaluate.graph import LinkGraph
from opilio.evaluate.records import ModelRun, Run
from opilio.evaluate.tasks import Topic

if TYPE_CHECKING:
    import numpy.typing as npt

    Flags: TypeAlias = npt.NDArray[np.bool_]
    Numbers: TypeAlias = npt.NDArray[np.integer]
    Values: TypeAlias = npt.NDArray[np.float64]


class Axis(StrEnum):
    """What a measure is a function of."""

    PAGES = "pages fetched"
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


@dataclass(frozen=True, eq=False)
class Facts:
    """What the measures of one crawl are made of."""

    run: Run
    topic: Topic
    labelled: Values
    """By page number: 1 for a page with the label, examples included."""
    world: World
    window_pages: int
    distances: int
    """Links from the start set that are told apart."""
    by_words: Numbers
    """The pool, best first; empty when no measure needs it."""
    by_links: Numbers
    reference: Run | None = None
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
    def counted(self) -> Counted:
        """Whether each page fetched has the label, and whether it says anything of the judge: examples do not."""
        return Counted(self.labelled[self.crawled] > 0, ~np.isin(self.crawled, np.array(self.topic.examples)))

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
    curve: Callable[[Facts], Values]
    """Its values: after 1, 2, ... pages, of the 1, 2, ... best pages, or a single one. Nan: there is none."""
    lower_is_better: bool = False
    decimals: int = 3
    is_quality: bool = True
    """False: it tells how a crawl went, and no value of it is better than another."""

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
