"""Topics, marks and examples: put into the store of a collection, changed there, and fingerprinted.

The fingerprint of topics, examples and settings is stored with each model: when it differs, another model would come of
training.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import NamedTuple, Self

import xxhash

from opilio.analyze.files import FileText
from opilio.errors import InputError
from opilio.settings import Settings, to_toml
from opilio.store import Batch, Store, training
from opilio.store.loader import TrainingRecord
from opilio.store.topics import next_kcid, remove_topic
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
"""A text with fewer words, such as a query, says what is wanted but is no document to learn from."""


ReadFile = Callable[[Path], FileText]
"""Reads a file of any format; raises InputError when it cannot."""


def add_inputs(store: Store, tree: TopicTree, source: str, read_file: ReadFile) -> int:
    """Put a tree with its seeds and examples into the store; what is there already stays. Returns the new seeds."""
    records = store.load_topics()
    merge = merge_tree(records, tree, first_kcid=next_kcid(store) if records else 0)
    batch, now_s = Batch(), time.time()
    _add_topics(batch, merge.change.changed)
    have = {seed.url for seed in store.load_seeds()}
    added = 0
    for seed in tree.seeds:
        if seed.url not in have:
            batch.seeds.add(seed.url, merge.numbers[seed.kcid], source, seed.title, now_s)
            added += 1
    known = {(record.kcid, record.name) for record in store.load_training()}
    for given in tree.training():
        example = dataclasses.replace(given, kcid=merge.numbers[given.kcid])
        if (example.kcid, _name(example)) not in known:
            _add_example(batch, example, source, read_file)
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
    given = TrainingInput(topic.kcid, kind, value, positive)
    batch = Batch()
    _add_example(batch, given, "added", read_file)
    training.delete_example(store, topic.kcid, _name(given))  # it may have been a counter-example before
    store.write(batch)
    return _name(given)


def drop_example(store: Store, path: str, name: str) -> None:
    """Remove a document from a topic."""
    topic = find_topic(store.load_topics(), path)
    names = [record.name for record in store.load_training() if record.kcid == topic.kcid]
    if name not in names:
        shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        raise InputError(f"{name!r} is no example of topic {topic.path or topic.name!r}", f"It has: {shown or 'none'}.")
    training.delete_example(store, topic.kcid, name)


def apply(store: Store, change: Change) -> None:
    """Write a change of topics."""
    batch = Batch()
    _add_topics(batch, change.changed)
    store.write(batch)
    for kcid in sorted(change.removed):
        remove_topic(store, kcid)


class TrainingState(NamedTuple):
    """All that a model depends on: where two states differ, so may the models trained on them."""

    topics: list[tuple[object, ...]]
    examples: list[tuple[object, ...]]
    """Topic, name, whether it is about the topic, whether its page is there, and its text unless it is the page's."""

    @classmethod
    def of(cls, store: Store) -> Self:
        """The state of a collection now."""
        topics: list[tuple[object, ...]] = [(t.kcid, t.path, t.type, t.keywords) for t in store.load_topics()]
        trimmed = training.trimmed_examples(store)
        return cls(topics, [_example(record, trimmed) for record in store.load_training()])

    def changed(self, dropped: Collection[tuple[int, str]], added: Iterable[tuple[int, str]]) -> TrainingState:
        """The same with some examples dropped, and the stored pages of some URLs added; by topic and name."""
        kept = [example for example in self.examples if (example[0], example[1]) not in dropped]
        return TrainingState(self.topics, [*kept, *((kcid, url, True, True, True) for kcid, url in added)])

    def fingerprint(self, settings: Settings) -> str:
        """Differs when topics, examples or settings do."""
        said = to_toml(Settings(classify=settings.classify, oasis=settings.oasis))
        whole = repr((self.topics, self.examples, said))
        return xxhash.xxh3_64_hexdigest(whole.encode("utf-8", "replace"))


def _example(record: TrainingRecord, trimmed: Collection[tuple[int, str]]) -> tuple[object, ...]:
    is_page = record.kind == "url" and (record.kcid, record.name) not in trimmed
    return record.kcid, record.name, record.positive, record.oid is not None, is_page or record.text


def fingerprint(store: Store, settings: Settings) -> str:
    """Differs from that of a model when topics, examples or settings have changed since it was trained."""
    return TrainingState.of(store).fingerprint(settings)


def has_documents(store: Store) -> bool:
    """Whether there is anything to learn from but keywords."""
    return training.has_documents(store, MIN_EXAMPLE_WORDS)


def _add_topics(batch: Batch, records: Iterable[TopicRecord]) -> None:
    for record in records:
        batch.topics.add(*record)


def _add_example(batch: Batch, given: TrainingInput, source: str, read_file: ReadFile) -> None:
    title, text = given.title, None
    if given.kind is ExampleKind.TEXT:
        text = given.value
    elif given.kind is ExampleKind.FILE:
        file = read_file(Path(given.value))
        title, text = title or file.title, file.text
        if not text.strip():
            raise InputError(f"{given.value}: no text found in it", "Give another file, or the text itself.")
    batch.training.add(_name(given), given.kind.value, given.kcid, given.positive, source, title, text, time.time())


def _name(given: TrainingInput) -> str:
    """What an example is known by: its address or path, or the beginning of its text."""
    return " ".join(given.value.split())[:100] if given.kind is ExampleKind.TEXT else given.value
