"""Calibration: from the scores of a classifier to a probability, and to a threshold that follows the user's wish.

A hyperplane ranks pages well, but its side says little: five examples and some everyday texts do not show where a topic
ends on this web. What shows it are the pages that the crawl has met. So a score is first put on the scale of these
pages: 0 is the average page met, 1 a standard deviation above it. On this scale the chance that a page is right is
much the same on webs that have nothing else in common:

    logit p = a + b * score + c * separation

where the separation is the median score of the examples that the user gave, each scored without itself. The prior of
a, b and c was fitted on the development topics of four webs (`PRIOR`). What the user answers about pages of this crawl
corrects them: the maximum of the posterior, a logistic regression that stays near the prior while answers are few.

*The threshold* is the probability from which pages are accepted. It has the greatest expected F-measure over the pages
met: F1 for a balance of precision and recall, F0.5 for precision, F2 for recall. *Relevance* is the probability moved
so that the threshold is at 0.5: its odds are the odds of the probability divided by those of the threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]

PRIOR = (-1.74, 1.24, -0.31)
"""a, b and c, as `python -m bench.quality.calibration --webs FOLDER --fit` prints them: fitted on 31 development topics
of wiki4schools, pydocs, webkb and foldoc, five examples each. How many of the pages met are right differs most between
crawls; so each topic counts as it was crawled (5 to 10 % right), a fifth as much with pages left out until 25 % were
right, and a twentieth as much with 50 % (docs/results/log.md, 2026-11-18)."""
PRIOR_DEVIATIONS = (1.6, 0.6, 0.15)
"""How far a crawl's own values may lie from the prior. On one web a third as many accepted pages were right as was
expected, on another nearly all: without answers, little is known of a."""
ANSWER_WEIGHT = 0.3
"""An answer counts as this part of a page drawn by lot: questions are about the surest and the most doubtful pages, of
which many are alike. With whole answers, ten times yes accepted nearly everything (docs/results/log.md)."""
USUAL_SEPARATION = 2.0
"""The separation when there is one example, which cannot be scored without itself: the median of the same topics."""
MIN_MET = 10
"""Pages met that a scale needs."""
BETAS = {"precision": 0.5, "balance": 1.0, "recall": 2.0}
"""By what the user prefers: the F-measure whose expected value is the greatest."""
MIN_THRESHOLD, MAX_THRESHOLD = 0.02, 0.9
"""After many times no, few pages are likely to be right: the best of them are accepted all the same."""
_STEPS = 25
_DRAWS = 400


@dataclass(frozen=True)
class Expected:
    """What is to be expected of the pages that a topic accepts."""

    accepted: int
    """How many pages it accepts."""
    precision: float
    low: float
    high: float
    """The ends of the 90 % interval of the precision."""
    recall: float
    """The share of the right pages that is accepted."""


@dataclass(frozen=True)
class Calibration:
    """How the scores of one topic become probabilities. A score is in standard deviations above the average page."""

    coefficients: tuple[float, float, float]
    covariance: tuple[float, ...]
    """Of the coefficients, row by row: what is not known of them."""
    separation: float
    threshold: float
    """Pages are accepted from this probability on."""
    answers: int = 0
    """The user's answers that it has learned from."""
    expected: Expected | None = None
    """Of the pages that it was calibrated on."""

    @property
    def slope(self) -> float:
        """By how much a score of one more raises the logit of the probability."""
        return self.coefficients[1]

    @property
    def offset(self) -> float:
        """The logit of the probability at a score of 0, less that of the threshold."""
        a, _, c = self.coefficients
        return a + c * self.separation - logit(self.threshold)

    def probabilities(self, relevance: Numbers) -> Numbers:
        """The probabilities of pages, by their relevance."""
        return _logistic(_logits(relevance) + logit(self.threshold))

    def precision(self, relevance: Numbers) -> tuple[float, float, float]:
        """The expected share of right ones among pages of this relevance, and the ends of its 90 % interval.

        Pages that the user has judged should not be among them. Without pages: 0, and nothing is known.
        """
        if not len(relevance):
            return 0.0, 0.0, 1.0
        scores = (_logits(relevance) - self.offset) / max(self.slope, 1e-6)
        rows = _rows(scores, self.separation)
        drawn = np.random.default_rng(0).multivariate_normal(
            self.coefficients, np.array(self.covariance).reshape(3, 3), _DRAWS, method="cholesky"
        )
        shares = _logistic(rows @ drawn.T).mean(axis=0)
        return float(self.probabilities(relevance).mean()), quantile(shares, 0.05), quantile(shares, 0.95)


