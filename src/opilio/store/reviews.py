"""The assisted review: the tables `reviews` and `review_decisions`, and the groups of pages that are judged by sample
(OASIS 4.7).

The latest verdict on a page counts, and the latest decision on a group.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import NamedTuple

from opilio.store.database import Store

KEPT, DROPPED, BY_RULE = "kept", "dropped", "by rule"
"""Decisions of the user on a group; the last takes one back."""
DOUBTFUL, UNDOUBTED, FILTERED = "doubtful", "undoubted", "filtered"
"""Kinds of groups: what a topic took by one metric, what it took without doubt, and what it did not take."""
MIN_MAIN_CHARS = 200
"""A page with less main text is shown whole."""
_MAX_ROWS = 2**20

_VERDICT = """(
        SELECT oid, last(verdict ORDER BY rowid) AS verdict, max(judged) AS judged FROM reviews
        WHERE kcid = $2 GROUP BY oid
    )"""
_COUNTS = """
    count(*) AS pages, count(*) FILTER (verdict = 'yes') AS yes, count(*) FILTER (verdict = 'no') AS no,
    count(*) FILTER (verdict = 'unsure') AS unsure, count(*) FILTER (verdict = 'skip') AS skipped,
    arg_min(oid, hash(oid * 1000003 + $3)) FILTER (verdict IS NULL) AS fresh,
    arg_min(oid, judged) FILTER (verdict = 'skip') AS later, epoch_us(min(judged) FILTER (verdict = 'skip')) AS since
"""
_TAKEN_GROUPED = """
    WITH mine AS (
        SELECT p.oid, c.url, p.model_version FROM pages p JOIN crawl c USING (oid)
        WHERE p.kcid IN (SELECT unnest($1::SMALLINT[])) AND p.relevance >= 0.5
    ),
    said AS (
        SELECT j.oid, last(j.undoubted ORDER BY j.rowid) AS undoubted,
               last(array_to_string(list_sort(j.agreed), ' + ') ORDER BY j.rowid) AS agreed
        FROM judgements j JOIN mine m ON j.oid = m.oid AND j.model_version = m.model_version GROUP BY j.oid
    ),
    placed AS (
        SELECT m.oid, coalesce(s.undoubted, FALSE) AS undoubted, coalesce(s.agreed, '') AS agreed,
               regexp_extract(split_part(m.url, '?', 1), '^[a-z]+://[^/]+/(.*/)?') AS directory
        FROM mine m LEFT JOIN said s USING (oid)
    ),
    sized AS (SELECT *, count(*) OVER (PARTITION BY undoubted, agreed, directory) AS n FROM placed),
    grouped AS (
        SELECT oid, undoubted, CASE WHEN undoubted THEN '' ELSE agreed END AS agreed,
               CASE WHEN undoubted OR n < $4 THEN '' ELSE directory END AS directory
        FROM sized
    )
"""
_KIND = f"CASE WHEN undoubted THEN '{UNDOUBTED}' ELSE '{DOUBTFUL}' END"
_TAKEN = f"""
    {_TAKEN_GROUPED}
    SELECT {_KIND} AS kind, agreed, directory, {_COUNTS}
    FROM grouped LEFT JOIN {_VERDICT} v USING (oid)
    GROUP BY ALL ORDER BY kind, count(*) DESC, agreed, directory
"""
_TAKEN_PAGES = f"""
    {_TAKEN_GROUPED}
    SELECT oid, {_KIND}, agreed, directory, coalesce(verdict, '')
    FROM grouped LEFT JOIN {_VERDICT} v USING (oid) WHERE $3 IS NOT NULL ORDER BY oid
"""
_DECIDE = "INSERT INTO review_decisions VALUES (make_timestamp($1::BIGINT), $2, $3, $4)"
_DECISIONS = """
    SELECT stratum, last(decision ORDER BY rowid)::VARCHAR FROM review_decisions WHERE kcid = $1 GROUP BY stratum
