"""The estimate of recall: against figures by hand, and against crawls whose truth is known."""

import math
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from made_crawls import MadeCrawl
from opilio.learn import estimate_recall
from opilio.learn.crawl_health import MAX_GROWTH, MIN_FOUND, MIN_REQUESTS, PIECES, STEEPEST, recall_of, to_come
from opilio.store import Store

GARDENING = 4


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path) as opened:
        yield opened


def by_hand(relevant: list[bool], waiting: int, new: int) -> float | None:
    """The same estimate from the list of requests, by numpy's fit and a sum over every request to come.

    `new` URLs were found during the last quarter.
    """
    total, found = len(relevant), sum(relevant)
    if total < MIN_REQUESTS or found < MIN_FOUND:
        return None
    x, y, weights = [], [], []
    for piece in range(PIECES):
        part = relevant[math.floor(total / 2 ** (piece + 1)) : math.floor(total / 2**piece)]
        if part:
            x.append(math.log(0.75 * total / 2**piece))
            y.append(math.log((sum(part) + 0.5) / len(part)))
            weights.append(sum(part) + 0.5)
    slope = float(np.polyfit(x, y, 1, w=np.sqrt(weights))[0])
    slope = min(0.0, max(-STEEPEST, slope))
    level = np.average(np.array(y) - slope * np.array(x), weights=weights)
    ahead = waiting / (1 - min(new / (total - math.floor(0.75 * total)), MAX_GROWTH))
    edges = np.linspace(total, total + ahead, 20_001)
    middles, width = (edges[1:] + edges[:-1]) / 2, ahead / 20_000
    return found / (found + min(float(np.sum(np.exp(level) * middles**slope) * width), ahead))


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(90, 260), st.integers(0, 2**16), st.floats(0.1, 0.9), st.floats(0.0, 1.5), st.integers(0, 400))
def test_the_estimate_is_the_one_by_hand(
    store: Store, requests: int, seed: int, rate: float, fall: float, waiting: int
) -> None:
    """Any order of relevant, irrelevant and failed requests, and any number of waiting URLs: SQL and Python agree."""
    draw = random.Random(seed)
    crawl, relevant = MadeCrawl(), []
    for n in range(requests):
        is_relevant = draw.random() < rate * (1 + n) ** -fall
        state = "fetched" if is_relevant or draw.random() < 0.8 else "failed"
        crawl.add(kcid=GARDENING, relevance=0.9 if is_relevant else 0.2, state=state)
        relevant.append(is_relevant)
    crawl.add(waiting, state="waiting")
    # The n-th URL of a made crawl is found a second before it is asked for; those that wait were found after all.
    new = requests - math.floor(0.75 * requests) - 1 + waiting
    expected = by_hand(relevant, waiting, new)
    estimate = estimate_recall(crawl.fill(store))
    assert estimate == (None if expected is None else pytest.approx(expected, rel=1e-3))


def test_nothing_is_estimated_from_little(store: Store) -> None:
    """Too few requests, or too few relevant pages among many, give no figure."""
    crawl = MadeCrawl()
    crawl.add(MIN_REQUESTS - 1, kcid=GARDENING, relevance=1.0)
    assert estimate_recall(crawl.fill(store)) is None
    crawl.add(1, kcid=GARDENING, relevance=1.0)
    assert estimate_recall(crawl.fill(store)) == 1.0, "nothing waits: all that can be reached is found"
    crawl = MadeCrawl()
    crawl.add(MIN_FOUND - 1, kcid=GARDENING, relevance=1.0)
    crawl.add(500, relevance=0.0)
    assert estimate_recall(crawl.fill(store)) is None


@pytest.mark.parametrize("fall", [0.0, 0.5, 1.0, 1.5])
def test_crawls_whose_harvest_falls_as_it_was_taken_to(fall: float) -> None:
    """Relevant pages strewn so that the harvest falls by a power: the estimate is near the truth at every stage."""
    draw, total = random.Random(5), 8000
    relevant = [draw.random() < min(1.0, 0.6 * ((1 + n) / 100) ** -fall) for n in range(total)]
    for requests in (3000, 5000, 7000):
        pieces = []
        for piece in range(PIECES):
            part = relevant[requests >> (piece + 1) : requests >> piece]
            pieces.append((sum(part), len(part)))
        found = sum(relevant[:requests])
        estimate = recall_of(found, requests, pieces, total - requests)
        assert estimate == pytest.approx(found / sum(relevant), abs=0.1)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(50, 99)), min_size=5, max_size=5), st.floats(0, 1e7))
def test_more_ahead_is_never_more_recall(pieces: list[tuple[int, int]], ahead: float) -> None:
    """A share between 0 and 1 that falls with what is still to come, and never promises more than that."""
    found = 1 + sum(relevant for relevant, _ in pieces)
    now, later = (recall_of(found, 1600, pieces, ahead * factor) for factor in (1, 2))
    assert 0 < later <= now <= 1
    assert now >= found / (found + ahead) * (1 - 1e-9)


def test_what_is_to_come() -> None:
    """Each request brings new URLs, but never so many that the web has no end; nothing found is nothing recalled."""
    assert to_come(100, 0.0) == 100
    assert to_come(100, 0.25) == pytest.approx(100 / 0.75)
    assert to_come(100, 7.0) == to_come(100, MAX_GROWTH)
    assert recall_of(0, 500, [(0, 250)] * PIECES, 10) == 0.0
