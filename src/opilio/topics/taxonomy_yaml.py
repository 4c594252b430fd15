"""Taxonomies in YAML.

YAML is read event by event. Tags and aliases are rejected, so a file can neither construct objects nor expand into a
bomb of repeated nodes. Only commands that read or write a taxonomy load this module and the YAML library.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from opilio.errors import InputError
from opilio.topics.taxonomy_syntax import MAX_NESTING, Item

# The C versions are ten times as fast.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_WIDTH = 110
_ODD_BREAKS = frozenset("\r\x85\u2028\u2029")
"""Line breaks that must be escaped to be read back unchanged."""


def parse_yaml(text: str, path: Path) -> Item:
    """The contents of a YAML file."""
    try:
        return _Events(yaml.parse(text, Loader=_LOADER), path).document()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark else ""
        what = getattr(error, "problem", "") or getattr(error, "reason", "") or "cannot be read"
        raise InputError(f"{path}{place}: not valid YAML: {what}", "Correct that line.") from None


class _Events:
    """Builds items from the events of a YAML parser."""

    def __init__(self, events: Iterator[Any], path: Path) -> None:
        self._events = events
        self._path = path

    def document(self) -> Item:
        """The one document of the file."""
        next(self._events)  # start of the stream
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return Item("", 1)
        item = self._item(next(self._events), 0)
        next(self._events)  # end of the document
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            raise self._error(after, "a second document begins", "Remove the line ---.")
        return item

    def _item(self, event: Any, depth: int) -> Item:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise self._error(event, f"an alias (*{event.anchor})", "Write out the value it refers to.")
        if event.tag is not None:
            raise self._error(event, f"a tag ({event.tag})", "Remove it, or put the text in quotes.")
        if depth > MAX_NESTING:
            raise self._error(event, f"nested more than {MAX_NESTING} levels deep", "Use fewer levels of topics.")
        if isinstance(event, yaml.ScalarEvent):
            nothing = event.style is None and event.value in ("", "~")
            return Item("" if nothing else event.value, line)
        if isinstance(event, yaml.SequenceStartEvent):
            return Item(self._list(depth + 1), line)
        return Item(self._table(depth + 1), line)

    def _list(self, depth: int) -> list[Item]:
        items = []
        while not isinstance(event := next(self._events), yaml.CollectionEndEvent):
            items.append(self._item(event, depth))
        return items

    def _table(self, depth: int) -> dict[str, Item]:
        table: dict[str, Item] = {}
        while not isinstance(event := next(self._events), yaml.CollectionEndEvent):
            key = self._item(event, depth)
            if not isinstance(key.value, str):
                raise self._error(event, "a list or table as a key", "Put the name in quotes.")
            if key.value in table:
                before = table[key.value].line
                what = f"{key.value!r} is given twice (first in line {before})"
                raise self._error(event, what, "Join the two, or rename one.")
            table[key.value] = Item(self._item(next(self._events), depth).value, key.line)
        return table

    def _error(self, event: Any, what: str, hint: str) -> InputError:
        return InputError(f"{self._path}, line {event.start_mark.line + 1}: {what}", hint)


def dump_yaml(table: dict[str, Any]) -> str:
    """The YAML of a topic and everything below it."""
    return str(yaml.dump(table, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_WIDTH))


class _Dumper(_DUMPER):  # type: ignore[misc]  # its base is chosen at run time
    """Writes texts of several lines as blocks, and no aliases for equal values."""

    def ignore_aliases(self, data: Any) -> bool:
        """Always."""
        return True


def _represent_text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else None
    if not _ODD_BREAKS.isdisjoint(value):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _represent_text)
