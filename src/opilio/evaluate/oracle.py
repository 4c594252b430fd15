"""The oracle: a crawler that knows where all targets are. What it finds nobody can be asked to beat by much."""

from __future__ import annotations

from collections.abc import Mapping

from opilio.evaluate.analysed import Analysed
from opilio.evaluate.graph import UNREACHABLE, LinkGraph
from opilio.evaluate.tasks import Topic
from opilio.frontier import Strategy, Waiting, strategies

NAME = "oracle"


@strategies.register(NAME)
class Oracle(Strategy):
    """Targets first, then what is fewest links away from one. Only in simulations: `know` must be called before."""

    order_by = "priority desc"
    _links_to_go: Mapping[str, int] = {}

    def know(self, links_to_go: Mapping[str, int]) -> None:
        """How many links each URL is away from the nearest target."""
        self._links_to_go = links_to_go

    def priority(self, link: Waiting) -> float:
        """1 for a target, a half for what links to one, ..."""
        links = self._links_to_go.get(link.url)
        return 1.0 / (1.0 + links) if links is not None else 0.0


def links_to_go(analysed: Analysed, graph: LinkGraph, topic: Topic) -> dict[str, int]:
    """By URL: how many links away the nearest target is."""
    distances = graph.backwards().distances(topic.targets)
    urls = analysed.web.urls
    return {urls[page]: links for page, links in enumerate(distances.tolist()) if links != UNREACHABLE}
