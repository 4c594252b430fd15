"""Down the topic tree: at each node the surest of the topics that say yes takes the page (BINGO 2.4).

When none does, the page belongs to OTHERS below the node, and the walk ends. What was seen on the way tells how much
the page is wanted, though it may have ended elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from opilio.classify.meta import DOUBT, Verdicts
from opilio.topics.hierarchy import Hierarchy, Mark

RELEVANCE_SLOPE = 3.0
"""Of the logistic curve from confidence to relevance: of 1, 2, 3, 4, 6 and 8 the one with the least class-balanced log
loss on the development topics of a school encyclopedia, for 1 to 50 examples a topic (docs/concepts)."""


class Asked(Protocol):
    """A node at which the page was judged."""

    @property
    def topics(self) -> Sequence[int]:
        """The competing topics."""
        ...  # pragma: no cover

    @property
    def verdicts(self) -> Verdicts:
        """What was said of each."""
        ...  # pragma: no cover


A = TypeVar("A", bound=Asked)


@dataclass(frozen=True)
class Stage(Generic[A]):
    """One node of the walk."""

    asked: A
    taken: int
    """Place of the topic that took the page; -1: none did."""

    @property
    def best(self) -> int:
        """Place of the topic that took the page, or came nearest to it."""
        return self.taken if self.taken >= 0 else int(np.argmax(self.asked.verdicts.confidences))


def walk(hierarchy: Hierarchy, ask: Callable[[int], A | None]) -> list[Stage[A]]:
    """The nodes from the start down to where the page stays; `ask` judges the topics below a node."""
    stages: list[Stage[A]] = []
    asked = ask(hierarchy.start)
    while asked is not None:
        verdicts = asked.verdicts
        best = int(np.argmax(np.where(verdicts.decisions > 0.0, verdicts.confidences, -np.inf)))
        taken = best if verdicts.decisions[best] > 0.0 else -1
        stages.append(Stage(asked, taken))
        asked = ask(asked.topics[taken]) if taken >= 0 else None
    return stages


def path_confidence(stages: Sequence[Stage[A]]) -> float:
    """The confidence of the weakest step taken; when none was, that of the topic which came nearest (negative)."""
    taken = [stage for stage in stages if stage.taken >= 0] or list(stages)
    return float(min(stage.asked.verdicts.confidences[stage.best] for stage in taken))


def relevance(hierarchy: Hierarchy, stages: Sequence[Stage[A]]) -> float:
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
