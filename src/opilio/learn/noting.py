"""Notes of what the user changes in the training documents: what no model has learned yet, and how to take it back.

Each change is noted with the row that stood there before (table `lessons`). What a crawl adds by itself, archetypes, is
not the user's and is not noted. A model that was chosen again counts as the one that it is. Marks of topics are noted,
too, under no name: pages are judged by them when they are judged anew. They are not taken back.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opilio.errors import InputError
from opilio.learn.lessons import ARCHETYPE
from opilio.store import Batch, Store
from opilio.store.loading import ModelRecord
from opilio.topics import Mark

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
_FORGET = "DELETE FROM training WHERE kcid = $1 AND name = $2"
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
            store.query(_FORGET, list(key), write=True)
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
