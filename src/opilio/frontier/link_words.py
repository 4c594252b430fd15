"""What words say for a page before it is fetched, learned from pages whose worth is known.

What words say that no link ever had, by words that mean much the same.

Word vectors are given by the user or an extra (`features/word_vectors.py`). The words of a link, added up, are a point.
Links whose pages are known tell in which direction the good ones lie: from the mean of the bad to the mean of the good,
leaving out what all of them vary in (Fisher's linear discriminant). What a link's words say is how far they lie in that
direction, which is a sum over its words. So each word has one number, as with odds, and a link costs no more than that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from opilio.frontier.arrays import Column, once

if TYPE_CHECKING:
    import numpy.typing as npt

    Rows: TypeAlias = npt.NDArray[np.int64]
    Words: TypeAlias = npt.NDArray[np.uint32]
    Values: TypeAlias = npt.NDArray[np.float32]
    Sums: TypeAlias = npt.NDArray[np.float64]
    Lessons: TypeAlias = tuple[Rows, Rows]
    VectorValues: TypeAlias = npt.NDArray[np.float64]
    Matrix: TypeAlias = npt.NDArray[np.float32]

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


MAX_POINTS = 4096
"""Links whose pages are known that are remembered: the last ones."""
SHRINKING = 1.0
"""As much is added to the spread in each direction as there is on average: with few points most of it is chance."""
_LEAST_SPREAD = 1e-6
"""Of points at distance 1 from the middle: where there is less, there is none."""


class WordVectors(NamedTuple):
    """Vectors of words, whose stems are known by their hash codes."""

    stems: Words
    """In ascending order."""
    places: Rows
    """Of each: its row."""
    rows: Matrix


class KindredWords:
    """By word that was met: how far it lies in the direction of good pages, 0 for one that has no vector."""

    def __init__(self, vectors: WordVectors) -> None:
        self._stems, self._places, self._rows = vectors
        self._row = np.full(SLOTS, len(vectors.rows), np.int32)
        """By slot: the row of the first word in it that was met; one more than there are for a word without."""
        self._is_met = np.zeros(SLOTS, np.bool_)
        self._direction = np.zeros(vectors.rows.shape[1], np.float32)
        self._scores = np.zeros(SLOTS, np.float32)
        self._points = np.zeros((MAX_POINTS, vectors.rows.shape[1]), np.float32)
        self._oids: Column[np.int64] = Column(np.int64)
        self._count = 0
        self._told = np.zeros((0, vectors.rows.shape[1]), np.float32)
        self._told_goodness = np.zeros(0)

    def brief(self, words: Words, of: Rows, goodness: VectorValues) -> None:
        """What is known before the crawl: the words of titles, and how good the pages are that have them."""
        self.meet(words)
        points = self._place(words, of, len(goodness))
        has_place = points.any(axis=1)
        self._told, self._told_goodness = points[has_place], goodness[has_place]

    def meet(self, words: Words) -> None:
        """Words that links have: only of such it is found out what they say."""
        words = once(words[~self._is_met[words & SLOT]])
        if not len(words) or not len(self._stems):
            return
        at = np.minimum(np.searchsorted(self._stems, words), len(self._stems) - 1)
        rows = np.where(self._stems[at] == words, self._places[at], len(self._rows))
        slots = words & SLOT
        self._row[slots] = rows
        self._is_met[slots] = True
        self._weigh(slots)

    def learn(self, words: Words, of: Rows, oids: Rows) -> None:
        """Take note of the words of links to `oids`, whose pages are known by now; `of` is in ascending order."""
        points = self._place(words, of, len(oids))
        has_place = points.any(axis=1)
        points, oids = points[has_place][-MAX_POINTS:], oids[has_place][-MAX_POINTS:]
        places = (self._count + np.arange(len(oids))) % MAX_POINTS
        self._count += len(oids)
        self._oids.grow(min(self._count, MAX_POINTS))
        self._points[places] = points
        self._oids.values[places] = oids

    def refresh(self, goodness: npt.NDArray[np.float32]) -> None:
        """Find the direction anew; `goodness` has a number for each oid."""
        points = np.concatenate((self._told, self._points[: len(self._oids)]))
        good = np.concatenate((self._told_goodness, goodness[self._oids.values])).astype(np.float32)
        if np.isnan(good).any():
            points, good = points[~np.isnan(good)], good[~np.isnan(good)]
        bad = 1 - good
        if good.sum() <= 0 or bad.sum() <= 0:
            return
        sides = np.stack((good, bad))
        at = (sides @ points) / sides.sum(axis=1)[:, None]
        spread = (points.T @ points - at.T @ (2 * np.diag(sides.sum(axis=1)) - sides @ sides.T) @ at) / len(points)
        size = len(spread)
        spread += (SHRINKING * np.trace(spread) / size + _LEAST_SPREAD) * np.eye(size)
        self._direction = np.linalg.solve(spread, at[0] - at[1]).astype(np.float32)
        self._weigh(np.flatnonzero(self._is_met))

    def _weigh(self, slots: Rows | Words) -> None:
        slots = slots[self._row[slots] < len(self._rows)]
        self._scores[slots] = self._rows[self._row[slots]] @ self._direction

    def scores(self, words: Words) -> Matrix:
        """Of each word: how far it lies in the direction of good pages."""
        scores: Matrix = self._scores[words & SLOT]
        return scores

    def _place(self, words: Words, of: Rows, size: int) -> Matrix:
        """Where the words of each of `size` links lie together, at distance 1 from the middle; at 0: nowhere."""
        rows = self._row[words & SLOT]
        has_row = rows < len(self._rows)
        rows, of = rows[has_row], of[has_row]
        points = np.zeros((size, self._points.shape[1]), np.float32)
        if len(rows):
            starts = np.flatnonzero(np.diff(of, prepend=-1))
            points[of[starts]] = np.add.reduceat(self._rows[rows], starts, axis=0)
        lengths = np.sqrt(np.einsum("ij,ij->i", points, points))
        placed: Matrix = points / np.maximum(lengths, 1e-9)[:, None]
        return placed
