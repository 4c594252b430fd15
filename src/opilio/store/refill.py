"""Which queued URLs come next, in an order that the user may write as SQL."""

from __future__ import annotations

import datetime
import difflib
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import numpy as np

from opilio.errors import QueryError
from opilio.store import arrow, guard

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt


OVERTAKE = 20
"""How many times the wanted number of URLs is looked at, so that a cap per host still leaves enough of them. A window
function over the whole table would cost seconds."""

_HEAD = "SELECT oid, sid FROM frontier ORDER BY "
_NOT_PURE = {"SUBQUERY": "a subquery", "WINDOW": "a window function", "PARAMETER": "a parameter"}


class StoredUrl(NamedTuple):
    """A URL handed to the frontier."""

    oid: int
    url: str
    key: int
    sid: int
    topic: int
    depth: int
    hops: int
    numtries: int
    relevance: float
    priority: float


# The keys first, the wide columns of the few that are left afterwards: half the time of reading all at once.
_NEXT = """
WITH best AS MATERIALIZED (
    SELECT oid, sid FROM frontier ANTI JOIN held USING (oid)
    WHERE (not_before IS NULL OR not_before <= $now) AND ($topic IS NULL OR topic = $topic)
    ORDER BY {order_by}
    LIMIT $look_at
),
placed AS (SELECT oid, sid, row_number() OVER () AS place FROM best),
kept AS (
    SELECT oid, place FROM placed
    QUALIFY row_number() OVER (PARTITION BY sid ORDER BY place) <= $per_host
    ORDER BY place LIMIT $wanted
)
SELECT oid, url, key, sid, topic, depth, hops, numtries, relevance, priority
FROM crawl JOIN kept USING (oid) ORDER BY place
"""

_AMONG = """
SELECT oid, url, key, sid, topic, depth, hops, numtries, relevance, priority
FROM crawl SEMI JOIN asked USING (oid) WHERE state = 'waiting' AND numtries = 0 ORDER BY oid
"""


def next_waiting(
    cursor: duckdb.DuckDBPyConnection,
    order_by: str,
    limit: int,
    exclude: npt.NDArray[np.int64],
    topic: int | None,
    per_host: int,
    now_s: float,
) -> list[StoredUrl]:
    """The first `limit` queued URLs that may be fetched now, are not in `exclude`, and at most `per_host` a host."""
    values: dict[str, Any] = {
        "now": datetime.datetime.fromtimestamp(now_s, datetime.UTC).replace(tzinfo=None),
        "topic": topic,
        "look_at": limit * OVERTAKE if per_host else limit,
        "per_host": per_host or limit,
        "wanted": limit,
    }
    cursor.register("held", arrow.table({"oid": exclude}))
    rows = cursor.execute(_NEXT.format(order_by=f"{order_by}\n"), values).fetchall()
    return [StoredUrl(*row) for row in rows]


def waiting_among(cursor: duckdb.DuckDBPyConnection, oids: npt.NDArray[np.int64]) -> list[StoredUrl]:
    """Those of some URLs that are queued and have never been tried, in the order of discovery."""
    cursor.register("asked", arrow.table({"oid": oids}))
    return [StoredUrl(*row) for row in cursor.execute(_AMONG).fetchall()]


def check_order_by(cursor: duckdb.DuckDBPyConnection, order_by: str) -> None:
    """Refuse anything but plain expressions over the columns of `frontier`."""
    if not order_by.strip():
        raise QueryError("the order is empty", "For example: numtries, relevance DESC, serverload")
    [plain], given = guard.syntax_tree(cursor, f"{_HEAD}oid"), guard.syntax_tree(cursor, f"{_HEAD}{order_by}\n")
    if len(given) != 1:
        raise QueryError("the order holds a second statement", "Give what stands after ORDER BY, and nothing else.")
    order = given[0]["node"].pop("modifiers")
    plain["node"].pop("modifiers")
    if given[0] != plain or [modifier["type"] for modifier in order] != ["ORDER_MODIFIER"]:
        raise QueryError("the order holds more than expressions", "Give what stands after ORDER BY, and nothing else.")
    names = []
    for node in guard.nodes(order):
        if node.get("class") in _NOT_PURE:
            raise QueryError(f"{_NOT_PURE[node['class']]} is not allowed in the order", "Order by columns of frontier.")
        if node.get("class") == "COLUMN_REF":
            names.append(".".join(node["column_names"]))
    guard.check(cursor, f"{_HEAD}{order_by}\n")
    try:
        cursor.execute(f"{_HEAD}{order_by}\nLIMIT 1").fetchall()  # not EXPLAIN: some orders fail on values only
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        raise _order_error(cursor, error, names) from None


def _order_error(cursor: duckdb.DuckDBPyConnection, error: duckdb.Error, names: list[str]) -> QueryError:
    """DuckDB's refusal; when it is about a column, with the columns that are near it and those there are."""
    known = [row[0] for row in cursor.execute("DESCRIBE frontier").fetchall()]
    for name in names:
        if name.lower() not in [*known, "hubs.score", "auth.score"]:
            near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
            did_you_mean = f"Did you mean {' or '.join(near)}? " if near else ""
            return QueryError(f"the order names no column {name!r}", f"{did_you_mean}Columns: {', '.join(known)}.")
    return guard.query_error(error)
