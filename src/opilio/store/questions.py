"""For a user who writes SQL: statements that are ready to run, answers in plain values, and the tables described.

The ready questions are worth asking of any collection; the papers' own come first. The console lists them, `opilio sql
FOLDER --question NAME` runs one, and docs/sql.md prints them. Each is a statement as a user would write it, and may
change it.

Answers are bounded in rows, size and time, and are the same wherever the query ran. Tables are described by the
comments of `schema.sql`.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from opilio.store.database import Store
from opilio.store.reader import MAX_CHARS, MAX_ROWS

TIMEOUT_S = 60.0
_COLUMNS = """
    SELECT c.table_name, t.table_type = 'VIEW', c.column_name, c.data_type
    FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
    ORDER BY t.table_type, c.table_name, c.ordinal_position
"""
_MADE = re.compile(r"^CREATE (?:TABLE|VIEW) (\w+)")
_COLUMN = re.compile(r"^\s{4}(\w+)\s+[A-Z].*?--\s*(.*)$")
_LONG_TYPE_CHARS = 40
_FIRST = ("crawl", "pages", "links", "hosts", "topics")
"""The tables that most questions are about."""


@dataclass(frozen=True)
class ReadyQuestion:
    """A statement, and what its answer shows."""

    name: str
    title: str
    shows: str
    sql: str
    source: str = ""
    """The paper that asks it."""
    writes: bool = False
    """Whether it changes rows: then it is shown, and run only by somebody who may."""


DEAD_SEEDS = """\
WITH RECURSIVE led AS (
    SELECT seeds.url AS seed, crawl.oid, 0 AS hops FROM seeds JOIN crawl USING (url)
    UNION
    SELECT led.seed, redirects.oid_dst, led.hops + 1
    FROM led JOIN redirects ON redirects.oid_src = led.oid
    WHERE led.hops < 20
),
ended AS (
    SELECT led.seed, any_value(seeds.title) AS title, arg_max(led.oid, led.hops) AS oid
    FROM led JOIN seeds ON seeds.url = led.seed
    GROUP BY led.seed
),
dead AS (
    SELECT ended.*, crawl.outcome, CASE WHEN crawl.numtries = 0 THEN -1 - crawl.sid ELSE crawl.oid END AS asked
    FROM ended JOIN crawl USING (oid)
    WHERE crawl.state IN ('failed', 'dropped') AND crawl.outcome NOT LIKE '%duplicate%'
),
latest AS (
    SELECT oid, arg_max(detail, visited) AS detail, arg_max(status, visited) AS status
    FROM visits
    WHERE oid IN (SELECT asked FROM dead)
    GROUP BY oid
)
SELECT dead.seed AS url, dead.title,
       dead.outcome,
       coalesce(nullif(detail, ''), CASE WHEN status >= 400 THEN 'status ' || status END, '') AS detail
FROM dead LEFT JOIN latest ON latest.oid = dead.asked
ORDER BY dead.outcome, url"""
QUESTIONS = (
    ReadyQuestion(
        "harvest-per-minute",
        "Harvest rate per minute",
        "Whether the crawl still finds what is wanted: mean relevance of the pages of each minute.",
        """\
SELECT date_trunc('minute', visited) AS minute, round(avg(relevance), 3) AS relevance, count(*) AS pages
FROM pages
GROUP BY minute
ORDER BY minute""",
        "Focus 3.7",
    ),
    ReadyQuestion(
        "census",
        "Census by topic",
        "Where the pages went. A topic above or beside yours that took many of them is one to mark good.",
        """\
SELECT coalesce(nullif(taxonomy.path, ''), taxonomy.name) AS topic, taxonomy.type AS mark, count(*) AS pages,
       count(*) FILTER (pages.relevance >= 0.5) AS relevant
FROM pages JOIN taxonomy USING (kcid)
GROUP BY ALL
ORDER BY pages DESC""",
        "Focus 3.7",
    ),
    ReadyQuestion(
        "neglected-neighbours",
        "Neglected neighbours of great hubs",
        "URLs not tried yet to which the greatest tenth of the hubs, on other hosts, link: a crawl that stagnates "
        "should see them soon. Before the first link analysis, hubs are those that link to most relevant pages.",
        """\
