"""Deliberate exploration: now and then a URL is taken because little is known of its kind.

What is worth exploring is unknown by itself: a host or folder of which nothing has been fetched, links of pages of
which none has been followed. How much is worth it shows: what was explored may turn out better or worse than what was
taken as the best. When exploration `adapts`, its share grows and shrinks with that (Best-N-First's future work: a
greediness that adjusts itself).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Values: TypeAlias = npt.NDArray[np.float64]

MEMORY_PAGES = 50.0
"""How good explored pages and others were is an average that forgets: of about so many of the latest."""
LEAST, MOST = 0.2, 3.0
"""An adapting share stays between these multiples of the setting."""


class Explorer:
    """Says which waiting URLs to take next although they are not the best."""

    def __init__(self, share: float, *, adapts: bool) -> None:
        self._share = share
        self._adapts = adapts
        self._chosen: set[int] = set()
        self._credit = 0.0
        self._explored, self._others = 0.0, 0.0

    @property
    def share(self) -> float:
        """The share of pages that are explored, as it is now."""
        if not self._adapts or not self._others:
            return self._share
        return self._share * float(np.clip(self._explored / self._others, LEAST, MOST))

    def settle(self, oid: int, goodness: float) -> None:
        """A page was fetched, for whatever reason."""
        self._credit += self.share
        if oid in self._chosen:
            self._chosen.discard(oid)
            self._explored += (goodness - self._explored) / MEMORY_PAGES
        else:
            self._others += (goodness - self._others) / MEMORY_PAGES

    def begin(self) -> None:
        """Fetching begins: pages that were told of again, after a restart, have earned their share before."""
        self._credit = min(self._credit, 1.0)

    def forget(self, oid: int) -> None:
        """A URL will not be asked for after all."""
        self._chosen.discard(oid)

    def choose(self, oids: npt.NDArray[np.int64], known: Values, scores: Values) -> npt.NDArray[np.int64]:
        """The places of those to be taken next: of the better half, those of which least is known.

        `known` counts, for each, pages fetched of its kind. At most as many as the share has earned since.
        """
        count = min(int(self._credit + 1e-9), len(oids))
        if count <= 0:
            return np.zeros(0, np.int64)
        self._credit -= count
        better = np.flatnonzero(scores >= np.median(scores))
        order = np.lexsort((oids[better], -scores[better], known[better]))
        places = better[order[:count]]
        self._chosen.update(oids[places].tolist())
        return places

    def is_chosen(self, oid: int) -> bool:
        """Whether a URL is to be taken next for exploration."""
        return oid in self._chosen
