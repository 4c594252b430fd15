"""Reading a database that may be damaged, and taking over what is sound of it into a new one.

DuckDB keeps a checksum of each block and compares it when it reads the block. So a damaged file can often be opened,
and most of its tables can be read; in the others, most rows can be, or most columns of them (`sound_rows`).

A new database is filled in two steps. `take_inputs` brings what no WARC file has: topics, examples, models and whatever
else the user or the crawl decided. When the pages have been read from the WARC files, `take_rest` adds the URLs and
pages that only the old database has. URLs have other numbers then: rows of both are matched by URL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from opilio.store.connection import connect, store_error
from opilio.store.database import Store
from opilio.store.schema import create, migrations, version

PIECE_ROWS = 2048  # DuckDB packs this many rows together
INPUTS = (
    "topics", "seeds", "training", "lessons", "models", "review_decisions", "offers", "notices", "runs", "progress",
    "taxonomy_stat", "stat", "blob", "archives",
)  # fmt: skip
"""Tables that are not made from responses and refer to no URL by its number."""
_OLD = ("crawl", "hosts", "pages", "links", "terms", "lexicon", "judgements", "redirects", "reviews", "questions",
        "labels", "sifted")  # fmt: skip


class DatabaseCopy(NamedTuple):
    """The database as it is on the disk, opened only to be read."""

    connection: duckdb.DuckDBPyConnection
    tables: list[str]
    catalog: str
    """The name that DuckDB gave to the file."""

    def stored(self, table: str) -> str:
        """The full name of a table. `crawl` and `main.crawl` can be the view that `reading_file` makes."""
        return f'"{self.catalog}".main."{table}"'

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows that answer a query."""
        return self.connection.execute(sql).fetchall()


@contextmanager
def reading_file(path: Path, memory_bytes: int) -> Iterator[DatabaseCopy]:
    """A database, opened without changing it. Raises StoreError when it cannot be opened at all.

    Changes that a killed crawl left in the journal are seen as if they had been folded into their table.
    """
    connection = connect(path, memory_bytes=memory_bytes, read_only=True)
    try:
        try:
            version(connection, path)
            found = connection.execute("SELECT table_name FROM duckdb_tables() WHERE NOT temporary ORDER BY 1")
            tables = [name for (name,) in found.fetchall()]
            [(catalog,)] = connection.execute("SELECT current_database()").fetchall()
            copy = DatabaseCopy(connection, tables, catalog)
            if copy.ask("SELECT count(*) FROM crawl_changes")[0][0]:
                connection.execute(_FOLDED.format(crawl=copy.stored("crawl")))
        except duckdb.Error as error:
            raise store_error(path, error, "open") from error
        yield copy
    finally:
        connection.close()


_FOLDED = """
    CREATE TEMP VIEW crawl AS
    SELECT c.* REPLACE (
        coalesce(j.topic, c.topic) AS topic, coalesce(j.state, c.state) AS state,
        CASE WHEN j.oid IS NULL THEN c.outcome ELSE j.outcome END AS outcome
    )
    FROM {crawl} c
    LEFT JOIN (FROM crawl_changes QUALIFY row_number() OVER (PARTITION BY oid ORDER BY seq DESC) = 1) j ON j.oid = c.oid
"""


def missing_tables(copy: DatabaseCopy) -> list[str]:
    """Tables of the newest schema that a database of that version lacks."""
    with duckdb.connect() as empty:
        create(empty, migrations())
        names = [name for (name,) in empty.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()]
    return [name for name in names if name not in copy.tables]


def unreadable(copy: DatabaseCopy, table: str) -> str:
    """Why a table cannot be read; '' when all of it can be. Reads every row."""
    try:
        copy.connection.execute(f"SELECT bit_xor(hash(COLUMNS(*))) FROM {copy.stored(table)}").fetchall()
    except duckdb.Error as error:
        return " ".join(str(error).split())
    return ""


