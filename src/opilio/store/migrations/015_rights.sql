-- What a page and its site say about its use.
ALTER TABLE pages ADD COLUMN rights VARCHAR;
-- Views name their columns when they are made.
DROP VIEW collection;
CREATE VIEW collection AS
SELECT p.*, c.url, h.host, h.domain, c.depth, coalesce(nullif(t.path, ''), t.name, '') AS topic, j.relevant,
       r.change_interval_s
FROM pages p
JOIN crawl c ON c.oid = p.oid
JOIN page_topics j ON j.oid = p.oid
LEFT JOIN hosts h ON h.sid = c.sid
LEFT JOIN topics t ON t.kcid = j.kcid
LEFT JOIN revisits r ON r.oid = p.oid;
