"""Precision and recall from samples: shares with their intervals, drawn group by group.

A share of one group has the interval of Wilson. For several groups, each with its weight, the intervals of the groups
are added up at a narrower level (Yan and Su 2010): that the groups err independently makes their sum surer than each of
them. A group of which every page was judged adds no doubt, and one of which a large part was adds less (the correction
for finite populations).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

LEVEL = 0.95


@dataclass(frozen=True)
class Stratum:
    """A group of pages, and what was found in a sample of it."""

    pages: int
    judged: int
    relevant: int

    @property
    def share(self) -> float:
        """The share of its sample that is relevant."""
        return self.relevant / self.judged

    @property
    def weight_of_sample(self) -> float:
        """How many independent pages its sample is worth; endless when it was judged whole."""
        if self.judged >= self.pages:
            return math.inf
        return self.judged * (self.pages - 1) / (self.pages - self.judged)


@dataclass(frozen=True)
class Interval:
    """A share, and where it may lie."""

    value: float
    low: float
    high: float


def z_of(level: float = LEVEL) -> float:
    """How many standard deviations an interval reaches to each side."""
    return NormalDist().inv_cdf(0.5 + level / 2)


def wilson(share: float, judged: float, z: float) -> tuple[float, float]:
    """The interval of Wilson for a share found among so many pages."""
    if math.isinf(judged):
        return share, share
    squared = z * z / judged
    middle = (share + squared / 2) / (1 + squared)
    reach = z / (1 + squared) * math.sqrt(share * (1 - share) / judged + squared / (4 * judged))
    return max(0.0, middle - reach), min(1.0, middle + reach)


def estimate(strata: Sequence[Stratum], level: float = LEVEL) -> Interval | None:
    """The share that is relevant in all groups together; None while one of them was not looked at."""
    filled = [stratum for stratum in strata if stratum.pages]
    if not filled or not all(stratum.judged for stratum in filled):
        return None
    pages = sum(stratum.pages for stratum in filled)
    weights = [stratum.pages / pages for stratum in filled]
    z = _narrowed(filled, weights, z_of(level))
    bounds = [wilson(stratum.share, stratum.weight_of_sample, z) for stratum in filled]
    low, high = (sum(w * b[side] for w, b in zip(weights, bounds, strict=True)) for side in (0, 1))
    known_yes = sum(stratum.relevant for stratum in filled) / pages
    known_no = sum(stratum.judged - stratum.relevant for stratum in filled) / pages
    value = sum(w * stratum.share for w, stratum in zip(weights, filled, strict=True))
    return Interval(value, min(value, max(low, known_yes)), max(value, min(high, 1 - known_no)))


def _narrowed(strata: Sequence[Stratum], weights: Sequence[float], z: float) -> float:
    """The reach at which the intervals of the groups add up to that of all."""
    errors = [w / math.sqrt(s.weight_of_sample) for s, w in zip(strata, weights, strict=True)]
    return z * math.hypot(*errors) / sum(errors) if sum(errors) else z


def recall(found: tuple[int, Interval], missed: tuple[int, Interval]) -> Interval:
    """The share that was found of all that is relevant: both sides are a number of pages and the share relevant.

    Its ends are those of the two intervals that are farthest apart, so it is rather too wide than too narrow.
    """

    def share(relevant: float, lost: float) -> float:
        return relevant / (relevant + lost) if relevant + lost else 0.0

    (kept, precision), (left, lost) = found, missed
    return Interval(
        share(kept * precision.value, left * lost.value),
        share(kept * precision.low, left * lost.high),
        share(kept * precision.high, left * lost.low),
    )