def sound_rows(copy: DatabaseCopy, table: str) -> Iterator[pa.Table]:
    """The rows of a table that can be read, in pieces. A value that cannot be read is NULL where that is allowed."""
    described = copy.ask(f"SELECT column_name, is_nullable FROM duckdb_columns() WHERE table_name = '{table}'")
    optional = [name for name, is_nullable in described if is_nullable]
    names = [name for name, _ in described if name != "kcid" or table != "crawl"]  # which is computed
    try:
        [(count,)] = copy.ask(f"SELECT count(*) FROM {copy.stored(table)}")
    except duckdb.Error:
        return
    for first in range(0, count, PIECE_ROWS):
        piece = _sound_piece(copy, table, names, optional, first)
        if piece is not None and len(piece):
            yield piece


def _sound_piece(
    copy: DatabaseCopy, table: str, names: Sequence[str], optional: Sequence[str], first: int
) -> pa.Table | None:
    def read(columns: Sequence[str]) -> pa.Table | None:
        listed = ", ".join(f'"{name}"' for name in columns)
        sql = f"SELECT {listed} FROM {copy.stored(table)} WHERE rowid >= {first} AND rowid < {first + PIECE_ROWS}"
        try:
            return copy.connection.sql(sql).to_arrow_table()
        except duckdb.Error:
            return None

    return read(names) or read([name for name in names if name not in optional or read([name]) is not None])


# -- into a new database


def take_inputs(store: Store, copy: DatabaseCopy) -> list[str]:
    """Bring the tables that no WARC file has into a new database; those of which rows are lost."""
    lost = []
    with store.writing() as cursor:
        for table in INPUTS:
            try:
                _take_rows(cursor, copy, table, table)
            except duckdb.Error:  # it is of an older version, or a value that must be there is lost
                lost.append(table)
                continue
            if unreadable(copy, table) or table not in copy.tables:
                lost.append(table)
    return lost


LEARNED = ("topics", "training", "lessons", "models", "taxonomy_stat", "stat", "blob")
"""Of these, what a crawl works from."""


def take_learned(store: Store, copy: DatabaseCopy) -> None:
    """Bring the topics, examples and models of a collection into a new one."""
    with store.writing() as cursor:
        for table in LEARNED:
            _take_rows(cursor, copy, table, table)
        _take_rows(cursor, copy, "lexicon", "lexicon")  # it has the words of the models


def _take_rows(cursor: duckdb.DuckDBPyConnection, copy: DatabaseCopy, table: str, target: str) -> None:
    names = {row[0] for row in cursor.execute(f"DESCRIBE {target}").fetchall()}
    for piece in sound_rows(copy, table):
        cursor.register("incoming", piece.select([name for name in piece.column_names if name in names]))
        cursor.execute(f"INSERT INTO {target} BY NAME FROM incoming")
        cursor.unregister("incoming")


