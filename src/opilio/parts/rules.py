"""What happens to each table when a collection is divided into parts, and when collections are joined: `RULES`.

`divide` and `join` are the statements that fill a table of the new collection, once for each part and once for each
source; `finish` follows when all sources were read. A table that needs several sources at once is *staged*: `join`
fills a table of the same columns, `staged_<name>`. The tables that these statements read are made by `divide.py`
(`whole`, `part`, `numbers`, ...) and `join.py` (`source`, `joined`, `numbers`, ...).

Facts go to exactly one part: a URL, with all that is known about it, to the part of its topic. Links go to the parts of
both ends. What a crawl works from (topics, examples, models) and what its user should remember (runs, notices, lessons)
is in every part. When parts are joined, what is the same becomes one row again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from opilio.model import CrawlProgress, LeaseKind, Outcome
from opilio.model.visit import SUBRESOURCE_OID

ELSEWHERE = Outcome.ELSEWHERE.value
PROGRESS_COUNTS = tuple(name for name in (part.name for part in fields(CrawlProgress)) if name != "phase")
OF_PROGRESS = "progress."
"""Stands before the name of a column of `progress` among the totals of a collection."""
RELEVANT_AT_ROUND, PAGES_AT_ANALYSIS = f"{OF_PROGRESS}relevant_at_round", f"{OF_PROGRESS}pages_at_analysis"
TOTALS = " UNION ALL ".join(
    [
        "SELECT name, n FROM whole.counters",
        *(f"SELECT '{OF_PROGRESS}{column}', {column} FROM whole.progress" for column in PROGRESS_COUNTS),
    ]
)
"""All that is counted in a collection that is divided: name and number."""

DIVIDE_CRAWL = f"""
    INSERT INTO part.crawl BY NAME
    SELECT c.* EXCLUDE (kcid) REPLACE (
        n.rowid AS oid, n.sid AS sid, p.rowid AS parent,
        CASE WHEN n.own THEN c.state ELSE 'dropped' END AS state,
        CASE WHEN n.own THEN c.outcome ELSE '{ELSEWHERE}' END AS outcome,
        CASE WHEN n.own THEN c.numtries ELSE 0 END AS numtries,
        CASE WHEN n.own THEN c.not_before END AS not_before,
        CASE WHEN n.own THEN c.lastvisited END AS lastvisited)
    FROM whole.crawl c JOIN numbers n ON n.oid = c.oid LEFT JOIN numbers p ON p.oid = c.parent
    ORDER BY n.rowid
"""
JOIN_CRAWL = """
    INSERT INTO staged_crawl BY NAME
    SELECT c.* EXCLUDE (kcid) REPLACE (n.new AS oid, n.sid AS sid, p.new AS parent, k.new AS topic)
    FROM source.crawl c JOIN numbers n ON n.old = c.oid JOIN kcids k ON k.old = c.topic
    LEFT JOIN numbers p ON p.old = c.parent
    WHERE n.gives
"""
# The counts of a host are shared out, and added up again. All else comes from the crawl that visited the host last.
DIVIDE_HOSTS = """
    INSERT INTO part.hosts BY NAME
    SELECT h.* REPLACE (
        n.rowid AS sid, coalesce(s.pages, 0) AS pages, coalesce(s.bytes, 0) AS bytes,
        coalesce(s.requests, 0) AS requests)
    FROM part_hosts n JOIN whole.hosts h ON h.sid = n.sid
    LEFT JOIN host_shares s ON s.sid = n.sid AND s.part = (SELECT part FROM here)
    ORDER BY n.rowid
"""
FINISH_HOSTS = """
    INSERT INTO joined.hosts
    WITH added AS (
        SELECT sid, sum(pages) AS pages, sum(bytes) AS bytes, sum(requests) AS requests, max(next_visit) AS next_visit
        FROM staged_hosts GROUP BY sid
    ),
    latest AS (
        SELECT DISTINCT ON (sid) * FROM staged_hosts
        ORDER BY sid, next_visit DESC NULLS LAST, place
    )
    SELECT l.* EXCLUDE (place) REPLACE (
        a.pages AS pages, a.bytes AS bytes, a.requests AS requests, a.next_visit AS next_visit)
    FROM latest l JOIN added a USING (sid) ORDER BY l.sid;
    UPDATE joined.hosts SET pages = greatest(hosts.pages - e.pages, 0), bytes = greatest(hosts.bytes - e.bytes, 0),
        requests = greatest(hosts.requests - e.requests, 0)
    FROM host_excess e WHERE e.sid = hosts.sid
