"""Which MIME types we can read. A reader registers under its MIME type, ours exactly as those of other packages.

There are two lists, because there are two places to read in. Readers of `FORMATS` (HTML, plain text) run in the worker
itself: they must be fast and never raise. Readers of `DOCUMENTS` (PDF, office files, archives) run in a process of
their own, which is ended when it takes too long or too much memory; they may raise whatever they like.
"""

from __future__ import annotations

from typing import Protocol

from opilio.analyze.content import Content, Source
from opilio.analyze.kinds import DOCUMENT_KINDS
from opilio.analyze.reading import Reading, Unreadable
from opilio.registry import Registry


class Reader(Protocol):
    """Reads one format. Must never raise, whatever the bytes; None says that they are not of this format."""

    def __call__(self, body: bytes, source: Source) -> Content | None:
        """The content of `body`."""
        ...  # pragma: no cover


class DocumentReader(Protocol):
    """Reads one format that cannot be trusted. `Unreadable` says in words for the user why it could not be read."""

    def __call__(self, body: bytes, reading: Reading) -> Content:
        """The content of `body`; asks the budget of `reading` before it unfolds anything."""
        ...  # pragma: no cover


FORMATS: Registry[Reader] = Registry("formats")
DOCUMENTS: Registry[DocumentReader] = Registry("documents")


def read_as(kind: str, body: bytes, reading: Reading) -> Content:
    """Read `body` as a file of `kind`, from whichever list. Whatever is wrong with it is `Unreadable`."""
    if kind in FORMATS:
        content = FORMATS.get(kind)(body, reading.source)
        if content is None:
            raise Unreadable(f"is not {kind}")
        return content
    if kind not in DOCUMENTS:
        raise Unreadable(f"no reader for {kind}" if kind else "no reader for what it is")
    try:
        return DOCUMENTS.get(kind)(body, reading)
    except (Unreadable, MemoryError):
        raise
    except Exception as error:  # libraries raise all sorts of things when a file is broken
        raise Unreadable(f"broken {DOCUMENT_KINDS.get(kind, kind)}: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """An exception in a few words."""
    return " ".join(str(error).split())[:150] or type(error).__name__
