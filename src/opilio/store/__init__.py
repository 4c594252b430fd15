"""Everything that survives: one DuckDB file and a folder of WARC files per collection.

Invariants, in the order in which they matter:

1. `Store.write` commits one `Batch` in one transaction. When it returns, the batch is on disk; when it raises, nothing
   of it is. There is no third case, also under kill -9 and on a full disk.
2. A page's WARC record is written before the batch that names it. So after a crash the WARC files hold everything that
   the database has and possibly a few records more, which `warc.recover` gives back without the network.
3. Every reader that goes through `Store` sees all that was committed before it asked.
4. A statement of the user cannot write unless it was allowed to, and can never reach a file, the network or the
   configuration (`guard`). Queries of this package's own (`Store.select`) are not checked; they too can only read.

The tables are described in `schema.sql` and change by numbered `migrations` (`schema.py`). What accumulates (pages,
links, terms, visits) is only ever appended, in columns, from Arrow tables; that is what keeps the rate flat from the
first page to the millionth. The one large table that changes is `crawl`. An UPDATE costs DuckDB a scan of the whole
table and work on each touched block of 2048 rows, so that 50,000 scattered rows cost only eight times what 500 cost;
therefore a batch appends its changes to the journal `crawl_changes`, and the journal is *folded* into `crawl` by one
UPDATE when it has grown to `FOLD_ROWS`, when a reader comes (invariant 3), and when the store is opened or closed.

The database belongs to one process at a time. Within it, `write` and the changes of a user take turns by a lock, while
queries run on cursors of their own from any thread, each in its own snapshot.

`database.py` has `Store`, which is made of the open file (`connection.py`), a writer (`writer.py`, of batches:
`batch.py`), a reader (`reader.py`) and a loader of whole tables (`loader.py`). All other SQL is here too, as functions
of typed arguments and results, by noun: `topics.py`, `training.py` (examples, and changes of them), `judgements.py`
(models, and what they said), `pages.py`, `pictures.py`, `urls.py` (with the changes of their states), `refill.py`
(which queued URL is next), `links.py` (the link graph, hubs and authorities), `revisits.py` (which pages are due to be
visited again) and `link_history.py` (what their visits changed), `marks.py` (the marks that a user's statement may
leave), `terms.py`, `reviews.py`, `user_questions.py` (to the user), `offers.py` (of other collections), `census.py`,
`history.py` (runs, notices, harvest, hosts), `index_source.py` (what the search index is made of), `probes.py` (the
Bayes tree of Focus in the database). For users: `questions.py` (statements that are ready to run, the answer to any
statement, and the list of tables), `export.py`, `wacz.py` (for the programs of web archives). For exports to other
programs (`opilio.export`): `corpus.py`, `row_filter.py`, and `responses.py`, which reads stored bodies. When files are
damaged: `invariants.py` (what must hold) and `salvage.py` (what is left of a damaged database). WARC files, written and
read back: `warc.py`.

WARC files need no database: workers import `opilio.store.warc` alone. Therefore the names below are loaded on first
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process import loader

if TYPE_CHECKING:
    from opilio.store.batch import Batch
    from opilio.store.database import Store
    from opilio.store.export import export_pages
    from opilio.store.guard import Result
    from opilio.store.refill import StoredUrl
    from opilio.store.warc import WarcRecord, WarcWriter, recover, truncate_torn

_MODULES = {
    "Batch": "batch",
    "Result": "guard",
    "Store": "database",
    "StoredUrl": "refill",
    "WarcRecord": "warc",
    "WarcWriter": "warc",
    "export_pages": "export",
    "recover": "warc",
    "truncate_torn": "warc",
}

__all__ = [
    "Batch",
    "Result",
    "Store",
    "StoredUrl",
    "WarcRecord",
    "WarcWriter",
    "export_pages",
    "recover",
    "truncate_torn",
]

__getattr__ = loader(__name__, _MODULES)
