"""docs/sql.md: every statement in it runs, and its table of the schema is the schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from opilio.store import Store
from store_rows import NOW_S, filled

PAGE = (Path(__file__).parent.parent / "docs" / "sql.md").read_text()
BLOCKS = re.findall(r"^```sql([^\n]*)\n(.*?)^```", PAGE, re.M | re.S)
QUERIES = [sql for kind, sql in BLOCKS if kind.strip() == ""]
CHANGES = [sql for kind, sql in BLOCKS if kind.strip() == "write"]
ORDERS = [sql.strip() for kind, sql in BLOCKS if kind.strip() == "order"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A filled store, new for each statement."""
    with filled(Store.create(tmp_path)) as made:
        yield made


def test_the_page_has_statements() -> None:
    """The tests below have something to run."""
    assert len(QUERIES) >= 8
    assert CHANGES
    assert len(ORDERS) >= 3


@pytest.mark.parametrize("sql", QUERIES)
def test_queries_answer(store: Store, sql: str) -> None:
    """Each query of the page runs as it stands and finds rows in a filled collection."""
    assert store.query(sql).rows, sql


@pytest.mark.parametrize("sql", CHANGES)
def test_changes_change(store: Store, sql: str) -> None:
    """Each change of the page runs with permission to write and touches rows."""
    assert store.query(sql, write=True).rows[0][0] > 0


@pytest.mark.parametrize("order", ORDERS)
def test_orders_order(store: Store, order: str) -> None:
    """Each order of the page can be used by a crawl."""
    assert store.next_waiting(order, 5, exclude=np.array([], dtype=np.int64), now_s=NOW_S)


def test_marking_an_ancestor_good_is_what_the_crawl_loads(store: Store) -> None:
    """The paper's cure of a stagnating crawl reaches the topics as the engine reads them (D2)."""
    [sql] = [sql for sql in CHANGES if "'good'" in sql]
    store.query(sql, write=True)
    assert {topic.name for topic in store.load_topics() if topic.type == "good"} == {"investment"}
    assert {topic.name for topic in store.load_topics() if topic.type == "subsumed"} == {"mutual funds"}


def test_every_table_and_column_is_described(store: Store) -> None:
    """The reference names all tables, views and columns there are, and no others."""
    listed = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE, re.M))
    found = store.query("SELECT table_name, list(column_name) FROM information_schema.columns GROUP BY ALL").rows
    assert set(listed) == {name for name, _ in found}
    for name, columns in found:
        if "as `crawl`" in listed[name] or "as `pages`" in listed[name] or "as `links`" in listed[name]:
            continue
        assert set(re.findall(r"`(\w+)`", listed[name])) == set(columns), name
