"""Opening: what a damaged, busy, foreign, newer or older database is called, and what a crash or a full disk leaves."""

from __future__ import annotations

import datetime
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pytest

from opilio.crawl.status import Counters
from opilio.errors import CollectionBusy, CollectionError, StoreError
from opilio.model import CrawlProgress, Phase
from opilio.store import Batch, Store, schema, urls
from opilio.store.connection import FILE_NAME
from store_rows import add_url, filled

BATCH_URLS = 50
# A child that writes numbered batches: each adds 50 URLs, changes them in the same and in the next batch, links them.
WRITER = textwrap.dedent("""
    import os, resource, sys
    from pathlib import Path
    from opilio.errors import StoreError
    from opilio.store import Batch, Store, writer
    folder, first, count, fold_rows, wal_bytes, max_file_bytes = Path(sys.argv[1]), *map(int, sys.argv[2:])
    writer.FOLD_ROWS, writer.log_limit_bytes = fold_rows, lambda size: wal_bytes
    store = Store.open(folder)
    if max_file_bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_file_bytes, resource.RLIM_INFINITY))
    for number in range(first, first + count):
        batch = Batch()
        for oid in range(number * 50, number * 50 + 50):
            batch.urls.add(oid, f"http://a.test/{oid}", oid, 0, 1, 1, None, 0, "waiting", None, 0, .5, .5, 0., 1e9, 0.)
            batch.changes.add(oid, 1, "fetched", "ok", 1, 0.9, 0.9, 0.0, 1e9)
            batch.links.add(oid, oid, 0, 0, os.urandom(100).hex(), "", "main", 0, "a", False)
            if number:
                batch.changes.add(oid - 50, 1, "fetched", "ok", 2, 0.9, 0.9, 0.0, 1e9)
        batch.counters["batches"] = number + 1
        try:
            store.write(batch)
        except StoreError as error:
            print("refused", number, error.message, "|", error.hint, flush=True)
            break
        print("written", number, flush=True)
    store.close()
""")


def count(store: Store, state: str) -> int:
    """How many URLs are in a state."""
    return int(store.query("SELECT count(*) FROM crawl WHERE state = ?", [state]).rows[0][0])


def start_writer(
    folder: Path, first: int, count: int, *, fold_rows: int = 300, wal_bytes: int = 200_000, max_file_bytes: int = 0
) -> subprocess.Popen[str]:
    """The child, with its acknowledgements on a pipe."""
    numbers = map(str, (first, count, fold_rows, wal_bytes, max_file_bytes))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", WRITER, str(folder), *numbers]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def whole_batches(folder: Path) -> int:
    """How many batches the store holds, having checked that each is whole and its changes are applied."""
    with Store.open(folder) as store:
        batches = store.load_counters().get("batches", 0)
        assert store.count_rows("crawl") == batches * BATCH_URLS
        assert store.count_rows("links") == batches * BATCH_URLS
        assert count(store, "fetched") == batches * BATCH_URLS
        tries = dict(store.query("SELECT numtries, count(*) FROM crawl GROUP BY numtries").rows)
        assert tries == {n: c for n, c in {1: min(batches, 1) * 50, 2: max(batches - 1, 0) * 50}.items() if c}
        assert store.count_rows("crawl_changes") == 0
    return batches


def test_kill_9_loses_no_acknowledged_batch_and_leaves_no_half(tmp_path: Path) -> None:
    """Killed at random moments, also while folding and checkpointing: whole batches only, and all we were told of."""
    folder = tmp_path / "c"
    Store.create(folder).close()
    rng, stored = random.Random(os.getpid()), 0
    for _ in range(6):
        child = start_writer(folder, stored, 10_000)
        assert child.stdout is not None
        wanted = rng.randrange(1, 25)
        acknowledged = stored
        for line in child.stdout:
            acknowledged = int(line.split()[1]) + 1
            wanted -= 1
            if wanted <= 0:
                break
        child.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *(int(rest.split()[1]) + 1 for rest in child.stdout if rest.endswith("\n"))])
        child.wait()
        stored = whole_batches(folder)
        assert stored in (acknowledged, acknowledged + 1)  # the last may have been committed and not yet announced


