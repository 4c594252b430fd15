"""Link analysis as a crawl has it done: what great hubs recommend, how relevant that is likely to be, what is kept."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distill_webs import Web, webs
from opilio.distill import Recommended, Scores, WebGraph, analyse, distill, neglected, save_scores
from opilio.distill.rankings import PRIOR_LINKS
from opilio.distill.recommendations import Estimates, recommended
from opilio.store import Store

TOPICS = [
    (0, None, "", "path"),
    (1, 0, "Birds", "good"),
    (2, 1, "Birds / Owls", "subsumed"),
    (3, 0, "Cars", "null"),
]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.create(tmp_path_factory.mktemp("keeping")) as store:
        yield store


def load(store: Store) -> tuple[WebGraph, Estimates]:
    with store.reading() as cursor:
        graph = WebGraph.load(cursor)
        return graph, Estimates.load(cursor, graph)


@settings(max_examples=80)
@given(web=webs(), percentile=st.sampled_from([0.0, 0.3, 0.5, 0.9]), limit=st.integers(0, 6))
def test_the_graph_and_the_database_recommend_the_same(store: Store, web: Web, percentile: float, limit: int) -> None:
    """What is found in memory is what `neglected` finds by SQL: URLs, their order, the sums of hub scores."""
    scores = distill(web.fill(store))
    found = recommended(*load(store)[:1], scores, load(store)[1], percentile, limit)
    expected = neglected(store, scores, percentile, limit)
    assert found.oids.tolist() == [url.oid for url in expected]
    assert found.hub_scores == pytest.approx([url.hub_score for url in expected])


@settings(max_examples=80)
@given(web=webs(), percentile=st.sampled_from([0.0, 0.5]))
def test_a_hub_is_as_good_as_what_it_recommends(store: Store, web: Web, percentile: float) -> None:
    """The likely relevance of a URL is the mean relevance of what its best great hub links to and was fetched."""
    scores = distill(web.fill(store))
    graph, estimates = load(store)
    found = recommended(graph, scores, estimates, percentile)
    merged = web.redirects.keys() | web.duplicates.keys()
    pages = [oid for oid in range(len(web.hosts)) if oid not in merged and oid not in web.waiting]
    usual = float(np.mean([web.relevance[oid] for oid in pages])) if pages else 0.0
    targets = defaultdict(list)
    for source, target in web.edges():
        if web.hosts[source] != web.hosts[target]:
            targets[source].append(target)
    hub = dict(zip(scores.oids.tolist(), scores.hub.tolist(), strict=True))
    least = np.quantile([value for value in hub.values() if value > 0], percentile) if any(hub.values()) else 1.0
    for oid, likely in zip(found.oids.tolist(), found.relevance.tolist(), strict=True):
        said = [web.relevance[oid]]
        for source in (source for source, linked in targets.items() if oid in linked and hub.get(source, 0.0) > least):
            known = [web.relevance[target] for target in targets[source] if target in pages]
            said.append((sum(known) + PRIOR_LINKS * usual) / (len(known) + PRIOR_LINKS))
        assert likely == pytest.approx(max(said), abs=1e-6)


def test_each_topic_has_its_own_hubs(store: Store) -> None:
    """Scores by topic are those that `distill` gives; topics that nobody wants and those without pages have none."""
    hosts, links = [*range(10)], [(0, 4), (0, 5), (1, 4), (1, 5), (2, 6), (2, 7), (3, 6), (8, 9)]
    kcid = [1, 1, 2, 2, 1, 1, 2, 2, 3, 3]
    Web(hosts, links, kcid=kcid, accepted=[True] * 10, topics=TOPICS).fill(store)
    found = analyse(store, {0, 1, 2, 99}, 0.5)
    assert found is not None and sorted(found.by_topic) == [0, 1, 2]
    for topic, scores in found.by_topic.items():
        expected = distill(store, topic)
        assert scores.oids.tolist() == expected.oids.tolist()
        assert scores.hub == pytest.approx(expected.hub, abs=1e-5)
    alone = analyse(store, {1}, 0.5)
    assert alone is not None and sorted(alone.by_topic) == [1]
    assert analyse(store, {1, 2}, 0.5, goes_on=lambda: False) is None


def test_without_judgements_there_are_scores_but_nothing_rises(store: Store) -> None:
    """Before anything is judged all pages are scored together, and no hub is known to be good."""
    Web([*range(6)], [(0, 2), (0, 3), (0, 4), (1, 2), (1, 5)], waiting=frozenset({4, 5})).fill(store)
    found = analyse(store, {0}, 0.1)
    assert found is not None and found.by_topic == {} and len(found.recommended) == 0
    assert found.overall.top_hubs(1)[0].oid == 0


def scores_of(hub: list[float], authority: list[float]) -> Scores:
    return Scores(np.arange(len(hub)), np.array(hub), np.array(authority))


def test_the_best_are_kept_in_the_place_of_the_old(store: Store) -> None:
    """Tables hold the best of each kind, none with a score of 0, and nothing of the analysis before."""
    Web([0, 1, 2]).fill(store)
    save_scores(store, {7: scores_of([1.0], [1.0])}, scores_of([1.0], [1.0]))
    first = scores_of([0.5, 0.0, 0.3, 0.2], [0.0, 0.1, 0.2, 0.7])
    save_scores(store, {1: first, 2: scores_of([0.0, 1.0], [0.0, 0.0])}, first, limit=2)
    near = pytest.approx
    assert store.query("SELECT oid, score FROM hubs ORDER BY oid").rows == [(0, near(0.5)), (2, near(0.3))]
    assert store.query("SELECT oid, score FROM auth ORDER BY oid").rows == [(2, near(0.2)), (3, near(0.7))]
    assert store.query("SELECT * FROM link_scores ORDER BY kcid, oid").rows == [
        (1, 0, near(0.5), 0.0), (1, 2, near(0.3), near(0.2)), (1, 3, near(0.2), near(0.7)), (2, 1, 1.0, 0.0),
    ]  # fmt: skip
    save_scores(store, {}, scores_of([], []))
    counts = "SELECT (SELECT count(*) FROM hubs), (SELECT count(*) FROM auth), (SELECT count(*) FROM link_scores)"
    assert store.query(counts).rows == [(0, 0, 0)]


def test_estimates_rise_and_never_fall(store: Store) -> None:
    """Only URLs that wait get a new estimate, and only a higher one."""
    Web([0, 1, 2, 3], relevance=[0.25, 0.75, 0.25, 0.25], waiting=frozenset({0, 1, 2})).fill(store)
    rising = Recommended(np.array([0, 1, 3]), np.array([0.5, 0.5, 0.5]), np.ones(3))
    save_scores(store, {}, scores_of([], []), rising)
    assert store.query("SELECT relevance FROM crawl ORDER BY oid").rows == [(0.5,), (0.75,), (0.25,), (0.25,)]


def test_of_several_topics_the_highest_numbers_count() -> None:
    """A URL that hubs of two topics recommend rises as the better of them say."""
    one = Recommended(np.array([5, 2]), np.array([0.5, 0.25]), np.array([0.125, 0.5]))
    other = Recommended(np.array([7, 5]), np.array([1.0, 0.75]), np.array([0.25, 0.0]))
    both = Recommended.joined([one, other])
    assert both.oids.tolist() == [2, 5, 7]
    assert both.relevance.tolist() == [0.25, 0.75, 1.0]
    assert both.hub_scores.tolist() == [0.5, 0.125, 0.25]
    assert len(Recommended.joined([])) == 0
