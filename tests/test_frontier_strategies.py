"""Strategies: the contract every one of them keeps, and the two levels of the frontier."""

import math
import random
from pathlib import Path

import numpy as np
import pytest

from frontiers import Noting, add, contact_hosts, make_frontier, pages_in_order
from opilio.errors import QueryError, SettingsError
from opilio.frontier import (
    ABSENT,
    DatabaseStrategy,
    Frontier,
    LearningStrategy,
    LinkTextStrategy,
    QueuedUrl,
    ScopeFilter,
    Strategy,
    make_strategy,
    strategies,
)
from opilio.frontier.link_words import WordOdds
from opilio.frontier.strategies import RejudgedPages
from opilio.model import Document, Judgement, Link, Links, Outcome, Region, url_key
from opilio.settings import FrontierSettings, Settings, override
from opilio.store import Batch, Store

SETTINGS = FrontierSettings(order_by="relevance DESC, depth", n=4)


@strategies.register("test-shortest-url")
class ShortestUrl(Strategy):
    """A strategy as a user would add one."""

    order_by = "length(url)"

    def priority(self, link: QueuedUrl) -> float:
        return -len(link.url)


def store_waiting(store: Store, frontier: Frontier, urls: list[QueuedUrl]) -> None:
    """Write URLs to the table `crawl` as the engine does."""
    batch = Batch()
    for url in urls:
        batch.urls.add(url.oid, url.url, url_key(url.url), url.host.sid, url.topic, url.depth, None, 0, "waiting", None,
                       0, url.relevance, url.priority, 0.0, 1.0, 0.0)  # fmt: skip
    for host in frontier.hosts:
        batch.hosts.add(host.sid, host.name, host.domain_name, None, 0, 0, 0, 0.0)
    store.write(batch)


def some_urls(frontier: Frontier, count: int) -> list[QueuedUrl]:
    rng = random.Random(5)
    urls = []
    for oid in range(count):
        host = frontier.host(f"h{oid % 9}.example")
        name = "x" * rng.randrange(1, 30)
        # Numbers that a 32-bit float holds exactly: the table's column is one.
        urls.append(
            QueuedUrl(oid, f"http://{host.name}/{name}/{oid}", host, 0, rng.randrange(6), rng.randrange(64) / 64)
        )
    return urls


@pytest.mark.parametrize("name", sorted(strategies))
def test_sql_and_memory_agree(name: str, tmp_path: Path) -> None:
    """The contract: ORDER BY over the table gives the order that `priority` gives in memory."""
    frontier, _ = make_frontier(
        {"frontier.strategy": name, "frontier.order_by": SETTINGS.order_by, "fetch.host_delay_s": 0.0}
    )
    urls = some_urls(frontier, 200)
    for url in urls:
        frontier.tiers.prioritise([url])
    with Store.create(tmp_path / "c") as store:
        store_waiting(store, frontier, urls)
        rows = store.next_waiting(
            f"{frontier.strategy.order_by}, oid", 200, exclude=frontier.oids_in_memory(), now_s=2.0
        )
    if isinstance(frontier.strategy, DatabaseStrategy):
        expected = sorted(urls, key=lambda url: (-url.relevance, url.depth, url.oid))
    else:
        expected = sorted(urls, key=lambda url: (-url.priority, url.oid))
    assert [row.oid for row in rows] == [url.oid for url in expected]


@pytest.mark.parametrize("name", sorted(strategies))
def test_every_strategy_finishes(name: str) -> None:
    """The contract: whatever the order, each URL comes out once."""
    frontier, _ = make_frontier({"frontier.strategy": name, "frontier.order_by": "oid", "fetch.host_delay_s": 0.0})
    for oid in range(50):
        add(frontier, oid, f"http://h{oid % 5}.example/{oid}", relevance=oid / 64, depth=oid % 3)
    if isinstance(frontier.strategy, DatabaseStrategy):
        assert frontier.tiers.cold[0] == 50  # waits for the database
        return
    assert sorted(pages_in_order(frontier)) == list(range(50))


def learning_orders() -> list[str]:
    """The registered strategies that learn."""
    settings = FrontierSettings(order_by="oid")
    return sorted(name for name in strategies if isinstance(strategies.get(name)(settings), LearningStrategy))


def linking(urls: list[QueuedUrl]) -> Document:
    """A page that links to some URLs, with two words for each link."""
    links = Links.of(Link(url.url, 0, "owl", "", Region.MAIN, place) for place, url in enumerate(urls))
    return Document(
        "", "", "en", "", "", "", links, np.array([3, 5], "<u4").tobytes(), b"", [], 0, b"",
        link_words=np.arange(2 * len(urls), dtype="<u4").tobytes(), link_words_in=bytes([1] * len(urls)),
        link_words_around=bytes([1] * len(urls)),
    )  # fmt: skip


