"""Where finished files are moved to: a folder, or any file system that fsspec knows by its URL."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from opilio.errors import SettingsError

PIECE_BYTES = 4 * 2**20
PART = ".part"  # a file that is still being copied


class GivenUp(Exception):
    """Copying was cancelled."""


class Storage(Protocol):
    """Takes whole files."""

    def size(self, name: str) -> int | None:
        """Bytes of a file; None when it is not there."""
        ...

    def put(self, path: Path, goes_on: Callable[[], bool]) -> None:
        """Copy a file there under its own name. Nobody finds it there by that name before it is whole, if the file
        system can do that. Raises `GivenUp` as soon as `goes_on` is false."""
        ...


def open_storage(url: str) -> Storage:
    """The storage at a URL, or at the path of a folder."""
    return UrlStorage(url) if "://" in url else FolderStorage(Path(url))


def check_url(url: str) -> None:
    """Refuse a place that ends with the process, such as memory://: files are deleted here once they are there.

    What cannot be loaded is not checked here: `open_storage` reports it when a crawl begins.
    """
    try:
        from fsspec import get_filesystem_class  # noqa: PLC0415  (an optional library)
        from fsspec.implementations.memory import MemoryFileSystem  # noqa: PLC0415
    except ImportError:
        return
    for link in url.split("::") if "://" in url else ():  # a file system may stand before another: dir::memory://...
        try:
            kind = get_filesystem_class(link.partition("://")[0])
        except (ImportError, ValueError):
            continue
        if issubclass(kind, MemoryFileSystem):
            raise SettingsError(
                f"store.warc_url = {url}: what is moved there is lost when the crawl ends",
                "Give a folder, or the URL of a storage that keeps files (s3://..., sftp://...); '' leaves them here.",
            )


class FolderStorage:
    """A folder, on another disk perhaps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.expanduser()

    def size(self, name: str) -> int | None:
        """Bytes of a file; None when it is not there."""
        path = self._folder / name
        return path.stat().st_size if path.exists() else None

    def put(self, path: Path, goes_on: Callable[[], bool]) -> None:
        """Copy a file there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / (path.name + PART)
        with part.open("wb") as target:
            _copy(path, target, goes_on)
            target.flush()
            os.fsync(target.fileno())
        shutil.move(part, self._folder / path.name)


class UrlStorage:
    """A file system of fsspec's: s3://bucket/folder, sftp://host/folder ..."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec  # noqa: PLC0415  (an optional library)
            from fsspec.core import url_to_fs  # noqa: PLC0415
        except ImportError:
            raise SettingsError(
                f"store.warc_url = {url}: needs fsspec, which is not installed",
                "pip install 'opilio[cluster]', or give the path of a folder.",
            ) from None
        try:
            found: tuple[Any, str] = url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise SettingsError(f"store.warc_url = {url}: {error}", "Install what it names, or correct it.") from None
        self._system, folder = found
        self._folder = folder.rstrip("/")
        # Others copy to rename, which is no better than to write the file at once; of these, S3 and its like show a
        # file only when it is whole.
        self._renames = type(self._system).mv is not fsspec.AbstractFileSystem.mv

    def size(self, name: str) -> int | None:
        """Bytes of a file; None when it is not there."""
        self._system.invalidate_cache()
        try:
            return int(self._system.info(f"{self._folder}/{name}")["size"])
        except FileNotFoundError:
            return None

    def put(self, path: Path, goes_on: Callable[[], bool]) -> None:
        """Copy a file there."""
        target = f"{self._folder}/{path.name}"
        written = target + PART if self._renames else target
        self._system.makedirs(self._folder, exist_ok=True)
        with self._system.open(written, "wb") as file:
            _copy(path, file, goes_on)
        if self._renames:
            self._system.mv(written, target)


def _copy(path: Path, target: Any, goes_on: Callable[[], bool]) -> None:
    with path.open("rb") as source:
        while piece := source.read(PIECE_BYTES):
            if not goes_on():
                raise GivenUp
            target.write(piece)
