"""What the reader of a document is given: where the bytes came from, and how much it may still unpack.

A file and everything inside it share one `UnpackBudget`, so that a thousand small bombs count like one big one. It is
charged while bytes are unpacked, never afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from opilio.analyze.content import Source
from opilio.model import Outcome
from opilio.settings import MIB, DocumentSettings

CHUNK_BYTES = 1 << 16
_TIME_SHARE = 0.8
"""Share of the timeout after which readers that work page by page stop and return what they have."""


class Unreadable(Exception):
    """A file that cannot be read; the message is for the user and continues a sentence about the file."""

    outcome = Outcome.UNREADABLE


class Bomb(Unreadable):
    """A file that unpacks to more than the limit."""

    outcome = Outcome.BOMB


class Stream(Protocol):
    """Something that unpacks as it is read."""

    def read(self, n: int, /) -> bytes:
        """The next `n` bytes, fewer at the end."""
        ...  # pragma: no cover


class UnpackBudget:
    """How much of one file may still be unpacked, and how long it may still take."""

    def __init__(self, documents: DocumentSettings) -> None:
        self._max_unpacked_bytes = documents.max_unpacked_bytes
        self._unpacked_bytes = 0
        self._members_left = documents.max_members
        self._end_s = time.monotonic() + _TIME_SHARE * documents.timeout_s
        self.max_nesting = documents.max_nesting
        self.max_pages = documents.max_pages

    def unpack(self, stream: Stream) -> Iterator[bytes]:
        """The pieces of `stream`; raises `Bomb` as soon as they exceed the limit."""
        while piece := stream.read(CHUNK_BYTES):
            self.spend(len(piece))
            yield piece

    def spend(self, unpacked_bytes: int) -> None:
        """Count bytes that have been unpacked, or are about to be."""
        self._unpacked_bytes += unpacked_bytes
        if self._unpacked_bytes > self._max_unpacked_bytes:
            raise Bomb(f"unpacks to more than {self._max_unpacked_bytes / MIB:.4g} MiB")

    def take_member(self) -> bool:
        """Whether one more member of an archive may be read."""
        self._members_left -= 1
        return self._members_left >= 0 and self.has_time

    @property
    def has_time(self) -> bool:
        """Whether there is time to continue reading."""
        return self.left_s > 0.0

    @property
    def left_s(self) -> float:
        """The remaining time."""
        return max(0.0, self._end_s - time.monotonic())


@dataclass(frozen=True, slots=True)
class ReadingContext:
    """One file that is being read."""

    source: Source
    budget: UnpackBudget
    name: str = ""
    """File name without folders."""
    depth: int = 0
    """Number of archives that contain it."""

    def inside(self, url: str, name: str, depth: int) -> ReadingContext:
        """The context for a member of this file."""
        return replace(self, source=replace(self.source, url=url, charset=""), name=name, depth=depth)
