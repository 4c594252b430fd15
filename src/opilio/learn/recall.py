"""How much of what is relevant and can be reached has been found, by the crawl's own figures.

A crawl asks for the best first, so its harvest falls as what is good is used up. How it falls says how much is left:
the requests are cut into pieces, each as long as all before it; a straight line is laid through the logarithms of their
harvest rates over the logarithms of their places, and followed over all that waits, and what will be found behind it.
Relevant pages that nothing found so far leads to are not seen. docs/results/recall.md has what other ways gave on
recorded webs, and how wrong this one is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from opilio.store import Store

MIN_FOUND = 30
"""Fewer relevant pages tell nothing: no estimate."""
MIN_REQUESTS = 100
PIECES = 5
"""The latest half of all requests, the quarter before it, the eighth before that, ..."""
MAX_GROWTH = 0.5
"""New URLs for each request: more would promise that the web never ends."""
STEEPEST = 3.0
"""How steeply the harvest may be taken to fall: a few unlucky pages must not promise that nothing is left."""

_PIECES = f"""
    WITH asked AS (
        SELECT row_number() OVER (ORDER BY c.lastvisited, c.oid) AS place, count(*) OVER () AS requests,
               coalesce(p.relevance >= 0.5, FALSE) AS relevant, c.lastvisited AS visited
        FROM crawl c LEFT JOIN pages p ON p.oid = c.oid
        WHERE c.lastvisited IS NOT NULL AND c.state <> 'waiting'
    )
    SELECT least(floor(log2(requests / place))::INTEGER, {PIECES}) AS piece, count(*) FILTER (relevant), count(*),
           min(visited) FILTER (place > 0.75 * requests)
    FROM asked GROUP BY piece ORDER BY piece
"""
_AHEAD = """
    SELECT count(*) FILTER (state = 'waiting'),
           count(*) FILTER (found >= $1 AND (state = 'waiting' OR lastvisited IS NOT NULL))
    FROM crawl
"""


def estimate_recall(store: Store) -> float | None:
    """The share of what is relevant and can be reached that has been found; None while too little is known."""
    rows = store.query(_PIECES).rows
    requests, found = sum(row[2] for row in rows), sum(row[1] for row in rows)
    if requests < MIN_REQUESTS or found < MIN_FOUND:
        return None
    since = next(row[3] for row in rows if row[0] == 0)
    [[waiting, fresh]] = store.query(_AHEAD, [since]).rows
    counts = {piece: (relevant, asked) for piece, relevant, asked, _ in rows if piece < PIECES}
    pieces = [counts.get(piece, (0, 0)) for piece in range(PIECES)]
    return recall_of(found, requests, pieces, to_come(waiting, fresh / (requests - math.floor(0.75 * requests))))


def to_come(waiting: float, growth: float) -> float:
    """How many more URLs will be asked for, when each request brings `growth` new ones."""
    return waiting / (1.0 - min(growth, MAX_GROWTH))


def recall_of(found: int, requests: int, pieces: Sequence[tuple[int, int]], ahead: float) -> float:
    """`found` against that and what the next `ahead` requests will find.

    `pieces` has (relevant pages, requests), the latest half first, then the quarter before it, and so on.
    """
    if not found:
        return 0.0
    level, slope = _line(requests, pieces)
    return found / (found + _area(level, slope, requests, requests + ahead))


def _line(requests: int, pieces: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """The harvest rate after x requests is exp(level) * x ** slope; the slope is 0 or less."""
    points = []
    for number, (relevant, asked) in enumerate(pieces):
        if asked:
            middle = 0.75 * requests / 2**number
            points.append((math.log(middle), math.log((relevant + 0.5) / asked), relevant + 0.5))
    weight = sum(w for _, _, w in points)
    x_mean = sum(w * x for x, _, w in points) / weight
    y_mean = sum(w * y for _, y, w in points) / weight
    spread = sum(w * (x - x_mean) ** 2 for x, _, w in points)
    slope = sum(w * (x - x_mean) * (y - y_mean) for x, y, w in points) / spread if spread else 0.0
    slope = min(0.0, max(-STEEPEST, slope))
    return y_mean - slope * x_mean, slope


def _area(level: float, slope: float, start: float, end: float) -> float:
    """The integral of exp(level) * x ** slope, never more than every request could find."""
    power = slope + 1.0
    if abs(power) < 1e-9:
        area = math.exp(level) * math.log(end / start)
    else:
        area = math.exp(level) * (end**power - start**power) / power
    return min(area, end - start)
