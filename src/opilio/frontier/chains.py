"""The links to each URL: a chain from the last that was found to the first."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.frontier.columns import Column
from opilio.frontier.keymap import ABSENT

if TYPE_CHECKING:
    import numpy.typing as npt

    Rows: TypeAlias = npt.NDArray[np.int64]

_FEW_CHAINS = 8
"""So many chains are followed one by one: an array operation for each step would take longer."""


class Chains:
    """By oid the last link to a URL, and by link the one before it to the same URL.

    Links are numbered from the first ever; those that are forgotten end a chain.
    """

    def __init__(self) -> None:
        self._first = 0
        self._last: Column[np.int64] = Column(np.int64)
        self._previous: Column[np.int64] = Column(np.int64)

    def grow(self, oids: int) -> None:
        """See to it that there is room for so many URLs."""
        self._last.grow(oids, ABSENT)

    def has(self, oids: Rows) -> npt.NDArray[np.bool_]:
        """Which of some URLs a link is remembered to."""
        found: npt.NDArray[np.bool_] = self._last.values[oids] >= self._first
        return found

    def drop(self, oids: Rows) -> None:
        """Nobody will ask for the links to some URLs any more."""
        self._last.values[oids] = ABSENT

    def add(self, targets: Rows, places: Rows) -> None:
        """More links, to `targets`; those at some places are hung behind the last to the same URL."""
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

    def follow(self, oids: Rows) -> tuple[Rows, Rows]:
        """The links to some URLs, by their places among those remembered, and which of the URLs each leads to.

        The latter is in ascending order.
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
