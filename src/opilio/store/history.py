"""The history of a collection: its runs, the notices of its crawls, its harvest over time, and its hosts."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import duckdb

from opilio.model import RELEVANT
from opilio.store.database import Store
from opilio.store.pages import DATE
from opilio.topics.hierarchy import ROOT

_LAST_RUN = f"""
    SELECT run, strftime(started, '{DATE}'), strftime(ended, '{DATE}'), coalesce(reason, ''),
           (SELECT count(*) FROM crawl WHERE state = 'waiting')
    FROM runs ORDER BY run DESC LIMIT 1
"""
_LATEST_NOTICES = f"""
    SELECT strftime(noticed, '{DATE}'), kind, text, coalesce(remedy, ''), coalesce(remedies, '') FROM notices
    WHERE noticed >= (SELECT coalesce(max(started), 'epoch'::TIMESTAMP) FROM runs)
    ORDER BY coalesce(remedy, '') <> '' DESC, noticed DESC, rowid DESC LIMIT $1
"""


_RUNS = "SELECT run, started, ended, reason FROM runs ORDER BY run"
_LAST_VISIT = "SELECT max(visited) FROM visits WHERE visited >= ? AND (? IS NULL OR visited < ?)"
_HARVEST = f"""
    WITH numbered AS (
        SELECT visited, relevance, CASE WHEN kcid <> {ROOT} OR relevance >= {RELEVANT} THEN kcid END AS topic,
               row_number() OVER (ORDER BY visited, oid) - 1 AS n, count(*) OVER () AS total
        FROM pages
    )
    SELECT n * least($points, total) // total AS part, count(*), max(visited), count(relevance), sum(relevance),
           count(*) FILTER (relevance >= {RELEVANT}), histogram(topic)
    FROM numbered GROUP BY part ORDER BY part
"""
_GROWTH = f"""
    WITH numbered AS (
        SELECT relevance, row_number() OVER (ORDER BY visited, oid) - 1 AS n, count(*) OVER () AS total FROM pages
    )
    SELECT count(*), count(*) FILTER (relevance >= {RELEVANT})
    FROM numbered GROUP BY n * least($points, total) // total ORDER BY n * least($points, total) // total
