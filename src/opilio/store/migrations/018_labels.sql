-- Who answered a question, and what a labeller said.
ALTER TABLE questions ADD COLUMN answered_by VARCHAR;
UPDATE questions SET answered_by = 'user' WHERE answer IS NOT NULL;
CREATE TABLE labels (
    labelled  TIMESTAMP NOT NULL,
    oid       BIGINT NOT NULL,
    kcid      SMALLINT NOT NULL,
    model     VARCHAR NOT NULL,
    prompt    UBIGINT NOT NULL,
    answer    ENUM ('yes', 'no', 'unsure', 'failed') NOT NULL,
    reason    VARCHAR NOT NULL,
    calls     INTEGER NOT NULL,
    tokens    BIGINT NOT NULL,
    overruled BOOLEAN NOT NULL
);