"""
# An origin comes from the crawl that read its robots.txt last.
FINISH_ORIGINS = """
    INSERT INTO joined.origins
    SELECT DISTINCT ON (sid, scheme) * EXCLUDE (place) FROM staged_origins
    ORDER BY sid, scheme, met DESC NULLS LAST, failures DESC, place
"""
# Links of pages that no source has stored come from every source that knows them.
MAPPED_LINKS = """
    SELECT l.* REPLACE (s.new AS oid_src, d.new AS oid_dst, s.sid AS sid_src, d.sid AS sid_dst)
    FROM source.links l JOIN numbers s ON s.old = l.oid_src JOIN numbers d ON d.old = l.oid_dst
"""
JOIN_LINKS = f"""
    INSERT INTO joined.links BY NAME {MAPPED_LINKS} WHERE s.gives_page;
    INSERT INTO joined.links ({MAPPED_LINKS} WHERE s.absent)
    EXCEPT (SELECT l.* FROM joined.links l SEMI JOIN numbers n ON n.new = l.oid_src AND n.absent)
"""
SUBRESOURCE = LeaseKind.SUBRESOURCE.value
# The visit of a host has the oid -1 - sid, and what a rendered page requested one that follows from that of the page.
# The oid of a sitemap's visit stands for no URL.
DIVIDE_VISITS = f"""
    INSERT INTO part.visits BY NAME
    SELECT v.* REPLACE (n.rowid AS oid) FROM whole.visits v JOIN numbers n ON n.oid = v.oid WHERE n.own
    UNION ALL
    SELECT v.* REPLACE (-1 - h.rowid AS oid) FROM whole.visits v JOIN part_hosts h ON h.sid = -1 - v.oid
    WHERE v.kind = 'host' AND h.home
    UNION ALL
    SELECT v.* REPLACE ({SUBRESOURCE_OID} - n.rowid AS oid)
    FROM whole.visits v JOIN numbers n ON n.oid = {SUBRESOURCE_OID} - v.oid WHERE n.own AND v.kind = '{SUBRESOURCE}'
    UNION ALL
    SELECT v.* FROM whole.visits v, here WHERE v.oid < 0 AND v.kind NOT IN ('host', '{SUBRESOURCE}') AND here.is_home
"""
JOIN_VISITS = f"""
    INSERT INTO joined.visits BY NAME
    SELECT v.* REPLACE (n.new AS oid, coalesce(w.new, v.warc_file) AS warc_file)
    FROM source.visits v JOIN numbers n ON n.old = v.oid LEFT JOIN warcs w ON w.old = v.warc_file WHERE NOT n.shared;
    INSERT INTO joined.visits (
        SELECT v.* REPLACE (n.new AS oid, coalesce(w.new, v.warc_file) AS warc_file)
        FROM source.visits v JOIN numbers n ON n.old = v.oid LEFT JOIN warcs w ON w.old = v.warc_file WHERE n.shared
        UNION ALL
        SELECT v.* REPLACE (
            CASE v.kind WHEN 'host' THEN -1 - h.new
            WHEN '{SUBRESOURCE}' THEN coalesce({SUBRESOURCE_OID} - n.new, v.oid) ELSE v.oid END
            AS oid, coalesce(w.new, v.warc_file) AS warc_file)
        FROM source.visits v LEFT JOIN source_hosts h ON h.old = -1 - v.oid
        LEFT JOIN numbers n ON n.old = {SUBRESOURCE_OID} - v.oid
        LEFT JOIN warcs w ON w.old = v.warc_file WHERE v.oid < 0
    ) EXCEPT (
        SELECT v.* FROM joined.visits v SEMI JOIN numbers n ON n.new = v.oid AND n.shared
        UNION ALL
        SELECT * FROM joined.visits WHERE oid < 0
    )
