"""The frontier under a simulated web: politeness and order are never broken, and nothing is lost."""

import heapq
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontiers import add, contact_hosts, make_frontier, pages_in_order
from opilio.frontier import HostState
from opilio.model import LeaseKind, Outcome, host_of, registered_domain


@settings(max_examples=40)
@given(
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.5, 2.0]),
    st.integers(1, 3),
    st.integers(1, 6),
    st.sampled_from(["best-first", "breadth-first", "bfs4"]),
)
def test_caps_and_delays_are_never_broken(
    seed: int, delay_s: float, per_host: int, per_domain: int, strategy: str
) -> None:
    """At every moment of a simulated crawl: caps per host and domain hold, delays pass, and each URL is leased once."""
    rng = random.Random(seed)
    frontier, dropped = make_frontier(
        {"fetch.host_delay_s": delay_s, "fetch.per_host": per_host, "fetch.per_domain": per_domain,
         "frontier.strategy": strategy, "fetch.backoff_s": 0.1}
    )  # fmt: skip
    hosts = [f"h{i}.d{i % 3}.example" for i in range(8)]
    total = 60
    for oid in range(total):
        add(
            frontier,
            oid,
            f"{rng.choice(['http', 'https'])}://{rng.choice(hosts)}/{oid}",
            rng.random(),
            depth=rng.randrange(4),
        )
    now_s, under_way, done = 100.0, [], []
    open_hosts: Counter[str] = Counter()
    last_end: dict[str, float] = {}
    for _ in range(5000):
        for lease in frontier.take(now_s, 20):
            host = host_of(lease.url)
            open_hosts[host] += 1
            assert open_hosts[host] <= (1 if delay_s else per_host)
            domain = registered_domain(host)
            assert sum(n for name, n in open_hosts.items() if registered_domain(name) == domain) <= per_domain
            assert now_s >= last_end.get(host, 0.0) + delay_s or host not in last_end
            heapq.heappush(under_way, (now_s + rng.random() * 3, lease.oid, lease))
        if under_way:
            now_s, _, lease = heapq.heappop(under_way)
            host = host_of(lease.url)
            open_hosts[host] -= 1
            last_end[host] = now_s
            if lease.kind is LeaseKind.HOST:
                frontier.origin(lease.url).contacted_s = now_s
            else:
                done.append(lease.oid)
            frontier.ended(lease, Outcome.OK, now_s)
            continue
        event_s = frontier.next_event_s()
        if event_s is None:
            break
        now_s = max(now_s, event_s)
    assert sorted(done) == list(range(total))
    assert not dropped
    assert frontier.waiting == 0
    assert frontier.in_flight == 0


def test_the_best_url_whose_host_may_be_asked() -> None:
    """A busy host's better URLs do not hold up the next best of a free one."""
    frontier, _ = make_frontier({"fetch.host_delay_s": 10.0})
    for oid, (host, relevance) in enumerate([("a", 0.9), ("a", 0.8), ("b", 0.5), ("c", 0.7)]):
        add(frontier, oid, f"http://{host}.example/{oid}", relevance)
    contact_hosts(frontier, 1.0)
    assert [lease.oid for lease in frontier.take(20.0, 10)] == [0, 3, 2]
    assert frontier.take(20.0, 10) == []


def test_a_host_turns_slow_then_bad_and_its_urls_are_dropped() -> None:
    """Three failures in a row give a host up for the rest of the crawl (N6); one success forgives.

    The URLs get the outcome of the last failure, which is why they cannot be had.
    """
    frontier, dropped = make_frontier({"fetch.host_delay_s": 0.0, "fetch.backoff_s": 1.0})
    for oid in range(5):
        add(frontier, oid, f"http://a.example/{oid}")
    contact_hosts(frontier, 1.0)
    host = frontier.hosts[0]
    now_s = 1.0
    expected = [HostState.SLOW, HostState.OK, HostState.SLOW, HostState.SLOW, HostState.BAD]
    outcomes = [Outcome.TIMED_OUT, Outcome.OK, Outcome.TIMED_OUT, Outcome.CONNECT_FAILED, Outcome.TIMED_OUT]
    for outcome, state in zip(outcomes, expected, strict=True):
        [lease] = frontier.take(now_s, 1)
        frontier.ended(lease, outcome, now_s)
        assert host.state is state
        if outcome is not Outcome.OK:
            assert frontier.take(now_s, 1) == []  # a failure makes the host wait
        now_s += 100.0
    add(frontier, 9, "http://a.example/9")
    assert frontier.take(now_s, 5) == []
    assert (9, Outcome.TIMED_OUT) in dropped


def test_retry_after_is_waited_for() -> None:
    """A host that asks for time gets it, whatever our own delay."""
    frontier, _ = make_frontier({"fetch.host_delay_s": 0.0})
    add(frontier, 0, "http://a.example/0")
    add(frontier, 1, "http://a.example/1")
    contact_hosts(frontier, 1.0)
    [first, second] = frontier.take(2.0, 5)
    frontier.ended(first, Outcome.TOO_MANY_REQUESTS, 3.0, retry_after_s=60.0)
    frontier.ended(second, Outcome.OK, 3.0)
    add(frontier, 2, "http://a.example/2")
    assert frontier.take(62.9, 5) == []
    assert [lease.oid for lease in frontier.take(63.0, 5)] == [2]


