"""What the words of a link say about the page behind it, learned from pages whose relevance is known.

`WordOdds` counts on how many relevant and irrelevant pages each word was seen.

`EmbeddingSimilarity` can rate words that were never seen, by words with similar vectors. The vectors come from the user
or an extra (`features/word_vectors.py`). The sum of the vectors of a link's words is a point. The links whose pages are
known show the direction in which relevant ones lie: from the mean of the irrelevant to the mean of the relevant ones,
relative to how much all of them vary (Fisher's linear discriminant). The score of a link is how far its point lies in
that direction, which is a sum over its words. So each word has one number, as with odds, and a link costs no more.
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
    Samples: TypeAlias = tuple[Rows, Rows]
    Matrix: TypeAlias = npt.NDArray[np.float32]

SLOTS = 2**18
"""A word's slot is given by the lower bits of its hash code: of 100,000 words, every third one shares its slot."""
CAUTION = 2.0
"""A word counts as if it had been seen on this many more pages, relevant and irrelevant in the usual mixture."""
SLOT = np.uint32(SLOTS - 1)
"""Mask that gives the slot of a word."""
_SLOT_BITS = 18
_PIECE_SLOTS = 2**14
"""Odds are recomputed in pieces: for intermediate arrays of this size, the system is not asked for memory each time."""
MAX_POINTS = 4096
"""Links with known pages that `EmbeddingSimilarity` remembers: the latest."""
SHRINKING = 1.0
"""The average spread, times this, is added to the spread in each direction: with few points most of it is chance."""
_LEAST_SPREAD = 1e-6
"""Added to the spread too, for points at distance 1 from the centre: no spread is 0."""


class WordOdds:
    """By word: on how many relevant and irrelevant pages it was seen. The log odds of an unseen word are 0."""

    def __init__(self) -> None:
        self._good = np.zeros(SLOTS, np.float32)
        self._bad = np.zeros(SLOTS, np.float32)
        self._odds = np.zeros(SLOTS, np.float32)
        self._pages = [1.0, 1.0]

    def learn(self, words: Words, of: Rows, relevance: Sums, *, are_once: bool = False) -> Samples:
        """Count the words of pages, each once in a page, by the relevance of the pages, 0 to 1.

        `of`, in ascending order, is for each word the index in `relevance` of the page that it is on. A page without
        words does not count. `are_once` says that no page has a word twice, which saves sorting. Returns what was
        counted: the slots of words, and their pages.
        """
        slots = (words & SLOT).astype(np.int64)
        if not are_once:
            pairs = once(of << _SLOT_BITS | slots)
            of, slots = pairs >> _SLOT_BITS, pairs & int(SLOT)
        good = relevance[of]
        np.add.at(self._good, slots, good.astype(np.float32))
        np.add.at(self._bad, slots, (1.0 - good).astype(np.float32))
        pages = relevance[of[np.flatnonzero(np.diff(of, prepend=-1))]]
        self._pages[0] += float(pages.sum())
        self._pages[1] += float((1.0 - pages).sum())
        self._odds[slots] = self._weigh(self._good[slots], self._bad[slots])
        return slots, of

    def add(self, slots: Rows, good: Sums, bad: Sums, pages: tuple[float, float]) -> None:
        """Add words that were counted elsewhere, on `pages`: the numbers of relevant and of irrelevant ones."""
        self._good[slots] += good.astype(np.float32)
        self._bad[slots] += bad.astype(np.float32)
        self._pages = [mine + more for mine, more in zip(self._pages, pages, strict=True)]
        self.refresh()

    def correct(self, samples: Samples, gained: Sums) -> None:
        """The relevance of counted pages has changed by `gained`, which is indexed by page."""
        slots, of = samples
        gains = np.bincount(slots, gained[of], SLOTS).astype(np.float32)
        self._good = np.maximum(self._good + gains, 0.0)
        self._bad = np.maximum(self._bad - gains, 0.0)
        total = float(gained[once(of)].sum())
        self._pages = [max(1.0, self._pages[0] + total), max(1.0, self._pages[1] - total)]
        self.refresh()

    def refresh(self) -> None:
        """Recompute all odds: each was computed with the share of relevant pages at the time its word was last seen."""
        for at in range(0, SLOTS, _PIECE_SLOTS):
            piece = slice(at, at + _PIECE_SLOTS)
            self._odds[piece] = self._weigh(self._good[piece], self._bad[piece])

    def odds(self, words: Words) -> Values:
        """The log odds of each word, less those of any page."""
        odds: Values = self._odds[words & SLOT]
        return odds

    def _weigh(self, good: Values, bad: Values) -> Values:
        share = np.float32(self._pages[0] / sum(self._pages))
        odds: Values = np.log((good + CAUTION * share) / (bad + CAUTION * (1 - share))) - np.log(share / (1 - share))
        return odds


