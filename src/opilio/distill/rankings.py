"""HITS and PageRank over a graph in memory.

*HITS* on the neighbourhood of a topic, with the weights of Bharat and Henzinger (BINGO 2.5). The graph is the topic's
pages (the base set), all pages they link to, and some that link to them. Links inside one host are left out. When k
pages of a host link to one page, each of these links confers 1/k of the hub's score on it; when a page links to l pages
of a host, each reflects 1/l of its score on the hub. So a host has one voice about a page, however many of its pages
say the same.

*PageRank*: how often a reader is on a page who follows links at random, and sometimes jumps anywhere (BestN 4.2).
x = d (x P + what pages without links have, spread over all) + (1 - d) / n, where P divides a page's weight among its
links. Found by power iteration; sums to 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opilio.distill.graph import WebGraph, firsts
from opilio.distill.scores import DAMPING, DistillOptions, Scores, normalized

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from opilio.distill.graph import Flags
    from opilio.distill.scores import Oids, Values

_TOLERANCE = 1e-10  # of `pagerank`, summed over all pages
_MAX_ROUNDS = 500


def hits(graph: WebGraph, base: Oids, options: DistillOptions | None = None) -> Scores:
    """Hub and authority scores of the pages in the neighbourhood of `base`."""
    options = options or DistillOptions()
    chosen = neighbourhood(graph, base, options.max_predecessors)
    pages = np.flatnonzero(chosen)
    links = graph.within(chosen).between_hosts()
    conferring, reflecting = weights(links)
    to_authorities = links.matrix(pages, conferring).T
    to_hubs = links.matrix(pages, reflecting)
    hub, authority = np.full(len(pages), 1.0 / max(len(pages), 1)), np.zeros(len(pages))
    rounds, change = 0, float(len(links.sources) > 0)
    while change > options.tolerance and rounds < options.max_rounds:
        new_authority = normalized(to_authorities @ hub)
        new_hub = normalized(to_hubs @ new_authority)
        change = float(np.abs(new_hub - hub).sum() + np.abs(new_authority - authority).sum())
        hub, authority = new_hub, new_authority
        rounds += 1
    if not rounds:
        hub = authority
    return Scores(pages, hub, authority, "hits", rounds, change <= options.tolerance)


def neighbourhood(graph: WebGraph, base: Oids, max_predecessors: int) -> Flags:
    """The base set, its successors, and at most `max_predecessors` of each of its pages; as a flag by oid.

    Of many predecessors, those are taken that link to the most pages of the base set: the likeliest hubs. Of equal ones
    those with the smaller oids.
    """
    chosen = np.zeros(graph.urls, np.bool_)
    chosen[base] = True
    inward = chosen[graph.targets] & ~chosen[graph.sources]
    sources, targets = graph.sources[inward], graph.targets[inward]
    chosen[graph.targets[chosen[graph.sources]]] = True
    cited = np.bincount(sources, minlength=1)
    order = np.lexsort((sources, -cited[sources], targets))
    sources, targets = sources[order], targets[order]
    is_first = firsts(targets)
    rank = np.arange(len(targets)) - np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    chosen[sources[rank < max_predecessors]] = True
    return chosen


def weights(links: WebGraph) -> tuple[Values, Values]:
    """For each link 1/k and 1/l: k pages of the source's host link to the target, the source to l of the target's."""
    hosts = int(links.hosts.max(initial=0)) + 1
    conferring = _shares(links.targets.astype(np.int64) * hosts + links.hosts[links.sources])
    reflecting = _shares(links.sources.astype(np.int64) * hosts + links.hosts[links.targets])
    return conferring, reflecting


def _shares(groups: Oids) -> Values:
    """1 / the size of the group of each, given as a number."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    sizes = np.diff(np.append(np.flatnonzero(firsts(ordered)), len(ordered)))
    shares = np.empty(len(groups))
    shares[order] = np.repeat(1.0 / sizes, sizes)
    return shares


def rank_pages(graph: WebGraph, options: DistillOptions | None = None) -> Scores:
    """PageRank over the stored pages and the links among them, or over all known URLs, as authority."""
    options = options or DistillOptions()
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
