"""Sifting: what others crawled is judged by a topic's model, and pages on topic join a collection.

The way of a page. (1) `sources.py` lists the archives: WARC, WET and WACZ files, on disk or in a storage that fsspec
knows; lists of URLs become archives by a polite crawl of their own (`url_lists.py`). (2) A worker process reads the
records of an archive (`archives.py`), and analyses and judges each page as a crawl's worker does (`sieve.py`). Of a
page off topic only the count goes on. (3) The process that has the database open (`sifting.py`) takes in the others as
if they had just been fetched: it writes the record to a WARC file of the collection, and what the absorber makes of the
page to the database. `pool.py` has the worker processes; `opilio.cluster` has workers on a Ray cluster.

Invariants. What was judged is committed together with how far its archive has come, in one transaction: after kill -9
sifting goes on behind the last committed record, and nothing is judged or stored twice. A worker reads one archive at a
time from front to back; a large archive is shared out in lanes, of which each has every n-th page. Whatever an archive
contains, it is bounded: a record that is too large is passed over, damage is reported and stepped over, and a page that
kills its worker is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process import loader

if TYPE_CHECKING:
    from opilio.sift.sifting import SiftReport, sift

__all__ = ["SiftReport", "sift"]

_MODULES = {"SiftReport": "sifting", "sift": "sifting"}

__getattr__ = loader(__name__, _MODULES)
