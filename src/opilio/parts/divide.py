"""Divide the database of a collection into parts: each URL, with all that is known about it, goes to one of them.

The rows are moved by SQL, table by table (`rules.py`). `split.py` has decided before which topic belongs to which part,
and what each part wants. A part also gets URLs that it refers to and that belong to another part: targets of its links,
sources of links to its pages, parents, examples. These have the outcome `elsewhere`, so that no part fetches what
another one has. The oids and sids of a part are dense again, in the old order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from opilio.model import RELEVANT
from opilio.parts.building import Scratch, example_texts, keep_measured
from opilio.parts.rules import RULES, TOTALS


@dataclass(frozen=True)
class NewPart:
    """A part that is to be made, and where."""

    folder: Path
    kcids: Sequence[int]
    """Its topics."""
    marks: Mapping[int, str]
    """The marks of all topics in it."""


_OWNERS = """
    CREATE TABLE owners AS
    SELECT c.oid, coalesce(p.part, $1)::INTEGER AS part, c.sid
    FROM whole.crawl c LEFT JOIN topic_parts p ON p.kcid = c.topic ORDER BY c.oid
"""
_NAMED_URLS = """
    CREATE TABLE named_urls AS SELECT url, oid FROM whole.crawl
    WHERE url IN (
        SELECT name FROM whole.training WHERE kind = 'url' UNION SELECT url FROM whole.seeds
        UNION SELECT url FROM whole.offers)
"""
_REFERENCES = """
    CREATE TABLE referred AS SELECT DISTINCT part, oid FROM (
        SELECT s.part, d.oid FROM whole.links l
        JOIN owners s ON s.oid = l.oid_src JOIN owners d ON d.oid = l.oid_dst WHERE s.part <> d.part
        UNION ALL
        SELECT d.part, s.oid FROM whole.links l
        JOIN owners s ON s.oid = l.oid_src JOIN owners d ON d.oid = l.oid_dst WHERE s.part <> d.part
        UNION ALL
        SELECT s.part, d.oid FROM whole.past_links l
        JOIN owners s ON s.oid = l.oid_src JOIN owners d ON d.oid = l.oid_dst WHERE s.part <> d.part
        UNION ALL
        SELECT s.part, d.oid FROM whole.redirects r
        JOIN owners s ON s.oid = r.oid_src JOIN owners d ON d.oid = r.oid_dst WHERE s.part <> d.part
        UNION ALL
        SELECT s.part, d.oid FROM whole.duplicates r
        JOIN owners s ON s.oid = r.oid JOIN owners d ON d.oid = r.of_oid WHERE s.part <> d.part
        UNION ALL
        SELECT o.part, p.oid FROM whole.crawl c
        JOIN owners o ON o.oid = c.oid JOIN owners p ON p.oid = c.parent WHERE o.part <> p.part
        UNION ALL
        SELECT p.part, o.oid FROM owners o JOIN named_urls t ON t.oid = o.oid JOIN parts p ON p.part <> o.part
    )
"""
_HOST_HOMES = """
    CREATE TABLE host_homes AS
    SELECT h.sid, coalesce(o.part, $1)::INTEGER AS part
    FROM whole.hosts h LEFT JOIN (SELECT sid, min(part) AS part FROM owners GROUP BY sid) o ON o.sid = h.sid
"""


def _given(total: str, wanted: str, thing: str) -> str:
    """The share of a part in a total: what it can claim of what the parts before it have left."""
    before = f"sum({wanted}) OVER (PARTITION BY {thing} ORDER BY part ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"
    return f"least({wanted}, greatest({total} - coalesce({before}, 0), 0))"


# The counts of a host are shared by the pages and visits that a part has; the rest, such as the visit of robots.txt,
# goes to the home part. So the shares add up.
_HOST_SHARES = f"""
    CREATE TABLE host_shares AS
    WITH had AS (
        SELECT part, sid, sum(pages) AS pages, sum(bytes) AS bytes, sum(requests) AS requests FROM (
            SELECT o.part, o.sid, 1 AS pages, 0 AS bytes, 0 AS requests
            FROM whole.pages p JOIN owners o ON o.oid = p.oid
            UNION ALL
            SELECT o.part, o.sid, 0, coalesce(v.received_bytes, 0), 1
            FROM whole.visits v JOIN owners o ON o.oid = v.oid
        ) GROUP BY part, sid
    ),
    given AS (
        SELECT part, sid, {_given("h.pages", "had.pages", "sid")} AS pages,
               {_given("h.bytes", "had.bytes", "sid")} AS bytes,
               {_given("h.requests", "had.requests", "sid")} AS requests
        FROM had JOIN whole.hosts h USING (sid)
    ),
    out AS (SELECT sid, sum(pages) AS pages, sum(bytes) AS bytes, sum(requests) AS requests FROM given GROUP BY sid)
    SELECT part, sid, sum(pages)::INTEGER AS pages, sum(bytes)::BIGINT AS bytes, sum(requests)::INTEGER AS requests
    FROM (
        SELECT * FROM given
        UNION ALL
        SELECT m.part, m.sid, h.pages - coalesce(out.pages, 0), h.bytes - coalesce(out.bytes, 0),
               h.requests - coalesce(out.requests, 0)
        FROM host_homes m JOIN whole.hosts h USING (sid) LEFT JOIN out USING (sid)
    ) GROUP BY part, sid
