"""Measures of crawls, each against its definition written out by hand."""

from __future__ import annotations

import math
from collections import Counter

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluate_standin import make_analysed, terms_of, url_of
from opilio.analyze.terms import term_ids
from opilio.distill.rankings import pagerank
from opilio.lab.experiments import measures
from opilio.lab.experiments.graph import UNREACHABLE, LinkGraph
from opilio.model import Judgement

PAGES = 30
orders = st.lists(st.integers(0, PAGES - 1), unique=True).map(lambda pages: np.array(pages, np.int64))
page_sets = st.sets(st.integers(0, PAGES - 1))
relevances = st.lists(st.sampled_from([0.0, 0.3, 0.5, 1.0]), min_size=PAGES, max_size=PAGES).map(np.array)
webs = st.lists(st.lists(st.integers(0, PAGES - 1), max_size=5), min_size=PAGES, max_size=PAGES)


# -- recall, harvest, coverage


@given(orders, page_sets)
def test_recall_counts_targets(crawled: np.ndarray, targets: set[int]) -> None:
    """The curve after n pages is the share of the targets among them."""
    curve = measures.recall_curve(crawled, targets)
    for n in range(1, len(crawled) + 1):
        expected = len(targets.intersection(crawled[:n].tolist())) / len(targets) if targets else 0.0
        assert curve[n - 1] == pytest.approx(expected)
    assert len(curve) == len(crawled)


@given(orders, page_sets.filter(bool), st.integers(PAGES, 400))
def test_recall_at_points(crawled: np.ndarray, targets: set[int], web_pages: int) -> None:
    """rc5, rc1R and auc from the definitions: recall after k pages, a crawl that ended early keeping its last."""

    def recall(pages: int) -> float:
        return len(targets.intersection(crawled[:pages].tolist())) / len(targets)

    assert measures.recall_at_share(crawled, targets, web_pages) == pytest.approx(
        recall(max(1, round(0.05 * web_pages)))
    )
    assert measures.recall_at_r(crawled, targets) == pytest.approx(recall(len(targets)))
    limit = max(1, round(0.2 * web_pages))
    area = sum(recall(pages) for pages in range(1, limit + 1)) / limit
    assert measures.recall_area(crawled, targets, web_pages) == pytest.approx(area)


@given(orders, page_sets, st.lists(st.integers(0, 4), min_size=PAGES, max_size=PAGES))
def test_recall_after_requests(crawled: np.ndarray, targets: set[int], failed: list[int]) -> None:
    """After n requests, the recall is that of the pages that had come by then."""
    requests = np.cumsum(np.array(failed[: len(crawled)], np.int64) + 1)
    curve = measures.request_recall_curve(crawled, targets, requests)
    assert len(curve) == sum(failed[: len(crawled)]) + len(crawled)
    for made in range(1, len(curve) + 1):
        came = [page for page, number in zip(crawled.tolist(), requests.tolist(), strict=True) if number <= made]
        assert curve[made - 1] == pytest.approx(len(targets & set(came)) / max(1, len(targets)))


@given(orders, relevances, st.lists(st.integers(0, 4), min_size=PAGES, max_size=PAGES), st.integers(1, 12))
def test_harvest_per_request(crawled: np.ndarray, relevance: np.ndarray, failed: list[int], window: int) -> None:
    """The relevance of the latest pages is divided by the requests for them; without failures it is the harvest."""
    extra = failed[: len(crawled)]
    curve = measures.harvest_per_curve(crawled, relevance, np.cumsum(np.array(extra, np.int64) + 1), window)
    for n in range(1, len(crawled) + 1):
        first = max(0, n - window)
        expected = sum(relevance[page] for page in crawled[first:n]) / (n - first + sum(extra[first:n]))
        assert curve[n - 1] == pytest.approx(expected)
    plain = measures.harvest_per_curve(crawled, relevance, np.arange(1, len(crawled) + 1), window)
    assert plain == pytest.approx(measures.harvest_curve(crawled, relevance, window))


