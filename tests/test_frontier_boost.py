"""URLs that rise: hot ones move, cold ones come into memory, and the two levels stay in order."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from frontiers import add, make_frontier, pages_in_order
from opilio.frontier import Frontier, LearningStrategy, NoListener, QueuedUrl, ScopeFilter
from opilio.model import Outcome
from opilio.settings import Settings, override


def filled(strategy: str, relevances: Sequence[float], **changes: object) -> Frontier:
    """A frontier with a URL on a host of its own for each relevance."""
    frontier, _ = make_frontier({"frontier.strategy": strategy, "fetch.host_delay_s": 0.0, **changes})
    for oid, relevance in enumerate(relevances):
        add(frontier, oid, f"http://h{oid}.test/", relevance, depth=1)
    return frontier


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=20),
    st.dictionaries(st.integers(0, 25), st.integers(0, 8), max_size=10),
)
def test_hot_urls_move_to_where_they_belong(relevances: list[int], raised: dict[int, int]) -> None:
    """After a rise, URLs come in the order of the higher of both estimates; unknown oids change nothing."""
    frontier = filled("best-first", [relevance / 8 for relevance in relevances])
    rose = frontier.tiers.raise_urls({oid: relevance / 8 for oid, relevance in raised.items()})
    final = [max(relevance, raised.get(oid, 0)) for oid, relevance in enumerate(relevances)]
    assert rose == sum(new > old for new, old in zip(final, relevances, strict=True))
    assert pages_in_order(frontier) == sorted(range(len(final)), key=lambda oid: (-final[oid], oid))
    assert frontier.hot == frontier.waiting == 0


def test_a_cold_url_that_rises_comes_into_memory() -> None:
    """It is no longer counted as cold, and comes before what was hot; one that is hot already is not taken twice."""
    frontier = filled("best-first", [0.1 * (10 - oid) for oid in range(10)], **{"frontier.hot_urls": 5})
    cold = [oid for oid in range(10) if not frontier.tiers.is_hot(oid)]
    assert 9 in cold and frontier.tiers.cold[0] == len(cold)
    waiting = [QueuedUrl(oid, f"http://h{oid}.test/", frontier.host(f"h{oid}.test"), 0, 1, 0.1) for oid in (0, 9)]
    frontier.warm(waiting)
    frontier.tiers.raise_urls({9: 2.0})
    assert frontier.tiers.cold[0] == len(cold) - 1 and frontier.waiting == 10
    assert pages_in_order(frontier)[:2] == [9, 0]


def test_what_rises_fills_no_queue_beyond_its_size() -> None:
    """When a queue is full, its worst URLs go back to the database, as ever."""
    frontier = filled("best-first", [0.1 * (10 - oid) for oid in range(10)], **{"frontier.hot_urls": 5})
    cold = [oid for oid in range(10) if not frontier.tiers.is_hot(oid)]
    frontier.warm([QueuedUrl(oid, f"http://h{oid}.test/", frontier.host(f"h{oid}.test"), 0, 1, 0.1) for oid in cold])
    frontier.tiers.raise_urls(dict.fromkeys(cold, 2.0))
    assert frontier.hot <= 5 and frontier.waiting == 10
    assert set(pages_in_order(frontier)) <= set(cold)


def test_a_refill_under_way_brings_the_new_estimate() -> None:
    """A row read before the rise comes into memory with what the URL rose to."""
    frontier = filled("best-first", [0.5])
    frontier.tiers.set_cold_counts({0: 2})
    frontier.tiers.raise_urls({1: 0.75, 2: 0.25})
    rows = [QueuedUrl(oid, f"http://h{oid}.test/", frontier.host(f"h{oid}.test"), 0, 1, 0.4) for oid in (1, 2)]
    frontier.tiers.refill(0, rows, 2)
    assert [row.relevance for row in rows] == [0.75, 0.4]
    assert pages_in_order(frontier) == [1, 0, 2]


@pytest.mark.parametrize(
    ("strategy", "order"), [("best-first", [3, 0, 1, 2]), ("breadth-first", [3, 0, 1, 2]), ("focus", [3, 0, 1, 2])]
)
def test_what_is_brought_forward_comes_first(strategy: str, order: list[int]) -> None:
    """It counts as a seed, whatever the order."""
    frontier = filled(strategy, [0.8, 0.7, 0.6, 0.1])
    assert frontier.tiers.bring_forward([3, 77]) == 1
    assert pages_in_order(frontier) == order


def test_a_batch_under_way_is_left_alone() -> None:
    """Best-N-First: a URL that is part of the batch keeps its place in it, and is asked for once."""
    frontier = filled("best-n-first", [0.9, 0.8, 0.7, 0.6], **{"frontier.n": 2})
    for host in frontier.hosts:
        host.origin("http").contacted_s = 1.0
    [first] = frontier.take(1.0, 1)
    frontier.tiers.raise_urls({0: 1.0, 1: 1.0, 3: 1.0})
    order = [first.oid]
    frontier.ended(first, Outcome.OK, 1.0)
    while leases := frontier.take(1.0, 1):
        order.append(leases[0].oid)
        frontier.ended(leases[0], Outcome.OK, 1.0)
    assert sorted(order[:2]) == [0, 1] and sorted(order[2:]) == [2, 3]


def test_eviction_goes_by_the_new_priority() -> None:
    """With a limit of waiting URLs, one that rose is not the one to go."""
    frontier, dropped = make_frontier({"frontier.max_queued": 3})
    for oid in range(3):
        add(frontier, oid, f"http://h{oid}.test/", 0.1 * oid)
    frontier.tiers.raise_urls({0: 0.9})
    add(frontier, 3, "http://h3.test/", 0.5)
    assert [oid for oid, _ in dropped] == [1]


def test_a_learned_order_hears_of_the_hubs() -> None:
    """It gets the hubs' scores, its own priorities decide, and the new ones are reported to the listener."""

    class Told(LearningStrategy):
        def recommend(self, relevance: Mapping[int, float], hub_scores: Mapping[int, float]) -> None:
            self.scores = dict(hub_scores)

        def priority(self, link: QueuedUrl) -> float:
            return getattr(self, "scores", {}).get(link.oid, 0.0) or link.relevance

    class Spills(NoListener):
        def priorities_changed(self, urls: Sequence[QueuedUrl]) -> None:
            noted.extend(url.oid for url in urls)

    noted: list[int] = []
    chosen = override(Settings(), {"fetch.host_delay_s": 0.0})
    frontier = Frontier(chosen, Told(chosen.frontier), ScopeFilter(chosen.scope), Spills())
    frontier.tiers.set_cold_counts({0: 0})
    urls = [QueuedUrl(oid, f"http://h{oid}.test/", frontier.host(f"h{oid}.test"), 0, 1, 0.5) for oid in range(3)]
    frontier.tiers.refill(0, urls, 3)
    frontier.tiers.raise_urls({2: 0.5, 1: 0.6}, {2: 0.9, 1: 0.25})
    assert sorted(noted) == [1, 2]
    assert pages_in_order(frontier) == [2, 0, 1]
