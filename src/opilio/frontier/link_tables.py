"""Tables of the links and pages that a learning order remembers: columns of numbers, one row for each link or page.

`Chains` finds the links to a URL. `RelevanceRecords` counts, for pages, hosts and folders, how many of their pages are
known and how relevant those are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.frontier.arrays import ABSENT, Column

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.frontier.link_words import Words

    Rows: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]

_FEW_CHAINS = 8
"""This many chains are followed one by one: an array operation for each step would take longer."""


class Chains:
    """The links to each URL: by oid the last one found, and by link the one before it to the same URL.

    Links are numbered from the first ever; a link that was forgotten ends its chain.
    """

    def __init__(self) -> None:
        self._first = 0
        self._last: Column[np.int64] = Column(np.int64)
        self._previous: Column[np.int64] = Column(np.int64)

    def grow(self, oids: int) -> None:
        """Make room for this many URLs."""
        self._last.grow(oids, ABSENT)

    def has(self, oids: Rows) -> npt.NDArray[np.bool_]:
        """Which of some URLs have a remembered link to them."""
        found: npt.NDArray[np.bool_] = self._last.values[oids] >= self._first
        return found

    def drop(self, oids: Rows) -> None:
        """The links to some URLs are not needed any more."""
        self._last.values[oids] = ABSENT

    def add(self, targets: Rows, places: Rows) -> None:
        """Add links to `targets`; those at `places` join the chains of their URLs."""
        number = self._first + len(self._previous)
        self._previous.grow(len(self._previous) + len(targets), ABSENT)
        if not len(places):
            return
        places = places[targets[places].argsort(kind="stable")]
        oids, links = targets[places], places + number
        goes_on = oids[1:] == oids[:-1]
        before = self._last.values[oids]
        before[1:][goes_on] = links[:-1][goes_on]
        self._previous.values[links - self._first] = before
        is_last = np.append(~goes_on, True)
        self._last.values[oids[is_last]] = links[is_last]

    def join(self, oid: int, places: Rows) -> None:
        """Links at `places`, which are in no chain, join the chain of a URL; the latest stays the last."""
        places = np.sort(np.concatenate((places, self._one(int(self._last.values[oid])))))
        numbers = places + self._first
        self._previous.values[places] = np.concatenate(([ABSENT], numbers[:-1]))
        self._last.values[oid] = numbers[-1]

    def follow(self, oids: Rows) -> tuple[Rows, Rows]:
        """The links to some URLs, as rows among those remembered, and for each the index of its URL in `oids`.

        The indexes are in ascending order.
        """
        last, which = self._last.values[oids], np.arange(len(oids))
        previous, found, of = self._previous.values, [last[:0]], [which[:0]]
        while len(last) > _FEW_CHAINS:
            remembered = last >= self._first
            last, which = last[remembered] - self._first, which[remembered]
            found.append(last)
            of.append(which)
            last = previous[last]
        for number, one in zip(last.tolist(), which.tolist(), strict=True):
            rest = self._one(number)
            found.append(rest)
            of.append(np.full(len(rest), one))
        links, whose = np.concatenate(found), np.concatenate(of)
        order = whose.argsort(kind="stable")
        return links[order], whose[order]

    def _one(self, number: int) -> Rows:
        places = []
        while number >= self._first:
            places.append(number - self._first)
            number = int(self._previous.values[places[-1]])
        return np.array(places, np.int64)

    def cut(self, count: int) -> None:
        """Forget the first `count` links."""
        self._previous.cut(count)
        self._first += count


class RelevanceRecords:
    """How many pages of something are known, and the sum of their relevance."""

    def __init__(self) -> None:
        self.known: Column[np.float64] = Column(np.float64)
        self.good: Column[np.float64] = Column(np.float64)

    def grow(self, size: int) -> None:
        """Make room for this many rows."""
        self.known.grow(size)
        self.good.grow(size)

    def add(self, rows: Rows, relevance: Values) -> None:
        """One more page is known in each of some rows; a row may be given more than once."""
        np.add.at(self.known.values, rows, 1.0)
        np.add.at(self.good.values, rows, relevance)


class LinkTable:
    """The remembered links, in the order in which they were found."""

    def __init__(self) -> None:
        self.parent: Column[np.int64] = Column(np.int64)
        """The row, in `PageTable`, of the page that has the link."""
        self.target: Column[np.int64] = Column(np.int64)
        """The oid that it leads to."""
        self.relevance: Column[np.float32] = Column(np.float32)
        """How relevant the target is; not a number while that is not known."""
        self.words_in: Column[np.int64] = Column(np.int64)
        self.words_around: Column[np.int64] = Column(np.int64)
        self.words_start: Column[np.int64] = Column(np.int64)
        self._words: Column[np.uint32] = Column(np.uint32)
        self._forgotten_words = 0
        self.forgotten = 0
        """Links that were forgotten so far."""

    def __len__(self) -> int:
        return len(self.parent)

    def add_words(self, words: Words, inner: Rows, outer: Rows) -> None:
        """Add the words of links in one line; `inner` and `outer` are the numbers of words in and around each link."""
        both = inner + outer
        self.words_start.extend(both.cumsum() - both + self._forgotten_words + len(self._words))
        self.words_in.extend(inner)
        self.words_around.extend(outer)
        self._words.extend(words)

    def words_of(self, starts: Rows, counts: Rows) -> tuple[Words, Rows, Rows]:
        """Words of links in one line; the index of the link that each belongs to, and its place in it."""
        of = np.arange(len(starts)).repeat(counts)
        places = np.arange(len(of)) - (counts.cumsum() - counts).repeat(counts)
        return self._words.values[places + (starts - self._forgotten_words).repeat(counts)], of, places

    def cut(self, count: int) -> None:
        """Forget the first `count` links."""
        words = int(self.words_start.values[count]) - self._forgotten_words
        self.relevance.cut(count)
        for column in (self.parent, self.target, self.words_start, self.words_in, self.words_around):
            column.cut(count)
        self._words.cut(words)
        self._forgotten_words += words
        self.forgotten += count


class PageTable:
    """The pages that were fetched, and the records of the pages that they link to."""

    def __init__(self) -> None:
        self.oid: Column[np.int64] = Column(np.int64)
        self.relevance: Column[np.float64] = Column(np.float64)
        self.links: Column[np.float64] = Column(np.float64)
        self.steps: Column[np.float64] = Column(np.float64)
        """Links followed since the last relevant page."""
        self.children = RelevanceRecords()

    def __len__(self) -> int:
        return len(self.relevance)

    def add(self, oids: Sequence[int], relevance: Sequence[float], steps: Sequence[int], links: Rows) -> None:
        """Add pages; `links` is the number of links of each."""
        self.oid.extend(oids)
        self.relevance.extend(relevance)
        self.steps.extend(steps)
        self.links.extend(links)
        self.children.grow(len(self.relevance))
