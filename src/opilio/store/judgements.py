"""Models and what they said of pages: the tables `models` and `judgements`.

A page may have been judged by the same model twice, when it was fetched again: the latest judgement counts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pyarrow as pa

from opilio.model import RELEVANT, Judgement
from opilio.store import arrow
from opilio.store.database import Store

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

    Column = npt.NDArray[Any]

_MAX_ROWS = 2**20
_APPLY = (
    "INSERT INTO judgements BY NAME SELECT * FROM incoming",
    """
    UPDATE pages SET relevance = i.relevance, kcid = i.kcid, model_version = i.model_version, undoubted = i.undoubted
    FROM incoming i WHERE pages.oid = i.oid
    """,
    """
    UPDATE crawl SET relevance = i.relevance, topic = CASE WHEN i.accepted THEN i.kcid ELSE topic END
    FROM incoming i WHERE crawl.oid = i.oid
    """,
    "UPDATE crawl SET relevance = i.relevance FROM incoming i WHERE crawl.parent = i.oid AND crawl.state = 'waiting'",
)

_OLDER = "text IS NOT NULL AND coalesce(model_version, 0) < $1"
_OLDER_OIDS = f"SELECT oid FROM pages WHERE {_OLDER} ORDER BY rowid"
_OLDER_COUNT = f"SELECT count(*) FROM pages WHERE {_OLDER}"
_OLDER_PAGES = f"""
    SELECT p.oid, coalesce(p.relevance, 0.0), c.url, coalesce(p.title, ''), coalesce(p.language, ''), p.text
    FROM pages p JOIN crawl c USING (oid)
    WHERE p.oid IN (SELECT unnest($2::BIGINT[])) AND {_OLDER}
"""
_RELEVANCES = """
    SELECT oid, coalesce(relevance, 0.0) FROM pages WHERE oid IN (SELECT unnest($1::BIGINT[]))
"""

_DIRECTORY = "regexp_extract(split_part(c.url, '?', 1), '^[a-z]+://[^/]+/(.*/)?')"
_SAID = """(
        SELECT j.oid, last(j.accepted ORDER BY j.rowid) AS accepted, last(j.agreed ORDER BY j.rowid) AS agreed,
               last(j.confidence ORDER BY j.rowid) AS confidence, last(j.votes ORDER BY j.rowid) AS votes
        FROM judgements j JOIN pages p ON j.oid = p.oid AND j.model_version = p.model_version
        WHERE p.model_version > 0 GROUP BY j.oid
    )"""
_RELEVANT_DIRECTORIES = f"""
    SELECT {_DIRECTORY} AS directory, arg_max(p.kcid, p.visited) AS kcid
    FROM pages p JOIN crawl c USING (oid) JOIN {_SAID} s USING (oid)
    WHERE p.relevance >= {RELEVANT} AND s.accepted AND len(s.agreed) > 0 AND NOT list_contains(s.agreed, $1)
    GROUP BY directory ORDER BY max(p.visited)
"""
_UNACCEPTED = f"""
    SELECT p.oid, {_DIRECTORY}, p.kcid, p.relevance, s.confidence, map_keys(s.votes), map_values(s.votes),
           p.model_version
    FROM pages p JOIN crawl c USING (oid) JOIN {_SAID} s USING (oid)
    WHERE NOT s.accepted AND {_DIRECTORY} IN (SELECT unnest($1::VARCHAR[]))
"""

# In the order in which they were fetched: a page comes after the one that led to it.
_RELEVANCE = """
    SELECT p.oid, p.relevance, coalesce(c.parent, -1)
    FROM seen s JOIN pages p USING (oid) JOIN crawl c USING (oid)
    WHERE p.relevance IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY p.oid ORDER BY p.visited DESC) = 1
    ORDER BY c.lastvisited, p.oid
"""
_CANDIDATES = f"""
    WITH latest AS (
        SELECT oid, arg_max(accepted, rowid) AS accepted, arg_max(kcid, rowid) AS kcid,
               arg_max(relevance, rowid) AS relevance, arg_max(confidence, rowid) AS confidence
        FROM judgements WHERE model_version = $1 GROUP BY oid
    )
    SELECT oid, c.url, coalesce(p.title, ''), l.confidence
    FROM latest l JOIN pages p USING (oid) JOIN crawl c USING (oid)
    WHERE l.accepted AND l.relevance >= {RELEVANT} AND l.kcid = $2 AND p.model_version = $1
      AND oid NOT IN (SELECT oid FROM duplicates) AND oid NOT IN (SELECT unnest($3::BIGINT[]))