"""
# A part learns from an example whose page another part has by a copy of its text. An example that is not known yet is
# fetched by one part.
DIVIDE_TRAINING = """
    INSERT INTO part.training
    SELECT t.* FROM whole.training t LEFT JOIN topic_parts p ON p.kcid = t.kcid, here
    WHERE t.kind <> 'url' OR t.text IS NOT NULL OR coalesce(p.part, here.rest) = here.part
        OR t.name IN (SELECT url FROM named_urls)
    ORDER BY t.rowid
"""
JOIN_TRAINING = """
    INSERT INTO staged_training BY NAME
    SELECT t.* REPLACE (k.new AS kcid), h.source * 1_000_000_000 + t.rowid AS place
    FROM source.training t JOIN kcids k ON k.old = t.kcid, here h;
    INSERT INTO last_lessons
    SELECT k.new, l.name, max(l.taught), count(t.name) > 0
    FROM source.lessons l JOIN kcids k ON k.old = l.kcid
    LEFT JOIN source.training t ON t.kcid = l.kcid AND t.name = l.name WHERE l.name <> '' GROUP BY k.new, l.name
"""
# A document that the user dropped stays dropped, although other sources still have it, if no source that knows of the
# latest change has it.
FINISH_TRAINING = """
    INSERT INTO joined.training
    SELECT * EXCLUDE (place, first_place) FROM (
        SELECT *, min(place) OVER (PARTITION BY kcid, kind, name) AS first_place FROM staged_training
        QUALIFY row_number() OVER (
            PARTITION BY kcid, kind, name ORDER BY added DESC NULLS LAST, text IS NOT NULL, place) = 1
    ) ORDER BY first_place;
    DELETE FROM joined.training USING (
        SELECT kcid, name, taught, bool_or(has_it) AS has_it FROM last_lessons GROUP BY kcid, name, taught
        QUALIFY row_number() OVER (PARTITION BY kcid, name ORDER BY taught DESC) = 1
    ) l
    WHERE l.kcid = training.kcid AND l.name = training.name AND NOT l.has_it
        AND (training.added IS NULL OR training.added <= l.taught)
"""
JOIN_LESSONS = """
    SELECT t.taught, k.new AS kcid, t.name,
           CASE WHEN k.new = k.old OR t.name = '' OR t.before IS NULL THEN t.before
                ELSE json_merge_patch(t.before, json_object('kcid', k.new))::VARCHAR END AS before
    FROM source.lessons t JOIN kcids k ON k.old = t.kcid
"""
JOIN_DECISIONS = """
    SELECT t.* REPLACE (k.new AS kcid) FROM source.review_decisions t JOIN kcids k ON k.old = t.kcid
"""
JOIN_MODELS = """
    INSERT INTO joined.models
    SELECT m.* REPLACE (v.new AS version, coalesce(a.new, m.repeats) AS repeats)
    FROM source.models m JOIN versions v ON v.old = m.version LEFT JOIN versions a ON a.old = m.repeats, here h
    WHERE h.keeps_models AND v.new NOT IN (SELECT version FROM joined.models) ORDER BY m.rowid
"""
# Every part is in the phase of the whole; a joined collection in the latest of any source. The searches that were made
# count for the home part; a joined collection has made as many as the source with the most.
DIVIDE_PROGRESS = f"""
    INSERT INTO part.progress
    SELECT p.phase, {", ".join(f"coalesce(max(s.n) FILTER (s.name = '{OF_PROGRESS}{c}'), 0)" for c in PROGRESS_COUNTS)}
    FROM whole.progress p LEFT JOIN (SELECT s.name, s.n FROM total_shares s JOIN here USING (part)) s ON true
    GROUP BY p.phase
"""
FINISH_PROGRESS = f"""
    INSERT INTO joined.progress
    SELECT arg_max(phase, enum_code(phase)), max(archetype_rounds),
           greatest(sum(relevant_at_round) - coalesce(max(r.n), 0), 0), max(negative_rounds),
           greatest(sum(pages_at_analysis) - coalesce(max(a.n), 0), 0), max(question_rounds)
    FROM staged_progress LEFT JOIN excess r ON r.name = '{RELEVANT_AT_ROUND}'
    LEFT JOIN excess a ON a.name = '{PAGES_AT_ANALYSIS}'
    HAVING count(*) > 0
