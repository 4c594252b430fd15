"""Times and sizes as people write them."""

from __future__ import annotations

import re

import click

_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_BYTES = {
    "": 1,
    "b": 1,
    "k": 10**3,
    "kb": 10**3,
    "m": 10**6,
    "mb": 10**6,
    "g": 10**9,
    "gb": 10**9,
    "t": 10**12,
    "tb": 10**12,
}


class _Quantity(click.ParamType[float]):
    """A number with a unit behind it."""

    def __init__(self, name: str, units: dict[str, int], example: str) -> None:
        self.name = name
        self._units = units
        self._example = example

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number in the base unit."""
        if isinstance(value, (int, float)):
            return float(value)
        match = re.fullmatch(r"\s*([\d.]+)\s*([a-z]*)\s*", str(value).lower())
        if not match or match[2] not in self._units or match[1].count(".") > 1 or match[1] == ".":
            self.fail(f"{value!r} is not a {self.name}: write it like {self._example}", param, ctx)
        return float(match[1]) * self._units[match[2]]


DURATION = _Quantity("duration", _SECONDS, "90s, 15m, 8h or 2d")
SIZE = _Quantity("size", _BYTES, "500MB or 2GB")


def show_bytes(count: float) -> str:
    """A size with three significant digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def show_duration(seconds: float) -> str:
    """A time in its two largest units."""
    seconds = int(seconds)
    for size, unit, below, below_unit in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // below} {below_unit}"
    return f"{seconds} s"
