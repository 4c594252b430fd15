"""The two forms a taxonomy file may have, chosen by its suffix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opilio.errors import InputError
from opilio.topics.items import Item, read_text
from opilio.topics.toml_form import dump_toml, parse_toml

MAX_FILE_BYTES = 16 * 2**20

_HINT = "Write it as .yaml or as .toml; docs/guides/topics.md shows both."


def read_items(path: Path) -> Item:
    """What a YAML or TOML file says."""
    is_toml = _is_toml(path)
    text = read_text(path, MAX_FILE_BYTES, _HINT)
    if is_toml:
        return parse_toml(text, path)
    from opilio.topics.yaml_form import parse_yaml  # noqa: PLC0415  # workers need not load YAML

    return parse_yaml(text, path)


def write_table(table: dict[str, Any], path: Path, comment: str) -> None:
    """Write nested tables to a YAML or TOML file, below a line of comment."""
    if _is_toml(path):
        text = dump_toml(table)
    else:
        from opilio.topics.yaml_form import dump_yaml  # noqa: PLC0415  # workers need not load YAML

        text = dump_yaml(table)
    try:
        path.write_text(f"# {comment}\n{text}", encoding="utf-8", newline="\n")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", "Choose another place.") from None


def _is_toml(path: Path) -> bool:
    suffix = path.suffix.lower()
    if suffix not in (".yaml", ".yml", ".toml"):
        raise InputError(f"{path}: neither YAML nor TOML by its suffix", _HINT)
    return suffix == ".toml"
