-- Whether a page was longer than fetch.cut_bytes, so that only its beginning is stored.
ALTER TABLE pages ADD COLUMN cut BOOLEAN;

CREATE OR REPLACE VIEW collection AS
SELECT p.*, c.url, h.host, h.domain, c.depth, t.path AS topic
FROM pages p
JOIN crawl c ON c.oid = p.oid
LEFT JOIN hosts h ON h.sid = c.sid
LEFT JOIN topics t ON t.kcid = p.kcid;
