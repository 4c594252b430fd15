"""What classifiers learn from: the tables `training` and `lessons`.

`training` has the documents: examples and counter-examples of topics. `lessons` has the changes that the user made
to them, each with the row that was there before, so that a change can be undone and listed until a model has learned
it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import duckdb

from opilio.store.batch import Batch
from opilio.store.database import Store
from opilio.store.loader import TrainingRecord

ARCHETYPE = "archetype"
"""In the column `training.source`: a crawl added the document, and nobody vouches for it."""
CONFIRMED, REJECTED = "confirmed", "rejected"
"""... the user said that a page found by the crawl is an example, or a counter-example."""

HIT = "hit"
"""... the crawl took one of the best hits of a query, because the user did not want to be asked."""

ExampleKey = tuple[int, str]
"""Topic and name of a training document."""
ExampleRow = dict[str, Any]
"""A row of `training` by its columns; `added` in seconds."""

COLUMNS = ("name", "kind", "kcid", "positive", "source", "title", "text")
"""Of an `ExampleRow`, before `added`."""

_MAX_ROWS = 2**20
_ROWS = f"SELECT {', '.join(COLUMNS)}, epoch(added) FROM training"
_DELETE = "DELETE FROM training WHERE kcid = $1 AND name = $2"
_KEEP = f"UPDATE training SET source = CASE WHEN source IN ('{ARCHETYPE}', '{HIT}') THEN '{CONFIRMED}' ELSE source END"
_CONFIRM = f"{_KEEP} WHERE kcid = $1 AND name = $2"
_TRIM = f"{_KEEP}, text = $3 WHERE kcid = $1 AND name = $2"
_TRIMMED = "SELECT kcid, name FROM training WHERE kind = 'url' AND text IS NOT NULL"
_HAS_DOCUMENTS = f"""
    SELECT count(*) FILTER (source NOT IN ('{CONFIRMED}', '{HIT}')) > 0 OR count(*) >= $2 FROM training
    WHERE positive AND (kind <> 'text' OR len(string_split_regex(trim(text), '\\s+')) >= $1)
"""
_COUNT_CONFIRMED = f"SELECT count(*) FROM training WHERE positive AND source IN ('{CONFIRMED}', '{HIT}')"
_COUNT_ANSWERED = f"SELECT count(*) FROM training WHERE source IN ('{CONFIRMED}', '{REJECTED}')"
_COUNT_NEGATIVE = "SELECT count(*) FROM training WHERE NOT positive"
_ARCHETYPE_NAMES = f"SELECT DISTINCT name FROM training WHERE source = '{ARCHETYPE}'"
_ARCHETYPE_COUNTS = f"""
    SELECT kcid, count(*) FILTER (source IN ('{ARCHETYPE}', '{CONFIRMED}')) FROM training
    WHERE positive AND (kind <> 'text' OR len(string_split_regex(trim(text), '\\s+')) >= ?)
    GROUP BY kcid
"""
_DROP_ARCHETYPE = f"DELETE FROM training WHERE kcid = $1 AND name = $2 AND source = '{ARCHETYPE}'"
_ADD_ARCHETYPE = f"""
    INSERT INTO training (name, kind, kcid, positive, source, title, text, added)
    SELECT $2, 'url', $1, true, '{ARCHETYPE}', '', NULL, make_timestamp(($3 * 1e6)::BIGINT)
    WHERE EXISTS (FROM topics WHERE kcid = $1) AND NOT EXISTS (FROM training WHERE name = $2)
"""
_EXAMPLE_PAGES = """
    SELECT c.oid, t.name FROM training t JOIN crawl c ON c.url = t.name
    WHERE t.kcid = $1 AND t.positive AND t.kind = 'url'
"""
_UNLABELLED = """
    SELECT c.url, coalesce(p.title, ''), p.oid, coalesce(p.language, ''), p.text
    FROM pages p JOIN crawl c USING (oid)
    WHERE p.oid NOT IN (SELECT oid FROM duplicates) AND p.oid NOT IN (SELECT oid FROM reviews)
      AND p.oid NOT IN (SELECT unnest($1::BIGINT[])) AND c.url NOT IN (SELECT name FROM training)
      AND p.oid IN (SELECT oid FROM terms)
    ORDER BY {order} LIMIT $2
