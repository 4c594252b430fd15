"""Answers to a user's SQL in plain values: bounded in rows, size and time, and the same wherever the query ran."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any

from opilio.store.database import Store
from opilio.store.reading import MAX_CHARS, MAX_ROWS

TIMEOUT_S = 60.0


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
