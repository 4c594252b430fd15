"""HITS with the weights of Bharat and Henzinger, against other implementations and the paper's words."""

from collections.abc import Iterator

import networkx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from distill_webs import URLS, Web, webs
from opilio.distill import DistillOptions, WebGraph
from opilio.distill.rankings import hits, neighbourhood, weights
from opilio.store import Store

ALL = np.arange(URLS)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.create(tmp_path_factory.mktemp("hits")) as store:
        yield store


def paper_weights(web: Web, edges: set[tuple[int, int]]) -> tuple[dict, dict]:
    """k and l counted edge by edge, as Bharat and Henzinger say it."""
    conferring, reflecting = {}, {}
    for u, v in edges:
        k = sum(1 for x, y in edges if y == v and web.hosts[x] == web.hosts[u])
        l = sum(1 for x, y in edges if x == u and web.hosts[y] == web.hosts[v])  # noqa: E741
        conferring[u, v], reflecting[u, v] = 1 / k, 1 / l
    return conferring, reflecting


def transverse(web: Web) -> set[tuple[int, int]]:
    return {(u, v) for u, v in web.edges() if web.hosts[u] != web.hosts[v]}


@settings(max_examples=30)
@given(web=webs())
def test_weights_are_those_of_the_paper(store: Store, web: Web) -> None:
    """1/k and 1/l of each link against counting all other links."""
    links = WebGraph.of(web.fill(store)).between_hosts()
    conferring, reflecting = paper_weights(web, transverse(web))
    pairs = list(zip(links.sources.tolist(), links.targets.tolist(), strict=True))
    found = weights(links)
    assert dict(zip(pairs, found[0].tolist(), strict=True)) == pytest.approx(conferring)
    assert dict(zip(pairs, found[1].tolist(), strict=True)) == pytest.approx(reflecting)


@settings(max_examples=30)
@given(web=webs(), rounds=st.integers(1, 30))
def test_scores_after_some_rounds(store: Store, web: Web, rounds: int) -> None:
    """Against the same rounds over a Python dictionary; links inside a host and circles of redirects have no part."""
    found = hits(WebGraph.of(web.fill(store)), ALL, DistillOptions(max_rounds=rounds, tolerance=0.0))
    edges = transverse(web)
    conferring, reflecting = paper_weights(web, edges)
    hub, authority = dict.fromkeys(range(URLS), 1.0 if edges else 0.0), dict.fromkeys(range(URLS), 0.0)
    for _ in range(rounds if edges else 0):
        authority = {p: sum(hub[u] * conferring[u, v] for u, v in edges if v == p) for p in range(URLS)}
        authority = {p: score / sum(authority.values()) for p, score in authority.items()}
        hub = {p: sum(authority[v] * reflecting[u, v] for u, v in edges if u == p) for p in range(URLS)}
        hub = {p: score / sum(hub.values()) for p, score in hub.items()}
    assert found.oids.tolist() == ALL.tolist()
    assert found.hub == pytest.approx(list(hub.values()), abs=1e-12)
    assert found.authority == pytest.approx(list(authority.values()), abs=1e-12)


@settings(max_examples=30)
@given(web=webs(merging=False, own_hosts=True))
def test_hits_agrees_with_networkx(store: Store, web: Web) -> None:
    """When each page has a host of its own, all weights are 1 and this is Kleinberg's HITS."""
    edges = transverse(web)
    graph = networkx.DiGraph(sorted(edges))
    assume(edges)
    matrix = np.zeros((URLS, URLS))
    for u, v in edges:
        matrix[u, v] = 1.0
    values = np.linalg.svd(matrix, compute_uv=False)
    assume(values[1] < 0.98 * values[0])  # else the best community is not one, and networkx picks any
    found = hits(WebGraph.of(web.fill(store)), ALL, DistillOptions(tolerance=1e-13, max_rounds=5000))
    hubs, authorities = networkx.hits(graph, tol=1e-12)
    assert found.converged
    assert found.hub == pytest.approx([hubs.get(p, 0.0) for p in range(URLS)], abs=1e-8)
    assert found.authority == pytest.approx([authorities.get(p, 0.0) for p in range(URLS)], abs=1e-8)


@settings(max_examples=30)
@given(web=webs())
def test_authorities_are_the_principal_eigenvector(store: Store, web: Web) -> None:
    """a = 1/c W_a' W_h a, where c is the largest eigenvalue numpy finds; the same for hubs."""
    edges = transverse(web)
    assume(edges)
    forward, backward = np.zeros((URLS, URLS)), np.zeros((URLS, URLS))
    conferring, reflecting = paper_weights(web, edges)
    for u, v in edges:
        forward[u, v], backward[u, v] = conferring[u, v], reflecting[u, v]
    found = hits(WebGraph.of(web.fill(store)), ALL, DistillOptions(tolerance=1e-12, max_rounds=50_000))
    assume(found.converged)
    for matrix, scores in ((forward.T @ backward, found.authority), (backward @ forward.T, found.hub)):
        largest = max(abs(np.linalg.eigvals(matrix)))
        assert matrix @ scores == pytest.approx(largest * scores, abs=1e-6)
        assert scores.sum() == pytest.approx(1.0)


@settings(max_examples=30)
@given(web=webs(merging=False), base=st.sets(st.integers(0, URLS - 1)), limit=st.integers(0, 3))
def test_the_neighbourhood(store: Store, web: Web, base: set[int], limit: int) -> None:
    """All successors, and of each page the predecessors that cite most of the base set, the smaller oid first."""
    edges = web.edges()
    expected = base | {v for u, v in edges if u in base}
    for page in base:
        before = [u for u, v in edges if v == page and u not in base]
        before.sort(key=lambda u: (-len({v for x, v in edges if x == u and v in base}), u))
        expected |= set(before[:limit])
    found = neighbourhood(WebGraph.of(web.fill(store)), np.array(sorted(base), np.int64), limit)
    assert set(np.flatnonzero(found).tolist()) == expected


def test_pages_beyond_the_neighbourhood_have_no_score(store: Store) -> None:
    """What is two links away is not in the graph, however many links it has."""
    web = Web([0, 1, 2, 3], [(0, 1), (1, 2), (3, 2)])
    found = hits(WebGraph.of(web.fill(store)), np.array([0]))
    assert found.oids.tolist() == [0, 1]
    assert found.authority.tolist() == [0.0, 1.0]


def test_a_host_has_one_voice(store: Store) -> None:
    """Nine pages of one host that praise a page count as much as one page of another host, in each round."""
    farm = [(page, 20) for page in range(9)]
    web = Web([0] * 9 + [1] * 11 + [2, 3], [*farm, (9, 21)])
    found = hits(WebGraph.of(web.fill(store)), np.arange(22), DistillOptions(max_rounds=1))
    scores = dict(zip(found.oids.tolist(), found.authority.tolist(), strict=True))
    assert scores[20] == pytest.approx(scores[21])


@pytest.mark.parametrize("web", [Web([]), Web([0]), Web([0], [(0, 0)]), Web([0, 0], [(0, 1)])])
def test_nothing_to_say(store: Store, web: Web) -> None:
    """Empty, one page, one page that links to itself, two of one host: scores of 0, nothing at the top."""
    found = hits(WebGraph.of(web.fill(store)), np.arange(len(web.hosts)))
    assert not found.hub.any()
    assert not found.authority.any()
    assert found.top_hubs() == found.top_authorities() == []
    assert found.converged