"""
_OF_TOPIC = """
    SELECT name, kind, positive, source, coalesce(title, ''), count(*) OVER ()
    FROM training WHERE kcid = $1 ORDER BY NOT positive, added, name LIMIT $2
"""
_RECORD = "INSERT INTO lessons VALUES (make_timestamp($1::BIGINT), $2, $3, $4)"
_CHANGES = """
    SELECT kcid, name, before FROM lessons
    WHERE taught > make_timestamp($1::BIGINT) AND name <> '' ORDER BY taught, rowid
"""
_MARK_CHANGES = """
    SELECT kcid, first(before ORDER BY taught, rowid) FROM lessons
    WHERE taught > make_timestamp($1::BIGINT) AND name = '' GROUP BY kcid ORDER BY kcid
"""
_GIVEN = """
    SELECT t.name, t.kcid, t.positive, epoch_us(max(l.taught))
    FROM training t LEFT JOIN lessons l ON l.name = t.name AND l.kcid = t.kcid
    WHERE t.kind = 'url' AND t.source IN ($confirmed, $rejected) AND t.name IN (SELECT unnest($urls::VARCHAR[]))
    GROUP BY t.name, t.kcid, t.positive ORDER BY max(l.taught) NULLS FIRST
"""
_DELETE_CHANGES = "DELETE FROM lessons WHERE taught > make_timestamp($1::BIGINT) AND name <> ''"


# -- documents


def example_rows(store: Store) -> dict[ExampleKey, ExampleRow]:
    """All training documents, as they are stored."""
    rows = store.select(_ROWS, max_rows=_MAX_ROWS).rows
    found = (dict(zip((*COLUMNS, "added"), row, strict=True)) for row in rows)
    return {(row["kcid"], row["name"]): {**row, "added": row["added"] or 0.0} for row in found}


def list_examples(store: Store) -> list[dict[str, Any]]:
    """The training documents by topic: name, title, side, source, length, whether the page is there, and whether only a
    part of it is learned from."""
    paths = {record.kcid: record.path or record.name for record in store.load_topics()}
    parts = trimmed_examples(store)
    return [
        {
            "topic": paths.get(record.kcid, ""), "name": record.name, "kind": record.kind, "title": record.title,
            "positive": record.positive, "source": record.source, "words": len((record.text or "").split()),
            "there": bool(record.text) or record.oid is not None,
            "part": (record.kcid, record.name) in parts,
        }
        for record in store.load_training()
    ]  # fmt: skip


def add_page_example(store: Store, kcid: int, url: str, source: str, text: str | None = None) -> None:
    """Add the page of a URL: a counter-example when `source` is REJECTED, else an example.

    `text` is learned from in place of the whole page.
    """
    batch = Batch()
    batch.training.add(url, "url", kcid, source != REJECTED, source, "", text, time.time())
    store.write(batch)


def delete_example(store: Store, kcid: int, name: str) -> None:
    """Delete a document of a topic."""
    store.query(_DELETE, [kcid, name], write=True)


def confirm_example(store: Store, kcid: int, name: str) -> None:
    """Make a document the user's own, if a crawl had added it."""
    store.query(_CONFIRM, [kcid, name], write=True)


def trim_example(store: Store, kcid: int, name: str, text: str) -> None:
    """Have a part of a document learned from in place of the whole, and make it the user's own."""
    store.query(_TRIM, [kcid, name, text], write=True)


def trimmed_examples(store: Store) -> set[ExampleKey]:
    """The pages of which only a part is learned from."""
    return set(store.select(_TRIMMED, max_rows=_MAX_ROWS).rows)


def has_documents(store: Store, min_words: int, min_confirmed: int) -> bool:
    """Whether there is an example that is a page, a file, or a text of at least `min_words` words.

    Pages of the crawl that the user has confirmed, and best hits, suffice when there are `min_confirmed` of them.
    """
    return bool(store.select(_HAS_DOCUMENTS, [min_words, min_confirmed]).rows[0][0])


def count_answered(store: Store) -> int:
    """How many documents are pages found by the crawl that the user has said something about."""
    return int(store.select(_COUNT_ANSWERED).rows[0][0])


def count_negative(store: Store) -> int:
    """How many documents are counter-examples."""
    return int(store.select(_COUNT_NEGATIVE).rows[0][0])


