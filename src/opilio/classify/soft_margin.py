"""The exact dual solution of the soft margin: minimise a'Qa/2 - sum(a), with 0 <= a <= cost and signs'a = 0.

Q is signs * signs' * products, where `products` are the inner products of the documents. Up to `FEW` documents it is
solved here, by an interior point method (Mehrotra 1992): about 15 steps, each with the inverse of one matrix. libsvm
takes less time for that, but importing scikit-learn takes 0.7 s of CPU, more than everything else in a training of few
examples. More documents are left to libsvm, whose cost grows more slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]

FEW = 400
"""100 documents take 2 ms here and 1 ms in libsvm, 400 take 56 and 6 ms."""
TOLERANCE = 1e-3
"""How far a document may be inside the margin before it counts as wrong; libsvm's own tolerance."""
_GAP = 1e-9
_MAX_STEPS = 60
_PART = 0.99
"""Of the way to the nearest bound, which a step goes at most."""
_RIDGE = 1e-12  # two documents may be the same


def solve(products: Numbers, signs: Numbers, cost: Numbers) -> tuple[Numbers, float]:
    """The dual variables, and the bias of the hyperplane."""
    if len(signs) > FEW:
        return _by_libsvm(products, signs, cost)
    found = _interior_point(products * np.outer(signs, signs), signs, cost)
    # At the solution a dual variable or the multiplier of its bound is 0; what is left of the other is tiny.
    alphas = np.where(found.alphas < found.lower, 0.0, found.alphas)
    alphas = np.where(cost - found.alphas < found.upper, cost, alphas)
    free = (alphas > 0.0) & (alphas < cost)
    if free.any():  # what that adds up to is shared out, so that the equation holds
        alphas[free] -= signs[free] * float(signs @ alphas) / np.count_nonzero(free)
        alphas = np.clip(alphas, 0.0, cost)
    return alphas, _bias(products @ (alphas * signs), signs, alphas > 0.0, alphas < cost)


def _by_libsvm(products: Numbers, signs: Numbers, cost: Numbers) -> tuple[Numbers, float]:
    from sklearn.svm import SVC  # noqa: PLC0415 - see above

    machine = SVC(kernel="precomputed", C=1.0, tol=TOLERANCE).fit(products, signs, sample_weight=cost)
    alphas = np.zeros(len(signs))
    alphas[machine.support_] = np.abs(machine.dual_coef_[0])
    return alphas, float(machine.intercept_[0])


def _bias(scores: Numbers, signs: Numbers, above_zero: Flags, below_cost: Flags) -> float:
    """The bias with which scores meet the conditions of the solution: as libsvm has it, the mean or the middle."""
    free = above_zero & below_cost
    wanted = signs - scores
    if free.any():
        return float(wanted[free].mean())
    at_least = (signs > 0.0) == below_cost
    return float(wanted[at_least].max() + wanted[~at_least].min()) / 2.0


class _Point(NamedTuple):
    """Dual variables, the multipliers of their bounds, and that of the equation; also a direction in all of these."""

    alphas: Numbers
    lower: Numbers
    upper: Numbers
    bias: float

    def moved(self, by: _Point, length: float) -> _Point:
        return _Point(
            self.alphas + length * by.alphas,
            self.lower + length * by.lower,
            self.upper + length * by.upper,
            self.bias + length * by.bias,
        )


def _interior_point(q: Numbers, signs: Numbers, cost: Numbers) -> _Point:
    ones = np.ones(len(signs))
    ridge = _RIDGE * max(1.0, float(q.diagonal().max()))
    at = _Point(cost / 2.0, ones, ones, 0.0)
    for _ in range(_MAX_STEPS):
        rest = cost - at.alphas
        newton = _Newton(q, signs, at, rest, ridge)
        gap = _gap(at, rest)
        if max(gap, newton.error) < _GAP:
            break
        straight = newton.direction(0.0, 0.0, 0.0)
        length = _length(at, straight, rest)
        reached = at.moved(straight, length)
        target = gap * (_gap(reached, cost - reached.alphas) / gap) ** 3
        direction = newton.direction(target, straight.alphas * straight.lower, -straight.alphas * straight.upper)
        at = at.moved(direction, min(1.0, _PART * _length(at, direction, rest, 1.0 / _PART)))
    return at


def _gap(at: _Point, rest: Numbers) -> float:
    """The mean of each variable times its multiplier."""
    return float(at.alphas @ at.lower + rest @ at.upper) / (2.0 * len(rest))


class _Newton:
    """The conditions of the solution, linear at a point."""

    def __init__(self, q: Numbers, signs: Numbers, at: _Point, rest: Numbers, ridge: float) -> None:
        self._signs, self._at, self._rest = signs, at, rest
        self._dual = q @ at.alphas - 1.0 + at.bias * signs - at.lower + at.upper
        self._primal = float(signs @ at.alphas)
        self._inverse = np.linalg.inv(q + np.diag(at.lower / at.alphas + at.upper / rest + ridge))
        self._across = self._inverse @ signs

    @property
    def error(self) -> float:
        """By how much the equations do not hold."""
        return max(float(np.abs(self._dual).max()), abs(self._primal))

    def direction(self, target: float, bent_lower: Numbers | float, bent_upper: Numbers | float) -> _Point:
        """Where the equations hold, and each variable times its multiplier is the target."""
        at, rest = self._at, self._rest
        lower = (target - bent_lower) / at.alphas - at.lower
        upper = (target - bent_upper) / rest - at.upper
        towards = self._inverse @ (lower - upper - self._dual)
        bias = (self._primal + float(self._signs @ towards)) / float(self._signs @ self._across)
        alphas = towards - bias * self._across
        return _Point(alphas, lower - at.lower / at.alphas * alphas, upper + at.upper / rest * alphas, bias)


def _length(at: _Point, direction: _Point, rest: Numbers, most: float = 1.0) -> float:
    """How far one can go before a variable or a multiplier is 0."""
    changes = (direction.alphas, -direction.alphas, direction.lower, direction.upper)
    for value, change in zip((at.alphas, rest, at.lower, at.upper), changes, strict=True):
        falls = change < 0.0
        if falls.any():
            most = min(most, float((value[falls] / -change[falls]).min()))
    return most
