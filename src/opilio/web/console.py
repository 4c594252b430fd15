"""The SQL console: statements, their answers as a table, a chart or a file, and ready-made questions."""

from __future__ import annotations

import csv
import io
import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, JSONResponse, Response

from opilio.crawl import Collection
from opilio.errors import InputError, QueryError
from opilio.store.questions import QUESTIONS, ReadyQuestion, question
from opilio.web.access import Reading, Render, Writing, costly, signed_in

router = APIRouter()
SHOWN_ROWS = 1000
FILE_ROWS = 100_000
MAX_CELL_CHARS = 400


class Statement(BaseModel):
    """One statement of SQL that changes rows."""

    sql: str = Field(description="INSERT, UPDATE, DELETE or MERGE INTO; queries are allowed, too.")


@router.get("/c/{name}/sql", include_in_schema=False, dependencies=[costly("sql")])
def console(
    request: Request,
    name: str,
    collection: Reading,
    pages: Render,
    sql: str = "",
    asked: Annotated[str, Query(alias="question")] = "",
) -> HTMLResponse:
    """The console, with the answer to `sql` or to a ready-made question. It only reads; changes go through the API.

    Everyone may ask a ready-made question. A statement of one's own can cost any amount of time and memory, so it needs
    the token.
    """
    chosen = _chosen(asked) if asked else None
    if sql.strip() and not chosen:
        signed_in(request)
    statement = chosen.sql if chosen else sql
    answered, error, hint = None, "", ""
    if statement.strip() and not (chosen and chosen.writes):
        try:
            answered = _shown(collection, statement)
        except QueryError as refused:
            error, hint = refused.message, refused.hint
    return pages.render(
        request, "sql.html", 400 if error else 200, name=name, place="sql", statement=statement, chosen=chosen,
        answered=answered, error=error, hint=hint, questions=QUESTIONS, tables=collection.tables(), most=SHOWN_ROWS,
    )  # fmt: skip


def _chosen(name: str) -> ReadyQuestion:
    found = question(name)
    if found is None:
        raise InputError(f"no question {name!r}", f"Known questions: {', '.join(one.name for one in QUESTIONS)}.")
    return found


def _shown(collection: Collection, sql: str) -> dict[str, Any]:
    """An answer with its cells as texts, alongside their values."""
    report = collection.query(sql, SHOWN_ROWS)
    report["texts"] = [[_text(value) for value in row] for row in report["rows"]]
    is_drawn = any(kind == "number" for kind in report["kinds"])  # else their texts are enough
    report["rows"] = [
        [text if isinstance(value, str) else value for value, text in zip(*pair, strict=True)]
        for pair in zip(report["rows"], report["texts"], strict=True)
        if is_drawn
    ]
    return report


def _text(value: Any) -> str:
    """A value as a cell shows it."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_CELL_CHARS else f"{text[:MAX_CELL_CHARS]} …"


@router.get("/api/c/{name}/sql", tags=["sql"], dependencies=[Depends(signed_in), costly("sql")])
def ask(
    collection: Reading,
    sql: str,
    form: Annotated[Literal["json", "csv"], Query(alias="format")] = "json",
    max_rows: Annotated[int, Query(ge=1, le=FILE_ROWS)] = FILE_ROWS,
) -> Response:
    """The answer to a query: JSON with columns and rows, or a CSV file. It cannot change anything, but needs the
    token: a query can cost any amount of time."""
    report = collection.query(sql, max_rows)
    if form == "json":
        return JSONResponse(report)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(report["columns"])
    writer.writerows(
        [json.dumps(one) if isinstance(one, (list, dict)) else one for one in row] for row in report["rows"]
    )
    headers = {"Content-Disposition": 'attachment; filename="answer.csv"'}
    return Response(text.getvalue(), media_type="text/csv; charset=utf-8", headers=headers)


@router.post("/api/c/{name}/sql", tags=["sql"])
def change(collection: Writing, statement: Statement) -> dict[str, Any]:
    """Run a statement that may change rows; a running crawl notices changes of its topics."""
    result = collection.sql(statement.sql, write=True)
    if result.columns == ("Count",) and len(result.rows) == 1:
        count = int(result.rows[0][0])
        return {"said": f"{count:,} row{'' if count == 1 else 's'} changed", "rows": count}
    return {"said": f"done: {len(result.rows):,} rows came back", "rows": len(result.rows)}


@router.get("/api/c/{name}/sql/questions", tags=["sql"])
def questions(collection: Reading) -> list[dict[str, Any]]:
    """The ready-made questions, with their statements."""
    return [
        {"name": one.name, "title": one.title, "shows": one.shows, "sql": one.sql, "writes": one.writes}
        for one in QUESTIONS
    ]
