"""Plug-ins by name. A `Registry` maps names to factories; built-in parts and third-party ones register the same way.

A third-party package registers its own with an entry point in the group `opilio.<kind>`:

    [project.entry-points."opilio.strategies"]
    my-order = "my_package:MyOrder"
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Container, Iterator
from functools import cache
from typing import Any, Generic, TypeVar

from opilio.errors import SettingsError

T = TypeVar("T")


class Registry(Generic[T]):
    """Named factories of one kind, for example every crawl strategy."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._factories: dict[str, T] = {}
        self._loaded_entry_points = False

    def register(self, name: str) -> Callable[[T], T]:
        """Register the decorated factory under `name`, which must not be taken."""

        def add(factory: T) -> T:
            if name in self._factories:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._factories[name] = factory
            return factory

        return add

    def get(self, name: str) -> T:
        """The factory called `name`, or a SettingsError that suggests the nearest name."""
        if name not in self._factories:
            self._load_entry_points()
        if name in self._factories:
            return self._factories[name]
        near = difflib.get_close_matches(name, self._factories, n=1)
        did_you_mean = f"Did you mean {near[0]!r}? " if near else ""
        kind = self.kind.replace("_", " ")
        raise SettingsError(f"unknown {kind} {name!r}", f"{did_you_mean}Known: {', '.join(sorted(self))}.")

    def in_order(self, names: Container[str]) -> list[str]:
        """Those of some names that are known by now, as they were registered; plug-ins are not searched for."""
        return [name for name in self._factories if name in names]

    def __iter__(self) -> Iterator[str]:
        self._load_entry_points()
        return iter(self._factories)

    def _load_entry_points(self) -> None:
        if self._loaded_entry_points:
            return
        self._loaded_entry_points = True
        for point in _entry_points().select(group=f"opilio.{self.kind}"):
            if point.name not in self._factories:
                self._factories[point.name] = point.load()


@cache
def _entry_points() -> Any:
    """The entry points of all installed packages: to search for those of one group takes as long.

    Their type depends on the version of Python.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415  (slow; built-in names need it not)

    return entry_points()