def test_without_counted_requests_there_is_no_harvest_per_request() -> None:
    """A crawl of another program, whose requests are not counted page by page, has no value."""
    assert np.isnan(measures.harvest_per_curve(np.array([1, 2]), np.ones(3), np.zeros(0, np.int64))).all()


@given(orders, page_sets, st.lists(st.integers(0, 5), min_size=PAGES, max_size=PAGES))
def test_relevant_sites(crawled: np.ndarray, targets: set[int], hosts: list[int]) -> None:
    """A host counts from the first target on it that is fetched."""
    curve = measures.relevant_sites_curve(crawled, targets, np.array(hosts))
    for n in range(1, len(crawled) + 1):
        assert curve[n - 1] == len({hosts[page] for page in crawled[:n].tolist() if page in targets})


@given(orders, relevances, st.integers(1, 12))
def test_harvest_is_a_moving_average(crawled: np.ndarray, relevance: np.ndarray, window: int) -> None:
    """Each value is the mean relevance of the latest pages, as many as the window holds or there are."""
    curve = measures.harvest_curve(crawled, relevance, window)
    for n in range(1, len(crawled) + 1):
        latest = crawled[max(0, n - window) : n]
        assert curve[n - 1] == pytest.approx(sum(relevance[page] for page in latest) / len(latest), abs=1e-12)


@given(orders, orders, relevances, st.integers(1, 7))
def test_coverage_of_a_reference_crawl(
    crawled: np.ndarray, reference: np.ndarray, relevance: np.ndarray, servers: int
) -> None:
    """Shares of the relevant URLs, and of the servers they are on, that the test crawl has met."""
    hosts = np.arange(PAGES) % servers
    relevant = {page for page in reference.tolist() if relevance[page] > math.exp(-1)}
    curve = measures.coverage_curve(crawled, reference, relevance)
    of_servers = measures.server_coverage_curve(crawled, reference, relevance, hosts)
    for n in range(1, len(crawled) + 1):
        met = set(crawled[:n].tolist())
        assert curve[n - 1] == pytest.approx(len(met & relevant) / max(len(relevant), 1))
        wanted = {page % servers for page in relevant}
        assert of_servers[n - 1] == pytest.approx(len(wanted & {page % servers for page in met}) / max(len(wanted), 1))


# -- graphs


def as_networkx(links: list[list[int]]) -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(links)))
    graph.add_edges_from((page, link) for page, row in enumerate(links) for link in row)
    return graph


@settings(max_examples=40)
@given(webs)
def test_pagerank_agrees_with_networkx(links: list[list[int]]) -> None:
    """Repeated links, links to oneself and pages without links included."""
    found = pagerank(LinkGraph.of(make_analysed(links)).within())
    expected = networkx.pagerank(as_networkx(links), tol=1e-12, max_iter=1000)
    assert found == pytest.approx([expected[page] for page in range(PAGES)], abs=1e-8)


@settings(max_examples=40)
@given(webs, page_sets)
def test_pagerank_of_a_pool_knows_its_links_only(links: list[list[int]], pool: set[int]) -> None:
    """Pages outside the pool have none, and their links do not count."""
    pages = np.array(sorted(pool), np.int64)
    found = measures.pool_pagerank(LinkGraph.of(make_analysed(links)), pages)
    inside = networkx.pagerank(as_networkx(links).subgraph(pool), tol=1e-12, max_iter=1000) if pool else {}
    assert found == pytest.approx([inside.get(page, 0.0) for page in range(PAGES)], abs=1e-8)


@settings(max_examples=40)
@given(webs, page_sets)
def test_distances_agree_with_networkx(links: list[list[int]], start_set: set[int]) -> None:
    """The least number of links from any start; the histogram counts authorities by it."""
    graph = LinkGraph.of(make_analysed(links))
    expected = networkx.multi_source_dijkstra_path_length(as_networkx(links), start_set) if start_set else {}
    distance = graph.distances(start_set)
    assert distance.tolist() == [expected.get(page, UNREACHABLE) for page in range(PAGES)]
    authorities = range(0, PAGES, 2)
    assert measures.distance_histogram(distance, authorities) == dict(Counter(distance[list(authorities)].tolist()))
    back = graph.backwards()
    turned = {(link, page) for page, row in enumerate(links) for link in row}
    assert {(page, link) for page in range(PAGES) for link in back.links_of(page).tolist()} == turned


