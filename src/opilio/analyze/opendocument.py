"""OpenDocument (odt, odp, ods): the text is in `content.xml`, links are elements."""

from __future__ import annotations

from opilio.analyze.content import Content
from opilio.analyze.draft import Draft
from opilio.analyze.package import Attributes, Package, properties_of
from opilio.analyze.reading import Reading, Unreadable

MIME_START = b"application/vnd.oasis.opendocument."

_MANIFEST = "META-INF/manifest.xml"
_PARAGRAPHS = frozenset({"p", "h"})
_SKIPPED = frozenset({"tracked-changes", "annotation"})
"""Deleted text, and notes of editors."""


def read_opendocument(package: Package, reading: Reading) -> Content:
    """Read an OpenDocument file."""
    if _MANIFEST in package.members and b"encryption-data" in package.read(_MANIFEST):
        raise Unreadable("is protected by a password")
    draft = Draft()
    package.parse("content.xml", _Text(draft))
    properties = properties_of(package, "meta.xml")
    return draft.content(
        reading.source,
        title=properties["title"],
        language=properties["language"],
        description=properties["description"],
    )


class _Text:
    """Reads `content.xml`. Only paragraphs and headings have text; what stands between elements is layout."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._paragraphs = 0
        self._skipped = 0

    def start(self, tag: str, attributes: Attributes) -> None:
        if self._skipped or tag in _SKIPPED:
            self._skipped += 1
        elif tag in _PARAGRAPHS:
            self._paragraphs += 1
        elif tag == "a":
            self._draft.begin_link(attributes.get("href", ""))
        elif tag in ("s", "tab"):
            self._draft.add(" ")
        elif tag == "line-break":
            self._draft.end_line()

    def end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif tag in _PARAGRAPHS:
            self._paragraphs -= 1
            self._draft.end_line()
        elif tag == "a":
            self._draft.end_link()

    def text(self, text: str) -> None:
        if self._paragraphs and not self._skipped:
            self._draft.add(text)