WITH hub AS (
    SELECT oid, score FROM hubs
    UNION ALL
    SELECT oid_src, count(DISTINCT oid_dst)
    FROM links JOIN pages ON pages.oid = oid_dst
    WHERE sid_src <> sid_dst AND pages.relevance >= 0.5 AND NOT EXISTS (FROM hubs)
    GROUP BY oid_src
)
SELECT crawl.url, count(DISTINCT hub.oid) AS hubs, round(max(crawl.relevance)::DOUBLE, 3) AS relevance
FROM link
JOIN hub ON hub.oid = link.oid_src
JOIN crawl ON crawl.oid = link.oid_dst
WHERE hub.score >= (SELECT quantile_cont(score, 0.9) FROM hub)
  AND link.sid_src <> link.sid_dst AND crawl.numtries = 0
GROUP BY crawl.url
ORDER BY hubs DESC, relevance DESC, url
LIMIT 50""",
        "Focus 3.7",
    ),
    ReadyQuestion(
        "mark-ancestor-good",
        "Mark the topic above good",
        "The paper's cure of a stagnating crawl: the topic above a good one is good in its place, and all below it is "
        "subsumed. It takes the good topic with the highest number whose parent is not the root, for a good root would "
        "leave nothing out; put another number in the place of that query. A crawl that runs learns it at once.",
        """\
WITH RECURSIVE upper AS (
    SELECT max(good.pcid) AS kcid
    FROM topics AS good JOIN topics AS parent ON parent.kcid = good.pcid
    WHERE good.type = 'good' AND parent.pcid IS NOT NULL
),
subtree AS (
    FROM upper
    UNION ALL
    SELECT topics.kcid FROM topics JOIN subtree ON topics.pcid = subtree.kcid
)
UPDATE topics
SET type = CASE WHEN kcid = (SELECT kcid FROM upper) THEN 'good' ELSE 'subsumed' END
WHERE kcid IN (SELECT kcid FROM subtree)""",
        "Focus 3.7",
        writes=True,
    ),
    ReadyQuestion(
        "citation-sociology",
        "Citation sociology: what surrounds a topic",
        "Topics that are much more frequent within one link of a topic's pages than among all pages; the paper found "
        "first aid around bicycling.",
        """\
WITH known AS (
    SELECT pages.oid, kcid, path AS topic FROM pages JOIN topics USING (kcid) WHERE pcid IS NOT NULL
),
near AS (
    SELECT DISTINCT here.topic, there.oid
    FROM (SELECT oid_src AS a, oid_dst AS b FROM links UNION SELECT oid_dst, oid_src FROM links) AS pair
    JOIN known AS here ON here.oid = pair.a
    JOIN pages AS there ON there.oid = pair.b
),
around AS (SELECT topic, count(*) AS pages FROM near GROUP BY topic),
everywhere AS (SELECT topic, count(*) / (SELECT count(*) FROM pages) AS share FROM known GROUP BY topic)
SELECT near.topic, known.topic AS beside_it, count(*) AS pages_near,
       round(count(*) / any_value(around.pages), 4) AS share_near,
       round(any_value(everywhere.share), 4) AS share_at_large,
       round(count(*) / any_value(around.pages) / any_value(everywhere.share), 2) AS times_as_frequent
FROM near
JOIN known USING (oid)
JOIN around ON around.topic = near.topic
JOIN everywhere ON everywhere.topic = known.topic
WHERE known.topic <> near.topic
GROUP BY near.topic, known.topic
ORDER BY times_as_frequent DESC""",
        "Focus 1",
    ),
    ReadyQuestion(
        "typed-links",
        "Typed links: from one topic to another",
        "How often pages of one topic link to pages of another, and with which words.",
        """\
SELECT a.path AS from_topic, b.path AS to_topic, count(*) AS links,
       count(DISTINCT links.oid_src) AS pages,
       approx_top_k(links.anchor, 5) FILTER (links.anchor <> '') AS words
FROM links
JOIN pages AS source ON source.oid = links.oid_src
JOIN pages AS target ON target.oid = links.oid_dst
JOIN topics AS a ON a.kcid = source.kcid
JOIN topics AS b ON b.kcid = target.kcid
WHERE a.kcid <> b.kcid AND a.pcid IS NOT NULL AND b.pcid IS NOT NULL
GROUP BY ALL
ORDER BY links DESC""",
        "Focus 1",
    ),
    ReadyQuestion(
        "typed-paths",
        "Typed paths: by way of a neighbour to another topic",
        "Pages of one topic that link to a page which links to a page of another topic, as from a professor by way of "
        "a student to the student's publications.",
        """\