# What is only in the old database: URLs with their hosts, pages, and what belongs to these pages.
_TAKE = """
CREATE TEMP TABLE lacking AS
    SELECT o.* FROM old_crawl o WHERE o.url NOT IN (SELECT url FROM crawl)
    QUALIFY row_number() OVER (PARTITION BY o.url ORDER BY o.state = 'fetched' DESC, o.oid) = 1;
CREATE TEMP TABLE lacking_hosts AS
    SELECT h.* FROM old_hosts h
    WHERE h.sid IN (SELECT sid FROM lacking) AND h.host NOT IN (SELECT host FROM hosts)
    QUALIFY row_number() OVER (PARTITION BY h.host ORDER BY h.sid) = 1;
INSERT INTO hosts BY NAME
    SELECT * REPLACE ((SELECT coalesce(max(sid) + 1, 0) FROM hosts) + row_number() OVER (ORDER BY sid) - 1 AS sid)
    FROM lacking_hosts;
INSERT INTO crawl BY NAME
    SELECT l.* EXCLUDE (kcid) REPLACE (
        (SELECT coalesce(max(oid) + 1, 0) FROM crawl) + row_number() OVER (ORDER BY l.oid) - 1 AS oid,
        h.sid AS sid, NULL AS parent,
        CASE WHEN l.topic IN (SELECT kcid FROM topics) THEN l.topic ELSE 0 END AS topic
    )
    FROM lacking l JOIN old_hosts o ON o.sid = l.sid JOIN hosts h ON h.host = o.host;
CREATE TEMP TABLE same AS SELECT o.oid AS was, c.oid FROM old_crawl o JOIN crawl c USING (url);
UPDATE crawl SET state = o.state, outcome = o.outcome, numtries = o.numtries, lastvisited = o.lastvisited
    FROM old_crawl o WHERE o.url = crawl.url AND crawl.state = 'waiting' AND o.state IN ('failed', 'dropped');
CREATE TEMP TABLE brought AS
    SELECT s.was, s.oid FROM old_pages p JOIN same s ON s.was = p.oid WHERE s.oid NOT IN (SELECT oid FROM pages)
    QUALIFY row_number() OVER (PARTITION BY s.oid) = 1;
INSERT INTO pages BY NAME
    SELECT p.* REPLACE (b.oid AS oid, '' AS warc_file, 0 AS warc_offset, 0 AS warc_bytes)
    FROM old_pages p JOIN brought b ON b.was = p.oid
    QUALIFY row_number() OVER (PARTITION BY p.oid ORDER BY p.visited DESC) = 1;
UPDATE crawl SET state = 'fetched', outcome = 'ok', lastvisited = p.visited
    FROM pages p WHERE p.oid = crawl.oid AND crawl.oid IN (SELECT oid FROM brought);
INSERT INTO links BY NAME
    SELECT l.* REPLACE (b.oid AS oid_src, s.oid AS oid_dst, f.sid AS sid_src, t.sid AS sid_dst)
    FROM old_links l JOIN brought b ON b.was = l.oid_src JOIN same s ON s.was = l.oid_dst
    JOIN crawl f ON f.oid = b.oid JOIN crawl t ON t.oid = s.oid;
INSERT INTO terms BY NAME SELECT t.* REPLACE (b.oid AS oid) FROM old_terms t JOIN brought b ON b.was = t.oid;
INSERT INTO sifted BY NAME
    SELECT a.* REPLACE (b.oid AS oid) FROM old_sifted a JOIN brought b ON b.was = a.oid;
INSERT INTO lexicon SELECT DISTINCT tid, term FROM old_lexicon WHERE tid NOT IN (SELECT tid FROM lexicon);
INSERT INTO judgements BY NAME
    SELECT j.* REPLACE (b.oid AS oid) FROM old_judgements j JOIN brought b ON b.was = j.oid;
INSERT INTO redirects BY NAME
    SELECT r.* REPLACE (a.oid AS oid_src, b.oid AS oid_dst)
    FROM old_redirects r JOIN same a ON a.was = r.oid_src JOIN same b ON b.was = r.oid_dst
    WHERE a.oid NOT IN (SELECT oid_src FROM redirects) AND a.oid NOT IN (SELECT oid FROM pages);
INSERT INTO reviews BY NAME SELECT r.* REPLACE (s.oid AS oid) FROM old_reviews r JOIN same s ON s.was = r.oid;
INSERT INTO questions BY NAME SELECT q.* REPLACE (s.oid AS oid) FROM old_questions q JOIN same s ON s.was = q.oid;
INSERT INTO labels BY NAME SELECT l.* REPLACE (s.oid AS oid) FROM old_labels l JOIN same s ON s.was = l.oid;
"""


def take_rest(store: Store, copy: DatabaseCopy) -> int:
    """Add the URLs and pages to a database that only the old one has. Returns how many pages."""
    with store.writing() as cursor:
        for table in _OLD:
            cursor.execute(f"CREATE TEMP TABLE old_{table} AS FROM main.{table} LIMIT 0")
            if table in copy.tables:
                _take_rows(cursor, copy, table, f"old_{table}")
        cursor.execute(_TAKE)
        return int(cursor.execute("SELECT count(*) FROM brought").fetchall()[0][0])


def settings_of_last_run(copy: DatabaseCopy) -> str:
    """The settings of the latest crawl, as TOML; '' when they are not known."""
    try:
        rows = copy.ask("SELECT settings FROM runs ORDER BY run DESC LIMIT 1")
    except duckdb.Error:
        return ""
    return str(rows[0][0] or "") if rows else ""
