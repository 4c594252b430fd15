"""The words of pages: the tables `terms` and `lexicon`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from opilio.features.classifier_input import SIGNIFICANT_STEMS, stored_reader
from opilio.model import RELEVANT
from opilio.store import arrow
from opilio.store.database import Store

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

    Column = npt.NDArray[Any]

MAX_COUNTED_PAGES = 100_000
"""Document frequencies are counted in at most this many pages, spread evenly: more would not change an idf by much."""
_MAX_ROWS = 2**24
_WRITING_PAGES, _WRITTEN_CHARS = 3, 20_000  # of each term, and read of each page

_FREQUENCIES = """
    SELECT tid, count(*)::INTEGER AS df FROM terms WHERE oid % $1 = 0 AND oid IN (SELECT oid FROM pages) GROUP BY tid
"""
_FREQUENCIES_OF = """
    SELECT tid, count(*) FROM terms WHERE oid % $2 = 0 AND tid IN (SELECT unnest($1::UINTEGER[])) GROUP BY tid
"""
STUFFED_TERMS, MIN_STUFFED_WORDS, STUFFED_SHARE = 5, 100, 0.6
"""A page of at least 100 terms is stuffed with keywords when the 5 most frequent make up more than 60 % of them. Of
1,900 pages of four recorded webs one is: a list of addresses (docs/results/log.md, 2026-11-18)."""
_STUFFED = f"""
    SELECT oid FROM terms WHERE oid IN (SELECT unnest($1::BIGINT[])) GROUP BY oid
    HAVING sum(freq) >= {MIN_STUFFED_WORDS} AND list_sum(max(freq, {STUFFED_TERMS})) > {STUFFED_SHARE} * sum(freq)
"""
_WITH_TERMS = """
    WITH mine AS (SELECT unnest($1::UINTEGER[]) AS tid, unnest($2::DOUBLE[]) AS weight)
    SELECT oid FROM terms JOIN mine USING (tid) WHERE oid IN (SELECT oid FROM pages)
    GROUP BY oid HAVING sum(weight) >= $3
"""
_BAG = "SELECT tid, freq FROM terms WHERE oid = ?"
_BAGS = """
    SELECT oid, list(tid ORDER BY tid), list(freq ORDER BY tid) FROM terms
    WHERE oid IN (SELECT unnest($1::BIGINT[])) GROUP BY oid ORDER BY oid
"""
_LISTS = "SELECT oid, list(tid ORDER BY tid) FROM terms WHERE oid IN (SELECT unnest($1::BIGINT[])) GROUP BY oid"
_WEIGHED = """
    SELECT (t.tid & $last)::BIGINT, sum(j.relevance), sum(1.0 - j.relevance)
    FROM terms t JOIN judged j USING (oid) GROUP BY 1
"""
_TERMS = "SELECT oid, tid, freq FROM terms WHERE oid IN (SELECT unnest($1::BIGINT[])) ORDER BY oid, tid"
_COMPARED = """
    SELECT tid, count(*) FILTER (oid IN (SELECT unnest($1::BIGINT[]))),
           count(*) FILTER (oid IN (SELECT unnest($2::BIGINT[])))
    FROM terms WHERE oid IN (SELECT unnest($1::BIGINT[] || $2::BIGINT[])) GROUP BY tid ORDER BY tid
"""
# The pages that write each term most often. Ties are broken: what people see must be the same every time.
_WRITERS = """
    WITH best AS (
        SELECT tid, unnest(max_by(oid, (freq, -oid), $2)) AS oid FROM terms
        WHERE tid IN (SELECT unnest($1::UINTEGER[])) GROUP BY tid
    ),
    writers AS (SELECT oid, list(tid) AS tids FROM best GROUP BY oid)
    SELECT coalesce(p.title, '') || ' ' || left(p.text, $3), coalesce(p.language, ''), w.tids
    FROM pages p JOIN writers w USING (oid) WHERE p.text IS NOT NULL
