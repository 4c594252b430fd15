"""The settings of a collection, on disk."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from opilio.errors import CollectionError
from opilio.settings import FILE_NAME, Settings, load, to_toml


@contextlib.contextmanager
def changing(folder: Path) -> Iterator[Settings]:
    """The settings as they are now, to be changed and written: nobody else does so meanwhile, in any process."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield load(folder / FILE_NAME)
    finally:
        os.close(handle)


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
