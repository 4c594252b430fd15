"""Read settings from a file, a table or a command line, check them, and write them back as TOML.

All ways in end in `from_table` or `override`, which refuse unknown names, wrong types and impossible values with an
error that names the place and, where possible, what was meant. Names that a setting had before (`RENAMED`) are accepted
with a notice; only the names of today are ever written.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import fcntl
import math
import os
import re
import tomllib
import types
import typing
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from opilio.errors import CollectionError, SettingsError
from opilio.settings.sections import (
    RENAMED,
    RENDER_MODES,
    RESERVATIONS,
    THIRD_PARTY,
    ClassifySettings,
    Settings,
)
from opilio.settings.systems import SYSTEMS

FILE_NAME = "crawl.toml"
_CHOICES = {
    ("limits", "when_dry"): ("go-on", "pause", "stop"),
    ("duplicates", "ip_path"): ("learn", "trust", "off"),
    ("duplicates", "ip_size"): ("verify", "trust", "off"),
    ("frontier", "distill_method"): ("weighted", "hits", "focus"),
    ("classify", "meta"): ("auto", "mean", "unanimous", "majority", "weighted", "best", "free"),
    ("classify", "prefer"): ("precision", "balance", "recall"),
    ("classify", "focus"): ("soft", "hard"),
    ("learn", "guard"): ("held-out", "xi-alpha", "off"),
    ("render", "mode"): RENDER_MODES,
    ("run", "system"): ("", *SYSTEMS),
}
_PASSWORD = re.compile(r"(?<=://)([^\s/@:]*):[^\s/]*@")
_SECRET = re.compile(
    r"([?&](?:[\w-]*[_-])?(?:api)?(?:key|token|secret|password|auth|sig|signature)=)[^&#\s{]+", re.IGNORECASE
)
_AT_LEAST_ONE = (
    ("fetch", "per_host"), ("fetch", "per_domain"), ("fetch", "in_flight"), ("fetch", "max_tries"),
    ("fetch", "host_tries"), ("frontier", "n"), ("frontier", "hot_urls"), ("store", "batch_pages"),
    ("seeds", "max_per_provider"), ("seeds", "max_bytes"), ("render", "pages"),
)  # fmt: skip


def load(path: Path) -> Settings:
    """Read a settings file."""
    try:
        with path.open("rb") as file:
            table = tomllib.load(file)
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such settings file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}", "Correct the line that the message names.") from None
    return from_table(table, str(path))


def from_table(table: Mapping[str, Any], where: str = FILE_NAME) -> Settings:
    """Settings from nested tables, as a TOML parser returns them; `where` names their source in errors."""
    tables = _current_tables(table)
    settings: Settings = _build(Settings, tables, where, "")
    _validate(settings, where)
    given = {f"{section}.{key}": value for section, keys in tables.items() for key, value in keys.items()}
    if settings.run.system:
        return override(defaults_of(settings.run.system), given, where)
    return _note_given(settings, given)


def defaults_of(system: str) -> Settings:
    """The settings of which only the system is chosen."""
    if not system:
        return Settings()
    return _replace(Settings(), {"run.system": system, **SYSTEMS[system].settings}, f"system {system}")


def differences(settings: Settings, others: Settings) -> dict[str, Any]:
    """The settings that differ from `others`, by dotted name."""
    theirs = _by_name(others)
    return {name: value for name, value in _by_name(settings).items() if value != theirs[name]}


def own_settings(settings: Settings) -> dict[str, Any]:
    """What the user has set, by dotted name: the system, what was given, and what else differs from the defaults or
    from those of the system."""
    names = {*settings.given, *differences(settings, defaults_of(settings.run.system))} - {"run.system"}
    own = {name: value for name, value in _by_name(settings).items() if name in names}
    return {"run.system": settings.run.system, **own} if settings.run.system else own


def _by_name(settings: Settings) -> dict[str, Any]:
    """All settings by dotted name."""
    sections = {name: getattr(settings, name) for name in _names(Settings)}
    return {
        f"{name}.{key}": getattr(section, key) for name, section in sections.items() for key in _names(type(section))
    }


def override(settings: Settings, changes: Mapping[str, Any], where: str = "command line") -> Settings:
    """`settings` with some of them changed, by dotted name: {"limits.max_pages": 100}.

    Another system brings its own values; what the user has set in addition to the former system stays.
    """
    changes, own = current_names(changes), own_settings(settings)
    system = changes.get("run.system", settings.run.system)
    if system != settings.run.system:
        checked = _replace(Settings(), {"run.system": system}, where)
        _validate(checked, where)
        settings = _replace(defaults_of(system), {**own, "run.system": system}, where)
    settings = _replace(settings, changes, where)
    _validate(settings, where)
    return _note_given(settings, {*own, *changes})


def _note_given(settings: Settings, names: Iterable[str]) -> Settings:
    """The same settings, of which the user has given those with these names."""
    noted = dataclasses.replace(settings)
    object.__setattr__(noted, "given", frozenset(names))  # nobody else has this object yet
    return noted


def _replace(settings: Settings, changes: Mapping[str, Any], where: str) -> Settings:
    for dotted, value in changes.items():
        section_name, _, key = dotted.partition(".")
        section = getattr(settings, _known_name(section_name, _names(Settings), where, ""))
        known = _known_name(key, _names(type(section)), where, f"[{section_name}]")
        checked = _check(value, typing.get_type_hints(type(section))[known], f"{where}, {dotted}")
        settings = dataclasses.replace(settings, **{section_name: dataclasses.replace(section, **{known: checked})})
    return settings


def parse_assignment(text: str) -> tuple[str, Any]:
    """A dotted name and its value from `section.key=value`. The value is read as TOML; if it is none, as a string."""
    dotted, equals, value = text.partition("=")
    if not equals or "." not in dotted:
        raise SettingsError(f"--set {text}: not of the form section.key=value", "For example: --set fetch.per_host=1")
    name = _current_name(dotted.strip())
    try:
        return name, tomllib.loads(f"v = {value}")["v"]
    except tomllib.TOMLDecodeError:
        return name, value.strip()


def current_names(changes: Mapping[str, Any]) -> dict[str, Any]:
    """`changes` with the names that settings have now, so that two sets of changes can be merged by name."""
    return {_current_name(dotted): value for dotted, value in changes.items()}


def _current_tables(table: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables with the names that settings have now. If a setting is given by both names, the new one counts."""
    tables = dict(table)
    for old in RENAMED:
        section, _, key = old.partition(".")
        keys = tables.get(section)
        if isinstance(keys, dict) and key in keys:
            tables[section] = {name: value for name, value in keys.items() if name != key}
            tables[section].setdefault(_current_name(old).partition(".")[2], keys[key])
    return tables


