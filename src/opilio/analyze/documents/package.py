"""Packages: zip files with XML members, the basis of office files and electronic books.

XML is read as a stream of events, so that neither its size nor its nesting costs memory. A file that declares entities
is rejected: no program that writes documents declares any, and every XML bomb does.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Protocol
from urllib.parse import unquote
from xml.parsers import expat

from opilio.analyze.documents.reading import UnpackBudget, Unreadable

Attributes = dict[str, str]


class XmlHandler(Protocol):
    """Receives the contents of an XML file in order. Names come without their namespaces."""

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

    def __init__(self, body: bytes, budget: UnpackBudget) -> None:
        self._budget = budget
        self._zip = zipfile.ZipFile(BytesIO(body))
        self.members: dict[str, zipfile.ZipInfo] = {info.filename: info for info in self._zip.infolist()}

    def pieces(self, name: str) -> Iterator[bytes]:
        """The unpacked bytes of a member, piece by piece."""
        info = self.members.get(name)
        if info is None:
            raise Unreadable(f"has no {name[:100]}")
        if info.flag_bits & 1:
            raise Unreadable("is protected by a password")
        with self._zip.open(info) as stream:
            yield from self._budget.unpack(stream)

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
        """Parse an XML member with `handler`."""
        parse_xml(self.pieces(name), handler)


def parse_xml(pieces: Iterable[bytes], handler: XmlHandler) -> None:
    """Parse XML with `handler`."""
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler = lambda tag, attributes: handler.start(
        tag.rpartition(" ")[2], {name.rpartition(" ")[2]: value for name, value in attributes.items()}
    )
    parser.EndElementHandler = lambda tag: handler.end(tag.rpartition(" ")[2])
    parser.CharacterDataHandler = handler.text
    parser.EntityDeclHandler = _reject_entities
    for piece in pieces:
        parser.Parse(piece, False)
    parser.Parse(b"", True)


def _reject_entities(*_: object) -> None:
    raise Unreadable("its XML declares entities")


class Properties:
    """Reads the properties of a document, which all formats name as Dublin Core does."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._tag = ""

    def start(self, tag: str, _: Attributes) -> None:
        """Note the current element."""
        self._tag = tag

    def end(self, _: str) -> None:
        """Text between elements is ignored."""
        self._tag = ""

    def text(self, text: str) -> None:
        """Collect the text of the properties that are used."""
        if self._tag in ("title", "language", "description") and len(self._values.get(self._tag, "")) < 4000:
            self._values[self._tag] = self._values.get(self._tag, "") + text

    def __getitem__(self, name: str) -> str:
        return self._values.get(name, "")


def properties_of(package: Package, name: str) -> Properties:
    """The properties in the member `name`; none if it is missing or broken, because the text is what counts."""
    properties = Properties()
    if name in package.members:
        try:
            package.parse(name, properties)
        except (expat.ExpatError, zipfile.BadZipFile, ValueError):
            return properties
    return properties


def path_in(folder: str, href: str) -> str:
    """The member that an address in a file of `folder` refers to."""
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0]))).lstrip("/")
