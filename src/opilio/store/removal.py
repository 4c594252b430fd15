"""Removing pages for good, because somebody asked for it: rows, the bytes that rows leave behind, and WARC records.

A URL that is removed keeps its row in `crawl`, with the outcome `forgotten`: it is known, so it is not fetched again.
Everything that its page said is deleted, in one transaction, and so are the models that learned from it. What is still
to be done in other files is noted in `meta` until it is done, so that a removal that was killed can be finished.

A database file keeps deleted bytes in free blocks: `rewrite` makes a new file of what is left, and puts it in place of
the old one in one step. In a WARC file a record is replaced by a tombstone of the same length, so that every other
record stays where it is, and no offset changes, in the database or in an index that other programs made.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import duckdb
import pyarrow as pa

from opilio.model import Outcome, UrlState
from opilio.model.visit import SUBRESOURCE_OID
from opilio.store.connection import FILE_NAME, store_error, sync_folder
from opilio.store.database import Store
from opilio.store.invariants import RECOUNT_PAGES, forget_records
from opilio.store.loader import WARC_END, WARC_ENDS
from opilio.store.urls import change_states
from opilio.store.warc import PART_FIELD, WarcPiece, inspect, tombstone

JOURNAL = "removing"
"""The name in `meta` of what a removal has still to do."""
REMOVAL_LEFT = f"SELECT value FROM meta WHERE name = '{JOURNAL}'"
_MAX_ROWS = 2**31

_CHOSEN = """
    WITH named AS (
        SELECT oid FROM crawl
        WHERE sid IN (SELECT unnest($1::INTEGER[])) OR url IN (SELECT unnest($2::VARCHAR[]))
    )
    SELECT oid FROM named UNION SELECT d.oid FROM duplicates d WHERE d.of_oid IN (FROM named) ORDER BY 1
"""
_COUNTS = """
    SELECT count(*), count(*) FILTER (oid IN (SELECT oid FROM pages)),
           count(*) FILTER (url IN (SELECT name FROM training))
    FROM crawl WHERE oid IN (SELECT unnest($1::BIGINT[]))
"""
_PICTURES = """
    SELECT DISTINCT url FROM (
        SELECT unnest([picture, icon]) AS url FROM page_pictures WHERE oid IN (SELECT unnest($1::BIGINT[]))
    )
    WHERE url <> '' AND url NOT IN (
        SELECT unnest([picture, icon]) FROM page_pictures WHERE oid NOT IN (SELECT unnest($1::BIGINT[])))
"""
_LEARNED = """
    CREATE TEMP TABLE stale AS
    SELECT version FROM models, (
        SELECT count(*) AS n, min(coalesce(added, TIMESTAMP '1970-01-01')) AS since
        FROM training WHERE name IN (SELECT url FROM gone)
    ) WHERE n > 0 AND created >= since
"""
_LEXICON = """
    DELETE FROM lexicon WHERE tid IN (SELECT tid FROM terms WHERE oid IN (SELECT oid FROM gone))
      AND tid NOT IN (SELECT tid FROM terms WHERE oid NOT IN (SELECT oid FROM gone))
