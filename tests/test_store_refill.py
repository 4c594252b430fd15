"""Refills of the frontier by a user's ORDER BY."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opilio.errors import QueryError
from opilio.store import Batch, Store
from store_rows import NOW_S, add_host, add_page, add_url, filled

NOBODY = np.array([], dtype=np.int64)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """300 waiting URLs on 7 hosts, some of them held back."""
    with Store.create(tmp_path_factory.mktemp("c")) as made:
        rng = np.random.default_rng(5)
        batch = Batch()
        for sid in range(7):
            add_host(batch, sid, pages=sid * 3 % 5)
        for oid in range(300):
            held_until = NOW_S + 50 if oid % 10 == 0 else NOW_S - 50 if oid % 10 == 1 else 0.0
            add_url(
                batch, oid, sid=int(rng.integers(7)), relevance=float(rng.integers(5)) / 4, topic=1 + oid % 2,
                not_before=held_until,
            )  # fmt: skip
        for oid in range(0, 300, 7):
            add_page(batch, oid)
        made.write(batch)
        yield made


@settings(max_examples=30)
@given(
    st.sets(st.integers(0, 299), max_size=120),
    st.sampled_from([None, 1, 2]),
    st.integers(0, 4),
    st.integers(1, 40),
    st.sampled_from([NOW_S, NOW_S + 100]),
)
def test_same_as_a_plain_sort(
    store: Store, exclude: set[int], topic: int | None, per_host: int, limit: int, now_s: float
) -> None:
    """The answer is what sorting all rows in Python gives: order, exclusion, topic, retry time and cap per host."""
    got = store.next_waiting(
        "numtries, relevance DESC, serverload, oid", limit, exclude=np.array(sorted(exclude), dtype=np.int64),
        topic=topic, per_host=per_host, now_s=now_s,
    )  # fmt: skip
    rows = store.query("SELECT oid, sid, numtries, relevance, topic, state, epoch(not_before) FROM crawl").rows
    ready = [
        row for row in rows
        if row[5] == "waiting" and row[0] not in exclude and (topic is None or row[4] == topic)
        and (row[6] is None or row[6] <= now_s)
    ]  # fmt: skip
    ready.sort(key=lambda row: (row[2], -row[3], row[1] * 3 % 5, row[0]))
    expected: list[int] = []
    taken: dict[int, int] = {}
    for oid, sid, *_ in ready[: limit * 20 if per_host else limit]:
        taken[sid] = taken.get(sid, 0) + 1
        if (not per_host or taken[sid] <= per_host) and len(expected) < limit:
            expected.append(oid)
    assert [row.oid for row in got] == expected


def test_whole_rows_come_back(store: Store) -> None:
    """A row carries all the frontier needs, the URL included."""
    [row] = store.next_waiting("oid", 1, exclude=NOBODY, now_s=NOW_S)
    assert (row.oid, row.key, row.topic, row.depth, row.hops, row.numtries) == (1, 2**63 + 1, 2, 2, 0, 0)
    assert row.url == f"http://host{row.sid}.test/1"


@pytest.mark.parametrize(
    "order",
    [
        "numtries, relevance DESC, serverload",
        "lastvisited, HUBS.score DESC",
        "numtries DESC, AUTH.score DESC, relevance DESC",
        "kcid, hub_score DESC NULLS LAST, authority_score",
        "relevance * 2 + 1.0 / (1 + serverload) DESC",
        "CASE WHEN domain LIKE '%.org' THEN 0 ELSE 1 END, priority DESC",
        "random()",
        "length(url) -- short ones first",
        "regexp_matches(url, 'bike') DESC, found",
        "frontier.depth",
    ],
)
def test_orders_that_can_be_used(store: Store, order: str) -> None:
    """The papers' orders and free expressions over the columns are accepted, and run."""
    store.check_order_by(order)
    assert len(store.next_waiting(order, 5, exclude=NOBODY, now_s=NOW_S, per_host=1)) == 5


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ("relevnce DESC", "relevance"),
        ("HUBS.scor", "hub_score"),
        ("server_load", "serverload"),
        ("relevance LIMIT 1", "nothing else"),
        ("relevance OFFSET 3", "nothing else"),
        ("relevance; DROP TABLE crawl", ""),
        ("relevance; SELECT 1", "nothing else"),
        ("relevance) UNION (SELECT 1", ""),
        ("(SELECT max(oid) FROM crawl)", "columns"),
        ("oid IN (SELECT oid FROM hubs)", "columns"),
        ("EXISTS (FROM hubs)", "columns"),
        ("row_number() OVER ()", "columns"),
        ("count(*)", ""),
        ("$1", ""),
        ("?", ""),
        ("write_log('x')", ""),
        ("sleep_ms(100)", ""),
        ("relevance /* open", ""),
        ("", "numtries"),
        ("   ", "numtries"),
        ("ORDER BY relevance", ""),
        ("relevance +", ""),
        ("no_such_function(relevance)", ""),
    ],
)
def test_orders_that_are_refused(store: Store, order: str, says: str) -> None:
    """Anything that is not a plain expression over the frontier is refused before it runs, with a useful hint."""
    with pytest.raises(QueryError) as caught:
        store.check_order_by(order)
    assert says in caught.value.hint
    with pytest.raises(QueryError):
        store.next_waiting(order, 5, exclude=NOBODY, now_s=NOW_S)
    assert store.count_rows("crawl") == 300


def test_an_order_that_fails_on_the_data_is_an_error_of_ours(store: Store) -> None:
    """A cast that no row survives is told as a QueryError."""
    with pytest.raises(QueryError, match=r"[Cc]onvert|[Cc]ast"):
        store.next_waiting("url::INTEGER", 5, exclude=NOBODY, now_s=NOW_S)


def test_hub_scores_move_the_order(tmp_path: Path) -> None:
    """The scores of link analysis reach the order under both names."""
    with filled(Store.create(tmp_path)) as store:
        for name in ("AUTH.score", "authority_score"):
            first = store.next_waiting(f"{name} DESC", 3, exclude=NOBODY, now_s=NOW_S)
            assert [row.oid for row in first] == [19, 18, 17]
