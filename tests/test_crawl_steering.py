"""Steering a crawl that runs: a pause stops requests, a lock keeps from a host, a boost lets one come sooner."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import MakeCollection
from frontiers import add, make_frontier, pages_in_order
from opilio import Collection
from opilio.crawl.operations.client import is_running
from opilio.errors import CollectionError, InputError
from opilio.lab.local_web import LocalServer
from opilio.settings import FILE_NAME, load
from running_crawls import PLAIN, SEEDS, STEERED, paused, running, wait_for, wait_until


def to_the_end(collection: Collection) -> set[str]:
    """Wait for the crawl that runs; the pages that are stored then."""
    wait_for(collection, lambda: not collection.status().running, 60)
    return {url for (url,) in collection.sql("SELECT url FROM collection").rows}


@pytest.fixture(scope="module")
def all_pages(small_server: LocalServer, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What a crawl finds that nobody steers."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "seeds.txt").write_text("\n".join(SEEDS))
    chosen = {"fetch.connect_to": small_server.connect_to, "fetch.host_delay_s": 0.0, "run.workers": -1}
    chosen |= {"fetch.backoff_s": 0.1, **PLAIN}
    collection = Collection.create(folder / "collection", seeds=folder / "seeds.txt", settings=chosen)
    assert collection.crawl().pages > 60
    return {url for (url,) in collection.sql("SELECT url FROM collection").rows}


def test_a_pause_stops_requests(make_collection: MakeCollection, small_server: LocalServer) -> None:
    """While it is paused the server hears nothing, the crawl answers, and its clock stands; then it goes on."""
    collection = make_collection(SEEDS, **PLAIN, fetch__host_delay_s=0.03)
    with running(collection) as (other, _):
        paused(other)
        small_server.clear_log()
        before = other.status()
        time.sleep(0.8)
        now = other.status()
        assert small_server.requests() == []
        assert now.running and now.paused and now.pages == before.pages and now.waiting == before.waiting > 0
        assert now.elapsed_s - before.elapsed_s < 0.4
        assert other.resume()
        wait_for(other, lambda: len(small_server.requests()) > 3, 20)
        assert not other.status().paused
    texts = [
        text for (text,) in collection.sql("SELECT text FROM notices WHERE kind = 'steering' ORDER BY noticed").rows
    ]
    assert texts == ["paused", "resumed"]


def test_a_paused_crawl_can_be_stopped_and_goes_on_unpaused(
    make_collection: MakeCollection, all_pages: set[str]
) -> None:
    """A pause ends with the crawl, and nothing is lost by it."""
    collection = make_collection(SEEDS, **PLAIN)
    with running(collection) as (other, _):
        paused(other)
        assert other.stop()
    assert not collection.status().paused
    collection.crawl()
    assert to_the_end(collection) == all_pages


def test_nothing_is_steered_where_no_crawl_runs(make_collection: MakeCollection) -> None:
    """Pausing says so; a boost, which would be lost, is refused with what to do."""
    collection = make_collection(SEEDS)
    assert not collection.pause() and not collection.resume()
    with pytest.raises(CollectionError) as caught:
        collection.boost_host("a.test", 2)
    assert "start it" in caught.value.hint


@pytest.mark.parametrize("strategy", ["best-first", "bfs4", "evidence", "sql"])
def test_a_locked_host_is_asked_no_more(
    strategy: str, make_collection: MakeCollection, small_server: LocalServer, all_pages: set[str]
) -> None:
    """Its URLs are dropped wherever they wait, it gets no further request, and all the rest is fetched."""
    order = {"frontier__order_by": "depth, relevance DESC"} if strategy == "sql" else {"frontier__hot_urls": 20}
    collection = make_collection(SEEDS, **PLAIN, frontier__strategy=strategy, **order)
    with running(collection, 15) as (other, _):
        paused(other)
        small_server.clear_log()
        waiting = other.sql(f"SELECT count(*) FROM frontier WHERE host = '{STEERED}'").rows[0][0]
        assert waiting, "else nothing is tested"
        assert other.lock_host(f"http://{STEERED}/") == waiting
        assert other.sql(f"SELECT count(*) FROM frontier WHERE host = '{STEERED}'").rows == [(0,)]
        counted = other.sql("SELECT count(*) FROM frontier").rows[0][0]
        assert other.status().waiting == counted
        other.resume()
        pages = to_the_end(other)
    assert STEERED not in {request.host for request in small_server.requests()}
    assert {url for url in all_pages if STEERED not in url} - pages == set()
    outcomes = collection.sql(
        f"SELECT DISTINCT c.state, outcome FROM crawl c JOIN hosts USING (sid) WHERE host = '{STEERED}' AND c.state <> 'fetched'"
    ).rows
    assert ("dropped", "locked-domain") in outcomes and all(state != "waiting" for state, _ in outcomes)


@pytest.mark.parametrize("strategy", ["best-first", "evidence", "sql"])
def test_an_unlocked_host_gives_all_it_has(strategy: str, make_collection: MakeCollection, all_pages: set[str]) -> None:
    """Locked and unlocked while it runs, a crawl finds what it finds unsteered."""
    order = {"frontier__order_by": "depth"} if strategy == "sql" else {"frontier__hot_urls": 20}
    collection = make_collection(SEEDS, **PLAIN, frontier__strategy=strategy, **order)
    with running(collection, 15) as (other, _):
        paused(other)
        dropped = other.lock_host(STEERED)
        assert Collection(collection.folder).unlock_host(STEERED) == dropped > 0
        assert other.status().waiting == other.sql("SELECT count(*) FROM frontier").rows[0][0]
        other.resume()
        assert to_the_end(other) == all_pages


def test_a_lock_is_kept(make_collection: MakeCollection, small_server: LocalServer, all_pages: set[str]) -> None:
    """It stands in the settings: a later crawl does not even ask for robots.txt; taken back at rest, all is fetched."""
    collection = make_collection(SEEDS, **PLAIN)
    assert collection.lock_host("python.test") == 0
    collection.crawl()
    assert {request.host for request in small_server.requests()} == {"directory.test"}
    assert "python.test" in load(collection.folder / "crawl.toml").scope.locked_domains
    again = Collection(collection.folder)
    with pytest.raises(InputError) as caught:
        again.unlock_host(STEERED)
    assert "python.test" in caught.value.hint
    assert again.unlock_host("python.test") > 0
    with pytest.raises(InputError):
        again.unlock_host("python.test")
    again.crawl()
    assert to_the_end(again) == all_pages


def test_a_name_that_is_none(make_collection: MakeCollection) -> None:
    """A lock of something that is no host is refused, and changes nothing."""
    collection = make_collection(SEEDS)
    for wrong in ("", "a host", "http://", "a.test:x"):
        with pytest.raises(InputError):
            collection.lock_host(wrong)
    assert Collection(collection.folder).settings.scope == collection.settings.scope


@pytest.mark.parametrize("strategy", ["best-first", "breadth-first", "bfs4", "evidence", "sql"])
def test_a_boosted_host_comes_sooner(
    strategy: str, make_collection: MakeCollection, small_server: LocalServer, all_pages: set[str]
) -> None:
    """Of a crawl that takes one URL at a time, the next are those of the boosted host, cold ones and new ones too."""
    order = {"frontier__order_by": "depth, relevance DESC"} if strategy == "sql" else {"frontier__hot_urls": 20}
    collection = make_collection(SEEDS, **PLAIN, fetch__in_flight=1, frontier__strategy=strategy, **order)
    with running(collection, 15) as (other, _):
        paused(other)
        waiting = other.sql(f"SELECT count(*) FROM frontier WHERE host = '{STEERED}'").rows[0][0]
        assert waiting >= 5
        small_server.clear_log()
        assert other.boost_host(STEERED, 1000) == waiting
        assert other.status().boosts == {STEERED: 1000.0}
        other.resume()
        wait_for(other, lambda: len(small_server.requests()) >= 5, 20)
        first = [request.host for request in small_server.requests()][:5]
        assert first.count(STEERED) >= 3, first  # others have their turn while its delay runs
        with pytest.raises(InputError):
            other.boost_host(STEERED, 0)
        other.boost_host(STEERED, 1)
        assert other.status().boosts == {}
        assert to_the_end(other) == all_pages


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-8, 8)), min_size=1, max_size=20),
    st.integers(0, 2),
    st.sampled_from([1.0, 2.0, 64.0]),
)
def test_turns_follow_the_boost(found: list[tuple[int, int]], host: int, factor: float) -> None:
    """URLs found after a boost come by their priorities, those of the host raised; priorities themselves stay."""
    frontier, _ = make_frontier({"frontier.strategy": "best-first", "fetch.host_delay_s": 0.0})
    frontier.boost(f"h{host}.test", factor)
    for oid, (of, relevance) in enumerate(found):
        add(frontier, oid, f"http://h{of}.test/{oid}", relevance / 8, depth=1)

    def turn(oid: int) -> float:
        of, relevance = found[oid][0], found[oid][1] / 8
        boost = factor if of == host else 1.0
        return relevance / boost if relevance < 0 else relevance * boost + (boost - 1) / 1000

    assert pages_in_order(frontier) == sorted(range(len(found)), key=lambda oid: (-turn(oid), oid))


def test_a_boost_covers_what_is_below(tmp_path: Path) -> None:
    """As a lock does: the nearest name that is boosted counts."""
    frontier, _ = make_frontier({})
    frontier.boost("example.test", 4.0)
    frontier.boost("www.example.test", 2.0)
    names = ["example.test", "a.example.test", "www.example.test", "b.www.example.test:8080", "another-example.test"]
    assert [frontier.host(name).boost for name in names] == [4.0, 4.0, 2.0, 2.0, 1.0]
    frontier.boost("www.example.test", 1.0)
    assert [frontier.host(name).boost for name in names] == [4.0, 4.0, 4.0, 4.0, 1.0]


@pytest.mark.parametrize(("strategy", "seed"), [("best-first", 1), ("evidence", 2), ("bfs4", 3)])
def test_steered_at_random_it_finds_everything(
    strategy: str, seed: int, make_collection: MakeCollection, all_pages: set[str]
) -> None:
    """Locks, boosts, pauses and other orders come at any time, and are taken back: no URL is lost, and none counted
    twice."""
    draw = random.Random(seed)
    collection = make_collection(
        SEEDS, fetch__host_delay_s=0.02, frontier__strategy=strategy, frontier__hot_urls=20, **PLAIN
    )
    hosts = [STEERED, "math.python.test", "directory.test"]
    with running(collection, 3) as (other, _):
        for _ in range(12):
            host = draw.choice(hosts)
            other.lock_host(host)
            if draw.random() < 0.5:
                other.boost_host(draw.choice(hosts), draw.choice([1, 3, 50]))
            if draw.random() < 0.3:
                other.pause()
                other.policy(draw.choice(["breadth-first", "best-first"]))
                other.resume()
            other.unlock_host(host)
        paused(other)
        assert other.status().waiting == other.sql("SELECT count(*) FROM frontier").rows[0][0]
        other.resume()
        assert to_the_end(other) == all_pages
    asked = collection.sql("SELECT oid, count(*) FROM visits WHERE kind = 'page' GROUP BY oid HAVING count(*) > 1").rows
    retried = {oid for (oid,) in collection.sql("SELECT oid FROM crawl WHERE numtries > 1").rows}
    assert {oid for oid, _ in asked} <= retried


def test_locks_of_two_tabs_reach_the_crawl(make_collection: MakeCollection, small_server: LocalServer) -> None:
    """While a crawl runs, locks that come at once are all locked: in it and in the settings."""
    collection = make_collection(list(small_server.web.pages)[:30], fetch__host_delay_s=0.2)
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(collection.crawl()))
    thread.start()
    try:
        wait_until(lambda: is_running(collection.folder))
        hosts = [f"h{n}.test" for n in range(10)]
        opened = [Collection(collection.folder) for _ in hosts]
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(lambda pair: pair[0].lock_host(pair[1]), zip(opened, hosts, strict=True)))
        opened[0].policy("breadth-first")
        assert set(hosts) <= set(load(collection.folder / FILE_NAME).scope.locked_domains)
        opened[3].unlock_host(hosts[4])
    finally:
        collection.stop()
        thread.join()
    assert hosts[4] not in load(collection.folder / FILE_NAME).scope.locked_domains