"""
_OF_PAGES = (
    ("pages", "oid"), ("page_pictures", "oid"), ("sifted", "oid"), ("links", "oid_src"), ("past_links", "oid_src"),
    ("revisits", "oid"), ("terms", "oid"), ("judgements", "oid"), ("questions", "oid"), ("labels", "oid"),
    ("reviews", "oid"), ("hubs", "oid"), ("auth", "oid"), ("link_scores", "oid"), ("duplicates", "oid"),
    ("duplicates", "of_oid"),
)  # fmt: skip
_OF_URLS = (("seeds", "url"), ("training", "name"), ("lessons", "name"), ("offers", "url"))
_AFTER = (
    # Of models that are gone nothing may be left, and their numbers may be given again.
    "DELETE FROM models WHERE version IN (SELECT version FROM stale)",
    "DELETE FROM judgements WHERE model_version IN (SELECT version FROM stale)",
    "UPDATE pages SET model_version = 0 WHERE model_version IN (SELECT version FROM stale)",
    f"""
    CREATE TEMP TABLE moved AS
    SELECT 'outcome:' || outcome AS name, -count(*) AS n FROM crawl
    WHERE oid IN (SELECT oid FROM gone) AND state <> 'waiting' AND outcome IS NOT NULL GROUP BY 1
    UNION ALL SELECT 'outcome:{Outcome.FORGOTTEN}', count(*) FROM gone
    """,
    """
    INSERT INTO counters SELECT DISTINCT name, 0 FROM moved WHERE name NOT IN (SELECT name FROM counters)
    """,
    """
    UPDATE counters SET n = greatest(counters.n + m.n, 0)
    FROM (SELECT name, sum(n)::BIGINT AS n FROM moved GROUP BY name) m WHERE m.name = counters.name
    """,
    change_states((UrlState.FETCHED, UrlState.FAILED), UrlState.WAITING, where="oid IN (SELECT oid FROM gone)"),
    change_states((UrlState.WAITING,), UrlState.DROPPED, where="oid IN (SELECT oid FROM gone)"),
    f"""
    UPDATE crawl SET outcome = '{Outcome.FORGOTTEN}', relevance = 0, priority = 0, not_before = NULL
    WHERE oid IN (SELECT oid FROM gone)
    """,
    f"""
    UPDATE visits SET warc_file = '', warc_offset = 0, warc_bytes = 0, detail = ''
    WHERE oid IN (SELECT oid FROM gone UNION ALL SELECT {SUBRESOURCE_OID} - oid FROM gone)
    """,
    *RECOUNT_PAGES,
)


class RemovalPlan(NamedTuple):
    """What would be removed."""

    oids: list[int]
    urls: int
    pages: int
    examples: int
    """URLs that are training documents."""


class Unfinished(NamedTuple):
    """What a removal has still to do in WARC files: records of these hosts, pictures and forgotten URLs."""

    hosts: list[str]
    pictures: list[str]


def choose(store: Store, sids: Sequence[int], urls: Sequence[str]) -> RemovalPlan:
    """The URLs of some hosts, some URLs, and the duplicates of both."""
    oids = [oid for (oid,) in store.select(_CHOSEN, [list(sids), list(urls)], max_rows=_MAX_ROWS).rows]
    [row] = store.select(_COUNTS, [oids]).rows
    return RemovalPlan(oids, *row)


def remove_rows(store: Store, chosen: RemovalPlan, hosts: Sequence[str], is_host: Callable[[str], bool]) -> None:
    """Delete all that is known of some URLs, and note what is left to do. `is_host` recognises URLs of the hosts."""
    pictures = {url for (url,) in store.select(_PICTURES, [chosen.oids], max_rows=_MAX_ROWS).rows}
    pictures |= {url for (url,) in store.select("SELECT url FROM pictures", max_rows=_MAX_ROWS).rows if is_host(url)}
    before = unfinished(store) or Unfinished([], [])
    journal = Unfinished(sorted({*before.hosts, *hosts}), sorted({*before.pictures, *pictures}))
    ends = store.select(WARC_ENDS, max_rows=_MAX_ROWS).rows
    with store.writing() as cursor:
        cursor.register("incoming", pa.table({"oid": pa.array(chosen.oids, pa.int64())}))
        cursor.execute("CREATE TEMP TABLE gone AS SELECT c.oid, c.url FROM crawl c JOIN incoming i ON i.oid = c.oid")
        cursor.unregister("incoming")
        cursor.execute(_LEARNED)
        cursor.execute(_LEXICON)
        for table, column in _OF_PAGES:
            cursor.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT oid FROM gone)")
        for table, column in _OF_URLS:
            cursor.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT url FROM gone)")
        for statement in _AFTER:
            cursor.execute(statement)
        cursor.execute("DELETE FROM pictures WHERE url IN (SELECT unnest($1::VARCHAR[]))", [journal.pictures])
        # The end of a file is known by its last record, which may be one of those that are removed.
        cursor.execute(f"DELETE FROM meta WHERE starts_with(name, '{WARC_END}') OR name = '{JOURNAL}'")
        for name, end in [*((f"{WARC_END}{name}", str(end)) for name, end in ends), (JOURNAL, json.dumps(journal))]:
            cursor.execute("INSERT INTO meta VALUES ($1, $2)", [name, end])
        for table in ("gone", "stale", "moved"):
            cursor.execute(f"DROP TABLE {table}")


def unfinished(store: Store) -> Unfinished | None:
    """What a removal has still to do; None when there is none."""
    rows = store.select(REMOVAL_LEFT).rows
    return Unfinished(*json.loads(rows[0][0])) if rows else None


def forgotten_urls(store: Store) -> set[str]:
    """All URLs that were removed."""
    sql = "SELECT url FROM crawl WHERE outcome = $1"
    return {url for (url,) in store.query(sql, [Outcome.FORGOTTEN.value], max_rows=_MAX_ROWS).rows}


def finish(store: Store) -> None:
    """Note that a removal is complete."""
    store.query("DELETE FROM meta WHERE name = $1", [JOURNAL], write=True)


def rewrite(folder: Path, memory_bytes: int) -> None:
    """Make a new database file of the rows that are there: nothing is left in it of rows that were deleted.

    The new file takes the place of the old one in one step, while no other process can change the old one.
    """
    path = folder / FILE_NAME
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    config: dict[str, Any] = {
        "memory_limit": f"{max(memory_bytes, 64 * 2**20) >> 20}MiB",
        "temp_directory": str(path.with_suffix(".spill")),
    }
    try:
        with duckdb.connect(config=config) as connection:
            connection.execute(f"ATTACH '{_quoted(path)}' AS old_file (READ_ONLY)")
            connection.execute(f"ATTACH '{_quoted(new)}' AS new_file")
            connection.execute("COPY FROM DATABASE old_file TO new_file")
            connection.execute("CHECKPOINT new_file")
            connection.execute("DETACH new_file")
            new.replace(path)
            sync_folder(folder)
    except (duckdb.Error, OSError) as error:
        raise store_error(path, error, "rewrite") from error
    finally:
        new.unlink(missing_ok=True)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


def bury(store: Store, path: Path, is_removed: Callable[[str], bool]) -> int:
    """Replace the records of a WARC file whose URL is to be removed by tombstones; returns how many.

    The database forgets these records first; then the file is replaced in one step.
    """
    pieces = [piece for piece in inspect(path) if any(map(is_removed, _urls_of(piece)))]
    if not pieces:
        return 0
    forget_records(store, path.name, [piece.offset for piece in pieces])
    removed_s, new = time.time(), path.with_suffix(".new")
    with path.open("rb") as source, new.open("wb") as target:
        at = 0
        for piece in pieces:
            _copy(source, target, at, piece.offset)
            target.write(tombstone(piece.length, removed_s))
            at = piece.offset + piece.length
        _copy(source, target, at, path.stat().st_size)
        target.flush()
        os.fsync(target.fileno())
    new.replace(path)
    sync_folder(path.parent)
    return len(pieces)


def _urls_of(piece: WarcPiece) -> list[str]:
    """The URL of a record, and that of the page whose script requested it."""
    return [url for url in (piece.url, piece.fields.get(PART_FIELD.lower(), "")) if url]


def _copy(source: BinaryIO, target: BinaryIO, start: int, end: int) -> None:
    source.seek(start)
    while start < end and (piece := source.read(min(end - start, 2**20))):
        target.write(piece)
        start += len(piece)
