"""Processes that tests of sifting start: one that is made to be killed, and workers that some pages end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from opilio import Collection
from opilio.process import Channel
from opilio.sift import SiftReport, sift
from opilio.sift import pool as sift_pool
from opilio.sift.archives import ArchivePage
from opilio.sift.sieve import Sieve


def sift_slowly(folder: str, *sources: str) -> None:
    """Sift, and say how many pages were stored so far."""

    def tell(report: SiftReport) -> None:
        print(report.stored, flush=True)

    sift(Collection(folder), sources, workers=1, on_tick=tell)


def work_until_poison(channel: Channel) -> None:
    """A worker that ends at once when it reads a page whose URL says so."""
    sift_page = Sieve._sift

    def sift_or_end(self: Sieve, page: ArchivePage, *more: object) -> object:
        if page.url.endswith("/7.html"):
            os._exit(9)
        return sift_page(self, page, *more)  # type: ignore[arg-type]

    Sieve._sift = sift_or_end  # type: ignore[method-assign,assignment]
    sift_pool.work(channel)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sift_slowly(*sys.argv[1:])
