"""The meta classifier: the votes of several feature spaces become one decision (BINGO 3.5, equation 2).

A space votes for or against a topic by the side of its hyperplane on which the page lies; one in which the page has
nothing to look at does not vote. Votes are weighed and summed. Above one threshold the decision is yes (+1), below
another no (-1), and between them the meta classifier abstains (0):

    unanimous   each vote counts 1, and all must agree: thresholds h - 0.5 and -(h - 0.5) for h voters
    majority    each vote counts 1, thresholds 0
    weighted    each vote counts the estimated precision of its classifier, thresholds 0
    best        only the space with the best estimate is asked

Whoever abstains does not take the page: a topic is entered on a yes only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

DOUBT = 1e-6
"""The least confidence of a yes, and the negative of the least one of anything else: the sign always tells which."""
NOTHING_SEEN = -1.0
"""The confidence in any topic of a page in which no space has anything to look at: that of the average document which
is not of the topic."""


class Rule(NamedTuple):
    """One instance of equation 2."""

    weights: Callable[[Numbers], Numbers]
    """The weight of each vote from the estimated precision of its classifier."""
    threshold: Callable[[Numbers], Numbers]
    """From the number of voters: what the sum must exceed for a yes, and its negative undercut for a no."""


def _equal(precisions: Numbers) -> Numbers:
    return np.ones_like(precisions)


def _as_estimated(precisions: Numbers) -> Numbers:
    """The precisions; equal weights where the estimates are 0 for all, as they are for a handful of examples."""
    return np.where(precisions.any(axis=0), precisions, 1.0)


def _none(voters: Numbers) -> Numbers:
    return np.zeros_like(voters)


def _all(voters: Numbers) -> Numbers:
    return voters - 0.5


RULES: dict[str, Rule] = {
    "unanimous": Rule(_equal, _all),
    "majority": Rule(_equal, _none),
    "weighted": Rule(_as_estimated, _none),
    "best": Rule(_equal, _none),  # there is one voter
}


class Verdicts(NamedTuple):
    """What the meta classifier says of each of several topics."""

    decisions: Numbers
    """+1, -1, or 0."""
    confidences: Numbers
    """The weighed mean of the voters' confidences, but at least `DOUBT` for a yes and at most -`DOUBT` otherwise."""
    shares: Numbers
    """By space and topic, how much of the mean is this space's; 0 when it did not vote."""


def decide(rule: Rule, votes: Numbers, precisions: Numbers) -> Verdicts:
    """Decide on topics by `votes`: confidences by space (rows) and topic (columns), NaN for a space that abstains."""
    voted = ~np.isnan(votes)
    votes = np.where(voted, votes, 0.0)
    weights = rule.weights(np.where(voted, precisions, 0.0)) * voted
    sums = (weights * np.where(votes > 0.0, 1.0, -1.0)).sum(axis=0)
    limits = rule.threshold(voted.sum(axis=0).astype(np.float64))
    any_voter = voted.any(axis=0)
    # Without a voter the limit of `unanimous` is below 0, and nothing would be decided unanimously.
    decisions = np.where(any_voter, (sums > limits) * 1.0 - (sums < -limits) * 1.0, 0.0)
    totals = weights.sum(axis=0)
    shares = weights / np.where(totals > 0.0, totals, 1.0)
    means = np.where(any_voter, (shares * votes).sum(axis=0), NOTHING_SEEN)
    confidences = np.where(decisions > 0.0, np.maximum(means, DOUBT), np.minimum(means, -DOUBT))
    return Verdicts(decisions, confidences, shares)