def test_a_torn_log_costs_only_the_torn_batch(tmp_path: Path) -> None:
    """A write-ahead log cut anywhere (power failure) opens with whole batches."""
    folder = tmp_path / "c"
    Store.create(folder).close()
    child = start_writer(folder, 0, 10_000, fold_rows=10**6, wal_bytes=10**9)
    assert child.stdout is not None
    for line in child.stdout:
        if line == "written 8\n":
            break
    child.kill()
    child.communicate()
    size = (folder / "collection.duckdb.wal").stat().st_size
    counts = set()
    for part in (0.2, 0.5, 0.8, 0.999):
        copy = tmp_path / f"cut-{part}"
        shutil.copytree(folder, copy)
        os.truncate(copy / "collection.duckdb.wal", int(size * part))
        counts.add(whole_batches(copy))
    assert len(counts) >= 3


@pytest.mark.parametrize("wal_bytes", [10**9, 300_000])
def test_full_disk(tmp_path: Path, wal_bytes: int) -> None:
    """With no room for the log, or none for a checkpoint, the batch is refused with a hint; nothing else is lost."""
    folder = tmp_path / "c"
    Store.create(folder).close()
    child = start_writer(folder, 0, 10_000, fold_rows=1000, wal_bytes=wal_bytes, max_file_bytes=2_500_000)
    out, _ = child.communicate(timeout=60)
    lines = out.splitlines()
    refused = [line for line in lines if line.startswith("refused")]
    assert len(refused) == 1
    assert "disk is full" in refused[0]
    assert "Make room" in refused[0]
    assert whole_batches(folder) == len(lines) - 1
    with Store.open(folder) as store:
        store.write(Batch(counters={"more": 1}))


# -- databases that cannot be used


def test_missing(tmp_path: Path) -> None:
    """A folder without a collection is named, with the command that makes one."""
    with pytest.raises(StoreError, match="no collection") as caught:
        Store.open(tmp_path)
    assert "opilio crawl" in caught.value.hint


def test_create_refuses_an_existing_collection(tmp_path: Path) -> None:
    """Nobody's collection is overwritten."""
    Store.create(tmp_path).close()
    with pytest.raises(CollectionError, match="already"):
        Store.create(tmp_path)


@pytest.mark.parametrize("damage", ["text", "empty", "cut", "flipped", "sqlite"])
def test_damaged(tmp_path: Path, damage: str) -> None:
    """A file that is no database, or a broken one, is said to be so, with the way out; never a traceback of DuckDB."""
    filled(Store.create(tmp_path)).close()
    path = tmp_path / "collection.duckdb"
    data = path.read_bytes()
    broken = {
        "text": b"hello\n" * 5000,
        "empty": b"",
        "cut": data[:5000],
        "flipped": data[:8] + bytes(b ^ 255 for b in data[8:]),
        "sqlite": b"SQLite format 3\0" + bytes(8000),
    }
    path.write_bytes(broken[damage])
    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path)
    assert "WARC" in caught.value.hint


def test_foreign_database(tmp_path: Path) -> None:
    """A DuckDB file of somebody else's is left alone."""
    duckdb.connect(str(tmp_path / "collection.duckdb")).execute("CREATE TABLE t (a INT)").close()
    with pytest.raises(StoreError, match="not one of Opilio"):
        Store.open(tmp_path)


@pytest.mark.parametrize("read_only", [False, True])
def test_busy(tmp_path: Path, read_only: bool) -> None:
    """While another process has it open, opening says that, not that the file is broken."""
    Store.create(tmp_path).close()
    child = start_writer(tmp_path, 0, 10_000)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        with pytest.raises(CollectionBusy, match="another process"):
            Store.open(tmp_path, read_only=read_only)
    finally:
        child.kill()
        child.communicate()


def test_read_only_after_a_crash_sees_everything(tmp_path: Path) -> None:
    """Opened for reading after kill -9, changes that were only in the journal are there."""
    Store.create(tmp_path).close()
    child = start_writer(tmp_path, 0, 10_000, fold_rows=10**6, wal_bytes=10**9)
    assert child.stdout is not None
    child.stdout.readline()
    child.kill()
    child.communicate()
    with Store.open(tmp_path, read_only=True) as store:
        assert count(store, "waiting") == 0
        assert count(store, "fetched") >= BATCH_URLS


# -- versions of the schema


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    """A collection of a newer Opilio is not touched, and the hint says what to do."""
    Store.create(tmp_path).close()
    with duckdb.connect(str(tmp_path / "collection.duckdb")) as connection:
        connection.execute("UPDATE meta SET value = '999' WHERE name = 'schema_version'")
    with pytest.raises(StoreError, match="999") as caught:
        Store.open(tmp_path)
    assert "Upgrade" in caught.value.hint


