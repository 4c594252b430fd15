"""Strategies: the contract every one of them keeps, and the two levels of the frontier."""

import random
from pathlib import Path

import pytest

from frontiers import add, make_frontier, meet, pages_in_order
from opilio.errors import QueryError, SettingsError
from opilio.frontier import Frontier, QueuedUrl, Strategy, make_strategy, strategies
from opilio.model import Outcome, url_key
from opilio.settings import FrontierSettings
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
        batch.hosts.add(host.sid, host.name, host.domain_name, None, "ok", 0, 0, 0, 0, None, 0.0, 0.0, 0.0)
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
        frontier.prioritise([url])
    with Store.create(tmp_path / "c") as store:
        store_waiting(store, frontier, urls)
        rows = store.next_waiting(
            f"{frontier.strategy.order_by}, oid", 200, exclude=frontier.oids_in_memory(), now_s=2.0
        )
    if frontier.strategy.uses_sql:
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
    if frontier.strategy.uses_sql:
        assert frontier.cold[0] == 50  # waits for the database
        return
    assert sorted(pages_in_order(frontier)) == list(range(50))


def test_a_hot_queue_that_spills_gives_the_same_order(tmp_path: Path) -> None:
    """With room for 50 URLs in memory and 2,000 in the database, URLs come out in the order of one large queue."""
    frontier, _ = make_frontier(
        {"frontier.hot_urls": 50, "fetch.host_delay_s": 0.0, "fetch.per_host": 9, "fetch.per_domain": 9}
    )
    urls = some_urls(frontier, 2000)
    with Store.create(tmp_path / "c") as store:
        for url in urls:
            frontier.prioritise([url])
        store_waiting(store, frontier, urls)
        for url in urls:
            frontier.add(url)
            assert frontier.hot <= 51
        assert frontier.waiting == 2000
        meet(frontier, 1.0)
        taken: list[int] = []
        while len(taken) < 2000:
            for topic in frontier.wants_refill():
                before, size = frontier.cold[topic], frontier.refill_size
                held = frontier.oids_in_memory()
                rows = store.next_waiting("priority desc, oid", size + len(taken), exclude=held, now_s=2.0)
                fresh = [urls[row.oid] for row in rows if row.oid not in set(taken)][:size]
                frontier.refill(topic, fresh, before if len(fresh) < size else None)
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
    assert frontier.cold[0] == 10
    add(frontier, 10, "http://a.example/10")
    assert frontier.cold[0] == 11
    assert frontier.wants_refill() == [0]
    with Store.create(tmp_path / "c") as store, pytest.raises(QueryError, match="numtry"):
        store.check_order_by("numtry, oid")


def test_a_batch_that_is_refused_as_a_whole_gives_way_to_the_next() -> None:
    """Best-N-First: when every URL of a batch is refused at the last look, the next batch is taken at once."""
    frontier, _ = make_frontier({"frontier.strategy": "bfs4", "fetch.host_delay_s": 0.0})
    for oid in range(12):
        add(frontier, oid, f"http://h{oid}.example/{oid}", relevance=1 - oid / 100)
    for host in frontier.hosts:
        host.met_s = 1.0
    frontier.refuses = lambda url: Outcome.DUP_SUFFIX if url.oid < 8 else None
    assert sorted(lease.oid for lease in frontier.take(2.0, 12)) == [8, 9, 10, 11]
