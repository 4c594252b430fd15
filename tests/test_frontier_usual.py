"""Relevance in comparison with what is usual among the pages met."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.frontier import AllEvidence, Host, Waiting
from opilio.frontier.hosts import Domain
from opilio.frontier.link_words import WordOdds
from opilio.frontier.reconsidering import JudgedAnew
from opilio.frontier.usual import FEWEST_PAGES, Usual
from opilio.model import Document, Judgement
from opilio.settings import Settings

RELEVANCES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=60)


def of(*relevance: float) -> Usual:
    return Usual.of(np.array(relevance, np.float64))


@given(RELEVANCES, st.floats(0.0, 1.0))
def test_it_is_the_odds_of_the_lower_third(met: list[float], relevance: float) -> None:
    """By the plain way: sort what was met, take the page a third up, divide odds by its odds if it is relevant."""
    one = sorted(met)[len(met) // 3]
    odds = one / (1.0 - one) if one < 1.0 else math.inf
    usual = max(1.0, min(odds, math.exp(16.0))) if len(met) >= FEWEST_PAGES else 1.0
    found = of(*met).compare(relevance)
    if relevance in (0.0, 1.0):
        assert found == relevance
    else:
        least, most = (relevance / (relevance + (1.0 - relevance) * usual * slack) for slack in (1.07, 0.93))
        assert least - 1e-12 <= found <= min(most, relevance) + 1e-12


@given(RELEVANCES, st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
def test_one_by_one_and_all_at_once(met: list[float], asked: list[float]) -> None:
    """Pages met one after the other, or all at once, and asked for alone or together: the same."""
    grown = Usual()
    for relevance in met:
        grown.add(relevance)
    usual = of(*met)
    alone = [grown.compare(relevance) for relevance in asked]
    assert alone == pytest.approx(usual.compare_all(np.array(asked)).tolist(), abs=1e-12)
    assert all(0.0 <= found <= relevance + 1e-12 for found, relevance in zip(alone, asked, strict=True))


def test_a_judge_that_refuses_enough_is_taken_at_its_word() -> None:
    """While a third of the pages is not relevant, relevance counts as it is; and so it does at the beginning."""
    assert of(*[0.99] * 60, *[0.3] * 40).compare(0.9) == 0.9
    assert of(*[0.99] * (FEWEST_PAGES - 1)).compare(0.9) == 0.9


def test_where_all_is_relevant_the_usual_is_a_coin_toss() -> None:
    """A page like most is as good as unknown, one that the judge is much surer of stands out."""
    usual = of(*[0.95] * 50)
    assert usual.compare(0.95) == pytest.approx(0.5, abs=0.02)
    assert usual.compare(0.999) > 0.97
    assert usual.compare(0.6) < 0.1


def waiting(oid: int) -> Waiting:
    host = Host(0, "a.org", "http", Domain())
    return Waiting(oid, f"http://a.org/{oid}", host, topic=0, depth=1, relevance=0.5)


def said(relevance: float) -> Judgement:
    return Judgement(0, relevance >= 0.5, relevance, relevance)


def test_the_order_compares_too() -> None:
    """A judge takes every page: for the order one that it is less sure of is no relevant one, until it refuses some."""
    strategy = AllEvidence(Settings().frontier)
    page = waiting(99)
    assert strategy.steps_at(page, said(0.8)) == 0
    for oid in range(FEWEST_PAGES):
        strategy.settle(oid, 0.95)
        strategy.observe(waiting(oid), said(0.95), Document("", "", "", "", "", "", [], b"", b"", [], 0, b""), [], [])
    assert strategy.steps_at(page, said(0.8)) == 1
    assert strategy.steps_at(page, said(0.999)) == 0
    nothing = np.zeros(0)
    anew = JudgedAnew(nothing.astype(np.int64), nothing, nothing, WordOdds(), of(*[0.95] * 20, *[0.1] * 20))
    strategy.evidence.pages_seen()
    strategy.judge_anew(anew, [])
    assert strategy.steps_at(page, said(0.8)) == 0
