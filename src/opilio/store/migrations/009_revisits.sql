-- Pages that are visited again, how often they change, and when links were first and last seen.
ALTER TABLE links ADD COLUMN first_seen TIMESTAMP;
UPDATE links SET first_seen = pages.visited FROM pages WHERE pages.oid = links.oid_src;
CREATE TABLE past_links (
    oid_src    BIGINT NOT NULL,
    oid_dst    BIGINT NOT NULL,
    sid_src    INTEGER NOT NULL,
    sid_dst    INTEGER NOT NULL,
    anchor     VARCHAR,
    first_seen TIMESTAMP,
    last_seen  TIMESTAMP
);
CREATE TABLE revisits (
    oid               BIGINT NOT NULL,
    first_visited     TIMESTAMP NOT NULL,
    lastvisited       TIMESTAMP NOT NULL,
    n                 INTEGER NOT NULL,
    changes           INTEGER NOT NULL,
    change_interval_s DOUBLE
);
-- Views name their columns when they are made. The view collection follows in version 11, which alters pages last.
DROP VIEW link;
DROP VIEW frontier;
CREATE VIEW frontier AS
SELECT c.*,
       coalesce(h.pages, 0) AS serverload,
       h.host,
       h.domain,
       coalesce(hub.score, 0) AS hub_score,
       coalesce(aut.score, 0) AS authority_score,
       {'score': coalesce(hub.score, 0)} AS hubs,
       {'score': coalesce(aut.score, 0)} AS auth,
       r.change_interval_s
FROM crawl c
LEFT JOIN hosts h ON h.sid = c.sid
LEFT JOIN hubs hub ON hub.oid = c.oid
LEFT JOIN auth aut ON aut.oid = c.oid
LEFT JOIN revisits r ON r.oid = c.oid
WHERE c.state = 'waiting';
CREATE VIEW link_history AS
SELECT l.oid_src, l.oid_dst, l.sid_src, l.sid_dst, l.anchor, l.first_seen,
       greatest(l.first_seen, p.visited, r.lastvisited) AS last_seen, false AS gone
FROM links l
LEFT JOIN pages p ON p.oid = l.oid_src
LEFT JOIN revisits r ON r.oid = l.oid_src
UNION ALL
SELECT oid_src, oid_dst, sid_src, sid_dst, anchor, first_seen, last_seen, true AS gone FROM past_links;
CREATE VIEW link AS SELECT * FROM links;
