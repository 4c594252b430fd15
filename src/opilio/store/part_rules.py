"""What becomes of each table when a collection is divided into parts, and when collections are joined: one table.

`divide` and `join` are what is written to a table of the new collection, once for each part and once for each source;
`finish` follows when all sources were read. A table that must be written from several sources at once is *staged*:
`join` fills a table of the same columns, `staged_<name>`. The tables that these statements speak of are made by
`dividing` (`whole`, `part`, `numbers`, ...) and `joining` (`source`, `joined`, `numbers`, ...).

Facts go to exactly one part: a URL with all that is known of it to the part of its topic. Links go to the part of
either end. What a crawl is told by (topics, examples, models) and what its user should remember (runs, notices,
lessons) is in every part. Joined, what is the same is one again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opilio.store import part_sql as sql


@dataclass(frozen=True)
class Rule:
    """What becomes of one table. Empty statements: it is filled in by other means, or stays empty."""

    divide: str = ""
    join: str = ""
    finish: str = ""
    staged: bool = False


def _of_its_url(table: str, *, renumbered: str = "", joins: str = "", gives: str = "gives") -> Rule:
    """Rows that go where their URL goes, and come from the source whose word on the URL counts."""
    return Rule(
        divide=f"""
            INSERT INTO part.{table} BY NAME SELECT t.* REPLACE (n.rowid AS oid)
            FROM whole.{table} t JOIN numbers n ON n.oid = t.oid WHERE n.own
        """,
        join=f"""
            INSERT INTO joined.{table} BY NAME SELECT t.* REPLACE (n.new AS oid{renumbered})
            FROM source.{table} t JOIN numbers n ON n.old = t.oid {joins} WHERE n.{gives}
        """,
    )


def _all_of_its_url(table: str, *, renumbered: str = "", joins: str = "", oid: str = "oid", divide: str = "") -> Rule:
    """Rows that go where their URL goes, and come from all sources; from two copies of a crawl only once."""
    own = divide or _of_its_url(table).divide
    mapped = f"""
        SELECT t.* REPLACE (n.new AS {oid}{renumbered})
        FROM source.{table} t JOIN numbers n ON n.old = t.{oid} {joins}
    """
    there = f"SELECT t.* FROM joined.{table} t SEMI JOIN numbers n ON n.new = t.{oid} AND n.shared"
    return Rule(
        divide=own,
        join=f"""
            INSERT INTO joined.{table} BY NAME {mapped} WHERE NOT n.shared;
            INSERT INTO joined.{table} ({mapped} WHERE n.shared) EXCEPT ({there})
        """,
    )


def _in_every_part(table: str, *, joined: str = "", order: str = "") -> Rule:
    """Rows that every part has; of sources that have the same row, one gives it."""
    rows = joined or f"SELECT * FROM source.{table}"
    return Rule(
        divide=f"INSERT INTO part.{table} SELECT * FROM whole.{table} {order}",
        join=f"INSERT INTO joined.{table} SELECT * FROM ({rows} EXCEPT SELECT * FROM joined.{table}) {order}",
    )


def _of_the_model(table: str) -> Rule:
    """What the newest model says of itself in the database."""
    return Rule(
        divide=f"INSERT INTO part.{table} SELECT * FROM whole.{table}",
        join=f"INSERT INTO joined.{table} SELECT t.* FROM source.{table} t, here h WHERE h.gives_model",
    )


_KCID = "JOIN kcids k ON k.old = t.kcid"


def _staged(table: str, divide: str, finish: str, *, replaced: str = "", joins: str = "") -> Rule:
    replace = f"REPLACE ({replaced})" if replaced else ""
    join = f"""
        INSERT INTO staged_{table} BY NAME
        SELECT t.* {replace}, h.source * 1_000_000_000 + t.rowid AS place FROM source.{table} t {joins}, here h
    """
    return Rule(divide, join, finish, staged=True)


RULES: Mapping[str, Rule] = {
    "meta": Rule(  # the ends of WARC files are noted when the files are there
        """
        INSERT INTO part.meta SELECT * FROM whole.meta
        WHERE name NOT IN (SELECT name FROM part.meta) AND NOT starts_with(name, 'warc_end:')
        """,
        """
        INSERT INTO joined.meta SELECT * FROM source.meta
        WHERE name NOT IN (SELECT name FROM joined.meta) AND NOT starts_with(name, 'warc_end:')
        """,
    ),
    "topics": Rule(  # joined by their paths before all else (`joining`)
        "INSERT INTO part.topics SELECT t.* REPLACE (m.type AS type) FROM whole.topics t JOIN part_marks m USING (kcid)"
        " ORDER BY t.rowid"
    ),
    "hosts": _staged(
        "hosts", sql.DIVIDE_HOSTS, sql.FINISH_HOSTS, replaced="n.new AS sid",
        joins="JOIN source_hosts n ON n.old = t.sid",
    ),
    "crawl": Rule(
        sql.DIVIDE_CRAWL,
        sql.JOIN_CRAWL,
        "INSERT INTO joined.crawl BY NAME SELECT * EXCLUDE (place, kcid) FROM staged_crawl ORDER BY oid",
        staged=True,
    ),
    "crawl_changes": Rule(),  # empty: the store has carried them into crawl
    "robots": _staged(
        "robots",
        "INSERT INTO part.robots SELECT r.* REPLACE (n.rowid AS sid) FROM whole.robots r JOIN part_hosts n USING (sid)"
        " ORDER BY r.rowid",
        "INSERT INTO joined.robots SELECT * EXCLUDE (place) FROM ("
        "SELECT sid, visited, text, min(place) AS place FROM staged_robots GROUP BY ALL"
        ") ORDER BY visited NULLS FIRST, place",
        replaced="n.new AS sid", joins="JOIN source_hosts n ON n.old = t.sid",
    ),
    "pages": _of_its_url(
        "pages", gives="gives_page",
        renumbered=", k.new AS kcid, v.new AS model_version, coalesce(w.new, t.warc_file) AS warc_file",
        joins="LEFT JOIN kcids k ON k.old = t.kcid LEFT JOIN versions v ON v.old = t.model_version"
        " LEFT JOIN warcs w ON w.old = t.warc_file",
    ),
    "links": Rule(
        """
        INSERT INTO part.links BY NAME
        SELECT l.* REPLACE (s.rowid AS oid_src, d.rowid AS oid_dst, s.sid AS sid_src, d.sid AS sid_dst)
        FROM whole.links l JOIN numbers s ON s.oid = l.oid_src JOIN numbers d ON d.oid = l.oid_dst
        WHERE s.own OR d.own
        """,
        sql.JOIN_LINKS,
    ),
    "terms": _of_its_url("terms", gives="gives_page"),
    "lexicon": _in_every_part("lexicon"),  # the words of models, too
    "visits": Rule(sql.DIVIDE_VISITS, sql.JOIN_VISITS),
    "redirects": _all_of_its_url(
        "redirects", oid="oid_src", renumbered=", d.new AS oid_dst", joins="JOIN numbers d ON d.old = t.oid_dst",
        divide="""
            INSERT INTO part.redirects SELECT t.* REPLACE (s.rowid AS oid_src, d.rowid AS oid_dst)
            FROM whole.redirects t JOIN numbers s ON s.oid = t.oid_src JOIN numbers d ON d.oid = t.oid_dst WHERE s.own
        """,
    ),
    "duplicates": Rule(
        """
        INSERT INTO part.duplicates SELECT t.* REPLACE (n.rowid AS oid, o.rowid AS of_oid)
        FROM whole.duplicates t JOIN numbers n ON n.oid = t.oid JOIN numbers o ON o.oid = t.of_oid WHERE n.own
        """,
        """
        INSERT INTO joined.duplicates SELECT t.* REPLACE (n.new AS oid, o.new AS of_oid)
        FROM source.duplicates t JOIN numbers n ON n.old = t.oid JOIN numbers o ON o.old = t.of_oid WHERE n.gives
        """,
    ),
    "seeds": Rule(
        """
        INSERT INTO part.seeds
        SELECT s.* FROM whole.seeds s LEFT JOIN topic_parts p ON p.kcid = s.kcid, here
        WHERE coalesce(p.part, here.rest) = here.part ORDER BY s.rowid
        """,
        f"""
        INSERT INTO joined.seeds SELECT t.* REPLACE (k.new AS kcid) FROM source.seeds t {_KCID}
        ANTI JOIN joined.seeds j ON j.url = t.url AND j.kcid = k.new ORDER BY t.rowid
        """,
    ),
    "training": Rule(sql.DIVIDE_TRAINING, sql.JOIN_TRAINING, sql.FINISH_TRAINING, staged=True),
    "lessons": _in_every_part("lessons", joined=sql.JOIN_LESSONS, order="ORDER BY taught"),
    "reviews": _all_of_its_url("reviews", renumbered=", k.new AS kcid", joins=_KCID),
    "models": Rule("INSERT INTO part.models SELECT * FROM whole.models ORDER BY rowid", sql.JOIN_MODELS),
    "judgements": _all_of_its_url(
        "judgements", renumbered=", k.new AS kcid, v.new AS model_version",
        joins=f"{_KCID} JOIN versions v ON v.old = t.model_version",
    ),
    "taxonomy_stat": _of_the_model("taxonomy_stat"),
    "stat": _of_the_model("stat"),
    "blob": _of_the_model("blob"),
    "hubs": _of_its_url("hubs"),
    "auth": _of_its_url("auth"),
    "link_scores": _of_its_url("link_scores", renumbered=", k.new AS kcid", joins=_KCID),
    "notices": _in_every_part(
        "notices", order="ORDER BY noticed",
        joined="SELECT t.* REPLACE (k.new AS kcid) FROM source.notices t LEFT JOIN kcids k ON k.old = t.kcid",
    ),
    "offers": Rule(
        sql.DIVIDE_OFFERS,
        "INSERT INTO joined.offers SELECT * FROM (SELECT * FROM source.offers EXCEPT SELECT * FROM joined.offers)"
        " ORDER BY offered",
    ),
    "counters": _staged(
        "counters",
        "INSERT INTO part.counters SELECT s.name, s.n FROM counter_shares s JOIN here USING (part) ORDER BY s.name",
        """
        INSERT INTO joined.counters
        SELECT name, CASE WHEN name IN (SELECT name FROM states) THEN max(n) ELSE sum(n) END
        FROM staged_counters GROUP BY name ORDER BY name;
        UPDATE joined.counters SET n = greatest(counters.n - e.n, 0) FROM excess e WHERE e.name = counters.name
        """,
    ),
    "runs": _staged("runs", "INSERT INTO part.runs SELECT * FROM whole.runs ORDER BY rowid", sql.FINISH_RUNS),
}  # fmt: skip
"""By table of the schema; a table without a rule fails a test."""
