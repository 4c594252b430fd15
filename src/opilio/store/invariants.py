"""What must hold in the database of a collection: a list of named invariants, each with the query that finds defects.

They are about rows that can be read (`salvage.py` tells which can): what refers to what, and counts that equal tables.
Each has the statements that mend it, where what is lost can simply be left out; a database in which the numbers of URLs
or hosts are wrong has none, because everything refers to these: it is rebuilt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from opilio.store.database import Store
from opilio.store.loader import WARC_END, WARC_ENDS
from opilio.store.salvage import DatabaseCopy

Ask = Callable[[str], Sequence[tuple[Any, ...]]]
"""The rows that answer a query."""


class Invariant(NamedTuple):
    """Something that must hold."""

    name: str
    """What holds, in words."""
    broken: str
    """A query for one row: how many defects there are, and one of them."""
    lost: str = ""
    """What is lost when it is mended; '': nothing."""
    mend: tuple[str, ...] = ()
    """The statements that mend it; none: the database has to be rebuilt."""


def _unknown(table: str, column: str, key: str = "oid", of: str = "crawl") -> str:
    """The query for rows of a table that refer to nothing."""
    return (
        f"SELECT count(*), any_value({column})::VARCHAR FROM {table} "
        f"WHERE {column} IS NOT NULL AND {column} NOT IN (SELECT {key} FROM {of})"
    )


def _delete(table: str, column: str, key: str = "oid", of: str = "crawl") -> str:
    return f"DELETE FROM {table} WHERE {column} NOT IN (SELECT {key} FROM {of})"


def _counted(name: str, query: str, unless: str = "false") -> Invariant:
    return Invariant(
        f"the counter '{name}' equals what is stored",
        f"""
        SELECT (counted.n <> stored.n AND NOT {unless})::INTEGER, counted.n || ' counted, ' || stored.n || ' stored'
        FROM (SELECT coalesce(sum(n), 0) AS n FROM counters WHERE name = '{name}') counted, ({query}) stored
        """,
        mend=(
            f"DELETE FROM counters WHERE name = '{name}'",
            f"INSERT INTO counters SELECT '{name}', n FROM ({query})",
        ),
    )


_STORED = "state = 'fetched' AND outcome IN ('ok', 'not-modified')"
# Parts of a collection share out what it counted: requests to robots.txt files and sitemaps belong to no part.
_IS_PART = "EXISTS (SELECT 1 FROM crawl WHERE outcome = 'elsewhere')"
_PAGES_OF_HOST = """
    SELECT h.sid, h.host, h.pages, count(p.oid) AS stored
    FROM hosts h LEFT JOIN (SELECT p.oid, c.sid FROM pages p JOIN crawl c USING (oid)) p USING (sid) GROUP BY ALL
