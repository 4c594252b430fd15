"""What the reader of a document is told: where the bytes came from, and how much may still be unfolded.

One `Budget` goes with a file and everything inside of it, so that a thousand small bombs count like one big one. It is
asked before bytes are unfolded, never after.
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
"""Of the time a file may take. After it, readers that go page by page stop and give what they have."""


class Unreadable(Exception):
    """A file that cannot be read; its words are for the user."""

    outcome = Outcome.UNREADABLE


class Bomb(Unreadable):
    """A file that unfolds to more than it may."""

    outcome = Outcome.BOMB


class Stream(Protocol):
    """Something that unfolds as it is read."""

    def read(self, n: int, /) -> bytes:
        """The next `n` bytes, fewer at the end."""
        ...  # pragma: no cover


class UnpackBudget:
    """What may still be unfolded of one file."""

    def __init__(self, documents: DocumentSettings) -> None:
        self._max_unpacked_bytes = documents.max_unpacked_bytes
        self._unfolded_bytes = 0
        self._members_left = documents.max_members
        self._end_s = time.monotonic() + _TIME_SHARE * documents.timeout_s
        self.max_nesting = documents.max_nesting
        self.max_pages = documents.max_pages

    def unfold(self, stream: Stream) -> Iterator[bytes]:
        """The pieces of `stream`; raises `Bomb` where they get too long."""
        while piece := stream.read(CHUNK_BYTES):
            self.spend(len(piece))
            yield piece

    def spend(self, unfolded_bytes: int) -> None:
        """Count bytes that were unfolded, or are about to be."""
        self._unfolded_bytes += unfolded_bytes
        if self._unfolded_bytes > self._max_unpacked_bytes:
            raise Bomb(f"unfolds to more than {self._max_unpacked_bytes / MIB:.4g} MiB")

    def take_member(self) -> bool:
        """Whether one more member of an archive may be read."""
        self._members_left -= 1
        return self._members_left >= 0 and self.has_time

    @property
    def has_time(self) -> bool:
        """Whether there is time to go on reading."""
        return self.left_s > 0.0

    @property
    def left_s(self) -> float:
        """The time that is left."""
        return max(0.0, self._end_s - time.monotonic())


@dataclass(frozen=True, slots=True)
class ReadingContext:
    """One file that is being read."""

    source: Source
    budget: UnpackBudget
    name: str = ""
    """File name, without folders."""
    depth: int = 0
    """How many archives it stands in."""

    def inside(self, url: str, name: str, depth: int) -> ReadingContext:
        """The reading of a member of this file."""
        return replace(self, source=replace(self.source, url=url, charset=""), name=name, depth=depth)
