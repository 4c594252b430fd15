"""Means and comparisons over topics."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from opilio.errors import InputError
from opilio.lab.experiments import statistics

values = st.lists(st.floats(-1, 1).map(lambda value: round(value, 2)), min_size=2, max_size=8)


def by_topic(found: list[float] | np.ndarray) -> dict[int, float]:
    return {topic: float(value) for topic, value in enumerate(found)}


@given(values)
def test_standard_error_is_scipys(found: list[float]) -> None:
    """The standard deviation of the sample over the root of its size."""
    assert float(statistics.standard_error(np.array(found))) == pytest.approx(stats.sem(found))


@given(values)
def test_permutation_test_tries_every_swap(gaps: list[float]) -> None:
    """The p value is the share of all sign patterns whose sum is as far from 0."""
    sums = [
        abs(sum(s * g for s, g in zip(signs, gaps, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(gaps))
    ]
    expected = sum(total >= abs(sum(gaps)) - 1e-9 for total in sums) / len(sums)
    assert statistics.permutation_p(np.array(gaps)) == pytest.approx(expected)


def test_permutation_test_of_many_topics_agrees_with_scipy() -> None:
    """Drawn swaps come near what scipy draws."""
    gaps = np.random.default_rng(1).normal(0.1, 0.3, 40)
    theirs = stats.permutation_test(
        (gaps, np.zeros(40)), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples", vectorized=True,
        n_resamples=20_000, rng=np.random.default_rng(2),
    ).pvalue  # fmt: skip
    assert statistics.permutation_p(gaps) == pytest.approx(theirs, abs=0.01)
    assert statistics.permutation_p(gaps, seed=3) == statistics.permutation_p(gaps, seed=3)


def test_intervals_cover_as_often_as_they_say() -> None:
    """Of the 90 % intervals of many samples, about nine in ten hold the true mean."""
    rng = np.random.default_rng(5)
    means = [statistics.mean_of(rng.beta(2, 5, 25).tolist(), level=0.9) for _ in range(60)]
    covered = sum(mean.interval.low <= 2 / 7 <= mean.interval.high for mean in means)
    assert 46 <= covered <= 60
    assert covered < 60, "intervals that always hold it are too wide"


def test_comparison_of_paired_values() -> None:
    """A small advantage on every topic is seen through large differences between topics."""
    rng = np.random.default_rng(7)
    hard = rng.random(20)
    better = hard + 0.05 + rng.normal(0, 0.02, 20)
    found = statistics.compare("new", by_topic(better), "old", by_topic(hard), measure="rc5")
    assert found.is_shown
    assert found.difference.low > 0.03
    assert found.difference.value == pytest.approx((better - hard).mean())
    assert found.standard_error == pytest.approx(stats.sem(better - hard))
    assert found.p < 0.001
    assert found.wilcoxon_p == pytest.approx(stats.wilcoxon(better - hard).pvalue)
    assert found.ratio.value == pytest.approx(better.mean() / hard.mean())
    half = statistics.compare("new", by_topic(better), "old", by_topic(hard), level=0.5).ratio
    assert found.ratio.low < half.low < found.ratio.value < half.high < found.ratio.high
    assert (found.wins + found.losses, found.ties, found.topics) == (20, 0, 20)
    assert str(found).startswith("rc5: new ")
    assert "higher" in str(found)
    assert f"95% interval {found.difference.low:+.3f} to {found.difference.high:+.3f}, 20 topics" in str(found)
    back = statistics.compare("old", by_topic(hard), "new", by_topic(better))
    assert "lower" in str(back)


def test_no_claim_without_evidence() -> None:
    """Noise is said to show no difference, and the sentence still has its interval."""
    rng = np.random.default_rng(8)
    found = statistics.compare("a", by_topic(rng.random(12)), "b", by_topic(rng.random(12)))
    assert not found.is_shown
    assert "no difference shown" in str(found)
    assert "interval" in str(found)


def test_results_reproduce_and_do_not_depend_on_the_order_of_names() -> None:
    """The same values give the same bounds; topics are matched by name, not by place."""
    first, second = by_topic([0.1, 0.5, 0.9, 0.3]), by_topic([0.2, 0.4, 0.7, 0.3])
    found = statistics.compare("a", first, "b", second)
    turned = dict(reversed(second.items()))
    assert statistics.compare("a", first, "b", turned) == found


def test_what_cannot_be_compared_is_refused() -> None:
    """Other topics, or fewer than two, are an error that says so."""
    with pytest.raises(InputError, match="same topics"):
        statistics.compare("a", {1: 0.1, 2: 0.2}, "b", {1: 0.1, 3: 0.2})
    with pytest.raises(InputError, match="two at least"):
        statistics.compare("a", {1: 0.1}, "b", {1: 0.1})
    with pytest.raises(InputError, match="no topics"):
        statistics.mean_of([])


def test_equal_values_have_no_width() -> None:
    """Where nothing varies there is nothing to resample: no warning, no nan but for the ratio to 0."""
    found = statistics.compare("a", by_topic([0.0] * 5), "b", by_topic([0.0] * 5))
    assert (found.difference.low, found.difference.high, found.p, found.wilcoxon_p) == (0.0, 0.0, 1.0, 1.0)
    assert math.isnan(found.ratio.value)
    assert statistics.mean_of([0.5]).interval == statistics.ConfidenceInterval(0.5, 0.5, 0.5)
    rounded = statistics.compare("a", by_topic([0.1 + 0.2, 0.3, 0.6]), "b", by_topic([0.2, 0.2, 0.5]))
    assert not math.isnan(rounded.difference.low), "differences that are the same but for rounding"


def test_seed_sets_of_a_topic_are_one_observation() -> None:
    """Values are averaged within topics first."""
    found = statistics.per_topic({("birds", 0): 0.2, ("birds", 1): 0.4, ("cars", 0): 1.0})
    assert found == {"birds": pytest.approx(0.3), "cars": 1.0}


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_holm_raises_p_values_in_order(p_values: list[float]) -> None:
    """No value falls, the order stays, and the smallest is multiplied by their number."""
    raised = statistics.holm(p_values)
    assert all(new >= old for new, old in zip(raised, p_values, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [raised[place] for place in order] == sorted(raised)
    assert min(raised) == pytest.approx(min(1.0, len(p_values) * min(p_values)))
