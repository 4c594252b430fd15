-- Pages from archives of other crawls, and how far each archive has been sifted.
CREATE TABLE sifted (
    oid            BIGINT NOT NULL,
    archive        VARCHAR NOT NULL,    -- path or URL of the archive; in a WACZ file also the member, after a '!'
    record_offset  BIGINT NOT NULL,     -- of the record, or of the compressed piece that it begins in
    captured       TIMESTAMP,           -- when the page was fetched, as the archive says
    joined         TIMESTAMP NOT NULL   -- when it was stored here
);

CREATE TABLE archives (
    archive        VARCHAR NOT NULL,
    size           BIGINT NOT NULL,     -- bytes of the archive; 0: not known
    model          VARCHAR NOT NULL,    -- hash of the model that judged
    lane           SMALLINT NOT NULL,
    lanes          SMALLINT NOT NULL,
    record_offset  BIGINT NOT NULL,     -- where the next record is: of the compressed piece, or of the record
    skip           BIGINT NOT NULL,     -- bytes of that piece, unpacked, before the record
    number         BIGINT NOT NULL,     -- pages before the record
    done           BOOLEAN NOT NULL,
    judged         BIGINT NOT NULL,     -- pages judged so far
    on_topic       BIGINT NOT NULL,
    stored         BIGINT NOT NULL      -- pages that the collection did not have
);