SELECT first.url, a.path AS topic, count(DISTINCT near.oid_dst) AS by_way_of, b.path AS to_topic,
       count(DISTINCT far.oid_dst) AS pages
FROM links AS near
JOIN links AS far ON far.oid_src = near.oid_dst
JOIN pages AS source ON source.oid = near.oid_src
JOIN pages AS target ON target.oid = far.oid_dst
JOIN topics AS a ON a.kcid = source.kcid
JOIN topics AS b ON b.kcid = target.kcid
JOIN crawl AS first ON first.oid = near.oid_src
WHERE near.region = 'main' AND far.region = 'main' AND near.oid_src <> far.oid_dst
  AND a.kcid <> b.kcid AND a.type = 'good' AND b.pcid IS NOT NULL
GROUP BY ALL
ORDER BY pages DESC, url
LIMIT 50""",
        "Focus 1",
    ),
    ReadyQuestion(
        "spam-filter",
        "Spam filter: words say one thing, neighbours another",
        "Pages that seem to be about one topic while at least two pages of other hosts that link to them, and most of "
        "all that do, are about something else.",
        """\
WITH cited AS (
    SELECT DISTINCT links.oid_dst AS oid, links.oid_src, source.kcid AS says
    FROM links JOIN pages AS source ON source.oid = links.oid_src
    WHERE links.sid_src <> links.sid_dst
)
SELECT collection.url, collection.topic AS seems_to_be, round(collection.relevance::DOUBLE, 3) AS relevance,
       count(*) FILTER (says <> collection.kcid) AS others, count(*) FILTER (says = collection.kcid) AS own,
       mode(topics.path) FILTER (says <> collection.kcid AND topics.path <> '') AS mostly
FROM collection
JOIN cited USING (oid)
JOIN topics ON topics.kcid = cited.says
WHERE collection.relevance >= 0.5
GROUP BY ALL
HAVING others >= 2 AND others > own
ORDER BY others - own DESC, url
LIMIT 50""",
        "Focus 1",
    ),
    ReadyQuestion(
        "community-evolution",
        "Community evolution: links between topics over time",
        "How many links lead from one topic to another, how many of them came and how many went, in twelve parts of "
        "the time over which the crawl has seen links. For a certain year, put its months in the place of the parts.",
        """\
WITH span AS (
    SELECT epoch(min(first_seen)) AS began, greatest(epoch(max(last_seen) - min(first_seen)), 1e-6) / 12 AS part_s
    FROM link_history
),
part AS (
    SELECT began + part_s * i AS start_s,
           CASE WHEN i = 11 THEN 'infinity'::DOUBLE ELSE began + part_s * (i + 1) END AS end_s
    FROM span, range(12) t(i)
),
between_topics AS (
    SELECT a.path AS from_topic, b.path AS to_topic, epoch(first_seen) AS came_s,
           CASE WHEN gone THEN epoch(last_seen) ELSE 'infinity'::DOUBLE END AS went_s
    FROM link_history
    JOIN pages AS source ON source.oid = oid_src
    JOIN pages AS target ON target.oid = oid_dst
    JOIN topics AS a ON a.kcid = source.kcid
    JOIN topics AS b ON b.kcid = target.kcid
    WHERE a.kcid <> b.kcid AND a.pcid IS NOT NULL AND b.pcid IS NOT NULL
)
SELECT make_timestamp((start_s * 1000000)::BIGINT) AS from_then, from_topic, to_topic, count(*) AS links,
       count(*) FILTER (came_s >= start_s) AS came, count(*) FILTER (went_s < end_s) AS went
FROM part JOIN between_topics ON came_s < end_s AND went_s >= start_s
GROUP BY ALL
ORDER BY from_then, links DESC, from_topic, to_topic""",
        "Focus 1",
    ),
    ReadyQuestion(
        "outcomes",
        "What became of every URL",
        "How many URLs wait, were fetched, failed or were refused, and why.",
        "SELECT state, outcome, count(*) AS urls FROM crawl GROUP BY ALL ORDER BY urls DESC",
    ),
    ReadyQuestion(
        "dead-seeds",
        "Seeds and bookmarks that gave no page",
        "Which of the URLs that you gave could not be fetched or were refused, and why. Redirects are followed; when "
        "the robots.txt of its host could not be fetched, the reason is that of this request.",
        DEAD_SEEDS,
    ),
    ReadyQuestion(
        "empty-pages",
        "Pages that are empty without JavaScript",
        "Which pages have nothing to read until a script writes it, and were not rendered. `opilio crawl FOLDER "
        "--render auto` fetches them again and opens them in a browser.",
        """\
