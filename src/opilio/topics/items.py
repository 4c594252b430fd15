"""What a YAML or TOML file says, as plain items: text, lists and tables, each with the line it stands on.

Nothing is constructed from what a file says, and a word is always text: a topic called `No` or `1984` stays one.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
