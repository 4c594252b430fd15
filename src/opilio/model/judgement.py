"""Judgement: what a classifier says of a page."""

from __future__ import annotations

import msgspec

RELEVANT = 0.5
"""A page is relevant from this relevance on, whatever the classifier."""


class Judgement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The topic a page belongs to, and how sure that is."""

    topic: int = 0
    """The deepest topic that took the page; the root when none did."""
    accepted: bool = False
    """Whether a topic took it. If not, it is in OTHERS, right below the root."""
    relevance: float = 0.0
    """How much it is about a good topic, 0 to 1; from `RELEVANT` on it is."""
    confidence: float = 0.0
    """In the classifier's own measure: the distance from the hyperplane, the log odds, the cosine. Positive: a yes."""
    votes: dict[str, float] = {}
    """The confidence by feature space, or the value by metric; one that abstained is missing."""
    agreed: list[str] = []
    """The spaces or metrics that said yes."""
    undoubted: bool = False
    """Two or more independent metrics agreed (OASIS), or all feature spaces did (BINGO)."""
    model_version: int = 0
    """The model that judged; 0: the keywords of the topics, before anything was learned."""

    @property
    def is_relevant(self) -> bool:
        """Whether the page counts as found."""
        return self.relevance >= RELEVANT
