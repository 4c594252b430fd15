"""How good a crawl is, in numbers: recall and harvest as curves, figures at chosen points, and what was collected.

All take page numbers in the order of the crawl, each once. A curve has one value for each page fetched: value i is the
measure after i + 1 pages. A crawl that ended early keeps its last value for ever (`value_after`).

The four measures of Best-N-First (BestN 4) are here too: static and dynamic, by words and by links. For a topic, the
pages that any crawler fetched are pooled and ranked, once by words (`lexical_order`) and once by keywords and links
(`linkage_order`); 1 is the best rank. Static: which share of the n best pages a crawler fetched. Dynamic: the mean rank
of the pages it had fetched at each time; lower is better. Ranks always use all that is known in the end, whatever the
crawler could know.

Last, what the judgements of a crawl are worth, by the labels: all that was accepted, the most confident first, by
metric, and model by model. These take arrays over the pages of a crawl in its order; `judged` is their relevance. A
share of nothing is not known: nan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.distill.rankings import pagerank
from opilio.lab.experiments.analysed import Analysed
from opilio.lab.experiments.graph import LinkGraph
from opilio.lab.experiments.records import UNDOUBTED, ModelRun
from opilio.lab.experiments.statistics import standard_error
from opilio.learn.directories import DIRECTORY
from opilio.model import RELEVANT, Judgement

if TYPE_CHECKING:
    import numpy.typing as npt

    Flags: TypeAlias = npt.NDArray[np.bool_]
    Numbers: TypeAlias = npt.NDArray[np.integer]
    Values: TypeAlias = npt.NDArray[np.float64]
    Terms: TypeAlias = Callable[[int], tuple[npt.NDArray[np.uint32], npt.NDArray[np.integer]]]
    """The distinct terms of a page, ascending, and how often each stands there."""

UNKNOWN = float("nan")
_WORDS = frozenset(("collocations", "terms"))
_KINDS: dict[str, Callable[[frozenset[str]], bool]] = {
    "words": lambda said: bool(said & _WORDS),
    "vector": lambda said: "vector" in said and not said & _WORDS,
    "passages": lambda said: "passages" in said and not said & {*_WORDS, "vector"},
    DIRECTORY: lambda said: said == {DIRECTORY},
}
ALONE = tuple(_KINDS)
"""Who can be the only one to speak for a page: each belongs to one of them."""
HARVEST_WINDOW_PAGES = 100
RECALL_SHARE = 0.05
AREA_SHARE = 0.2
COVERED_FROM = math.exp(-1)  # Focus 3.5: log R > -1


def value_after(curve: Values, pages: int) -> float:
    """The value of a curve after a number of pages; of one that ended before, its last; 0 before the first page."""
    if not len(curve) or pages <= 0:
        return 0.0
    return float(curve[min(pages, len(curve)) - 1])


# -- recall


def recall_curve(crawled: Numbers, targets: Collection[int]) -> Values:
    """The share of `targets` among the pages fetched so far (BestN 5.2). All 0 when there are no targets."""
    wanted = np.unique(np.fromiter(targets, np.int64))
    hits = np.isin(crawled, wanted)
    return np.cumsum(hits) / max(len(wanted), 1)


def recall_at_share(crawled: Numbers, targets: Collection[int], web_pages: int, share: float = RECALL_SHARE) -> float:
    """rc5: the recall after fetching a share of the web (5 %, rounded, at least one page)."""
    return value_after(recall_curve(crawled, targets), _pages_of(web_pages, share))


def recall_at_r(crawled: Numbers, targets: Collection[int]) -> float:
    """rc1R: the recall after fetching as many pages as there are targets; 1 for a crawler that makes no mistake."""
    return value_after(recall_curve(crawled, targets), len(set(targets)))


def recall_area(crawled: Numbers, targets: Collection[int], web_pages: int, share: float = AREA_SHARE) -> float:
    """auc: the mean recall over the first share (20 %) of the web, that is after 1, 2, ... pages; 0 to 1."""
    limit = _pages_of(web_pages, share)
    curve = recall_curve(crawled, targets)[:limit]
    if not len(curve):
        return 0.0
    return float(curve.sum() + (limit - len(curve)) * curve[-1]) / limit


def _pages_of(web_pages: int, share: float) -> int:
    return max(1, round(web_pages * share))


def request_recall_curve(crawled: Numbers, targets: Collection[int], requests: Numbers) -> Values:
    """The recall after 1, 2, ... requests. `requests` counts, for each page, those made until it came, with its own.

    Requests after the last page are not known, and not counted.
    """
    recall = np.concatenate(([0.0], recall_curve(crawled, targets)))
    made = np.arange(1, int(requests[-1]) + 1) if len(requests) else np.zeros(0, np.int64)
    return np.asarray(recall[np.searchsorted(requests, made, "right")])


def relevant_sites_curve(crawled: Numbers, targets: Collection[int], hosts: Numbers) -> Values:
    """On how many hosts a target was fetched so far. `hosts` gives the number of the host of each page."""
    hits = np.isin(crawled, np.fromiter(targets, np.int64))
    firsts = np.zeros(len(crawled), bool)
    places = np.flatnonzero(hits)
    firsts[places[np.unique(hosts[crawled[places]], return_index=True)[1]]] = True
    return np.cumsum(firsts).astype(np.float64)


# -- harvest and coverage


def harvest_curve(crawled: Numbers, relevance: Values, window_pages: int = HARVEST_WINDOW_PAGES) -> Values:
    """The mean relevance of the latest `window_pages` pages (Focus 3.4); of all pages while there are fewer.

    `relevance` is by page number: R(p) of a classifier, or 0 and 1.
    """
    sums = np.concatenate(([0.0], np.cumsum(relevance[crawled])))
    ends = np.arange(1, len(crawled) + 1)
    firsts = np.maximum(ends - window_pages, 0)
    return np.asarray((sums[ends] - sums[firsts]) / (ends - firsts))


def harvest_per_curve(
    crawled: Numbers, relevance: Values, spent: Numbers | Values, window_pages: int = HARVEST_WINDOW_PAGES
) -> Values:
    """The relevance of the latest `window_pages` pages, divided by the requests or the seconds spent on them.

    `spent` has, for each page, what was spent until it came: requests that failed or were redirected count too, so by
    requests it is at most `harvest_curve`. All nan when it was not counted.
    """
    if len(spent) != len(crawled):
        return np.full(len(crawled), np.nan)
    sums = np.concatenate(([0.0], np.cumsum(relevance[crawled])))
    made = np.concatenate(([0], spent))
    ends = np.arange(1, len(crawled) + 1)
    firsts = np.maximum(ends - window_pages, 0)
    return np.asarray((sums[ends] - sums[firsts]) / (made[ends] - made[firsts]))


def coverage_curve(
    crawled: Numbers, reference: Numbers, relevance: Values, relevant_from: float = COVERED_FROM
) -> Values:
    """The share of the relevant pages of a reference crawl that a test crawl has fetched too (Focus 3.5).

    The two must have started from disjoint seeds. A page is relevant above `relevant_from`.
    """
    return recall_curve(crawled, reference[relevance[reference] > relevant_from].tolist())


def server_coverage_curve(
    crawled: Numbers, reference: Numbers, relevance: Values, hosts: Numbers, relevant_from: float = COVERED_FROM
) -> Values:
    """The share of the servers with relevant pages in the reference crawl that the test crawl has reached (Focus 3.5).

    `hosts` gives the number of the server of each page.
    """
    wanted = np.unique(hosts[reference[relevance[reference] > relevant_from]])
    met = hosts[crawled]
    firsts = np.zeros(len(met), bool)
    firsts[np.unique(met, return_index=True)[1]] = True
    return np.asarray(np.cumsum(firsts & np.isin(met, wanted)) / max(len(wanted), 1))


def distance_histogram(distance: Numbers, authorities: Iterable[int]) -> dict[int, int]:
    """How many of the best authorities stand how many links from the start set (Focus 3.6).

    `distance` is by page number, as `LinkGraph.distances` gives it; authorities that cannot be reached are under -1.
    """
    values, counts = np.unique(distance[np.fromiter(authorities, np.int64)], return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


# -- against a known list (BINGO 5.2)


@dataclass(frozen=True)
class AtK:
    """The best k results against a list."""

    k: int
    found: int
    """Entries of the list that are found among them."""
    precision: float
    """The share of the k results that stand for an entry, more than one for the same entry included."""
    recall: float
    """The share of the list that is found."""


def against_list(results: Sequence[str], wanted: Collection[str], ks: Sequence[int] = (1000, 5000)) -> list[AtK]:
    """Results, best first, against a list of URLs: an entry is found when a result is it or stands underneath it.

    Underneath is a URL that has the entry's path as a prefix: from there it is a short way up (BINGO 5.2). For all
    results together, give `len(results)` as one of `ks`. Where fewer than k came, precision counts those that came.
    """
    entries = {_folder(url) for url in wanted}
    met = [_above(url, entries) for url in results]
    table = []
    for k in ks:
        hits = [entry for entry in met[:k] if entry]
        found = len(set(hits))
        table.append(AtK(k, found, len(hits) / max(len(met[:k]), 1), found / max(len(entries), 1)))
    return table


def _folder(url: str) -> str:
    return url.rstrip("/") + "/"


def _above(url: str, entries: set[str]) -> str:
    """The longest entry that a URL stands underneath of; '' when there is none."""
    path = _folder(url)
    while path.count("/") > 2:
        if path in entries:
            return path
        path = path[: path.rstrip("/").rfind("/") + 1]
    return ""


# -- what the metrics of a classifier are worth (OASIS 5)


@dataclass(frozen=True)
class MetricGroup:
    """The recommended pages that the same metrics agreed on."""

    pages: int
    relevant: int

    @property
    def precision(self) -> float:
        """The share of them that is relevant; 0 when there are none."""
        return self.relevant / self.pages if self.pages else 0.0


@dataclass(frozen=True)
class Recommendations:
    """What a classifier with several metrics made of the pages of a crawl (OASIS, tables 4 to 8)."""

    evaluated: int
    recommended: MetricGroup
    undoubted: MetricGroup
    """Of those recommended: two or more independent metrics agreed."""
    alone: dict[str, MetricGroup]
    """The others, by the metric that spoke for them, in the order of their names."""
    relevant: int
    """Relevant pages among all evaluated ones."""

    @property
    def recall(self) -> float:
        """The share of the relevant pages that was recommended: exact here, for labels are known."""
        return self.recommended.relevant / self.relevant if self.relevant else 0.0

    @property
    def to_inspect(self) -> int:
        """Pages a person would still have to look at: recommended, but not beyond doubt."""
        return self.recommended.pages - self.undoubted.pages


def recommendations(judgements: Mapping[int, Judgement], is_relevant: Callable[[int], bool]) -> Recommendations:
    """Count judgements by page number; recommended is what is relevant by its judgement."""
    recommended = {page: said for page, said in judgements.items() if said.relevance >= RELEVANT}

    def group(pages: Iterable[int]) -> MetricGroup:
        truths = [is_relevant(page) for page in pages]
        return MetricGroup(len(truths), sum(truths))

    doubted: dict[str, list[int]] = {}
    for page, said in recommended.items():
        if not said.undoubted:
            doubted.setdefault("+".join(sorted(said.agreed)) or "none", []).append(page)
    return Recommendations(
        evaluated=len(judgements),
        recommended=group(recommended),
        undoubted=group(page for page, said in recommended.items() if said.undoubted),
        alone={name: group(pages) for name, pages in sorted(doubted.items())},
        relevant=group(judgements).relevant,
    )


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


# -- judgements


def share(chosen: Flags, of: Flags) -> float:
    """Which share of the pages `of` is among the `chosen`; nan when there are none."""
    return float((chosen & of).sum() / of.sum()) if of.any() else UNKNOWN


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """What the labels say of the pages of a crawl."""

    right: Flags
    """It has the label."""
    telling: Flags
    """It was no example: that a judge accepts those says little of it."""

    def until(self, pages: int) -> LabelCounts:
        """Of the first pages only."""
        return LabelCounts(self.right[:pages], self.telling[:pages])


@dataclass(frozen=True)
class Accuracy:
    """How far what was accepted is right, and what is right was accepted."""

    precision: float
    recall: float


def accuracy(chosen: Flags, counted: LabelCounts) -> Accuracy:
    """Of the pages that were chosen, the share that has the label; and the other way round."""
    return Accuracy(
        share(counted.right, chosen & counted.telling), share(chosen & counted.telling, counted.right & counted.telling)
    )


def accepted(judged: Values) -> Flags:
    """Which pages count as found."""
    return np.asarray(judged >= RELEVANT)


# -- the most confident first (BINGO 5.2, 5.3)


def by_confidence(judged: Values, confidence: Values) -> Numbers:
    """The places of the pages that were accepted, the most confident first; of equal ones the earlier."""
    places = np.flatnonzero(accepted(judged))
    return places[np.argsort(-confidence[places], kind="stable")]


def best_precision(ranked: Flags) -> Values:
    """The share of the best 1, 2, ... pages that has the label; `ranked` says so of each, the best first."""
    return np.asarray(np.cumsum(ranked) / np.arange(1, len(ranked) + 1)) if len(ranked) else np.array([UNKNOWN])


def best_recall(ranked: Flags, targets: int) -> Values:
    """The share of all targets that is among the best 1, 2, ... pages."""
    return np.asarray(np.cumsum(ranked) / max(targets, 1)) if len(ranked) else np.zeros(1)


def first_hit(ranked: Flags, pages: int) -> int:
    """How many of the best pages one must look at until one is right; more than all `pages` fetched when none is."""
    places = np.flatnonzero(ranked)
    return int(places[0]) + 1 if len(places) else pages + 1


# -- by metric (OASIS 5)


def undoubted(judged: Values, votes: Numbers) -> Flags:
    """Which pages were accepted beyond doubt."""
    sure: Flags = votes & UNDOUBTED > 0
    return accepted(judged) & sure


def alone(kind: str, judged: Values, votes: Numbers, metrics: Sequence[str]) -> Flags:
    """Which pages were accepted because of one kind of metric only; the kind is one of ALONE."""
    sets = {
        code: frozenset(name for at, name in enumerate(metrics) if code >> at & 1) for code in np.unique(votes).tolist()
    }
    spoken = np.array([code for code, said in sets.items() if _KINDS[kind](said)], np.int64)
    return accepted(judged) & ~undoubted(judged, votes) & np.isin(votes, spoken)


# -- model by model


def model_accuracy(models: Sequence[ModelRun], counted: LabelCounts) -> list[Accuracy]:
    """Of each model on all pages of the crawl: the same pages for all, whatever was fetched in its time."""
    return [accuracy(accepted(model.relevances), counted) for model in models]


def kept_accuracy(models: Sequence[ModelRun], counted: LabelCounts) -> list[Accuracy]:
    """Of the collection as each model left it: the pages fetched until the next one came, judged by this one."""
    ends = [*(model.pages for model in models[1:]), len(counted.right)]
    return [
        accuracy(accepted(model.relevances[:end]), counted.until(end)) for model, end in zip(models, ends, strict=True)
    ]
