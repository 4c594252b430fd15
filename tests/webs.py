"""Fake webs: pages written down once, then served on loopback, recorded, or stored as if they had been crawled.

    web = Web([Page("An owl hunts.", links=((1, "more"),)), Page("Owls nest in trees.")])
    with web.served() as server: ...        # real requests
    web.recorded(folder)                    # a recorded web, for experiments
    web.stored(folder)                      # a collection that has all pages, without a crawl

What other helpers make of a web in a database, row by row, they put there by `put_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from fetch_servers import Handler, WebServer, html, reply
from opilio import Collection
from opilio.analyze.sketch import sketch
from opilio.analyze.terms import Vocabulary, tokenize
from opilio.lab.webs import RecordedWeb
from opilio.lab.webs.recording import RecordedAnswer, head_of, recording
from opilio.model import host_of, url_key
from opilio.store import Batch, Store

START_S = 1_767_225_600.0  # 2026-01-01
DAY_S = 86_400
TOPICS = (
    (0, None, "all", "", "path"), (1, 0, "Birds", "Birds", "good"), (2, 1, "Owls", "Birds / Owls", "subsumed"),
    (3, 0, "Cars", "Cars", "null"),
)  # fmt: skip
"""The topics of a stored web: number, parent, name, path and mark."""


@dataclass(frozen=True)
class Page:
    """A page of a fake web; its number, and its oid in a collection, is its place in the web."""

    text: str = ""
    title: str = ""
    url: str = ""
    relevance: float = 0.5
    kcid: int = 1
    language: str = "en"
    content_type: str = "text/html"
    day: int = 0
    main_text: str = ""
    links: tuple[tuple[int | str, str], ...] = ()
    """To which pages, by number or URL, with which anchors."""
    topics: tuple[str, ...] = ()
    """Its labels in a recorded web."""
    redirect: str = ""
    """Where it leads instead of being a page."""


class Web:
    """Pages that link to each other."""

    def __init__(self, pages: Iterable[Page] = ()) -> None:
        self.pages = list(pages)

    def url(self, place: int | str) -> str:
        """The address of a page, by its number."""
        if isinstance(place, str):
            return place
        return self.pages[place].url or f"http://h{place % 3}.example/{place}.html"

    def html(self, page: Page) -> str:
        """A page as a server sends it."""
        links = " ".join(f'<a href="{escape(self.url(to))}">{escape(anchor)}</a>' for to, anchor in page.links)
        return f"<title>{escape(page.title)}</title><body><article><p>{escape(page.text)}</p></article>{links}</body>"

    def routes(self) -> dict[str, bytes | Handler]:
        """What a server answers, by path: the hosts of a web share their paths."""
        found: dict[str, bytes | Handler] = {}
        for place, page in enumerate(self.pages):
            parts = urlsplit(self.url(place))
            moved = reply(status="301 Moved Permanently", Location=page.redirect) if page.redirect else None
            found[parts.path + ("?" + parts.query if parts.query else "")] = moved or html(self.html(page).encode())
        return found

    def served(self) -> WebServer:
        """A server of it, to be used as a context; `fetch.connect_to` leads all hosts to its address."""
        return WebServer(self.routes())

    def recorded(self, folder: Path) -> RecordedWeb:
        """A recorded web of it."""
        kind = "text/html; charset=utf-8"
        answers = []
        for place, page in enumerate(self.pages):
            moved = head_of(301, [("Location", page.redirect)]) if page.redirect else b""
            head, body = moved or head_of(200, [("Content-Type", kind)]), b"" if moved else self.html(page).encode()
            answers.append(RecordedAnswer(self.url(place), head, body, page.topics))
        return record(folder, answers)

    def stored(self, folder: Path) -> Collection:
        """A collection that has all its pages."""
        seeds = folder.parent / f"{folder.name}-seeds.txt"
        seeds.write_text("http://start.example/\n")
        collection = Collection.create(folder, seeds=seeds)
        columns = ("kcid", "pcid", "name", "path", "type")
        topics = [dict(zip(columns, topic, strict=True)) | {"keywords": [], "description": ""} for topic in TOPICS]
        with Store.open(folder) as store:
            put_rows(store, {"topics": topics}, emptied=["topics"])
        self.store_in(folder)
        return collection

    def store_in(self, folder: Path, first: int = 0, *, replace: bool = False) -> None:
        """Store its pages in a collection, with oids from `first` on."""
        with Store.open(folder) as store:
            self.put_in(store, first, replace=replace)

    def put_in(self, store: Store, first: int = 0, *, replace: bool = False) -> None:
        """The same in a collection that is open."""
        batch, vocabulary = Batch(), Vocabulary()
        if replace:
            batch.replaced = list(range(first, first + len(self.pages)))
        sids = dict(store.query("SELECT host, sid FROM hosts").rows)
        for oid, page in enumerate(self.pages, first):
            url = page.url or f"http://h{oid % 3}.example/{oid}.html"
            host, now_s = host_of(url), START_S + page.day * DAY_S
            if host not in sids:
                sids[host] = len(sids)
                batch.hosts.add(sids[host], host, host, "", 1, 1, 1, now_s)
                batch.origins.add(sids[host], "http", "ok", 0, None, 404, 0.0, now_s)
            if not replace:
                batch.urls.add(
                    oid, url, url_key(url), sids[host], page.kcid, 0, None, 0, "fetched", "ok", 1, page.relevance,
                    1.0, 0.0, now_s, now_s,
                )  # fmt: skip
            numbers = vocabulary.numbers(tokenize(page.text), page.language)
            batch.pages.add(
                oid, now_s, 200, page.content_type, "utf-8", page.language, page.title, "", page.text,
                page.main_text, url_key(page.text), "", False, 0, 0, 0.0, "", "", "", page.relevance, page.kcid, 1,
                "", 0, 0, sketch(numbers >> 32), None, False, None,
            )  # fmt: skip
            for target, anchor in page.links:
                batch.links.add(oid, target, sids[host], 0, anchor, "", "main", 0, "a", False)
        store.write(batch)


def record(folder: Path, answers: Iterable[RecordedAnswer]) -> RecordedWeb:
    """The recorded web of some answers."""
    with recording(folder) as recorder:
        for answer in answers:
            recorder.add(answer)
        return recorder.finish(["a test"])


def put_rows(store: Store, rows: Mapping[str, Sequence[Mapping[str, Any]]], emptied: Iterable[str] = ()) -> Store:
    """Add rows to tables of a database by the names of their columns; some tables are emptied before."""
    with store.writing() as to:
        for table in emptied:
            to.execute(f"DELETE FROM {table}")
        for table, some in rows.items():
            if some:
                to.register("incoming", pa.Table.from_pylist(list(some)))
                to.execute(f"INSERT INTO {table} BY NAME FROM incoming")
                to.unregister("incoming")
    return store