def _current_name(dotted: str) -> str:
    """The name that a setting has now. An old name gives a warning, which Python shows once per process."""
    if dotted not in RENAMED:
        return dotted
    new = RENAMED[dotted]
    warnings.warn(
        f"the setting {dotted} is now called {new}; the old name will not work in the next release",
        FutureWarning,
        stacklevel=1,  # always this line: Python shows a text once per line that warns
    )
    return new


def _names(cls: type) -> list[str]:
    """The names of the fields of a dataclass: the keys of a section, or the sections."""
    return [f.name for f in dataclasses.fields(cls)]


def _known_name(name: str, known: list[str], where: str, section: str) -> str:
    """`name` if it is known; otherwise an error that suggests the nearest one."""
    if name in known:
        return name
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4) or [n for n in known if name and name in n][:1]
    place = f"{where}, {section}" if section else where
    what = "key" if section else "section"
    hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
    raise SettingsError(f"{place}: unknown {what} {name!r}. {hint}", "docs/reference/settings.md lists all settings.")


def _build(cls: type, table: Mapping[str, Any], where: str, section: str) -> Any:
    """A section, or all of them, from tables."""
    hints = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for name, value in table.items():
        _known_name(name, _names(cls), where, section)
        if dataclasses.is_dataclass(hints[name]):
            if not isinstance(value, dict):
                raise SettingsError(f"{where}: {name!r} is a section; write [{name}] and its keys below it")
            values[name] = _build(typing.cast(type, hints[name]), value, where, f"[{name}]")
        else:
            values[name] = _check(value, hints[name], f"{where}, {section} {name}")
    return cls(**values)


