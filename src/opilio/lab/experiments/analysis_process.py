"""Analysing a share of a recorded web: the work of one process.

A share is every k-th page. What is made of it is written to files, in the order of the pages: `documents` holds one
msgpack message after another, `sizes` their sizes, `counts` and `targets` the links. Progress is a line on standard
output for every few pages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from opilio.analyze import Analyzer, Extractor, Failure
from opilio.fetch.outcomes import replay
from opilio.lab.webs.recorded import RecordedWeb
from opilio.model import Document, Lease, Outcome
from opilio.settings import Settings, from_table

REPORT_EVERY_PAGES = 50


class AnalysisShare(msgspec.Struct, frozen=True):
    """Which pages are analysed, how, and where the result goes."""

    web: str
    settings: dict[str, dict[str, object]]
    first: int
    step: int
    target: str


class PageReader:
    """Makes documents of recorded answers, as a worker of a crawl does."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._analyzer = Analyzer(settings.traps, settings.robots, settings.store)
        self._extractor = Extractor(settings)

    def read(self, web: RecordedWeb, n: int) -> Document | None:
        """The document of a page; None when a crawl would not store one."""
        if not 200 <= web.status(n) < 300:
            return None
        url = web.urls[n]
        response = replay(Lease(n, url), "", 0.0, web.head(n), web.body(n), self._settings)
        if response.fetch.outcome is not Outcome.OK:
            return None
        declared, found = response.headers.get("content-type", ""), response.fetch.content_type
        content_type = declared if declared.lower().startswith(found) else found
        try:
            if not self._analyzer.is_risky(response.body, content_type, url):
                return self._analyzer.analyze(response.body, content_type, url, response.headers)
            content = self._extractor.read_now(response.body, content_type, url)
            return None if isinstance(content, Failure) else self._analyzer.document_of(content, url, response.headers)
        except Exception:  # a page must never stop an analysis; a crawl says `unreadable` of it
            return None

    def close(self) -> None:
        """End the process that reads files."""
        self._extractor.close()


def analyse_share(share: AnalysisShare, on_pages: Callable[[int], object]) -> None:
    """Analyse the pages of a share; `on_pages` hears how many more were done."""
    web = RecordedWeb.open(Path(share.web))
    reader = PageReader(from_table(share.settings, "settings of the analysis"))
    terms: dict[int, str] = {}
    sizes: list[int] = []
    counts: list[int] = []
    targets: list[int] = []
    encode = msgspec.msgpack.Encoder().encode
    folder = Path(share.target)
    with (folder / "documents").open("wb") as file:
        for n in range(share.first, len(web), share.step):
            document = reader.read(web, n)
            message = b""
            if document is not None:
                terms.update(document.new_terms)  # which of them are new depends on who read what before
                message = encode(msgspec.structs.replace(document, new_terms=[]))
                targets.extend(web.number(link.url) for link in document.links)
            file.write(message)
            sizes.append(len(message))
            counts.append(len(document.links) if document is not None else 0)
            if len(sizes) % REPORT_EVERY_PAGES == 0:
                on_pages(REPORT_EVERY_PAGES)
    reader.close()
    np.array(sizes, np.int64).tofile(folder / "sizes")
    np.array(counts, np.int64).tofile(folder / "counts")
    np.array(targets, np.int32).tofile(folder / "targets")
    (folder / "terms").write_bytes(msgspec.msgpack.encode(terms))


def main(arguments: list[str]) -> None:
    """The body of a process; its share is the one argument, as JSON."""
    share = msgspec.json.decode(arguments[0], type=AnalysisShare)
    analyse_share(share, lambda pages: print(pages, flush=True))


if __name__ == "__main__":
    main(sys.argv[1:])
