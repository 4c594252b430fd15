"""For a user who writes SQL: answers in plain values, and the tables with what `schema.sql` says of them.

Answers are bounded in rows, size and time, and are the same wherever the query ran.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from opilio.store.database import Store
from opilio.store.reader import MAX_CHARS, MAX_ROWS

TIMEOUT_S = 60.0
_COLUMNS = """
    SELECT c.table_name, t.table_type = 'VIEW', c.column_name, c.data_type
    FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
    ORDER BY t.table_type, c.table_name, c.ordinal_position
"""
_MADE = re.compile(r"^CREATE (?:TABLE|VIEW) (\w+)")
_COLUMN = re.compile(r"^\s{4}(\w+)\s+[A-Z].*?--\s*(.*)$")
_LONG_TYPE_CHARS = 40
_FIRST = ("crawl", "pages", "links", "hosts", "topics")
"""The tables that most questions are about."""


def answer(store: Store, sql: str, max_rows: int = 1000) -> dict[str, Any]:
    """Columns with their kinds (number, time or text), rows, and whether there were more of them."""
    most = max(1, min(max_rows, MAX_ROWS))
    result = store.query(sql, timeout_s=TIMEOUT_S, max_rows=most, max_chars=MAX_CHARS)
    rows = [[plain(value) for value in row] for row in result.rows]
    kinds = [_kind([row[column] for row in result.rows]) for column in range(len(result.columns))]
    return {"columns": list(result.columns), "kinds": kinds, "rows": rows, "truncated": result.truncated}


def plain(value: Any) -> Any:
    """A value of the database as JSON has it. JSON knows no infinity: such a number becomes nothing."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, datetime.datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return str(value)


def _kind(values: Sequence[Any]) -> str:
    """What the values of a column are: text as soon as one is neither a number nor a time."""
    given = [value for value in values if value is not None]
    if given and all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in given):
        return "number"
    if given and all(isinstance(value, (datetime.datetime, datetime.date)) for value in given):
        return "time"
    return "text"


def list_tables(store: Store) -> list[dict[str, Any]]:
    """Tables and views, the most useful first: name, what a row is, and the columns with their types and meanings."""
    says, meanings = explanations()
    found: dict[str, dict[str, Any]] = {}
    for table, is_view, column, kind in store.query(_COLUMNS, max_rows=10_000).rows:
        listed = found.setdefault(table, {"name": table, "view": is_view, "says": says.get(table, ""), "columns": []})
        shown = kind if len(kind) <= _LONG_TYPE_CHARS else kind.partition("(")[0]
        listed["columns"].append({"name": column, "type": shown, "says": meanings.get((table, column), "")})
    order = {name: place for place, name in enumerate(_FIRST)}
    return sorted(found.values(), key=lambda one: (order.get(one["name"], len(order)), one["view"], one["name"]))


def explanations() -> tuple[dict[str, str], dict[tuple[str, str], str]]:
    """The comments of schema.sql: before each table or view, and behind its columns."""
    says: dict[str, str] = {}
    meanings: dict[tuple[str, str], str] = {}
    above: list[str] = []
    table = ""
    for line in resources.files("opilio.store").joinpath("schema.sql").read_text(encoding="utf-8").splitlines():
        made, column = _MADE.match(line), _COLUMN.match(line)
        if line.startswith("--"):
            above.append(line.lstrip("- "))
        elif made:
            table = made[1]
            says[table] = " ".join(above)
            above = []
        elif not line.strip():
            above = []
        elif column:
            meanings[table, column[1]] = column[2]
    return says, meanings
