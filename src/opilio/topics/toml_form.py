"""Taxonomies in TOML: read by the standard library, written by hand."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from opilio.errors import InputError
from opilio.topics.items import MAX_NESTING, Item

_WIDTH = 110


def parse_toml(text: str, path: Path) -> Item:
    """The contents of a TOML file; TOML does not tell lines."""
    try:
        table = tomllib.loads(text)
    except ValueError as error:  # of the format, or a number of thousands of digits
        raise InputError(f"{path}: not valid TOML: {error}", "Correct the line it names.") from None
    except RecursionError:
        raise InputError(f"{path}: too many levels in each other", "Use fewer levels of topics.") from None
    return _toml_item(table, path, 0)


def _toml_item(value: Any, path: Path, depth: int) -> Item:
    if depth > MAX_NESTING:
        raise InputError(f"{path}: more than {MAX_NESTING} levels in each other", "Use fewer levels of topics.")
    if isinstance(value, dict):
        return Item({key: _toml_item(inner, path, depth + 1) for key, inner in value.items()})
    if isinstance(value, list):
        return Item([_toml_item(inner, path, depth + 1) for inner in value])
    return Item(str(value).lower() if isinstance(value, bool) else str(value))


def dump_toml(table: dict[str, Any]) -> str:
    """A topic and all below it; each topic has a header of its own."""
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: dict[str, Any], names: tuple[str, ...]) -> Iterator[str]:
    if names:
        yield f"\n[{'.'.join(f'topics.{_value(name)}' for name in names)}]"
    for key, value in table.items():
        if key != "topics":
            yield f"{key} = {_value(value)}"
    for name, below in table.get("topics", {}).items():
        yield from _lines(below, (*names, name))


def _value(value: Any) -> str:
    if isinstance(value, list):
        inner = ", ".join(map(_value, value))
        long = len(inner) > _WIDTH - 20
        return "[\n" + "".join(f"  {_value(entry)},\n" for entry in value) + "]" if long else f"[{inner}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_value(inner)}" for key, inner in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