def test_older_schema_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps the database lacks run once, in order, each with its version; also when it is opened for reading only."""
    steps = schema.migrations()
    with Store.create(tmp_path) as store:
        batch = Batch()
        add_url(batch, 0)
        store.write(batch)
    newest = steps[-1].version
    later = [
        schema.Migration(newest + 1, "colour", "ALTER TABLE topics ADD COLUMN colour VARCHAR DEFAULT 'red';"),
        schema.Migration(newest + 2, "mood", "ALTER TABLE topics ADD COLUMN mood VARCHAR DEFAULT 'good';"),
    ]
    monkeypatch.setattr(schema, "migrations", lambda: [*steps, *later])
    for read_only in (True, False, False):  # also by a command that only asks
        with Store.open(tmp_path, read_only=read_only) as store:
            assert store.query("SELECT value FROM meta").rows == [(str(newest + 2),)]
            assert {"colour", "mood"} <= {row[0] for row in store.query("DESCRIBE topics").rows}
            assert store.count_rows("crawl") == 1


def test_the_first_schema_is_brought_up_to_the_newest(tmp_path: Path) -> None:
    """A collection made by the first version has, after migration, the tables and views of a new one, and its rows."""
    first = (Path(__file__).parent / "data" / "schema_1.sql").read_text()
    Store.create(tmp_path / "new").close()
    (tmp_path / "old").mkdir()
    with duckdb.connect(str(tmp_path / "old" / FILE_NAME)) as old:
        old.execute(first)
        old.execute("INSERT INTO meta VALUES ('schema_version', '1')")
        old.execute(
            "INSERT INTO topics VALUES (0, NULL, 'all', '', 'good', []), (1, 0, 'owls', 'owls', 'good', ['owl'])"
        )
        old.execute("INSERT INTO seeds VALUES ('http://a.test/', 1, 'given', 'A', now()::TIMESTAMP)")
    columns = "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY ALL"
    with Store.open(tmp_path / "old") as migrated, Store.open(tmp_path / "new") as new:
        assert migrated.query(columns).rows == new.query(columns).rows
        for (view,) in new.query("SELECT view_name FROM duckdb_views() WHERE NOT internal").rows:
            assert migrated.query(f"FROM {view}").columns == new.query(f"FROM {view}").columns, view
        assert [topic.type for topic in migrated.load_topics()] == ["path", "good"]
        assert [(e.name, e.kcid, e.positive) for e in migrated.load_training()] == [("http://a.test/", 1, True)]


# Sentences that version 5 wrote as the reason of a model; what they mean, what else is kept of them, as it is shown.
SENTENCES = [
    ("first model", "first", None, "first model"),
    ("topics, examples or settings were changed", "changed", None, "topics, examples or settings were changed"),
    ("examples came late", "examples", None, "examples came late"),
    ("asked for", "requested", None, "requested"),
    (None, "requested", None, "requested"),
    ("5 archetypes added, 0 removed", "archetypes", None, "5 archetypes added, 0 removed"),
    ("1 archetype added, 2 removed (the learning phase is over)", "archetypes", None,
     "1 archetype added, 2 removed (the learning phase is over)"),
    ("pages about other things were met", "negatives", None, "negatives were mined"),
    ("the harvesting phase begins", "harvest", None, "the harvesting phase begins"),
    ("variable part drawn anew", "redrawn", None, "variable part redrawn"),
    ("the marks of topics were changed", "feedback", None, "the marks of topics were changed"),
    ("reject archetype: Owls", "feedback", None, "reject archetype: Owls"),
    ("model 3 again", "reused", 3, "model 3 again"),
    ("we like model 3 again", "requested", None, "we like model 3 again"),
]  # fmt: skip


def schema_5(folder: Path) -> duckdb.DuckDBPyConnection:
    """An empty database as version 5 of the schema made it."""
    folder.mkdir()
    connection = duckdb.connect(str(folder / FILE_NAME))
    connection.execute((Path(__file__).parent / "data" / "schema_1.sql").read_text())
    for step in schema.migrations():
        if step.version <= 5:
            connection.execute(step.sql)
    connection.execute("INSERT INTO meta VALUES ('schema_version', '5')")
    return connection


def test_why_models_were_trained_becomes_data(tmp_path: Path) -> None:
    """The sentences of version 5 are read once, by the migration: each model keeps its meaning, its order and its bytes."""
    with schema_5(tmp_path / "c") as old:
        for version, (sentence, *_) in enumerate(SENTENCES, 1):
            values = [version, sentence, b"model %d" % version]
            old.execute("INSERT INTO models VALUES ($1, now(), 'svm', $2, 7, '{}', '', 'print', $3)", values)
    with Store.open(tmp_path / "c") as store:
        models = store.load_models()[::-1]
        assert [model.version for model in models] == list(range(1, len(SENTENCES) + 1))
        found = [(model.cause.reason.value, model.cause.repeats, str(model.cause)) for model in models]
        assert found == [tuple(expected) for _, *expected in SENTENCES]
        assert all((model.documents, model.taught) == (7, "print") for model in models)
        assert store.load_model(4) == b"model 4"


def test_the_progress_of_a_crawl_leaves_the_counters(tmp_path: Path) -> None:
    """What version 5 counted to decide by is in a table of its own; all that is shown stays, two counts under plainer names."""
    counted = {
        "phase": 2, "rounds of archetypes": 3, "pages judged relevant before the last round of archetypes": 40,
        "looks for pages about other things": 4, "pages at the latest link analysis": 50, "pages": 120,
    }  # fmt: skip
    with schema_5(tmp_path / "c") as old:
        old.executemany("INSERT INTO counters VALUES (?, ?)", [list(one) for one in counted.items()])
    shown = {
        name.replace("looks for pages about other things", "rounds of mined negatives").replace(
            "judged relevant", "relevant when fetched"
        ): n
        for name, n in counted.items()
    }
    with Store.open(tmp_path / "c") as store:
        assert store.load_counters() == {"pages": 120}
        assert store.load_progress() == CrawlProgress(Phase.PAUSED, 3, 40, 4, 50)
        assert Counters(store.load_counters(), store.load_progress()).shown() == shown


def test_a_crawl_that_has_counted_nothing_has_no_progress(tmp_path: Path) -> None:
    """An older collection that was never crawled is as new."""
    schema_5(tmp_path / "c").close()
    with Store.open(tmp_path / "c") as store:
        assert store.count_rows("progress") == 0
        assert store.load_progress() == CrawlProgress()


def test_links_of_an_older_collection_were_first_seen_with_their_page(tmp_path: Path) -> None:
    """The migration gives each link the time of its page's visit; views show it, and the link may go later."""
    with schema_5(tmp_path / "c") as old:
        old.execute("INSERT INTO pages (oid, visited) VALUES (3, '2024-05-06 07:08:09')")
        old.execute("INSERT INTO links (oid_src, oid_dst, sid_src, sid_dst) VALUES (3, 4, 0, 0), (9, 3, 0, 0)")
    seen = datetime.datetime(2024, 5, 6, 7, 8, 9)
    with Store.open(tmp_path / "c") as store:
        assert store.query("SELECT oid_src, first_seen FROM link ORDER BY oid_src").rows == [(3, seen), (9, None)]
        history = "SELECT oid_dst, first_seen, last_seen, gone FROM link_history WHERE oid_src = 3"
        assert store.query(history).rows == [(4, seen, seen, False)]
        store.write(Batch(replaced=[3]))
        assert store.query(history).rows == [(4, seen, seen, True)]