@pytest.mark.parametrize("name", learning_orders())
def test_every_learning_order_learns(name: str) -> None:
    """The contract of `LearningStrategy`: it takes pages whose links are partly not followed, outcomes of all kinds, and
    hubs' recommendations; it names only linked URLs as outdated; its priorities are numbers, one for each URL; and the
    links of a relevant page come before those of an irrelevant one."""
    frontier, _ = make_frontier({})
    order = make_strategy(FrontierSettings(strategy=name))
    assert isinstance(order, LearningStrategy) and order.order_by == "priority desc"
    if isinstance(order, LinkTextStrategy):
        order.prepare([3], [])
    urls = [QueuedUrl(oid, f"http://h{oid}.example/", frontier.host(f"h{oid}.example"), 0, 1, 0.0) for oid in range(9)]
    good, bad = Judgement(0, True, 0.9, 0.9), Judgement(0, False, 0.05, 0.05)
    order.settle(0, 0.9)
    order.observe(urls[0], good, linking(urls[2:6]), [2, 3, ABSENT, 5], [2, 3, ABSENT, 5])
    order.settle(1, 0.05)
    order.observe(urls[1], bad, linking(urls[6:8]), [6, 7], [6, 7])
    assert set(order.outdated([2, 3, 5, 6, 7])) <= {2, 3, 5, 6, 7}
    order.settle(3, 0.0)  # it could not be fetched
    order.settle(5, None)  # it was dropped
    order.recommend({7: 0.01}, {7: 0.5})
    queued = [urls[2], urls[6], urls[7]]
    found = order.reprioritise(queued)
    assert found is None or len(found) == len(queued)
    priorities = order.priorities(queued)
    assert all(math.isfinite(priority) for priority in priorities)
    assert priorities[0] > priorities[1]
    assert all(isinstance(part, float) for part in order.explain(2).values())


def after_two_pages(name: str, known: int, of_poor: list[int]) -> tuple[LearningStrategy, list[QueuedUrl]]:
    """A strategy that has seen a good page with links to URLs 2 and 3, and a poor one with links to `of_poor`."""
    frontier, _ = make_frontier({})
    order = make_strategy(FrontierSettings(strategy=name))
    assert isinstance(order, LearningStrategy)
    hosts = [frontier.host(f"h{oid}.example") for oid in range(known)]
    urls = [QueuedUrl(oid, f"http://h{oid}.example/", hosts[oid], 0, 1, 0.0) for oid in range(known)]
    order.settle(0, 0.9)
    order.observe(urls[0], Judgement(0, True, 0.9, 0.9), linking(urls[2:4]), [2, 3], [2, 3])
    order.settle(1, 0.05)
    linked = linking([urls[oid] for oid in of_poor])
    order.observe(urls[1], Judgement(0, False, 0.05, 0.05), linked, of_poor, of_poor)
    return order, urls


@pytest.mark.parametrize("name", learning_orders())
def test_every_learning_order_hands_over_what_it_knows(name: str) -> None:
    """The target of a redirect has the priority that its source had, alone or with links of its own."""
    order, urls = after_two_pages(name, known=9, of_poor=[4, 5, 6])
    order.hand_over(2, 8, urls[8])  # a new URL
    order.settle(2, None)
    order.hand_over(3, 4, urls[4])  # one that a poor page links to
    order.settle(3, None)
    of_new, of_known, of_poor = order.priorities([urls[8], urls[4], urls[5]])
    assert of_new > of_poor and of_known > of_poor


@pytest.mark.parametrize("name", learning_orders())
def test_an_example_that_was_a_mere_link_comes_first(name: str) -> None:
    """A queued URL becomes an example, which has depth 0: it has the priority of a seed, whatever is known of it, and
    keeps it when all URLs are reprioritised."""
    order, urls = after_two_pages(name, known=5, of_poor=[4])
    for url, priority in zip(urls[2:], order.priorities(urls[2:]), strict=True):
        url.priority = priority
    urls[4].depth = 0
    for priorities in (order.priorities(urls[2:]), order.reprioritise(urls[2:])):
        assert priorities is None or priorities[2] == order.priority(urls[4]) > max(priorities[:2])


@pytest.mark.parametrize("name", learning_orders())
def test_every_learning_order_can_be_rejudged_or_says_that_it_cannot(name: str) -> None:
    """The contract of `LearningStrategy.rejudging`: None, or an object that knows the pages, weighs relevance without
    changing its order, and takes the new judgements."""
    frontier, _ = make_frontier({})
    order = make_strategy(FrontierSettings(strategy=name))
    assert isinstance(order, LearningStrategy)
    urls = [QueuedUrl(oid, f"http://h{oid}.example/", frontier.host(f"h{oid}.example"), 0, 1, 0.0) for oid in range(6)]
    order.settle(0, 0.9)
    order.observe(urls[0], Judgement(0, True, 0.9, 0.9), linking(urls[2:4]), [2, 3], [2, 3])
    order.settle(1, 0.1)
    order.observe(urls[1], Judgement(0, False, 0.1, 0.1), linking(urls[4:6]), [4, 5], [4, 5])
    rejudging = order.rejudging()
    if rejudging is None:
        return
    assert sorted(rejudging.oids.tolist()) == [0, 1]
    weighed = rejudging.weigh(np.array([0.0, 0.1, 0.9, 1.0]))
    assert weighed[0] == 0.0 and weighed[3] == 1.0 and np.all(np.diff(weighed) > 0)
    order.reprioritise(urls[2:])
    before = order.priorities(urls[2:])
    again = order.rejudging()
    assert again is not None
    again.finish(RejudgedPages(np.array([0, 1]), again.weigh(np.array([0.1, 0.9])), np.zeros(2), WordOdds()))
    after = order.reprioritise(urls[2:])
    assert after is not None, "new judgements give new priorities at once"
    assert before[0] > before[2] and after[0] < after[2]