"""
FINISH_RUNS = """
    INSERT INTO joined.runs
    SELECT r.* REPLACE ((row_number() OVER (ORDER BY started, run, ended))::INTEGER AS run)
    FROM (SELECT DISTINCT * EXCLUDE (place) FROM staged_runs) r ORDER BY 1
"""
# A picture goes to the parts whose pages name it, and the icon of a host to those that have the host. What no page
# names any more stays with the home part.
DIVIDE_PICTURES = """
    INSERT INTO part.pictures
    WITH named AS (
        SELECT unnest([picture, icon]) AS url, oid IN (SELECT oid FROM numbers WHERE own) AS own
        FROM whole.page_pictures
        UNION ALL
        SELECT unnest(['http://', 'https://']) || h.host || '/favicon.ico', h.sid IN (SELECT sid FROM part_hosts)
        FROM whole.hosts h
    )
    SELECT f.* FROM whole.pictures f, here
    WHERE f.url IN (SELECT url FROM named WHERE own)
       OR (here.is_home AND f.url NOT IN (SELECT url FROM named))
    ORDER BY f.rowid
"""
DIVIDE_OFFERS = """
    INSERT INTO part.offers
    SELECT o.* FROM whole.offers o
    LEFT JOIN named_urls u ON u.url = o.url LEFT JOIN owners w ON w.oid = u.oid
    LEFT JOIN whole.topics t ON t.path = o.topic LEFT JOIN topic_parts p ON p.kcid = t.kcid, here
    WHERE coalesce(w.part, p.part, here.rest) = here.part ORDER BY o.rowid
