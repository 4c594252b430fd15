"""A new folder that is complete or not there: it is built next to its place under another name, and then renamed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from opilio.errors import CollectionBusy, CollectionError
from opilio.store.connection import sync_folder


@contextlib.contextmanager
def building(target: Path) -> Iterator[Path]:
    """A new folder, which is renamed to `target` when all went well, and deleted when not.

    What a killed build has left is deleted by the next one; two builds at once are refused.
    """
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise CollectionError(f"{target}: exists already", "Choose a new folder: nothing is overwritten.")
    target = target.absolute()
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        unfinished.mkdir(parents=True, exist_ok=True)
        handle = os.open(unfinished, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)  # never empty a folder behind a link
    except OSError as error:
        raise CollectionError(f"{target}: cannot make the folder: {error.strerror}", "Choose another.") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CollectionBusy(f"{target}: another process is making it", "Wait for its end.") from None
        _empty(unfinished)
        try:
            yield unfinished
            unfinished.rename(target)
            sync_folder(target.parent)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    finally:
        os.close(handle)


def check_room(place: Path, bytes_needed: int) -> None:
    """Raise CollectionError when there is less room than is needed."""
    free_bytes = shutil.disk_usage(place).free
    if bytes_needed > free_bytes:
        raise CollectionError(
            f"{place}: about {bytes_needed / 1e9:.1f} GB are needed, {free_bytes / 1e9:.1f} GB are free",
            "Make room, or choose a folder on another disk.",
        )


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