def test_links_to_redirects_count_as_links_to_their_ends() -> None:
    """A chain is followed to its end; a circle, a redirect to nowhere and an unknown URL lead nowhere."""
    links = [[1, 3, 5, 6, "http://unknown.test/"], [], [], [], [], [], []]
    redirects = {1: url_of(2), 3: url_of(1), 5: url_of(6), 6: url_of(5)}
    graph = LinkGraph.of(make_analysed(links, redirects=redirects | {4: "http://gone.test/"}))
    assert graph.targets.tolist() == [2, 2, -1, -1, -1]


# -- Best-N-First's four


def words_of(rng: np.random.Generator) -> str:
    return " ".join(rng.choice(["bird", "car", "tree", "song", "wheel", "leaf", "rain", "road"], rng.integers(0, 9)))


def brute_cosines(analysed, pool, query: str) -> dict[int, float]:  # type: ignore[no-untyped-def]
    frequencies = Counter(term for page in pool for term in terms_of(analysed, page))

    def weigh(counts: dict[int, int]) -> dict[int, float]:
        known = {term: n for term, n in counts.items() if term in frequencies}
        return {term: (1 + math.log(n)) * math.log(len(pool) / frequencies[term]) for term, n in known.items()}

    def length(vector: dict[int, float]) -> float:
        return math.sqrt(sum(weight**2 for weight in vector.values()))

    wanted = weigh(Counter(term_ids(query)))
    cosines = {}
    for page in pool:
        vector = weigh(terms_of(analysed, page))
        product = sum(weight * wanted.get(term, 0.0) for term, weight in vector.items())
        cosines[page] = product / (length(vector) * length(wanted)) if length(vector) * length(wanted) else 0.0
    return cosines


@pytest.mark.parametrize("seed", range(5))
def test_lexical_ranks_go_by_the_cosine(seed: int) -> None:
    """The order is that of tf*idf cosines worked out term by term, idf counted over the pool."""
    rng = np.random.default_rng(seed)
    analysed = make_analysed([[]] * PAGES, words=[words_of(rng) for _ in range(PAGES)])
    pool = rng.choice(PAGES, 20, replace=False)
    order = measures.lexical_order(pool, measures.terms_in(analysed), term_ids("bird song bird ocean"))
    cosines = brute_cosines(analysed, sorted(pool.tolist()), "bird song bird ocean")
    assert sorted(order.tolist()) == sorted(pool.tolist())
    along = [cosines[page] for page in order.tolist()]
    assert along == pytest.approx(sorted(along, reverse=True), abs=1e-12)
    assert along[0] > along[-1]


def test_linkage_ranks_go_by_keywords_then_popularity() -> None:
    """More different keywords first, however often they stand there; then the greater PageRank; then the number."""
    words = ["bird", "bird song", "bird bird bird", "car", "song", "bird"]
    analysed = make_analysed([[]] * 6, words=words)
    popularity = np.array([0.1, 0.01, 0.2, 0.9, 0.2, 0.1])
    order = measures.linkage_order(np.arange(6), measures.terms_in(analysed), term_ids("bird song"), popularity)
    assert order.tolist() == [1, 2, 4, 0, 5, 3]


@given(st.permutations(range(PAGES)), orders)
def test_static_and_dynamic_curves(ranked: list[int], crawled: np.ndarray) -> None:
    """Static: share of the n best pages fetched. Dynamic: mean rank of the pages fetched by then."""
    order = np.array(ranked)
    static, dynamic = measures.static_curve(crawled, order), measures.dynamic_curve(crawled, order)
    met = set(crawled.tolist())
    assert static == pytest.approx([len(met & set(ranked[:n])) / n for n in range(1, PAGES + 1)])
    ranks = [ranked.index(page) + 1 for page in crawled.tolist()]
    assert dynamic == pytest.approx([sum(ranks[:n]) / n for n in range(1, len(ranks) + 1)])


