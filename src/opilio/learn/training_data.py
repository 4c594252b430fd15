"""Topics, marks and examples: put into the store of a collection, changed there, recorded, undone and fingerprinted.

The fingerprint of topics, examples and settings is stored with each model: when it differs, another model would come of
training.

Each change that the user makes is recorded with the row that was there before (table `lessons`), listed until a model
has learned it, and can be undone. What a crawl adds by itself, archetypes, is not recorded. A model that was chosen
again counts as the one that it is. Marks of topics are recorded too, under no name, because pages are judged by them
when they are re-judged. They are not undone.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import xxhash

from opilio.analyze.files import FileText
from opilio.errors import InputError
from opilio.settings import Settings, to_toml
from opilio.store import Batch, Store, training, user_questions
from opilio.store.loader import ModelRecord, TrainingRecord
from opilio.store.pages import titles_of_urls
from opilio.store.topics import next_kcid, remove_topic
from opilio.store.training import ARCHETYPE, ExampleKey, ExampleRow
from opilio.store.user_questions import reopen_questions_since
from opilio.topics import (
    Change,
    ExampleKind,
    Mark,
    Seed,
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
MIN_CONFIRMED = 3
"""A user who gave a question and no example must have confirmed so many pages before a model replaces the words: models
of one or two pages led crawls astray (docs/results/log.md)."""
MANY_CONFIRMED = 10
"""So many answers are yes before a model replaces words that the answers have proved right."""
FOUND = "found"
"""The source of seeds that providers found."""
_NEVER = 2**31
_WANTED = (Mark.GOOD, Mark.SUBSUMED)

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
            _add_seed(batch, dataclasses.replace(seed, kcid=merge.numbers[seed.kcid]), source, now_s)
            added += 1
    known = {(record.kcid, record.name) for record in store.load_training(page_texts=False)}
    for given in tree.training():
        example = dataclasses.replace(given, kcid=merge.numbers[given.kcid])
        if (example.kcid, _name(example)) not in known:
            _add_example(batch, example, source, read_file)
    store.write(batch)
    return added


def add_found_seeds(store: Store, seeds: Iterable[Seed]) -> list[Seed]:
    """Add seeds that providers found to a collection; what is there already stays. Returns the new ones."""
    have, batch, now_s = {seed.url for seed in store.load_seeds()}, Batch(), time.time()
    new = [seed for seed in seeds if seed.url not in have]
    for seed in new:
        _add_seed(batch, seed, FOUND, now_s)
    store.write(batch)
    return new


def _add_seed(batch: Batch, seed: Seed, source: str, now_s: float) -> None:
    found = [find._asdict() for find in seed.found] or None
    batch.seeds.add(seed.url, seed.kcid, FOUND if found else source, seed.title, now_s, found)


def mark(store: Store, path: str, *, good: bool) -> dict[str, str]:
    """Mark a topic good or null. Returns the topics whose mark has changed, by path, and the mark each has now."""
    change = mark_topic(store.load_topics(), path, good=good)
    apply(store, change)
    return {record.path or record.name: record.type for record in change.changed}


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
    names = [record.name for record in store.load_training(page_texts=False) if record.kcid == topic.kcid]
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
        return cls(topics, [_example(record, trimmed) for record in store.load_training(page_texts=False)])

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
    """Whether there is enough to learn from but keywords."""
    return training.has_documents(store, MIN_EXAMPLE_WORDS, MIN_CONFIRMED)


def words_suffice(store: Store) -> bool:
    """Whether the words of a question judge well, so that a model of the few confirmed pages would find less.

    They do while the answers to the crawl's questions are all there is to learn from, and less than a third is no.
    """
    answers = Counter(row.answer for row in user_questions.load_questions(store))
    yes, no = answers["yes"], answers["no"]
    if training.has_documents(store, MIN_EXAMPLE_WORDS, _NEVER) or training.count_confirmed(store) > yes:
        return False
    return yes < MANY_CONFIRMED and 2 * no < yes


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


@contextmanager
def recording_changes(store: Store) -> Iterator[int]:
    """Record what is done to the training documents, and to the marks of topics, inside.

    Gives the moment, in microseconds, under which all of it is recorded: `undo_changes_at` takes it.
    """
    before, marks, now_us = training.example_rows(store), _marks(store), int(time.time() * 1e6)
    try:
        yield now_us
    finally:  # what was done before an error is done
        _record(store, before, now_us)
        for kcid, mark in _marks(store).items():
            if marks.get(kcid, mark) != mark:
                training.record_change(store, now_us, kcid, "", json.dumps({"type": marks[kcid]}))


def _record(store: Store, before: dict[ExampleKey, ExampleRow], now_us: int) -> None:
    after = training.example_rows(store)
    for key in sorted({*before, *after}):
        was, is_now = before.get(key), after.get(key)
        if was != is_now and {row["source"] for row in (was, is_now) if row} != {ARCHETYPE}:
            training.record_change(store, now_us, *key, None if was is None else json.dumps(was))


def pending_changes(store: Store) -> dict[str, Any]:
    """What the user has changed since the model that judges was trained.

    `missing` is how many pages must still be confirmed for a first model, 0 when there is one or it can be trained.
    `stored` is whether there are pages to confirm.
    """
    learned = _learned_by(store.load_models())
    made_us = _made_us(learned)
    now, before = training.example_rows(store), _before(store, made_us)
    for key, row in now.items():  # changed in other ways: a taxonomy that was added, SQL
        if row["added"] * 1e6 > made_us and row["source"] != ARCHETYPE:
            before.setdefault(key, None)
    changes = [(key, said) for key, was in before.items() if (said := _said(was, now.get(key)))]
    paths = {record.kcid: record.path or record.name for record in store.load_topics()}
    titles = titles_of_urls(store, [name for (_, name), _ in changes])
    listed = [
        {"topic": paths.get(kcid, ""), "name": name, "title": titles.get(name) or "", "change": said}
        for (kcid, name), said in changes
    ]
    listed += _marked(store, made_us)
    is_by_words = learned is None and any(record.keywords for record in store.load_topics())
    missing = MIN_CONFIRMED - training.count_confirmed(store) if is_by_words and not has_documents(store) else 0
    return {
        "model": learned.version if learned else 0,
        "count": len(listed),
        "changes": listed,
        "missing": max(0, missing),
        "stored": store.count_rows("pages") > 0,
    }


def undo_changes(store: Store, version: int) -> int:
    """Undo what the user changed since a model was trained; how many documents that concerned."""
    models = store.load_models()
    if version not in {model.version for model in models}:
        raise InputError(f"there is no model {version}", "`opilio models FOLDER` shows those there are.")
    learned = _learned_by([model for model in models if model.version <= version])
    made_us = _made_us(learned)
    restored = _restore(store, _before(store, made_us))
    training.delete_changes_since(store, made_us)
    reopen_questions_since(store, made_us)
    return restored


def undo_changes_at(store: Store, moment_us: int, name: str = "") -> int:
    """Undo what the user changed at one moment, except documents that were changed since; how many that concerned.

    With `name`, only the changes of the document of this name.
    """
    later = {(kcid, of) for kcid, of, _ in training.changes_since(store, moment_us)}
    changed = _before(store, moment_us - 1)
    mine = {key: row for key, row in changed.items() if key not in later and name in ("", key[1])}
    return _restore(store, mine)


def _restore(store: Store, rows: Mapping[ExampleKey, ExampleRow | None]) -> int:
    """Give documents the rows that they had; None: they were not there. Returns how many differ from what is there."""
    now, batch, restored = training.example_rows(store), Batch(), 0
    for key, row in rows.items():
        if row != now.get(key):
            restored += 1
            training.delete_example(store, *key)
            if row is not None:
                batch.training.add(*(row[name] for name in (*training.COLUMNS, "added")))
    store.write(batch)
    return restored


def _marked(store: Store, made_us: int) -> list[dict[str, Any]]:
    """The topics that are wanted now and were not then, or the other way round."""
    records = {record.kcid: record for record in store.load_topics()}
    found = []
    for kcid, before in training.mark_changes_since(store, made_us):
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
    while found is not None and found.cause.repeats is not None:
        found = by_version.get(found.cause.repeats)
    return found


def _made_us(model: ModelRecord | None) -> int:
    return int(model.created_s * 1e6) if model is not None else 0


def _before(store: Store, made_us: int) -> dict[ExampleKey, ExampleRow | None]:
    """The rows of the documents that were changed since then, as they were then."""
    found: dict[ExampleKey, ExampleRow | None] = {}
    for kcid, name, before in training.changes_since(store, made_us):
        found.setdefault((kcid, name), None if before is None else json.loads(before))
    return found


def _said(was: ExampleRow | None, is_now: ExampleRow | None) -> str:
    """A change in words; empty when another model would not come of it."""
    if was is None or is_now is None:
        row = was or is_now
        if row is None:
            return ""
        return f"{'example' if row['positive'] else 'counter-example'} {'added' if was is None else 'dropped'}"
    if was["positive"] != is_now["positive"]:
        return "now an example" if is_now["positive"] else "now a counter-example"
    return "another part of it" if was["text"] != is_now["text"] else ""
