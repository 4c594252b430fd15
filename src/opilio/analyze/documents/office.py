"""Zip files whose members belong together, and the XML in them: what office files and electronic books are made of.

XML is read as a stream of events, so that neither its size nor its nesting costs memory. A file that declares entities
is refused: no program that writes documents does it, and every bomb made of XML does.

Word, PowerPoint and Excel files of today (docx, pptx, xlsx): XML in a zip file, links in files beside it.

OpenDocument (odt, odp, ods): the text is in `content.xml`, links are elements.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Protocol
from urllib.parse import unquote
from xml.parsers import expat

from opilio.analyze.content import Content
from opilio.analyze.documents.fields import Fields
from opilio.analyze.documents.reading import ReadingContext, UnpackBudget, Unreadable
from opilio.analyze.draft import Draft

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

    def __init__(self, body: bytes, budget: UnpackBudget) -> None:
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


# The members with text, in the order in which they are read. Headers and footers of pages say little.
_TEXTS = (
    re.compile(r"word/document\d*\.xml"),
    re.compile(r"word/(?:foot|end)notes\d*\.xml"),
    re.compile(r"ppt/slides/slide\d+\.xml"),
    re.compile(r"ppt/notesSlides/notesSlide\d+\.xml"),
    re.compile(r"xl/sharedStrings\d*\.xml"),
)
_NUMBER = re.compile(r"\d+")
_LINE_ENDS = frozenset({"p", "br", "cr", "si"})
_OFFICE_FOLDERS = ("word/", "ppt/", "xl/")


def is_office(package: Package) -> bool:
    """Whether a zip file is an office file."""
    return "[Content_Types].xml" in package.members and any(
        name.startswith(_OFFICE_FOLDERS) for name in package.members
    )


def read_office(package: Package, reading: ReadingContext) -> Content:
    """Read an office file."""
    draft = Draft()
    language = ""
    for name in _texts(package):
        links = _Relationships()
        folder, file = posixpath.split(name)
        relationships = f"{folder}/_rels/{file}.rels"
        if relationships in package.members:
            package.parse(relationships, links)
        text = _Text(draft, links.targets)
        package.parse(name, text)
        language = language or text.language
        if draft.full:
            break
    properties = properties_of(package, "docProps/core.xml")
    return draft.content(
        reading.source,
        title=properties["title"],
        language=properties["language"] or language,
        description=properties["description"],
    )


def _texts(package: Package) -> list[str]:
    names = []
    for pattern in _TEXTS:
        found = [name for name in package.members if pattern.fullmatch(name)]
        names += sorted(found, key=lambda name: [int(number) for number in _NUMBER.findall(name)])
    return names


class _Relationships:
    """Reads the file that says where the links of another file lead to."""

    def __init__(self) -> None:
        self.targets: dict[str, str] = {}

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "Relationship" and attributes.get("Type", "").endswith("/hyperlink"):
            self.targets[attributes.get("Id", "")] = attributes.get("Target", "")

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


class _Text:
    """Reads a file with text. Word and PowerPoint name paragraphs, runs and texts alike."""

    def __init__(self, draft: Draft, targets: dict[str, str]) -> None:
        self._draft = draft
        self._targets = targets
        self._fields = Fields(draft)
        self._in_text = self._in_instruction = self._in_run = self._run_is_link = False
        self._skipped = 0
        """How many elements deep we are in a part that repeats another one for older programs."""
        self.language = ""

    def start(self, tag: str, attributes: Attributes) -> None:
        if self._skipped or tag == "Fallback":
            self._skipped += 1
        elif tag == "t":
            self._in_text = True
        elif tag == "instrText":
            self._in_instruction = True
        elif tag in ("tab", "tc"):
            self._fields.add(" ")
        elif tag == "r":
            self._in_run = True
        elif tag == "rPr":
            self.language = self.language or attributes.get("lang", "")  # PowerPoint
        elif tag == "lang":
            self.language = self.language or attributes.get("val", "")  # Word
        elif tag in ("hyperlink", "hlinkClick", "fldChar", "fldSimple"):
            self._start_link(tag, attributes)

    def _start_link(self, tag: str, attributes: Attributes) -> None:
        if tag == "fldChar":
            step = {"begin": self._fields.begin, "separate": self._fields.show, "end": self._fields.end}
            if act := step.get(attributes.get("fldCharType", "")):
                act()
        elif tag == "fldSimple":
            self._fields.begin()
            self._fields.instruct(attributes.get("instr", ""))
            self._fields.show()
        elif target := self._targets.get(attributes.get("id", "")):
            if tag == "hyperlink" or self._in_run:
                self._draft.begin_link(target)
                self._run_is_link = tag == "hlinkClick"
            else:  # of a picture or a box
                self._draft.add_link(target, attributes.get("tooltip", ""))

    def end(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif tag == "t":
            self._in_text = False
        elif tag == "instrText":
            self._in_instruction = False
        elif tag == "fldSimple":
            self._fields.end()
        elif tag == "hyperlink":
            self._draft.end_link()
        elif tag == "r":
            if self._run_is_link:
                self._draft.end_link()
            self._in_run = self._run_is_link = False
        elif tag in _LINE_ENDS:
            self._fields.end_line()

    def text(self, text: str) -> None:
        if self._skipped:
            return
        if self._in_text:
            self._fields.add(text)
        elif self._in_instruction:
            self._fields.instruct(text)


MIME_START = b"application/vnd.oasis.opendocument."

_MANIFEST = "META-INF/manifest.xml"
_PARAGRAPHS = frozenset({"p", "h"})
_SKIPPED = frozenset({"tracked-changes", "annotation"})
"""Deleted text, and notes of editors."""


def read_opendocument(package: Package, reading: ReadingContext) -> Content:
    """Read an OpenDocument file."""
    if _MANIFEST in package.members and b"encryption-data" in package.read(_MANIFEST):
        raise Unreadable("is protected by a password")
    draft = Draft()
    package.parse("content.xml", _OpenDocumentText(draft))
    properties = properties_of(package, "meta.xml")
    return draft.content(
        reading.source,
        title=properties["title"],
        language=properties["language"],
        description=properties["description"],
    )


class _OpenDocumentText:
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
