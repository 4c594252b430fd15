"""The history of a collection: its runs, and the notices of its crawls."""

from __future__ import annotations

from typing import NamedTuple

import duckdb

from opilio.store.pages import DATE

_LAST_RUN = f"""
    SELECT run, strftime(started, '{DATE}'), strftime(ended, '{DATE}'), coalesce(reason, ''),
           (SELECT count(*) FROM crawl WHERE state = 'waiting')
    FROM runs ORDER BY run DESC LIMIT 1
"""
_LATEST_NOTICES = f"""
    SELECT strftime(noticed, '{DATE}'), kind, text, coalesce(remedy, '') FROM notices
    WHERE noticed >= (SELECT coalesce(max(started), 'epoch'::TIMESTAMP) FROM runs)
    ORDER BY coalesce(remedy, '') <> '' DESC, noticed DESC, rowid DESC LIMIT $1
"""


class LastRun(NamedTuple):
    """The latest run; `waiting` is what is queued now."""

    run: int | None = None
    started: str | None = None
    ended: str | None = None
    reason: str | None = None
    waiting: int | None = None


class Notice(NamedTuple):
    """What a crawl had to say."""

    noticed: str
    kind: str
    text: str
    remedy: str


def last_run(cursor: duckdb.DuckDBPyConnection) -> LastRun:
    """The latest run; nothing but None when there was none."""
    rows = cursor.execute(_LAST_RUN).fetchall()
    return LastRun(*rows[0]) if rows else LastRun()


def latest_notices(cursor: duckdb.DuckDBPyConnection, limit: int) -> list[Notice]:
    """Notices of the latest run: those with a remedy first, then the newest."""
    return [Notice(*row) for row in cursor.execute(_LATEST_NOTICES, [limit]).fetchall()]