class WordVectors(NamedTuple):
    """Vectors of words, which are found by the hash codes of their stems."""

    stems: Words
    """In ascending order."""
    places: Rows
    """By stem: its row."""
    rows: Matrix


class EmbeddingSimilarity:
    """By word that links have: how far it lies in the direction of relevant pages, 0 for one that has no vector."""

    def __init__(self, vectors: WordVectors) -> None:
        self._stems, self._places, self._rows = vectors
        self._row = np.full(SLOTS, len(vectors.rows), np.int32)
        """By slot: the row of the first word seen with this slot; the number of rows for a word without a vector."""
        self._is_seen = np.zeros(SLOTS, np.bool_)
        self._direction = np.zeros(vectors.rows.shape[1], np.float32)
        self._scores = np.zeros(SLOTS, np.float32)
        self._points = np.zeros((MAX_POINTS, vectors.rows.shape[1]), np.float32)
        self._oids: Column[np.int64] = Column(np.int64)
        self._count = 0
        self._prior = np.zeros((0, vectors.rows.shape[1]), np.float32)
        self._prior_relevance = np.zeros(0)

    def prepare(self, words: Words, of: Rows, relevance: Sums) -> None:
        """Learn what is known before the crawl: the words of titles, and how relevant their pages are."""
        self.add_words(words)
        points = self._place(words, of, len(relevance))
        has_place = points.any(axis=1)
        self._prior, self._prior_relevance = points[has_place], relevance[has_place]

    def add_words(self, words: Words) -> None:
        """Look up the vectors of words that links have: only such words are scored."""
        words = once(words[~self._is_seen[words & SLOT]])
        if not len(words) or not len(self._stems):
            return
        at = np.minimum(np.searchsorted(self._stems, words), len(self._stems) - 1)
        rows = np.where(self._stems[at] == words, self._places[at], len(self._rows))
        slots = words & SLOT
        self._row[slots] = rows
        self._is_seen[slots] = True
        self._weigh(slots)

    def learn(self, words: Words, of: Rows, oids: Rows) -> None:
        """Remember the words of links to `oids`, whose pages are known by now; `of` is in ascending order."""
        points = self._place(words, of, len(oids))
        has_place = points.any(axis=1)
        points, oids = points[has_place][-MAX_POINTS:], oids[has_place][-MAX_POINTS:]
        places = (self._count + np.arange(len(oids))) % MAX_POINTS
        self._count += len(oids)
        self._oids.grow(min(self._count, MAX_POINTS))
        self._points[places] = points
        self._oids.values[places] = oids

    def refresh(self, relevance: npt.NDArray[np.float32]) -> None:
        """Recompute the direction; `relevance` has a number for each oid."""
        points = np.concatenate((self._prior, self._points[: len(self._oids)]))
        good = np.concatenate((self._prior_relevance, relevance[self._oids.values])).astype(np.float32)
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
        self._weigh(np.flatnonzero(self._is_seen))

    def _weigh(self, slots: Rows | Words) -> None:
        slots = slots[self._row[slots] < len(self._rows)]
        self._scores[slots] = self._rows[self._row[slots]] @ self._direction

    def scores(self, words: Words) -> Matrix:
        """By word: how far it lies in the direction of relevant pages."""
        scores: Matrix = self._scores[words & SLOT]
        return scores

    def _place(self, words: Words, of: Rows, size: int) -> Matrix:
        """The point of each of `size` links, at distance 1 from the centre; the centre when no word has a vector."""
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
