"""Rankings and their weighted sums (BINGO 3.6): each ranking gives a page something between 0 and 1.

- `bm25`: how well the words fit, as a share of the best hit's score;
- `cosine`: of the term vectors of question and page;
- `confidence`: the page's relevance, as the model judged it;
- `authority`: of the page in its topic by its in-links, as a share of the topic's best, the square root of it, because
  a few pages have most of all authority.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from opilio.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

RANKINGS = ("bm25", "cosine", "confidence", "authority")
DEFAULT_WEIGHTS: Mapping[str, float] = {"bm25": 1.0, "cosine": 0.0, "confidence": 0.5, "authority": 0.0}
"""Confidence helps most (docs/results/search.md). It has half the weight of the words: a question is narrower than a
topic, and the model knows of topics only."""
COSINE_PAGES = 500
"""The cosine is computed for so many hits: the best by the other rankings."""


def check_weights(weights: Mapping[str, float] | None) -> dict[str, float]:
    """Weights for all rankings: those not named are 0. None means the defaults."""
    if not weights:
        return dict(DEFAULT_WEIGHTS)
    for name, weight in weights.items():
        if name not in RANKINGS:
            raise InputError(f"no ranking {name!r}", f"There are {', '.join(RANKINGS)}.")
        if not math.isfinite(weight) or weight < 0:
            raise InputError(f"the weight of {name} is {weight:g}", "Weights are numbers from 0 on.")
    if not any(weights.values()):
        raise InputError("all weights are 0: that is no order", "Give one of them a weight, as in bm25=1.")
    return {name: float(weights.get(name, 0.0)) for name in RANKINGS}


def parse_weights(text: str) -> dict[str, float]:
    """Weights as they are written on a command line: bm25=1,authority=0.5; a name alone means 1."""
    weights = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        try:
            weights[name.strip()] = float(value) if value else 1.0
        except ValueError:
            raise InputError(f"{part!r} is no weight", "Write it as in bm25=1,authority=0.5") from None
    return check_weights(weights)


def combine(weights: Mapping[str, float], parts: Mapping[str, Values]) -> Values:
    """The weighted sum of rankings, over the sum of the weights: between 0 and 1."""
    total: Values = sum((weights[name] * parts[name] for name in parts), np.zeros(len(next(iter(parts.values())))))
    return total / sum(weights.values())


def as_share(scores: Values) -> Values:
    """Scores as shares of the best."""
    best = scores.max(initial=0.0)
    return scores / best if best > 0 else np.zeros(len(scores))
