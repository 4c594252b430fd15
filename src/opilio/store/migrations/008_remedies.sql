-- What can be done about a notice, as data.
ALTER TABLE notices ADD COLUMN remedies VARCHAR;
