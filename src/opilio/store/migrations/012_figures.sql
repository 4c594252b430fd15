-- One definition of every figure, for SQL and for all that shows figures.
DROP VIEW collection;
DROP VIEW harvest;
CREATE VIEW page_topics AS
SELECT p.oid, CASE WHEN t.kcid <> 0 OR p.relevance >= 0.5 THEN t.kcid END AS kcid,
       coalesce(p.relevance >= 0.5, false) AS relevant, p.relevance, p.visited
FROM pages p
LEFT JOIN topics t ON t.kcid = p.kcid;
CREATE VIEW collection AS
SELECT p.*, c.url, h.host, h.domain, c.depth, coalesce(nullif(t.path, ''), t.name, '') AS topic, j.relevant,
       r.change_interval_s
FROM pages p
JOIN crawl c ON c.oid = p.oid
JOIN page_topics j ON j.oid = p.oid
LEFT JOIN hosts h ON h.sid = c.sid
LEFT JOIN topics t ON t.kcid = j.kcid
LEFT JOIN revisits r ON r.oid = p.oid;
CREATE VIEW figures AS
SELECT pages, judged, relevant, requests,
       CASE WHEN judged > 0 THEN relevant / pages END AS harvest,
       CASE WHEN judged > 0 AND requests > 0 THEN relevant / requests END AS harvest_per_request
FROM (SELECT count(*) AS pages, count(relevance) AS judged, count(*) FILTER (relevance >= 0.5) AS relevant FROM pages),
     (SELECT count(*) AS requests FROM visits);
CREATE VIEW topic_figures AS
WITH RECURSIVE below AS (
    SELECT kcid, kcid AS lower FROM topics
    UNION ALL
    SELECT b.kcid, t.kcid FROM below b JOIN topics t ON t.pcid = b.lower
),
own AS (SELECT kcid, count(*) AS pages, count(*) FILTER (relevant) AS relevant FROM page_topics GROUP BY kcid)
SELECT t.kcid, coalesce(nullif(t.path, ''), t.name) AS topic, coalesce(sum(o.pages), 0)::BIGINT AS pages,
       coalesce(sum(o.relevant), 0)::BIGINT AS relevant,
       coalesce(sum(o.pages) FILTER (o.kcid = t.kcid), 0)::BIGINT AS own_pages,
       coalesce(sum(o.relevant) FILTER (o.kcid = t.kcid), 0)::BIGINT AS own_relevant
FROM topics t
JOIN below b ON b.kcid = t.kcid
LEFT JOIN own o ON o.kcid = b.lower
GROUP BY ALL
UNION ALL
SELECT NULL, 'OTHERS', pages, relevant, pages, relevant FROM own WHERE kcid IS NULL
ORDER BY topic;
CREATE VIEW harvest AS
SELECT date_trunc('minute', visited) AS minute,
       count(*) AS pages,
       count(*) FILTER (relevant) AS relevant,
       CASE WHEN count(relevance) > 0 THEN count(*) FILTER (relevant) / count(*) END AS harvest,
       avg(relevance) AS relevance
FROM page_topics
GROUP BY ALL
ORDER BY minute;
UPDATE counters SET name = 'pages relevant when fetched' WHERE name = 'pages judged relevant';
