"""Operations on the database itself: SQL and exports."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from opilio.crawl.operations.client import OperationClient, caller_operation
from opilio.crawl.operations.context import Context, LiveCrawl
from opilio.crawl.operations.declaration import LONG_TIMEOUT_S, READS, SQL_TIMEOUT_S, WRITES, Meta, Route, operation
from opilio.store import Result, export_pages
from opilio.store.export import DEFAULT_COLUMNS
from opilio.store.warc import warc_elsewhere


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


@operation(READS)
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
    timeout_s=LONG_TIMEOUT_S,
    about={"format_name": Meta(description="jsonl, csv, parquet or wacz; by default as the suffix says.")},
)
def export(
    at: Context, target: Path | str, format_name: str = "", *, columns: Sequence[str] = (), where: str = ""
) -> int:
    """Write the pages to a file; its suffix decides the format: .jsonl, .csv or .parquet. Returns how many pages.

    A .wacz file holds the whole collection, with its WARC files, for the programs of web archives.
    """
    path = at.output_file(target)
    names = list(columns) or list(DEFAULT_COLUMNS)
    elsewhere = warc_elsewhere(at.settings.store)
    return export_pages(at.store, path, format_name, columns=names, where=where, warc_elsewhere=elsewhere)
