"""Why a model was trained: a fixed value, and the sentence that users read; and what models expect of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

CALIBRATED = "calibrated"
"""Stands for a feature space in the estimates of a model: what is to be expected of the pages that a topic accepts."""


class TrainingReason(StrEnum):
    """Why there is a model. The database column `models.reason` has these words."""

    FIRST = "first"
    """There was none before."""
    CHANGED = "changed"
    """Topics, examples or settings had changed when a crawl began."""
    EXAMPLES = "examples"
    """Examples arrived that an earlier training had not waited for."""
    FEEDBACK = "feedback"
    """The user changed topics, marks or examples while the crawl ran."""
    REQUESTED = "requested"
    """The user asked for it."""
    ARCHETYPES = "archetypes"
    """The crawl found archetypes."""
    NEGATIVES = "negatives"
    """The crawl mined negatives: pages that are surely about no wanted topic."""
    HARVEST = "harvest"
    """The harvesting phase began, in which votes are weighted."""
    REDRAWN = "redrawn"
    """The variable part of an OASIS filter was redrawn. Stored pages are not re-judged for that."""
    REUSED = "reused"
    """The user went back to an older model, whose version is in `models.repeats`."""


_SENTENCES = {
    TrainingReason.FIRST: "first model",
    TrainingReason.CHANGED: "topics, examples or settings were changed",
    TrainingReason.EXAMPLES: "examples came late",
    TrainingReason.FEEDBACK: "topics or examples were changed",
    TrainingReason.REQUESTED: "requested",
    TrainingReason.ARCHETYPES: "archetypes were found",
    TrainingReason.NEGATIVES: "negatives were mined",
    TrainingReason.HARVEST: "the harvesting phase begins",
    TrainingReason.REDRAWN: "variable part redrawn",
}


@dataclass(frozen=True)
class TrainingCause:
    """Why one model was trained."""

    reason: TrainingReason
    detail: str = ""
    """What exactly happened, in words for people; no code reads it."""
    repeats: int | None = None
    """The version of the model that a reused one repeats."""

    def __str__(self) -> str:
        """As users read it."""
        if self.reason is TrainingReason.REUSED:
            return f"model {self.repeats} again"
        return self.detail or _SENTENCES[self.reason]
