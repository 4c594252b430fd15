"""The longer statements of `part_rules`: how the rows of some tables are divided and joined."""

from __future__ import annotations

from opilio.model import Outcome

ELSEWHERE = Outcome.ELSEWHERE.value

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
# The counts of a host are shared out, and added up again. All else is as the crawl knew it that asked the host last.
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
        ORDER BY sid, greatest(met, next_visit) DESC NULLS LAST, met DESC NULLS LAST, place
    )
    SELECT l.* EXCLUDE (place) REPLACE (
        a.pages AS pages, a.bytes AS bytes, a.requests AS requests, a.next_visit AS next_visit)
    FROM latest l JOIN added a USING (sid) ORDER BY l.sid;
    UPDATE joined.hosts SET pages = greatest(hosts.pages - e.pages, 0), bytes = greatest(hosts.bytes - e.bytes, 0),
        requests = greatest(hosts.requests - e.requests, 0)
    FROM host_excess e WHERE e.sid = hosts.sid
"""
# Links whose page nobody here has come from every source that knows of it.
MAPPED_LINKS = """
    SELECT l.* REPLACE (s.new AS oid_src, d.new AS oid_dst, s.sid AS sid_src, d.sid AS sid_dst)
    FROM source.links l JOIN numbers s ON s.old = l.oid_src JOIN numbers d ON d.old = l.oid_dst
"""
JOIN_LINKS = f"""
    INSERT INTO joined.links BY NAME {MAPPED_LINKS} WHERE s.gives_page;
    INSERT INTO joined.links ({MAPPED_LINKS} WHERE s.absent)
    EXCEPT (SELECT l.* FROM joined.links l SEMI JOIN numbers n ON n.new = l.oid_src AND n.absent)
"""
# The visit of a host has the oid -1 - sid. That of a sitemap has one that stands for nothing.
DIVIDE_VISITS = """
    INSERT INTO part.visits BY NAME
    SELECT v.* REPLACE (n.rowid AS oid) FROM whole.visits v JOIN numbers n ON n.oid = v.oid WHERE n.own
    UNION ALL
    SELECT v.* REPLACE (-1 - h.rowid AS oid) FROM whole.visits v JOIN part_hosts h ON h.sid = -1 - v.oid
    WHERE v.kind = 'host' AND h.home
    UNION ALL
    SELECT v.* FROM whole.visits v, here WHERE v.oid < 0 AND v.kind <> 'host' AND here.is_home
"""
JOIN_VISITS = """
    INSERT INTO joined.visits BY NAME
    SELECT v.* REPLACE (n.new AS oid, coalesce(w.new, v.warc_file) AS warc_file)
    FROM source.visits v JOIN numbers n ON n.old = v.oid LEFT JOIN warcs w ON w.old = v.warc_file WHERE NOT n.shared;
    INSERT INTO joined.visits (
        SELECT v.* REPLACE (n.new AS oid, coalesce(w.new, v.warc_file) AS warc_file)
        FROM source.visits v JOIN numbers n ON n.old = v.oid LEFT JOIN warcs w ON w.old = v.warc_file WHERE n.shared
        UNION ALL
        SELECT v.* REPLACE (
            CASE WHEN v.kind = 'host' THEN -1 - h.new ELSE v.oid END AS oid, coalesce(w.new, v.warc_file) AS warc_file)
        FROM source.visits v LEFT JOIN source_hosts h ON h.old = -1 - v.oid
        LEFT JOIN warcs w ON w.old = v.warc_file WHERE v.oid < 0
    ) EXCEPT (
        SELECT v.* FROM joined.visits v SEMI JOIN numbers n ON n.new = v.oid AND n.shared
        UNION ALL
        SELECT * FROM joined.visits WHERE oid < 0
    )
"""
# An example whose page another part has is learned from by its text. One that is not known yet is fetched by one part.
DIVIDE_TRAINING = """
    INSERT INTO part.training
    SELECT t.* FROM whole.training t LEFT JOIN topic_parts p ON p.kcid = t.kcid, here
    WHERE t.kind <> 'url' OR t.text IS NOT NULL OR coalesce(p.part, here.rest) = here.part
        OR t.name IN (SELECT url FROM told_urls)
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
# What the user has dropped stays dropped, though others still have it: none that knows of the latest lesson has it.
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
# A model that is an older one again names it (`learn.noting`).
JOIN_MODELS = """
    INSERT INTO joined.models
    SELECT m.* REPLACE (
        v.new AS version, coalesce('model ' || (a.new::VARCHAR) || ' again', m.reason) AS reason)
    FROM source.models m JOIN versions v ON v.old = m.version
    LEFT JOIN versions a ON m.reason = 'model ' || (a.old::VARCHAR) || ' again', here h
    WHERE h.keeps_models AND v.new NOT IN (SELECT version FROM joined.models) ORDER BY m.rowid
"""
FINISH_RUNS = """
    INSERT INTO joined.runs
    SELECT r.* REPLACE ((row_number() OVER (ORDER BY started, run, ended))::INTEGER AS run)
    FROM (SELECT DISTINCT * EXCLUDE (place) FROM staged_runs) r ORDER BY 1
"""
DIVIDE_OFFERS = """
    INSERT INTO part.offers
    SELECT o.* FROM whole.offers o
    LEFT JOIN told_urls u ON u.url = o.url LEFT JOIN owners w ON w.oid = u.oid
    LEFT JOIN whole.topics t ON t.path = o.topic LEFT JOIN topic_parts p ON p.kcid = t.kcid, here
    WHERE coalesce(w.part, p.part, here.rest) = here.part ORDER BY o.rowid
"""
