"""Decisions: how the votes of several feature spaces decide on a topic, and the walk of a page down the topic tree.

The *meta classifier* turns the votes into one decision (BINGO 3.5, equation 2). A space votes for or against a topic by
the side of its hyperplane on which the page lies; a space in which the page has no features does not vote. Votes are
weighted and summed. Above one threshold (t1) the decision is yes (+1), below another (t2) no (-1), and between them the
meta classifier abstains (0):

    mean        the mean of the confidences decides, threshold 0
    unanimous   each vote counts 1, and all must agree: thresholds h - 0.5 and -(h - 0.5) for h voters
    majority    each vote counts 1, thresholds 0
    weighted    each vote counts the estimated precision of its classifier, thresholds 0
    best        only the space with the best estimate votes
    free        each vote counts the weight that the user gave its space, with the user's thresholds
    auto        mean; in a crawl with phases, unanimous while it learns and weighted while it harvests

A topic accepts a page only with a yes.

The *walk*: at each node, the most confident of the topics that say yes takes the page (BINGO 2.4). If none does, the
page belongs to OTHERS below the node, and the walk ends. The relevance of a page depends on all topics on the way, even
if it ends in another one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from opilio.settings import ClassifySettings
from opilio.topics.hierarchy import Hierarchy, Mark

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers = npt.NDArray[np.float64]

DOUBT = 1e-6
"""The smallest confidence of a yes; anything else has at most its negative, so that the sign shows which it is."""
NO_EVIDENCE = -1.0
"""The confidence in any topic for a page without features in any space: that of the average competing document."""

RELEVANCE_SLOPE = 3.0
"""Slope of the logistic curve from confidence to relevance. Of 1, 2, 3, 4, 6 and 8, it has the smallest class-balanced
log loss on the development topics of a school encyclopedia, for 1 to 50 examples per topic (docs/concepts)."""


class MetaRule(NamedTuple):
    """One instance of equation 2."""

    weights: Callable[[Numbers], Numbers]
    """The weight of each vote, from the estimated precision of its classifier (by space and topic)."""
    thresholds: Callable[[Numbers], tuple[Numbers, Numbers]]
    """From the number of voters: a sum above the first threshold is a yes, a sum below the second a no."""
    counts_sides: bool = True
    """Whether a vote counts by its side alone; else by its confidence."""


def _equal(precisions: Numbers) -> Numbers:
    return np.ones_like(precisions)


def _as_estimated(precisions: Numbers) -> Numbers:
    """The precisions; equal weights if all estimates are 0, as with a handful of examples."""
    return np.where(precisions.any(axis=0), precisions, 1.0)


def _none(voters: Numbers) -> tuple[Numbers, Numbers]:
    zeros = np.zeros_like(voters)
    return zeros, zeros


def _all(voters: Numbers) -> tuple[Numbers, Numbers]:
    return voters - 0.5, 0.5 - voters


RULES: dict[str, MetaRule] = {
    "mean": MetaRule(_equal, _none, counts_sides=False),
    "unanimous": MetaRule(_equal, _all),
    "majority": MetaRule(_equal, _none),
    "weighted": MetaRule(_as_estimated, _none),
    "best": MetaRule(_equal, _none),  # there is one voter
}
AUTO, FREE = "auto", "free"


def free_rule(weights: Sequence[float], yes_above: float, no_below: float) -> MetaRule:
    """Equation 2 with a weight for each space, and the thresholds t1 and t2."""
    column = np.array(weights, np.float64)[:, np.newaxis]

    def weigh(precisions: Numbers) -> Numbers:
        return np.broadcast_to(column, precisions.shape)

    def thresholds(voters: Numbers) -> tuple[Numbers, Numbers]:
        return np.full_like(voters, yes_above), np.full_like(voters, no_below)

    return MetaRule(weigh, thresholds)


def rule_of(settings: ClassifySettings) -> MetaRule:
    """The rule that the settings name. `auto` is `mean` unless the phase of a crawl has chosen another."""
    if settings.meta == FREE:
        return free_rule([settings.meta_weights[space] for space in settings.spaces], *settings.meta_thresholds)
    return RULES["mean" if settings.meta == AUTO else settings.meta]


class Decisions(NamedTuple):
    """The decisions of the meta classifier on several topics."""

    signs: Numbers
    """+1, -1, or 0."""
    confidences: Numbers
    """The weighted mean of the voters' confidences, but at least `DOUBT` for a yes and at most -`DOUBT` otherwise."""
    shares: Numbers
    """By space and topic: the weight of the space in this mean; 0 if it did not vote."""