"""
_DELETE_DECISIONS = "DELETE FROM review_decisions WHERE kcid = $1"
_NOT_TAKEN = f"""
    WITH others AS (
        SELECT p.oid, c.sid, row_number() OVER (ORDER BY p.visited, p.oid) AS place, count(*) OVER () AS n
        FROM pages p JOIN crawl c USING (oid)
        WHERE NOT (p.kcid IN (SELECT unnest($1::SMALLINT[])) AND p.relevance >= 0.5) AND p.text IS NOT NULL
    ),
    seen AS (
        SELECT oid, sid FROM others
        WHERE list_bool_or([place > m * n - $6 AND place <= m * n FOR m IN $5::DOUBLE[]])
    ),
    sized AS (SELECT oid, sid, count(*) OVER (PARTITION BY sid) AS n FROM seen),
    grouped AS (
        SELECT s.oid, CASE WHEN s.n < $4 THEN '' ELSE h.host END AS directory
        FROM sized s LEFT JOIN hosts h USING (sid)
    )
    SELECT '{FILTERED}' AS kind, '' AS agreed, directory, {_COUNTS}
    FROM grouped LEFT JOIN {_VERDICT} v USING (oid)
    GROUP BY ALL ORDER BY count(*) DESC, directory
"""
_NOT_TAKEN_COUNT = """
    SELECT count(*) FROM pages
    WHERE NOT (kcid IN (SELECT unnest($1::SMALLINT[])) AND relevance >= 0.5) AND text IS NOT NULL
"""
_PAGE = f"""
    SELECT c.url, coalesce(p.title, ''),
           left(if(length(p.main_text) >= {MIN_MAIN_CHARS}, p.main_text, coalesce(p.text, '')), $2),
           p.relevance, coalesce(p.language, '')
    FROM pages p JOIN crawl c USING (oid) WHERE p.oid = $1
"""
_ADD = "INSERT INTO reviews VALUES (make_timestamp($1::BIGINT), $2, $3, $4, $5)"
_LAST = "SELECT rowid, oid FROM reviews WHERE kcid = $1 ORDER BY rowid DESC LIMIT 1"
_COUNT = "SELECT count(DISTINCT oid) FROM reviews WHERE kcid = $1"
_DELETE_ONE = "DELETE FROM reviews WHERE kcid = $1 AND rowid = $2"
_DELETE_ALL = "DELETE FROM reviews WHERE kcid = $1"
_VERDICTS = """
    SELECT c.url, coalesce(p.title, '') AS title, last(r.verdict ORDER BY r.rowid) AS verdict,
           last(r.stratum ORDER BY r.rowid) AS stratum, last(r.judged ORDER BY r.rowid) AS judged, r.oid
    FROM reviews r JOIN crawl c USING (oid) LEFT JOIN pages p USING (oid)
    WHERE r.kcid = $1 GROUP BY r.oid, c.url, p.title ORDER BY judged, r.oid
