-- http and https on a host are two origins, each with its own robots.txt, state and failures. Formerly they shared one
-- row of hosts, and what was known of it came from https when there was a URL of it.
CREATE TABLE origins (
    sid           INTEGER NOT NULL,
    scheme        VARCHAR NOT NULL,
    state         VARCHAR NOT NULL,
    failures      INTEGER NOT NULL,
    problem       VARCHAR,
    robots_status SMALLINT,
    crawl_delay_s FLOAT NOT NULL,
    met           TIMESTAMP
);
-- How the latest request for the robots.txt of a host ended, and how the latest failed request for a page of it did.
CREATE TEMP TABLE last_contact AS
SELECT -1 - oid AS sid, arg_max(outcome, visited) AS outcome FROM visits WHERE kind = 'host' GROUP BY 1;
CREATE TEMP TABLE last_failure AS
SELECT c.sid, arg_max(v.outcome, v.visited) AS outcome FROM visits v JOIN crawl c USING (oid)
WHERE v.kind = 'page' AND v.outcome IN ('dns-failed', 'connect-failed', 'timed-out') GROUP BY 1;
CREATE TEMP TABLE asked AS
SELECT sid, coalesce(max(split_part(url, ':', 1)), 'http') AS scheme FROM hosts LEFT JOIN crawl USING (sid) GROUP BY sid;
-- A host whose robots.txt could not be read was closed for ever. Now it is given up, and the next run tries it again.
CREATE TEMP TABLE closed AS
SELECT h.sid, coalesce(l.outcome, 'http-5xx') AS problem FROM hosts h LEFT JOIN last_contact l USING (sid)
WHERE h.state <> 'bad' AND (h.robots_status = 0 OR h.robots_status >= 500);
INSERT INTO origins
SELECT h.sid, a.scheme,
       CASE WHEN c.sid IS NOT NULL THEN 'bad' ELSE h.state END,
       h.failures,
       CASE WHEN c.sid IS NOT NULL THEN c.problem
            WHEN h.state <> 'ok' THEN coalesce(
                f.outcome, CASE WHEN l.outcome IN ('dns-failed', 'connect-failed', 'timed-out') THEN l.outcome END,
                'connect-failed') END,
       CASE WHEN c.sid IS NULL THEN h.robots_status END,
       h.crawl_delay_s,
       CASE WHEN c.sid IS NULL THEN h.met END
FROM hosts h JOIN asked a USING (sid) LEFT JOIN closed c USING (sid) LEFT JOIN last_failure f USING (sid)
LEFT JOIN last_contact l USING (sid)
ORDER BY h.sid;

-- URLs have the outcome that is true of their host: there is no bad-host any more.
CREATE TEMP TABLE renamed AS
SELECT c.oid, c.outcome AS old, o.problem AS new,
       CASE WHEN o.problem IN ('private-address', 'decompression-bomb') THEN 'dropped' ELSE 'failed' END AS state
FROM crawl c JOIN origins o USING (sid) LEFT JOIN closed s USING (sid)
WHERE c.state = 'dropped' AND (c.outcome = 'bad-host' OR (c.outcome = 'robots' AND s.sid IS NOT NULL))
  AND o.problem IS NOT NULL;
INSERT INTO renamed  -- of a host that is not bad any more: the user has queued its failures again
SELECT oid, outcome, 'connect-failed', 'failed' FROM crawl
WHERE outcome = 'bad-host' AND oid NOT IN (SELECT oid FROM renamed);
UPDATE crawl SET outcome = r.new, state = CASE WHEN crawl.state = 'dropped' THEN r.state ELSE crawl.state::VARCHAR END
FROM renamed r WHERE r.oid = crawl.oid;
UPDATE crawl_changes SET outcome = 'connect-failed', state = 'failed' WHERE outcome = 'bad-host';  -- not folded yet
CREATE TEMP TABLE counted AS
SELECT name, sum(n) AS n FROM (
    SELECT 'outcome:' || new AS name, count(*) AS n FROM renamed GROUP BY 1
    UNION ALL SELECT 'outcome:' || old, -count(*) FROM renamed GROUP BY 1
    UNION ALL SELECT name, n FROM counters
) GROUP BY name;
DELETE FROM counters;
INSERT INTO counters SELECT name, greatest(n, 0) FROM counted WHERE name <> 'outcome:bad-host' ORDER BY name;

ALTER TABLE robots RENAME TO robots_before;
CREATE TABLE robots (
    sid     INTEGER NOT NULL,
    scheme  VARCHAR NOT NULL,
    visited TIMESTAMP,
    text    VARCHAR NOT NULL
);
INSERT INTO robots SELECT r.sid, a.scheme, r.visited, r.text FROM robots_before r JOIN asked a USING (sid) ORDER BY r.rowid;
DROP TABLE robots_before;

DROP VIEW frontier;
DROP VIEW collection;
ALTER TABLE hosts RENAME TO hosts_before;
CREATE TABLE hosts (
    sid           INTEGER NOT NULL,
    host          VARCHAR NOT NULL,
    domain        VARCHAR NOT NULL,
    ip            VARCHAR,
    pages         INTEGER NOT NULL,
    bytes         BIGINT NOT NULL,
    requests      INTEGER NOT NULL,
    next_visit    TIMESTAMP
);
INSERT INTO hosts SELECT sid, host, domain, ip, pages, bytes, requests, next_visit FROM hosts_before ORDER BY rowid;
DROP TABLE hosts_before;
DROP TABLE renamed;
DROP TABLE counted;
DROP TABLE closed;
DROP TABLE asked;
DROP TABLE last_failure;
DROP TABLE last_contact;

-- Views name their columns when they are made.
CREATE VIEW frontier AS
SELECT c.*,
       coalesce(h.pages, 0) AS serverload,
       h.host,
       h.domain,
       coalesce(hub.score, 0) AS hub_score,
       coalesce(aut.score, 0) AS authority_score,
       {'score': coalesce(hub.score, 0)} AS hubs,  -- so that HUBS.score and AUTH.score read as in the paper
       {'score': coalesce(aut.score, 0)} AS auth,
       r.change_interval_s  -- of a page that is fetched again: estimated time between its changes; NULL: unknown
FROM crawl c
LEFT JOIN hosts h ON h.sid = c.sid
LEFT JOIN hubs hub ON hub.oid = c.oid
LEFT JOIN auth aut ON aut.oid = c.oid
LEFT JOIN revisits r ON r.oid = c.oid
WHERE c.state = 'waiting';
CREATE VIEW collection AS
SELECT p.*, c.url, h.host, h.domain, c.depth, coalesce(nullif(t.path, ''), t.name, '') AS topic, j.relevant,
       r.change_interval_s
FROM pages p
JOIN crawl c ON c.oid = p.oid
JOIN page_topics j ON j.oid = p.oid
LEFT JOIN hosts h ON h.sid = c.sid
LEFT JOIN topics t ON t.kcid = j.kcid
LEFT JOIN revisits r ON r.oid = p.oid;
