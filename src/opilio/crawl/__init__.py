"""Where the stages meet: a collection, the engine that crawls into it, and the workers that do the work.

The life of a URL. (1) `Absorber.offer` gives it an oid and lets it wait in the frontier, or refuses it. (2) The engine
takes it as a lease when it is the best whose host may be asked (`engine.py`). (3) A worker fetches it, writes what came
to its WARC file, analyses and judges it (`worker.py`, in a process of its own: `process.py`, `pool.py`). (4) The visit
comes back and is absorbed: the URL's last word is spoken, or it waits for another try; a redirect's target and the
links of a page are offered (`absorb.py`). (5) All rows that follow from it (`rows.py`) are committed in one transaction
with those of some hundred others.

Decisions are made in one process and without I/O; what waits (network, database, user) never holds them up. After
kill -9 at any moment the next crawl rebuilds its memory from the tables, takes in the pages that only the WARC files
know of (`restore.py`), and goes on. While a crawl runs, other processes talk to it over a local socket (`control.py`);
`Collection` hides whether one does.

A worker process imports `process` alone and starts quickly; so the names below are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process import loader

if TYPE_CHECKING:
    from opilio.crawl.collection import Collection
    from opilio.crawl.peer import open_peer
    from opilio.crawl.status import Status

__all__ = ["Collection", "Status", "open_peer"]

_MODULES = {"Collection": "collection", "Status": "status", "open_peer": "peer"}

__getattr__ = loader(__name__, _MODULES)
