"""Where the stages meet: a collection, the engine that crawls into it, and the workers that do the work.

The life of a URL. (1) `Discovery` gives it an oid and queues it in the frontier, or rejects it (`discovery.py`). (2)
The engine leases it when it is the best whose host is ready (`engine.py`); a new host's robots.txt comes first
(`FirstContact` in `absorb.py`). (3) A worker fetches it, writes the response to its WARC file, analyses and judges the
page (`worker.py`, in a process of its own: `worker_pool.py`). (4) The visit comes back and is absorbed (`absorb.py`):
the URL is settled or queued for another try, and the target of a redirect or the links of a page are
offered. (5) The rows that follow from it (`ledger.py`, `rows.py`) are committed in one transaction with those of some
hundred others (`commits.py`).

In the background of a crawl, `teacher.py` trains models, `distiller.py` finds hubs and authorities, `watcher.py` looks
for trouble, `asker.py` chooses questions to the user, `phases.py` switches from learning to harvest, `steering.py`
carries out what the user wants, `refresher.py` queues stored pages that are due again, `forgetting.py` visited pages
that are found again, `pictures.py` fetches the pictures of relevant pages, `indexer.py` keeps the search index, and
`shipping.py` and `forwarder.py` send WARC files and URLs elsewhere.

Everything that a user can ask of a collection is an operation, declared once (`operations/`). `Collection` has a method
for each, and hides whether a crawl runs: while one does, it carries the operation out (`control.py`); otherwise the
caller opens the database (`operations/client.py`).

Invariants: decisions are made in one process and without I/O; what waits (network, database, user) never blocks them.
After kill -9 at any moment the next crawl rebuilds its memory from the tables, takes in the pages that only the WARC
files have (`restore.py`), and continues.

A worker process does not import the engine and starts quickly; so the names below are loaded on first use.
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
