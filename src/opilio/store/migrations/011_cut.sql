-- Whether a page was longer than fetch.cut_bytes, so that only its beginning is stored.
ALTER TABLE pages ADD COLUMN cut BOOLEAN;
-- Views name their columns when they are made: this one gets the columns of versions 9, 10 and 11.
DROP VIEW collection;
CREATE VIEW collection AS
SELECT p.*, c.url, h.host, h.domain, c.depth, t.path AS topic, r.change_interval_s
FROM pages p
JOIN crawl c ON c.oid = p.oid
LEFT JOIN hosts h ON h.sid = c.sid
LEFT JOIN topics t ON t.kcid = p.kcid
LEFT JOIN revisits r ON r.oid = p.oid;
