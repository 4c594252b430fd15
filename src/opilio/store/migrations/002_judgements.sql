-- Training documents, models, judgements, and the tables of Focus's classifier.
CREATE TABLE training (
    name     VARCHAR NOT NULL,
    kind     VARCHAR NOT NULL,
    kcid     SMALLINT NOT NULL,
    positive BOOLEAN NOT NULL,
    source   VARCHAR NOT NULL,
    title    VARCHAR,
    text     VARCHAR USING COMPRESSION zstd,
    added    TIMESTAMP
);
CREATE TABLE models (
    version    INTEGER NOT NULL,
    created    TIMESTAMP NOT NULL,
    classifier VARCHAR NOT NULL,
    reason     VARCHAR,
    documents  INTEGER,
    estimates  VARCHAR,
    settings   VARCHAR,
    taught     VARCHAR,
    model      BLOB NOT NULL
);
CREATE TABLE judgements (
    oid           BIGINT NOT NULL,
    model_version INTEGER NOT NULL,
    kcid          SMALLINT NOT NULL,
    accepted      BOOLEAN NOT NULL,
    relevance     FLOAT NOT NULL,
    confidence    FLOAT NOT NULL,
    undoubted     BOOLEAN NOT NULL,
    agreed        VARCHAR[],
    votes         MAP (VARCHAR, FLOAT)
);
CREATE TABLE taxonomy_stat (
    kcid     SMALLINT NOT NULL,
    pcid     SMALLINT NOT NULL,
    logprior DOUBLE NOT NULL,
    logdenom DOUBLE NOT NULL
);
CREATE TABLE stat (
    pcid     SMALLINT NOT NULL,
    kcid     SMALLINT NOT NULL,
    tid      UINTEGER NOT NULL,
    logtheta DOUBLE NOT NULL
);
CREATE TABLE blob (
    pcid SMALLINT NOT NULL,
    tid  UINTEGER NOT NULL,
    stat STRUCT (kcid SMALLINT, logtheta DOUBLE)[] NOT NULL
);
DROP VIEW collection;
DROP VIEW taxonomy;
ALTER TABLE topics ADD COLUMN description VARCHAR;
CREATE VIEW collection AS
SELECT p.*, c.url, h.host, h.domain, c.depth, t.path AS topic
FROM pages p
JOIN crawl c ON c.oid = p.oid
LEFT JOIN hosts h ON h.sid = c.sid
LEFT JOIN topics t ON t.kcid = p.kcid;
CREATE VIEW taxonomy AS
SELECT t.kcid, t.pcid, t.name, t.type, t.path, s.logprior, s.logdenom
FROM topics t
LEFT JOIN taxonomy_stat s ON s.kcid = t.kcid;

-- Topics were all marked good; now a good topic covers those below it, and what is above one is the path to it.
UPDATE topics SET type = CASE
    WHEN pcid IS NULL THEN CASE WHEN (SELECT count(*) FROM topics) = 1 THEN 'good' ELSE 'path' END
    WHEN pcid = 0 THEN 'good'
    ELSE 'subsumed'
END;
-- Bookmarks are examples of their folders' topics. Seeds of the root came from plain lists, of which nothing is learned.
INSERT INTO training SELECT url, 'url', kcid, true, coalesce(source, 'given'), title, NULL, added FROM seeds WHERE kcid <> 0;