def decide(rule: MetaRule, votes: Numbers, precisions: Numbers) -> Decisions:
    """Decide on topics by `votes`: confidences by space (rows) and topic (columns), NaN if a space abstains."""
    voted = ~np.isnan(votes)
    votes = np.where(voted, votes, 0.0)
    weights = rule.weights(np.where(voted, precisions, 0.0)) * voted
    sums = (weights * (np.where(votes > 0.0, 1.0, -1.0) if rule.counts_sides else votes)).sum(axis=0)
    yes_above, no_below = rule.thresholds(voted.sum(axis=0).astype(np.float64))
    any_voter = (weights > 0.0).any(axis=0)
    # Without voters the thresholds of `unanimous` change places; then there is no decision.
    signs = np.where(any_voter, (sums > yes_above) * 1.0 - (sums < no_below) * 1.0, 0.0)
    totals = weights.sum(axis=0)
    shares = weights / np.where(totals > 0.0, totals, 1.0)
    means = np.where(any_voter, (shares * votes).sum(axis=0), NO_EVIDENCE)
    confidences = np.where(signs > 0.0, np.maximum(means, DOUBT), np.minimum(means, -DOUBT))
    return Decisions(signs, confidences, shares)


class JudgedNode(Protocol):
    """The result of judging a page at one node."""

    @property
    def topics(self) -> Sequence[int]:
        """The competing topics."""
        ...  # pragma: no cover

    @property
    def decisions(self) -> Decisions:
        """The decision on each of them."""
        ...  # pragma: no cover


A = TypeVar("A", bound=JudgedNode)


@dataclass(frozen=True)
class WalkStage(Generic[A]):
    """One node of the walk."""

    result: A
    taken: int
    """Index of the topic that took the page; -1: none did."""

    @property
    def best(self) -> int:
        """Index of the topic that took the page, or came closest to it."""
        return self.taken if self.taken >= 0 else int(np.argmax(self.result.decisions.confidences))


def walk(hierarchy: Hierarchy, judge_below: Callable[[int], A | None]) -> list[WalkStage[A]]:
    """The nodes from the start down to where the page stays; `judge_below` judges the topics below a node."""
    stages: list[WalkStage[A]] = []
    result = judge_below(hierarchy.start)
    while result is not None:
        decisions = result.decisions
        best = int(np.argmax(np.where(decisions.signs > 0.0, decisions.confidences, -np.inf)))
        taken = best if decisions.signs[best] > 0.0 else -1
        stages.append(WalkStage(result, taken))
        result = judge_below(result.topics[taken]) if taken >= 0 else None
    return stages


def path_confidence(stages: Sequence[WalkStage[A]]) -> float:
    """The confidence of the weakest step taken; if none was, that of the topic that came closest (negative)."""
    taken = [stage for stage in stages if stage.taken >= 0] or list(stages)
    return float(min(stage.result.decisions.confidences[stage.best] for stage in taken))


def relevance(hierarchy: Hierarchy, stages: Sequence[WalkStage[A]]) -> float:
    """How relevant a page is, 0 to 1; at least 0.5 exactly if a wanted topic took it.

    The relevance of a page in a wanted topic is that of the weakest step on the way to it; deeper steps do not matter.
    The relevance of any other page is that of the best wanted topic, or topic on the path to one, that was passed by:
    by its own confidence, or by its distance to the more confident topic that took the page.
    """
    passed_by = -math.inf
    weakest = math.inf
    for stage in stages:
        confidences = stage.result.decisions.confidences
        for place, topic in enumerate(stage.result.topics):
            if place != stage.taken and hierarchy.nodes[topic].mark is not Mark.NULL:
                lead = confidences[stage.taken] if stage.taken >= 0 else 0.0
                own = float(confidences[place])
                passed_by = max(passed_by, min(weakest, own, own - lead, -DOUBT))
        if stage.taken < 0:
            break
        weakest = min(weakest, float(confidences[stage.taken]))
        if hierarchy.is_wanted(stage.result.topics[stage.taken]):
            return logistic(weakest)
    return logistic(passed_by)


def logistic(confidence: float) -> float:
    """The relevance for a confidence; 0.5 for a confidence of 0."""
    return 1.0 / (1.0 + math.exp(min(700.0, -RELEVANCE_SLOPE * confidence)))
