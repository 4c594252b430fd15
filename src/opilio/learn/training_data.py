"""What the user teaches: topics, marks and examples, put into the store of a collection or changed there.

Notes of what the user changes in the training documents: what no model has learned yet, and how to take it back.

Each change is noted with the row that stood there before (table `lessons`). What a crawl adds by itself, archetypes, is
not the user's and is not noted. A model that was chosen again counts as the one that it is. Marks of topics are noted,
too, under no name: pages are judged by them when they are judged anew. They are not taken back.
"""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import xxhash

from opilio.errors import InputError
from opilio.settings import Settings, to_toml
from opilio.store import Batch, Store
from opilio.store.loading import ModelRecord, TrainingRecord
from opilio.topics import (
    Change,
    ExampleKind,
    Mark,
    TopicRecord,
    TopicTree,
    TrainingInput,
    find_topic,
    mark_topic,
    merge_tree,
    parse_example,
)
from opilio.topics.examples import FileText

MIN_EXAMPLE_WORDS = 30
"""A text with fewer words, such as a query, tells what is wanted but is no document to learn from."""
ARCHETYPE = "archetype"
"""In the column `training.source`: a crawl added the document, and nobody vouches for it."""


ReadFile = Callable[[Path], FileText]
"""Reads a file of any format; raises InputError when it cannot."""


def add_inputs(store: Store, tree: TopicTree, source: str, read_file: ReadFile) -> int:
    """Put a tree with its seeds and examples into the store; what is there already stays. Returns the new seeds."""
    records = store.load_topics()
    merge = merge_tree(records, tree, first_kcid=_first_free(store) if records else 0)
    batch, now_s = Batch(), time.time()
    _add_topics(batch, merge.change.changed)
    have = {seed.url for seed in store.load_seeds()}
    added = 0
    for seed in tree.seeds:
        if seed.url not in have:
            batch.seeds.add(seed.url, merge.numbers[seed.kcid], source, seed.title, now_s)
            added += 1
    known = {(record.kcid, record.name) for record in store.load_training()}
    for example in tree.training():
        lesson = dataclasses.replace(example, kcid=merge.numbers[example.kcid])
        if (lesson.kcid, _name(lesson)) not in known:
            _add_example(batch, lesson, source, read_file)
    store.write(batch)
    return added


def mark(store: Store, path: str, *, good: bool) -> list[str]:
    """Mark a topic good or null. Returns the paths of all topics whose mark has changed."""
    change = mark_topic(store.load_topics(), path, good=good)
    apply(store, change)
    return [record.path or record.name for record in change.changed]


def add_example(store: Store, path: str, example: str, positive: bool, folder: Path, read_file: ReadFile) -> str:
    """Add a document to learn from to a topic: a URL, a file or `text:...`. Returns the name it has from now on."""
    topic = find_topic(store.load_topics(), path)
    kind, value = parse_example(example, folder)
    lesson = TrainingInput(topic.kcid, kind, value, positive)
    batch = Batch()
    _add_example(batch, lesson, "added", read_file)
    store.query(_FORGET, [topic.kcid, _name(lesson)], write=True)  # the same document may have been a no before
    store.write(batch)
    return _name(lesson)


def drop_example(store: Store, path: str, name: str) -> None:
    """Forget a document of a topic."""
    topic = find_topic(store.load_topics(), path)
    names = [record.name for record in store.load_training() if record.kcid == topic.kcid]
    if name not in names:
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        raise InputError(f"{name!r} is no example of topic {topic.path or topic.name!r}", f"It has: {shown or 'none'}.")
    store.query(_FORGET, [topic.kcid, name], write=True)


def apply(store: Store, change: Change) -> None:
    """Write a change of topics."""
    batch = Batch()
    _add_topics(batch, change.changed)
    store.write(batch)
    for kcid in sorted(change.removed):
        for statement in _REMOVE:
            store.query(statement, [kcid], write=True)


class Taught(NamedTuple):
    """What a model is made of, as far as a later one would be another."""

    topics: list[tuple[object, ...]]
    examples: list[tuple[object, ...]]
    """Topic, name, whether it is about the topic, whether its page is there, and its text unless it is the page's."""

    @classmethod
    def of(cls, store: Store) -> Self:
        """What is taught now."""
        topics: list[tuple[object, ...]] = [(t.kcid, t.path, t.type, t.keywords) for t in store.load_topics()]
        trimmed = set(store.query(_TRIMMED, max_rows=2**20).rows)
        return cls(topics, [_lesson(record, trimmed) for record in store.load_training()])

    def changed(self, dropped: Collection[tuple[int, str]], added: Iterable[tuple[int, str]]) -> Taught:
        """The same with some examples dropped, and the stored pages of some URLs added; by topic and name."""
        kept = [example for example in self.examples if (example[0], example[1]) not in dropped]
        return Taught(self.topics, [*kept, *((kcid, url, True, True, True) for kcid, url in added)])

    def fingerprint(self, settings: Settings) -> str:
        """Differs when topics, examples or settings do."""
        said = to_toml(Settings(classify=settings.classify, oasis=settings.oasis))
        whole = repr((self.topics, self.examples, said))
        return xxhash.xxh3_64_hexdigest(whole.encode("utf-8", "replace"))


