"""One linear support vector machine: the hyperplane of maximum soft margin, and where to put it.

The exact dual solution is wanted, for its variables are what `xi_alpha.py` goes by. libsvm gives it, but from all
pairs of documents; so the machine is trained on the documents near the hyperplane, those that it puts on the wrong side
of the margin are added, and so on until there are none. What is left out has alpha = 0: the solution is that of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Places = npt.NDArray[np.intp]

FIRST_ROWS = 100
"""Documents of each class to begin with, and how many are added at a time: solving is cheap, their products are not."""
TOLERANCE = 1e-3
"""By how much a document may be within the margin before it must be looked at; libsvm's own tolerance."""
NEGATIVE_DEVIATIONS = 2.5
"""See `moved`. From 2 to 3 the results differ by the noise; without, hardly any page is accepted (docs/concepts)."""
CLEAR_NEGATIVES = 0.98
MIN_UNIT = 0.1
"""A tenth of the margin: below, topics cannot be told apart, and distances would be blown up to certainties."""


@dataclass(frozen=True)
class Hyperplane:
    """w.x + bias = 0, with what training told of each document, in their order."""

    weights: Numbers
    bias: float
    scores: Numbers
    """w.x + bias."""
    alphas: Numbers
    squares: Numbers
    """x.x"""

    @property
    def radius_squared(self) -> float:
        """A bound of x.x - x.x' over all pairs, given that no x.x' is negative."""
        return float(self.squares.max(initial=0.0))


def costs(positive: Flags, c: float) -> Numbers:
    """What an error costs: both classes weigh the same in all, however few the positive documents are."""
    ours = int(np.count_nonzero(positive))
    more = max(ours, len(positive) - ours)
    return np.where(positive, c * more / max(1, ours), c * more / max(1, len(positive) - ours))


def fit_hyperplane(rows: Any, positive: Flags, cost: Numbers) -> Hyperplane:
    """The hyperplane of maximum margin for the rows of a scipy CSR matrix; both classes must be there."""
    signs = np.where(positive, 1.0, -1.0)
    chosen = _nearest(signs, np.zeros(len(signs), bool), _between_means(rows, positive))
    products = _products(rows, chosen, chosen)
    while True:
        alphas, bias = _solve(products, signs[chosen], cost[chosen])
        weights = rows[chosen].T @ (alphas * signs[chosen])
        scores = rows @ weights + bias
        looked_at = np.zeros(len(signs), bool)
        looked_at[chosen] = True
        new = _nearest(signs, looked_at | (signs * scores >= 1.0 - TOLERANCE), scores)
        if not len(new):
            break
        across = _products(rows, chosen, new)
        products = np.block([[products, across], [across.T, _products(rows, new, new)]])
        chosen = np.concatenate((chosen, new))
    all_alphas = np.zeros(len(signs))
    all_alphas[chosen] = alphas
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return Hyperplane(weights, bias, scores, all_alphas, squares)


def moved(plane: Hyperplane, positive: Flags) -> tuple[float, float]:
    """Where the hyperplane must be moved to, as a score, and the score's unit.

    The features were chosen for the training documents, so these lie far out; a new document of the topic has a part of
    them only. With few positive documents it falls short of the middle: five examples find a tenth of their topic,
    though hardly any other page scores higher. So the hyperplane is moved towards the negative documents, as they
    would score if they had not been trained on (the first step of leave-one-out: each score without its own alpha):
    until it is `NEGATIVE_DEVIATIONS` from their mean, or, if that is farther out, half way between the positive ones'
    mean and the clear negatives. It is never moved the other way.

    The unit is the distance of the average negative document, which thus has a confidence of about -1 whatever the
    space, the topic and the number of examples.
    """
    own = plane.alphas * plane.squares
    others = plane.scores[~positive] + own[~positive]
    ours = plane.scores[positive] - own[positive]
    noise_end = others.mean() + NEGATIVE_DEVIATIONS * others.std()
    middle = (ours.mean() + np.quantile(others, CLEAR_NEGATIVES)) / 2
    threshold = min(0.0, max(noise_end, middle))
    return float(threshold), float(max(MIN_UNIT, threshold - others.mean()))


def _solve(products: Numbers, signs: Numbers, cost: Numbers) -> tuple[Numbers, float]:
    from sklearn.svm import SVC  # noqa: PLC0415 - takes half a second, and only training needs it

    machine = SVC(kernel="precomputed", C=1.0, tol=TOLERANCE).fit(products, signs, sample_weight=cost)
    alphas = np.zeros(len(signs))
    alphas[machine.support_] = np.abs(machine.dual_coef_[0])
    return alphas, float(machine.intercept_[0])


def _between_means(rows: Any, positive: Flags) -> Numbers:
    """Scores of the simplest classifier, which tells the documents to begin with."""
    ours = np.asarray(rows[positive].mean(axis=0)).ravel()
    others = np.asarray(rows[~positive].mean(axis=0)).ravel()
    return np.asarray(rows @ (ours - others), dtype=np.float64)


def _nearest(signs: Numbers, left_out: Flags, scores: Numbers) -> Places:
    """Of each class, the documents that lie farthest over to the other side."""
    chosen: list[Places] = []
    for sign in (1.0, -1.0):
        places = np.flatnonzero((signs == sign) & ~left_out)
        order = np.argsort(sign * scores[places], kind="stable")
        chosen.append(places[order[:FIRST_ROWS]])
    return np.concatenate(chosen)


def _products(rows: Any, some: Places, others: Places) -> Numbers:
    # Sparse by dense takes a half to a fifth of the time of any other way, dense by dense included.
    return np.asarray(rows[some] @ np.ascontiguousarray(rows[others].toarray().T))
