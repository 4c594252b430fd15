"""The store: what is written is what is read back, by whom, and when."""

from __future__ import annotations

import datetime
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.errors import QueryError, StoreError
from opilio.model import Figures, UrlState
from opilio.store import Batch, Store, writer
from opilio.store.connection import FRAGMENTS
from opilio.store.loader import STATES, HostRecord, OriginRecord, TopicRecord
from opilio.store.writer import read_figures
from store_rows import NOW_S, add_host, add_page, add_url, filled


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A new, empty store."""
    with Store.create(tmp_path / "c") as made:
        yield made


# -- what is written is what is read back

_TEXT = st.text(max_size=30)
_TIME = st.one_of(st.just(0.0), st.integers(1, 4 * 10**15).map(lambda us: us / 1e6))
_URL = st.tuples(
    _TEXT, st.integers(0, 2**64 - 1), st.integers(0, 2**31 - 1), st.integers(0, 2**15 - 1), st.sampled_from(STATES),
    st.one_of(st.none(), _TEXT), st.integers(0, 255), st.floats(0, 1, width=32), _TIME,
)  # fmt: skip
_CHANGE = st.tuples(st.integers(0, 19), st.sampled_from(STATES), st.integers(0, 255), st.floats(0, 1, width=32), _TIME)


def _seconds(value: datetime.datetime | None) -> float:
    if value is None:
        return 0.0
    return (value - datetime.datetime(1970, 1, 1)) / datetime.timedelta(microseconds=1) / 1e6


@settings(max_examples=25)
@given(st.lists(_URL, min_size=20, max_size=20), st.lists(st.lists(_CHANGE, max_size=8), max_size=4), st.booleans())
def test_urls_and_changes_read_back(
    tmp_path_factory: pytest.TempPathFactory,
    urls: list[tuple[str, int, int, int, UrlState, str | None, int, float, float]],
    batches: list[list[tuple[int, UrlState, int, float, float]]],
    reopen: bool,
) -> None:
    """Any URL and any sequence of changes over any number of batches reads back as a plain dict would hold it."""
    folder = tmp_path_factory.mktemp("c")
    store = Store.create(folder)
    first = Batch()
    expected = {}
    for oid, (url, key, sid, depth, state, outcome, tries, score, when) in enumerate(urls):
        first.urls.add(oid, url, key, sid, 3, depth, oid, 0, state, outcome, tries, score, score, when, when, when)
        expected[oid] = (_utf8(url), key, sid, depth, state, outcome and _utf8(outcome), tries, score, when)
    for changes in [[], *batches]:
        batch = Batch() if expected and store.count_rows("crawl") else first
        for oid, state, tries, score, when in changes:
            batch.changes.add(oid, 3, state, "changed", tries, score, score, when, when)
            url, key, sid, depth, *_ = expected[oid]
            expected[oid] = (url, key, sid, depth, state, "changed", tries, score, when)
        store.write(batch)
    if reopen:
        store.close()
        store = Store.open(folder)
    rows = store.query(
        "SELECT oid, url, key, sid, depth, state, outcome, numtries, relevance, lastvisited FROM crawl"
    ).rows
    assert {row[0]: (*row[1:5], UrlState(row[5]), *row[6:9], _seconds(row[9])) for row in rows} == expected
    store.close()
    shutil.rmtree(folder)


def _utf8(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


@settings(max_examples=20)
@given(st.lists(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1)), max_size=9), max_size=6))
def test_terms_read_back(tmp_path_factory: pytest.TempPathFactory, pages: list[list[tuple[int, int]]]) -> None:
    """Terms handed over as bytes become one row each, with the page they belong to."""
    folder = tmp_path_factory.mktemp("c")
    with Store.create(folder) as store:
        batch = Batch()
        for oid, terms in enumerate(pages):
            ids, counts = (np.array([t[i] for t in terms], kind).tobytes() for i, kind in ((0, "<u4"), (1, "<u2")))
            batch.terms.add(oid, ids, counts)
        store.write(batch)
        rows = store.query("SELECT did, tid, freq FROM document").rows
        assert rows == [(oid, tid, freq) for oid, terms in enumerate(pages) for tid, freq in terms]
    shutil.rmtree(folder)


def test_every_table_is_written(store: Store) -> None:
    """No table of a batch is forgotten by write(), and none is left empty by the fixture the other tests query."""
    filled(store)
    for name, _ in Batch().tables():
        table = {"urls": "crawl", "followed": "crawl", "changes": "visits"}.get(name, name)
        assert store.count_rows(table) > 0, table


def test_lone_surrogates_are_replaced(store: Store) -> None:
    """A string no UTF-8 file can hold costs its bad characters, not the batch."""
    batch = Batch()
    batch.lexicon.add(1, "a\ud800b")
    batch.lexicon.add(2, "nul\0byte")
    store.write(batch)
    assert store.query("SELECT term FROM lexicon ORDER BY tid").rows == [("a?b",), ("nul\0byte",)]


def test_uneven_columns_are_refused_before_anything_is_written(store: Store) -> None:
    """A mistake of the engine leaves nothing of the batch behind."""
    batch = Batch()
    add_url(batch, 0)
    batch.links.oid_src.append(1)
    with pytest.raises(ValueError, match="LinkRows"):
        store.write(batch)
    assert store.count_rows("crawl") == 0


def test_a_batch_that_fails_midway_leaves_nothing(store: Store) -> None:
    """When the last table of a batch is refused by the database, the tables before it are rolled back."""
    batch = Batch()
    add_url(batch, 0)
    batch.topics.add(1, None, "x", "/x", "no such type", [], "")
    with pytest.raises(StoreError):
        store.write(batch)
    assert store.count_rows("crawl") == 0
    batch.topics.type[0] = "good"
    store.write(batch)
    assert store.count_rows("crawl") == 1


def test_hosts_topics_and_counters_are_replaced(store: Store) -> None:
    """The latest word on a host, an origin, a topic or a counter counts; robots.txt is kept when only counts change."""
    filled(store)
    batch = Batch()
    batch.hosts.add(2, "host2.test", "host.test", "192.0.2.9", 5, 6, 7, NOW_S + 1)
    batch.origins.add(2, "http", "slow", 2, "timed-out", 200, 1.5, NOW_S)
    batch.origins.add(2, "https", "ok", 0, None, None, 0.0, 0.0)
    add_host(batch, 9)
    batch.topics.add(3, 0, "gardens", "/gardens", "good", ["rose"], "")
    batch.counters.update({"links dropped": 9, "new": 1})
    store.write(batch)
    hosts = {host.sid: host for host in store.load_hosts()}
    robots = "User-agent: *\nDisallow:"
    assert hosts[2] == HostRecord(2, "host2.test", "host.test", "192.0.2.9", 5, 6, 7, NOW_S + 1)
    assert len(hosts) == 5
    assert [origin for origin in store.load_origins() if origin.sid in (2, 9)] == [
        OriginRecord(2, "http", "slow", 2, "timed-out", 200, 1.5, NOW_S, robots),
        OriginRecord(2, "https", "ok", 0, None, None, 0.0, 0.0, None),
        OriginRecord(9, "http", "ok", 0, None, None, 0.0, 0.0, None),
    ]
    assert store.load_topics()[3] == TopicRecord(3, 0, "gardens", "/gardens", "good", ["rose"], "")
    assert store.load_counters() == {"links dropped": 9, "new": 1}


def test_topics_are_read_again_after_every_change(store: Store) -> None:
    """They are remembered; a batch, a user's statement and a change by the store show at once, and no caller can change
    what is remembered."""
    filled(store)
    store.load_topics()[0].keywords.append("none of its own")
    assert "none of its own" not in store.load_topics()[0].keywords
    batch = Batch()
    batch.topics.add(3, 0, "gardens", "/gardens", "good", ["rose"], "")
    store.write(batch)
    assert store.load_topics()[-1].name == "gardens"
    store.query("UPDATE topics SET name = 'parks' WHERE kcid = 3", write=True)
    assert store.load_topics()[-1].name == "parks"
    with store.writing() as cursor:
        cursor.execute("DELETE FROM topics WHERE kcid = 3")
    assert 3 not in {topic.kcid for topic in store.load_topics()}


def test_a_selection_changes_nothing(store: Store) -> None:
    """A query of ours is not checked, but runs in a transaction that only reads: no row is changed, no file reached."""
    filled(store)
    for sql in ("DELETE FROM topics", "CREATE TABLE more (n INTEGER)", "SELECT * FROM read_csv('/etc/passwd')"):
        with pytest.raises(QueryError):
            store.select(sql)
        with pytest.raises(QueryError):
            list(store.select_pieces(sql))
    assert store.count_rows("topics")


def test_a_replaced_page_leaves_no_old_rows(store: Store) -> None:
    """A page fetched again has the page row, the links and the terms of its new form only; other pages keep theirs."""
    filled(store)
    batch = Batch(replaced=[4, 5])
    add_page(batch, 4, text="new")
    batch.links.add(4, 30, 0, 2, "only link", "", "main", 0, "a", False)
    store.write(batch)
    assert store.query("SELECT oid, text FROM pages WHERE oid IN (4, 5)").rows == [(4, "new")]
    assert store.query("SELECT oid_src, anchor FROM links WHERE oid_src IN (4, 5)").rows == [(4, "only link")]
    assert store.query("SELECT count(*) FROM terms WHERE oid IN (4, 5)").rows == [(0,)]
    assert store.query("SELECT oid_dst, gone FROM link_history WHERE oid_src = 4 ORDER BY oid_dst").rows == [
        *((oid, True) for oid in range(5, 10)), (30, False)
    ]  # fmt: skip
    assert (store.count_rows("pages"), store.count_rows("links"), store.count_rows("terms")) == (11, 47, 30)


def test_figures_follow_every_change(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are what the database counts, after batches, replaced pages, other changes and the user's; batches that
    only add rows need no count."""

    def counted() -> Figures:
        [row] = store.query("SELECT pages, judged, relevant, requests, elapsed_s FROM figures").rows
        return Figures(*row)

    assert store.load_figures() == counted() == Figures()
    filled(store)
    assert store.load_figures() == counted()
    counts: list[int] = []
    monkeypatch.setattr(writer, "read_figures", lambda cursor: counts.append(1) or read_figures(cursor))
    for oid in (20, 21):
        batch = Batch(counters={"elapsed_ms": oid * 100})
        add_page(batch, oid, relevance=oid / 40)
        store.write(batch)
        assert store.load_figures() == counted()
    assert not counts
    batch = Batch(replaced=[20])
    add_page(batch, 20, relevance=1.0)
    store.write(batch)
    assert store.load_figures() == counted()
    store.query("UPDATE pages SET relevance = 0.0 WHERE oid = 20", write=True)
    assert store.load_figures() == counted()
    with store.writing() as connection:
        connection.execute("DELETE FROM pages WHERE oid = 21")
    assert store.load_figures() == counted()
    assert len(counts) == 3


