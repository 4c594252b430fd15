"""The answer to a statement as a table of other libraries, and of a notebook.

pandas and polars are not dependencies: they are imported when a table of theirs is asked for.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pyarrow as pa

from opilio.errors import not_installed

MAX_SHOWN_ROWS = 50
"""Rows that a notebook shows."""
MAX_CELL_CHARS = 200
_STYLE = "text-align:left;vertical-align:top;white-space:pre-wrap;overflow-wrap:anywhere"

Rows = Sequence[tuple[Any, ...]]


def to_arrow(columns: Sequence[str], rows: Rows) -> pa.Table:
    """A table of Arrow. Columns of the same name get a number; values of several types in one column become text."""
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    return pa.Table.from_arrays([_array(column) for column in values], names=_distinct(columns))


def to_pandas(columns: Sequence[str], rows: Rows) -> Any:
    """A DataFrame of pandas."""
    if find_spec("pandas") is None:
        raise not_installed("pandas", "to_pandas")
    return to_arrow(columns, rows).to_pandas()


def to_polars(columns: Sequence[str], rows: Rows) -> Any:
    """A DataFrame of polars."""
    if find_spec("polars") is None:
        raise not_installed("polars", "to_polars")
    return import_module("polars").from_arrow(to_arrow(columns, rows))


def to_html(columns: Sequence[str], rows: Rows, *, truncated: bool) -> str:
    """A table for a notebook; everything in it is text."""
    head = "".join(f'<th style="{_STYLE}">{escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:MAX_SHOWN_ROWS])
    count = f"{len(rows):,}{' or more' if truncated else ''} rows"
    shown = f"{count}, the first {MAX_SHOWN_ROWS} are shown" if len(rows) > MAX_SHOWN_ROWS else count
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{shown}</p>"


def _cell(value: Any) -> str:
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    cut = text if len(text) <= MAX_CELL_CHARS else text[:MAX_CELL_CHARS] + " …"
    return f'<td style="{_STYLE}">{escape(cut)}</td>'


def _array(values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)


def _distinct(columns: Sequence[str]) -> list[str]:
    """Names without repeats, which data frames do not take."""
    seen: Counter[str] = Counter()
    names: list[str] = []
    for column in columns:
        name = column
        while name in names:
            seen[column] += 1
            name = f"{column}_{seen[column]}"
        names.append(name)
    return names
