"""PageRank: how often one meets a page who follows links at random, and sometimes jumps anywhere (BestN 4.2).

x = d (x P + what pages without links have, spread over all) + (1 - d) / n, where P divides a page's weight among its
links. Found by power iteration; sums to 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opilio.distill.options import DAMPING, Options
from opilio.distill.scores import Scores

if TYPE_CHECKING:  # they take tenths of a second to import
    from scipy.sparse import csr_array

    from opilio.distill.graph import WebGraph
    from opilio.distill.scores import Values

_TOLERANCE = 1e-10  # summed over all pages
_MAX_ROUNDS = 500


def rank_pages(graph: WebGraph, options: Options | None = None) -> Scores:
    """PageRank over the stored pages and the links among them, or over all known URLs, as authority."""
    options = options or Options()
    among = np.ones(graph.urls, np.bool_) if options.unvisited else graph.stored.copy()
    among[graph.merged[0]] = False
    pages = np.flatnonzero(among)
    links = graph.within(among)
    matrix = links.matrix(pages, np.ones(len(links.sources)))
    rank, rounds, converged = _iterate(matrix, options.damping, options.tolerance, options.max_rounds)
    return Scores(pages, np.zeros(len(pages)), rank, "pagerank", rounds, converged)


def pagerank(links: csr_array, damping: float = DAMPING) -> Values:
    """The PageRank of each page of a matrix with 1 for a link from row to column."""
    return _iterate(links, damping, _TOLERANCE, _MAX_ROUNDS)[0]


def _iterate(links: csr_array, damping: float, tolerance: float, max_rounds: int) -> tuple[Values, int, bool]:
    """The PageRank of each page, after how many rounds, and whether the last one changed less than `tolerance`."""
    count = links.shape[0]
    if not count:
        return np.zeros(0), 0, True
    degrees = np.asarray(links.sum(axis=1)).ravel()
    shares = np.divide(1.0, degrees, out=np.zeros(count), where=degrees > 0)
    incoming = links.T.tocsr()
    rank = np.full(count, 1.0 / count)
    change, rounds = np.inf, 0
    while change >= tolerance and rounds < max_rounds:
        spread = rank[degrees == 0].sum() / count
        new = damping * (incoming @ (rank * shares) + spread) + (1.0 - damping) / count
        change = np.abs(new - rank).sum()
        rank = new
        rounds += 1
    return np.asarray(rank / rank.sum()), rounds, bool(change < tolerance)
