"""What a user's SQL may do: read everything, change rows when allowed, and reach nothing outside the tables.

Four layers, each enough for most attacks: the statement's type; its syntax tree, in which only harmless table functions
may stand; a read-only transaction; and a database with external access off and its configuration locked (`connect`).

A statement could also ask for more memory than there is. DuckDB's limit counts what its operators hold, but not the
values of an expression while it is computed, and an expression cannot be interrupted. So functions that make large
values out of nothing are bounded: by macros of the same names (`BOUNDED_FUNCTIONS`), and by a look at the forms of
`printf` and `format`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from opilio.errors import QueryError
from opilio.store import frames

if TYPE_CHECKING:
    import pyarrow as pa

_CHANGES = {"INSERT", "UPDATE", "DELETE", "MERGE_INTO"}
_TABLE_FUNCTIONS = {
    "duckdb_columns", "duckdb_functions", "duckdb_keywords", "duckdb_tables", "duckdb_types", "duckdb_views",
    "generate_series", "json_each", "json_tree", "pragma_database_size", "pragma_storage_info", "pragma_table_info",
    "pragma_version", "range", "repeat", "repeat_row", "summary", "unnest",
}  # fmt: skip
MAX_MADE = 10_000
"""How long a text or a list may be that such a function makes: a statement computes 2,048 of them at a time."""
_TOO_LONG = f"error('a text or list of more than {MAX_MADE:,} is too long to be made by a statement')"


def _bounded(name: str, *forms: tuple[str, str, str]) -> str:
    """A macro in place of a function: parameters, the size of the result, and the parameter that is checked. The error
    stands in an argument: DuckDB computes both sides of a CASE of constants, but no call whose argument fails."""
    bodies = ", ".join(
        f"({parameters}) AS system.main.{name}("
        + parameters.replace(checked, f"CASE WHEN {size} > {MAX_MADE} THEN {_TOO_LONG} ELSE {checked} END")
        + ")"
        for parameters, size, checked in forms
    )
    return f"CREATE OR REPLACE TEMP MACRO {name} {bodies};"


_RESIZED = ("li, n", "n", "n"), ("li, n, v", "n", "n")
_SERIES = ("b", "abs(b)", "b"), ("a, b", "abs(b - a)", "b"), ("a, b, s", "abs((b - a) / s)", "b")
_MACROS = {
    "repeat": _bounded("repeat", ("t, n", "length(t) * n", "n")),
    "lpad": _bounded("lpad", ("t, n, p", "n", "n")),
    "rpad": _bounded("rpad", ("t, n, p", "n", "n")),
    "bitstring": _bounded("bitstring", ("t, n", "n", "n")),
    "list_resize": _bounded("list_resize", *_RESIZED),
    "array_resize": _bounded("array_resize", *_RESIZED),
    "range": _bounded("range", *_SERIES),
    "generate_series": _bounded("generate_series", *_SERIES),
}
BOUNDED_FUNCTIONS = "".join(_MACROS.values())
_SCHEMAS = {"main", "pg_catalog", "system"}
_FORMS = {"printf", "format"}
_WIDE_FORM = re.compile(r"\d{5}|\*|\{[^}]*\{")
_REFUSED_FUNCTIONS = {"nextval", "setval", "sleep_ms", "write_log"}
MAX_ALLOWED, MAX_ALLOWED_CHARS = 512, 10_000
_ALLOWED: dict[tuple[str, bool], bool] = {}
_EXPLAIN = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*explain\b(?:\s+analyze\b)?(?:\s*\([^)]*\))?", re.I | re.S)
_READ_HINT = "Allowed are SELECT, WITH, FROM, VALUES, DESCRIBE, SHOW, SUMMARIZE and EXPLAIN of the collection's tables."
_WRITE_HINT = "Allowed are INSERT, UPDATE, DELETE and MERGE INTO the collection's tables, and every query."


@dataclass(frozen=True)
class Result:
    """The answer to a statement."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool = False
    """There were more rows than requested."""

    def to_arrow(self) -> pa.Table:
        """A table of Arrow."""
        return frames.to_arrow(self.columns, self.rows)

    def to_pandas(self) -> Any:
        """A DataFrame of pandas, if that is installed."""
        return frames.to_pandas(self.columns, self.rows)

    def to_polars(self) -> Any:
        """A DataFrame of polars, if that is installed."""
        return frames.to_polars(self.columns, self.rows)

    def _repr_html_(self) -> str:
        return frames.to_html(self.columns, self.rows, truncated=self.truncated)


