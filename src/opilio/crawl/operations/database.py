"""Operations on the database itself: SQL and exports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opilio.crawl.operations.client import OperationClient, caller_operation
from opilio.crawl.operations.context import Context, LiveCrawl
from opilio.crawl.operations.declaration import READS, SQL_TIMEOUT_S, WRITES, Meta, Route, operation
from opilio.errors import InputError
from opilio.export import FORMATS
from opilio.store import Result
from opilio.store.warc import warc_elsewhere

EXPORT_TIMEOUT_S = 3600.0
"""How long a caller waits for a running crawl. 10,000 pages take 15 s of CPU time as Markdown, 3 s as a dataset."""


@caller_operation(WRITES)
def sql(client: OperationClient, sql: str, *, write: bool = False) -> Result:
    """Run a SQL statement on the database, also while a crawl runs. Read-only unless `write`."""
    return client.call(_write_sql if write else _read_sql, sql)


@operation(READS)
def _read_sql(at: Context, sql: str) -> Result:
    """Run a query."""
    if at.engine is not None:
        result: Result = at.engine.query(sql, write=False, timeout_s=SQL_TIMEOUT_S)
        return result
    return at.store.query(sql)


@operation(WRITES)
def _write_sql(at: Context, sql: str) -> Result:
    """Run a statement that may change rows."""
    return at.store.query(sql, write=True, settles_marks=True)


@_write_sql.live
async def _(crawl: LiveCrawl, sql: str) -> Result:
    """A running crawl then looks whether other topics are wanted now."""
    await crawl.engine.commit(wait=True)
    result: Result = await asyncio.to_thread(crawl.engine.query, sql, write=True, timeout_s=SQL_TIMEOUT_S)
    await crawl.engine.teacher.notice()
    return result


@operation(
    READS,
    about={
        "sql": Meta(max_length=20_000, description="One statement that only reads."),
        "max_rows": Meta(ge=1, description="Most rows in the answer."),
    },
)
def query(at: Context, sql: str, max_rows: int = 1000) -> dict[str, Any]:
    """The answer to a query in plain values, for pages and programs: at most `max_rows` rows, within a minute.

    `columns`, their `kinds` (number, time or text), `rows`, and `truncated`: whether there were more.
    """
    from opilio.store import questions  # noqa: PLC0415

    return questions.answer(at.store, sql, max_rows)


@operation(READS, rest=Route("GET", "tables", "sql"))
def tables(at: Context) -> list[dict[str, Any]]:
    """The tables and views with their columns, and what each of them means."""
    from opilio.store import questions  # noqa: PLC0415

    return questions.list_tables(at.store)


@operation(
    READS,
    timeout_s=EXPORT_TIMEOUT_S,
    about={
        "format_name": Meta(description=f"{', '.join(FORMATS)}; by default as the ending of the target says."),
        "columns": Meta(description="Of a table; by default the ten most useful. Some are computed by exports only."),
        "where": Meta(
            description="SQL condition: \"relevance > 0.2 AND language = 'en'\"; `true` takes all pages. By default "
            "all pages or the relevant ones, as the format says."
        ),
        "keep": Meta(
            description='SQL condition on computed columns, such as "words > 100"; `usual` has usual limits of quality.'
        ),
        "respect_rights": Meta(
            description="Leave out pages that reserve their use for data mining or AI. By default in dataset and rag, "
            "which are made for models."
        ),
        "split": Meta(description="Of a dataset: shares of the sites in train/validation/test; 0.9/0.05/0.05."),
        "chunk_words": Meta(
            description="Of rag: cut pages into chunks of at most so many words; 0: whole pages.", ge=0
        ),
        "overlap_words": Meta(
            description="Of rag: words that a chunk repeats of the one before it; by default one in eight."
        ),
    },
)
def export(
    at: Context,
    target: Path | str,
    format_name: str = "",
    *,
    columns: Sequence[str] = (),
    where: str | None = None,
    keep: str = "",
    respect_rights: bool | None = None,
    split: str = "",
    chunk_words: int = 0,
    overlap_words: int | None = None,
) -> int:
    """Write pages to a file or folder; returns how many. The ending or `format_name` decides the format.

    Tables (jsonl, csv, parquet), graphml and graph take all pages unless `where` chooses; wacz is the whole collection;
    the others take relevant pages. In dataset and rag, pages that reserve their use for data mining or AI are left out
    unless `respect_rights` is False. The guide "Export" shows which format is for what.
    """
    from opilio.export.formats import Options  # noqa: PLC0415
    from opilio.export.formats import export as write_export  # noqa: PLC0415

    options = Options(columns, where, keep, respect_rights, split, chunk_words, overlap_words)
    elsewhere = warc_elsewhere(at.settings.store)
    return write_export(at.store, at.output_file(target), format_name, options, warc_elsewhere=elsewhere)


@operation(READS)
def feed(at: Context, form: str, home: str = "", address: str = "") -> str:
    """The relevant pages that were fetched last, as a feed: `form` is atom or rss. `home` and `address` are where the
    portal and the feed are."""
    from opilio.export.formats import FEEDS, latest_feed  # noqa: PLC0415

    if form not in FEEDS:
        raise InputError(f"{form!r} is no form of a feed", f"Choose one of: {', '.join(FEEDS)}.")
    return latest_feed(at.store, form, at.folder.absolute().name, home, address)
