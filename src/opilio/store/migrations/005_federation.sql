-- URLs that other collections handed over, and those that were handed over to them.
CREATE TABLE offers (
    offered   TIMESTAMP NOT NULL,
    peer      VARCHAR NOT NULL,
    incoming  BOOLEAN NOT NULL,
    url       VARCHAR NOT NULL,
    topic     VARCHAR NOT NULL,
    relevance FLOAT NOT NULL,
    title     VARCHAR
);
