"""Changes that the user makes to training documents: recorded, listed until a model has learned them, and undone.

Each change is recorded with the row that was there before (table `lessons`). What a crawl adds by itself, archetypes,
is not the user's and is not recorded. A model that was chosen again counts as the one that it is. Marks of topics are
recorded too, under no name, because pages are judged by them when they are re-judged. They are not undone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opilio.errors import InputError
from opilio.store import Batch, Store, training
from opilio.store.loader import ModelRecord
from opilio.store.pages import titles_of_urls
from opilio.store.training import ARCHETYPE, ExampleKey, ExampleRow
from opilio.topics import Mark

_WANTED = (Mark.GOOD, Mark.SUBSUMED)


@contextmanager
def recording_changes(store: Store) -> Iterator[None]:
    """Record what is done to the training documents, and to the marks of topics, inside."""
    before, marks = training.example_rows(store), _marks(store)
    try:
        yield
    finally:  # what was done before an error is done
        _record(store, before)
        for kcid, mark in _marks(store).items():
            if marks.get(kcid, mark) != mark:
                before_json = json.dumps({"type": marks[kcid]})
                training.record_change(store, int(time.time() * 1e6), kcid, "", before_json)


def _record(store: Store, before: dict[ExampleKey, ExampleRow]) -> None:
    after, now_us = training.example_rows(store), int(time.time() * 1e6)
    for key in sorted({*before, *after}):
        was, is_now = before.get(key), after.get(key)
        if was != is_now and {row["source"] for row in (was, is_now) if row} != {ARCHETYPE}:
            training.record_change(store, now_us, *key, None if was is None else json.dumps(was))


def pending_changes(store: Store) -> dict[str, Any]:
    """What the user has changed since the model that judges was trained."""
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
    return {"model": learned.version if learned else 0, "count": len(listed), "changes": listed}


def undo_changes(store: Store, version: int) -> int:
    """Undo what the user changed since a model was trained; how many documents that concerned."""
    models = store.load_models()
    if version not in {model.version for model in models}:
        raise InputError(f"there is no model {version}", "`opilio models FOLDER` shows those there are.")
    learned = _learned_by([model for model in models if model.version <= version])
    made_us = _made_us(learned)
    now, batch, restored = training.example_rows(store), Batch(), 0
    for key, row in _before(store, made_us).items():
        if row != now.get(key):
            restored += 1
            training.delete_example(store, *key)
            if row is not None:
                batch.training.add(*(row[name] for name in (*training.COLUMNS, "added")))
    store.write(batch)
    training.delete_changes_since(store, made_us)
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
