"""Crawls made up row by row in a database, for the tests of what is learned from them."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from opilio.analyze.terms import Vocabulary, tokenize
from opilio.store import Store
from webs import put_rows

BEGAN = datetime.datetime(2024, 1, 1)
TOPICS = (
    (0, None, "", "path"),
    (1, 0, "Business", "path"),
    (2, 1, "Business/Investment", "path"),
    (3, 2, "Business/Investment/Mutual Funds", "good"),
    (4, 0, "Gardening", "good"),
    (5, 0, "Cooking", "null"),
)
"""The tree of the paper's example: number, parent, path and mark."""
FUNDS, INVESTMENT, GARDENING, COOKING = 3, 2, 4, 5
FUND_WORDS = "mutual fund manager portfolio fee prospectus redemption"
STOCK_WORDS = "broker bond dividend treasury margin exchange portfolio"


@dataclass
class MadePage:
    """A URL that was asked for, or waits."""

    kcid: int = 0
    relevance: float = 0.0
    text: str = ""
    parent: int | None = None
    host: int = 0
    state: str = "fetched"
    """`failed`: it has no page; `waiting`: it has not been asked for."""


@dataclass
class MadeCrawl:
    """URLs in the order in which they were found and asked for, a second apart."""

    pages: list[MadePage] = field(default_factory=list)
    topics: tuple[tuple[int, int | None, str, str], ...] = TOPICS
    examples: list[tuple[int, str]] = field(default_factory=list)

    def add(self, count: int = 1, **told: Any) -> list[int]:
        """More URLs that are alike; their numbers."""
        first = len(self.pages)
        self.pages += [MadePage(**told) for _ in range(count)]
        return list(range(first, first + count))

    def fill(self, store: Store) -> Store:
        """Put it in the place of what is in the database."""
        rows = self._rows()
        return put_rows(store, rows, emptied=rows)

    def _rows(self) -> dict[str, list[dict[str, Any]]]:
        common = {"depth": 1, "hops": 0, "priority": 0.0, "outcome": None}
        crawl, pages, terms, lexicon = [], [], [], {}
        vocabulary = Vocabulary()
        for oid, page in enumerate(self.pages):
            visited = None if page.state == "waiting" else BEGAN + datetime.timedelta(seconds=oid)
            crawl.append(
                {
                    "oid": oid, "url": f"http://h{page.host}.org/{oid}", "key": oid, "sid": page.host,
                    "topic": page.kcid, "parent": page.parent, "state": page.state, "numtries": 1,
                    "relevance": page.relevance, "found": BEGAN + datetime.timedelta(seconds=oid - 1),
                    "lastvisited": visited, **common,
                }
            )  # fmt: skip
            if page.state == "fetched":
                told = {"oid": oid, "visited": visited, "title": f"page {oid}", "text": page.text, "language": "en"}
                pages.append({**told, "relevance": page.relevance, "kcid": page.kcid, "model_version": 1})
                numbers = vocabulary.numbers(tokenize(page.text), "en") & 0xFFFFFFFF
                lexicon.update(vocabulary.terms(numbers).new)
                counts = Counter(number for number in numbers.tolist() if number)
                terms += [{"oid": oid, "tid": tid, "freq": freq} for tid, freq in counts.items()]
        hosts = sorted({page.host for page in self.pages})
        zeros = dict.fromkeys(("pages", "bytes", "requests"), 0)
        return {
            "crawl": crawl, "pages": pages, "terms": terms,
            "lexicon": [{"tid": tid, "term": term} for tid, term in lexicon.items()],
            "hosts": [{"sid": n, "host": f"h{n}.org", "domain": f"h{n}.org", **zeros} for n in hosts],
            "topics": [
                {"kcid": n, "pcid": parent, "name": path.split("/")[-1] or "everything", "path": path, "type": mark}
                for n, parent, path, mark in self.topics
            ],
            "training": [
                {"name": f"example {n}", "kind": "text", "kcid": kcid, "positive": True, "source": "given", "text": text}
                for n, (kcid, text) in enumerate(self.examples)
            ],
        }  # fmt: skip


def mutual_funds() -> MadeCrawl:
    """The paper's crawl: funds lead to pages on investment in general; gardening does well; cooking is elsewhere."""
    crawl = MadeCrawl()
    funds = crawl.add(20, kcid=FUNDS, relevance=0.9, text=FUND_WORDS)
    crawl.add(30, kcid=GARDENING, relevance=0.9, text="soil seed flower bed", host=1)
    crawl.add(60, kcid=INVESTMENT, relevance=0.1, text=STOCK_WORDS, parent=funds[0], host=2)
    crawl.add(4, kcid=COOKING, relevance=0.0, text="oven flour", parent=funds[1])
    crawl.add(25, kcid=0, relevance=0.0, text="cookies privacy login", parent=funds[2])
    crawl.add(7, kcid=GARDENING, state="waiting")
    return crawl


def drifting(into: float, seed: int = 3) -> MadeCrawl:
    """300 pages accepted as gardening, of which the last have a share of their words from elsewhere."""
    draw = random.Random(seed)
    own = [f"garden{n}" for n in range(40)]
    other = [f"casino{n}" for n in range(200)]
    noise = [f"common{n}" for n in range(60)]

    def text(share: float) -> str:
        words = [draw.choice(other if draw.random() < share else own) for _ in range(60)]
        return " ".join(words + draw.choices(noise, k=40))

    crawl = MadeCrawl(examples=[(GARDENING, text(0.0)) for _ in range(5)])
    for n in range(300):
        crawl.add(kcid=GARDENING, relevance=0.9, text=text(0.1 + max(0.0, into - 0.1) * (n / 300)))
    crawl.add(60, kcid=0, relevance=0.0, text=" ".join(noise))
    return crawl
