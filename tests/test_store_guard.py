"""What a user's SQL may and may not do."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from made_crawls import MadeCrawl
from opilio.errors import QueryError
from opilio.store import Store
from opilio.store.questions import question
from store_rows import filled


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A filled store that no test of this module manages to change."""
    with filled(Store.create(tmp_path_factory.mktemp("c"))) as made:
        yield made


READS = [
    "SELECT count(*) FROM crawl",
    "select url from crawl limit 1;",
    "-- a comment\nSELECT 1 /* another; one */",
    "WITH census AS (SELECT kcid, count(*) AS n FROM crawl GROUP BY kcid) SELECT * FROM census ORDER BY n",
    "FROM harvest",
    "VALUES (1), (2)",
    "TABLE topics",
    "DESCRIBE crawl",
    "SHOW TABLES",
    "SUMMARIZE hosts",
    "EXPLAIN SELECT * FROM crawl",
    "EXPLAIN ANALYZE SELECT count(*) FROM crawl",
    "/* why */ EXPLAIN (FORMAT json) SELECT 1",
    "SELECT * FROM range(3), unnest([1, 2])",
    "SELECT * FROM information_schema.tables",
    "SELECT 'DROP TABLE crawl; read_csv(''x'')' AS quoted",
    "SELECT unnest(keywords) FROM topics",
    "SELECT 1 UNION ALL SELECT 2",
]

