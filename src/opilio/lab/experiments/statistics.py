"""Means and comparisons over topics that say how sure they are.

A topic is one observation: crawls of the same topic from several seed sets are averaged first (`per_topic`), or they
would count as more evidence than they are. Two strategies are compared on the same topics, by the differences topic by
topic. Resampling draws from a generator with a fixed seed: the same values give the same interval.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np

from opilio.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    Values: TypeAlias = npt.NDArray[np.float64]

LEVEL = 0.95
SAME = 1e-9
"""Values that differ by less, relative to their size, are the same."""
RESAMPLES = 10_000
EXACT_TOPICS = 13  # 2 ** 13 < RESAMPLES: up to here all ways to swap are tried
TopicName = TypeVar("TopicName", bound=Hashable)


@dataclass(frozen=True)
class ConfidenceInterval:
    """A figure, and between which bounds it lies with the given confidence."""

    value: float
    low: float
    high: float
    level: float = LEVEL

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.level:.0%} interval {self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class Mean:
    """The mean of a measure over topics."""

    interval: ConfidenceInterval
    standard_error: float
    topics: int

    def __str__(self) -> str:
        return f"{self.interval}, {self.topics} topics"


@dataclass(frozen=True)
class Comparison:
    """One strategy against another on the same topics."""

    name: str
    other: str
    measure: str
    means: tuple[float, float]
    difference: ConfidenceInterval
    """Of the first minus the second."""
    standard_error: float
    """Of the difference."""
    ratio: ConfidenceInterval
    """Of the means; all bounds are nan when the second mean can be 0."""
    p: float
    """How probable a difference as large is when the two are alike: by a permutation test, two-sided."""
    wilcoxon_p: float
    """The same by Wilcoxon's signed ranks, which assumes less about the values."""
    wins: int
    losses: int
    ties: int

    @property
    def topics(self) -> int:
        """How many topics were compared."""
        return self.wins + self.losses + self.ties

    @property
    def is_shown(self) -> bool:
        """Whether the interval leaves no doubt about which is better."""
        return self.difference.low > 0.0 or self.difference.high < 0.0

    def __str__(self) -> str:
        """The one way to put a comparison into words: never without its interval."""
        gap = self.difference
        verdict = "no difference shown" if not self.is_shown else "higher" if gap.value > 0 else "lower"
        return (
            f"{self.measure}: {self.name} {self.means[0]:.3f}, {self.other} {self.means[1]:.3f}: {verdict}, "
            f"{gap.value:+.3f} ({gap.level:.0%} interval {gap.low:+.3f} to {gap.high:+.3f}, {self.topics} topics, "
            f"{self.wins} up, {self.losses} down, p = {self.p:.2g})"
        )


def standard_error(values: Values) -> Values:
    """The standard error of the mean, along the first axis; 0 for fewer than two values, of which nothing is known."""
    if len(values) < 2:
        return np.zeros(values.shape[1:])
    return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(len(values)))


def per_topic(values: Mapping[tuple[TopicName, Hashable], float]) -> dict[TopicName, float]:
    """The mean of each topic over its seed sets; `values` are by topic and seed set."""
    gathered: dict[TopicName, list[float]] = {}
    for (topic, _), value in values.items():
        gathered.setdefault(topic, []).append(value)
    return {topic: float(np.mean(found)) for topic, found in gathered.items()}


def mean_of(values: Sequence[float], *, level: float = LEVEL, seed: int = 0) -> Mean:
    """The mean over topics, with a bootstrap interval."""
    if not len(values):
        raise InputError("no topics to average over", "Choose labels with enough pages.")
    found = np.asarray(values, np.float64)
    return Mean(_bootstrap(found, level, seed), float(standard_error(found)), len(found))


def compare(
    name: str,
    values: Mapping[TopicName, float],
    other: str,
    other_values: Mapping[TopicName, float],
    *,
    measure: str = "recall",
    level: float = LEVEL,
    seed: int = 0,
) -> Comparison:
    """Compare two strategies by their values on the same topics."""
    if values.keys() != other_values.keys() or len(values) < 2:
        raise InputError(
            f"{name} and {other} cannot be compared: they need the same topics, two at least",
            "Run both on the same tasks.",
        )
    first = np.array(list(values.values()), np.float64)
    second = np.array([other_values[topic] for topic in values], np.float64)
    gaps = first - second
    return Comparison(
        name,
        other,
        measure,
        (float(first.mean()), float(second.mean())),
        _bootstrap(gaps, level, seed),
        float(standard_error(gaps)),
        _ratio(first, second, level, seed),
        permutation_p(gaps, seed),
        _wilcoxon_p(gaps),
        int((gaps > 0).sum()),
        int((gaps < 0).sum()),
        int((gaps == 0).sum()),
    )


def permutation_p(gaps: Values, seed: int = 0) -> float:
    """The paired permutation test: how many of the ways to swap the two within topics give a mean as far from 0.

    All 2^n ways for few topics, else `RESAMPLES` drawn ones, to which the one observed is added.
    """
    count = len(gaps)
    if count <= EXACT_TOPICS:
        signs = 1.0 - 2.0 * (np.arange(2**count)[:, None] >> np.arange(count) & 1)
    else:
        drawn = np.random.default_rng(seed).integers(0, 2, (RESAMPLES, count))
        signs = np.concatenate((np.ones((1, count)), 1.0 - 2.0 * drawn))
    observed = abs(gaps.sum())
    tolerance = 1e-12 * max(1.0, float(np.abs(gaps).sum()))  # the same sum in another order may differ in its last bit
    return float((np.abs(signs @ gaps) >= observed - tolerance).mean())


def holm(p_values: Sequence[float]) -> list[float]:
    """P values of several comparisons, raised so that 0.05 keeps its meaning for all of them together (Holm 1979)."""
    order = np.argsort(p_values, kind="stable")
    raised = np.zeros(len(p_values))
    highest = 0.0
    for rank, place in enumerate(order.tolist()):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        raised[place] = highest
    return [float(p) for p in raised]


def _bootstrap(values: Values, level: float, seed: int) -> ConfidenceInterval:
    """The BCa bootstrap interval of the mean: it allows for skew, and for few values."""
    from scipy import stats  # noqa: PLC0415  (a tenth of a second)

    mean = float(values.mean())
    if np.ptp(values) <= SAME * max(1.0, float(np.abs(values).max())):  # the rest is rounding
        return ConfidenceInterval(mean, mean, mean, level)
    found = stats.bootstrap(
        (values,), np.mean, n_resamples=RESAMPLES, confidence_level=level, rng=np.random.default_rng(seed)
    ).confidence_interval
    return ConfidenceInterval(mean, float(found.low), float(found.high), level)


def _ratio(first: Values, second: Values, level: float, seed: int) -> ConfidenceInterval:
    """The ratio of the means, with the percentiles of resampled topics as its bounds."""
    chosen = np.random.default_rng(seed).integers(0, len(first), (RESAMPLES, len(first)))
    below = second[chosen].mean(axis=1)
    if not below.min() > 0.0:
        return ConfidenceInterval(np.nan, np.nan, np.nan, level)
    low, high = np.quantile(first[chosen].mean(axis=1) / below, ((1 - level) / 2, (1 + level) / 2))
    return ConfidenceInterval(float(first.mean() / second.mean()), float(low), float(high), level)


def _wilcoxon_p(gaps: Values) -> float:
    from scipy import stats  # noqa: PLC0415

    return float(stats.wilcoxon(gaps).pvalue) if np.any(gaps) else 1.0
