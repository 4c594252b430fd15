"""The meta classifier: the votes of several feature spaces become one decision (BINGO 3.5, equation 2).

A space votes for or against a topic by the side of its hyperplane on which the page lies; one in which the page has
nothing to look at does not vote. Votes are weighed and summed. Above one threshold the decision is yes (+1), below
another no (-1), and between them the meta classifier abstains (0):

    unanimous   each vote counts 1, and all must agree: thresholds h - 0.5 and -(h - 0.5) for h voters
    majority    each vote counts 1, thresholds 0
    weighted    each vote counts the estimated precision of its classifier, thresholds 0
    best        only the space with the best estimate is asked

Whoever abstains does not take the page: a topic is entered on a yes only.

Down the topic tree: at each node the surest of the topics that say yes takes the page (BINGO 2.4).

When none does, the page belongs to OTHERS below the node, and the walk ends. What was seen on the way tells how much
the page is wanted, though it may have ended elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from opilio.topics.hierarchy import Hierarchy, Mark

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

DOUBT = 1e-6
"""The least confidence of a yes, and the negative of the least one of anything else: the sign always tells which."""
NOTHING_SEEN = -1.0
"""The confidence in any topic of a page in which no space has anything to look at: that of the average document which
is not of the topic."""


class MetaRule(NamedTuple):
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


RULES: dict[str, MetaRule] = {
    "unanimous": MetaRule(_equal, _all),
    "majority": MetaRule(_equal, _none),
    "weighted": MetaRule(_as_estimated, _none),
    "best": MetaRule(_equal, _none),  # there is one voter
}


class Verdicts(NamedTuple):
    """What the meta classifier says of each of several topics."""

    decisions: Numbers
    """+1, -1, or 0."""
    confidences: Numbers
    """The weighed mean of the voters' confidences, but at least `DOUBT` for a yes and at most -`DOUBT` otherwise."""
    shares: Numbers
    """By space and topic, how much of the mean is this space's; 0 when it did not vote."""


def decide(rule: MetaRule, votes: Numbers, precisions: Numbers) -> Verdicts:
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


RELEVANCE_SLOPE = 3.0
"""Of the logistic curve from confidence to relevance: of 1, 2, 3, 4, 6 and 8 the one with the least class-balanced log
loss on the development topics of a school encyclopedia, for 1 to 50 examples a topic (docs/concepts)."""


class JudgedNode(Protocol):
    """A node at which the page was judged."""

    @property
    def topics(self) -> Sequence[int]:
        """The competing topics."""
        ...  # pragma: no cover

    @property
    def verdicts(self) -> Verdicts:
        """What was said of each."""
        ...  # pragma: no cover


A = TypeVar("A", bound=JudgedNode)


@dataclass(frozen=True)
class WalkStage(Generic[A]):
    """One node of the walk."""

    asked: A
    taken: int
    """Place of the topic that took the page; -1: none did."""

    @property
    def best(self) -> int:
        """Place of the topic that took the page, or came nearest to it."""
        return self.taken if self.taken >= 0 else int(np.argmax(self.asked.verdicts.confidences))


def walk(hierarchy: Hierarchy, ask: Callable[[int], A | None]) -> list[WalkStage[A]]:
    """The nodes from the start down to where the page stays; `ask` judges the topics below a node."""
    stages: list[WalkStage[A]] = []
    asked = ask(hierarchy.start)
    while asked is not None:
        verdicts = asked.verdicts
        best = int(np.argmax(np.where(verdicts.decisions > 0.0, verdicts.confidences, -np.inf)))
        taken = best if verdicts.decisions[best] > 0.0 else -1
        stages.append(WalkStage(asked, taken))
        asked = ask(asked.topics[taken]) if taken >= 0 else None
    return stages


def path_confidence(stages: Sequence[WalkStage[A]]) -> float:
    """The confidence of the weakest step taken; when none was, that of the topic which came nearest (negative)."""
    taken = [stage for stage in stages if stage.taken >= 0] or list(stages)
    return float(min(stage.asked.verdicts.confidences[stage.best] for stage in taken))


def relevance(hierarchy: Hierarchy, stages: Sequence[WalkStage[A]]) -> float:
    """How much a page is wanted, 0 to 1; from 0.5 on exactly if a wanted topic took it.

    A page in a wanted topic is as relevant as the weakest step on the way to it is sure; deeper steps do not matter.
    Any other page is as relevant as the best wanted topic, or topic on the way to one, was sure when it was passed by:
    by its own no, or by how much surer the topic was that took the page instead.
    """
    passed_by = -math.inf
    weakest = math.inf
    for stage in stages:
        confidences = stage.asked.verdicts.confidences
        for place, topic in enumerate(stage.asked.topics):
            if place != stage.taken and hierarchy.nodes[topic].mark is not Mark.NULL:
                lead = confidences[stage.taken] if stage.taken >= 0 else 0.0
                own = float(confidences[place])
                passed_by = max(passed_by, min(weakest, own, own - lead, -DOUBT))
        if stage.taken < 0:
            break
        weakest = min(weakest, float(confidences[stage.taken]))
        if hierarchy.is_wanted(stage.asked.topics[stage.taken]):
            return logistic(weakest)
    return logistic(passed_by)


def logistic(confidence: float) -> float:
    """0.5 for a confidence of 0."""
    return 1.0 / (1.0 + math.exp(min(700.0, -RELEVANCE_SLOPE * confidence)))
