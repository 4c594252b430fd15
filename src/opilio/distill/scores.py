"""Scores of pages, whichever method found them, and the options of the methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Oids: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]

DAMPING = 0.85


@dataclass(frozen=True)
class DistillOptions:
    """The numbers behind the three methods; a method ignores what it does not need."""

    rho: float = 0.5
    """`focus`: only pages more relevant than this can be authorities. 0.5: what counts as relevant elsewhere."""
    max_predecessors: int = 50
    """`hits`: pages outside the topic that are included because they link to one page of it; Kleinberg's number."""
    damping: float = DAMPING
    """`pagerank`: the share of clicks that follow a link, as in the paper that introduced it."""
    unvisited: bool = False
    """`pagerank`: rank all known URLs, not only stored pages."""
    tolerance: float = 1e-8
    """Rounds end when hub and authority scores change by less, summed over all pages."""
    max_rounds: int = 500
    """... or after this many. `hits` and `pagerank` take milliseconds a round, and need up to hundreds."""
    max_sql_rounds: int = 30
    """The same for `focus`, whose rounds take seconds in a large collection; far fewer put the best in order."""


class Scored(NamedTuple):
    """A page with one of its scores."""

    oid: int
    score: float


@dataclass(frozen=True, eq=False)
class Scores:
    """Hub and authority scores by page; those of a kind sum to 1, or are all 0."""

    oids: Oids
    """Ascending."""
    hub: Values
    """All 0 when the method knows no hubs, as PageRank."""
    authority: Values
    method: str = ""
    rounds: int = 0
    converged: bool = True
    """False: the last round still changed more than `DistillOptions.tolerance`."""

    def __len__(self) -> int:
        return len(self.oids)

    def top_hubs(self, n: int = 20) -> list[Scored]:
        """The best hubs, best first; at most `n`, none with a score of 0. Of equal ones the smaller oid comes first."""
        return _top(self.oids, self.hub, n)

    def top_authorities(self, n: int = 20) -> list[Scored]:
        """The best authorities, in the same order."""
        return _top(self.oids, self.authority, n)


def normalized(values: Values) -> Values:
    """Values that sum to 1; all 0 stay so."""
    total = float(values.sum())
    return values / total if total > 0 else np.zeros(len(values))


def _top(oids: Oids, scores: Values, n: int) -> list[Scored]:
    order = np.lexsort((oids, -scores))[: max(n, 0)]
    return [Scored(int(oids[at]), float(scores[at])) for at in order.tolist() if scores[at] > 0]
