-- Whether the latest model had no doubt about a page, as a column of pages and so of the view collection.
ALTER TABLE pages ADD COLUMN undoubted BOOLEAN;
UPDATE pages SET undoubted = said.undoubted
FROM (
    SELECT oid, model_version, last(undoubted ORDER BY rowid) AS undoubted FROM judgements GROUP BY ALL
) said
WHERE pages.oid = said.oid AND pages.model_version = said.model_version;
DROP VIEW collection;
CREATE VIEW collection AS
SELECT p.*, c.url, h.host, h.domain, c.depth, t.path AS topic, r.change_interval_s
FROM pages p
JOIN crawl c ON c.oid = p.oid
LEFT JOIN hosts h ON h.sid = c.sid
LEFT JOIN topics t ON t.kcid = p.kcid
LEFT JOIN revisits r ON r.oid = p.oid;

-- What the user decided about groups of an assisted review.
CREATE TABLE review_decisions (
    decided  TIMESTAMP NOT NULL,
    kcid     SMALLINT NOT NULL,
    stratum  VARCHAR NOT NULL,
    decision ENUM ('kept', 'dropped', 'by rule') NOT NULL
);
