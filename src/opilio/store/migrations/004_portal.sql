-- What the user taught step by step, and what the user judged in reviews.
CREATE TABLE lessons (
    taught TIMESTAMP NOT NULL,
    kcid   SMALLINT NOT NULL,
    name   VARCHAR NOT NULL,
    before VARCHAR
);
CREATE TABLE reviews (
    judged  TIMESTAMP NOT NULL,
    kcid    SMALLINT NOT NULL,
    oid     BIGINT NOT NULL,
    verdict VARCHAR NOT NULL,
    stratum VARCHAR NOT NULL
);
