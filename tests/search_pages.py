"""Small collections with known pages for tests of searching, written without a crawl."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opilio import Collection
from opilio.analyze.sketch import sketch
from opilio.analyze.terms import Vocabulary, tokenize
from opilio.model import host_of, url_key
from opilio.store import Batch, Store

START_S = 1_767_225_600.0  # 2026-01-01
DAY_S = 86_400


@dataclass(frozen=True)
class Page:
    """A page to store; its oid is its place in the list."""

    text: str
    title: str = ""
    url: str = ""
    relevance: float = 0.5
    kcid: int = 1
    language: str = "en"
    content_type: str = "text/html"
    day: int = 0
    main_text: str = ""
    links: tuple[tuple[int, str], ...] = ()
    """To which pages, with which anchors."""


def make_collection(folder: Path, pages: Sequence[Page]) -> Collection:
    """A collection of these pages."""
    seeds = folder.parent / f"{folder.name}-seeds.txt"
    seeds.write_text("http://start.example/\n")
    collection = Collection.create(folder, seeds=seeds)
    with Store.open(folder) as store:
        store.query("DELETE FROM topics", write=True)
        store.query(
            "INSERT INTO topics VALUES (0, NULL, 'all', '', 'path', [], ''), (1, 0, 'Birds', 'Birds', 'good', [], ''), "
            "(2, 1, 'Owls', 'Birds / Owls', 'subsumed', [], ''), (3, 0, 'Cars', 'Cars', 'null', [], '')",
            write=True,
        )
    add_pages(folder, pages)
    return collection


def add_pages(folder: Path, pages: Sequence[Page], first: int = 0, *, replace: bool = False) -> None:
    """Store pages with oids from `first` on."""
    batch, vocabulary = Batch(), Vocabulary()
    if replace:
        batch.replaced = list(range(first, first + len(pages)))
    with Store.open(folder) as store:
        sids = dict(store.query("SELECT host, sid FROM hosts").rows)
        for oid, page in enumerate(pages, first):
            url = page.url or f"http://h{oid % 3}.example/{oid}.html"
            host, now_s = host_of(url), START_S + page.day * DAY_S
            if host not in sids:
                sids[host] = len(sids)
                batch.hosts.add(sids[host], host, host, "", "ok", 0, 1, 1, 1, 404, 0.0, now_s, now_s)
            if not replace:
                batch.urls.add(
                    oid, url, url_key(url), sids[host], page.kcid, 0, None, 0, "fetched", "ok", 1, page.relevance, 1.0,
                    0.0, now_s, now_s,
                )  # fmt: skip
            numbers = vocabulary.numbers(tokenize(page.text), page.language)
            batch.pages.add(
                oid, now_s, 200, page.content_type, "utf-8", page.language, page.title, "", page.text, page.main_text,
                url_key(page.text), "", False, 0, 0, 0.0, "", "", "", page.relevance, page.kcid, 1, "", 0, 0,
                sketch(numbers >> 32),
            )  # fmt: skip
            for target, anchor in page.links:
                batch.links.add(oid, target, sids[host], 0, anchor, "", "main", 0, "a", False)
        store.write(batch)
