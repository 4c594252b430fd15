"""The hyperplane against scikit-learn and the conditions of optimality; xi-alpha against real leave-one-out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.svm import SVC

from opilio.classify.judge import Estimate
from opilio.classify.soft_margin import TOLERANCE
from opilio.classify.svm_training import error_costs, fit_hyperplane, shifted_threshold
from opilio.classify.xi_alpha import RHO, USUAL_RHO, estimate, quality

Data = tuple[np.ndarray, np.ndarray]


def texts(ours: int, others: int, own_share: float, seed: int, words: int = 300, length: int = 60) -> Data:
    """Rows like weighed pages: words by Zipf's law, a share of those of positive pages from a law of their own."""
    rng = np.random.default_rng(seed)
    law = 1.0 / np.arange(1, words + 1)
    law /= law.sum()
    own = law[rng.permutation(words)]
    rows = np.zeros((ours + others, words))
    for row in range(ours + others):
        mixed = (1 - own_share) * law + own_share * own if row < ours else law
        counts = np.bincount(rng.choice(words, length, p=mixed), minlength=words)
        rows[row] = np.log1p(counts) / np.linalg.norm(np.log1p(counts))
    return rows, np.arange(ours + others) < ours


DATA = {
    "far apart": texts(20, 40, 0.8, 1),
    "near": texts(20, 40, 0.3, 2),
    "hopeless": texts(15, 15, 0.0, 3),
    "few against many": texts(4, 60, 0.5, 4),
    "one against many": texts(1, 30, 0.5, 5),
    "many against few": texts(40, 6, 0.5, 6),
}


