"""Settings from a file, a table or a command line, and back to TOML."""

from __future__ import annotations

import dataclasses
import tomllib
import typing
from pathlib import Path
from typing import Any

from opilio.errors import SettingsError
from opilio.settings.checking import build, check, known_name, names, validate
from opilio.settings.sections import Settings

FILE_NAME = "crawl.toml"


def load(path: Path) -> Settings:
    """Read a settings file."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such settings file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}", "Correct the line it names.") from None
    return from_table(table, str(path))


def from_table(table: dict[str, Any], where: str = FILE_NAME) -> Settings:
    """Settings from nested tables as TOML gives them; `where` names the source in errors."""
    return typing.cast(Settings, build(Settings, table, where, ""))


def override(settings: Settings, changes: dict[str, Any], where: str = "command line") -> Settings:
    """`settings` with dotted keys changed: {"limits.max_pages": 100}."""
    for dotted, value in changes.items():
        section_name, _, key = dotted.partition(".")
        section = getattr(settings, known_name(section_name, names(Settings), where, ""))
        known = known_name(key, names(type(section)), where, f"[{section_name}]")
        checked = check(value, typing.get_type_hints(type(section))[known], f"{where}, {dotted}")
        settings = dataclasses.replace(settings, **{section_name: dataclasses.replace(section, **{known: checked})})
    validate(settings, where)
    return settings


def parse_assignment(text: str) -> tuple[str, Any]:
    """`section.key=value` as written on a command line; the value is read as TOML, else as a string."""
    dotted, equals, value = text.partition("=")
    if not equals or "." not in dotted:
        raise SettingsError(f"--set {text}: not of the form section.key=value", "For example: --set fetch.per_host=1")
    try:
        return dotted.strip(), tomllib.loads(f"v = {value}")["v"]
    except tomllib.TOMLDecodeError:
        return dotted.strip(), value.strip()


def to_toml(settings: Settings, *, everything: bool = False) -> str:
    """The settings that differ from the defaults, or all of them, as TOML."""
    default = Settings()
    lines: list[str] = []
    for section in dataclasses.fields(Settings):
        mine, theirs = getattr(settings, section.name), getattr(default, section.name)
        changed = [
            f for f in dataclasses.fields(mine) if everything or getattr(mine, f.name) != getattr(theirs, f.name)
        ]
        if changed:
            lines += ["", f"[{section.name}]", *(f"{f.name} = {_toml(getattr(mine, f.name))}" for f in changed)]
    return "\n".join(lines[1:]) + "\n" if lines else ""


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in escaped) + '"'
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(str(k))} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return repr(value)
