"""What the user teaches: topics, marks and examples, put into the store of a collection or changed there."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import xxhash

from opilio.errors import InputError
from opilio.settings import Settings, to_toml
from opilio.store import Batch, Store
from opilio.store.loading import TrainingRecord
from opilio.topics import (
    Change,
    ExampleKind,
    TopicRecord,
    TopicTree,
    TrainingInput,
    find_topic,
    mark_topic,
    merge_tree,
    parse_example,
)

MIN_EXAMPLE_WORDS = 30
"""A text with fewer words, such as a query, tells what is wanted but is no document to learn from."""
ARCHETYPE = "archetype"
"""In the column `training.source`: a crawl added the document, and nobody vouches for it."""


@dataclass(frozen=True)
class FileText:
    """What a file says."""

    title: str
    text: str


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