def test_robots_rules_and_long_delays_refuse() -> None:
    """A URL that robots.txt forbids is dropped when its turn comes; so is a host that asks for too long a delay."""

    class OnlyEven:
        def allows(self, url: str) -> bool:
            return int(url.rsplit("/", 1)[1]) % 2 == 0

    frontier, dropped = make_frontier({"fetch.host_delay_s": 0.0, "fetch.per_host": 5})
    for oid in range(4):
        add(frontier, oid, f"http://a.example/{oid}")
    add(frontier, 4, "http://b.example/4")
    contact_hosts(frontier, 1.0)
    frontier.origin("http://a.example/").rules = OnlyEven()
    frontier.origin("http://b.example/").crawl_delay_s = 1e6
    assert sorted(lease.oid for lease in frontier.take(2.0, 10)) == [0, 2]
    assert sorted(dropped) == [(1, Outcome.ROBOTS), (3, Outcome.ROBOTS), (4, Outcome.ROBOTS)]


def test_origins_fail_alone_and_wait_together() -> None:
    """https that is given up takes nothing from http on the same host; their requests keep one delay, the longer."""
    frontier, dropped = make_frontier({"fetch.host_delay_s": 1.0, "fetch.backoff_s": 1.0})
    add(frontier, 0, "https://a.example/0", 0.9)
    add(frontier, 1, "http://a.example/1", 0.5)
    now_s = 0.0
    for _ in range(3):
        [lease] = frontier.take(now_s, 5)
        assert lease.url == "https://a.example/robots.txt"
        frontier.ended(lease, Outcome.SERVER_ERROR, now_s)
        assert frontier.take(now_s + 0.9, 5) == []
        now_s += 10.0
    [lease] = frontier.take(now_s, 5)
    assert dropped == [(0, Outcome.SERVER_ERROR)]
    assert lease.url == "http://a.example/robots.txt"
    frontier.origin(lease.url).contacted_s = now_s
    frontier.origin("https://a.example/").crawl_delay_s = 5.0
    frontier.ended(lease, Outcome.CLIENT_ERROR, now_s)
    assert frontier.take(now_s + 4.9, 5) == []
    assert [lease.oid for lease in frontier.take(now_s + 5.0, 5)] == [1]
    host = frontier.host("a.example")
    assert (host.state, frontier.host_states[HostState.OK], frontier.host_states[HostState.BAD]) == ("ok", 1, 0)


def test_pages_per_host_are_limited_exactly() -> None:
    """The limit counts what is under way, so it is never overrun, and what is left is dropped with the reason."""
    frontier, dropped = make_frontier({"fetch.host_delay_s": 0.0, "limits.max_pages_per_host": 3, "fetch.per_host": 2})
    for oid in range(6):
        add(frontier, oid, f"http://a.example/{oid}")
    contact_hosts(frontier, 1.0)
    fetched = 0
    while leases := frontier.take(2.0, 10):
        for lease in leases:
            frontier.hosts[0].pages += 1
            fetched += 1
            frontier.ended(lease, Outcome.OK, 2.0)
    assert fetched == 3
    assert [outcome for _, outcome in dropped] == [Outcome.HOST_LIMIT] * 3


def test_topics_take_turns() -> None:
    """A topic with thousands of good URLs does not starve one with a few poor ones."""
    frontier, _ = make_frontier(
        {"fetch.host_delay_s": 0.0, "fetch.per_host": 100, "fetch.per_domain": 100}, topics=[0, 1]
    )
    for oid in range(50):
        add(frontier, oid, f"http://a.example/{oid}", relevance=0.9, topic=0)
    for oid in range(50, 55):
        add(frontier, oid, f"http://b.example/{oid}", relevance=0.1, topic=1)
    contact_hosts(frontier, 1.0)
    first = [lease.oid for lease in frontier.take(2.0, 10)]
    assert sum(oid >= 50 for oid in first) == 5


@pytest.mark.parametrize("n", [1, 3, 8])
def test_best_n_first_takes_batches(n: int) -> None:
    """N URLs are out before new links count; links found by the first batch come in the second (BestN, figure 1)."""
    frontier, _ = make_frontier({"fetch.host_delay_s": 0.0, "fetch.per_host": 50, "fetch.per_domain": 50,
                                 "frontier.strategy": "best-n-first", "frontier.n": n})  # fmt: skip
    for oid in range(20):
        add(frontier, oid, f"http://a.example/{oid}", relevance=oid / 100)
    contact_hosts(frontier, 1.0)
    batch = frontier.take(2.0, 50)
    assert {lease.oid for lease in batch} == set(range(20 - n, 20))
    add(frontier, 99, "http://a.example/99", relevance=1.0)
    assert frontier.take(2.0, 50) == []
    for lease in batch[:-1]:
        frontier.ended(lease, Outcome.OK, 2.0)
        assert frontier.take(2.0, 50) == []
    frontier.ended(batch[-1], Outcome.OK, 2.0)
    assert 99 in {lease.oid for lease in frontier.take(2.0, 50)}


def test_a_full_buffer_evicts_the_least(tmp_path: object) -> None:
    """MAX_BUFFER: never more URLs than the cap, and those that go are the ones with the least score."""
    frontier, dropped = make_frontier({"fetch.host_delay_s": 0.0, "frontier.max_queued": 10})
    rng = random.Random(3)
    scores = [rng.random() for _ in range(200)]
    for oid, score in enumerate(scores):
        add(frontier, oid, f"http://h{oid % 7}.example/{oid}", relevance=score)
        assert frontier.waiting <= 10
    best = sorted(range(200), key=lambda oid: -scores[oid])[:10]
    assert pages_in_order(frontier) == best
    assert len(dropped) == 190
    assert {outcome for _, outcome in dropped} == {Outcome.EVICTED}
