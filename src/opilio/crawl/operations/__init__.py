"""Everything that a user can ask of a collection, declared once.

An operation is a plain typed function (`declaration.py`). Its name, its arguments and its result are those of the
function; the decorator adds whether it reads, writes or steers, how long it may take, and where REST offers it. From
the table `OPERATIONS` follow the requests that a running crawl answers (`crawl/control.py`), the methods of
`Collection` (`crawl/collection.py`), the routes below /api/c/ (`web/api.py`) and JSON schemas of the arguments.

Most operations run in the process that has the database open (`Context`): in the running crawl if there is one,
otherwise in the process of the caller. Where a running crawl does something else, the operation has a second body,
declared with `@name.live`. A few operations run where they are called (`caller_operation`), because they read the
caller's files, hold the lock on the settings, or use the search index; they reach the database by calling others.

`browse.py` searches and browses pages, `database.py` runs SQL and exports, `training.py` has topics, examples and
models, `asking.py` the questions to the user, `reviewing.py` feedback, clusters and reviews, `crawling.py` watches and
steers, `federation.py` forwards URLs, `removal.py` removes pages for good,
`seeding.py` finds pages to start from.
Modules that take long to import are imported inside the functions that need them.

Invariants: an operation that READS changes nothing. One that WRITES runs alone: it has the database, or the lock of
the running crawl. Arguments and results can be written as JSON.
"""

from __future__ import annotations

from opilio.crawl.operations import (
    asking,
    browse,
    crawling,
    database,
    federation,
    removal,
    reviewing,
    seeding,
    training,
)
from opilio.crawl.operations.declaration import OPERATIONS, READS, STEERS, WRITES, Access, Operation

__all__ = [
    "OPERATIONS",
    "READS",
    "STEERS",
    "WRITES",
    "Access",
    "Operation",
    "asking",
    "browse",
    "crawling",
    "database",
    "federation",
    "removal",
    "reviewing",
    "seeding",
    "training",
]
