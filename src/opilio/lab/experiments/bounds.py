"""Strategies that know what no crawler can know. They show how much a better order, or a better judge, could gain.

The oracle knows where all targets are: no strategy finds them much sooner. Foresight knows what the judge will say of
every queued page: where it is little better than an order that guesses from links, no better guess will help, but a
better judge may. Only simulated crawls can have such orders.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from opilio.frontier import QueuedUrl, Strategy, strategies
from opilio.lab.experiments.analysed import Analysed
from opilio.lab.experiments.graph import UNREACHABLE, LinkGraph
from opilio.lab.experiments.simulate import Answers
from opilio.lab.experiments.tasks import TaskTopic
from opilio.model import Judgement
from opilio.settings import FrontierSettings

_SEED_PRIORITY = 100.0
_NO_PAGE = -100.0


@strategies.register("oracle")
class Oracle(Strategy):
    """Targets first, then the fewest links away from one. `know` must be called before the crawl."""

    order_by = "priority desc"
    _links_to_go: Mapping[str, int] = {}

    def know(self, links_to_go: Mapping[str, int]) -> None:
        """How many links each URL is away from the nearest target."""
        self._links_to_go = links_to_go

    def priority(self, link: QueuedUrl) -> float:
        """1 for a target, a half for what links to one, ..."""
        links = self._links_to_go.get(link.url)
        return 1.0 / (1.0 + links) if links is not None else 0.0


@strategies.register("foresight")
class Foresight(Strategy):
    """The page that the judge is surest of first. `know` must be called before the crawl."""

    order_by = "priority desc"

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        self._confidence_of: Callable[[str], float] = lambda url: 0.0

    def know(self, confidence_of: Callable[[str], float]) -> None:
        """How sure the judge will be of the page at a URL."""
        self._confidence_of = confidence_of

    def priority(self, link: QueuedUrl) -> float:
        """The judge's confidence; a URL without a page comes last."""
        return _SEED_PRIORITY if link.depth == 0 else self._confidence_of(link.url)


KNOWING = (Oracle, Foresight)


def links_to_go(analysed: Analysed, graph: LinkGraph, topic: TaskTopic) -> dict[str, int]:
    """By URL: how many links away the nearest target is."""
    distances = graph.backwards().distances(topic.targets)
    urls = analysed.web.urls
    return {urls[page]: links for page, links in enumerate(distances.tolist()) if links != UNREACHABLE}


def foreseen(answers: Answers, judge: Callable[[int], Judgement]) -> Callable[[str], float]:
    """By URL: how sure a judge will be of its page."""

    def confidence_of(url: str) -> float:
        number = answers.number(url)
        return judge(number).confidence if number >= 0 and answers.page(number)[1] is not None else _NO_PAGE

    return confidence_of