def test_undoubted_pages_are_known_after_the_migration(tmp_path: Path) -> None:
    """The latest judgement by the model of a page says whether there was no doubt; the view `collection` has it."""
    folder = tmp_path / "c"
    folder.mkdir()
    with duckdb.connect(str(folder / FILE_NAME)) as old:
        old.execute((Path(__file__).parent / "data" / "schema_1.sql").read_text())
        steps = [step for step in schema.migrations() if step.name != "undoubted"]
        before = next(step.version for step in schema.migrations() if step.name == "undoubted")
        for step in steps:
            if 1 < step.version < before:
                old.execute(step.sql)
        old.execute("INSERT INTO meta VALUES ('schema_version', $1)", [str(before - 1)])
        for oid in range(3):
            old.execute(
                "INSERT INTO crawl (oid, url, key, sid, topic, depth, hops, state, numtries, relevance, priority)"
                " VALUES ($1, 'http://a.test/' || $1::VARCHAR, $1, 0, 0, 0, 0, 'fetched', 1, 0.9, 0)",
                [oid],
            )
            old.execute("INSERT INTO pages (oid, visited, relevance, model_version) VALUES ($1, now(), 0.9, 2)", [oid])
        for oid, version, undoubted in ((0, 2, False), (0, 2, True), (1, 1, True), (1, 2, False), (2, 1, True)):
            old.execute(
                "INSERT INTO judgements VALUES ($1, $2, 0, true, 0.9, 1.0, $3, [], NULL)", [oid, version, undoubted]
            )
    with Store.open(folder) as store:
        found = store.query("SELECT oid, undoubted FROM collection ORDER BY oid").rows
    assert found == [(0, True), (1, False), (2, None)]


