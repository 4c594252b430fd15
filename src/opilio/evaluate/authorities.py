"""How far from its start a crawl finds the best authorities of its topic (Focus 3.6)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.distill.graph import WebGraph
from opilio.distill.hits import hits
from opilio.evaluate.graph import LinkGraph
from opilio.model import RELEVANT

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers: TypeAlias = npt.NDArray[np.integer]
    Values: TypeAlias = npt.NDArray[np.float64]

TOP = 100


def whole_web(graph: LinkGraph, hosts: Numbers) -> WebGraph:
    """The links of a recorded web as link analysis takes them; `hosts` gives the number of each page's host."""
    sources, targets = graph.within().tocoo().coords
    nothing = np.zeros(0, np.int64)
    return WebGraph(sources, targets, hosts, np.ones(len(graph), np.bool_), (nothing, nothing))


def authority_distances(
    graph: LinkGraph, web: WebGraph, crawled: Numbers, judged: Values, starts: Sequence[int]
) -> Numbers:
    """The distance from the start set of each of the best authorities, the best first.

    Authorities are found as `opilio distill` finds them, from the links of the pages that were fetched: links inside
    one host do not count. Only pages that were fetched are looked at, so that all distances are known to the crawl: the
    least number of its links from a page of the start set.
    """
    seen = np.zeros(len(graph), np.bool_)
    seen[crawled] = True
    scores = hits(web.within(seen), np.sort(crawled[judged >= RELEVANT]))
    best = np.array([page.oid for page in scores.top_authorities(TOP)], np.int64)
    return _distances(graph, seen, starts)[best]


def _distances(graph: LinkGraph, seen: npt.NDArray[np.bool_], starts: Sequence[int]) -> Numbers:
    """The distances by links of pages that were fetched."""
    counts = np.where(seen, np.diff(graph.starts), 0)
    kept = np.repeat(seen, np.diff(graph.starts))
    return LinkGraph(np.concatenate(([0], np.cumsum(counts))), graph.targets[kept]).distances(starts)


def distance_shares(distances: Numbers, up_to: int) -> Values:
    """Which share stands 0, 1, ... links away; the last is for all beyond `up_to`. All nan when there are none."""
    if not len(distances):
        return np.full(up_to + 2, np.nan)
    return np.bincount(np.minimum(distances, up_to + 1), minlength=up_to + 2) / len(distances)