"""
_PAGES_COUNTED = _counted("pages", "SELECT count(*) AS n FROM pages")
_PAGES_OF_HOSTS_COUNTED = Invariant(
    "the pages of each host are counted",
    f"SELECT count(*), any_value(host) FROM ({_PAGES_OF_HOST}) WHERE pages <> stored",
    mend=(
        f"""
        UPDATE hosts SET pages = found.stored FROM ({_PAGES_OF_HOST}) found
        WHERE found.sid = hosts.sid AND hosts.pages <> found.stored
        """,
    ),
)
RECOUNT_PAGES = (*_PAGES_COUNTED.mend, *_PAGES_OF_HOSTS_COUNTED.mend)
"""The statements that count the stored pages again, all of them and those of each host."""

INVARIANTS = (
    Invariant(
        "no URL is known twice",
        "SELECT count(*), any_value(url) FROM (SELECT url FROM crawl GROUP BY url HAVING count(*) > 1)",
    ),
    Invariant(
        "the numbers of URLs have no gaps and no repetitions",
        """
        SELECT count(*) - count(DISTINCT oid) + coalesce(max(oid) + 1, 0) - count(DISTINCT oid)
               + count(*) FILTER (oid < 0), NULL FROM crawl
        """,
    ),
    Invariant(
        "the numbers of hosts have no gaps and no repetitions",
        """
        SELECT count(*) - count(DISTINCT sid) + coalesce(max(sid) + 1, 0) - count(DISTINCT sid)
               + count(*) - count(DISTINCT host), NULL FROM hosts
        """,
    ),
    Invariant("every URL has its host", _unknown("crawl", "sid", "sid", "hosts")),
    Invariant(
        "every topic has its parent",
        _unknown("topics", "pcid", "kcid", "topics"),
        "places of topics in the tree, which are below the root now",
        (
            """
            UPDATE topics SET pcid = CASE WHEN kcid <> 0 THEN 0 END WHERE pcid NOT IN (SELECT kcid FROM topics)
            """,
        ),
    ),
    Invariant("every page has its URL", _unknown("pages", "oid"), "pages without a URL", (_delete("pages", "oid"),)),
    Invariant(
        "no page is stored twice",
        "SELECT count(*), any_value(oid)::VARCHAR FROM (SELECT oid FROM pages GROUP BY oid HAVING count(*) > 1)",
        mend=(
            """
            DELETE FROM pages WHERE rowid NOT IN (SELECT arg_max(rowid, (visited, rowid)) FROM pages GROUP BY oid)
            """,
        ),
    ),
    Invariant(
        "every URL that was fetched has its page",
        f"SELECT count(*), any_value(url) FROM crawl WHERE {_STORED} AND oid NOT IN (SELECT oid FROM pages)",
        "pages, which are fetched again",
        (
            f"""
            UPDATE crawl SET state = 'waiting', outcome = NULL, numtries = 0, not_before = NULL
            WHERE {_STORED} AND oid NOT IN (SELECT oid FROM pages)
            """,
        ),
    ),
    *(
        Invariant(f"{table} {verb} a known URL", _unknown(table, column), table, (_delete(table, column),))
        for table in ("links", "redirects")
        for verb, column in (("start at", "oid_src"), ("lead to", "oid_dst"))
    ),
    *(
        Invariant(f"{noun} belong to a known URL", _unknown(table, column), noun, (_delete(table, column),))
        for noun, table, column in (
            ("duplicates", "duplicates", "oid"),
            ("originals of duplicates", "duplicates", "of_oid"),
            ("judgements", "judgements", "oid"),
            ("questions", "questions", "oid"),
            ("labels", "labels", "oid"),
            ("reviews", "reviews", "oid"),
            ("earlier links", "past_links", "oid_src"),
        )
    ),
    Invariant(
        "no page is its own duplicate",
        "SELECT count(*), any_value(oid)::VARCHAR FROM duplicates WHERE oid = of_oid",
        mend=("DELETE FROM duplicates WHERE oid = of_oid",),
    ),
    Invariant(
        "terms belong to a stored page",
        _unknown("terms", "oid", of="pages"),
        mend=(_delete("terms", "oid", of="pages"),),
    ),
    _PAGES_COUNTED,
    _counted("requests", "SELECT count(*) AS n FROM visits", _IS_PART),
    _counted("bytes", "SELECT coalesce(sum(received_bytes), 0)::BIGINT AS n FROM visits", _IS_PART),
    _PAGES_OF_HOSTS_COUNTED,
)


class Broken(NamedTuple):
    """An invariant that does not hold."""

    invariant: Invariant
    times: int
    example: str


def broken_invariant(ask: Ask, invariant: Invariant) -> Broken | None:
    """The defects of one invariant; None when it holds."""
    [(count, example)] = ask(invariant.broken)
    return Broken(invariant, int(count), str(example or "")) if count else None


def mend(store: Store, invariant: Invariant) -> None:
    """Carry out the statements that mend an invariant."""
    with store.writing() as cursor:
        for statement in invariant.mend:
            cursor.execute(statement)


# -- what the database says of the other files


class RecordPlace(NamedTuple):
    """Where the database says that a WARC record is."""

    offset: int
    length: int
    url: str
    """'' for robots.txt and sitemaps."""
    is_page: bool
    """Whether it is the record of a stored page."""


_NAMES = """
    SELECT DISTINCT warc_file FROM (SELECT warc_file FROM pages UNION ALL SELECT warc_file FROM visits)
    WHERE warc_file <> ''
"""
_PLACES = """
    SELECT warc_offset, max(warc_bytes), coalesce(max(url), ''), bool_or(is_page)
    FROM (
        SELECT warc_offset, warc_bytes, url, true AS is_page
        FROM pages JOIN crawl USING (oid) WHERE warc_file = $1
        UNION ALL
        SELECT warc_offset, warc_bytes, url, false
        FROM visits LEFT JOIN crawl USING (oid) WHERE warc_file = $1
    ) GROUP BY warc_offset
"""


def warc_names(copy: DatabaseCopy) -> set[str]:
    """The WARC files that rows name."""
    return {name for (name,) in copy.ask(_NAMES)}


def known_ends(copy: DatabaseCopy) -> dict[str, int]:
    """For each WARC file, where the last record ends that the database knows of."""
    return {name: int(end) for name, end in copy.ask(WARC_ENDS)}


def record_places(copy: DatabaseCopy, name: str) -> list[RecordPlace]:
    """The records of one WARC file that rows name."""
    return [RecordPlace(*row) for row in copy.connection.execute(_PLACES, [name]).fetchall()]


def page_visits(copy: DatabaseCopy) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The numbers of all pages, ascending, and when each was visited, in microseconds."""
    found = copy.connection.execute("SELECT oid, epoch_us(visited) AS visited FROM pages ORDER BY oid").fetchnumpy()
    return found["oid"], found["visited"]


_FORGET = """
    UPDATE {table} SET warc_file = '', warc_offset = 0, warc_bytes = 0
    WHERE warc_file = $1 AND warc_offset IN (SELECT unnest($2::BIGINT[]))
"""


def forget_records(store: Store, name: str, offsets: Sequence[int]) -> None:
    """Forget records of a WARC file that are lost."""
    with store.writing() as cursor:
        for table in ("pages", "visits"):
            cursor.execute(_FORGET.format(table=table), [name, list(offsets)])


def move_records(store: Store, name: str, moved: Mapping[int, int]) -> None:
    """Note where the records of a WARC file are now, by where they were."""
    places = pa.table({"old": pa.array(moved.keys(), pa.int64()), "new": pa.array(moved.values(), pa.int64())})
    with store.writing() as cursor:
        cursor.register("moved", places)
        for table in ("pages", "visits"):
            cursor.execute(
                f"UPDATE {table} SET warc_offset = moved.new FROM moved "
                f"WHERE {table}.warc_file = ? AND {table}.warc_offset = moved.old",
                [name],
            )
        cursor.execute("DELETE FROM meta WHERE name = ?", [f"{WARC_END}{name}"])
        cursor.unregister("moved")
