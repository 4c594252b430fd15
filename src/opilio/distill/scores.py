"""Scores of pages, whichever method found them, and the options of the methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from opilio.frontier.arrays import once

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Oids: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]

DAMPING = 0.85


@dataclass(frozen=True)
class DistillOptions:
    """The numbers behind the three methods; a method ignores what it does not need."""

    rho: float = 0.5
    """`weighted`, `focus`: only pages more relevant than this can be authorities. 0.5: what counts as relevant
    elsewhere."""
    max_predecessors: int = 50
    """`weighted`, `hits`: pages outside the topic that are included because they link to one page of it; Kleinberg's
    number."""
    damping: float = DAMPING
    """`pagerank`: the share of clicks that follow a link, as in the paper that introduced it. `weighted`: the share of
    a score that comes from the round before; the rest is what the first round gave."""
    unvisited: bool = False
    """`pagerank`: rank all known URLs, not only stored pages."""
    tolerance: float = 1e-8
    """Rounds end when hub and authority scores change by less, summed over all pages."""
    max_rounds: int = 500
    """... or after this many. All but `focus` take milliseconds a round, and need up to hundreds."""
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

    def below(self, oid: int) -> Scores:
        """Those of the pages with a smaller oid than this one."""
        inside = self.oids < oid
        hub, authority = normalized(self.hub[inside]), normalized(self.authority[inside])
        return Scores(self.oids[inside], hub, authority, self.method, self.rounds, self.converged)

    def top_hubs(self, n: int = 20) -> list[Scored]:
        """The best hubs, best first; at most `n`, none with a score of 0. Of equal ones the smaller oid comes first."""
        return _top(self.oids, self.hub, n)

    def top_authorities(self, n: int = 20) -> list[Scored]:
        """The best authorities, in the same order."""
        return _top(self.oids, self.authority, n)


def great_hubs(hub: Values, percentile: float) -> npt.NDArray[np.bool_]:
    """Which of these hub scores are above a percentile of those that are not 0; none if all are the same."""
    ordered = np.sort(hub[hub > 0])
    if not len(ordered):
        return np.zeros(len(hub), np.bool_)
    return hub > np.interp(percentile * (len(ordered) - 1), np.arange(len(ordered)), ordered)


def average(scores: Sequence[Scores]) -> Scores:
    """The mean of the scores of several topics, so that none of them crowds out the others."""
    oids = once(np.concatenate([np.zeros(0, np.int64), *(one.oids for one in scores)]))
    hub, authority = np.zeros(len(oids)), np.zeros(len(oids))
    for one in scores:
        places = np.searchsorted(oids, one.oids)
        hub[places] += one.hub
        authority[places] += one.authority
    method = scores[0].method if scores else ""
    rounds, converged = max((one.rounds for one in scores), default=0), all(one.converged for one in scores)
    return Scores(oids, normalized(hub), normalized(authority), method, rounds, converged)


def normalized(values: Values) -> Values:
    """Values that sum to 1; all 0 stay so."""
    total = float(values.sum())
    return values / total if total > 0 else np.zeros(len(values))


def _top(oids: Oids, scores: Values, n: int) -> list[Scored]:
    order = np.lexsort((oids, -scores))[: max(n, 0)]
    return [Scored(int(oids[at]), float(scores[at])) for at in order.tolist() if scores[at] > 0]
