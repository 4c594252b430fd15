-- Whether the latest model had no doubt about a page, as a column of pages.
ALTER TABLE pages ADD COLUMN undoubted BOOLEAN;
UPDATE pages SET undoubted = said.undoubted
FROM (
    SELECT oid, model_version, last(undoubted ORDER BY rowid) AS undoubted FROM judgements GROUP BY ALL
) said
WHERE pages.oid = said.oid AND pages.model_version = said.model_version;

-- What the user decided about groups of an assisted review.
CREATE TABLE review_decisions (
    decided  TIMESTAMP NOT NULL,
    kcid     SMALLINT NOT NULL,
    stratum  VARCHAR NOT NULL,
    decision ENUM ('kept', 'dropped', 'by rule') NOT NULL
);