def count_confirmed(store: Store) -> int:
    """How many examples are pages that the user has confirmed, or best hits."""
    return int(store.select(_COUNT_CONFIRMED).rows[0][0])


def replace_archetypes(store: Store, removed: Iterable[ExampleKey], added: Iterable[ExampleKey]) -> None:
    """Remove and add archetypes, in one transaction. What the user confirmed or rejected meanwhile stays so."""
    with store.writing() as connection:
        for kcid, url in removed:
            connection.execute(_DROP_ARCHETYPE, [kcid, url])
        for kcid, url in added:
            connection.execute(_ADD_ARCHETYPE, [kcid, url, time.time()])


def archetype_names(store: Store) -> set[str]:
    """The names of all archetypes that nobody vouches for."""
    return {name for (name,) in store.select(_ARCHETYPE_NAMES, max_rows=_MAX_ROWS).rows}


def count_archetypes(store: Store, min_words: int) -> dict[int, int]:
    """By topic with documents (`has_documents`): how many of them the crawl found, confirmed or not."""
    return dict(store.select(_ARCHETYPE_COUNTS, [min_words], max_rows=2**15).rows)


def example_pages(store: Store, kcid: int) -> dict[int, str]:
    """The examples of a topic that are known URLs: oid and name."""
    return dict(store.select(_EXAMPLE_PAGES, [kcid], max_rows=2**24).rows)


class TopicExample(NamedTuple):
    """A training document in the list of its topic."""

    name: str
    kind: str
    positive: bool
    source: str
    title: str


def examples_of_topic(cursor: duckdb.DuckDBPyConnection, kcid: int, limit: int) -> tuple[list[TopicExample], int]:
    """The first documents of a topic, examples before counter-examples; and how many it has."""
    rows = cursor.execute(_OF_TOPIC, [kcid, limit]).fetchall()
    return [TopicExample(*row[:5]) for row in rows], rows[0][5] if rows else 0


def unlabelled_pages(
    store: Store, exclude: Sequence[int], kcid: int, source: str, limit: int, *, earliest: bool = False
) -> list[TrainingRecord]:
    """Pages about which the user has said nothing, as counter-examples of a topic: drawn by lot, or the earliest.

    `exclude` are oids that are left out. The lot is the same each time.
    """
    order = "p.visited, p.oid" if earliest else "hash(p.oid), p.oid"
    rows = store.select(_UNLABELLED.format(order=order), [list(exclude), limit], max_rows=limit).rows
    return [
        TrainingRecord(url, "url", kcid, False, source, title, oid, language, text)
        for url, title, oid, language, text in rows
    ]


# -- changes by the user


def record_change(store: Store, at_us: int, kcid: int, name: str, before: str | None) -> None:
    """Record that the user changed a document, or the mark of a topic when `name` is empty.

    `before` is the row before the change, as JSON; None: there was none.
    """
    store.query(_RECORD, [at_us, kcid, name, before], write=True)


def changes_since(store: Store, since_us: int) -> list[tuple[int, str, str | None]]:
    """The changes of documents after a moment, oldest first: topic, name, and the row before as JSON."""
    return store.select(_CHANGES, [since_us], max_rows=_MAX_ROWS).rows


class GivenFeedback(NamedTuple):
    """What the user has said of a page: that it is about a topic, or that it is not."""

    url: str
    kcid: int
    positive: bool
    moment_us: int | None
    """When that was recorded; None: it was not."""


def given_feedback(store: Store, urls: Sequence[str]) -> dict[str, GivenFeedback]:
    """By URL: what the user has said of some pages; the latest counts."""
    given = {"urls": list(urls), "confirmed": CONFIRMED, "rejected": REJECTED}
    rows = store.select(_GIVEN, given, max_rows=_MAX_ROWS).rows
    return {row[0]: GivenFeedback(*row) for row in rows}


def mark_changes_since(store: Store, since_us: int) -> list[tuple[int, str]]:
    """The topics whose mark was changed after a moment, with the row before the first of these changes as JSON."""
    return store.select(_MARK_CHANGES, [since_us], max_rows=_MAX_ROWS).rows


def delete_changes_since(store: Store, since_us: int) -> None:
    """Delete the record of changes of documents after a moment."""
    store.query(_DELETE_CHANGES, [since_us], write=True)
