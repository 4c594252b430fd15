"""Office files: Word, PowerPoint and Excel since 2007 (docx, pptx, xlsx), and OpenDocument (odt, odp, ods).

All are packages of XML. Microsoft's formats keep the targets of links in a separate member for each text; OpenDocument
has its text in `content.xml`, with links as elements.
"""

from __future__ import annotations

import posixpath
import re

from opilio.analyze.content import Content
from opilio.analyze.documents.fields import Fields
from opilio.analyze.documents.package import Attributes, Package, properties_of
from opilio.analyze.documents.reading import ReadingContext, Unreadable
from opilio.analyze.draft import Draft

OPENDOCUMENT_MIME = b"application/vnd.oasis.opendocument."
_MANIFEST = "META-INF/manifest.xml"
_PARAGRAPHS = frozenset({"p", "h"})
_SKIPPED = frozenset({"tracked-changes", "annotation"})
"""Deleted text, and comments."""
# The members with text, in reading order. Page headers and footers are not worth reading.
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
    """Reads the member that lists the link targets of another member."""

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
    """Reads a member with text. Word and PowerPoint use the same names for paragraphs, runs and texts."""

    def __init__(self, draft: Draft, targets: dict[str, str]) -> None:
        self._draft = draft
        self._targets = targets
        self._fields = Fields(draft)
        self._in_text = self._in_instruction = self._in_run = self._run_is_link = False
        self._skipped = 0
        """Depth inside a part that repeats another one for older programs; 0: outside."""
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
            else:  # the link of a picture or a box
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
    """Reads `content.xml`. Only paragraphs and headings have text; whitespace between elements is layout."""

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
