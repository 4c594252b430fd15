"""Calibration: thresholds are the best expected ones, few answers stay near the prior, and intervals cover the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from opilio.classify.calibration import (
    ANSWER_WEIGHT,
    BETAS,
    MAX_THRESHOLD,
    MIN_THRESHOLD,
    PRIOR,
    PRIOR_DEVIATIONS,
    USUAL_SEPARATION,
    Calibration,
    best_threshold,
    calibrate,
)

NONE = np.zeros(0)
NO_ANSWERS = np.zeros(0, bool)
scores = st.lists(st.floats(-4, 6), min_size=1, max_size=40).map(np.array)


def logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))


@given(st.lists(st.floats(0.001, 0.999), min_size=1, max_size=30), st.sampled_from(sorted(BETAS.values())))
def test_no_other_cut_has_a_greater_expected_f_measure(probabilities: list[float], beta: float) -> None:
    """The threshold accepts the pages with the greatest expected F-measure, by trying every cut; unless that would
    accept pages that are nearly certain to be wrong, or refuse ones that are nearly certain to be right."""

    def measure(cut: float) -> float:
        accepted = [p for p in probabilities if p >= cut]
        return (1 + beta**2) * sum(accepted) / (beta**2 * sum(probabilities) + len(accepted))

    found = best_threshold(np.array(probabilities), beta)
    best = max(measure(cut) for cut in probabilities)
    is_bounded = found in (MIN_THRESHOLD, MAX_THRESHOLD)
    assert is_bounded or found in probabilities or measure(found) == pytest.approx(best)


@given(scores, scores)
def test_without_answers_the_prior_holds(met: np.ndarray, own: np.ndarray) -> None:
    """The probability of a page is that of the prior, and relevance is 0.5 at the threshold."""
    found = calibrate(met, own, NONE, NO_ANSWERS)
    assert found.coefficients == pytest.approx(PRIOR)
    assert found.separation == pytest.approx(float(np.median(own)))
    assert found.probabilities(np.array([0.5]))[0] == pytest.approx(found.threshold)
    assert found.expected is not None and found.expected.low <= found.expected.precision <= found.expected.high
    a, b, c = PRIOR
    relevance = [logistic(found.slope * score + found.offset) for score in met]
    expected = [logistic(a + b * score + c * found.separation) for score in met]
    assert found.probabilities(np.array(relevance)) == pytest.approx(expected, abs=1e-6)


def test_one_example_cannot_be_scored_without_itself() -> None:
    """Then the separation is the usual one."""
    assert calibrate(np.array([0.0, 1.0]), NONE, NONE, NO_ANSWERS).separation == USUAL_SEPARATION


@given(st.lists(st.tuples(st.floats(-3, 5), st.booleans()), max_size=30), st.floats(-1, 4))
def test_answers_are_weighed_against_the_prior(answers: list[tuple[float, bool]], separation: float) -> None:
    """The coefficients have the greatest posterior probability: a general optimiser finds none with a greater one."""
    answered = np.array([score for score, _ in answers])
    labels = np.array([label for _, label in answers], bool)
    found = calibrate(np.array([0.0]), np.array([separation]), answered, labels)
    rows = np.stack((np.ones(len(answered)), answered, np.full(len(answered), separation)), axis=1)

    def loss(coefficients: np.ndarray) -> float:
        logits = rows @ coefficients
        away = (coefficients - np.array(PRIOR)) / np.array(PRIOR_DEVIATIONS)
        return float(ANSWER_WEIGHT * (np.logaddexp(0, logits) - labels * logits).sum() + 0.5 * away @ away)

    best = minimize(loss, np.array(PRIOR), method="BFGS")
    assert loss(np.array(found.coefficients)) <= best.fun + 1e-4
    assert found.answers == len(answers)


def test_intervals_cover_the_true_precision() -> None:
    """Of 300 topics drawn from the prior, with and without answers, at least about nine in ten have a true precision of
    accepted pages inside the interval, and on average the estimate is right. Answers narrow the interval, but less than
    as many pages drawn by lot would: they count for a part only."""
    rng = np.random.default_rng(7)
    width = 1.0
    for answers in (0, 10):
        covered, errors, widths = [], [], []
        for _ in range(300):
            met = rng.normal(size=400)
            true = rng.normal(PRIOR, PRIOR_DEVIATIONS)
            chance = 1.0 / (1.0 + np.exp(-(true[0] + true[1] * met + true[2] * 2.0)))
            is_right = rng.random(400) < chance
            asked = np.argsort(-met)[: 2 * answers : 2]
            found = calibrate(np.delete(met, asked), np.array([2.0]), met[asked], is_right[asked])
            rest = np.delete(np.arange(400), asked)
            relevance = 1.0 / (1.0 + np.exp(-(found.slope * met[rest] + found.offset)))
            accepted = relevance >= 0.5
            share, low, high = found.precision(relevance[accepted])
            truth = float(chance[rest][accepted].mean())
            covered.append(low <= truth <= high)
            errors.append(share - truth)
            widths.append(high - low)
        assert np.mean(covered) >= 0.84
        assert abs(np.mean(errors)) < 0.05
        assert np.mean(widths) < width, "answers narrow the interval"
        width = float(np.mean(widths))


def test_without_pages_nothing_is_known_of_the_precision() -> None:
    """An empty set has no precision: the interval is everything."""
    found = Calibration(PRIOR, tuple(np.eye(3).ravel().tolist()), 2.0, 0.5)
    assert found.precision(NONE) == (0.0, 0.0, 1.0)
