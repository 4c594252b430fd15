"""Rows for tests of the store: single ones, and a small collection with something in every table.

They are no web: each value is one that a test of a table looks for, and there are no pages to crawl behind them.
"""

from __future__ import annotations

import time

import numpy as np

from opilio.model import CrawlProgress, Judgement, Phase, UrlState
from opilio.store import Batch, Store

NOW_S = 1_763_200_000.0


def add_url(
    batch: Batch, oid: int, *, sid: int = 0, relevance: float = 0.5, topic: int = 1, not_before: float = 0
) -> None:
    """A waiting URL."""
    batch.urls.add(
        oid, f"http://host{sid}.test/{oid}", 2**63 + oid, sid, topic, 2, None, 0, UrlState.WAITING, None, 0, relevance,
        relevance, not_before, NOW_S, 0.0,
    )  # fmt: skip


def add_host(batch: Batch, sid: int, pages: int = 0) -> None:
    """A host."""
    batch.hosts.add(sid, f"host{sid}.test", "host.test", None, pages, 0, 0, 0.0)
    batch.origins.add(sid, "http", "ok", 0, None, None, 0.0, 0.0)


def add_page(
    batch: Batch, oid: int, *, relevance: float = 0.5, kcid: int = 1, visited: float = NOW_S, text: str = "x"
) -> None:
    """A stored page, and the change of its URL."""
    batch.pages.add(
        oid, visited, 200, "text/html", "utf-8", "en", f"Title {oid}", "", text, text, oid, "", False, 10, 20, 1.5,
        "192.0.2.1", "", "", relevance, kcid, 1, "a.warc.gz", oid * 100, 90, b"\x01\x02", None, False, None,
    )  # fmt: skip
    batch.changes.add(oid, kcid, UrlState.FETCHED, "ok", 1, relevance, relevance, 0.0, visited)
    batch.visits.add(oid, visited, "page", "ok", 200, "", 1.5, 10, "a.warc.gz", oid * 100, 90)


def filled(store: Store) -> Store:
    """A small collection with something in every table, for queries to find."""
    batch = Batch()
    for oid in range(40):
        add_url(batch, oid, sid=oid % 4, relevance=oid / 40, topic=1 + oid % 3)
    for oid in range(12):
        add_page(batch, oid, relevance=oid / 12, kcid=1 + oid % 3, visited=time.time() - 600 + oid * 20)
        for target in range(oid + 1, oid + 6):
            batch.links.add(oid, target, oid % 4, target % 4, f"link {target}", "words around", "main", 0, "a", False)
        ids = np.array([1, 2, 3 + oid], "<u4")
        batch.terms.add(oid, ids.tobytes(), np.array([5, 1, 2], "<u2").tobytes())
    for sid in range(4):
        add_host(batch, sid, pages=sid)
        batch.robots.add(sid, "http", NOW_S, "User-agent: *\nDisallow:")
    batch.lexicon.add(1, "cycl")
    batch.lexicon.add(1, "cycl")
    batch.page_pictures.add(1, 0, "http://host0.test/1.png", "")
    batch.pictures.add("http://host0.test/1.png", "picture", NOW_S, "ok", "image/png", 200, 100, b"x")
    batch.sifted.add(10, "crawl.warc.gz", 4711, NOW_S, NOW_S)
    batch.archives.add("crawl.warc.gz", 9000, "model", 0, 1, 5000, 0, 12, False, 12, 1, 1)
    batch.redirects.add(12, 13, 301)
    batch.duplicates.add(14, 3, "content")
    for kcid, pcid, name, kind in ((0, None, "", "path"), (1, 0, "investment", "path"), (2, 1, "mutual funds", "good")):
        batch.topics.add(kcid, pcid, name, f"/{name}", kind, ["fund"], "")
    batch.topics.add(3, 0, "gardens", "/gardens", "null", [], "")
    batch.seeds.add("http://host0.test/0", 2, "bookmarks.html", "Zero", NOW_S)
    batch.training.add("http://host0.test/0", "url", 2, True, "given", "Zero", None, NOW_S)
    batch.models.add(1, NOW_S, "svm", "first", None, "", 1, "{}", "", "", b"model")
    for oid in range(12):
        judgement = Judgement(1 + oid % 3, True, oid / 12, 0.5, {"terms": 0.5, "pairs": -0.1}, ["terms"], False, 1)
        batch.judgements.put(oid, judgement)
        batch.notices.add(1.0, "harvest", None, "the harvest fell", "look at the census", "")
    batch.counters["links dropped"] = 7
    batch.progress = CrawlProgress(Phase.LEARNING, 1, 2, 3, 4)
    store.write(batch)
    again = Batch(replaced=[11])
    add_page(again, 11, relevance=11 / 12, kcid=3, visited=time.time() - 100)
    again.links.add(11, 12, 3, 0, "link 12", "words around", "main", 0, "a", False)
    again.terms.add(11, np.array([1, 2, 14], "<u4").tobytes(), np.array([5, 1, 2], "<u2").tobytes())
    again.revisits.add(11, time.time() - 100, 4711)
    store.write(again)
    store.query("INSERT INTO hubs SELECT oid, oid / 100 FROM crawl WHERE oid < 12", write=True)
    store.query("INSERT INTO auth SELECT oid, oid / 100 FROM crawl WHERE oid < 20", write=True)
    store.finish_run(store.start_run(NOW_S, "0.1.0", ""), NOW_S + 60, "max_pages", 12)
    return store