def check(cursor: duckdb.DuckDBPyConnection, sql: str, *, write: bool = False) -> bool:
    """Refuse a statement that is not allowed; whether the allowed one is a plain change of rows.

    What a statement may do depends on its text alone, and most are repeated with other parameters; checking one takes
    milliseconds. So those that were allowed are remembered.
    """
    is_change = _ALLOWED.get((sql, write))
    if is_change is None:
        is_change = _look_at(cursor, sql, write=write)
        if len(_ALLOWED) >= MAX_ALLOWED:
            _ALLOWED.clear()
        if len(sql) <= MAX_ALLOWED_CHARS:
            _ALLOWED[sql, write] = is_change
    return is_change


def _look_at(cursor: duckdb.DuckDBPyConnection, sql: str, *, write: bool) -> bool:
    statements = cursor.extract_statements(sql)
    if len(statements) != 1:
        raise QueryError(f"{len(statements)} statements given, one expected", "Ask one statement at a time.")
    kind = statements[0].type.name
    if kind in _CHANGES:
        if not write:
            raise QueryError(f"{kind.replace('_', ' ')} would change the collection", _READ_HINT)
        return True
    if kind not in ("SELECT", "EXPLAIN"):
        raise QueryError(f"a statement of the kind {kind} is not allowed", _WRITE_HINT if write else _READ_HINT)
    plain = _EXPLAIN.sub("", sql, count=1) if kind == "EXPLAIN" else sql
    for node in nodes(syntax_tree(cursor, plain)):
        _check_node(node)
    return False


def _check_node(node: dict[str, Any]) -> None:
    kind = str(node.get("type", ""))
    if kind in ("INSERT_QUERY_NODE", "UPDATE_QUERY_NODE", "DELETE_QUERY_NODE", "MERGE_QUERY_NODE"):
        raise QueryError("a query that changes rows on its way is not allowed", _READ_HINT)
    name = str(node.get("function_name", "")).lower()
    if name in _REFUSED_FUNCTIONS:
        raise QueryError(f"the function {name} is not allowed", _READ_HINT)
    if name in _MACROS and str(node.get("schema", "")).lower() in _SCHEMAS:
        raise QueryError(f"the function {name} must be called by its plain name", _READ_HINT)
    if name in _FORMS:
        _check_form(name, node)
    if kind == "TABLE_FUNCTION":
        called = str(node["function"].get("function_name", "")).lower()
        if called not in _TABLE_FUNCTIONS:
            raise QueryError(f"the table function {called} is not allowed", _READ_HINT)


def _check_form(name: str, node: dict[str, Any]) -> None:
    """Refuse a form that asks for very wide fields, or that is not known before the statement runs."""
    first = (node.get("arguments") or [{}])[0].get("expression", {}).get("literal", {})
    text = str(first.get("text", "")) if first.get("kind") == "STRING" else None
    if text is None or _WIDE_FORM.search(text):
        raise QueryError(f"{name} needs a form in quotes, with fields of at most 9,999 characters", _READ_HINT)


def syntax_tree(cursor: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    """The statements of `sql` as DuckDB's parser sees them."""
    [row] = cursor.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    tree = json.loads(row[0]) if row else {}
    if tree.get("error", True):
        raise QueryError(str(tree.get("error_message", "not a statement that can be checked")), _READ_HINT)
    return list(tree["statements"])


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Every object of a syntax tree; without recursion, for a user's SQL can be nested at will."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def query_error(error: BaseException) -> QueryError:
    """DuckDB's refusal as one of ours: its first paragraph, with its own suggestion as the hint."""
    paragraphs = [" ".join(p.split()) for p in str(error).split("\n\n")]
    message, *rest = re.split(r"(?=Did you mean|Candidate bindings)", paragraphs[0], maxsplit=1)
    return QueryError(message.strip(), " ".join(rest).strip() or "docs/sql.md describes the tables.")
