"""The soft margin: libsvm is the oracle."""

import subprocess
import sys

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import SVC

from opilio.classify import soft_margin

Numbers = npt.NDArray[np.float64]


def task(seed: int, count: int, twins: int = 0) -> tuple[Numbers, Numbers, Numbers]:
    """Products, signs and costs of random documents, some of which are the same and some empty."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, 20 + count)) / 5
    rows[count - twins :] = rows[0]
    rows[rng.random(count) < 0.2] = 0.0
    signs = np.where(rng.random(count) < 0.3, 1.0, -1.0)
    signs[:2] = 1.0, -1.0
    return rows @ rows.T, signs, np.where(signs > 0, rng.uniform(1.0, 20.0), 1.0)


def objective(products: Numbers, signs: Numbers, alphas: Numbers) -> float:
    signed = alphas * signs
    return float(signed @ products @ signed / 2 - alphas.sum())


def by_libsvm(products: Numbers, signs: Numbers, cost: Numbers) -> tuple[Numbers, float]:
    machine = SVC(kernel="precomputed", C=1.0, tol=1e-5).fit(products, signs, sample_weight=cost)
    alphas = np.zeros(len(signs))
    alphas[machine.support_] = np.abs(machine.dual_coef_[0])
    return alphas, float(machine.intercept_[0])


@given(st.integers(0, 2**32), st.integers(2, 60), st.integers(0, 20))
def test_it_is_the_optimum(seed: int, count: int, twins: int) -> None:
    """The dual variables keep to their bounds and their equation, and no others are better."""
    products, signs, cost = task(seed, count, min(twins, count - 2))
    alphas, bias = soft_margin.solve(products, signs, cost)
    known, known_bias = by_libsvm(products, signs, cost)
    assert np.all(alphas >= 0.0) and np.all(alphas <= cost)
    assert abs(signs @ alphas) < 1e-4
    assert objective(products, signs, alphas) == pytest.approx(objective(products, signs, known), rel=1e-4, abs=1e-4)
    scores, known_scores = products @ (alphas * signs), products @ (known * signs)
    assert scores == pytest.approx(known_scores, abs=1e-3)
    if np.any((known > 1e-3) & (known < 0.999 * cost)):  # else any bias of an interval is right
        assert bias == pytest.approx(known_bias, abs=1e-3)


def test_the_same_on_either_side_of_few() -> None:
    """Where another method takes over, the hyperplane is the same."""
    products, signs, cost = task(1, soft_margin.FEW + 1)
    for count in (soft_margin.FEW, soft_margin.FEW + 1):
        alphas, bias = soft_margin.solve(products[:count, :count], signs[:count], cost[:count])
        known, known_bias = by_libsvm(products[:count, :count], signs[:count], cost[:count])
        assert bias == pytest.approx(known_bias, abs=0.01)
        scores, known_scores = (products[:count, :count] @ (some * signs[:count]) for some in (alphas, known))
        assert scores == pytest.approx(known_scores, abs=0.01)


def test_few_documents_do_not_import_scikit_learn() -> None:
    """What takes most of the time of a small training is left out of it."""
    program = (
        "import sys, numpy as np; from opilio.classify import soft_margin\n"
        "soft_margin.solve(np.eye(4), np.array([1.0, -1, 1, -1]), np.ones(4))\n"
        "assert 'sklearn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
