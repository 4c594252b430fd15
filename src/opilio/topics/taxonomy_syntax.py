"""What a YAML or TOML file says, as plain items: text, lists and tables, each with the line it stands on.

Nothing is constructed from what a file says, and a word is always text: a topic called `No` or `1984` stays one.

Taxonomies in TOML: read by the standard library, written by hand.
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
"""Two levels for each topic above another, and what stands in the last one."""


@dataclass(frozen=True, slots=True)
class Item:
    """A value of a file."""

    value: str | list[Item] | dict[str, Item]
    line: int = 0
    """Where it, or its key, stands; 0 when the format does not tell."""


def read_text(path: Path, max_bytes: int, hint: str) -> str:
    """The text of a file in UTF-8, not larger than that."""
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", hint) from None
    if len(data) > max_bytes:
        raise InputError(f"{path}: larger than {max_bytes // 2**20} MiB", "Split it.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8 text", "Save the file as UTF-8.") from None


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
