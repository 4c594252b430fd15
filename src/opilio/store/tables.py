"""The tables of a collection with what schema.sql says of them: for a user who writes SQL."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

from opilio.store.database import Store

_COLUMNS = """
    SELECT c.table_name, t.table_type = 'VIEW', c.column_name, c.data_type
    FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
    ORDER BY t.table_type, c.table_name, c.ordinal_position
"""
_MADE = re.compile(r"^CREATE (?:TABLE|VIEW) (\w+)")
_COLUMN = re.compile(r"^\s{4}(\w+)\s+[A-Z].*?--\s*(.*)$")
_LONG_TYPE_CHARS = 40
_FIRST = ("crawl", "pages", "links", "hosts", "topics")
"""What most questions are about."""


def list_tables(store: Store) -> list[dict[str, Any]]:
    """Tables and views, the most useful first: name, what a row is, and the columns with their types and meanings."""
    says, meanings = explanations()
    found: dict[str, dict[str, Any]] = {}
    for table, is_view, column, kind in store.query(_COLUMNS, max_rows=10_000).rows:
        told = found.setdefault(table, {"name": table, "view": is_view, "says": says.get(table, ""), "columns": []})
        shown = kind if len(kind) <= _LONG_TYPE_CHARS else kind.partition("(")[0]
        told["columns"].append({"name": column, "type": shown, "says": meanings.get((table, column), "")})
    order = {name: place for place, name in enumerate(_FIRST)}
    return sorted(found.values(), key=lambda told: (order.get(told["name"], len(order)), told["view"], told["name"]))


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