"""
_STEMS = "SELECT tid, min(term) FROM lexicon WHERE tid IN (SELECT unnest($1::UINTEGER[])) GROUP BY tid"
# The most frequent terms of each page that links to some page or is linked from it.
_NEIGHBOURS = f"""
    WITH near AS (
        SELECT oid_dst AS oid, oid_src AS other FROM links WHERE oid_dst IN (SELECT unnest($1::BIGINT[]))
        UNION
        SELECT oid_src, oid_dst FROM links WHERE oid_src IN (SELECT unnest($1::BIGINT[]))
    ),
    report AS (
        SELECT oid AS other, unnest(max_by(tid, (freq, tid), {SIGNIFICANT_STEMS})) AS tid
        FROM terms WHERE oid IN (SELECT other FROM near) GROUP BY oid
    )
    SELECT n.oid, list(t.tid) FROM near n JOIN report t USING (other) WHERE n.oid <> n.other GROUP BY n.oid
"""
_PARENTS = f"""
    SELECT c.oid, t.tids FROM crawl c JOIN (
        SELECT oid, max_by(tid, (freq, tid), {SIGNIFICANT_STEMS}) AS tids FROM terms
        WHERE oid IN (SELECT parent FROM crawl WHERE oid IN (SELECT unnest($1::BIGINT[]))) GROUP BY oid
    ) t ON t.oid = c.parent
    WHERE c.oid IN (SELECT unnest($1::BIGINT[]))
"""


# Weights: (1 + ln count) in a page, made so that the squares add up to 1; in the profile, times ln(1 + pages / pages
# with the term). The page has no such factor: a crawler elsewhere does not know it.
_PROFILES = f"""
    WITH wanted AS (SELECT unnest($kcids::SMALLINT[]) AS kcid, unnest($goods::SMALLINT[]) AS good),
    chosen AS (
        SELECT good, oid FROM pages JOIN wanted USING (kcid) WHERE relevance >= {RELEVANT}
        QUALIFY row_number() OVER (PARTITION BY good ORDER BY relevance DESC, oid) <= $pages
    ),
    common AS (
        SELECT tid, count(*) AS n FROM terms WHERE tid IN (SELECT tid FROM terms SEMI JOIN chosen USING (oid))
        GROUP BY tid
    ),
    weighed AS (
        SELECT good, oid, tid, (1 + ln(freq)) / sqrt(sum((1 + ln(freq)) ** 2) OVER (PARTITION BY good, oid)) AS w
        FROM terms JOIN chosen USING (oid)
    ),
    means AS (
        SELECT good, tid, sum(w) * ln(1 + (SELECT count(*) FROM pages) / any_value(n)) AS weight
        FROM weighed JOIN common USING (tid) GROUP BY good, tid
        QUALIFY row_number() OVER (PARTITION BY good ORDER BY weight DESC, tid) <= $terms
    ),
    profiles AS (SELECT good, tid, weight / sqrt(sum(weight * weight) OVER (PARTITION BY good)) AS w FROM means),
    likenesses AS (
        SELECT c.good, c.oid, coalesce(sum(x.w * p.w), 0) AS likeness
        FROM chosen c LEFT JOIN weighed x USING (good, oid) LEFT JOIN profiles p USING (good, tid) GROUP BY ALL
    ),
    typical AS (SELECT good, count(*) AS pages, quantile_cont(likeness, 0.25) AS typical FROM likenesses GROUP BY good)
    SELECT good, pages, typical, list(term ORDER BY w DESC, term), list(w ORDER BY w DESC, term)
    FROM profiles JOIN (SELECT tid, min(term) AS term FROM lexicon GROUP BY tid) USING (tid) JOIN typical USING (good)
    WHERE pages >= $least GROUP BY ALL ORDER BY good
