"""Links that are not followed are stored: a crawl that ran dry goes on by them, and link analysis sees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dry_webs import COMMON_WORDS, FUND_WORDS, GOOD, NEARBY, STOCK_WORDS
from opilio import Collection
from opilio.federation.peers import Offer
from opilio.frontier.filters import TrapGuard
from opilio.model import Outcome
from opilio.settings import TrapSettings, own_settings
from webs import Page, Web

FUNDS, STOCKS = 12, 12
EXAMPLES = 4
MARK_ANCESTOR = f"""
    UPDATE topics SET type = CASE path WHEN '{NEARBY}' THEN 'good' ELSE 'subsumed' END WHERE path LIKE '{NEARBY}%'
"""
HIDDEN = {f"/fund/{n}" for n in range(EXAMPLES, FUNDS)}


def text(words: list[str], n: int) -> str:
    """A text of its own about a topic."""
    chosen = [words[(n * 5 + at) % len(words)] for at in range(60)]
    return " ".join([*chosen, *COMMON_WORDS, f"number{n}", f"page{n * n}"])


def page(kind: str, n: int, links: list[str]) -> Page:
    words = FUND_WORDS if kind == "fund" else STOCK_WORDS
    return Page(text(words, n), f"{kind} {n}", f"/{kind}/{n}", links=tuple((to, to) for to in links))


def mutual_funds() -> Web:
    """The examples link to each other and to pages about investment, which alone lead to the other fund pages."""
    funds = [page("fund", n, [f"/fund/{(n + 1) % EXAMPLES}", f"/stock/{n + EXAMPLES}"]) for n in range(EXAMPLES)]
    funds += [page("fund", n, []) for n in range(EXAMPLES, FUNDS)]
    stocks = [page("stock", n, []) for n in range(EXAMPLES)]
    stocks += [
        page("stock", n, [f"/stock/{(n + 4) % STOCKS}", f"/fund/{n}"]) for n in range(EXAMPLES, STOCKS)
    ]  # fmt: skip
    return Web([*funds, *stocks])


@pytest.fixture
def funds(tmp_path: Path) -> Iterator[Collection]:
    """A collection with a hard focus on mutual funds, below investment, on that web."""
    with mutual_funds().served() as server:
        lines = ["topics:", "  Investment:", "    examples:"]
        lines += [f"      - http://funds.test/stock/{n}" for n in range(EXAMPLES)]
        lines += ["    topics:", "      Mutual funds:", "        good: true", "        examples:"]
        lines += [f"          - http://funds.test/fund/{n}" for n in range(EXAMPLES)]
        (tmp_path / "topics.yaml").write_text("\n".join(lines))
        settings: dict[str, Any] = {
            "fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0, "run.workers": -1,
            "classify.classifier": "bayes", "learn.mined_negatives": 0, "frontier.strategy": "focus-hard",
            "duplicates.near_jaccard": 0.0,
        }  # fmt: skip
        yield Collection.create(tmp_path / "funds", topics=tmp_path / "topics.yaml", settings=settings)


def stored(collection: Collection) -> set[str]:
    rows = collection.sql("SELECT url FROM pages JOIN crawl USING (oid)").rows
    return {url.removeprefix("http://funds.test") for (url,) in rows}


def count(collection: Collection, condition: str) -> int:
    return int(collection.sql(f"SELECT count(*) FROM crawl WHERE {condition}").rows[0][0])


@pytest.mark.parametrize("by_sql", [True, False])
def test_one_update_cures_stagnation(funds: Collection, by_sql: bool) -> None:
    """The paper's cure (Focus 3.7): the crawl for mutual funds runs dry among pages about investment; marking the
    ancestor good makes it go on by the links that it had stored, without fetching a page twice."""
    assert "frontier empty" in funds.crawl().reason
    assert not HIDDEN & stored(funds)
    assert count(funds, "outcome = 'not-followed'") > 0
    assert funds.sql(
        "SELECT count(*) > 0 FROM links JOIN crawl ON oid = oid_dst WHERE outcome = 'not-followed'"
    ).rows == [(True,)]
    if by_sql:
        funds.sql(MARK_ANCESTOR, write=True)
    else:
        funds.mark(NEARBY)
    status = funds.crawl()
    assert stored(funds) >= HIDDEN
    assert count(funds, "outcome = 'not-followed'") == 0
    assert funds.sql("SELECT count(*) - count(DISTINCT oid) FROM visits WHERE kind = 'page'").rows == [(0,)]
    assert status.counters["links followed later"] > 0


def test_another_order_follows_them(funds: Collection) -> None:
    """A later crawl with a soft focus takes up what the hard focus left."""
    funds.crawl()
    funds.crawl(settings={"frontier.strategy": "focus"})
    assert stored(funds) >= HIDDEN


def test_whoever_names_a_url_takes_it_up(funds: Collection) -> None:
    """A URL that is known only from pages that are not followed is fetched when the user or a peer names it, and its
    row says how it was reached then."""
    funds.crawl()
    known = funds.sql("SELECT url FROM crawl WHERE outcome = 'not-followed' AND url LIKE '%/fund/%' ORDER BY url").rows
    by_user, by_peer = (url.removeprefix("http://funds.test") for (url,) in known[:2])
    how = "SELECT parent, depth FROM crawl WHERE url LIKE '%{}'"
    assert funds.sql(how.format(by_user)).rows[0][0] is not None
    funds.add_example(GOOD, f"http://funds.test{by_user}")
    offer = Offer(f"http://funds.test{by_peer}", GOOD, 0.9, "")
    assert [funds.take_offers("peer", [offer]) for _ in range(2)] == [1, 0]
    funds.crawl()
    assert {by_user, by_peer} <= stored(funds)
    assert [funds.sql(how.format(path)).rows for path in (by_user, by_peer)] == [[(None, 0)], [(None, 1)]]


def test_they_take_no_room_from_others(funds: Collection, tmp_path: Path) -> None:
    """With room for no more URLs than are followed, the same pages are fetched, and the room is full."""
    funds.crawl()
    followed = count(funds, "outcome IS DISTINCT FROM 'not-followed'")
    settings = own_settings(funds.settings)
    again = Collection.create(tmp_path / "again", topics=tmp_path / "topics.yaml", settings=settings)
    again.crawl(settings={"limits.max_urls": followed})
    assert stored(again) == stored(funds)
    again.mark(NEARBY)
    again.crawl()
    assert count(again, "outcome IS DISTINCT FROM 'not-followed'") >= followed
    tight = Collection.create(tmp_path / "tight", topics=tmp_path / "topics.yaml", settings=settings)
    tight.crawl(settings={"limits.max_urls": followed - 1})
    assert len(stored(tight)) == followed - 1


@given(st.integers(0, 5), st.integers(0, 5))
def test_they_leave_the_limits_of_traps_alone(not_followed: int, followed: int) -> None:
    """Only URLs that are followed count against their path or the calendar of their host."""
    traps = TrapGuard(TrapSettings(max_queries_per_path=3, max_calendar_urls_per_host=3))
    for form in ("http://a.test/list?n={}", "http://a.test/2024/0{}/"):
        for n in range(not_followed):
            assert traps.rejection(form.format(n), 1, counts=False) is None
        got = [traps.rejection(form.format(n), 1) for n in range(followed)]
        assert got == [None] * min(3, followed) + [Outcome.TRAP] * max(0, followed - 3)
