"""Electronic books (EPUB): chapters of XHTML in a zip file."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from opilio.analyze.content import Content
from opilio.analyze.documents.package import Attributes, Package, Properties, path_in, properties_of
from opilio.analyze.documents.reading import ReadingContext, Unreadable
from opilio.analyze.draft import INSIDE, join
from opilio.analyze.formats import is_binary, suffix_of
from opilio.analyze.html import read_xhtml

EPUB_MIME = b"application/epub+zip"

_CHAPTER_SUFFIXES = frozenset({"xhtml", "html", "htm", "xml"})


def read_book(package: Package, reading: ReadingContext) -> Content:
    """Read a book: its chapters in the order it declares, or all pages if it declares none."""
    container = _Container()
    package.parse("META-INF/container.xml", container)
    listing = _PackageDocument()
    properties = Properties()
    if container.path in package.members:
        package.parse(container.path, listing)
        properties = properties_of(package, container.path)
    folder = posixpath.dirname(container.path)
    chapters = [path_in(folder, href) for href in listing.chapters]
    chapters = [name for name in chapters if name in package.members] or _pages(package)
    book = join(
        (("", chapter) for chapter in _read(package, chapters, reading)),
        reading.source,
        title=properties["title"],
        language=properties["language"],
        description=properties["description"],
    )
    if book is None:
        raise Unreadable("the book has no chapters that can be read")
    return book


def _read(package: Package, chapters: list[str], reading: ReadingContext) -> Iterator[Content]:
    for name in chapters:
        if not reading.budget.take_member():
            return
        body = package.read(name)
        inside = reading.inside(f"{INSIDE}{posixpath.basename(name)}", name, reading.depth)
        if not is_binary(body) and (content := read_xhtml(body, inside.source)) is not None:
            yield content


def _pages(package: Package) -> list[str]:
    return sorted(name for name in package.members if suffix_of(name) in _CHAPTER_SUFFIXES - {"xml"})


class _Container:
    """Reads where the package document is, which lists the chapters."""

    def __init__(self) -> None:
        self.path = ""

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "rootfile" and not self.path:
            self.path = attributes.get("full-path", "")

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


class _PackageDocument:
    """Reads which files the book has, and their order."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._order: dict[str, None] = {}

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "item" and "html" in attributes.get("media-type", ""):
            self._files[attributes.get("id", "")] = attributes.get("href", "")
        elif tag == "itemref":
            self._order[attributes.get("idref", "")] = None

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass

    @property
    def chapters(self) -> list[str]:
        return [self._files[name] for name in self._order if name in self._files]
