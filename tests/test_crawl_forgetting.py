"""Forgetting visited pages after every so many documents (OASIS 4, step 5): changed pages are seen again."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fetch_servers import WebServer
from opilio import Collection
from webs import Page, Web

LONG = 12


def chain(changed: bool) -> Web:
    """A start page that leads to a news page and a chain of pages; the last of them link to the news page again."""
    new = ((LONG + 2, "new"),) if changed else ()
    news = Page("today the owl hunts" if changed else "nothing happened yet", url="http://a.test/news", links=new)
    start = Page("start of it all", url="http://a.test/", links=((1, "news"), (2, "next")))
    steps = [
        Page(
            f"step {n} of many steps, number {n * 7919}", url=f"http://a.test/{n}", links=((n + 1, "next"), (1, "news"))
        )
        for n in range(2, LONG + 1)
    ]
    last = Page("the end of the chain", url=f"http://a.test/{LONG + 1}", links=((1, "news"),))
    return Web([start, news, *steps, last, Page("the owl has young", url="http://a.test/owlets")])


def crawled(folder: Path, server: WebServer, after: int, **changes: Any) -> Collection:
    """A crawl during which the news page changes, when half of the chain was fetched."""
    seeds = folder / "seeds.txt"
    seeds.write_text("http://a.test/\n")
    settings: dict[str, Any] = {"fetch.connect_to": {"*": server.address}, "fetch.host_delay_s": 0.0}
    settings |= {"run.workers": -1, "frontier.strategy": "breadth-first", "frontier.forget_after": after}
    settings |= {"fetch.per_host": 1, "store.batch_s": 0.05, **changes}
    return Collection.create(folder / "c", seeds=seeds, settings=settings)


@pytest.mark.parametrize("after", [0, 3])
def test_a_changed_page_is_seen_again_when_visited_ones_are_forgotten(tmp_path: Path, after: int) -> None:
    """The news page and what it links to now are there only when the crawl forgets; nothing is stored twice."""
    old, new = chain(changed=False).routes(), chain(changed=True).routes()
    routes, half = dict(old), f"/{LONG // 2}"
    answer = old[half]
    assert isinstance(answer, bytes)

    async def change(_request: bytes, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        routes["/news"], routes["/owlets"] = new["/news"], new["/owlets"]
        writer.write(answer)

    routes[half] = change
    with WebServer(routes) as server:
        collection = crawled(tmp_path, server, after)
        status = collection.crawl()
        assert status.reason.startswith("frontier empty")
        pages = dict(collection.sql("SELECT url, text FROM collection").rows)
        visits = dict(
            collection.sql(
                "SELECT url, count(*) FROM visits JOIN crawl USING (oid) WHERE kind = 'page' GROUP BY url"
            ).rows
        )
    assert ("owl" in pages["http://a.test/news"]) == ("http://a.test/owlets" in pages) == bool(after)
    assert (visits["http://a.test/news"] > 1) == bool(after)
    assert collection.sql("SELECT count(*), count(DISTINCT oid) FROM pages").rows == [(LONG + 2 + bool(after),) * 2]
    assert collection.sql("SELECT count(*) FROM crawl WHERE state <> 'fetched'").rows == [(0,)]
