"""The syntax of taxonomy files: plain items (text, lists and tables, each with its line), and TOML to and from them.

No objects are constructed, and a scalar is always text: a topic called `No` or `1984` keeps its name. YAML is in
`taxonomy_yaml.py`, so that its library is loaded only when it is needed.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opilio.errors import InputError

MAX_NESTING = 80
"""Two levels for each level of topics, and what the innermost topic contains."""
_WIDTH = 110


@dataclass(frozen=True, slots=True)
class Item:
    """A value in a file."""

    value: str | list[Item] | dict[str, Item]
    line: int = 0
    """The line of the value or of its key; 0 if unknown."""


def read_text(path: Path, max_bytes: int, hint: str) -> str:
    """The text of a UTF-8 file of at most `max_bytes`."""
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", hint) from None
    if len(data) > max_bytes:
        raise InputError(f"{path}: larger than {max_bytes // 2**20} MiB", "Split the file.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text", "Save the file as UTF-8.") from None


def parse_toml(text: str, path: Path) -> Item:
    """The contents of a TOML file; the parser does not report lines."""
    try:
        table = tomllib.loads(text)
    except ValueError as error:  # invalid syntax, or a number with thousands of digits
        raise InputError(f"{path}: not valid TOML: {error}", "Correct the line that the message names.") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply", "Use fewer levels of topics.") from None
    return _toml_item(table, path, 0)


def _toml_item(value: Any, path: Path, depth: int) -> Item:
    if depth > MAX_NESTING:
        raise InputError(f"{path}: nested more than {MAX_NESTING} levels deep", "Use fewer levels of topics.")
    if isinstance(value, dict):
        return Item({key: _toml_item(inner, path, depth + 1) for key, inner in value.items()})
    if isinstance(value, list):
        return Item([_toml_item(inner, path, depth + 1) for inner in value])
    return Item(str(value).lower() if isinstance(value, bool) else str(value))


def dump_toml(table: dict[str, Any]) -> str:
    """The TOML of a topic and everything below it; each topic has its own header."""
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