"""
_SPEED = """
    WITH run AS (SELECT unnest($started::TIMESTAMP[]) AS started, unnest($before_s::DOUBLE[]) AS before_s)
    SELECT ((before_s + epoch(visited) - epoch(started)) // $step_s)::INTEGER AS part,
           count(*) FILTER (kind = 'page' AND outcome = 'ok'), count(*)
    FROM visits ASOF JOIN run ON visits.visited >= run.started
    GROUP BY part ORDER BY part
"""
_NOTICES = """
    SELECT noticed, kind, text, coalesce(remedy, ''), coalesce(remedies, '') FROM notices
    ORDER BY noticed DESC, rowid DESC LIMIT ?
"""
_BEST_STATE = "CASE WHEN bool_or(state = 'ok') THEN 'ok' WHEN bool_or(state = 'slow') THEN 'slow' ELSE 'bad' END"
_HOSTS = f"""
    WITH rated AS (  -- a host is as good as its better origin
        SELECT sid, {_BEST_STATE} AS state, max(failures) AS failures, max(crawl_delay_s) AS crawl_delay_s
        FROM origins GROUP BY sid
    ),
    waits AS (SELECT sid, count(*) AS waiting FROM crawl WHERE state = 'waiting' GROUP BY sid),
    shown AS (
        SELECT h.*, coalesce(r.state, 'ok') AS state, coalesce(r.failures, 0) AS failures,
               coalesce(r.crawl_delay_s, 0) AS crawl_delay_s, coalesce(w.waiting, 0) AS waiting,
               row_number() OVER (ORDER BY h.pages DESC, h.sid) AS by_pages,
               row_number() OVER (ORDER BY coalesce(w.waiting, 0) DESC, h.sid) AS by_waiting,
               CASE WHEN r.state <> 'ok' THEN row_number() OVER (
                   ORDER BY coalesce(r.state, 'ok') = 'ok', r.failures DESC, h.sid) END AS by_failures
        FROM hosts h LEFT JOIN rated r USING (sid) LEFT JOIN waits w USING (sid)
        QUALIFY by_pages <= $top OR by_waiting <= $top OR by_failures <= $top
    )
    SELECT s.host, s.state, s.failures, s.pages, s.requests, s.bytes, s.waiting, s.crawl_delay_s,
           avg(p.relevance), avg(p.took_ms)
    FROM shown s LEFT JOIN crawl c ON c.sid = s.sid AND c.state = 'fetched' LEFT JOIN pages p ON p.oid = c.oid
    GROUP BY ALL ORDER BY s.pages DESC, s.waiting DESC, s.host
"""

_REASON = "SELECT coalesce(reason, 'it was killed') FROM runs ORDER BY run DESC LIMIT 1"
_HOST_STATES = f"""
    SELECT coalesce(o.state, 'ok'), count(*)
    FROM hosts LEFT JOIN (SELECT sid, {_BEST_STATE} AS state FROM origins GROUP BY sid) o USING (sid) GROUP BY 1
"""
_QUEUED = """
    SELECT CASE WHEN t.path = '' THEN t.name ELSE t.path END, count(c.oid) FROM topics t
    LEFT JOIN crawl c ON c.topic = t.kcid AND c.state = 'waiting' GROUP BY t.kcid, 1 ORDER BY t.kcid
"""
_LAST_NOTICES = """
    SELECT kind, text, coalesce(remedy, ''), coalesce(remedies, '') FROM notices
    ORDER BY noticed DESC, rowid DESC LIMIT ?
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
    """What can be done, in words."""
    remedies: str
    """The same as JSON (`learn/remedies.py`)."""


def last_run(cursor: duckdb.DuckDBPyConnection) -> LastRun:
    """The latest run; nothing but None when there was none."""
    rows = cursor.execute(_LAST_RUN).fetchall()
    return LastRun(*rows[0]) if rows else LastRun()


def latest_notices(cursor: duckdb.DuckDBPyConnection, limit: int) -> list[Notice]:
    """Notices of the latest run: those with a remedy first, then the newest."""
    return [Notice(*row) for row in cursor.execute(_LATEST_NOTICES, [limit]).fetchall()]


# -- runs and notices


class RunRow(NamedTuple):
    """A run of the crawler; one that was killed, or still runs, has no end."""

    number: int
    started: datetime.datetime
    ended: datetime.datetime | None
    reason: str | None


def load_runs(store: Store) -> list[RunRow]:
    """All runs, oldest first."""
    return [RunRow(*row) for row in store.select(_RUNS, max_rows=2**16).rows]


def last_visit(store: Store, since: datetime.datetime, before: datetime.datetime | None) -> datetime.datetime | None:
    """The last request between two moments; None when there was none."""
    found: datetime.datetime | None = store.select(_LAST_VISIT, [since, before, before]).rows[0][0]
    return found


def notices_with_times(store: Store, limit: int) -> list[tuple[datetime.datetime, str, str, str, str]]:
    """The latest notices, newest first: when, kind, text, what can be done in words and as JSON."""
    return store.select(_NOTICES, [limit]).rows


# -- harvest and speed


class HarvestPart(NamedTuple):
    """One of the parts of equal size into which all pages are divided, by the time of their visit."""

    pages: int
    until: datetime.datetime
    judged: int
    relevance: float | None
    """The sum over the pages that were judged."""
    relevant: int
    topics: dict[int, int] | None
    """How many pages each topic took."""


def harvest_parts(store: Store, points: int) -> list[HarvestPart]:
    """All pages in at most `points` parts, oldest first."""
    rows = store.select(_HARVEST, {"points": points}, max_rows=points + 1).rows
    return [HarvestPart(*row[1:]) for row in rows]


def growth_parts(cursor: duckdb.DuckDBPyConnection, points: int) -> list[tuple[int, int]]:
    """All pages in at most `points` parts of equal size, oldest first: pages, and relevant ones."""
    return cursor.execute(_GROWTH, {"points": points}).fetchall()


def requests_by_time(
    store: Store, started: Sequence[datetime.datetime], before_s: Sequence[float], step_s: float, max_parts: int
) -> dict[int, tuple[int, int]]:
    """Pages and requests in each `step_s` seconds of crawling, by the number of the step.

    `started` are the beginnings of the runs, `before_s` the seconds of crawling before each.
    """
    asked: dict[str, Any] = {"started": list(started), "before_s": list(before_s), "step_s": step_s}
    rows = store.select(_SPEED, asked, max_rows=max_parts).rows
    return {part: (pages, requests) for part, pages, requests in rows}


# -- hosts


class HostFigures(NamedTuple):
    """A host, with the means over its pages."""

    host: str
    state: str
    failures: int
    pages: int
    requests: int
    bytes: int
    waiting: int
    crawl_delay_s: float
    relevance: float | None
    took_ms: float | None


def host_figures(store: Store, top: int) -> list[HostFigures]:
    """The hosts with the most pages, those that fail most and those with the most queued URLs: `top` of each."""
    return [HostFigures(*row) for row in store.select(_HOSTS, {"top": top}, max_rows=3 * top).rows]


# -- the last crawl


@dataclass(frozen=True)
class StoredFigures:
    """What the database says of the last crawl."""

    reason: str
    """Why it ended."""
    hosts: dict[str, int]
    """Hosts by state."""
    queued: dict[str, int]
    """Queued URLs by topic."""
    notices: list[dict[str, str]]
    """The latest notices, the newest last; `remedies` is JSON."""


def stored_figures(store: Store, max_notices: int) -> StoredFigures:
    """The figures of the last crawl."""
    reasons = store.select(_REASON).rows
    notices = reversed(store.select(_LAST_NOTICES, [max_notices]).rows)
    return StoredFigures(
        reason=reasons[0][0] if reasons else "never crawled",
        hosts=dict(store.select(_HOST_STATES).rows),
        queued=dict(store.select(_QUEUED).rows),
        notices=[dict(zip(("kind", "text", "remedy", "remedies"), notice, strict=True)) for notice in notices],
    )
