"""What is wrong with a setting: unknown names, wrong types, values that make no sense."""

from __future__ import annotations

import dataclasses
import difflib
import math
import re
import types
import typing
from typing import Any

from opilio.errors import SettingsError
from opilio.settings.sections import Settings


def names(cls: type) -> list[str]:
    """The keys of a section, or the sections."""
    return [f.name for f in dataclasses.fields(cls)]


def known_name(name: str, known: list[str], where: str, section: str) -> str:
    """`name`, if it is one of those known."""
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4) or [n for n in known if name and name in n][:1]
    place = f"{where}, {section}" if section else where
    what = "key" if section else "section"
    hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
    raise SettingsError(f"{place}: unknown {what} {name!r}. {hint}", "docs/reference/settings.md lists all settings.")


def build(cls: type, table: dict[str, Any], where: str, section: str) -> Any:
    """A section, or all of them, from tables."""
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for name, value in table.items():
        known_name(name, names(cls), where, section)
        if dataclasses.is_dataclass(hints[name]):
            if not isinstance(value, dict):
                raise SettingsError(f"{where}: {name!r} is a section; write [{name}] and its keys below it")
            values[name] = build(typing.cast(type, hints[name]), value, where, f"[{name}]")
        else:
            values[name] = check(value, hints[name], f"{where}, {section} {name}")
    built = cls(**values)
    if isinstance(built, Settings):
        validate(built, where)
    return built


def check(value: Any, hint: Any, place: str) -> Any:
    """`value` as the type `hint` wants it, or a SettingsError that names the place."""
    origin = typing.get_origin(hint)
    if origin is tuple and isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        return tuple(value)
    if origin is dict and isinstance(value, dict):
        wanted = typing.get_args(hint)[1]
        return {str(k): check(v, wanted, f"{place}.{k}") for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    plain = hint if isinstance(hint, type) and not isinstance(hint, types.GenericAlias) else None
    if plain is not None and isinstance(value, plain) and not (plain is int and isinstance(value, bool)):
        return value
    name = {"tuple": "a list of strings", "dict": "a table"}.get(
        getattr(origin, "__name__", ""), getattr(hint, "__name__", str(hint))
    )
    raise SettingsError(f"{place}: {value!r} is not {name}", "docs/reference/settings.md shows the form of each value.")


_CHOICES = {
    ("duplicates", "ip_path"): ("learn", "trust", "off"),
    ("duplicates", "ip_size"): ("verify", "trust", "off"),
    ("classify", "meta"): ("unanimous", "majority", "weighted", "best"),
    ("classify", "focus"): ("soft", "hard"),
    ("learn", "guard"): ("held-out", "xi-alpha", "off"),
}
_AT_LEAST_ONE = (
    ("fetch", "per_host"), ("fetch", "per_domain"), ("fetch", "in_flight"), ("fetch", "max_tries"),
    ("fetch", "host_tries"), ("frontier", "n"), ("frontier", "hot_urls"), ("store", "batch_pages"),
)  # fmt: skip


def validate(settings: Settings, where: str) -> None:
    """Refuse values of the right type that make no sense."""
    for (section, key), choices in _CHOICES.items():
        value = getattr(getattr(settings, section), key)
        if value not in choices:
            raise SettingsError(f"{where}, [{section}] {key}: {value!r} is not one of {', '.join(choices)}")
    for section, key in _AT_LEAST_ONE:
        if getattr(getattr(settings, section), key) < 1:
            raise SettingsError(f"{where}, [{section}] {key}: must be at least 1")
    proxy = settings.fetch.proxy
    if proxy and not re.fullmatch(r"(https?|socks[45][ah]?)://[^\s/]+/?", proxy):
        raise SettingsError(
            f"{where}, [fetch] proxy: {proxy!r} is not the URL of a proxy", "For example: http://127.0.0.1:3128"
        )
    for pattern, target in settings.fetch.connect_to.items():
        if not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[\d.]+):\d{1,5}", target):
            raise SettingsError(
                f"{where}, [fetch] connect_to: {pattern!r} leads to {target!r}, which is not an address and a port",
                'For example: connect_to = { "*.test" = "127.0.0.1:8800" }',
            )
    for section_field in dataclasses.fields(settings):
        section_value = getattr(settings, section_field.name)
        for f in dataclasses.fields(section_value):
            value = getattr(section_value, f.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise SettingsError(f"{where}, [{section_field.name}] {f.name}: {value} is not a number to go by")
            if isinstance(value, (int, float)) and value < 0 and f.name != "workers":
                raise SettingsError(f"{where}, [{section_field.name}] {f.name}: must not be negative")