ATTACKS = [
    # changing rows, plainly and in disguise
    "INSERT INTO topics SELECT * FROM topics",
    "UPDATE crawl SET relevance = 1",
    "DELETE FROM crawl",
    "TRUNCATE crawl",
    "DROP TABLE crawl",
    "CREATE TABLE x (a INT)",
    "CREATE TEMP TABLE x (a INT)",
    "CREATE OR REPLACE VIEW frontier AS SELECT 1",
    "CREATE MACRO oid() AS 1",
    "ALTER TABLE crawl DROP COLUMN url",
    "WITH gone AS (DELETE FROM crawl RETURNING *) SELECT * FROM gone",
    "WITH more AS (INSERT INTO seeds SELECT * FROM seeds RETURNING url) SELECT count(*) FROM more",
    "WITH new AS (UPDATE crawl SET relevance = 1 RETURNING oid) FROM new",
    "EXPLAIN ANALYZE DELETE FROM crawl",
    "EXPLAIN ANALYZE WITH gone AS (DELETE FROM crawl RETURNING *) SELECT * FROM gone",
    "SELECT 1; DROP TABLE crawl",
    "SELECT 1;;DELETE FROM crawl",
    "MERGE INTO topics USING topics t ON topics.kcid = t.kcid WHEN MATCHED THEN DELETE",
    "PREPARE p AS DELETE FROM crawl",
    "EXECUTE p",
    # leaving the database
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM \"read_text\"('/etc/passwd')",
    "SELECT * FROM READ_JSON('/etc/passwd')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "SELECT * FROM parquet_metadata('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM 'http://127.0.0.1/x.csv'",
    "DESCRIBE SELECT * FROM read_csv('/etc/passwd')",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "SELECT * FROM query('SELECT * FROM read_text(''/etc/passwd'')')",
    "SELECT * FROM query_table('crawl')",
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "EXPLAIN ANALYZE SELECT * FROM read_text('/etc/passwd')",
    "COPY crawl TO '/tmp/opilio-attack.csv'",
    "COPY crawl FROM '/etc/passwd'",
    "EXPORT DATABASE '/tmp/opilio-attack'",
    "IMPORT DATABASE '/tmp/opilio-attack'",
    "ATTACH '/tmp/opilio-attack.duckdb'",
    "ATTACH ':memory:' AS m",
    "DETACH collection",
    "INSTALL httpfs",
    "LOAD httpfs",
    "CREATE SECRET s (TYPE s3)",
    # configuration and machinery
    "SET memory_limit = '100GB'",
    "SET enable_external_access = true",
    "RESET enable_external_access",
    "PRAGMA threads = 64",
    "PRAGMA database_size",
    "CALL pragma_version()",
    "CHECKPOINT",
    "FORCE CHECKPOINT",
    "FROM checkpoint('collection')",
    "FROM force_checkpoint('collection')",
    "VACUUM",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "USE memory",
    "SET VARIABLE x = 1",
    "SELECT write_log('x')",
    "SELECT sleep_ms(1)",
    "FROM enable_logging()",
    "FROM truncate_duckdb_logs()",
    "FROM pandas_scan(1)",
    "FROM arrow_scan(1, 2, 3)",
    "FROM register_external_resource('x')",
    # Python's variables
    "SELECT * FROM ATTACKS",
    "SELECT * FROM incoming",
    # nothing at all, or nonsense
    "",
    ";",
    "-- only a comment",
    "SELEC 1",
    "SELECT no_such_column FROM crawl",
    "SELECT * FROM no_such_table",
    "\0",
    "(" * 3000,
]


@pytest.mark.parametrize("sql", READS)
def test_reading_is_allowed(store: Store, sql: str) -> None:
    """Every form of a query is answered."""
    assert store.query(sql).columns


@pytest.mark.parametrize("sql", ATTACKS, ids=lambda sql: sql[:40])
def test_everything_else_is_refused(store: Store, sql: str) -> None:
    """Refused with a QueryError and a hint, without a change, and the store goes on working."""
    before = store.query("SELECT count(*), sum(relevance), min(url) FROM crawl").rows
    with pytest.raises(QueryError) as caught:
        store.query(sql)
    assert caught.value.message
    assert caught.value.hint
    assert store.query("SELECT count(*), sum(relevance), min(url) FROM crawl").rows == before
    assert not Path("/tmp/opilio-attack.csv").exists()


@pytest.mark.parametrize(
    "sql", [s for s in ATTACKS if not s.startswith(("INSERT", "UPDATE", "DELETE", "TRUNCATE", "MERGE"))],
    ids=lambda sql: sql[:40],
)  # fmt: skip
def test_permission_to_write_is_for_rows_only(store: Store, sql: str) -> None:
    """Allowed to change rows, a user can still neither leave the database nor change its tables or settings."""
    before = store.query("SELECT count(*), sum(relevance), min(url) FROM crawl").rows
    with pytest.raises(QueryError):
        store.query(sql, write=True)
    assert store.query("SELECT count(*), sum(relevance), min(url) FROM crawl").rows == before


LARGE = [
    "SELECT repeat('x', 1000000000)",
    "SELECT repeat('x', 1000 * 1000000)",
    "SELECT 'x'.repeat(1000000000)",
    "SELECT system.main.repeat('x', 1000000000)",
    "SELECT repeat('x', 1000000) FROM range(4096)",
    "SELECT lpad('x', 1000000000, 'y')",
    "SELECT rpad('x', 1000000000, 'y')",
    "SELECT bitstring('1', 2000000000)",
    "SELECT list_resize([1], 1000000000)",
    "SELECT len(range(1000000000))",
    "SELECT unnest(generate_series(1, 1000000000))",
    "SELECT list_transform(range(100000), lambda x: range(100000))",
    "SELECT printf('%1000000000d', 1)",
    "SELECT printf('%*d', 1000000000, 1)",
    "SELECT format('{:>1000000000}', 'x')",
    "SELECT format('{:{}}', 'x', 1000000000)",
    "SELECT format(concat('{:', '>1000000000}'), 'x')",
    "SELECT list(a.range) FROM range(100000) a, range(100000) b",
    "SELECT string_agg('xxxxxxxxxxxxxxxx') FROM range(100000) a, range(100000) b",
]


@pytest.mark.parametrize("sql", LARGE)
def test_a_statement_cannot_fill_the_memory(store: Store, sql: str) -> None:
    """However it asks for gigabytes, it is refused or stopped soon, and takes no more than half of the database's
    memory: batches of a crawl need the rest."""
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started_s = time.monotonic()
    with pytest.raises(QueryError):
        store.query(sql, timeout_s=5.0, max_chars=1_000_000)
    assert time.monotonic() - started_s < 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 700_000


def test_a_long_statement_is_stopped(store: Store) -> None:
    """After its time a statement ends, and says why."""
    with pytest.raises(QueryError, match=r"longer than 0.2 s"):
        store.query("SELECT count(*) FROM range(10000000) a, range(10000) b WHERE a.range * b.range % 7 = 3",
                    timeout_s=0.2, max_chars=1000)  # fmt: skip


def test_bounded_functions_work_as_before(store: Store) -> None:
    """Small texts, lists and series are made as DuckDB makes them, also in FROM."""
    sql = """
        SELECT lpad('a', 3, '-'), rpad('a', 3, '-'), repeat('ab', 2), 'ab'.repeat(2), printf('%5.1f|%s', 1.5, 'x'),
            format('{:>3}', 'x'), list_resize([1], 2), list_resize([1], 2, 0), range(3), generate_series(1, 5, 2)
        FROM range(1) a, generate_series(DATE '2024-01-01', DATE '2024-01-02', INTERVAL 1 DAY) b
    """
    made = ("--a", "a--", "abab", "abab", "  1.5|x", "  x", [1, None], [1, 0], [0, 1, 2], [1, 3, 5])
    assert store.query(sql, timeout_s=5.0, max_chars=1000).rows == [made, made]


@pytest.mark.parametrize("sql", ["INSERT INTO seeds SELECT content, 1, '', '', NULL FROM read_text('/etc/passwd')"])
def test_a_change_cannot_read_files(store: Store, sql: str) -> None:
    """Nor can a change fetch from a file what it writes."""
    with pytest.raises(QueryError):
        store.query(sql, write=True)


def test_parameters_are_values(store: Store) -> None:
    """What comes in a parameter is never read as SQL."""
    assert store.query("SELECT ? AS x", ["1; DROP TABLE crawl"]).rows == [("1; DROP TABLE crawl",)]
    assert store.query("SELECT $a || $b AS x", {"a": "x", "b": "y"}).rows == [("xy",)]


def test_errors_suggest_the_right_name(store: Store) -> None:
    """A misspelt column is answered with the right one."""
    with pytest.raises(QueryError) as caught:
        store.query("SELECT relevence FROM crawl")
    assert "relevance" in caught.value.hint


# Topics of made_crawls: 0 root > 1 > 2 > 3 (good), 4 (good) and 5 below the root.
POSSIBLE = [
    ("UPDATE topics SET type = 'good' WHERE kcid = 5", {5: "good"}),
    ("UPDATE topics SET type = 'null' WHERE kcid = 3", {1: "null", 2: "null", 3: "null"}),
    ("UPDATE topics SET type = CASE kcid WHEN 2 THEN 'good' ELSE 'subsumed' END WHERE kcid IN (2, 3)",
     {2: "good", 3: "subsumed"}),
]  # fmt: skip
IMPOSSIBLE = [
    ("UPDATE topics SET type = 'good' WHERE kcid = 2", "cannot be good: "),
    ("UPDATE topics SET type = 'good' WHERE kcid = 0", "the root cannot be good"),
    ("UPDATE topics SET type = 'null'", "no topic would be good"),
    ("DELETE FROM topics WHERE type = 'good'", "no topic would be good"),
    ("UPDATE topics SET type = 'null' WHERE kcid = 2", "cannot be null: it is path"),
    ("INSERT INTO topics VALUES (9, 3, 'x', 'a / b / x', 'good', [], '')", "cannot be good: "),
]


@pytest.fixture
def with_topics(tmp_path: Path) -> Iterator[Store]:
    """A store with the topics of `made_crawls`."""
    with MadeCrawl().fill(Store.create(tmp_path)) as made:
        yield made


def marks(store: Store) -> dict[int, str]:
    return dict(store.query("SELECT kcid, type FROM topics").rows)


@pytest.mark.parametrize(("sql", "changes"), POSSIBLE)
def test_marks_follow_from_the_good_topics(with_topics: Store, sql: str, changes: dict[int, str]) -> None:
    """What a statement does not write is brought in line with the good topics that it leaves, in one transaction."""
    before = marks(with_topics)
    with_topics.query(sql, write=True, settles_marks=True)
    assert marks(with_topics) == {**before, **changes}


@pytest.mark.parametrize(("sql", "message"), IMPOSSIBLE)
def test_impossible_marks_are_refused(with_topics: Store, sql: str, message: str) -> None:
    """A statement that leaves a good topic below a good one, a good root or nothing good changes nothing."""
    before = with_topics.query("FROM topics ORDER BY kcid").rows
    with pytest.raises(QueryError, match=message) as caught:
        with_topics.query(sql, write=True, settles_marks=True)
    assert "opilio topics mark" in caught.value.hint
    assert with_topics.query("FROM topics ORDER BY kcid").rows == before


@pytest.mark.parametrize("parent", [3, 77])
def test_a_topic_that_would_leave_the_tree_is_refused(with_topics: Store, parent: int) -> None:
    """Neither its own descendant nor a topic that does not exist can be above a topic."""
    before = with_topics.query("FROM topics ORDER BY kcid").rows
    with pytest.raises(QueryError, match="would not be below the root"):
        with_topics.query(f"UPDATE topics SET pcid = {parent} WHERE kcid = 1", write=True, settles_marks=True)
    assert with_topics.query("FROM topics ORDER BY kcid").rows == before


def test_the_ready_question_never_marks_the_root(with_topics: Store) -> None:
    """Asked again and again it widens up to the topics below the root, and then changes nothing."""
    found = question("mark-ancestor-good")
    assert found is not None
    counts = [with_topics.query(found.sql, write=True, settles_marks=True).rows[0][0] for _ in range(4)]
    assert counts[-1] == 0 and counts[0] > 0
    assert marks(with_topics)[0] == "path" and marks(with_topics)[1] == "good"
