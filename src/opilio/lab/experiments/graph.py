"""The link graph of a web, by page numbers: which page links to which, and how far apart they are.

`authority_distances` shows how far from its start a crawl finds the best authorities of its topic (Focus 3.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np

from opilio.distill.graph import WebGraph
from opilio.distill.rankings import (
    hits,
)
from opilio.lab.experiments.analysed import Analysed
from opilio.model import RELEVANT

if TYPE_CHECKING:
    import numpy.typing as npt
    from scipy.sparse import csr_array

    Numbers: TypeAlias = npt.NDArray[np.integer]
    Values: TypeAlias = npt.NDArray[np.float64]

UNREACHABLE = -1
_MAX_REDIRECTS = 25  # in a row; after them, or in a circle, a link leads nowhere
TOP = 100


@dataclass(frozen=True, eq=False)
class LinkGraph:
    """The links of page n are `targets[starts[n] : starts[n + 1]]`; a target below 0 leads nowhere."""

    starts: Numbers
    targets: Numbers

    @classmethod
    def of(cls, analysed: Analysed) -> Self:
        """The graph of a web; a link to a page that is redirected counts as one to where it ends."""
        web = analysed.web
        next_page = np.arange(len(analysed.starts))  # the last stands for nowhere
        for page in range(len(web.urls)):
            target = web.redirect(page)
            if target:
                next_page[page] = web.number(target)  # -1, nowhere, is the last too
        next_page[next_page < 0] = len(next_page) - 1
        ends = np.append(next_page[:-1], len(next_page) - 1)
        for _ in range(_MAX_REDIRECTS):
            ends = next_page[ends]
        settled = next_page[ends] == ends
        ends[~settled | (ends == len(ends) - 1)] = UNREACHABLE
        return cls(analysed.starts, ends[analysed.targets])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def links_of(self, page: int) -> Numbers:
        """The pages that a page links to, some perhaps more than once."""
        found = self.targets[self.starts[page] : self.starts[page + 1]]
        return found[found >= 0]

    def within(self, pages: Numbers | None = None) -> csr_array:
        """The links among `pages` (all, when not given) as a matrix: 1 for one or more links from row to column.

        Row i of the matrix is page i of `pages`, which are distinct.
        """
        from scipy.sparse import csr_array  # noqa: PLC0415  (nobody else must wait for scipy)

        chosen = np.arange(len(self)) if pages is None else np.asarray(pages)
        places = np.full(len(self) + 1, -1)  # the last is for nowhere
        places[chosen] = np.arange(len(chosen))
        rows = places[np.repeat(np.arange(len(self)), np.diff(self.starts))]
        columns = places[np.where(self.targets < 0, len(self), self.targets)]
        inside = (rows >= 0) & (columns >= 0)
        size = max(len(chosen), 1)
        rows, columns = np.divmod(np.unique(rows[inside] * size + columns[inside]), size)
        return csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(chosen), len(chosen)))

    def backwards(self) -> LinkGraph:
        """The same graph with its links turned round; the sources of a page's links come in ascending order."""
        inside = self.targets >= 0
        sources = np.repeat(np.arange(len(self)), np.diff(self.starts))[inside]
        order = np.argsort(self.targets[inside], kind="stable")
        counts = np.bincount(self.targets[inside], minlength=len(self))
        return LinkGraph(np.concatenate(([0], np.cumsum(counts))), sources[order])

    def distances(self, start_set: Iterable[int]) -> Numbers:
        """The least number of links from any page of `start_set` to each page, or UNREACHABLE."""
        found = np.full(len(self), UNREACHABLE, np.int64)
        edge = np.unique(np.fromiter(start_set, np.int64))
        steps = 0
        while len(edge):
            found[edge] = steps
            steps += 1
            reached = np.unique(np.concatenate([self.links_of(page) for page in edge.tolist()]))
            edge = reached[found[reached] == UNREACHABLE]
        return found


def whole_web(graph: LinkGraph, hosts: Numbers) -> WebGraph:
    """The links of a recorded web as link analysis takes them; `hosts` gives the number of each page's host."""
    sources, targets = graph.within().tocoo().coords
    nothing = np.zeros(0, np.int64)
    each_host = np.arange(int(hosts.max(initial=-1)) + 1)
    stored, is_boilerplate = np.ones(len(graph), np.bool_), np.zeros(len(sources), np.bool_)
    return WebGraph(sources, targets, hosts, stored, (nothing, nothing), is_boilerplate, each_host, each_host)


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
