-- Pictures of pages and icons of hosts, for the portal.
CREATE TABLE page_pictures (
    oid     BIGINT NOT NULL,
    sid     INTEGER NOT NULL,
    picture VARCHAR NOT NULL,
    icon    VARCHAR NOT NULL
);
CREATE TABLE pictures (
    url          VARCHAR NOT NULL,
    kind         VARCHAR NOT NULL,
    visited      TIMESTAMP NOT NULL,
    outcome      VARCHAR NOT NULL,
    content_type VARCHAR,
    width        INTEGER,
    height       INTEGER,
    data         BLOB
);
