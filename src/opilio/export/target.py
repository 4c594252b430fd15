"""Where an export goes: a folder that appears under its name only when it is complete. Files: `store/export.py`.

A folder that was made by the same command is replaced in one step; any other one is never touched. A file in the folder
marks it.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from opilio.errors import InputError


@contextlib.contextmanager
def replacing(target: Path, marker: str, made_by: str) -> Iterator[Path]:
    """A new folder next to `target` that replaces it at the end, or is removed after an error."""
    if target.exists() and not (target / marker).is_file():
        raise InputError(f"{target}: exists, and was not made by `{made_by}`", "Give a folder that does not exist yet.")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent}: no such folder", "Make it first.")
    suffix = secrets.token_hex(4)
    new, old = (target.with_name(f".{target.name[:200]}.{kind}-{suffix}") for kind in ("new", "old"))
    try:
        new.mkdir()
        yield new
        if target.exists():
            target.rename(old)
        new.rename(target)
    except OSError as error:
        _put_back(old, target)
        raise InputError(f"{target}: cannot be written: {error.strerror or error}", "Choose another folder.") from error
    except BaseException:
        _put_back(old, target)
        raise
    finally:
        for folder in (new, old):
            shutil.rmtree(folder, ignore_errors=True)


def _put_back(old: Path, target: Path) -> None:
    if old.exists() and not target.exists():
        old.rename(target)
