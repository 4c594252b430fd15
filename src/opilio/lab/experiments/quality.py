"""The four measures of Best-N-First: static and dynamic, by words and by links, over all crawlers' pages (BestN 4).

For a topic, the pages that any crawler fetched are pooled and ranked, once by words (`lexical_order`) and once by
keywords and links (`linkage_order`); 1 is the best rank. Static: which share of the n best pages a crawler fetched.
Dynamic: the mean rank of the pages it had fetched at each time; lower is better. Ranks always use all that is known in
the end, whatever the crawler could know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.distill.rankings import pagerank
from opilio.lab.experiments.analysed import Analysed
from opilio.lab.experiments.graph import LinkGraph
from opilio.lab.experiments.statistics import standard_error

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers: TypeAlias = npt.NDArray[np.integer]
    Values: TypeAlias = npt.NDArray[np.float64]
    Terms: TypeAlias = Callable[[int], tuple[npt.NDArray[np.uint32], npt.NDArray[np.integer]]]
    """The distinct terms of a page, ascending, and how often each stands there."""


def terms_in(analysed: Analysed) -> Terms:
    """The terms of the pages of a web; a page without a document has none."""

    def terms(page: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.integer]]:
        document = analysed.documents[page]
        if document is None:
            return np.zeros(0, np.uint32), np.zeros(0, np.uint16)
        return np.frombuffer(document.term_ids, "<u4"), np.frombuffer(document.term_counts, "<u2")

    return terms


# -- ranks


def lexical_order(pool: Numbers, terms: Terms, description: Sequence[int]) -> Numbers:
    """The pages of the pool, the one most like the description first (rank SMART).

    A page and the description are vectors with (1 + ln tf) * ln(N / df) for each term, df counted over the N pages of
    the pool; their likeness is the cosine. Of equal pages the smaller number comes first.
    """
    pages = np.unique(pool)
    query_ids, query_counts = np.unique(np.asarray(description, np.uint32), return_counts=True)
    vectors = [terms(page) for page in pages.tolist()]
    ids, frequencies = np.unique(np.concatenate([np.zeros(0, np.uint32), *(v[0] for v in vectors)]), return_counts=True)
    idf = np.log(len(pages) / frequencies)
    known = np.isin(query_ids, ids)
    query_ids, query = query_ids[known], 1.0 + np.log(query_counts[known])
    query *= idf[np.searchsorted(ids, query_ids)]
    scores = np.array([_cosine(vector, ids, idf, query_ids, query) for vector in vectors])
    return pages[np.lexsort((pages, -scores))]


def _cosine(
    vector: tuple[npt.NDArray[np.uint32], npt.NDArray[np.integer]],
    ids: npt.NDArray[np.uint32],
    idf: Values,
    query_ids: npt.NDArray[np.uint32],
    query: Values,
) -> float:
    """The cosine of a page and the query; 0 when either has nothing to compare. The query's length does not matter for
    an order, but makes scores of one topic readable."""
    page_ids, counts = vector
    weights = (1.0 + np.log(counts)) * idf[np.searchsorted(ids, page_ids)]
    length = float(np.linalg.norm(weights)) * float(np.linalg.norm(query))
    if not length:
        return 0.0
    _, mine, theirs = np.intersect1d(page_ids, query_ids, assume_unique=True, return_indices=True)
    return float(weights[mine] @ query[theirs]) / length


def linkage_order(pool: Numbers, terms: Terms, keywords: Sequence[int], popularity: Values) -> Numbers:
    """The pages of the pool by how many of the topic's keywords they contain, then by PageRank (rank KW,PR).

    `popularity` is by page number: PageRank over the pages of all topics and crawlers (`pool_pagerank`). Of equal pages
    the smaller number comes first.
    """
    pages = np.unique(pool)
    wanted = np.unique(np.asarray(keywords, np.uint32))
    contained = np.array([np.isin(wanted, terms(page)[0]).sum() for page in pages.tolist()], np.int64)
    return pages[np.lexsort((pages, -popularity[pages], -contained))]


def pool_pagerank(graph: LinkGraph, pool: Numbers) -> Values:
    """The PageRank, by page number, over the links among the pages of a pool; 0 for pages that are not in it."""
    pages = np.unique(pool)
    ranks = np.zeros(len(graph))
    ranks[pages] = pagerank(graph.within(pages))
    return ranks


# -- static and dynamic


def static_curve(crawled: Numbers, order: Numbers) -> Values:
    """The share of the n best pages that a crawler fetched, for n = 1, 2, ... to all pages of the pool."""
    return np.asarray(np.cumsum(np.isin(order, crawled)) / np.arange(1, len(order) + 1))


def dynamic_curve(crawled: Numbers, order: Numbers) -> Values:
    """The mean rank of the pages fetched after 1, 2, ... pages. All of them must be in the order."""
    ranks = np.zeros(int(max(order, default=-1)) + 1)
    ranks[order] = np.arange(1, len(order) + 1)
    return np.asarray(np.cumsum(ranks[crawled]) / np.arange(1, len(crawled) + 1))


# -- over topics


@dataclass(frozen=True, eq=False)
class MeanCurve:
    """A measure as a function of pages, over topics."""

    mean: Values
    standard_error: Values
    topics: int


def mean_curve(curves: Sequence[Values]) -> MeanCurve:
    """The mean of curves over topics, with standard errors; a curve that ends early keeps its last value.

    One without any value (a crawl that fetched nothing) counts as 0 throughout.
    """
    length = max((len(curve) for curve in curves), default=0)
    table = np.zeros((len(curves), length))
    for row, curve in zip(table, curves, strict=True):
        row[: len(curve)] = curve
        row[len(curve) :] = curve[-1] if len(curve) else 0.0
    mean = table.mean(axis=0) if len(curves) else np.zeros(0)
    return MeanCurve(mean, standard_error(table), len(curves))


@dataclass(frozen=True, eq=False)
class PooledTopic:
    """What the four measures need of a topic."""

    crawls: Mapping[str, Numbers]
    """The pages fetched by each crawler, in its order."""
    description: Sequence[int]
    """The terms by which pages are ranked by words."""
    keywords: Sequence[int]

    @property
    def pool(self) -> Numbers:
        """The pages that any crawler fetched."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *self.crawls.values()]))


@dataclass(frozen=True)
class FourMeasures:
    """One crawler, over all topics."""

    static_lexical: MeanCurve
    dynamic_lexical: MeanCurve
    static_linkage: MeanCurve
    dynamic_linkage: MeanCurve


def four_measures(topics: Sequence[PooledTopic], terms: Terms, graph: LinkGraph) -> dict[str, FourMeasures]:
    """The measures of each crawler. PageRank is found once, over the pages of all topics and crawlers."""
    everything = np.unique(np.concatenate([np.zeros(0, np.int64), *(topic.pool for topic in topics)]))
    popularity = pool_pagerank(graph, everything)
    curves: dict[str, list[list[Values]]] = {}
    for topic in topics:
        lexical = lexical_order(topic.pool, terms, topic.description)
        linkage = linkage_order(topic.pool, terms, topic.keywords, popularity)
        for crawler, crawled in topic.crawls.items():
            found = curves.setdefault(crawler, [[], [], [], []])
            for order, (static, dynamic) in ((lexical, found[:2]), (linkage, found[2:])):
                static.append(static_curve(crawled, order))
                dynamic.append(dynamic_curve(crawled, order))
    return {crawler: FourMeasures(*map(mean_curve, found)) for crawler, found in curves.items()}