def _lesson(record: TrainingRecord, trimmed: Collection[tuple[int, str]]) -> tuple[object, ...]:
    is_page = record.kind == "url" and (record.kcid, record.name) not in trimmed
    return record.kcid, record.name, record.positive, record.oid is not None, is_page or record.text


def fingerprint(store: Store, settings: Settings) -> str:
    """Tells whether topics, examples or settings are those that a model was made of."""
    return Taught.of(store).fingerprint(settings)


def has_documents(store: Store) -> bool:
    """Whether there is anything to learn from but keywords."""
    sql = """
        SELECT count(*) FROM training
        WHERE positive AND (kind <> 'text' OR len(string_split_regex(trim(text), '\\s+')) >= ?)
    """
    return bool(store.query(sql, [MIN_EXAMPLE_WORDS]).rows[0][0])


_TRIMMED = "SELECT kcid, name FROM training WHERE kind = 'url' AND text IS NOT NULL"
_FORGET = "DELETE FROM training WHERE kcid = ? AND name = ?"
_REMOVE = (
    "DELETE FROM topics WHERE kcid = ?",
    "DELETE FROM training WHERE kcid = ?",
    "DELETE FROM seeds WHERE kcid = ?",
    "UPDATE crawl SET topic = 0 WHERE topic = ?",
)


def _first_free(store: Store) -> int:
    """A number no topic has had, also none that was removed: pages may carry it."""
    sql = "SELECT 1 + greatest(coalesce(max(kcid), 0), (SELECT coalesce(max(kcid), 0) FROM judgements)) FROM topics"
    return int(store.query(sql).rows[0][0])


def _add_topics(batch: Batch, records: Iterable[TopicRecord]) -> None:
    for record in records:
        batch.topics.add(*record)


def _add_example(batch: Batch, lesson: TrainingInput, source: str, read_file: ReadFile) -> None:
    title, text = lesson.title, None
    if lesson.kind is ExampleKind.TEXT:
        text = lesson.value
    elif lesson.kind is ExampleKind.FILE:
        said = read_file(Path(lesson.value))
        title, text = title or said.title, said.text
        if not text.strip():
            raise InputError(f"{lesson.value}: no text found in it", "Give another file, or the text itself.")
    batch.training.add(_name(lesson), lesson.kind.value, lesson.kcid, lesson.positive, source, title, text, time.time())


def _name(lesson: TrainingInput) -> str:
    """What an example is known by: its address or path, or the beginning of its text."""
    return " ".join(lesson.value.split())[:100] if lesson.kind is ExampleKind.TEXT else lesson.value


Key = tuple[int, str]
"""Topic and name of a training document."""
Row = dict[str, Any]

_AGAIN = re.compile(r"model (\d+) again")
"""Why a model was stored that is an older one under a new number."""
_MAX_ROWS = 2**20
_WANTED = (Mark.GOOD, Mark.SUBSUMED)
_COLUMNS = ("name", "kind", "kcid", "positive", "source", "title", "text")
_TRAINING = f"SELECT {', '.join(_COLUMNS)}, epoch(added) FROM training"
_NOTE = "INSERT INTO lessons VALUES (make_timestamp($1::BIGINT), $2, $3, $4)"
_SINCE = """
    SELECT kcid, name, before FROM lessons
    WHERE taught > make_timestamp($1::BIGINT) AND name <> '' ORDER BY taught, rowid
"""
_MARKED = """
    SELECT kcid, first(before ORDER BY taught, rowid) FROM lessons
    WHERE taught > make_timestamp($1::BIGINT) AND name = '' GROUP BY kcid ORDER BY kcid
"""
_FORGET_NOTES = "DELETE FROM lessons WHERE taught > make_timestamp($1::BIGINT) AND name <> ''"
_FORGET_ONE = "DELETE FROM training WHERE kcid = $1 AND name = $2"
_TITLES = """
    SELECT c.url, p.title FROM crawl c JOIN pages p USING (oid) WHERE c.url IN (SELECT unnest($1::VARCHAR[]))
"""


@contextmanager
def noting(store: Store) -> Iterator[None]:
    """Note what is done to the training documents, and to the marks of topics, inside."""
    before, marks = _training(store), _marks(store)
    try:
        yield
    finally:  # what was done before an error is done
        _note(store, before)
        for kcid, mark in _marks(store).items():
            if marks.get(kcid, mark) != mark:
                store.query(_NOTE, [int(time.time() * 1e6), kcid, "", json.dumps({"type": marks[kcid]})], write=True)


