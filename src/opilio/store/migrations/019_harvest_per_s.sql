-- Harvest per second beside harvest per page and per request.
DROP VIEW figures;
CREATE VIEW figures AS
SELECT pages, judged, relevant, requests, elapsed_s,
       CASE WHEN judged > 0 THEN relevant / pages END AS harvest,
       CASE WHEN judged > 0 AND requests > 0 THEN relevant / requests END AS harvest_per_request,
       CASE WHEN judged > 0 AND elapsed_s > 0 THEN relevant / elapsed_s END AS harvest_per_s
FROM (SELECT count(*) AS pages, count(relevance) AS judged, count(*) FILTER (relevance >= 0.5) AS relevant FROM pages),
     (SELECT count(*) AS requests FROM visits),
     (SELECT coalesce(sum(n), 0) / 1000 AS elapsed_s FROM counters WHERE name = 'elapsed_ms');