def quantile(values: Numbers, share: float) -> float:
    """As `np.quantile`, which takes a hundredth of a second to import what it needs for masked arrays."""
    ordered = np.sort(values)
    return float(np.interp(share * (len(ordered) - 1), np.arange(len(ordered)), ordered))


def calibrate(met: Numbers, own: Numbers, answered: Numbers, answers: Flags, prefer: str = "balance") -> Calibration:
    """The calibration of a topic.

    `met` are the scores of pages met, about which the user has said nothing; `own` those of the examples that the user
    gave, each without itself; `answered` those of pages that the user has judged, each without itself, with `answers`.
    """
    separation = quantile(own, 0.5) if len(own) else USUAL_SEPARATION
    coefficients, covariance = _posterior(_rows(answered, separation), answers.astype(np.float64))
    probabilities = _logistic(_rows(met, separation) @ coefficients)
    threshold = best_threshold(probabilities, BETAS[prefer])
    a, b, c = coefficients.tolist()
    found = Calibration((a, b, c), tuple(covariance.ravel().tolist()), separation, threshold, len(answers))
    is_accepted = probabilities >= threshold
    relevance = _logistic(found.slope * met[is_accepted] + found.offset)
    recall = float(probabilities[is_accepted].sum() / probabilities.sum()) if len(met) else 0.0
    return replace(found, expected=Expected(int(is_accepted.sum()), *found.precision(relevance), recall))


def best_threshold(probabilities: Numbers, beta: float) -> float:
    """The probability from which pages must be accepted for the greatest expected F-measure.

    It lies between the last page that is accepted and the next.
    """
    if not len(probabilities):
        return 0.5
    ranked = np.sort(probabilities)[::-1]
    right = ranked.cumsum()
    accepted = np.arange(1, len(ranked) + 1)
    measure = (1 + beta**2) * right / (beta**2 * right[-1] + accepted)
    last = int(measure.argmax())
    return float(np.clip(ranked[last : last + 2].mean(), MIN_THRESHOLD, MAX_THRESHOLD))


def logit(probability: float) -> float:
    """The logarithm of the odds."""
    return math.log(probability / (1.0 - probability))


def _posterior(rows: Numbers, labels: Numbers) -> tuple[Numbers, Numbers]:
    """The most likely coefficients by prior and labels, and their covariance (Laplace), by Newton's method."""
    prior, precision = np.array(PRIOR), np.diag(1.0 / np.square(PRIOR_DEVIATIONS))
    found = prior.copy()
    for _ in range(_STEPS):
        expected = _logistic(rows @ found)
        gradient = ANSWER_WEIGHT * (rows.T @ (expected - labels)) + precision @ (found - prior)
        curvature = _curvature(rows, expected) + precision
        step = np.linalg.solve(curvature, gradient)
        found = found - step * min(1.0, 1.0 / max(1e-9, float(np.abs(step).max())))
        if float(np.abs(step).max()) < 1e-6:
            break
    curvature = _curvature(rows, _logistic(rows @ found)) + precision
    return found, np.asarray(np.linalg.inv(curvature), np.float64)


def _curvature(rows: Numbers, expected: Numbers) -> Numbers:
    return ANSWER_WEIGHT * ((rows.T * (expected * (1.0 - expected))) @ rows)


def _rows(scores: Numbers, separation: float) -> Numbers:
    return np.stack((np.ones(len(scores)), scores, np.full(len(scores), separation)), axis=1)


def _logistic(logits: Numbers) -> Numbers:
    return 1.0 / (1.0 + np.exp(-np.clip(logits, -500.0, 500.0)))


def _logits(values: Numbers) -> Numbers:
    inside = np.clip(values, 1e-9, 1.0 - 1e-9)
    odds: Numbers = np.log(inside / (1.0 - inside))
    return odds