def _note(store: Store, before: dict[Key, Row]) -> None:
    after, now_us = _training(store), int(time.time() * 1e6)
    for key in sorted({*before, *after}):
        was, is_now = before.get(key), after.get(key)
        if was != is_now and {row["source"] for row in (was, is_now) if row} != {ARCHETYPE}:
            said = None if was is None else json.dumps(was)
            store.query(_NOTE, [now_us, *key, said], write=True)


def pending(store: Store) -> dict[str, Any]:
    """What the user has changed since the model that judges was trained."""
    learned = _learned_by(store.load_models())
    made_us = _made_us(learned)
    now, before = _training(store), _before(store, made_us)
    for key, row in now.items():  # changed by other ways: a taxonomy that was added, SQL
        if row["added"] * 1e6 > made_us and row["source"] != ARCHETYPE:
            before.setdefault(key, None)
    changes = [(key, said) for key, was in before.items() if (said := _said(was, now.get(key)))]
    paths = {record.kcid: record.path or record.name for record in store.load_topics()}
    titles = dict(store.query(_TITLES, [[name for (_, name), _ in changes]], max_rows=_MAX_ROWS).rows)
    listed = [
        {"topic": paths.get(kcid, ""), "name": name, "title": titles.get(name) or "", "change": said}
        for (kcid, name), said in changes
    ]
    listed += _marked(store, made_us)
    return {"model": learned.version if learned else 0, "count": len(listed), "changes": listed}


def forget(store: Store, version: int) -> int:
    """Take back what the user changed since a model was trained; how many documents that concerned."""
    models = store.load_models()
    if version not in {model.version for model in models}:
        raise InputError(f"there is no model {version}", "`opilio models FOLDER` shows those there are.")
    learned = _learned_by([model for model in models if model.version <= version])
    made_us = _made_us(learned)
    now, batch, restored = _training(store), Batch(), 0
    for key, row in _before(store, made_us).items():
        if row != now.get(key):
            restored += 1
            store.query(_FORGET_ONE, list(key), write=True)
            if row is not None:
                batch.training.add(*(row[name] for name in (*_COLUMNS, "added")))
    store.write(batch)
    store.query(_FORGET_NOTES, [made_us], write=True)
    return restored


def _marked(store: Store, made_us: int) -> list[dict[str, Any]]:
    """The topics that are wanted now and were not then, or the other way round."""
    records = {record.kcid: record for record in store.load_topics()}
    found = []
    for kcid, before in store.query(_MARKED, [made_us], max_rows=_MAX_ROWS).rows:
        if kcid not in records:
            continue
        is_wanted = records[kcid].type in _WANTED
        if is_wanted != (json.loads(before)["type"] in _WANTED):
            said = "wanted now" if is_wanted else "not wanted any more"
            found.append({"topic": records[kcid].path or records[kcid].name, "name": "", "title": "", "change": said})
    return found


def _marks(store: Store) -> dict[int, str]:
    return {record.kcid: record.type for record in store.load_topics()}


def _learned_by(models: list[ModelRecord]) -> ModelRecord | None:
    """The newest of these models, or the older one that it is; None when there is none."""
    by_version = {model.version: model for model in models}
    found = models[0] if models else None
    while found is not None and (again := _AGAIN.fullmatch(found.reason)):
        found = by_version.get(int(again[1]))
    return found


def _made_us(model: ModelRecord | None) -> int:
    return int(model.created_s * 1e6) if model is not None else 0


def _training(store: Store) -> dict[Key, Row]:
    rows = store.query(_TRAINING, max_rows=_MAX_ROWS).rows
    found = (dict(zip((*_COLUMNS, "added"), row, strict=True)) for row in rows)
    return {(row["kcid"], row["name"]): {**row, "added": row["added"] or 0.0} for row in found}


def _before(store: Store, made_us: int) -> dict[Key, Row | None]:
    """The rows of the documents that were changed since then, as they were then."""
    found: dict[Key, Row | None] = {}
    for kcid, name, before in store.query(_SINCE, [made_us], max_rows=_MAX_ROWS).rows:
        found.setdefault((kcid, name), None if before is None else json.loads(before))
    return found


def _said(was: Row | None, is_now: Row | None) -> str:
    """A change in words; empty when another model would not come of it."""
    if was is None or is_now is None:
        row = was or is_now
        if row is None:
            return ""
        return f"{'example' if row['positive'] else 'counter-example'} {'added' if was is None else 'dropped'}"
    if was["positive"] != is_now["positive"]:
        return "now an example" if is_now["positive"] else "now a counter-example"
    return "another part of it" if was["text"] != is_now["text"] else ""