"""
_MOST_CONFIDENT = f"{_CANDIDATES} ORDER BY l.confidence DESC, oid LIMIT $4"
_CONFIDENT_AMONG = f"{_CANDIDATES} AND oid IN (SELECT unnest($4::BIGINT[]))"

_JUDGED = """
    SELECT model_version, count(DISTINCT oid), count(DISTINCT oid) FILTER (WHERE relevance >= 0.5)
    FROM judgements GROUP BY model_version
"""
_BOTH = """
    WITH latest AS (
        SELECT oid, model_version, last(relevance ORDER BY rowid) AS relevance FROM judgements
        WHERE model_version IN ($1, $2) GROUP BY oid, model_version
    )
    SELECT a.oid, a.relevance AS first, b.relevance AS second FROM latest a JOIN latest b USING (oid)
    WHERE a.model_version = $1 AND b.model_version = $2
"""
_AGREEMENT = f"""
    SELECT count(*), count(*) FILTER (WHERE first >= 0.5), count(*) FILTER (WHERE second >= 0.5),
           count(*) FILTER (WHERE first >= 0.5 AND second >= 0.5)
    FROM ({_BOTH})
"""
_DISAGREEMENTS = f"""
    SELECT c.url, p.title, first, second FROM ({_BOTH}) JOIN crawl c USING (oid) LEFT JOIN pages p USING (oid)
    WHERE (first >= 0.5) <> (second >= 0.5) ORDER BY abs(first - second) DESC, oid LIMIT $3
"""
_BOTH_TOPICS = """
    WITH latest AS (
        SELECT oid, model_version, last(CASE WHEN accepted THEN kcid END ORDER BY rowid) AS kcid,
               last(relevance ORDER BY rowid) AS relevance
        FROM judgements WHERE model_version IN ($1, $2) GROUP BY oid, model_version
    )
    SELECT a.oid, a.kcid AS kcid_first, b.kcid AS kcid_second, a.relevance AS first, b.relevance AS second
    FROM latest a JOIN latest b USING (oid) WHERE a.model_version = $1 AND b.model_version = $2
"""
_FLOWS = f"SELECT kcid_first, kcid_second, count(*) FROM ({_BOTH_TOPICS}) GROUP BY ALL"
_MOVED = f"""
    SELECT c.url, coalesce(p.title, ''), kcid_first, kcid_second, first, second
    FROM ({_BOTH_TOPICS}) JOIN crawl c USING (oid) LEFT JOIN pages p USING (oid)
    WHERE kcid_first IS DISTINCT FROM kcid_second ORDER BY abs(first - second) DESC, oid LIMIT $3
"""
# Training documents are left out: they are where the user put them.
_MOVED_ELSEWHERE = f"""
    SELECT kcid_first, kcid_second, count(*) FROM ({_BOTH_TOPICS}) JOIN crawl c USING (oid)
    WHERE kcid_first IS DISTINCT FROM kcid_second AND c.url NOT IN (SELECT name FROM training WHERE kind = 'url')
    GROUP BY ALL
