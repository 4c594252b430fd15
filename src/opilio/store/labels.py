"""What a labeller said of pages: the table `labels`, and what it is given of a page."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from opilio.store.database import Store

_MAX_ROWS = 2**20
_ADD = """
    INSERT INTO labels VALUES (make_timestamp($1::BIGINT), $2, $3, $4, $5, $6, $7, $8, $9, FALSE)
"""
_LATEST = """
    SELECT oid, kcid, model, prompt, last(answer::VARCHAR ORDER BY rowid), last(reason ORDER BY rowid),
           bool_or(overruled)
    FROM labels WHERE answer <> 'failed' GROUP BY oid, kcid, model, prompt
"""
_SPENT = "SELECT coalesce(sum(calls), 0)::BIGINT, coalesce(sum(tokens), 0)::BIGINT FROM labels"
_OVERRULE = "UPDATE labels SET overruled = TRUE WHERE oid = $1"
_LISTED = """
    SELECT l.oid, coalesce(c.url, ''), coalesce(p.title, ''), coalesce(nullif(t.path, ''), t.name, ''), l.model,
           l.answer::VARCHAR, l.reason, l.calls, l.tokens, l.overruled, strftime(l.labelled, '%Y-%m-%d %H:%M:%S')
    FROM labels l LEFT JOIN crawl c ON c.oid = l.oid LEFT JOIN pages p ON p.oid = l.oid
    LEFT JOIN topics t ON t.kcid = l.kcid
    ORDER BY l.rowid DESC LIMIT $1
"""
_LISTED_NAMES = (
    "oid",
    "url",
    "title",
    "topic",
    "model",
    "answer",
    "reason",
    "calls",
    "tokens",
    "overruled",
    "labelled",
)
_TEXTS = """
    SELECT oid, left(coalesce(nullif(main_text, ''), text, ''), $2) FROM pages
    WHERE oid IN (SELECT unnest($1::BIGINT[]))
"""


class Label(NamedTuple):
    """What a model said of one question."""

    oid: int
    kcid: int
    model: str
    prompt: int
    """Hash of all that the model was given."""
    answer: str
    """yes, no, unsure or failed."""
    reason: str
    calls: int = 0
    tokens: int = 0


class KnownLabel(NamedTuple):
    """An answer of a model that is stored, so that nobody pays for it again."""

    oid: int
    kcid: int
    model: str
    prompt: int
    answer: str
    reason: str
    overruled: bool
    """The user undid it."""


class Spending(NamedTuple):
    """What all labels of a collection took."""

    calls: int
    tokens: int


def add_label(store: Store, at_us: int, label: Label) -> None:
    """Store what a model said."""
    store.query(_ADD, [at_us, *label], write=True)


def known_labels(store: Store) -> list[KnownLabel]:
    """All answers that are stored; the latest of those to the same question."""
    return [KnownLabel(*row) for row in store.select(_LATEST, max_rows=_MAX_ROWS).rows]


def spending(store: Store) -> Spending:
    """How many requests and tokens the labels took so far."""
    return Spending(*store.select(_SPENT).rows[0])


def overrule_labels(store: Store, oid: int) -> None:
    """Note that the user undid an answer about a page: a labeller does not give it again."""
    store.query(_OVERRULE, [oid], write=True)


def list_labels(store: Store, limit: int) -> list[dict[str, Any]]:
    """The latest labels first, with their pages."""
    rows = store.select(_LISTED, [limit], max_rows=limit).rows
    return [dict(zip(_LISTED_NAMES, row, strict=True)) for row in rows]


def label_texts(store: Store, oids: Collection[int], most_chars: int) -> dict[int, str]:
    """The beginnings of the texts of some pages."""
    return dict(store.select(_TEXTS, [sorted(oids), most_chars], max_rows=_MAX_ROWS).rows)
