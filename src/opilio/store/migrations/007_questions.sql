-- Questions to the user about stored pages, and how often a crawl has asked.
CREATE TABLE questions (
    oid      BIGINT NOT NULL,
    kcid     SMALLINT NOT NULL,
    asked    TIMESTAMP NOT NULL,
    reason   ENUM ('sure', 'uncertain') NOT NULL,
    benefit  BIGINT NOT NULL,
    answered TIMESTAMP,
    answer   ENUM ('yes', 'no', 'skip')
);
ALTER TABLE progress RENAME TO progress_before;
CREATE TABLE progress (
    phase             ENUM ('none', 'learning', 'paused', 'harvesting') NOT NULL,
    archetype_rounds  INTEGER NOT NULL,
    relevant_at_round BIGINT NOT NULL,
    negative_rounds   INTEGER NOT NULL,
    pages_at_analysis BIGINT NOT NULL,
    question_rounds   INTEGER NOT NULL
);
INSERT INTO progress SELECT *, 0 FROM progress_before;
DROP TABLE progress_before;
