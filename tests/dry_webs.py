"""Webs on which a crawl stops finding: the fund pages of the Focus paper, among ever more pages about investment."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opilio import Collection
from webs import Page, Web

FUND_WORDS = [
    "mutual",
    "fund",
    "manager",
    "fee",
    "prospectus",
    "redemption",
    "share",
    "holding",
    "allocation",
    "index",
    "yield",
    "load",
]
STOCK_WORDS = [
    "broker",
    "bond",
    "dividend",
    "treasury",
    "margin",
    "exchange",
    "auction",
    "option",
    "futures",
    "trader",
    "price",
    "market",
]
COMMON_WORDS = [f"{one}{two}" for one in ("da", "ke", "li", "mo", "ru", "sa") for two in ("ban", "cel", "dor", "fin")]
GOOD, NEARBY = "Investment / Mutual funds", "Investment"
EXAMPLES = 6


def funds_web(funds: int = 50, others: int = 700, seed: int = 1) -> Web:
    """Fund pages that link to each other, and each to pages about investment, which only link to more of these."""
    draw = random.Random(seed)

    def text(words: list[str]) -> str:
        return " ".join(draw.choices(words, k=70) + draw.choices(COMMON_WORDS, k=60)) + f" {draw.random()}"

    pages = []
    for n in range(funds):
        links = [(f"/fund/{draw.randrange(funds)}", "funds") for _ in range(4)]
        links += [(f"/stock/{draw.randrange(60)}", "stocks") for _ in range(2)]
        pages.append(Page(text(FUND_WORDS), f"fund {n}", f"/fund/{n}", links=(*links, (f"/fund/{n + 1}", "next"))))
    for n in range(others):
        links = [(f"/stock/{min(others - 1, 2 * n + step)}", "more") for step in (1, 2)]
        pages.append(Page(text(STOCK_WORDS), f"stock {n}", f"/stock/{n}", links=tuple(links)))
    return Web(pages)


@contextlib.contextmanager
def funds_collection(folder: Path, name: str = "collection", **changes: Any) -> Iterator[Collection]:
    """A collection that looks for mutual funds on such a web, which is served meanwhile."""
    with funds_web().served() as server:
        known = [f"http://funds.test/fund/{n}" for n in range(EXAMPLES)]
        near = [f"http://stocks.test/stock/{n}" for n in range(EXAMPLES)]
        lines = ["topics:", "  Investment:", "    examples:", *(f"      - {url}" for url in near)]
        lines += ["    topics:", "      Mutual funds:", "        good: true", "        examples:"]
        lines += [f"          - {url}" for url in known]
        file = folder / "topics.yaml"
        file.write_text("\n".join(lines))
        settings = {
            "fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0, "run.workers": -1,
            "fetch.per_host": 4, "classify.classifier": "bayes", "learn.mined_negatives": 0,
        }  # fmt: skip
        settings |= {name.replace("__", "."): value for name, value in changes.items()}
        yield Collection.create(folder / name, topics=file, settings=settings)