"""
_TOTALS = f"CREATE TABLE totals AS {TOTALS}"
_TOTAL_SHARES = f"""
    CREATE TABLE total_shares AS
    WITH measures AS (
        SELECT o.part, 'pages' AS measure, count(*) AS n FROM whole.pages p JOIN owners o ON o.oid = p.oid GROUP BY 1
        UNION ALL
        SELECT o.part, 'relevant', count(*) FROM whole.pages p JOIN owners o ON o.oid = p.oid
        WHERE p.relevance >= {RELEVANT} GROUP BY 1
        UNION ALL
        SELECT o.part, 'requests', count(*) FROM whole.visits v JOIN owners o ON o.oid = v.oid GROUP BY 1
        UNION ALL
        SELECT o.part, 'bytes', coalesce(sum(v.received_bytes), 0) FROM whole.visits v JOIN owners o ON o.oid = v.oid
        GROUP BY 1
    ),
    had AS (
        SELECT m.name, part, n FROM measured m JOIN measures USING (measure)
        UNION ALL
        SELECT 'outcome:' || c.outcome, o.part, count(*) FROM whole.crawl c JOIN owners o ON o.oid = c.oid
        WHERE c.state <> 'waiting' AND c.outcome IS NOT NULL GROUP BY 1, 2
    ),
    given AS (SELECT name, part, {_given("t.n", "had.n", "name")} AS n FROM had JOIN totals t USING (name)),
    out AS (SELECT name, sum(n) AS n FROM given GROUP BY name)
    SELECT part, name, sum(n)::BIGINT AS n FROM (
        SELECT part, name, n FROM given
        UNION ALL
        SELECT $1, t.name, t.n - coalesce(out.n, 0) FROM totals t LEFT JOIN out USING (name)
    ) GROUP BY part, name
"""
_PART_HOSTS = """
    CREATE OR REPLACE TABLE part_hosts AS
    SELECT s.sid, coalesce(m.part = here.part, false) AS home
    FROM (
        SELECT sid FROM owners JOIN here USING (part)
        UNION
        SELECT o.sid FROM owners o
        JOIN (SELECT oid FROM referred WHERE part = (SELECT part FROM here)) r ON r.oid = o.oid
        UNION
        SELECT sid FROM host_homes JOIN here USING (part)
    ) s LEFT JOIN host_homes m ON m.sid = s.sid, here
    ORDER BY s.sid
"""
_NUMBERS = """
    CREATE OR REPLACE TABLE numbers AS
    SELECT u.oid, u.own, h.rowid::INTEGER AS sid
    FROM (
        SELECT oid, sid, true AS own FROM owners JOIN here USING (part)
        UNION ALL
        SELECT o.oid, o.sid, false FROM owners o
        JOIN (SELECT oid FROM referred WHERE part = (SELECT part FROM here)) r ON r.oid = o.oid
    ) u JOIN part_hosts h ON h.sid = u.sid
    ORDER BY u.oid
"""
_COPY_TEXTS = f"""
    UPDATE part.training SET text = e.text FROM example_texts e
    WHERE training.kind = 'url' AND training.text IS NULL AND e.name = training.name
        AND training.name NOT IN (SELECT name FROM ({example_texts("part")}))
"""

StepProgress = Callable[[str, int, int], object]
"""Receives what is being done, and how many of how many steps are done."""


def divide(
    whole: Path,
    parts: Sequence[NewPart],
    rest: int,
    measured: Mapping[str, str],
    scratch: Scratch,
    on_progress: StepProgress,
) -> None:
    """Make the databases of the parts. What belongs to no part's topics goes to the part with the number `rest`.

    `measured` says which totals can be counted in a part (`split.MEASURED`).
    """
    steps = 1 + len(parts) * (len(RULES) + 1)
    on_progress("numbering", 0, steps)
    with scratch.reading(whole, "whole"):
        _prepare(parts, rest, measured, scratch)
        for number, part in enumerate(parts):
            part.folder.mkdir()
            done = 1 + number * (len(RULES) + 1)
            with scratch.making(part.folder, "part"):
                _choose(number, part, rest, scratch)
                for place, (table, rule) in enumerate(RULES.items(), 1):
                    on_progress(f"{part.folder.name}: {table}", done + place, steps)
                    if rule.divide:
                        scratch.run(rule.divide)
                scratch.run(_COPY_TEXTS)
        on_progress("done", steps, steps)


def _prepare(parts: Sequence[NewPart], rest: int, measured: Mapping[str, str], scratch: Scratch) -> None:
    """Decide which part each URL and each share of the counts belongs to."""
    numbers = range(len(parts))
    of_topics = [(kcid, number) for number, part in enumerate(parts) for kcid in part.kcids]
    scratch.keep("parts", {"part": pa.array(numbers, pa.int32())})
    scratch.keep(
        "topic_parts",
        {
            "kcid": pa.array([kcid for kcid, _ in of_topics], pa.int16()),
            "part": pa.array([number for _, number in of_topics], pa.int32()),
        },
    )
    keep_measured(scratch, measured)
    scratch.run(_OWNERS, rest)
    scratch.run(_NAMED_URLS)
    scratch.run(_REFERENCES)
    scratch.run(_HOST_HOMES, rest)
    scratch.run(_HOST_SHARES)
    scratch.run(_TOTALS)
    scratch.run(_TOTAL_SHARES, rest)
    scratch.run(f"CREATE TABLE example_texts AS {example_texts('whole')}")


def _choose(number: int, part: NewPart, rest: int, scratch: Scratch) -> None:
    """Make the tables about one part: its hosts and its URLs in their new order."""
    scratch.run(f"CREATE OR REPLACE TABLE here AS SELECT {number} AS part, {rest} AS rest, {number == rest} AS is_home")
    scratch.keep(
        "part_marks",
        {
            "kcid": pa.array(list(part.marks), pa.int16()),
            "type": pa.array(list(part.marks.values()), pa.string()),
        },
    )
    scratch.run(_PART_HOSTS)
    scratch.run(_NUMBERS)