"""
_REFUSED = "SELECT epoch(noticed), text FROM notices WHERE kind = 'model' ORDER BY noticed DESC, rowid DESC"


# -- judging again


class JudgedPage(NamedTuple):
    """A stored page with what a model needs to judge it again."""

    oid: int
    relevance: float
    url: str
    title: str
    language: str
    text: str


def apply_judgements(connection: duckdb.DuckDBPyConnection, judged: pa.Table) -> None:
    """Store new judgements, and give their pages, and the queued URLs found on those, the new relevance.

    `judged` has the columns of the table `judgements`. In one transaction, all of this is there after a crash, or none.
    """
    connection.register("incoming", judged)
    for statement in _APPLY:
        connection.execute(statement)
    connection.unregister("incoming")


def pages_of_older_models(store: Store, version: int) -> list[int]:
    """The pages that a model before `version` judged and whose text is kept, in the order they were stored."""
    return [oid for piece in store.select_pieces(_OLDER_OIDS, [version]) for oid in piece.column(0).to_pylist()]


def count_of_older_models(store: Store, version: int) -> int:
    """How many pages that is."""
    return int(store.select(_OLDER_COUNT, [version]).rows[0][0])


def load_pages_to_rejudge(store: Store, version: int, oids: Sequence[int]) -> list[JudgedPage]:
    """Those of some pages that a model before `version` judged."""
    rows = store.select(_OLDER_PAGES, [version, list(oids)], max_rows=len(oids)).rows
    return [JudgedPage(*row) for row in rows]


def relevances(store: Store, oids: Collection[int]) -> dict[int, float]:
    """The relevance of some pages, as they are judged now."""
    return dict(store.select(_RELEVANCES, [sorted(oids)], max_rows=len(oids) + 1).rows)


def relevance_of(cursor: duckdb.DuckDBPyConnection, oids: Column) -> tuple[Column, Column, Column]:
    """Those of some pages that were judged, in order of time: oid, relevance, and the page that led to it, or -1."""
    cursor.register("seen", arrow.table({"oid": oids}))
    found, relevance, parents = (column.to_numpy() for column in cursor.sql(_RELEVANCE).to_arrow_table().columns)
    return found, relevance, parents


def relevant_directories(store: Store, metric: str) -> dict[str, int]:
    """The directories with a relevant page that not only `metric` accepts, each with the topic of the latest.

    The directory of the latest page comes last.
    """
    return dict(store.select(_RELEVANT_DIRECTORIES, [metric], max_rows=_MAX_ROWS).rows)


def unaccepted_in(store: Store, directories: Sequence[str]) -> list[tuple[int, str, Judgement]]:
    """The pages in some directories that no topic accepts: their number, their directory, and the judgement."""
    rows = store.select(_UNACCEPTED, [list(directories)], max_rows=_MAX_ROWS).rows
    return [
        (oid, directory, Judgement(
            kcid, relevance=relevance, confidence=confidence, votes=dict(zip(names, values, strict=True)),
            model_version=version,
        ))
        for oid, directory, kcid, relevance, confidence, names, values, version in rows
    ]  # fmt: skip


# -- archetypes


class CandidatePage(NamedTuple):
    """A page that a topic accepted, and how confident the model was."""

    oid: int
    url: str
    title: str
    confidence: float


def most_confident(
    store: Store, version: int, kcid: int, exclude: Sequence[int], limit: int
) -> dict[int, CandidatePage]:
    """The relevant pages of a topic that a model is most confident of, without duplicates and those in `exclude`."""
    return _candidates(store, _MOST_CONFIDENT, version, kcid, exclude, limit)


def confident_among(
    store: Store, version: int, kcid: int, exclude: Sequence[int], among: Sequence[int]
) -> dict[int, CandidatePage]:
    """The same, those of some pages."""
    return _candidates(store, _CONFIDENT_AMONG, version, kcid, exclude, list(among))


def _candidates(
    store: Store, sql: str, version: int, kcid: int, exclude: Sequence[int], chosen: int | list[int]
) -> dict[int, CandidatePage]:
    rows = store.query(sql, [version, kcid, list(exclude), chosen], max_rows=2**20).rows
    return {row[0]: CandidatePage(*row) for row in rows}


# -- comparing models


class Agreement(NamedTuple):
    """Pages that two models judged, and how many of them each found relevant, and both."""

    pages: int
    relevant_first: int
    relevant_second: int
    relevant_both: int


class Disagreement(NamedTuple):
    """A page that one of two models found relevant, with the relevance by each."""

    url: str
    title: str | None
    first: float
    second: float


class MovedPage(NamedTuple):
    """A page that two models put into different topics; None is OTHERS."""

    url: str
    title: str
    kcid_first: int | None
    kcid_second: int | None
    first: float
    second: float


def judged_counts(store: Store) -> dict[int, tuple[int, int]]:
    """By version of the model: the pages that it judged, and how many it found relevant."""
    rows = store.select(_JUDGED, max_rows=2**15).rows
    return {version: (pages, relevant) for version, pages, relevant in rows}


def agreement(store: Store, first: int, second: int) -> Agreement:
    """How far two models agree on the pages that both judged."""
    return Agreement(*store.select(_AGREEMENT, [first, second]).rows[0])


def disagreements(store: Store, first: int, second: int, limit: int) -> list[Disagreement]:
    """The pages on whose relevance two models disagree, those that differ most first."""
    return [Disagreement(*row) for row in store.select(_DISAGREEMENTS, [first, second, limit]).rows]


def topic_flows(store: Store, first: int, second: int) -> list[tuple[int | None, int | None, int]]:
    """How many pages went from which topic of one model to which of another; None is OTHERS."""
    return store.select(_FLOWS, [first, second], max_rows=2**20).rows


def moved_elsewhere(store: Store, first: int, second: int) -> list[tuple[int | None, int | None, int]]:
    """How many pages about which the user has said nothing went from which topic to which other; None is OTHERS."""
    return store.select(_MOVED_ELSEWHERE, [first, second], max_rows=2**20).rows


def moved_pages(store: Store, first: int, second: int, limit: int) -> list[MovedPage]:
    """The pages that two models put into different topics, those whose relevance differs most first."""
    return [MovedPage(*row) for row in store.select(_MOVED, [first, second, limit]).rows]


def refused_models(store: Store) -> list[tuple[float, str]]:
    """When models were trained and not taken, newest first, and why."""
    return store.select(_REFUSED, max_rows=2**15).rows
