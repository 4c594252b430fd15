-- What the crawl decides by becomes data: its progress, which was among the counters, and why a model was trained.
CREATE TABLE progress (
    phase             ENUM ('none', 'learning', 'paused', 'harvesting') NOT NULL,
    archetype_rounds  INTEGER NOT NULL,
    relevant_at_round BIGINT NOT NULL,
    negative_rounds   INTEGER NOT NULL,
    pages_at_analysis BIGINT NOT NULL
);
CREATE TEMP TABLE moved AS SELECT * FROM (VALUES
    ('phase'), ('rounds of archetypes'), ('pages judged relevant before the last round of archetypes'),
    ('looks for pages about other things'), ('pages at the latest link analysis')) t(name);
INSERT INTO progress
SELECT CASE greatest(0, coalesce(max(n) FILTER (name = 'phase'), 0))
           WHEN 0 THEN 'none' WHEN 1 THEN 'learning' WHEN 2 THEN 'paused' ELSE 'harvesting' END,
       coalesce(max(n) FILTER (name = 'rounds of archetypes'), 0),
       coalesce(max(n) FILTER (name = 'pages judged relevant before the last round of archetypes'), 0),
       coalesce(max(n) FILTER (name = 'looks for pages about other things'), 0),
       coalesce(max(n) FILTER (name = 'pages at the latest link analysis'), 0)
FROM counters WHERE name IN (FROM moved) HAVING count(*) > 0;
DELETE FROM counters WHERE name IN (FROM moved);
DROP TABLE moved;
UPDATE counters SET name = 'pages re-judged' WHERE name = 'pages judged anew';
UPDATE counters SET name = replace(name, 'URLs handed over', 'URLs forwarded') WHERE name LIKE 'URLs handed over%';

-- The sentences that versions 2 to 5 wrote. A sentence that is none of them, such as a caller's own, stays as the detail.
ALTER TABLE models RENAME TO models_before;
CREATE TABLE models (
    version    INTEGER NOT NULL,
    created    TIMESTAMP NOT NULL,
    classifier VARCHAR NOT NULL,
    reason     ENUM ('first', 'changed', 'examples', 'feedback', 'requested', 'archetypes', 'negatives', 'harvest',
                     'redrawn', 'reused') NOT NULL,
    repeats    INTEGER,
    detail     VARCHAR,
    documents  INTEGER,
    estimates  VARCHAR,
    settings   VARCHAR,
    taught     VARCHAR,
    model      BLOB NOT NULL
);
INSERT INTO models
SELECT version, created, classifier,
       CASE WHEN reason = 'first model' THEN 'first'
            WHEN reason = 'topics, examples or settings were changed' THEN 'changed'
            WHEN reason = 'examples came late' THEN 'examples'
            WHEN reason = 'asked for' OR reason IS NULL THEN 'requested'
            WHEN reason = 'pages about other things were met' THEN 'negatives'
            WHEN reason = 'the harvesting phase begins' THEN 'harvest'
            WHEN reason = 'variable part drawn anew' THEN 'redrawn'
            WHEN regexp_full_match(reason, 'model \d{1,9} again') THEN 'reused'
            WHEN regexp_full_match(reason, '\d+ archetypes? added, \d+ removed( \(.*\))?') THEN 'archetypes'
            WHEN reason = 'the marks of topics were changed'
                OR regexp_matches(reason, '^(mark|(add|drop|trim) example|(confirm|reject) archetype|feedback|split topic|learn review|forget|judge|take back|review anew): ')
                THEN 'feedback'
            ELSE 'requested' END,
       CASE WHEN regexp_full_match(reason, 'model \d{1,9} again') THEN regexp_extract(reason, '\d+')::INTEGER END,
       CASE WHEN reason IN ('first model', 'topics, examples or settings were changed', 'examples came late', 'asked for',
                            'pages about other things were met', 'the harvesting phase begins',
                            'variable part drawn anew')
                OR regexp_full_match(reason, 'model \d{1,9} again') THEN ''
            ELSE coalesce(reason, '') END,
       documents, estimates, settings, taught, model
FROM models_before ORDER BY rowid;
DROP TABLE models_before;