SELECT h.host, c.url, c.lastvisited AS visited
FROM crawl c
JOIN hosts h ON h.sid = c.sid
WHERE c.outcome = 'needs-javascript' AND c.state = 'failed'
ORDER BY h.host, c.url""",
    ),
    ReadyQuestion(
        "best-hosts",
        "Hosts that gave most",
        "Which hosts the relevant pages come from, and how much of what they gave was relevant.",
        """\
SELECT host, count(*) FILTER (relevance >= 0.5) AS relevant, count(*) AS pages, round(avg(relevance), 3) AS relevance
FROM collection
GROUP BY host
ORDER BY relevant DESC, pages DESC
LIMIT 20""",
    ),
    ReadyQuestion(
        "anchor-words",
        "Words that relevant pages link with",
        "Anchors of links that led to relevant pages: what to look for in links.",
        """\
SELECT anchor, count(DISTINCT oid_dst) AS pages, round(avg(pages.relevance), 3) AS relevance
FROM links JOIN pages ON pages.oid = links.oid_dst
WHERE anchor <> ''
GROUP BY anchor
HAVING avg(pages.relevance) >= 0.5
ORDER BY pages DESC, anchor
LIMIT 30""",
    ),
)


def question(name: str) -> ReadyQuestion | None:
    """The question of that name."""
    return next((one for one in QUESTIONS if one.name == name), None)


def to_markdown() -> str:
    """The questions as docs/sql.md prints them."""
    parts = []
    for one in QUESTIONS:
        source = f" ({one.source})" if one.source else ""
        write = " Needs `--write`." if one.writes else ""
        parts.append(
            f"### {one.title}\n\n`{one.name}`{source}. {one.shows}{write}\n\n```sql question\n{one.sql}\n```\n"
        )
    return "\n".join(parts)


def answer(store: Store, sql: str, max_rows: int = 1000) -> dict[str, Any]:
    """Columns with their kinds (number, time or text), rows, and whether there were more of them."""
    most = max(1, min(max_rows, MAX_ROWS))
    result = store.query(sql, timeout_s=TIMEOUT_S, max_rows=most, max_chars=MAX_CHARS)
    rows = [[plain(value) for value in row] for row in result.rows]
    kinds = [_kind([row[column] for row in result.rows]) for column in range(len(result.columns))]
    return {"columns": list(result.columns), "kinds": kinds, "rows": rows, "truncated": result.truncated}


def plain(value: Any) -> Any:
    """A value of the database as JSON has it. JSON knows no infinity: such a number becomes nothing."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return str(value)


def _kind(values: Sequence[Any]) -> str:
    """What the values of a column are: text as soon as one is neither a number nor a time."""
    given = [value for value in values if value is not None]
    if given and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in given):
        return "number"
    if given and all(isinstance(value, (datetime.datetime, datetime.date)) for value in given):
        return "time"
    return "text"


def list_tables(store: Store) -> list[dict[str, Any]]:
    """Tables and views, the most useful first: name, what a row is, and the columns with their types and meanings."""
    says, meanings = explanations()
    found: dict[str, dict[str, Any]] = {}
    for table, is_view, column, kind in store.query(_COLUMNS, max_rows=10_000).rows:
        listed = found.setdefault(table, {"name": table, "view": is_view, "says": says.get(table, ""), "columns": []})
        shown = kind if len(kind) <= _LONG_TYPE_CHARS else kind.partition("(")[0]
        listed["columns"].append({"name": column, "type": shown, "says": meanings.get((table, column), "")})
    order = {name: place for place, name in enumerate(_FIRST)}
    return sorted(found.values(), key=lambda one: (order.get(one["name"], len(order)), one["view"], one["name"]))


def explanations() -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """The comments of schema.sql: before each table or view, and behind its columns."""
    says: dict[str, str] = {}
    meanings: dict[tuple[str, str], str] = {}
    above: list[str] = []
    table = ""
    for line in resources.files("opilio.store").joinpath("schema.sql").read_text(encoding="utf-8").splitlines():
        made, column = _MADE.match(line), _COLUMN.match(line)
        if line.startswith("--"):
            above.append(line.lstrip("- "))
        elif made:
            table = made[1]
            says[table] = " ".join(above)
            above = []
        elif not line.strip():
            above = []
        elif column:
            meanings[table, column[1]] = column[2]
    return says, meanings
