"""The settings of a collection, on disk."""

from __future__ import annotations

from pathlib import Path

from opilio.errors import CollectionError
from opilio.settings import FILE_NAME, Settings, to_toml


def write_settings(folder: Path, settings: Settings) -> None:
    """Replace the settings file in one step, so that a crash leaves the old one or the new one."""
    text = f"# Settings of this collection; all others have their defaults (`opilio settings`).\n{to_toml(settings)}"
    new = folder / (FILE_NAME + ".new")
    try:
        new.write_text(text)
        new.replace(folder / FILE_NAME)
    except OSError as error:
        raise CollectionError(
            f"{folder}: cannot write {FILE_NAME}: {error.strerror}", "Make room, then try again."
        ) from None