def test_hosts_of_an_older_collection_become_origins(tmp_path: Path) -> None:
    """What was known of a host belongs to the scheme that was asked; one that was given up, or whose robots.txt could
    not be read, has its true problem, and so have its URLs, which the next run tries again."""
    with schema_5(tmp_path / "old") as old:
        now = "TIMESTAMP '2026-01-01'"
        old.execute(
            f"""
            INSERT INTO hosts VALUES
                (0, 'ok.test', 'ok.test', '192.0.2.1', 'ok', 0, 5, 9, 7, 200, 2.5, {now}, {now}),
                (1, 'dead.test', 'dead.test', NULL, 'bad', 3, 0, 0, 3, NULL, 0, NULL, {now}),
                (2, 'busy.test', 'busy.test', NULL, 'ok', 0, 0, 0, 1, 503, 0, {now}, {now}),
                (3, 'tls.test', 'tls.test', NULL, 'ok', 0, 0, 0, 1, 0, 0, {now}, {now});
            INSERT INTO robots VALUES (0, {now}, 'Disallow: /x');
            INSERT INTO visits (oid, visited, kind, outcome) VALUES
                (-1, {now}, 'host', 'ok'), (-2, {now}, 'host', 'dns-failed'), (-3, {now}, 'host', 'http-5xx'),
                (-4, {now}, 'host', 'tls-failed');
            INSERT INTO counters VALUES ('outcome:bad-host', 1), ('outcome:robots', 3);
            """
        )
        for oid, (sid, url, outcome) in enumerate(
            [
                (0, "https://ok.test/x", "robots"),
                (1, "http://dead.test/", "bad-host"),
                (2, "http://busy.test/", "robots"),
                (3, "https://tls.test/", "robots"),
            ]
        ):
            old.execute(
                "INSERT INTO crawl (oid, url, key, sid, topic, depth, hops, state, outcome, numtries, relevance, "
                "priority) VALUES (?, ?, ?, ?, 0, 0, 0, 'dropped', ?, 0, 0, 0)",
                [oid, url, oid, sid, outcome],
            )
    with Store.open(tmp_path / "old") as store:
        origins = [(o.scheme, o.state, o.problem, o.robots_status, o.robots) for o in store.load_origins()]
        assert origins == [
            ("https", "ok", None, 200, "Disallow: /x"),
            ("http", "bad", "dns-failed", None, None),
            ("http", "bad", "http-5xx", None, None),
            ("https", "bad", "tls-failed", None, None),
        ]
        ends = "SELECT state, outcome FROM crawl ORDER BY oid"
        failures = [("failed", "dns-failed"), ("failed", "http-5xx"), ("failed", "tls-failed")]
        assert store.query(ends).rows == [("dropped", "robots"), *failures]
        counted = {f"outcome:{outcome}": 1 for outcome in ("robots", "dns-failed", "http-5xx", "tls-failed")}
        assert store.load_counters() == counted
        assert [host.requests for host in store.load_hosts()] == [7, 3, 1, 1]
        urls.retry_given_up(store, 3)
        assert [state for state, _ in store.query(ends).rows] == ["dropped", "waiting", "waiting", "failed"]
        assert [(o.state, o.failures) for o in store.load_origins()] == [
            ("ok", 0),
            ("slow", 2),
            ("slow", 2),
            ("bad", 0),
        ]


def test_migrations_are_numbered_without_gaps() -> None:
    """Two branches that add the same number are noticed here."""
    assert [step.version for step in schema.migrations()] == list(range(1, len(schema.migrations()) + 1))


def test_a_reopened_store_can_carry_its_log_over(tmp_path: Path) -> None:
    """Nothing that opening does may stay open: a forgotten result would keep every checkpoint from being made."""
    Store.create(tmp_path / "c").close()
    with Store.open(tmp_path / "c") as store:
        for pages in range(3):  # rows that are changed, not only appended
            batch = Batch()
            batch.hosts.add(0, "a.example", "a.example", None, pages, 0, 0, 0.0)
            store.write(batch)
        log = store.path.with_name(store.path.name + ".wal")
        assert log.stat().st_size > 0
        store.checkpoint()
        assert not log.exists() or log.stat().st_size == 0