def test_loading_for_resume(store: Store) -> None:
    """Everything memory is rebuilt from comes back: URLs with states as codes, WARC ends, counts, seeds, runs."""
    filled(store)
    chunks = list(store.load_urls())
    states = [STATES[code] for chunk in chunks for code in chunk["state"]]
    assert [oid for chunk in chunks for oid in chunk["oid"]] == list(range(40))
    assert states == [UrlState.FETCHED] * 12 + [UrlState.WAITING] * 28
    assert chunks[0]["key"].dtype == np.uint64
    assert store.load_warc_ends() == {"a.warc.gz": 11 * 100 + 90}
    assert store.waiting_count() == 28
    assert store.query("SELECT count(*) FROM crawl WHERE state = 'fetched'").rows == [(12,)]
    assert [seed.url for seed in store.load_seeds()] == ["http://host0.test/0"]
    assert [h for (h,) in store.query("SELECT content_hash FROM pages").rows] == list(range(12))
    assert store.query("SELECT run, reason, pages FROM runs").rows == [(1, "max_pages", 12)]


def test_journal_is_folded_when_it_has_grown(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal of changes does not grow without bound between two readers."""
    monkeypatch.setattr(writer, "FOLD_ROWS", 10)
    batch = Batch()
    for oid in range(5):
        add_url(batch, oid)
    store.write(batch)
    for tries in range(1, 20):
        batch = Batch()
        for oid in range(5):
            batch.changes.add(oid, 1, "waiting", None, tries, 0.5, 0.5, 0.0, 0.0)
        store.write(batch)
        counted = store._writer._cursor.execute("SELECT count(*) FROM crawl_changes").fetchone()
        assert counted is not None
        assert counted[0] < 20
    assert store.query("SELECT DISTINCT numtries FROM crawl").rows == [(19,)]


def test_checkpoint_is_taken_when_the_log_has_grown(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write-ahead log is carried into the database file by itself."""
    monkeypatch.setattr(writer, "log_limit_bytes", lambda size: 10_000)
    log = store.path.with_name(store.path.name + ".wal")
    sizes = []
    for oid in range(30):
        batch = Batch()
        add_url(batch, oid)
        add_page(batch, oid, text="word " * 200)
        store.write(batch)
        sizes.append(log.stat().st_size)
    assert max(sizes) < 20_000
    assert store.count_rows("pages") == 30


def test_many_small_sessions_do_not_fragment_the_file(tmp_path: Path) -> None:
    """Each session leaves a row group; now and then a session merges them, so their number stays small."""
    Store.create(tmp_path).close()
    for session in range(25):
        with Store.open(tmp_path) as store:
            batch = Batch()
            for oid in range(session * 3, session * 3 + 3):
                add_url(batch, oid)
                add_page(batch, oid)
            store.write(batch)
    with Store.open(tmp_path) as store:
        [(groups,)] = store.query("SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('pages')").rows
        assert groups <= FRAGMENTS + 1
        assert store.query("SELECT count(*), max(oid) FROM pages").rows == [(75, 74)]


def test_a_query_larger_than_memory_spills(tmp_path: Path) -> None:
    """Closed to other files, the database may still use its own folder for what does not fit into its memory."""
    with Store.create(tmp_path, memory_bytes=64 * 2**20) as store:
        sql = "SELECT count(*) FROM (SELECT range, random() AS r FROM range(4000000) ORDER BY r) WHERE range >= 0"
        assert store.query(sql).rows == [(4_000_000,)]


# -- together with others


def test_queries_run_while_batches_are_written(store: Store) -> None:
    """Readers on other threads see whole batches only, never an older state than before, and writing goes on."""
    stop, problems = threading.Event(), []
    seen = [0]

    def read() -> None:
        while not stop.is_set():
            sql = "SELECT count(*), (SELECT count(*) FROM links), count(*) FILTER (numtries = 1) FROM crawl"
            urls, links, tried = store.query(sql).rows[0]
            if links != urls * 2 or tried != urls or urls % 10 or urls < seen[0]:
                problems.append((urls, links, tried))
            seen[0] = urls

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(40):
        batch = Batch()
        for oid in range(number * 10, number * 10 + 10):
            add_url(batch, oid)
            batch.links.add(oid, 0, 0, 0, "", "", "main", 0, "a", False)
            batch.links.add(oid, 1, 0, 0, "", "", "main", 1, "a", False)
            batch.changes.add(oid, 1, "fetched", "ok", 1, 0.5, 0.5, 0.0, NOW_S)
        store.write(batch)
    stop.set()
    reader.join()
    assert not problems
    assert seen[0] > 0


def test_a_long_query_can_be_stopped(store: Store) -> None:
    """A query ends at its time limit, or when all queries are cancelled, with an error of ours; the store lives on."""
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
    began = time.monotonic()
    with pytest.raises(QueryError, match="took longer"):
        store.query(endless, timeout_s=0.2)
    timer = threading.Timer(0.2, store.cancel_queries)
    timer.start()
    with pytest.raises(QueryError, match="interrupted"):
        store.query(endless)
    assert time.monotonic() - began < 5
    assert store.count_rows("crawl") == 0


def test_large_answers_are_cut(store: Store) -> None:
    """An answer of more rows than asked for is cut and says so."""
    answer = store.query("SELECT range AS n FROM range(1000)", max_rows=10)
    assert (answer.columns, len(answer.rows), answer.truncated) == (("n",), 10, True)
    assert not store.query("SELECT range FROM range(10)", max_rows=10).truncated


def test_a_user_change_is_seen_and_kept(store: Store) -> None:
    """An UPDATE of the user's is applied after all committed changes and lasts (Focus 3.7: mark an ancestor good)."""
    filled(store)
    store.query("UPDATE topics SET type = 'good' WHERE name = ?", ["investment"], write=True)
    store.query("UPDATE crawl SET relevance = 1 WHERE state = 'waiting'", write=True)
    store.close()
    with Store.open(store.path.parent, read_only=True) as again:
        assert again.load_topics()[1].type == "good"
        assert again.query("SELECT count(*) FROM frontier WHERE relevance = 1").rows == [(28,)]


def test_a_read_only_store_refuses_to_write(store: Store) -> None:
    """Opened for reading, nothing can be written, neither by a batch nor by SQL."""
    filled(store).close()
    with Store.open(store.path.parent, read_only=True) as again:
        batch = Batch()
        add_url(batch, 99)
        with pytest.raises(StoreError, match="reading only"):
            again.write(batch)
        with pytest.raises(QueryError):
            again.query("DELETE FROM crawl", write=True)
        assert again.count_rows("crawl") == 40


def test_a_closed_store_says_so(store: Store) -> None:
    """Use after close is an error of ours, not a crash."""
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.query("SELECT 1")
    with pytest.raises(StoreError, match="closed"):
        store.write(Batch(counters={"x": 1}))
