-- Which seed providers found a seed, for which words, and at which rank.
ALTER TABLE seeds ADD COLUMN found STRUCT(provider VARCHAR, query VARCHAR, rank INTEGER)[];