def test_a_hot_queue_that_spills_gives_the_same_order(tmp_path: Path) -> None:
    """With room for 50 URLs in memory and 2,000 in the database, URLs come out in the order of one large queue."""
    frontier, _ = make_frontier(
        {"frontier.hot_urls": 50, "fetch.host_delay_s": 0.0, "fetch.per_host": 9, "fetch.per_domain": 9}
    )
    urls = some_urls(frontier, 2000)
    with Store.create(tmp_path / "c") as store:
        for url in urls:
            frontier.tiers.prioritise([url])
        store_waiting(store, frontier, urls)
        for url in urls:
            frontier.tiers.add(url)
            assert frontier.hot <= 51
        assert frontier.waiting == 2000
        contact_hosts(frontier, 1.0)
        taken: list[int] = []
        while len(taken) < 2000:
            for topic in frontier.tiers.wants_refill():
                before, size = frontier.tiers.cold[topic], frontier.tiers.refill_size
                held = frontier.oids_in_memory()
                rows = store.next_waiting("priority desc, oid", size + len(taken), exclude=held, now_s=2.0)
                fresh = [urls[row.oid] for row in rows if row.oid not in set(taken)][:size]
                frontier.tiers.refill(topic, fresh, before if len(fresh) < size else None)
            leases = frontier.take(2.0, 1)
            assert leases, f"stuck after {len(taken)}"
            taken.append(leases[0].oid)
            frontier.ended(leases[0], Outcome.OK, 2.0)
    assert taken == [url.oid for url in sorted(urls, key=lambda url: (-url.priority, url.oid))]
    assert frontier.waiting == 0


def test_named_strategies() -> None:
    """bfs16 is Best-N-First with N = 16; a wrong name is answered with the nearest; sql needs an order."""
    assert make_strategy(FrontierSettings(strategy="bfs16")).batch == 16
    assert make_strategy(FrontierSettings(strategy="best-n-first", n=7)).batch == 7
    with pytest.raises(SettingsError, match="breadth-frist") as caught:
        make_strategy(FrontierSettings(strategy="breadth-frist"))
    assert "breadth-first" in caught.value.hint
    with pytest.raises(SettingsError, match="needs an order"):
        make_strategy(FrontierSettings(strategy="sql"))
    with pytest.raises(SettingsError):
        make_strategy(FrontierSettings(strategy="bfs0"))


def test_changing_the_strategy_sends_everything_back(tmp_path: Path) -> None:
    """After a change, nothing of the old order is left in memory, and new URLs wait for the first refill."""
    frontier, _ = make_frontier({"fetch.host_delay_s": 0.0})
    for oid in range(10):
        add(frontier, oid, f"http://a.example/{oid}", relevance=oid / 16, depth=10 - oid)
    frontier.change_strategy(make_strategy(FrontierSettings(strategy="breadth-first")))
    assert frontier.hot == 0
    assert frontier.tiers.cold[0] == 10
    add(frontier, 10, "http://a.example/10")
    assert frontier.tiers.cold[0] == 11
    assert frontier.tiers.wants_refill() == [0]
    with Store.create(tmp_path / "c") as store, pytest.raises(QueryError, match="numtry"):
        store.check_order_by("numtry, oid")


def test_a_batch_that_is_rejected_as_a_whole_gives_way_to_the_next() -> None:
    """Best-N-First: when every URL of a batch is rejected before its lease, the next batch is taken at once."""
    settings = override(Settings(), {"frontier.strategy": "bfs4", "fetch.host_delay_s": 0.0})
    listener = Noting(rejected=range(8))
    frontier = Frontier(settings, make_strategy(settings.frontier), ScopeFilter(settings.scope), listener)
    for oid in range(12):
        add(frontier, oid, f"http://h{oid}.example/{oid}", relevance=1 - oid / 100)
    for host in frontier.hosts:
        host.origin("http").contacted_s = 1.0
    assert sorted(lease.oid for lease in frontier.take(2.0, 12)) == [8, 9, 10, 11]
    assert sorted(oid for oid, _ in listener.drops) == list(range(8))
