"""The distiller of Focus in SQL, against the paper's rules worked through in Python."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distill_webs import URLS, Web, webs
from opilio.distill import DistillOptions, Scores, distill
from opilio.store import Batch, Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.create(tmp_path_factory.mktemp("focus")) as store:
        yield store


def by_hand(web: Web, rho: float, rounds: int) -> tuple[dict[int, float], dict[int, float]]:
    """Figure 4, with the weights of 2.2.2 and one voice for a server."""
    relevance = web.relevance or [1.0] * len(web.hosts)
    edges = {
        (u, v)
        for u, v in web.edges()
        if web.hosts[u] != web.hosts[v] and relevance[v] > max(rho, 0.0) and relevance[u] > 0
    }
    forward, backward = {}, {}
    for u, v in edges:
        voices = sum(1 for x, y in edges if y == v and web.hosts[x] == web.hosts[u])
        praised = sum(1 for x, y in edges if x == u and web.hosts[y] == web.hosts[v])
        forward[u, v], backward[u, v] = relevance[v] / voices, relevance[u] / praised
    hubs: dict[int, float] = {u: 1.0 for u, _ in edges}
    authorities: dict[int, float] = {}
    for _ in range(rounds if edges else 0):
        authorities = {p: sum(hubs[u] * forward[u, v] for u, v in edges if v == p) for _, p in edges}
        authorities = {p: score / sum(authorities.values()) for p, score in authorities.items()}
        hubs = {p: sum(authorities[v] * backward[u, v] for u, v in edges if u == p) for p, _ in edges}
        hubs = {p: score / sum(hubs.values()) for p, score in hubs.items()}
    return hubs, authorities


def scores_of(found: Scores) -> tuple[dict[int, float], dict[int, float]]:
    oids = found.oids.tolist()
    hubs = {oid: score for oid, score in zip(oids, found.hub.tolist(), strict=True) if score}
    return hubs, {oid: score for oid, score in zip(oids, found.authority.tolist(), strict=True) if score}


@settings(max_examples=40)
@given(web=webs(), rho=st.sampled_from([0.0, 0.25, 0.6]), rounds=st.integers(1, 6))
def test_scores_are_those_of_the_paper(store: Store, web: Web, rho: float, rounds: int) -> None:
    """Relevance as weights, nepotism left out, the filter rho, redirects and duplicates merged, sums of 1."""
    options = DistillOptions(rho=rho, max_sql_rounds=rounds, tolerance=0.0)
    hubs, authorities = scores_of(distill(web.fill(store), method="focus", options=options))
    expected_hubs, expected_authorities = by_hand(web, rho, rounds)
    assert hubs == pytest.approx(expected_hubs, rel=1e-5)
    assert authorities == pytest.approx(expected_authorities, rel=1e-5)


def test_prestige_does_not_leak_off_the_topic(store: Store) -> None:
    """Everybody links to page 3, which is off the topic: it is no authority. Nor is the directory 4 a hub."""
    links = [(0, 2), (1, 2), (0, 3), (1, 3), (4, 2), (4, 3)]
    web = Web([0, 1, 2, 3, 4], links, relevance=[1.0, 1.0, 0.9, 0.1, 0.0])
    found = distill(web.fill(store), method="focus")
    assert [page.oid for page in found.top_authorities()] == [2]
    assert [page.oid for page in found.top_hubs()] == [0, 1]


def test_repeated_links_count_once(store: Store) -> None:
    """Also when they lead to a page and to a URL that is redirected to it: the shares of the others stay as they are."""
    hosts = [0, 0, 1, 1, 2, 3]
    links = [(0, 2), (0, 3), (1, 2), (4, 3)]
    expected = scores_of(distill(Web(hosts, links).fill(store), method="focus"))
    repeated = Web(hosts, [*links, (0, 2), (0, 2), (0, 5), (1, 5)], redirects={5: 2})
    assert scores_of(distill(repeated.fill(store), method="focus")) == expected
    assert len(expected[0]) == 3


def test_more_relevant_ends_score_higher(store: Store) -> None:
    """Of two authorities with the same hubs the more relevant wins; of two hubs with the same links too."""
    web = Web([0, 1, 2, 3], [(0, 2), (0, 3), (1, 2), (1, 3)], relevance=[0.6, 0.9, 0.7, 1.0])
    found = distill(web.fill(store), method="focus")
    assert [page.oid for page in found.top_hubs()] == [1, 0]
    assert [page.oid for page in found.top_authorities()] == [3, 2]
    assert found.authority.sum() == pytest.approx(1.0)


def test_pages_of_other_topics_count_as_irrelevant(store: Store) -> None:
    """With a topic, hubs and authorities are of it or of a topic below it."""
    topics = [
        (0, None, "", "path"),
        (1, 0, "Birds", "good"),
        (2, 1, "Birds / Owls", "subsumed"),
        (3, 0, "Cars", "good"),
    ]
    web = Web([0, 1, 2, 3], [(0, 1), (0, 2), (3, 1), (3, 2)], kcid=[1, 2, 3, 3], topics=topics)
    birds = distill(web.fill(store), "birds", "focus")
    assert [page.oid for page in birds.top_hubs()] == [0]
    assert [page.oid for page in birds.top_authorities()] == [1]
    everything = distill(store, None, "focus")
    assert {page.oid for page in everything.top_authorities()} == {1, 2}


@pytest.mark.parametrize("web", [Web([]), Web([0]), Web([0], [(0, 0)]), Web([0, 0], [(0, 1)])])
def test_nothing_to_say(store: Store, web: Web) -> None:
    """Empty, one page, one page that links to itself, two of one host: no scores, and no error."""
    found = distill(web.fill(store), method="focus")
    assert len(found) == 0
    assert found.converged


def large_web(store: Store, urls: int = 20_000, links: int = 400_000) -> None:
    """Enough links that several threads share the work."""
    rng = np.random.default_rng(7)
    hosts, ends = rng.integers(0, 200, urls), (rng.random((2, links)) ** 2 * urls).astype(np.int64)
    with store.writing() as to:
        to.register("incoming", pa.table({"oid": np.arange(urls), "sid": hosts, "relevance": rng.random(urls)}))
        to.execute(
            "INSERT INTO crawl (oid, url, key, sid, topic, depth, hops, state, numtries, relevance, priority) "
            "SELECT oid, oid, oid, sid, 0, 0, 0, 'fetched', 1, relevance, 0 FROM incoming"
        )
        to.unregister("incoming")
        to.register("incoming", pa.table({"a": ends[0], "b": ends[1], "c": hosts[ends[0]], "d": hosts[ends[1]]}))
        to.execute("INSERT INTO links (oid_src, oid_dst, sid_src, sid_dst) FROM incoming")
        to.unregister("incoming")


def test_threads_do_not_change_a_bit(tmp_path: Path) -> None:
    """The same scores, to the last bit, with one thread and with four, and again."""
    with Store.create(tmp_path) as store:
        large_web(store)
    found = []
    for threads in (1, 4, 4):
        with Store.open(tmp_path, read_only=True, threads=threads) as store:
            found.append(distill(store, method="focus", options=DistillOptions(max_sql_rounds=3)))
    assert len(found[0]) > 10_000
    for other in found[1:]:
        assert other.oids.tobytes() == found[0].oids.tobytes()
        assert other.hub.tobytes() == found[0].hub.tobytes()
        assert other.authority.tobytes() == found[0].authority.tobytes()


def test_a_crawl_goes_on_beside_it(store: Store) -> None:
    """In one snapshot: what is written meanwhile is not seen, and nothing stands in the writer's way or is left."""
    from opilio.distill.focus import focus

    web = Web(list(range(URLS)), [(0, 1), (2, 1), (0, 3)])
    web.fill(store)
    before = store.query("SELECT table_name FROM duckdb_tables() ORDER BY 1").rows
    with store.reading() as cursor:
        batch = Batch()
        batch.links.add(4, 5, 4, 5, "", "", "main", 0, "a", False)
        store.write(batch)
        found = focus(cursor)
        store.write(Batch())
    assert {page.oid for page in found.top_hubs()} == {0, 2}
    assert {page.oid for page in distill(store, method="focus").top_hubs()} == {0, 2, 4}
    assert store.query("SELECT table_name FROM duckdb_tables() ORDER BY 1").rows == before
    assert store.count_rows("hubs") == store.count_rows("auth") == 0