def _check(value: Any, hint: Any, place: str) -> Any:
    """`value` converted to the type `hint`, or a SettingsError that names the place."""
    origin = typing.get_origin(hint)
    items = typing.get_args(hint)[0] if origin is tuple else None
    if isinstance(value, (list, tuple)) and items is str and all(isinstance(item, str) for item in value):
        return tuple(value)
    if isinstance(value, (list, tuple)) and items is float and all(type(item) in (int, float) for item in value):
        return tuple(map(float, value))
    if origin is dict and isinstance(value, dict):
        wanted = typing.get_args(hint)[1]
        return {str(k): _check(v, wanted, f"{place}.{k}") for k, v in value.items()}
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    plain = hint if isinstance(hint, type) and not isinstance(hint, types.GenericAlias) else None
    if plain is not None and isinstance(value, plain) and not (plain is int and isinstance(value, bool)):
        return value
    name = {"tuple": f"a list of {'numbers' if items is float else 'strings'}", "dict": "a table"}.get(
        getattr(origin, "__name__", ""), getattr(hint, "__name__", str(hint))
    )
    raise SettingsError(f"{place}: {value!r} is not {name}", "docs/reference/settings.md shows the form of each value.")


def _validate(settings: Settings, where: str) -> None:
    """Refuse values of the right type that make no sense."""
    for (section, key), choices in _CHOICES.items():
        value = getattr(getattr(settings, section), key)
        if value not in choices:
            raise SettingsError(
                f"{where}, [{section}] {key}: {value!r} is not one of {', '.join(filter(None, choices))}",
                "docs/reference/settings.md says what each does.",
            )
    _validate_names(settings, where)
    for section, key in _AT_LEAST_ONE:
        if getattr(getattr(settings, section), key) < 1:
            raise SettingsError(f"{where}, [{section}] {key}: must be at least 1")
    proxy = settings.fetch.proxy
    if proxy and not re.fullmatch(r"(https?|socks[45][ah]?)://[^\s/]+/?", proxy):
        raise SettingsError(
            f"{where}, [fetch] proxy: {hide_password(proxy)!r} is not the URL of a proxy",
            "For example: http://127.0.0.1:3128",
        )
    for pattern, target in settings.fetch.connect_to.items():
        if not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[\d.]+):\d{1,5}", target):
            raise SettingsError(
                f"{where}, [fetch] connect_to: {target!r} (for {pattern!r}) is not an address and a port",
                'For example: connect_to = { "*.test" = "127.0.0.1:8800" }',
            )
    if settings.classify.meta == "free":
        _validate_free_meta(settings.classify, where)
    for section_field in dataclasses.fields(settings):
        section_value = getattr(settings, section_field.name)
        for f in dataclasses.fields(section_value):
            value = getattr(section_value, f.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise SettingsError(f"{where}, [{section_field.name}] {f.name}: {value} is not a finite number")
            if isinstance(value, (int, float)) and value < 0 and f.name != "workers":
                raise SettingsError(f"{where}, [{section_field.name}] {f.name}: must not be negative")


def _validate_names(settings: Settings, where: str) -> None:
    """Refuse lists that name something unknown."""
    for name in settings.robots.obey_rights:
        if name not in RESERVATIONS:
            raise SettingsError(
                f"{where}, [robots] obey_rights: {name!r} is not one of {', '.join(RESERVATIONS)}",
                'For example: obey_rights = ["noai", "tdm"]',
            )
    for name in settings.render.third_party:
        if name not in THIRD_PARTY:
            raise SettingsError(
                f"{where}, [render] third_party: {name!r} is not one of {', '.join(THIRD_PARTY)}",
                'For example: third_party = ["script", "fetch"]',
            )
    for pattern, mode in settings.render.hosts.items():
        if mode not in RENDER_MODES:
            raise SettingsError(
                f"{where}, [render] hosts: {mode!r} (for {pattern!r}) is not one of {', '.join(RENDER_MODES)}",
                'For example: hosts = { "*.example.org" = "always" }',
            )
    for url in settings.scope.locked_urls:
        if not re.match(r"https?://[^\s/]+/", url):
            raise SettingsError(
                f"{where}, [scope] locked_urls: {url!r} is not the beginning of a URL",
                "For example: https://example.org/private/",
            )


def _validate_free_meta(classify: ClassifySettings, where: str) -> None:
    """Refuse weights and thresholds with which the meta classifier could not decide."""
    spaces, weights, thresholds = classify.spaces, classify.meta_weights, classify.meta_thresholds
    example = ", ".join(f"{_toml(space)} = 1.0" for space in spaces)
    if set(weights) != set(spaces):
        raise SettingsError(
            f"{where}, [classify] meta_weights: has weights for {', '.join(weights) or 'no space'}, but the spaces are "
            f"{', '.join(spaces)}",
            f"Give each space a weight: meta_weights = {{ {example} }}",
        )
    if not all(math.isfinite(weight) and weight >= 0.0 for weight in weights.values()) or not any(weights.values()):
        raise SettingsError(
            f"{where}, [classify] meta_weights: {_toml(weights)}: weights must be 0 or more, and at least one above 0",
            "Give a space that should not count the weight 0.",
        )
    if len(thresholds) != 2 or not all(map(math.isfinite, thresholds)) or thresholds[0] < thresholds[1]:
        raise SettingsError(
            f"{where}, [classify] meta_thresholds: {_toml(thresholds)}: must be two numbers, t1 and t2, with t1 >= t2",
            "A sum of votes above t1 accepts a page, one below t2 rejects it: meta_thresholds = [0.5, -0.5]",
        )


def hide_password(url: str) -> str:
    """A URL without the password in it: for everything that people or programs read."""
    return _PASSWORD.sub(r"\1:***@", url)


def hide_secrets(text: str) -> str:
    """An address without passwords, and without the values of parameters such as `key` and `token`."""
    return _SECRET.sub(r"\1***", hide_password(text))


def without_secrets(settings: Settings) -> Settings:
    """The same settings without passwords, to be shown or recorded."""
    fetch = dataclasses.replace(settings.fetch, proxy=hide_password(settings.fetch.proxy))
    store = dataclasses.replace(settings.store, warc_url=hide_password(settings.store.warc_url))
    seeds = dataclasses.replace(settings.seeds, providers=tuple(map(hide_secrets, settings.seeds.providers)))
    return _note_given(dataclasses.replace(settings, fetch=fetch, store=store, seeds=seeds), settings.given)


def to_toml(settings: Settings, *, everything: bool = False) -> str:
    """What the user has set, or all settings, as TOML."""
    chosen = own_settings(settings)
    lines: list[str] = []
    for section in dataclasses.fields(Settings):
        values = dataclasses.asdict(getattr(settings, section.name))
        named = [name for name in values if everything or f"{section.name}.{name}" in chosen]
        if named:
            lines += ["", f"[{section.name}]", *(f"{name} = {_toml(values[name])}" for name in named)]
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


@contextlib.contextmanager
def changing(folder: Path) -> Iterator[Settings]:
    """The settings of a collection as they are now, locked against changes by other processes until the block ends."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield load(folder / FILE_NAME)
    finally:
        os.close(handle)


def write_settings(folder: Path, settings: Settings) -> None:
    """Replace the settings file atomically: after a crash it is either the old one or the new one.

    With a password in it, only its owner can read it.
    """
    text = f"# Settings of this collection; all others have their defaults (`opilio settings`).\n{to_toml(settings)}"
    new = folder / (FILE_NAME + ".new")
    try:
        new.unlink(missing_ok=True)
        mode = 0o600 if without_secrets(settings) != settings else 0o666
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as file:
            file.write(text)
        new.replace(folder / FILE_NAME)
    except OSError as error:
        raise CollectionError(
            f"{folder}: cannot write {FILE_NAME}: {error.strerror}", "Free some disk space, then try again."
        ) from None