def leave_one_out(rows: np.ndarray, positive: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Which documents are misjudged by a machine trained on all others."""
    products = rows @ rows.T
    wrong = np.zeros(len(rows), bool)
    for out in range(len(rows)):
        rest = np.arange(len(rows)) != out
        if len(set(positive[rest])) < 2:
            wrong[out] = positive[out]  # nothing says yes any more
            continue
        machine = SVC(kernel="precomputed", C=1.0, tol=1e-5)
        machine.fit(products[np.ix_(rest, rest)], positive[rest], sample_weight=cost[rest])
        wrong[out] = bool(machine.predict(products[out : out + 1, rest])[0]) != positive[out]
    return wrong


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("balanced", [True, False])
def test_estimates_are_pessimistic(name: str, balanced: bool) -> None:
    """Xi-alpha never promises less error, or more recall, than leaving each document out in turn really gives."""
    rows, positive = DATA[name]
    cost = error_costs(positive, 1.0) if balanced else np.ones(len(positive))
    plane = fit_hyperplane(csr_matrix(rows), positive, cost)
    wrong = leave_one_out(rows, positive, cost)
    for rho in (RHO, USUAL_RHO):
        found = estimate(plane.scores, plane.alphas, positive, plane.radius_squared, rho)
        assert found.error >= wrong.mean()
        assert found.recall <= 1 - wrong[positive].mean()
        right = np.count_nonzero(positive & ~wrong)
        assert found.precision <= right / max(1, right + np.count_nonzero(wrong & ~positive))


def test_estimates_are_close() -> None:
    """With the usual factor, the error estimated is within a tenth of the real one when topics can be told apart."""
    for name in ("far apart", "many against few", "few against many"):
        rows, positive = DATA[name]
        cost = error_costs(positive, 1.0)
        plane = fit_hyperplane(csr_matrix(rows), positive, cost)
        found = estimate(plane.scores, plane.alphas, positive, plane.radius_squared, USUAL_RHO)
        assert found.error - leave_one_out(rows, positive, cost).mean() <= 0.1, name


@given(
    st.lists(st.tuples(st.floats(-3, 3), st.floats(0, 2), st.booleans()), min_size=1, max_size=30),
    st.floats(0.01, 2),
    st.sampled_from([1.0, 2.0]),
)
def test_the_formula(documents: list[tuple[float, float, bool]], radius_squared: float, rho: float) -> None:
    """Errors are the documents with rho*alpha*R^2 + xi >= 1, as Joachims defines them, when alpha > 0 or xi > 0."""
    ours = [positive for _, _, positive in documents].count(True)
    wrong = {True: 0, False: 0}
    for score, alpha, positive in documents:
        slack = max(0.0, 1.0 - (score if positive else -score))
        if slack == 0.0:
            alpha = 0.0  # noqa: PLW2901 - beyond the margin no document has an alpha
        wrong[positive] += rho * alpha * radius_squared + slack >= 1.0 + 1e-12
    scores, alphas, positive_ones = (np.array(column) for column in zip(*documents, strict=True))
    alphas = np.where(np.where(positive_ones, scores, -scores) >= 1.0, 0.0, alphas)
    found = estimate(scores.astype(float), alphas.astype(float), positive_ones, radius_squared, rho)
    off = abs(round(found.error * len(documents)) - wrong[True] - wrong[False])
    assert off <= np.count_nonzero(  # where rounding decides, either is right
        np.abs(rho * alphas * radius_squared - np.where(positive_ones, scores, -scores)) < 1e-9
    )
    if off == 0:
        right = ours - wrong[True]
        assert found.recall == pytest.approx(right / max(1, ours))
        assert found.precision == pytest.approx(right / max(1, right + wrong[False]))


def test_quality_wants_both() -> None:
    """A classifier that is precise but finds little is not preferred to one that is good at both."""
    assert (
        quality(Estimate(0.1, 0.8, 0.7)) > quality(Estimate(0.1, 0.95, 0.2)) > quality(Estimate(0.5, 0.0, 0.0)) == 0.0
    )


@pytest.mark.parametrize(("ours", "others"), [(5, 20), (30, 700), (400, 500)])
def test_hyperplane_is_that_of_scikit_learn(ours: int, others: int) -> None:
    """Trained on the documents near the margin only, it is the solution for all of them: same scores, optimal alphas."""
    rows, positive = texts(ours, others, 0.4, ours)
    cost = error_costs(positive, 1.0)
    plane = fit_hyperplane(csr_matrix(rows), positive, cost)
    machine = SVC(kernel="linear", C=1.0, tol=1e-5).fit(rows, positive, sample_weight=cost)
    assert plane.scores == pytest.approx(machine.decision_function(rows), abs=0.02)
    signs = np.where(positive, 1.0, -1.0)
    assert np.sum(signs * plane.alphas) == pytest.approx(0.0, abs=1e-6)
    assert np.all((plane.alphas >= 0.0) & (plane.alphas <= cost + 1e-9))
    assert plane.weights == pytest.approx(rows.T @ (signs * plane.alphas))
    margins = signs * plane.scores
    assert np.all(margins[plane.alphas == 0.0] >= 1.0 - 2 * TOLERANCE)
    assert np.all(margins[plane.alphas >= cost - 1e-9] <= 1.0 + 2 * TOLERANCE)


def test_costs_balance_the_classes() -> None:
    """Errors on all positive documents together cost as much as on all negative ones; the larger class costs c each."""
    for ours, others in ((2, 100), (100, 2), (7, 7)):
        positive = np.arange(ours + others) < ours
        cost = error_costs(positive, 3.0)
        assert cost[positive].sum() == pytest.approx(cost[~positive].sum())
        assert cost.min() == pytest.approx(3.0)


@settings(max_examples=20)
@given(st.integers(1, 30), st.integers(1, 60), st.floats(0, 0.9), st.integers(0, 100))
def test_hyperplane_moves_towards_the_negative_only(ours: int, others: int, own_share: float, seed: int) -> None:
    """Whatever the documents, it is never moved so that fewer pages are accepted, and the unit is positive."""
    rows, positive = texts(ours, others, own_share, seed, words=60, length=20)
    threshold, unit = shifted_threshold(
        fit_hyperplane(csr_matrix(rows), positive, error_costs(positive, 1.0)), positive
    )
    assert threshold <= 0.0 < unit


def test_a_moved_hyperplane_finds_what_the_trained_one_misses() -> None:
    """With three examples against a hundred, new documents of the topic lie beyond the moved hyperplane, others not."""
    rows, positive = texts(63, 200, 0.3, 9, words=3000, length=150)
    trained = np.concatenate((np.arange(3), np.arange(63, 163)))
    new = np.setdiff1d(np.arange(263), trained)
    plane = fit_hyperplane(csr_matrix(rows[trained]), positive[trained], error_costs(positive[trained], 1.0))
    threshold, _ = shifted_threshold(plane, positive[trained])
    scores = rows[new] @ plane.weights + plane.bias
    found_before, found_now = scores[positive[new]] > 0.0, scores[positive[new]] > threshold
    assert found_before.mean() < 0.3
    assert found_now.mean() > 0.6
    assert (scores[~positive[new]] > threshold).mean() < 0.1
