"""What words say for a page before it is fetched, learned from pages whose worth is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.frontier.columns import once

if TYPE_CHECKING:
    import numpy.typing as npt

    Rows: TypeAlias = npt.NDArray[np.int64]
    Words: TypeAlias = npt.NDArray[np.uint32]
    Values: TypeAlias = npt.NDArray[np.float32]
    Sums: TypeAlias = npt.NDArray[np.float64]
    Lessons: TypeAlias = tuple[Rows, Rows]

SLOTS = 2**18
"""Words share a slot by the lower bits of their hash codes: at 100,000 words every third one has company."""
CAUTION = 2.0
"""A word counts as if it had been seen on so many pages more, good and bad ones in the usual mixture."""
SLOT = np.uint32(SLOTS - 1)
"""What is left of a word by this mask is its slot."""
_SLOT_BITS = 18


class WordOdds:
    """By word: on how many good and bad pages it was seen. The log odds of a word are 0 until it has been."""

    def __init__(self) -> None:
        self._good = np.zeros(SLOTS, np.float32)
        self._bad = np.zeros(SLOTS, np.float32)
        self._odds = np.zeros(SLOTS, np.float32)
        self._pages = [1.0, 1.0]

    def learn(self, words: Words, of: Rows, goodness: npt.NDArray[np.float64], *, are_once: bool = False) -> Lessons:
        """Take note of the words of pages that are good to a degree, 0 to 1; in a page each counts once.

        `of` says which of the pages with this `goodness` a word is of, in ascending order. A page without words does
        not count. Words that `are_once` in their pages need not be sorted to see that. Returns what was taken note of:
        the slots of words, and the pages they are of.
        """
        slots = (words & SLOT).astype(np.int64)
        if not are_once:
            pairs = once(of << _SLOT_BITS | slots)
            of, slots = pairs >> _SLOT_BITS, pairs & int(SLOT)
        good = goodness[of]
        np.add.at(self._good, slots, good.astype(np.float32))
        np.add.at(self._bad, slots, (1.0 - good).astype(np.float32))
        pages = goodness[of[np.flatnonzero(np.diff(of, prepend=-1))]]
        self._pages[0] += float(pages.sum())
        self._pages[1] += float((1.0 - pages).sum())
        self._odds[slots] = self._weigh(self._good[slots], self._bad[slots])
        return slots, of

    def add(self, slots: Rows, good: Sums, bad: Sums, pages: tuple[float, float]) -> None:
        """Take note of words that were counted elsewhere, on so many good and bad `pages`."""
        self._good[slots] += good.astype(np.float32)
        self._bad[slots] += bad.astype(np.float32)
        self._pages = [mine + more for mine, more in zip(self._pages, pages, strict=True)]
        self.refresh()

    def correct(self, lessons: Lessons, gained: Sums) -> None:
        """Pages that were taken note of are better by `gained`, by page, than was thought then."""
        slots, of = lessons
        gains = np.bincount(slots, gained[of], SLOTS).astype(np.float32)
        self._good = np.maximum(self._good + gains, 0.0)
        self._bad = np.maximum(self._bad - gains, 0.0)
        total = float(gained[once(of)].sum())
        self._pages = [max(1.0, self._pages[0] + total), max(1.0, self._pages[1] - total)]
        self.refresh()

    def refresh(self) -> None:
        """Weigh all words anew: each was by the share of good pages when it was last seen, which has changed since."""
        self._odds = self._weigh(self._good, self._bad)

    def odds(self, words: Words) -> Values:
        """The log odds of each word, beyond those of any page."""
        odds: Values = self._odds[words & SLOT]
        return odds

    def _weigh(self, good: Values, bad: Values) -> Values:
        share = np.float32(self._pages[0] / sum(self._pages))
        odds: Values = np.log((good + CAUTION * share) / (bad + CAUTION * (1 - share))) - np.log(share / (1 - share))
        return odds