def test_four_measures_over_topics() -> None:
    """A crawler that fetched the best pages of the pool leads in all four; PageRank is that of the pool of all topics."""
    words = ["bird song", "bird", "car", "road", "tree leaf", "tree", "rain", ""]
    analysed = make_analysed([[1], [0], [0], [1], [5], [4], [5], []], words=words)
    topics = [
        measures.PooledTopic(
            {"good": np.array([0, 1]), "poor": np.array([2, 3])}, term_ids("bird song"), term_ids("bird")
        ),
        measures.PooledTopic(
            {"good": np.array([4, 5]), "poor": np.array([6])}, term_ids("tree leaf"), term_ids("tree")
        ),
    ]
    found = measures.four_measures(topics, measures.terms_in(analysed), LinkGraph.of(analysed))
    good, poor = found["good"], found["poor"]
    assert good.static_lexical.mean[:2] == pytest.approx([1.0, 1.0])
    assert poor.static_lexical.mean[:3] == pytest.approx([0.0, 0.0, (1 / 3 + 1 / 3) / 2])
    assert good.dynamic_lexical.mean == pytest.approx([1.0, 1.5])
    assert poor.dynamic_lexical.mean == pytest.approx([3.0, (3.5 + 3.0) / 2]), "the crawl that ended keeps its value"
    assert poor.dynamic_lexical.standard_error == pytest.approx([0.0, 0.25])
    assert good.dynamic_linkage.mean[-1] < poor.dynamic_linkage.mean[-1]
    assert (good.static_linkage.topics, len(good.static_linkage.mean)) == (2, 4)


# -- lists and metrics


def test_against_a_list() -> None:
    """An entry is found when a result is it or stands underneath it, whatever the slash at its end."""
    wanted = ["http://a.test/~gray", "http://b.test/dewitt/", "http://c.test/"]
    results = [
        "http://a.test/~gray/papers/x.pdf", "http://a.test/~grayson", "http://b.test/dewitt", "http://a.test/~gray/",
        "http://c.test/any", "http://cc.test/",
    ]  # fmt: skip
    first, second, all_of_them = measures.against_list(results, wanted, (1, 4, 100))
    assert (first.found, first.precision, first.recall) == (1, 1.0, pytest.approx(1 / 3))
    assert (second.found, second.precision, second.recall) == (2, 0.75, pytest.approx(2 / 3))
    assert (all_of_them.found, all_of_them.precision, all_of_them.recall) == (3, pytest.approx(4 / 6), 1.0)


@given(
    st.dictionaries(
        st.integers(0, 50),
        st.tuples(st.sampled_from([0.0, 0.49, 0.5, 1.0]), st.sets(st.sampled_from(["vsm", "dpp"])), st.booleans()),
    )
)
def test_metric_groups_add_up(said: dict[int, tuple[float, set[str], bool]]) -> None:
    """Every recommended page is undoubted or in one group; precision and recall are those of the labels."""
    judgements = {
        page: Judgement(0, relevance >= 0.5, relevance, agreed=sorted(agreed), undoubted=len(agreed) > 1)
        for page, (relevance, agreed, _) in said.items()
    }
    truth = {page for page, (_, _, true) in said.items() if true}
    report = measures.recommendations(judgements, truth.__contains__)
    recommended = {page for page, (relevance, _, _) in said.items() if relevance >= 0.5}
    assert (report.evaluated, report.recommended.pages) == (len(said), len(recommended))
    assert report.undoubted.pages + sum(group.pages for group in report.alone.values()) == len(recommended)
    assert report.undoubted.relevant + sum(group.relevant for group in report.alone.values()) == len(
        recommended & truth
    )
    assert report.to_inspect == report.recommended.pages - report.undoubted.pages
    assert report.recall == pytest.approx(len(recommended & truth) / len(truth) if truth else 0.0)
    for name, group in report.alone.items():
        members = {page for page in recommended if ("+".join(sorted(said[page][1])) or "none") == name}
        assert group.precision == pytest.approx(len(members & truth) / len(members))
