"""URLs that stand for others: where a redirect ends, and of which page a duplicate is a copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

    from opilio.distill.scores import Oids

NOWHERE = -1
TABLE = "merged"

# The latest word counts, and a URL that has answered with a page of its own since stands for itself. One that is both
# redirected and a duplicate goes where it is redirected to, as everywhere in Opilio.
_STEPS = """
WITH step AS (
    SELECT oid_src AS oid, arg_max(oid_dst, rowid) AS onward, 0 AS turn FROM redirects GROUP BY oid_src
    UNION ALL
    SELECT oid, arg_max(of_oid, rowid), 1 FROM duplicates GROUP BY oid
)
SELECT oid, arg_min(onward, turn) AS onward
FROM step JOIN crawl USING (oid)
WHERE coalesce(outcome, '') NOT IN ('ok', 'not-modified') AND onward <> oid
GROUP BY oid ORDER BY oid
"""


def load_merged(cursor: duckdb.DuckDBPyConnection) -> tuple[Oids, Oids]:
    """URLs that stand for others, ascending, and for which: the last of a chain, NOWHERE when it goes in a circle."""
    found = cursor.execute(_STEPS).fetchnumpy()
    oids, onward = np.asarray(found["oid"], np.int64), np.asarray(found["onward"], np.int64)
    return oids, follow(oids, onward)


def follow(oids: Oids, onward: Oids) -> Oids:
    """Where each of `oids` (ascending, distinct) ends when one goes from each to its `onward`, again and again.

    Steps are doubled: after n rounds all chains of 2^n steps are done, so that a crowd of URLs costs a few rounds.
    """
    ends = onward.copy()
    for _ in range(len(oids).bit_length()):
        places, is_merged = _places(oids, ends)
        if not is_merged.any():
            return ends
        ends[is_merged] = ends[places[is_merged]]
    ends[_places(oids, ends)[1]] = NOWHERE  # still on the way, so in a circle
    return ends


def ends_of(oids: Oids, merged: tuple[Oids, Oids]) -> Oids:
    """For each of `oids` the page it stands for, mostly itself."""
    places, is_merged = _places(merged[0], oids)
    ends = np.array(oids, np.int64)
    ends[is_merged] = merged[1][places[is_merged]]
    return ends


def register(cursor: duckdb.DuckDBPyConnection) -> None:
    """Let SQL on this cursor see the merged URLs as the table `merged` (oid, ends)."""
    oids, ends = load_merged(cursor)
    cursor.register(TABLE, pa.table({"oid": pa.array(oids, pa.int64()), "ends": pa.array(ends, pa.int64())}))


def _places(oids: Oids, wanted: Oids) -> tuple[Oids, npt.NDArray[np.bool_]]:
    """Where each of `wanted` is in `oids`, and whether it is there at all."""
    places = np.searchsorted(oids, wanted)
    inside = places < len(oids)
    is_there = np.zeros(len(wanted), np.bool_)
    is_there[inside] = oids[places[inside]] == wanted[inside]
    return places, is_there
