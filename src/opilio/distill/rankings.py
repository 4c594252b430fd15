"""HITS, with two kinds of weights, and PageRank over a graph in memory.

*Weighted HITS*, the default, is made for real sites. It runs on the same neighbourhood as HITS below, and counts a link
by five rules. Links inside one site (registered domain) or one server, and links in boilerplate parts of a page, do not
count. A site has one voice about a page, and the more of its pages have the link, the weaker that voice is: with k of n
pages it is log((n + 1) / k) / log(n + 1), which is 1 for one page and next to 0 for a link on every page. Only stored
pages of the topic, or with a relevance above rho, are authorities, and a link confers authority in proportion to its
target's relevance (Focus 2.2). It reflects authority in proportion to the relevance of its source: the page's own, or
the mean of what it links to when that is higher, because the best lists of links have hardly any words of their own.
Sites that link to each other have one voice together: when m such sites link to a page, each of these links confers
1/m, and when a page links to m of them, each reflects 1/m. So a link farm, a clique of sites that praise each other,
counts like one link, and a page that others link to without a return loses nothing. And in each round a part of every
score (0.15, as in PageRank) is that of the first round: plain HITS gives everything to the most tightly linked
community, however small, and next to nothing to all others (Ng, Zheng and Jordan, 2001).

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
from opilio.frontier.arrays import once

if TYPE_CHECKING:
    from collections.abc import Callable

    from scipy.sparse import csr_array

    from opilio.distill.graph import Flags, Numbers
    from opilio.distill.scores import Oids, Values

_TOLERANCE = 1e-10  # of `pagerank`, summed over all pages
_MAX_ROUNDS = 500
FEW_LINKS = 100_000
"""With no more links than this, importing scipy would take longer than all rounds."""
PRIOR_LINKS = 3.0
"""The quality of a hub counts as if this many more of its links were known, to pages of average relevance."""


def _always() -> bool:
    return True


def hits(
    graph: WebGraph, base: Oids, options: DistillOptions | None = None, goes_on: Callable[[], bool] = _always
) -> Scores:
    """Hub and authority scores of the pages in the neighbourhood of `base`, by HITS as in the papers.

    No more rounds are made as soon as it should not go on.
    """
    options = options or DistillOptions()
    chosen = neighbourhood(graph, base, options.max_predecessors)
    links = graph.within(chosen).between_hosts()
    return _alternate("hits", links, np.flatnonzero(chosen), weights(links), options, goes_on, damping=1.0)


def weighted(
    graph: WebGraph,
    base: Oids,
    relevance: Values,
    options: DistillOptions | None = None,
    goes_on: Callable[[], bool] = _always,
) -> Scores:
    """The same by weighted HITS; `relevance` is that of each URL to the topic, by oid."""
    options = options or DistillOptions()
    chosen = neighbourhood(graph, base, options.max_predecessors)
    counts = graph.crosses_sites() & graph.stored[graph.targets]
    quality = hub_quality(graph.chosen(counts & ~graph.is_boilerplate), relevance)
    eligible = chosen & (relevance > options.rho)
    eligible[base] = True
    links = graph.chosen(counts & eligible[graph.targets])
    voice = _voices(links, _linking_pages(graph))
    kept = chosen[links.sources] & ~links.is_boilerplate
    links, voice = links.chosen(kept), voice[kept]
    sites = links.sites[links.hosts]
    conferring, reflecting = _one_voice(links, sites)
    conferring *= voice * relevance[links.targets]
    reflecting *= voice * np.maximum(relevance, quality)[links.sources]
    returned = np.flatnonzero(_are_returned(links, sites))
    given_back = links.sources[returned], links.targets[returned]
    conferring[returned] /= _distinct(given_back[1], sites[given_back[0]])
    reflecting[returned] /= _distinct(given_back[0], sites[given_back[1]])
    pages, link_weights = np.flatnonzero(chosen), (conferring, reflecting)
    return _alternate("weighted", links, pages, link_weights, options, goes_on, damping=options.damping)


def _linking_pages(graph: WebGraph) -> Values:
    """By site: how many of its pages have links."""
    sources = graph.sources[firsts(graph.sources)]
    return np.bincount(graph.sites[graph.hosts[sources]], minlength=len(graph.sites)).astype(np.float64)


def _voices(links: WebGraph, pages: Values) -> Values:
    """For each link how much its site's voice about the target weighs, given how many pages each site has."""
    sites = links.sites[links.hosts[links.sources]]
    linking = 1.0 / _shares(links.targets.astype(np.int64) * len(pages) + sites)
    all_and_one = pages[sites] + 1.0
    return np.asarray(np.log(all_and_one / linking) / np.log(all_and_one))


