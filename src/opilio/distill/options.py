"""What can be chosen about link analysis."""

from __future__ import annotations

from dataclasses import dataclass

DAMPING = 0.85


@dataclass(frozen=True)
class Options:
    """The numbers behind the three ways; what a way does not need it does not look at."""

    rho: float = 0.5
    """`focus`: only pages more relevant than this can be authorities. 0.5: what counts as relevant elsewhere."""
    max_predecessors: int = 50
    """`hits`: pages outside the topic that are taken in for linking to one page of it; Kleinberg's number."""
    damping: float = DAMPING
    """`pagerank`: the share of clicks that follow a link, as in the paper that introduced it."""
    unvisited: bool = False
    """`pagerank`: rank all known URLs, not only stored pages."""
    tolerance: float = 1e-8
    """Rounds end when hub and authority scores change by less, summed over all pages."""
    max_rounds: int = 500
    """... or after so many. `hits` and `pagerank` take milliseconds a round, and need up to hundreds."""
    max_sql_rounds: int = 30
    """The same for `focus`, whose rounds take seconds in a large collection; far fewer put the best in order."""
