-- Link scores by topic, and what the crawl has to say.
CREATE TABLE link_scores (
    kcid      SMALLINT NOT NULL,
    oid       BIGINT NOT NULL,
    hub       FLOAT NOT NULL,
    authority FLOAT NOT NULL
);
CREATE TABLE notices (
    noticed TIMESTAMP NOT NULL,
    kind    VARCHAR NOT NULL,
    kcid    SMALLINT,
    text    VARCHAR NOT NULL,
    remedy  VARCHAR
);
