"""What words say for a page before it is fetched, learned from pages whose worth is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Words: TypeAlias = npt.NDArray[np.uint32]
    Values: TypeAlias = npt.NDArray[np.float32]

SLOTS = 2**18
"""Words share a slot by the lower bits of their hash codes: at 100,000 words every third one has company."""
CAUTION = 2.0
"""A word counts as if it had been seen on so many pages more, good and bad ones in the usual mixture."""
_SLOT = np.uint32(SLOTS - 1)


class WordOdds:
    """By word: on how many good and bad pages it was seen. The log odds of a word are 0 until it has been."""

    def __init__(self) -> None:
        self._good = np.zeros(SLOTS, np.float32)
        self._bad = np.zeros(SLOTS, np.float32)
        self._odds = np.zeros(SLOTS, np.float32)
        self._pages = [1.0, 1.0]

    def learn(self, words: Words, goodness: float) -> None:
        """Take note of the words of a page that is good to a degree, 0 to 1; each counts once."""
        slots = words & _SLOT
        good, bad = self._good[slots] + goodness, self._bad[slots] + (1.0 - goodness)
        self._good[slots], self._bad[slots] = good, bad
        self._pages[0] += goodness
        self._pages[1] += 1.0 - goodness
        self._odds[slots] = self._weigh(good, bad)

    def refresh(self) -> None:
        """Weigh all words anew: each was by the share of good pages when it was last seen, which has changed since."""
        self._odds = self._weigh(self._good, self._bad)

    def odds(self, words: Words) -> Values:
        """The log odds of each word, beyond those of any page."""
        odds: Values = self._odds[words & _SLOT]
        return odds

    def _weigh(self, good: Values, bad: Values) -> Values:
        share = np.float32(self._pages[0] / sum(self._pages))
        odds: Values = np.log((good + CAUTION * share) / (bad + CAUTION * (1 - share))) - np.log(share / (1 - share))
        return odds
