"""The shipper: moves finished WARC files to `store.warc_url` in the background.

A file is finished when its worker has started a later one, or when the crawl ends. It is moved only when the database
has all that came of its records: every lease that was under way when the file was found to be finished must be back
and committed. Until then a crash may need the file (`restore.py`). One file at a time is copied in a thread, and
deleted here once all of it is there. After a crash the next crawl moves what is still here, and does not copy again
what has arrived.

The target is a folder, or any file system that fsspec knows by its URL (`Storage`).

Whatever goes wrong, the crawl goes on: a file that cannot be moved stays, and is tried again later.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from opilio.crawl.absorb import Absorber
from opilio.crawl.background import BackgroundTask, TaskSlot
from opilio.errors import SettingsError, describe_error, not_installed
from opilio.settings import Settings
from opilio.settings.files import hide_password
from opilio.store import Store

PIECE_BYTES = 4 * 2**20
PART = ".part"  # a file that is still being copied
LOOK_S = 5.0  # how often the folder is looked at
AGAIN_S = 60.0  # before another try after a failure


class Shipper(BackgroundTask):
    """Moves finished WARC files, one at a time."""

    def __init__(
        self, settings: Settings, store: Store, absorber: Absorber, commit: Callable[[], Awaitable[None]]
    ) -> None:
        """`commit` writes all that was absorbed, so that it can be read."""
        self._folder = store.path.parent / "warc"
        self._absorber = absorber
        self._commit = commit
        url = settings.store.warc_url
        self._storage = open_storage(url) if url else None
        # Files that are there before any worker runs are finished, and their content is absorbed: see restore.py.
        self._old = set(_files(self._folder)) if url else set()
        self._awaited: dict[str, set[int]] = {}
        self._slot = TaskSlot(self._end)
        self._next_s = 0.0
        self._is_told = False

    def look(self) -> None:
        """Start moving files when it is time."""
        if self._storage is None or self._slot.is_busy or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + LOOK_S
        names = self._safe(finished(_files(self._folder), self._old))
        if names:
            self._slot.start(self._ship(names))

    async def close(self, at_once: asyncio.Event) -> None:
        """Move all that is left; once `at_once` is set, leave it for the next crawl."""
        await self._slot.finish(at_once, self._cancel)
        if self._storage is None or at_once.is_set():
            return
        names = _files(self._folder)
        if self._absorber.frontier.in_flight:  # the crawl no longer waits for them, but their workers may still write
            names = self._safe(finished(names, self._old))
        if names:
            self._slot.start(self._ship(names))
            await self._slot.finish(at_once, self._cancel)

    def _safe(self, names: Iterable[str]) -> list[str]:
        """The finished files that hold no record of a lease that is still under way."""
        under_way = self._under_way()
        for name in names:
            self._awaited.setdefault(name, set() if name in self._old else set(under_way))
            self._awaited[name] &= under_way
        return [name for name in names if not self._awaited[name]]

    def _under_way(self) -> set[int]:
        return set(self._absorber.frontier.leased)

    async def _ship(self, names: list[str]) -> None:
        await self._commit()
        for name in names:
            if self._slot.is_cancelled:
                return
            await asyncio.to_thread(self._move, self._folder / name)
            self._awaited.pop(name, None)
            self._absorber.counters.add("WARC files moved")

    def _move(self, path: Path) -> None:
        assert self._storage is not None
        size_bytes = path.stat().st_size
        if self._storage.size(path.name) != size_bytes:
            self._storage.put(path, lambda: not self._slot.is_cancelled)
        arrived_bytes = self._storage.size(path.name)
        if arrived_bytes != size_bytes:
            raise OSError(f"{path.name} has {size_bytes:,} bytes here, {arrived_bytes or 0:,} there")
        path.unlink()

    def _cancel(self) -> None:
        self._slot.is_cancelled = True

    def _end(self, error: BaseException | None) -> None:
        if error is None or isinstance(error, GivenUp):
            return
        self._next_s = time.monotonic() + AGAIN_S
        self._absorber.counters.add("WARC files that could not be moved")
        if not self._is_told:
            self._is_told = True
            remedy = (
                "The crawl goes on, and the files stay in its folder warc. Look at store.warc_url and the room there."
            )
            self._absorber.notice(
                "storage", f"WARC files cannot be moved: {hide_password(describe_error(error))}", remedy
            )


def finished(names: Iterable[str], old: set[str]) -> list[str]:
    """The files that nobody writes to any more: those from before the crawl, and all but the latest of each worker."""
    last: dict[str, str] = {}
    for name in names:  # in the order of time
        last[_worker(name)] = name
    return [name for name in names if name in old or last[_worker(name)] != name]


def _worker(name: str) -> str:
    """The worker that wrote a file; `store/warc.py` makes the names."""
    return name.split("-")[-2] if name.count("-") >= 2 else ""


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.warc.gz"))


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
    if "://" not in url:
        return
    try:
        from fsspec import get_filesystem_class  # noqa: PLC0415  (an optional library)
        from fsspec.implementations.memory import MemoryFileSystem  # noqa: PLC0415
    except ImportError:
        return
    for link in url.split("::"):  # a file system may stand before another: dir::memory://...
        try:
            kind = get_filesystem_class(link.partition("://")[0])
        except (ImportError, ValueError):
            continue
        if issubclass(kind, MemoryFileSystem):
            raise SettingsError(
                f"store.warc_url = {hide_password(url)}: what is moved there is lost when the crawl ends",
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
            user = f"store.warc_url = {hide_password(url)}"
            raise not_installed("fsspec", user, "cluster", "Or give the path of a folder.") from None
        try:
            found: tuple[Any, str] = url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise SettingsError(
                f"store.warc_url = {hide_password(url)}: {hide_password(str(error))}",
                "Install what it names, or correct it.",
            ) from None
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