"""


@dataclass(frozen=True)
class TableRule:
    """What happens to one table. Without statements it is filled elsewhere, or stays empty."""

    divide: str = ""
    join: str = ""
    finish: str = ""
    staged: bool = False


def _of_its_url(table: str, *, renumbered: str = "", joins: str = "", gives: str = "gives") -> TableRule:
    """Rows that go where their URL goes, and come from the source whose state of the URL counts."""
    return TableRule(
        divide=f"""
            INSERT INTO part.{table} BY NAME SELECT t.* REPLACE (n.rowid AS oid)
            FROM whole.{table} t JOIN numbers n ON n.oid = t.oid WHERE n.own
        """,
        join=f"""
            INSERT INTO joined.{table} BY NAME SELECT t.* REPLACE (n.new AS oid{renumbered})
            FROM source.{table} t JOIN numbers n ON n.old = t.oid {joins} WHERE n.{gives}
        """,
    )


def _all_of_its_url(
    table: str, *, renumbered: str = "", joins: str = "", oid: str = "oid", divide: str = ""
) -> TableRule:
    """Rows that go where their URL goes, and come from all sources; from two copies of a crawl only once."""
    own = divide or _of_its_url(table).divide
    mapped = f"""
        SELECT t.* REPLACE (n.new AS {oid}{renumbered})
        FROM source.{table} t JOIN numbers n ON n.old = t.{oid} {joins}
    """
    there = f"SELECT t.* FROM joined.{table} t SEMI JOIN numbers n ON n.new = t.{oid} AND n.shared"
    return TableRule(
        divide=own,
        join=f"""
            INSERT INTO joined.{table} BY NAME {mapped} WHERE NOT n.shared;
            INSERT INTO joined.{table} ({mapped} WHERE n.shared) EXCEPT ({there})
        """,
    )


def _in_every_part(table: str, *, joined: str = "", order: str = "") -> TableRule:
    """Rows that every part has; of sources that have the same row, one gives it."""
    rows = joined or f"SELECT * FROM source.{table}"
    return TableRule(
        divide=f"INSERT INTO part.{table} SELECT * FROM whole.{table} {order}",
        join=f"INSERT INTO joined.{table} SELECT * FROM ({rows} EXCEPT SELECT * FROM joined.{table}) {order}",
    )


def _of_the_model(table: str) -> TableRule:
    """The tables of the newest model."""
    return TableRule(
        divide=f"INSERT INTO part.{table} SELECT * FROM whole.{table}",
        join=f"INSERT INTO joined.{table} SELECT t.* FROM source.{table} t, here h WHERE h.gives_model",
    )


_KCID = "JOIN kcids k ON k.old = t.kcid"


def _staged(table: str, divide: str, finish: str, *, replaced: str = "", joins: str = "") -> TableRule:
    replace = f"REPLACE ({replaced})" if replaced else ""
    join = f"""
        INSERT INTO staged_{table} BY NAME
        SELECT t.* {replace}, h.source * 1_000_000_000 + t.rowid AS place FROM source.{table} t {joins}, here h
    """
    return TableRule(divide, join, finish, staged=True)


RULES: Mapping[str, TableRule] = {
    "meta": TableRule(  # the ends of WARC files are written when the files are there
        """
        INSERT INTO part.meta SELECT * FROM whole.meta
        WHERE name NOT IN (SELECT name FROM part.meta) AND NOT starts_with(name, 'warc_end:')
        """,
        """
        INSERT INTO joined.meta SELECT * FROM source.meta
        WHERE name NOT IN (SELECT name FROM joined.meta) AND NOT starts_with(name, 'warc_end:')
        """,
    ),
    "topics": TableRule(  # joined by their paths before all other tables (`join.py`)
        "INSERT INTO part.topics SELECT t.* REPLACE (m.type AS type) FROM whole.topics t JOIN part_marks m USING (kcid)"
        " ORDER BY t.rowid"
    ),
    "hosts": _staged(
        "hosts", DIVIDE_HOSTS, FINISH_HOSTS, replaced="n.new AS sid",
        joins="JOIN source_hosts n ON n.old = t.sid",
    ),
    "origins": _staged(
        "origins",
        "INSERT INTO part.origins SELECT o.* REPLACE (n.rowid AS sid) FROM whole.origins o"
        " JOIN part_hosts n USING (sid) ORDER BY n.rowid, o.scheme",
        FINISH_ORIGINS, replaced="n.new AS sid", joins="JOIN source_hosts n ON n.old = t.sid",
    ),
    "crawl": TableRule(
        DIVIDE_CRAWL,
        JOIN_CRAWL,
        "INSERT INTO joined.crawl BY NAME SELECT * EXCLUDE (place, kcid) FROM staged_crawl ORDER BY oid",
        staged=True,
    ),
    "crawl_changes": TableRule(),  # empty: the store has folded them into crawl
    "robots": _staged(
        "robots",
        "INSERT INTO part.robots SELECT r.* REPLACE (n.rowid AS sid) FROM whole.robots r JOIN part_hosts n USING (sid)"
        " ORDER BY r.rowid",
        "INSERT INTO joined.robots SELECT * EXCLUDE (place) FROM ("
        "SELECT sid, scheme, visited, text, min(place) AS place FROM staged_robots GROUP BY ALL"
        ") ORDER BY visited NULLS FIRST, place",
        replaced="n.new AS sid", joins="JOIN source_hosts n ON n.old = t.sid",
    ),
    "pages": _of_its_url(
        "pages", gives="gives_page",
        renumbered=", k.new AS kcid, v.new AS model_version, coalesce(w.new, t.warc_file) AS warc_file",
        joins="LEFT JOIN kcids k ON k.old = t.kcid LEFT JOIN versions v ON v.old = t.model_version"
        " LEFT JOIN warcs w ON w.old = t.warc_file",
    ),
    "page_pictures": TableRule(
        """
        INSERT INTO part.page_pictures SELECT t.* REPLACE (n.rowid AS oid, n.sid AS sid)
        FROM whole.page_pictures t JOIN numbers n ON n.oid = t.oid WHERE n.own
        """,
        """
        INSERT INTO joined.page_pictures SELECT t.* REPLACE (n.new AS oid, n.sid AS sid)
        FROM source.page_pictures t JOIN numbers n ON n.old = t.oid WHERE n.gives_page
        """,
    ),
    "pictures": TableRule(
        DIVIDE_PICTURES,
        "INSERT INTO joined.pictures SELECT t.* FROM source.pictures t ANTI JOIN joined.pictures j ON j.url = t.url"
        " ORDER BY t.rowid",
    ),
    "links": TableRule(
        """
        INSERT INTO part.links BY NAME
        SELECT l.* REPLACE (s.rowid AS oid_src, d.rowid AS oid_dst, s.sid AS sid_src, d.sid AS sid_dst)
        FROM whole.links l JOIN numbers s ON s.oid = l.oid_src JOIN numbers d ON d.oid = l.oid_dst
        WHERE s.own OR d.own
        """,
        JOIN_LINKS,
    ),
    "past_links": _all_of_its_url(
        "past_links", oid="oid_src", joins="JOIN numbers d ON d.old = t.oid_dst",
        renumbered=", d.new AS oid_dst, n.sid AS sid_src, d.sid AS sid_dst",
        divide="""
            INSERT INTO part.past_links
            SELECT t.* REPLACE (s.rowid AS oid_src, d.rowid AS oid_dst, s.sid AS sid_src, d.sid AS sid_dst)
            FROM whole.past_links t JOIN numbers s ON s.oid = t.oid_src JOIN numbers d ON d.oid = t.oid_dst WHERE s.own
        """,
    ),
    "revisits": _of_its_url("revisits", gives="gives_page"),
    "sifted": _of_its_url("sifted", gives="gives_page"),
    "archives": _in_every_part("archives", order="ORDER BY archive, lane"),
    "terms": _of_its_url("terms", gives="gives_page"),
    "lexicon": _in_every_part("lexicon"),  # it has the words of models, too
    "visits": TableRule(DIVIDE_VISITS, JOIN_VISITS),
    "redirects": _all_of_its_url(
        "redirects", oid="oid_src", renumbered=", d.new AS oid_dst", joins="JOIN numbers d ON d.old = t.oid_dst",
        divide="""
            INSERT INTO part.redirects SELECT t.* REPLACE (s.rowid AS oid_src, d.rowid AS oid_dst)
            FROM whole.redirects t JOIN numbers s ON s.oid = t.oid_src JOIN numbers d ON d.oid = t.oid_dst WHERE s.own
        """,
    ),
    "duplicates": TableRule(
        """
        INSERT INTO part.duplicates SELECT t.* REPLACE (n.rowid AS oid, o.rowid AS of_oid)
        FROM whole.duplicates t JOIN numbers n ON n.oid = t.oid JOIN numbers o ON o.oid = t.of_oid WHERE n.own
        """,
        """
        INSERT INTO joined.duplicates SELECT t.* REPLACE (n.new AS oid, o.new AS of_oid)
        FROM source.duplicates t JOIN numbers n ON n.old = t.oid JOIN numbers o ON o.old = t.of_oid WHERE n.gives
        """,
    ),
    "seeds": TableRule(
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
    "training": TableRule(DIVIDE_TRAINING, JOIN_TRAINING, FINISH_TRAINING, staged=True),
    "lessons": _in_every_part("lessons", joined=JOIN_LESSONS, order="ORDER BY taught"),
    "questions": _all_of_its_url("questions", renumbered=", k.new AS kcid", joins=_KCID),
    "labels": _all_of_its_url("labels", renumbered=", k.new AS kcid", joins=_KCID),
    "reviews": _all_of_its_url("reviews", renumbered=", k.new AS kcid", joins=_KCID),
    "review_decisions": _in_every_part("review_decisions", joined=JOIN_DECISIONS, order="ORDER BY decided"),
    "models": TableRule("INSERT INTO part.models SELECT * FROM whole.models ORDER BY rowid", JOIN_MODELS),
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
    "offers": TableRule(
        DIVIDE_OFFERS,
        "INSERT INTO joined.offers SELECT * FROM (SELECT * FROM source.offers EXCEPT SELECT * FROM joined.offers)"
        " ORDER BY offered",
    ),
    "counters": _staged(
        "counters",
        f"""
        INSERT INTO part.counters SELECT s.name, s.n FROM total_shares s JOIN here USING (part)
        WHERE NOT starts_with(s.name, '{OF_PROGRESS}') ORDER BY s.name
        """,
        """
        INSERT INTO joined.counters SELECT name, sum(n) FROM staged_counters GROUP BY name ORDER BY name;
        UPDATE joined.counters SET n = greatest(counters.n - e.n, 0) FROM excess e WHERE e.name = counters.name
        """,
    ),
    "progress": _staged("progress", DIVIDE_PROGRESS, FINISH_PROGRESS),
    "runs": _staged("runs", "INSERT INTO part.runs SELECT * FROM whole.runs ORDER BY rowid", FINISH_RUNS),
}  # fmt: skip
"""By table of the schema. A test fails when a table has no rule."""
