"""Zip files whose members belong together, and the XML in them: what office files and electronic books are made of.

XML is read as a stream of events, so that neither its size nor its nesting costs memory. A file that declares entities
is refused: no program that writes documents does it, and every bomb made of XML does.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Protocol
from urllib.parse import unquote
from xml.parsers import expat

from opilio.analyze.reading import Budget, Unreadable

Attributes = dict[str, str]


class XmlHandler(Protocol):
    """Is told what an XML file holds, in order. Names are without their namespaces."""

    def start(self, tag: str, attributes: Attributes) -> None:
        """An element begins."""
        ...  # pragma: no cover

    def end(self, tag: str) -> None:
        """An element ends."""
        ...  # pragma: no cover

    def text(self, text: str) -> None:
        """Text, possibly in pieces."""
        ...  # pragma: no cover


class Package:
    """An open zip file."""

    def __init__(self, body: bytes, budget: Budget) -> None:
        self._budget = budget
        self._zip = zipfile.ZipFile(BytesIO(body))
        self.members: dict[str, zipfile.ZipInfo] = {info.filename: info for info in self._zip.infolist()}

    def pieces(self, name: str) -> Iterator[bytes]:
        """What a member unfolds to, piece by piece."""
        info = self.members.get(name)
        if info is None:
            raise Unreadable(f"has no {name[:100]}")
        if info.flag_bits & 1:
            raise Unreadable("is protected by a password")
        with self._zip.open(info) as stream:
            yield from self._budget.unfold(stream)

    def head(self, name: str, size: int) -> bytes:
        """The first bytes of a member."""
        info = self.members[name]
        if info.flag_bits & 1:
            raise Unreadable("is protected by a password")
        with self._zip.open(info) as stream:
            return stream.read(size)

    def read(self, name: str) -> bytes:
        """All of a member."""
        return b"".join(self.pieces(name))

    def parse(self, name: str, handler: XmlHandler) -> None:
        """Let `handler` read an XML member."""
        parse_xml(self.pieces(name), handler)


def parse_xml(pieces: Iterable[bytes], handler: XmlHandler) -> None:
    """Let `handler` read XML."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = lambda tag, attributes: handler.start(
        tag.rpartition(" ")[2], {name.rpartition(" ")[2]: value for name, value in attributes.items()}
    )
    parser.EndElementHandler = lambda tag: handler.end(tag.rpartition(" ")[2])
    parser.CharacterDataHandler = handler.text
    parser.EntityDeclHandler = _refuse_entities
    for piece in pieces:
        parser.Parse(piece, False)
    parser.Parse(b"", True)


def _refuse_entities(*_: object) -> None:
    raise Unreadable("its XML declares entities")


class Properties:
    """Reads the small files with what a document says of itself: Dublin Core names, as all formats use them."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._tag = ""

    def start(self, tag: str, _: Attributes) -> None:
        """Remember where we are."""
        self._tag = tag

    def end(self, _: str) -> None:
        """Text between elements belongs to none."""
        self._tag = ""

    def text(self, text: str) -> None:
        """Of several values the first piece holds."""
        if self._tag in ("title", "language", "description") and len(self._values.get(self._tag, "")) < 4000:
            self._values[self._tag] = self._values.get(self._tag, "") + text

    def __getitem__(self, name: str) -> str:
        return self._values.get(name, "")


def properties_of(package: Package, name: str) -> Properties:
    """What the member `name` says of the document; nothing when it is missing or broken: the text counts."""
    properties = Properties()
    if name in package.members:
        try:
            package.parse(name, properties)
        except (expat.ExpatError, zipfile.BadZipFile, ValueError):
            return properties
    return properties


def path_in(folder: str, href: str) -> str:
    """The member that an address in a file of `folder` means."""
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0]))).lstrip("/")
