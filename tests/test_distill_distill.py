"""`distill` as a whole: PageRank, topics and base sets, what the best hubs recommend."""

from collections.abc import Iterator

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distill_webs import URLS, Web, webs
from opilio.distill import METHODS, DistillOptions, Scores, WebGraph, distill, listing, neglected
from opilio.errors import InputError
from opilio.store import Store

TOPICS = [
    (0, None, "", "path"),
    (1, 0, "Birds", "good"),
    (2, 1, "Birds / Owls", "subsumed"),
    (3, 0, "Cars", "null"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.create(tmp_path_factory.mktemp("distill")) as store:
        yield store


# -- PageRank


@settings(max_examples=40)
@given(web=webs(), damping=st.sampled_from([0.5, 0.85, 0.95]), unvisited=st.booleans())
def test_pagerank_agrees_with_networkx(store: Store, web: Web, damping: float, unvisited: bool) -> None:
    """Over stored pages or all known ones; pages without links, links to oneself, redirects and duplicates included."""
    merged = web.redirects.keys() | web.duplicates.keys()
    pages = [p for p in range(URLS) if p not in merged and (unvisited or p not in web.waiting)]
    graph = networkx.DiGraph()
    graph.add_nodes_from(pages)
    graph.add_edges_from((u, v) for u, v in web.edges() if u in pages and v in pages)
    options = DistillOptions(damping=damping, unvisited=unvisited, tolerance=1e-12, max_rounds=2000)
    found = distill(web.fill(store), method="pagerank", options=options)
    expected = networkx.pagerank(graph, alpha=damping, tol=1e-13, max_iter=5000) if pages else {}
    assert found.oids.tolist() == pages
    assert found.authority == pytest.approx([expected[p] for p in pages], abs=1e-9)
    assert found.top_hubs() == []


def test_a_page_that_redirects_now_has_no_rank(store: Store) -> None:
    """Its old form is still stored, but links to it count for where it leads."""
    web = Web([0, 1, 2], [(0, 1)], redirects={1: 2})
    web.fill(store)
    with store.writing() as to:
        to.execute("INSERT INTO pages (oid, visited) VALUES (1, '2024-01-01')")
    assert [page.oid for page in distill(store, method="pagerank").top_authorities()] == [2, 0]


def test_pagerank_of_a_topic_is_of_the_whole_graph(store: Store) -> None:
    """Links from pages of all topics count; the topic only chooses whose ranks are given."""
    web = Web([0, 1, 2, 3], [(0, 1), (2, 1), (1, 3)], kcid=[1, 1, 3, 3], accepted=[True] * 4, topics=TOPICS)
    everything = distill(web.fill(store), method="pagerank")
    birds = distill(store, "Birds", "pagerank")
    assert birds.oids.tolist() == [0, 1]
    assert birds.authority.tolist() == everything.authority[:2].tolist()


# -- topics and base sets


def pages_with_links(kcid: list[int], accepted: list[bool]) -> Web:
    """Four pages that each link to a page of their own, of another host, which is fetched but in no topic."""
    links = [(page, page + 4) for page in range(4)]
    return Web(list(range(8)), links, kcid=[*kcid, 0, 0, 0, 0], accepted=[*accepted, *[False] * 4], topics=TOPICS)


@pytest.mark.parametrize(
    ("topic", "base"),
    [(None, {0, 1}), ("birds", {0, 1}), ("Birds/Owls", {1}), (3, {2}), ("/", {0, 1, 2})],
)
def test_the_base_set_is_what_the_topic_accepted(store: Store, topic: str | int | None, base: set[int]) -> None:
    """With all below it; without a topic, the wanted ones. Page 3 was judged to be in OTHERS below Birds."""
    web = pages_with_links([1, 2, 3, 1], [True, True, True, False])
    found = distill(web.fill(store), topic)
    assert set(found.oids.tolist()) == base | {page + 4 for page in base}


def test_the_latest_judgement_counts(store: Store) -> None:
    """A page that was fetched again and rejected by the same model leaves the base set; older models have no say."""
    web = pages_with_links([1, 1, 1, 1], [True, False, False, False])
    web.fill(store)
    with store.writing() as to:
        columns = (
            "INSERT INTO judgements (oid, model_version, kcid, accepted, relevance, confidence, undoubted) VALUES "
        )
        to.execute(
            columns + "(0, 1, 1, false, 0, 0, false), (1, 1, 1, true, 1, 1, false), (2, 0, 1, true, 1, 1, false)"
        )
    assert distill(store, "Birds").oids.tolist() == [1, 5]


def test_without_judgements_all_pages_are_meant(store: Store) -> None:
    """A crawl without a classifier has hubs too; a topic that was named has no pages then."""
    web = Web([0, 1, 2], [(0, 1), (2, 1)], topics=TOPICS)
    assert [page.oid for page in distill(web.fill(store)).top_authorities()] == [1]
    assert len(distill(store, "Birds")) == 0


def test_given_pages_are_the_base_set(store: Store) -> None:
    """In any order and more than once; a redirected one stands for its target, an unknown one for nothing."""
    web = Web([0, 1, 2, 3], [(0, 1), (2, 1)], redirects={3: 2})
    found = distill(web.fill(store), base=[3, 3, 999], options=DistillOptions(max_predecessors=0))
    assert found.oids.tolist() == [1, 2]
    with pytest.raises(InputError, match="relevance"):
        distill(store, method="focus", base=[0])


def test_a_graph_serves_several_topics(store: Store) -> None:
    """Scores from a graph loaded before are those of a fresh one."""
    web = pages_with_links([1, 2, 3, 1], [True, True, True, True])
    graph = WebGraph.of(web.fill(store))
    for topic in ("Birds", "Cars"):
        for method in ("hits", "pagerank"):
            ready, fresh = distill(store, topic, method, graph=graph), distill(store, topic, method)
            assert ready.oids.tolist() == fresh.oids.tolist()
            assert ready.authority.tolist() == fresh.authority.tolist()


@pytest.mark.parametrize("method", METHODS)
def test_the_same_again(store: Store, method: str) -> None:
    """Two calls give the same scores to the last bit."""
    rng = np.random.default_rng(3)
    links = [tuple(pair) for pair in rng.integers(0, 40, (300, 2)).tolist()]
    web = Web(rng.integers(0, 9, 40).tolist(), links, relevance=rng.random(40).tolist())
    first, second = distill(web.fill(store), method=method), distill(store, method=method)
    assert len(first)
    assert first.authority.tobytes() == second.authority.tobytes()
    assert first.hub.tobytes() == second.hub.tobytes()


def test_what_does_not_exist(store: Store) -> None:
    """A wrong method or topic is named, with what there is."""
    Web([0], topics=TOPICS).fill(store)
    with pytest.raises(InputError, match="salsa") as wrong:
        distill(store, method="salsa")
    assert "hits, focus, pagerank" in wrong.value.hint
    with pytest.raises(InputError, match="Bird") as wrong:
        distill(store, "Bird")
    assert "Birds" in wrong.value.hint
    with pytest.raises(InputError, match="77"):
        distill(store, 77)


# -- the best


@given(st.lists(st.sampled_from([0.0, 0.1, 0.2, 0.3])), st.integers(0, 9))
def test_top_is_sorted(values: list[float], n: int) -> None:
    """Best first, of equal ones the smaller oid, none with 0."""
    oids = np.arange(len(values), dtype=np.int64) * 10
    scores = Scores(oids, np.array(values), np.zeros(len(values)))
    expected = sorted((-value, at * 10) for at, value in enumerate(values) if value)
    assert [(page.oid, page.score) for page in scores.top_hubs(n)] == [(oid, -minus) for minus, oid in expected[:n]]
    assert scores.top_authorities(n) == []


def test_listing_names_the_pages(store: Store) -> None:
    """Title, URL and state of the best; one that waits has no title."""
    web = Web([0, 1, 2], [(0, 1), (0, 2)], waiting=frozenset([2]))
    told = listing(web.fill(store), distill(store, method="hits"), 5)
    assert [(page["oid"], page["title"], page["url"]) for page in told["hubs"]] == [(0, "page 0", "http://h0.org/0")]
    assert {(page["oid"], page["state"], page["title"]) for page in told["authorities"]} == {
        (1, "fetched", "page 1"),
        (2, "waiting", ""),
    }


# -- neglected


@settings(max_examples=40)
@given(
    web=webs(),
    hub=st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.4, 0.9]), min_size=URLS, max_size=URLS),
    percentile=st.sampled_from([0.0, 0.5, 0.9]),
)
def test_neglected_urls(store: Store, web: Web, hub: list[float], percentile: float) -> None:
    """Against going through all links: waiting, cited by great hubs of other hosts, with number and sum of these."""
    positive = [score for score in hub if score]
    limit = np.quantile(positive, percentile) if positive else 1.0
    cited: dict[int, list[float]] = {}
    for u, v in sorted(web.edges()):
        if v in web.waiting and web.hosts[u] != web.hosts[v] and hub[u] > limit:
            cited.setdefault(v, []).append(hub[u])
    scores = Scores(np.arange(URLS), np.array(hub), np.zeros(URLS))
    found = neglected(web.fill(store), scores, percentile)
    assert {row.oid: (row.hubs, row.best_hub_score) for row in found} == {
        v: (len(by), max(by)) for v, by in cited.items()
    }
    assert {row.oid: row.hub_score for row in found} == pytest.approx({v: sum(by) for v, by in cited.items()})
    assert found == sorted(found, key=lambda row: (-row.hub_score, row.oid))
    assert all(row.url == f"http://h{web.hosts[row.oid]}.org/{row.oid}" for row in found)


def test_neglected_urls_that_were_tried_are_not_listed(store: Store) -> None:
    """One that waits for another try is not neglected; the limit cuts the list."""
    web = Web([0, 1, 2, 3], [(0, 1), (0, 2), (0, 3)], waiting=frozenset([1, 2, 3]))
    web.fill(store)
    with store.writing() as to:
        to.execute("UPDATE crawl SET numtries = 1 WHERE oid = 2")
    scores = Scores(np.arange(2), np.array([0.8, 0.2]), np.zeros(2))
    assert [row.oid for row in neglected(store, scores)] == [1, 3]
    assert [row.oid for row in neglected(store, scores, limit=1)] == [1]
    assert neglected(store, Scores(np.arange(2), np.zeros(2), np.zeros(2))) == []
