"""A web for tests of the evaluation: pages written down as links and words, analysed already.

It is not one of `webs.py`: there is no HTML to serve or to record, but a link graph with documents made by hand, whose
statuses, terms and hashes of contents a test sets one by one. Hypothesis draws many of them, and they are crawled in memory.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import msgspec
import numpy as np

from opilio.analyze.terms import Vocabulary, term_ids, tokenize
from opilio.lab.experiments.analysed import Analysed
from opilio.lab.webs.recorded import RecordedWeb
from opilio.model import Document, Link, Links, Region, url_key


class StandIn:
    """What is asked of a recorded web."""

    def __init__(
        self,
        urls: Sequence[str],
        statuses: Mapping[int, int],
        redirects: Mapping[int, str],
        labels: Mapping[str, list[int]],
        bodies: Mapping[int, bytes],
    ) -> None:
        self.name = "stand-in"
        self.urls = list(urls)
        self.labels = dict(labels)
        self._statuses, self._redirects, self._bodies = statuses, redirects, bodies
        self._numbers = {url: n for n, url in enumerate(urls)}

    def number(self, url: str) -> int:
        return self._numbers.get(url, self._numbers.get(url.replace("https:", "http:"), -1))

    def status(self, n: int) -> int:
        return 301 if n in self._redirects else self._statuses.get(n, 200)

    def redirect(self, n: int) -> str:
        return self._redirects.get(n, "")

    def head(self, n: int) -> bytes:
        return b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"

    def body(self, n: int) -> bytes:
        return self._bodies.get(n, b"")


def url_of(page: int, hosts: int = 1) -> str:
    return f"http://h{page % hosts}.test/{page}"


def make_analysed(
    links: Sequence[Sequence[int | str]],
    *,
    hosts: int = 1,
    urls: Sequence[str] = (),
    words: Sequence[str] = (),
    titles: Sequence[str] = (),
    contents: Mapping[int, int] | None = None,
    statuses: Mapping[int, int] | None = None,
    redirects: Mapping[int, str] | None = None,
    labels: Mapping[str, list[int]] | None = None,
    bodies: Mapping[int, bytes] | None = None,
) -> Analysed:
    """A web of `len(links)` pages; a link is a page number or a URL. `contents` gives pages the same content hash."""
    addresses = list(urls) or [url_of(page, hosts) for page in range(len(links))]
    web = StandIn(addresses, statuses or {}, redirects or {}, labels or {}, bodies or {})
    vocabulary = Vocabulary()
    terms: dict[int, str] = {}
    documents: list[Document | None] = []
    for page, row in enumerate(links):
        if web.status(page) != 200:
            documents.append(None)
            continue
        found = [addresses[link] if isinstance(link, int) else link for link in row]
        text = words[page] if words else ""
        numbers = vocabulary.numbers(tokenize(text), "")
        known = vocabulary.terms(numbers)
        terms.update(known.new)
        kept = Links.of(Link(url, url_key(url), "", "", Region.MAIN, at) for at, url in enumerate(found))
        title, content_hash = titles[page] if titles else "", (contents or {}).get(page, page + 1)
        stems = numbers.astype("<u4").tobytes()
        document = Document(title, "", "", "", text, text, kept, known.ids, known.counts, [], content_hash, b"")
        documents.append(msgspec.structs.replace(document, stems=stems))
    counts = [len(row) if documents[page] else 0 for page, row in enumerate(links)]
    targets = [
        web.number(addresses[link] if isinstance(link, int) else link)
        for page, row in enumerate(links)
        if documents[page]
        for link in row
    ]
    starts = np.concatenate(([0], np.cumsum(counts)))
    return Analysed(cast(RecordedWeb, web), documents, starts, np.array(targets, np.int32), terms)


def terms_of(analysed: Analysed, page: int) -> dict[int, int]:
    """The terms of a page with their counts, counted anew from its text."""
    document = analysed.documents[page]
    found: dict[int, int] = {}
    for term in term_ids(document.text) if document else ():
        found[term] = found.get(term, 0) + 1
    return found


def plain_heap(links: list[list[int]], seeds: Iterable[int], worth: Callable[[int, int], float]) -> list[int]:
    """The pages of a web in the order of one heap: what is worth most, by the page it was found on and by itself, comes
    first, then what was found first. Seeds come before all else that is worth no more than 1."""
    found = dict.fromkeys(seeds)
    heap = [(-1.0, at, page) for at, page in enumerate(found)]
    order = []
    while heap:
        page = heapq.heappop(heap)[2]
        order.append(page)
        for link in links[page]:
            if link not in found:
                heapq.heappush(heap, (-worth(page, link), len(found), link))
                found[link] = None
    return order
