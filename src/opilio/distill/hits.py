"""HITS on the neighbourhood of a topic, with the weights of Bharat and Henzinger (BINGO 2.5).

The graph is the topic's pages (the base set), all pages they link to, and some that link to them. Links inside one host
are left out. When k pages of a host link to one page, each of these links confers 1/k of the hub's score on it; when a
page links to l pages of a host, each reflects 1/l of its score on the hub. So a host has one voice about a page,
however many of its pages say the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opilio.distill.graph import WebGraph, firsts
from opilio.distill.options import Options
from opilio.distill.scores import Scores, normalized

if TYPE_CHECKING:  # it takes a tenth of a second to import
    from opilio.distill.graph import Flags
    from opilio.distill.scores import Oids, Values


def hits(graph: WebGraph, base: Oids, options: Options | None = None) -> Scores:
    """Hub and authority scores of the pages in the neighbourhood of `base`."""
    options = options or Options()
    chosen = neighbourhood(graph, base, options.max_predecessors)
    pages = np.flatnonzero(chosen)
    links = graph.within(chosen).without_own_praise()
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
    """The base set, its successors, and at most so many predecessors of each of its pages; as a flag by oid.

    Of many predecessors those are taken that link to the most pages of the base set: the likeliest hubs. Of equal ones
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
