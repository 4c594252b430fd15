"""Weighted HITS: navigation does not win, and every link weighs what the rules say."""

from collections.abc import Iterator
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distill_webs import URLS, Web
from opilio.distill import DistillOptions, WebGraph, distill
from opilio.distill.rankings import PRIOR_LINKS, weighted
from opilio.store import Store
from opilio.store.links import MAX_SERVER_DOMAINS

HOSTS = 5
_oid = st.integers(0, URLS - 1)
_link = st.tuples(_oid, _oid)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.create(tmp_path_factory.mktemp("weighted")) as store:
        yield store


def best(store: Store, method: str) -> int:
    return distill(store, method=method).top_authorities(1)[0].oid


SITES, PAGES = 6, 5


def web_with_navigation(boilerplate: bool) -> Web:
    """Six sites of five pages, which all link to page 30, a directory; three of them have a page that links to 31."""
    own = range(SITES * PAGES)
    to_directory = {(page, 30) for page in own}
    hosts = [*(page // PAGES for page in own), SITES, SITES + 1]
    return Web(
        hosts, [*sorted(to_directory), (0, 31), (PAGES, 31), (2 * PAGES, 31)],
        domains=[f"d{host}.org" for host in range(SITES + 2)],
        boilerplate=frozenset(to_directory if boilerplate else ()),
    )  # fmt: skip


@pytest.mark.parametrize("boilerplate", [True, False])
def test_navigation_does_not_win(store: Store, boilerplate: bool) -> None:
    """A link that every page of a site has is no recommendation, marked as a footer or not; plain HITS takes it for one."""
    web_with_navigation(boilerplate).fill(store)
    assert best(store, "hits") == 30
    assert best(store, "weighted") == 31


def test_marked_navigation_of_small_sites_does_not_win(store: Store) -> None:
    """Of a site with one stored page nobody can tell what its other pages link to; the part of the page tells."""
    links = [(page, 8) for page in range(6)] + [(6, 9), (7, 9)]
    domains = [f"d{host}.org" for host in range(10)]
    Web(range(10), links, domains=domains, boilerplate=frozenset(links[:6])).fill(store)
    assert best(store, "hits") == 8
    assert best(store, "weighted") == 9


def test_hosts_of_one_domain_or_server_do_not_praise_each_other(store: Store) -> None:
    """0 and 1 share a domain, 2 and 3 an address: links between them do not count, one from 4 does."""
    domains, ips = ["a.org", "a.org", "b.org", "c.org", "d.org"], [None, None, "192.0.2.1", "192.0.2.1", None]
    Web(range(5), [(0, 1), (2, 3), (4, 0)], domains=domains, ips=ips).fill(store)
    assert [page.oid for page in distill(store).top_authorities()] == [0]


def test_a_server_is_an_address_where_that_is_known(store: Store) -> None:
    """The distiller of Focus goes by addresses (Focus 2.2.3), except those that say nothing: loopback, and hosting."""
    domains, ips = [f"d{host}.org" for host in range(4)], ["192.0.2.1", "192.0.2.1", "127.0.0.1", "127.0.0.1"]
    Web(range(4), [(0, 1), (2, 3)], domains=domains, ips=ips).fill(store)
    assert [page.oid for page in distill(store, method="focus").top_authorities()] == [3]
    hosts = MAX_SERVER_DOMAINS + 1
    Web(range(hosts), [(0, 1)], domains=[f"d{host}.org" for host in range(hosts)], ips=["192.0.2.1"] * hosts).fill(
        store
    )
    assert [page.oid for page in distill(store, method="focus").top_authorities()] == [1]


def test_relevance_decides_what_can_be_an_authority(store: Store) -> None:
    """Pages that no topic accepted are authorities only above rho; a list of links needs no relevance of its own."""
    web = Web(
        range(5), [(0, 2), (1, 2), (0, 3), (1, 3), (3, 4), (3, 2)], relevance=[0.0, 0.0, 0.4, 1.0, 0.6],
        accepted=[False, False, False, True, False], domains=[f"d{host}.org" for host in range(5)],
    )  # fmt: skip
    web.fill(store)
    assert [page.oid for page in distill(store).top_authorities()] == [3, 4]
    assert {page.oid for page in distill(store).top_hubs()} == {0, 1, 3}
    assert [page.oid for page in distill(store, options=DistillOptions(rho=0.7)).top_authorities()] == [3]


def test_no_topic_crowds_out_another(store: Store) -> None:
    """The best of all topics together has the best page of each, though one topic has far more links."""
    many = [(source, 8) for source in range(5)]
    web = Web(
        range(10), [*many, (6, 9), (7, 9)], kcid=[1, 1, 1, 1, 1, 1, 2, 2, 1, 2], accepted=[True] * 10,
        domains=[f"d{host}.org" for host in range(10)],
        topics=[(0, None, "", "path"), (1, 0, "Birds", "good"), (2, 0, "Cars", "good")],
    )  # fmt: skip
    web.fill(store)
    found = {page.oid: page.score for page in distill(store).top_authorities()}
    assert found == pytest.approx({8: 0.5, 9: 0.5})
    assert [page.oid for page in distill(store, "Cars").top_authorities()] == [9]


@settings(max_examples=40)
@given(
    hosts=st.lists(st.integers(0, HOSTS - 1), min_size=URLS, max_size=URLS),
    links=st.lists(_link, min_size=20, max_size=80),
    in_footer=st.frozensets(_link, max_size=10),
    domains=st.lists(st.sampled_from(["a.org", "b.org", "c.org"]), min_size=HOSTS, max_size=HOSTS),
    relevance=st.lists(st.sampled_from([0.0, 0.25, 0.75, 1.0]), min_size=URLS, max_size=URLS),
    rounds=st.integers(1, 5),
)
def test_scores_after_some_rounds(
    store: Store,
    hosts: list[int],
    links: list[tuple[int, int]],
    in_footer: frozenset[tuple[int, int]],
    domains: list[str],
    relevance: list[float],
    rounds: int,
) -> None:
    """Against the rules as written, link by link over Python dictionaries."""
    web = Web(hosts, links, relevance=relevance, domains=domains, boilerplate=in_footer)
    site = [domains[host] for host in hosts]
    between = {(u, v) for u, v in links if site[u] != site[v]}
    marked = {link for link in between if link in in_footer}
    counted = {(u, v) for u, v in between - marked if relevance[v] > 0.5}
    pages_of = {name: len({u for u, _ in links if site[u] == name}) for name in domains}

    def voice(u: int, v: int) -> float:
        linking = len({x for x, y in between if y == v and site[x] == site[u]})
        return log((pages_of[site[u]] + 1) / linking) / log(pages_of[site[u]] + 1)

    def quality(u: int) -> float:
        linked = [relevance[v] for x, v in between - marked if x == u]
        return (sum(linked) + PRIOR_LINKS * sum(relevance) / URLS) / (len(linked) + PRIOR_LINKS)

    by_site = {(site[u], site[v]) for u, v in counted}
    returned = {(u, v) for u, v in counted if (site[v], site[u]) in by_site}

    def friends(u: int, v: int, *, of_source: bool) -> int:
        """How many sites share the voice of a link that is returned."""
        if (u, v) not in returned:
            return 1
        return len({site[y] for x, y in returned if x == u} if of_source else {site[x] for x, y in returned if y == v})

    conferring = {
        (u, v): relevance[v] * voice(u, v) / len({x for x, y in counted if y == v and site[x] == site[u]})
        / friends(u, v, of_source=False)
        for u, v in counted
    }  # fmt: skip
    reflecting = {
        (u, v): max(relevance[u], quality(u)) * voice(u, v)
        / len({y for x, y in counted if x == u and site[y] == site[v]}) / friends(u, v, of_source=True)
        for u, v in counted
    }  # fmt: skip
    hub = np.full(URLS, 1.0 if counted else 0.0)
    authority = np.zeros(URLS)
    first: tuple[np.ndarray, np.ndarray] | None = None
    for _ in range(rounds if counted else 0):
        authority = np.array([sum(hub[u] * conferring[u, v] for u, v in counted if v == p) for p in range(URLS)])
        authority /= authority.sum()
        authority = authority if first is None else 0.85 * authority + 0.15 * first[0]
        hub = np.array([sum(authority[v] * reflecting[u, v] for u, v in counted if u == p) for p in range(URLS)])
        hub /= hub.sum()
        hub = hub if first is None else 0.85 * hub + 0.15 * first[1]
        first = first or (authority, hub)
    graph = WebGraph.of(web.fill(store))
    base = np.flatnonzero(np.array(relevance) > 0.5)
    neighbours = {*base.tolist(), *(v for u, v in links if u in base), *(u for u, v in links if v in base)}
    if len(neighbours) < URLS:  # the rest is not in the neighbourhood: the oracle knows no neighbourhoods
        return
    found = weighted(graph, base, np.array(relevance), DistillOptions(max_rounds=rounds, tolerance=0.0))
    assert found.authority == pytest.approx(authority, abs=1e-9)
    assert found.hub == pytest.approx(hub, abs=1e-9)


@pytest.mark.parametrize("farm_sites", [5, 12, 40])
def test_a_link_farm_falls_and_honest_hubs_stay(store: Store, farm_sites: int) -> None:
    """Sites that all link to each other outweigh four honest lists of eight sites by plain HITS, and do not by weighted
    HITS, however many they are. Two of the honest sites link back, and keep their places."""
    lists, sites = range(4), range(4, 12)
    farm = range(12, 12 + farm_sites)
    links = [(u, v) for u in lists for v in sites] + [(4, 0), (5, 1)]
    links += [(u, v) for u in farm for v in farm if u != v]
    hosts = range(12 + farm_sites)
    Web(hosts, links, domains=[f"d{host}.org" for host in hosts]).fill(store)
    found = distill(store)
    assert {page.oid for page in found.top_authorities(8)} == {*sites}
    assert {page.oid for page in found.top_hubs(4)} == {*lists}
    if farm_sites > 8:
        assert best(store, "hits") in farm


def test_no_small_community_takes_everything(store: Store) -> None:
    """Plain HITS gives all authority to two pages that two lists name; pages that more lists name apart keep theirs."""
    links = [(u, v) for u in (0, 1) for v in (2, 3)] + [(4, 5), (6, 7), (8, 9), (10, 11), (12, 5)]
    Web(range(13), links, domains=[f"d{host}.org" for host in range(13)]).fill(store)
    plain = {page.oid: page.score for page in distill(store, method="hits").top_authorities()}
    found = {page.oid: page.score for page in distill(store).top_authorities()}
    assert plain[2] + plain[3] > 0.99
    assert found[5] > 0.05 and found[7] > 0.02
