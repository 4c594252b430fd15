"""Which pages two collections share (OASIS 5): by address, or by text under another address."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from opilio.crawl import Collection
from opilio.store.shared import COLUMNS, SharedPage, intersect


@dataclass(frozen=True)
class SharedReport:
    """What two collections have in common."""

    pages: tuple[int, int]
    """The number of pages of each collection."""
    relevant: tuple[int, int]
    """How many of them are relevant."""
    shared: tuple[SharedPage, ...]
    """The pages that both have, those relevant in both first."""
    hosts: tuple[str, ...]
    """The hosts of which both have pages."""

    @property
    def shared_relevant(self) -> tuple[SharedPage, ...]:
        """The pages that are relevant in both."""
        return tuple(page for page in self.shared if page.relevant and page.other_relevant)

    @property
    def same_text(self) -> int:
        """How many of the shared pages have different addresses, and the same text."""
        return sum(page.url != page.other_url for page in self.shared)


def shared_pages(first: Path | str, second: Path | str) -> SharedReport:
    """Which pages the collections in two folders share: the same address, or the same text. Also while they crawl."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, collection in (("first", Collection(first)), ("second", Collection(second))):
            files.append(Path(folder) / f"{name}.parquet")
            collection.export(files[-1], columns=COLUMNS)
        found = intersect(*files)
    (pages_a, relevant_a), (pages_b, relevant_b) = found.counts
    return SharedReport((pages_a, pages_b), (relevant_a, relevant_b), tuple(found.pages), tuple(found.hosts))
