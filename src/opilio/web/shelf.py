"""The collections that a server shows, by name, and the folder where new ones are made.

Each collection has many readers or one writer at a time: a process cannot have a database open in both ways at once.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

from opilio.crawl import Collection
from opilio.crawl.operations.client import is_running
from opilio.errors import CollectionBusy, CollectionError, InputError, OpilioError
from opilio.store import Store
from opilio.store.connection import FILE_NAME as DATABASE_NAME

MAX_NAME_CHARS, MAX_NAME_BYTES = 80, 255
READ_WAIT_S = 3.0  # after this time a page says why it waits, and reloads itself
_NAME = re.compile(r"[\w][\w .-]*")


class ReadersOrWriter:
    """A lock that any thread may release, whichever took it. A waiting writer goes first."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers = 0
        self._writing = False
        self._writers_waiting = 0

    @contextlib.contextmanager
    def reading(self, wait_s: float | None = None) -> Iterator[None]:
        """Hold it together with other readers; TimeoutError when a writer holds it for longer than `wait_s`."""
        with self._condition:
            if not self._condition.wait_for(lambda: not self._writing and not self._writers_waiting, wait_s):
                raise TimeoutError
            self._readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._readers -= 1
                self._condition.notify_all()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold it alone."""
        with self._condition:
            self._writers_waiting += 1
            try:
                self._condition.wait_for(lambda: not self._writing and not self._readers)
            finally:
                self._writers_waiting -= 1
            self._writing = True
        try:
            yield
        finally:
            with self._condition:
                self._writing = False
                self._condition.notify_all()


class NoCollection(CollectionError):
    """A name that no collection has here."""


class Shelf:
    """One collection, or all collections in a folder. New ones are made next to the one, or in the folder."""

    def __init__(self, place: Path | str) -> None:
        place = Path(place).absolute()
        self.is_one = is_collection(place)
        self.folder = place.parent if self.is_one else place
        self._shown = {place.name} if self.is_one else set()
        self._locks: dict[str, ReadersOrWriter] = {}
        self._guard = threading.Lock()

    def names(self) -> list[str]:
        """The names of the collections."""
        if self.is_one:
            return sorted(name for name in self._shown if is_collection(self.folder / name))
        try:
            folders = [folder for folder in self.folder.iterdir() if not folder.name.startswith(".")]  # unfinished
            return sorted(folder.name for folder in folders if is_collection(folder))
        except OSError:  # it is gone, or can no longer be read
            return []

    def path(self, name: str) -> Path:
        """The folder of a collection; an error when there is none of that name."""
        if name not in self.names():
            raise NoCollection(f"no collection {name!r} here", "The start page lists all collections.")
        return self.folder / name

    @contextlib.contextmanager
    def making(self, name: str) -> Iterator[Path]:
        """A new folder for a collection that is made inside; shown afterwards, and removed if that fails."""
        name = _checked(name)
        folder = self.folder / name
        try:
            folder.mkdir()
        except FileExistsError:
            raise InputError(f"{name!r} exists already", "Choose another name.") from None
        except OSError as error:
            raise CollectionError(f"{folder}: cannot make the folder: {error.strerror}", "") from None
        try:
            yield folder
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        self._shown.add(name)

    def rename(self, name: str, to: str) -> str:
        """Give a collection another name, which is returned. Refused while a crawl runs in it."""
        to = _checked(to)
        with self._alone(name) as folder:
            if to == name:
                return to
            if (self.folder / to).exists():
                raise InputError(f"{to!r} exists already", "Choose another name.")
            try:
                folder.rename(self.folder / to)
            except OSError as error:
                raise CollectionError(f"{name} cannot be renamed: {error.strerror}", "") from None
            if name in self._shown:
                self._shown = self._shown - {name} | {to}
        return to

    def delete(self, name: str) -> None:
        """Delete a collection with all its files. Refused while a crawl runs in it."""
        with self._alone(name) as folder:
            hidden = self.folder / f".{name}.deleted-{secrets.token_hex(4)}"  # half a collection is never shown
            try:
                folder.rename(hidden)
                self._shown.discard(name)
                shutil.rmtree(hidden)
            except OSError as error:
                raise CollectionError(f"{name} cannot be deleted: {error.strerror}", "") from None

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[Path]:
        """The folder of a collection that nobody else uses; an error when a crawl runs, or another process has it."""
        path = self.path(name)
        with self._lock(name).writing():
            if is_running(path):
                raise CollectionError(f"a crawl runs in {name}", "Stop it first, on its page Crawl.")
            try:
                with Store.open(path):
                    pass
            except CollectionBusy:
                raise CollectionError(f"{name} is in use by another process", "Try again when it is done.") from None
            except OpilioError:  # a damaged one can be renamed and deleted, too
                pass
            yield path

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[Collection]:
        """A collection to read."""
        path = self.path(name)
        if is_running(path):
            yield Collection(path)
            return
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._lock(name).reading(READ_WAIT_S))
            except TimeoutError:
                raise CollectionBusy(
                    f"{name} is being changed: a model is being trained, or pages are being re-judged",
                    "Try again in a moment.",
                ) from None
            yield Collection(path)

    @contextlib.contextmanager
    def writing(self, name: str) -> Iterator[Collection]:
        """A collection to change: nobody reads it meanwhile, unless a crawl runs, which answers readers itself."""
        path = self.path(name)
        with contextlib.nullcontext() if is_running(path) else self._lock(name).writing():
            yield Collection(path)

    def _lock(self, name: str) -> ReadersOrWriter:
        with self._guard:
            return self._locks.setdefault(name, ReadersOrWriter())


def _checked(name: str) -> str:
    """A name that a folder can have."""
    name = name.strip()
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARS or len(name.encode()) > MAX_NAME_BYTES:
        raise InputError(f"{name!r} cannot be the name of a folder", "Use letters, digits, spaces and - _ .")
    return name


def is_collection(folder: Path) -> bool:
    """Whether a folder is a collection."""
    try:
        return (folder / DATABASE_NAME).is_file()
    except OSError:  # it belongs to someone else and cannot be read
        return False
