"""Which MIME types we can read. A reader registers under its MIME type, ours exactly as those of other packages."""

from __future__ import annotations

from typing import Protocol

from opilio.analyze.content import Content, Source
from opilio.registry import Registry


class Reader(Protocol):
    """Reads one format. Must never raise, whatever the bytes; None says that they are not of this format."""

    def __call__(self, body: bytes, source: Source) -> Content | None:
        """The content of `body`."""
        ...  # pragma: no cover


FORMATS: Registry[Reader] = Registry("formats")
