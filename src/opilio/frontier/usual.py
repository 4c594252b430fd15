"""What is usual among the pages met: relevance counts in comparison with it.

A judge made of a few examples has seen little of what lies around the topic. On some webs it calls nearly all that a
crawl fetches relevant, and what it says of a page tells an order nothing. Then a page in the lower third of those met
is taken for one of which nobody knows whether it is relevant, and the others are compared with it. As long as fewer
than two thirds are called relevant, relevance counts as it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]

FEWEST_PAGES = 15
"""Where fewer were met, nothing is usual yet: around good examples all may well be relevant."""
SHARE = 1.0 / 3.0
"""Of the pages met, the share below the one that others are compared with (docs/results/log.md, 2026-11-16)."""
_BINS, _MOST = 256, 16.0
"""Log odds above 0 are counted in bins; all below are one."""
_ODDS_LIMIT = 1e-9


class Usual:
    """The relevance of the pages met."""

    def __init__(self) -> None:
        self._counts = np.zeros(1 + _BINS, np.int64)
        self._odds = 1.0
        """Of the page that others are compared with."""

    @classmethod
    def of(cls, relevance: Values) -> Self:
        """What is usual among some pages."""
        usual = cls()
        usual._counts += np.bincount(_bins(_log_odds(relevance)), minlength=1 + _BINS)
        usual._find()
        return usual

    def add(self, relevance: float) -> None:
        """One more page was met."""
        self._counts[_bins(_log_odds(np.array([relevance])))] += 1
        self._find()

    def compare(self, relevance: float) -> float:
        """Relevance in comparison with what is usual: never more than it was; 0 stays 0, and 1 stays 1."""
        return relevance / (relevance + (1.0 - relevance) * self._odds) if relevance > 0.0 else 0.0

    def compare_all(self, relevance: Values) -> Values:
        """The same of each of some pages."""
        compared: Values = relevance / np.where(relevance > 0.0, relevance + (1.0 - relevance) * self._odds, 1.0)
        return compared

    def _find(self) -> None:
        met = int(self._counts.sum())
        at = int(np.searchsorted(np.cumsum(self._counts), met * SHARE, side="right"))
        log_odds = (at - 0.5) * _MOST / _BINS if at and met >= FEWEST_PAGES else 0.0
        self._odds = math.exp(log_odds)


def _log_odds(relevance: Values) -> Values:
    inside = np.clip(relevance, _ODDS_LIMIT, 1.0 - _ODDS_LIMIT)
    odds: Values = np.log(inside / (1.0 - inside))
    return odds


def _bins(log_odds: Values) -> npt.NDArray[np.int64]:
    """0 for what is not relevant."""
    return np.clip(np.ceil(log_odds * (_BINS / _MOST)), 0, _BINS).astype(np.int64)
