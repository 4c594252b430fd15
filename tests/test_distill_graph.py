"""Links as link analysis sees them: redirects and duplicates merged, each link once."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distill_webs import Web, webs
from opilio.distill.graph import NOWHERE, WebGraph, follow, load_merged
from opilio.store import Store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.create(tmp_path_factory.mktemp("graph")) as store:
        yield store


@given(st.dictionaries(st.integers(0, 30), st.integers(0, 30), max_size=25))
def test_following_ends_where_single_steps_end(onward: dict[int, int]) -> None:
    """Chains end at the first URL that does not go on; circles, and chains into one, end nowhere."""
    onward = {a: b for a, b in onward.items() if a != b}
    oids = np.array(sorted(onward), np.int64)
    found = follow(oids, np.array([onward[oid] for oid in oids.tolist()], np.int64))
    for oid, end in zip(oids.tolist(), found.tolist(), strict=True):
        at, steps = oid, 0
        while at in onward and steps <= len(onward):
            at, steps = onward[at], steps + 1
        assert end == (NOWHERE if at in onward else at)


@settings(max_examples=60)
@given(web=webs())
def test_links_are_those_between_pages(store: Store, web: Web) -> None:
    """Against following each link by hand: both ends merged, repeated links once, circles left out."""
    graph = WebGraph.of(web.fill(store))
    assert list(zip(graph.sources.tolist(), graph.targets.tolist(), strict=True)) == sorted(web.edges())
    assert graph.hosts.tolist() == list(web.hosts)
    merged = web.redirects.keys() | web.duplicates.keys()
    assert set(np.flatnonzero(graph.stored).tolist()) == set(range(len(web.hosts))) - merged - web.waiting


def test_a_long_chain_of_redirects_is_followed_to_its_end(store: Store) -> None:
    """Longer than any crawl follows at once: chains grow by parts."""
    web = Web([0] * 101, [(100, 0)], redirects={oid: oid + 1 for oid in range(99)})
    graph = WebGraph.of(web.fill(store))
    assert graph.targets.tolist() == [99]


def test_the_latest_redirect_counts(store: Store) -> None:
    """A URL that was redirected elsewhere before goes where it goes now; the redirect beats the duplicate."""
    web = Web([0, 1, 2, 3], [(3, 0)], redirects={0: 1}, duplicates={0: 3})
    web.fill(store)
    with store.writing() as to:
        to.execute("INSERT INTO redirects VALUES (0, 2, 301)")
    assert WebGraph.of(store).targets.tolist() == [2]


def test_a_page_of_its_own_is_not_merged(store: Store) -> None:
    """A URL that was once redirected, or a duplicate, and has answered with a page since stands for itself."""
    web = Web([0, 1, 2], [(2, 0), (2, 1)], redirects={0: 2}, duplicates={1: 2})
    web.fill(store)
    with store.writing() as to:
        to.execute("UPDATE crawl SET outcome = 'not-modified' WHERE oid = 0")
        to.execute("UPDATE crawl SET outcome = 'ok' WHERE oid = 1")
    assert WebGraph.of(store).targets.tolist() == [0, 1]
    with store.reading() as cursor:
        assert not len(load_merged(cursor)[0])


def test_an_empty_collection_has_an_empty_graph(store: Store) -> None:
    """Nothing known, nothing linked."""
    graph = WebGraph.of(Web([]).fill(store))
    assert graph.urls == 0
    assert not len(graph.sources)
