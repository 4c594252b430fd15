"""Electronic books (EPUB): a list of chapters, each a page of XHTML in a zip file.

Archives (zip, tar) and compressed files (gz, bz2, xz): each member goes to the reader of its own kind.

A zip file may also be an office file or a book; what is in it tells. A member that cannot be read costs that member;
what unfolds too far costs the archive.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import posixpath
import tarfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BytesIO
from typing import NamedTuple
from urllib.parse import quote

from opilio.analyze.content import Content
from opilio.analyze.documents.office import MIME_START as OPENDOCUMENT_START
from opilio.analyze.documents.office import (
    Attributes,
    Package,
    Properties,
    is_office,
    path_in,
    properties_of,
    read_office,
    read_opendocument,
)
from opilio.analyze.documents.reading import Bomb, ReadingContext, Stream, UnpackBudget, Unreadable
from opilio.analyze.draft import INSIDE, clean, join
from opilio.analyze.formats import (
    BZIP2,
    DOCUMENTS,
    GZIP,
    SNIFF_BYTES,
    TAR,
    XZ,
    ZIP,
    is_binary,
    kind_of_member,
    read_as,
    reason_of,
    suffix_of,
)
from opilio.analyze.html import read_xhtml

MIME = b"application/epub+zip"

_CHAPTER_SUFFIXES = frozenset({"xhtml", "html", "htm", "xml"})


def read_epub(package: Package, reading: ReadingContext) -> Content:
    """Read a book: the chapters in the order it names, or all pages when it names none."""
    container = _Container()
    package.parse("META-INF/container.xml", container)
    plan = _Plan()
    properties = Properties()
    if container.path in package.members:
        package.parse(container.path, plan)
        properties = properties_of(package, container.path)
    folder = posixpath.dirname(container.path)
    chapters = [path_in(folder, href) for href in plan.chapters]
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
    """Reads where the plan of the book is."""

    def __init__(self) -> None:
        self.path = ""

    def start(self, tag: str, attributes: Attributes) -> None:
        if tag == "rootfile" and not self.path:
            self.path = attributes.get("full-path", "")

    def end(self, tag: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


class _Plan:
    """Reads which files the book has and in which order they are to be read."""

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


_SKIPPED_FOLDERS = ("__MACOSX/", ".git/", ".svn/")
_SUFFIXES = {".tgz": ".tar", ".tbz": ".tar", ".tbz2": ".tar", ".txz": ".tar", ".gz": "", ".bz2": "", ".xz": ""}
_MAX_NAME_CHARS = 200


class _Member(NamedTuple):
    """A member of an archive: its bytes are unfolded when it is loaded, b'' when they are nothing to read."""

    name: str
    load: Callable[[], bytes]


@DOCUMENTS.register(ZIP)
def read_zip(body: bytes, reading: ReadingContext) -> Content:
    """Read a zip file, whatever it is: an office file, a book, an archive."""
    package = Package(body, reading.budget)
    mime = package.head("mimetype", 100).strip() if "mimetype" in package.members else b""
    if mime.startswith(OPENDOCUMENT_START):
        return read_opendocument(package, reading)
    if mime == MIME or "META-INF/container.xml" in package.members:
        return read_epub(package, reading)
    if is_office(package):
        return read_office(package, reading)
    _refuse_deep(reading)
    return _read_members(_in_zip(package), reading)


@DOCUMENTS.register(TAR)
def read_tar(body: bytes, reading: ReadingContext) -> Content:
    """Read a tar file."""
    _refuse_deep(reading)
    with tarfile.open(fileobj=BytesIO(body), mode="r:") as archive:
        return _read_members(_in_tar(archive, reading.budget), reading)


@DOCUMENTS.register(GZIP)
def read_gzip(body: bytes, reading: ReadingContext) -> Content:
    """Read a gzip file."""
    return _read_compressed(gzip.GzipFile(fileobj=BytesIO(body)), reading)


@DOCUMENTS.register(BZIP2)
def read_bzip2(body: bytes, reading: ReadingContext) -> Content:
    """Read a bzip2 file."""
    return _read_compressed(bz2.BZ2File(BytesIO(body)), reading)


@DOCUMENTS.register(XZ)
def read_xz(body: bytes, reading: ReadingContext) -> Content:
    """Read an xz file."""
    return _read_compressed(lzma.LZMAFile(BytesIO(body)), reading)


def _refuse_deep(reading: ReadingContext) -> None:
    if reading.depth >= reading.budget.max_nesting:
        raise Unreadable(f"stands in more than {reading.budget.max_nesting} archives")


def _read_compressed(stream: Stream, reading: ReadingContext) -> Content:
    """Unfold a single file and read it; as it is one file, its links are relative to the same URL."""
    _refuse_deep(reading)
    body = b"".join(reading.budget.unfold(stream))
    name = reading.name
    for suffix, instead in _SUFFIXES.items():
        if name.lower().endswith(suffix):
            name = name[: -len(suffix)] + instead
            break
    kind = kind_of_member(body, name)
    depth = reading.depth if kind == TAR else reading.depth + 1  # tar.gz is one archive, not one in another
    return read_as(kind, body, reading.inside(reading.source.url, name, depth))


def _in_zip(package: Package) -> Iterator[_Member]:
    for name, info in package.members.items():
        if not info.is_dir():
            yield _Member(name, partial(_load_zipped, package, name))


def _load_zipped(package: Package, name: str) -> bytes:
    return package.read(name) if kind_of_member(package.head(name, SNIFF_BYTES), name) else b""


def _in_tar(archive: tarfile.TarFile, budget: UnpackBudget) -> Iterator[_Member]:
    for info in archive:
        if info.isreg():
            yield _Member(info.name, partial(_load_tarred, archive, info, budget))


def _load_tarred(archive: tarfile.TarFile, info: tarfile.TarInfo, budget: UnpackBudget) -> bytes:
    stream = archive.extractfile(info)
    if stream is None:
        return b""
    # A sparse member is larger than the archive that it stands in; all others are there already.
    return b"".join(budget.unfold(stream)) if info.issparse() else stream.read()


def _read_members(members: Iterable[_Member], reading: ReadingContext) -> Content:
    """Read all members, passing over those that cannot be read."""
    wrong: list[str] = []
    content = join(_readable(members, reading, wrong), reading.source, name=reading.name)
    if content is None:
        raise Unreadable(f"nothing in it can be read ({wrong[0]})" if wrong else "nothing in it can be read")
    return content


def _readable(members: Iterable[_Member], reading: ReadingContext, wrong: list[str]) -> Iterator[tuple[str, Content]]:
    for member in members:
        name = " ".join(clean(member.name[-_MAX_NAME_CHARS:]).split())
        if name.startswith(_SKIPPED_FOLDERS):
            continue
        if not reading.budget.take_member():
            return
        file = posixpath.basename(name)
        try:
            body = member.load()
            if kind := kind_of_member(body, name) if body else "":
                yield name, read_as(kind, body, reading.inside(INSIDE + quote(file), file, reading.depth + 1))
        except (Bomb, MemoryError):
            raise
        except Exception as error:  # of a broken member; the next one may be whole
            wrong.append(f"{name}: {reason_of(error)}")
