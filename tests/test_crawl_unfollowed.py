"""Links that are not followed are stored: a crawl that ran dry goes on by them, and link analysis sees them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dry_webs import COMMON_WORDS, FUND_WORDS, GOOD, NEARBY, STOCK_WORDS
from opilio import Collection
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


def test_a_link_from_a_page_on_the_topic_takes_a_url_up(funds: Collection) -> None:
    """A URL that is known only from pages that are not followed is fetched when the user names it."""
    funds.crawl()
    hidden = min(HIDDEN)
    funds.add_example(GOOD, f"http://funds.test{hidden}")
    funds.crawl()
    assert hidden in stored(funds)