def _are_returned(links: WebGraph, sites: Numbers) -> Flags:
    """Which links lead to a site that links back to theirs; `sites` has the site of each URL, by oid."""
    count = np.int64(sites.max(initial=0)) + 1
    here, there = sites[links.sources].astype(np.int64), sites[links.targets].astype(np.int64)
    return np.isin(here * count + there, there * count + here)


def _distinct(groups: Numbers, values: Numbers) -> Values:
    """For each of some pairs: how many different values its group has."""
    count = np.int64(values.max(initial=0)) + 1
    pairs = once(groups.astype(np.int64) * count + values)
    return np.bincount(pairs // count, minlength=1)[groups].astype(np.float64)


def hub_quality(links: WebGraph, relevance: Values) -> Values:
    """By oid: how relevant the stored pages are that a page links to, on average. Few of them count less."""
    fetched = links.stored[links.targets]
    sources, targets = links.sources[fetched], links.targets[fetched]
    usual = float(relevance[links.stored].mean()) if links.stored.any() else 0.0
    known = np.bincount(sources, minlength=links.urls)
    good = np.bincount(sources, relevance[targets], minlength=links.urls)
    return np.asarray((good + PRIOR_LINKS * usual) / (known + PRIOR_LINKS))


def _alternate(
    method: str,
    links: WebGraph,
    pages: Oids,
    link_weights: tuple[Values, Values],
    options: DistillOptions,
    goes_on: Callable[[], bool],
    *,
    damping: float,
) -> Scores:
    """Rounds of authorities from hubs and hubs from authorities, until nothing changes.

    Of each score, a share of `damping` comes from the round before, and the rest is what the first round gave.
    """
    confer, reflect = _sums(links, pages, link_weights)
    hub, authority = np.full(len(pages), 1.0 / max(len(pages), 1)), np.zeros(len(pages))
    first_authority = normalized(confer(hub))
    first_hub = normalized(reflect(first_authority))
    rounds, change = 0, float(len(links.sources) > 0)
    while change > options.tolerance and rounds < options.max_rounds and goes_on():
        new_authority = damping * normalized(confer(hub)) + (1.0 - damping) * first_authority
        new_hub = damping * normalized(reflect(new_authority)) + (1.0 - damping) * first_hub
        change = float(np.abs(new_hub - hub).sum() + np.abs(new_authority - authority).sum())
        hub, authority = new_hub, new_authority
        rounds += 1
    if not rounds:
        hub = authority
    return Scores(pages, hub, authority, method, rounds, change <= options.tolerance)


def _sums(
    links: WebGraph, pages: Oids, link_weights: tuple[Values, Values]
) -> tuple[Callable[[Values], Values], Callable[[Values], Values]]:
    """What turns hub scores into authorities, and authorities into hub scores: sums over weighted links."""
    conferring, reflecting = link_weights
    if len(links.sources) > FEW_LINKS:
        to_authorities, to_hubs = links.matrix(pages, conferring).T, links.matrix(pages, reflecting)
        return lambda hub: to_authorities @ hub, lambda authority: to_hubs @ authority
    sources, targets = np.searchsorted(pages, links.sources), np.searchsorted(pages, links.targets)
    return (
        lambda hub: np.bincount(targets, conferring * hub[sources], len(pages)).astype(np.float64),
        lambda authority: np.bincount(sources, reflecting * authority[targets], len(pages)).astype(np.float64),
    )


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
    return _one_voice(links, links.hosts)


def _one_voice(links: WebGraph, owners: Numbers) -> tuple[Values, Values]:
    """The same for any owners of URLs, given by oid: hosts or sites."""
    owners_count = int(owners.max(initial=0)) + 1
    conferring = _shares(links.targets.astype(np.int64) * owners_count + owners[links.sources])
    reflecting = _shares(links.sources.astype(np.int64) * owners_count + owners[links.targets])
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
