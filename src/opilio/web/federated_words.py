"""What users say of pages, kept until the collection that it is for can be told.

One small file for each word, in a folder of the server's: what is kept survives the server, and two servers may share
the folder. A later word about the same page takes the place of an earlier one.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import msgspec

from opilio.errors import CollectionError

MAX_KEPT = 10_000
MAX_AGE_S = 30 * 86_400.0
FIRST_DELAY_S, MAX_DELAY_S = 30.0, 3600.0


class Word(msgspec.Struct, frozen=True):
    """What somebody said of a page, for one collection."""

    collection: str
    place: str
    url: str
    topic: str
    relevant: bool
    said_s: float
    tries: int = 0
    next_s: float = 0.0
    trouble: str = ""

    def is_due(self, now_s: float) -> bool:
        """Whether it is time for the next try; also when a clock that was wrong has put that off for longer than is."""
        return not now_s < self.next_s <= now_s + MAX_DELAY_S

    def put_off(self, now_s: float, trouble: str) -> Word:
        """The same after a try in vain: the next comes later."""
        delay_s = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(self.tries, 30))
        return msgspec.structs.replace(self, tries=self.tries + 1, next_s=now_s + delay_s, trouble=trouble)


class Spool:
    """The words that wait. May be used from several threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._guard = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise CollectionError(
                f"{folder}: feedback cannot be kept there: {error.strerror}", "Give another folder: --state FOLDER"
            ) from None

    def keep(self, word: Word) -> None:
        """Keep a word, in place of an earlier one about the same page."""
        with self._guard:
            path = self._path(word)
            if not path.exists() and sum(1 for _ in self._files()) >= MAX_KEPT:
                raise CollectionError("too much feedback waits already", "Let the collections that are away come back.")
            try:
                _write(path, msgspec.json.encode(word))
            except OSError as error:
                what = f"feedback cannot be kept: {error.strerror}"
                raise CollectionError(what, "Make room in the folder --state.") from None

    def put_off(self, word: Word, trouble: str) -> None:
        """Keep a word that was told in vain, unless something else was said of the page meanwhile."""
        kept = _read(self._path(word))
        if kept == word if word.tries else kept is None or kept.said_s <= word.said_s:
            self.keep(word.put_off(time.time(), trouble))

    def drop(self, word: Word) -> None:
        """Forget a word, and earlier ones about the same page: it was told, or never will be."""
        with self._guard:
            kept = _read(self._path(word))
            if kept is not None and kept.said_s <= word.said_s:
                self._path(word).unlink(missing_ok=True)

    def holds(self, word: Word) -> bool:
        """Whether nothing was said of the page since."""
        return _read(self._path(word)) == word

    def waiting(self) -> list[Word]:
        """All that wait, oldest first. What is too old, or not ours, is left out."""
        words = [word for word in map(_read, self._files()) if word is not None]
        oldest_s = time.time() - MAX_AGE_S
        for word in words:
            if word.said_s < oldest_s:
                self.drop(word)
        return sorted((word for word in words if word.said_s >= oldest_s), key=lambda word: word.said_s)

    def _files(self) -> list[Path]:
        return list(self._folder.glob("*.json"))

    def _path(self, word: Word) -> Path:
        about = msgspec.json.encode([word.collection, word.place, word.url])
        return self._folder / f"{hashlib.sha256(about).hexdigest()[:32]}.json"


def _write(path: Path, data: bytes) -> None:
    """Write a file as a whole, or not at all."""
    beside = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _read(path: Path) -> Word | None:
    """The word in a file; None when there is none, or something else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Word)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
