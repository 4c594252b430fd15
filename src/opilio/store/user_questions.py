"""Questions to the user: the table `questions`, and the pages that a question can be about.

The questions of a round have the same moment in `asked`. Open are those of the latest round that nobody has answered.
Older ones stay, so that a user who saw one before it was replaced can still answer it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from opilio.store.database import Store

SNIPPET_CHARS = 300
USER = "user"
"""In the column `questions.answered_by`: the user answered, whose word always counts more."""
MIN_DESCRIPTION_CHARS = 80
"""A shorter description often repeats the title: then the page's own text is shown."""
_MAX_ROWS = 2**20

_FREE = """
    SELECT oid, kcid, relevance, model_version FROM pages
    WHERE kcid IN (SELECT unnest($1::SMALLINT[])) AND relevance >= $3
      AND oid NOT IN (SELECT unnest($2::BIGINT[])) AND oid NOT IN (SELECT oid FROM duplicates)
"""
_CANDIDATES = f"""
    WITH free AS ({_FREE}),
    best AS (FROM free ORDER BY relevance DESC, oid LIMIT $4),
    near AS (FROM free ORDER BY abs(relevance - 0.5), oid LIMIT $4),
    chosen AS (FROM best UNION FROM near)
    SELECT n.oid, n.relevance, coalesce(last(j.accepted ORDER BY j.rowid), n.relevance >= 0.5),
           coalesce(last(j.confidence ORDER BY j.rowid), 0.0), coalesce(any_value(h.host), ''),
           coalesce(any_value(p.title), ''), coalesce(any_value(p.shingles), ''::BLOB)
    FROM chosen n JOIN pages p USING (oid) JOIN crawl c USING (oid) LEFT JOIN hosts h USING (sid)
    LEFT JOIN judgements j ON j.oid = n.oid AND j.model_version = n.model_version
    GROUP BY n.oid, n.relevance ORDER BY n.oid
"""
_SCORES = f"SELECT floor(relevance * $4)::INTEGER, count(*) FROM ({_FREE}) GROUP BY 1"
_LATEST = "asked = (SELECT max(asked) FROM questions)"
_ALL = f"""
    SELECT oid, kcid, {_LATEST}, reason, benefit, epoch_us(answered), answer,
           coalesce(answered_by, '')
    FROM questions ORDER BY rowid
"""
_ADD = "INSERT INTO questions VALUES ($1, $2, make_timestamp($3::BIGINT), $4, $5, NULL, NULL, NULL)"
_DELETE = "DELETE FROM questions WHERE answered IS NULL AND oid = $1"
_WITHDRAW = "DELETE FROM questions WHERE answered IS NULL AND oid IN (SELECT unnest($1::BIGINT[]))"
_ANSWER = "UPDATE questions SET answered = make_timestamp($2::BIGINT), answer = $3, answered_by = $4 WHERE oid = $1"
_REOPENED = """
    UPDATE questions
    SET answered = NULL, answer = NULL, answered_by = NULL, asked = (SELECT max(asked) FROM questions)
"""
_REOPEN = f"{_REOPENED} WHERE oid = $1"
_REOPEN_SINCE = f"{_REOPENED} WHERE answered > make_timestamp($1::BIGINT) AND answer <> 'skip'"
_COUNTS = f"""
    SELECT count(*) FILTER (answered IS NULL AND {_LATEST}), count(*) FILTER (answer <> 'skip'),
           count(*) FILTER (answer = 'skip')
    FROM questions
"""
_PAGES = f"""
    SELECT p.oid, c.url, coalesce(h.host, ''), coalesce(p.title, ''), p.relevance,
           CASE WHEN p.relevance >= 0.5 THEN p.kcid END,
           left(CASE WHEN length(p.description) >= {MIN_DESCRIPTION_CHARS} THEN p.description
                     ELSE coalesce(nullif(p.main_text, ''), nullif(p.text, ''), p.description, '') END, {SNIPPET_CHARS})
    FROM pages p JOIN crawl c USING (oid) LEFT JOIN hosts h USING (sid)
    WHERE p.oid IN (SELECT unnest($1::BIGINT[]))
"""


class AskablePage(NamedTuple):
    """A judged page that the user can be asked about."""

    oid: int
    relevance: float
    accepted: bool
    confidence: float
    host: str
    title: str
    sketch: bytes


class QuestionRow(NamedTuple):
    """A question as it is stored."""

    oid: int
    kcid: int
    is_latest: bool
    """Whether it is of the latest round."""
    reason: str
    benefit: int
    answered_us: int | None
    answer: str | None
    answered_by: str
    """`USER`, the name of a program, or empty: nobody yet."""


class QuestionCounts(NamedTuple):
    """How many questions there are of each kind."""

    open: int
    answered: int
    """With yes or no."""
    skipped: int


class QuestionPage(NamedTuple):
    """A page as the user sees it in a question."""

    oid: int
    url: str
    host: str
    title: str
    relevance: float | None
    relevant_to: int | None
    """The topic that it is in, when it is relevant."""
    snippet: str


def candidate_pages(
    store: Store, kcids: Collection[int], exclude: Collection[int], min_relevance: float, limit: int
) -> list[AskablePage]:
    """The `limit` most relevant pages of topics, and as many that are closest to the threshold."""
    given = [sorted(kcids), sorted(exclude), min_relevance, limit]
    return [AskablePage(*row) for row in store.select(_CANDIDATES, given, max_rows=_MAX_ROWS).rows]


def score_counts(
    store: Store, kcids: Collection[int], exclude: Collection[int], min_relevance: float, steps: int
) -> dict[int, int]:
    """How many pages of topics have which relevance, in so many steps from 0 to 1."""
    return dict(store.select(_SCORES, [sorted(kcids), sorted(exclude), min_relevance, steps], max_rows=steps + 1).rows)


def load_questions(store: Store) -> list[QuestionRow]:
    """All questions, in the order they were asked."""
    return [QuestionRow(*row) for row in store.select(_ALL, max_rows=_MAX_ROWS).rows]


def count_questions(store: Store) -> QuestionCounts:
    """How many are open, answered and skipped."""
    return QuestionCounts(*store.select(_COUNTS).rows[0])


def add_round(store: Store, asked_us: int, rows: Sequence[tuple[int, int, str, int]]) -> None:
    """Ask these questions (oid, kcid, reason, benefit) in place of those that are open; in one transaction."""
    with store.writing() as connection:
        for oid, kcid, reason, benefit in rows:
            connection.execute(_DELETE, [oid])
            connection.execute(_ADD, [oid, kcid, asked_us, reason, benefit])


def withdraw_questions(store: Store, oids: Collection[int]) -> None:
    """Delete the open questions about some pages."""
    store.query(_WITHDRAW, [sorted(oids)], write=True)


def record_answer(store: Store, oid: int, answered_us: int, answer: str, by: str) -> None:
    """Store the answer to the question about a page, and who gave it."""
    store.query(_ANSWER, [oid, answered_us, answer, by], write=True)


def reopen_question(store: Store, oid: int) -> None:
    """Delete the answer to the question about a page."""
    store.query(_REOPEN, [oid], write=True)


def reopen_questions_since(store: Store, since_us: int) -> None:
    """Delete the answers yes and no that were given after a moment."""
    store.query(_REOPEN_SINCE, [since_us], write=True)


def question_pages(store: Store, oids: Collection[int]) -> dict[int, QuestionPage]:
    """The stored pages that questions are about, by oid."""
    rows = store.select(_PAGES, [sorted(oids)], max_rows=_MAX_ROWS).rows
    return {row[0]: QuestionPage(*row) for row in rows}