"""
_TAKEN_BY = "SELECT kcid FROM pages WHERE oid = $1 AND relevance >= 0.5"


class ReviewGroup(NamedTuple):
    """A group of pages that one sample is judged for, and what was said of it so far."""

    kind: str
    agreed: str
    """The metrics that said yes."""
    directory: str
    """Of all pages in it, or their host; empty for the undoubted, and for pages of many small directories."""
    pages: int
    yes: int
    no: int
    unsure: int
    skipped: int
    fresh: int | None
    """The page that is drawn next."""
    later: int | None
    """The page that was skipped first, and when."""
    later_us: int | None = None
    decided: str = BY_RULE
    """What the user decided about it as a whole."""

    @property
    def name(self) -> str:
        """What it is called in the table `reviews`."""
        return group_name(self.kind, self.agreed, self.directory)


class GroupedPage(NamedTuple):
    """A page that a topic took, the group that it belongs to, and the verdict on it."""

    oid: int
    group: str
    verdict: str
    """Empty: it was not judged."""


class ReviewPage(NamedTuple):
    """A page as a reviewer sees it."""

    url: str
    title: str
    text: str
    relevance: float | None
    language: str


class ReviewVerdict(NamedTuple):
    """The latest verdict on a page."""

    url: str
    title: str
    verdict: str
    stratum: str
    judged: datetime.datetime
    oid: int


def group_name(kind: str, agreed: str, directory: str) -> str:
    """The name of a group."""
    return " | ".join(part for part in (kind, agreed, directory) if part)


def groups_of_taken(
    store: Store, kcid: int, kcids: Sequence[int], *, draw: int, min_directory_pages: int
) -> list[ReviewGroup]:
    """What a topic took, in groups by the metrics that agreed and by directory; `kcids` are it and all below it.

    `draw` is the number that decides the order in which pages are drawn; a smaller directory than
    `min_directory_pages` has no group of its own.
    """
    given = [list(kcids), kcid, draw, min_directory_pages]
    return [ReviewGroup(*row) for row in store.select(_TAKEN, given, max_rows=_MAX_ROWS).rows]


def pages_of_taken(
    store: Store, kcid: int, kcids: Sequence[int], *, draw: int, min_directory_pages: int
) -> list[GroupedPage]:
    """The pages of the same groups."""
    given = [list(kcids), kcid, draw, min_directory_pages]
    rows = store.select(_TAKEN_PAGES, given, max_rows=_MAX_ROWS).rows
    return [GroupedPage(oid, group_name(*parts), verdict) for oid, *parts, verdict in rows]


def groups_of_not_taken(
    store: Store,
    kcid: int,
    kcids: Sequence[int],
    *,
    draw: int,
    min_directory_pages: int,
    moments: Sequence[float],
    moment_pages: int,
) -> list[ReviewGroup]:
    """What a topic did not take, in groups by host: the `moment_pages` pages before each of some moments of the crawl.

    Moments are shares of all these pages.
    """
    given = [list(kcids), kcid, draw, min_directory_pages, list(moments), moment_pages]
    return [ReviewGroup(*row) for row in store.select(_NOT_TAKEN, given, max_rows=_MAX_ROWS).rows]


def count_not_taken(store: Store, kcids: Sequence[int]) -> int:
    """How many pages whose text is kept some topics did not take."""
    return int(store.select(_NOT_TAKEN_COUNT, [list(kcids)]).rows[0][0])


def review_page(store: Store, oid: int, max_text_chars: int) -> ReviewPage:
    """A page with its main text, or all of it when that is short."""
    return ReviewPage(*store.select(_PAGE, [oid, max_text_chars]).rows[0])


def add_verdict(store: Store, at_us: int, kcid: int, oid: int, verdict: str, stratum: str) -> None:
    """Record what the user says of a page."""
    store.query(_ADD, [at_us, kcid, oid, verdict, stratum], write=True)


def add_decision(store: Store, at_us: int, kcid: int, group: str, decision: str) -> None:
    """Record what the user decides about a group."""
    store.query(_DECIDE, [at_us, kcid, group, decision], write=True)


def load_decisions(store: Store, kcid: int) -> dict[str, str]:
    """The latest decision on each group of a topic's review, by its name."""
    return dict(store.select(_DECISIONS, [kcid], max_rows=_MAX_ROWS).rows)


def delete_last_verdict(store: Store, kcid: int) -> int | None:
    """Delete the latest verdict of a topic's review; the page it was about, or None when there was none."""
    rows = store.select(_LAST, [kcid]).rows
    if not rows:
        return None
    [[rowid, oid]] = rows
    store.query(_DELETE_ONE, [kcid, rowid], write=True)
    return int(oid)


def delete_verdicts(store: Store, kcid: int) -> None:
    """Delete all verdicts and decisions of a topic's review."""
    store.query(_DELETE_ALL, [kcid], write=True)
    store.query(_DELETE_DECISIONS, [kcid], write=True)


def count_verdicts(store: Store, kcid: int) -> int:
    """How many pages were judged in a topic's review."""
    return int(store.select(_COUNT, [kcid]).rows[0][0])


def load_verdicts(store: Store, kcid: int) -> list[ReviewVerdict]:
    """The latest verdict on each page of a topic's review, oldest first."""
    return [ReviewVerdict(*row) for row in store.select(_VERDICTS, [kcid], max_rows=_MAX_ROWS).rows]


def taken_by(store: Store, oid: int) -> int | None:
    """The topic of a relevant page."""
    rows = store.select(_TAKEN_BY, [oid]).rows
    return int(rows[0][0]) if rows and rows[0][0] is not None else None