"""


# -- counting pages with a term


def document_frequencies(store: Store) -> tuple[int, dict[int, int]]:
    """How many pages were counted, and in how many of them each term is."""
    pages, step = _counted(store)
    frequencies: dict[int, int] = {}
    for piece in store.select_pieces(_FREQUENCIES, [step]):
        tids, counts = (column.to_numpy().tolist() for column in piece.columns)
        frequencies.update(zip(tids, counts, strict=True))
    return (pages // step if frequencies else 0), frequencies


def document_frequencies_of(store: Store, tids: Sequence[int]) -> tuple[float, dict[int, int]]:
    """How many pages were counted, and in how many of them each of some terms is."""
    pages, step = _counted(store)
    return pages / step, dict(store.select(_FREQUENCIES_OF, [list(tids), step], max_rows=_MAX_ROWS).rows)


def _counted(store: Store) -> tuple[int, int]:
    """All pages, and which share of them is counted: every `step`th."""
    pages = store.count_rows("pages")
    return pages, max(1, -(-pages // MAX_COUNTED_PAGES))


def compare_terms(store: Store, here: Sequence[int], there: Sequence[int]) -> tuple[Column, Column, Column] | None:
    """The terms of two sets of pages, and in how many pages of each set they are; None when there are no terms."""
    pieces = [piece for piece in store.select_pieces(_COMPARED, [list(here), list(there)]) if len(piece)]
    if not pieces:
        return None
    tids, counts_here, counts_there = (
        np.concatenate([piece.column(n).to_numpy() for piece in pieces]) for n in range(3)
    )
    return tids, counts_here, counts_there


def stems(store: Store, tids: Sequence[int]) -> dict[int, str]:
    """The stems behind some terms."""
    return dict(store.select(_STEMS, [list(tids)], max_rows=_MAX_ROWS).rows)


def whole_words(store: Store, tids: Collection[int]) -> dict[int, str]:
    """The words behind some terms, for people: of each the whole word that is written most often in the pages that have
    the term most often; the stem where the texts of pages are not kept."""
    if not tids:
        return {}
    texts = store.select(_WRITERS, [list(tids), _WRITING_PAGES, _WRITTEN_CHARS], max_rows=_MAX_ROWS).rows
    return stems(store, list(tids)) | stored_reader().spellings(texts)


# -- the terms of pages


def bag_of_terms(store: Store, oid: int) -> list[tuple[int, int]]:
    """The terms of a page, and how often each is in it."""
    return store.select(_BAG, [oid], max_rows=2**16).rows


def bags_of_terms(store: Store, oids: Sequence[int]) -> dict[int, dict[int, int]]:
    """The terms of some pages, and how often each is there, by oid."""
    if not oids:
        return {}
    rows = store.select(_BAGS, [list(oids)], max_rows=len(oids)).rows
    return {oid: dict(zip(tids, freqs, strict=True)) for oid, tids, freqs in rows}


def term_lists(store: Store, oids: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """The terms of some pages, ascending, by oid."""
    for piece in store.select_pieces(_LISTS, [list(oids)]):
        yield from zip(*(column.to_pylist() for column in piece.columns), strict=True)


def weigh_terms(
    cursor: duckdb.DuckDBPyConnection, oids: Column, relevance: Column, slots: int
) -> tuple[Column, Column, Column]:
    """By slot of a term (its number modulo `slots`, a power of 2): the sum of relevance over pages that have it, and
    of what is missing to 1."""
    cursor.register("judged", arrow.table({"oid": oids, "relevance": relevance}))
    found = cursor.sql(_WEIGHED, params={"last": slots - 1}).to_arrow_table()
    slot, good, bad = (column.to_numpy() for column in found.columns)
    return slot, good, bad


def term_columns(store: Store, oids: Sequence[int]) -> tuple[Column, Column, Column]:
    """The terms of some pages as columns (oid, tid, freq), ascending."""
    found = [piece for piece in store.select_pieces(_TERMS, [list(oids)]) if piece.num_rows]
    oid, tid, freq = (
        np.concatenate([piece.column(n).to_numpy() for piece in found]) if found else np.zeros(0, np.int64)
        for n in range(3)
    )
    return oid, tid, freq


def neighbour_terms(store: Store, oids: Sequence[int]) -> dict[int, list[int]]:
    """The significant stems of the pages that link to each of some pages, or are linked from it."""
    return dict(store.select(_NEIGHBOURS, [list(oids)], max_rows=2**20).rows) if oids else {}


def parent_terms(store: Store, oids: Sequence[int]) -> dict[int, list[int]]:
    """For URLs found on pages: the significant stems of the page that each was found on."""
    return dict(store.select(_PARENTS, [list(oids)], max_rows=len(oids)).rows) if oids else {}


def cosines(
    store: Store, oids: Sequence[int], tids: Sequence[int], idf: Sequence[float], centres: Sequence[Sequence[float]]
) -> tuple[Column, Column]:
    """Those of some pages that have the terms, and the cosine of each with some centres, a column for each centre.

    Pages are vectors of (1 + ln freq) * idf over the terms `tids`; the centres have length 1. The database multiplies.
    """
    names = [f"w{n}" for n in range(len(centres))]
    words = ", ".join(f"unnest(${n + 3}::DOUBLE[]) AS {name}" for n, name in enumerate(("idf", *names)))
    sums = ", ".join(f"sum((1 + ln(t.freq)) * w.idf * w.{name})" for name in names)
    sql = f"""
        WITH w AS (SELECT unnest($2::UINTEGER[]) AS tid, {words}), mine AS (SELECT unnest($1::BIGINT[]) AS oid)
        SELECT t.oid, sqrt(sum(((1 + ln(t.freq)) * w.idf) ** 2)) AS length, {sums}
        FROM terms t JOIN w USING (tid) WHERE t.oid IN (SELECT oid FROM mine) GROUP BY t.oid ORDER BY t.oid
    """
    found = list(_filled(store.stream(sql, [list(oids), list(tids), list(idf), *map(list, centres)])))
    table = np.concatenate([np.column_stack([c.to_numpy() for c in piece.columns[1:]]) for piece in found])
    found_oids = np.concatenate([piece.column(0).to_numpy() for piece in found])
    return found_oids, table[:, 1:] / np.maximum(table[:, :1], 1e-12)


class TermProfile(NamedTuple):
    """The terms that describe a topic, the heaviest first."""

    kcid: int
    pages: int
    typical: float
    """A quarter of its pages have at most this cosine with the profile."""
    terms: list[str]
    weights: list[float]


def load_profiles(
    store: Store, pairs: Sequence[tuple[int, int]], *, pages: int, terms: int, least_pages: int
) -> list[TermProfile]:
    """Of each good topic the profile of its best pages; `pairs` are topics, each with the good one it is in."""
    asked = {
        "kcids": [kcid for kcid, _ in pairs], "goods": [good for _, good in pairs], "pages": pages, "terms": terms,
        "least": least_pages,
    }  # fmt: skip
    with store.reading() as cursor:
        return [TermProfile(*row) for row in cursor.execute(_PROFILES, asked).fetchall()]


def _filled(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return (piece for piece in pieces if piece.num_rows)


def pages_with_terms(store: Store, weights: Mapping[int, float], least: float) -> set[int]:
    """The pages whose terms add up to at least `least`, by the weight of each."""
    given = [list(weights), list(weights.values()), least]
    return {oid for (oid,) in store.select(_WITH_TERMS, given, max_rows=_MAX_ROWS).rows}


def stuffed_pages(store: Store, oids: Collection[int]) -> set[int]:
    """Those of some pages that repeat a few words far more often than texts do: nothing is to be learned from them."""
    return {oid for (oid,) in store.select(_STUFFED, [list(oids)], max_rows=_MAX_ROWS).rows}
