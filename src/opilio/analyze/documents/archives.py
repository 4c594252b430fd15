"""Archives (zip, tar) and compressed files (gz, bz2, xz): each member is read by the reader of its own kind.

A zip file may also be an office file or a book; its members show which. A member that cannot be read is skipped; a
member that unpacks to too much makes the whole archive unreadable.
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
from opilio.analyze.documents.epub import EPUB_MIME, read_book
from opilio.analyze.documents.office import OPENDOCUMENT_MIME, is_office, read_office, read_opendocument
from opilio.analyze.documents.package import Package
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
    kind_of_member,
    read_as,
    reason_of,
)

_SKIPPED_FOLDERS = ("__MACOSX/", ".git/", ".svn/")
_SUFFIXES = {".tgz": ".tar", ".tbz": ".tar", ".tbz2": ".tar", ".txz": ".tar", ".gz": "", ".bz2": "", ".xz": ""}
_MAX_NAME_CHARS = 200


class _Member(NamedTuple):
    """A member of an archive. `load` unpacks it; b'' if it is not worth reading."""

    name: str
    load: Callable[[], bytes]


@DOCUMENTS.register(ZIP)
def read_zip(body: bytes, reading: ReadingContext) -> Content:
    """Read a zip file: an office file, a book or an archive."""
    package = Package(body, reading.budget)
    mime = package.head("mimetype", 100).strip() if "mimetype" in package.members else b""
    if mime.startswith(OPENDOCUMENT_MIME):
        return read_opendocument(package, reading)
    if mime == EPUB_MIME or "META-INF/container.xml" in package.members:
        return read_book(package, reading)
    if is_office(package):
        return read_office(package, reading)
    _check_depth(reading)
    return _read_members(_in_zip(package), reading)


@DOCUMENTS.register(TAR)
def read_tar(body: bytes, reading: ReadingContext) -> Content:
    """Read a tar file."""
    _check_depth(reading)
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


def _check_depth(reading: ReadingContext) -> None:
    if reading.depth >= reading.budget.max_nesting:
        raise Unreadable(f"is nested in more than {reading.budget.max_nesting} archives")


def _read_compressed(stream: Stream, reading: ReadingContext) -> Content:
    """Unpack a single file and read it. It is the same document, so its links are relative to the same URL."""
    _check_depth(reading)
    body = b"".join(reading.budget.unpack(stream))
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
    # A sparse member is larger than its archive; all others are already in memory.
    return b"".join(budget.unpack(stream)) if info.issparse() else stream.read()


def _read_members(members: Iterable[_Member], reading: ReadingContext) -> Content:
    """Read all members, skipping those that cannot be read."""
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
        except Exception as error:  # this member is broken; the next one may be intact
            wrong.append(f"{name}: {reason_of(error)}")
