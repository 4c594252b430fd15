"""Formats: what kind of file some bytes are, and which reader reads it.

The *kind* of a file is a MIME type, determined by the bytes themselves, by the declared type, and by the suffix of the
name. The bytes come first, because servers send RTF as Word, HTML as PDF, and anything as `octet-stream`. One kind
covers a whole family: everything in a zip file (docx, odt, epub) is `ZIP`, everything in an OLE file (doc, ppt) is
`OLE`; the reader finds out which member of the family it is.

A reader registers under its kind; built-in readers and plug-ins do it in the same way. There are two registries,
because there are two places to read in. Readers in `FORMATS` (HTML, plain text) run in the worker itself: they must be
fast and never raise. Readers in `DOCUMENTS` (PDF, office files, archives) run in a separate process, which is killed if
it takes too long or too much memory; they may raise anything.
"""

from __future__ import annotations

import re
from typing import Protocol

from opilio.analyze.content import Content, Source
from opilio.analyze.documents.reading import ReadingContext, Unreadable
from opilio.registry import Registry

HTML, XHTML, PLAIN = "text/html", "application/xhtml+xml", "text/plain"
PDF, POSTSCRIPT, RTF = "application/pdf", "application/postscript", "application/rtf"
ZIP, OLE, TAR = "application/zip", "application/x-ole-storage", "application/x-tar"
GZIP, BZIP2, XZ = "application/gzip", "application/x-bzip2", "application/x-xz"

DOCUMENT_KINDS = {
    PDF: "PDF",
    POSTSCRIPT: "PostScript file",
    RTF: "RTF file",
    ZIP: "zip file",
    OLE: "Word or PowerPoint file",
    TAR: "tar file",
    GZIP: "gzip file",
    BZIP2: "bzip2 file",
    XZ: "xz file",
}
"""The kinds that are read in a separate process, with their names for users."""

SNIFF_BYTES = 1024

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", PDF),
    (b"%!PS", POSTSCRIPT),
    (b"\x04%!", POSTSCRIPT),
    (b"{\\rtf", RTF),
    (b"PK\x03\x04", ZIP),
    (b"PK\x05\x06", ZIP),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLE),
    (b"\x1f\x8b\x08", GZIP),
    (b"BZh", BZIP2),
    (b"\xfd7zXZ\x00", XZ),
)
_MAGIC_STARTS = tuple(start for start, _ in _MAGIC)
_TAR_MAGIC_AT, _TAR_MAGIC = 257, b"ustar"

_OFFICE_XML = "application/vnd.openxmlformats-officedocument."
_OPENDOCUMENT = "application/vnd.oasis.opendocument."
_ALIASES: dict[str, tuple[str, ...]] = {
    PDF: ("application/x-pdf", "application/acrobat", "application/vnd.pdf", "text/pdf"),
    POSTSCRIPT: ("application/ps", "application/x-ps", "application/x-postscript", "text/postscript"),
    RTF: ("text/rtf", "text/richtext", "application/x-rtf"),
    ZIP: (
        *("application/x-zip", "application/x-zip-compressed", "multipart/x-zip", "application/epub+zip"),
        *(f"{_OFFICE_XML}wordprocessingml.{part}" for part in ("document", "template")),
        *(f"{_OFFICE_XML}presentationml.{part}" for part in ("presentation", "slideshow", "template")),
        f"{_OFFICE_XML}spreadsheetml.sheet",
        "application/vnd.ms-word.document.macroenabled.12",
        "application/vnd.ms-powerpoint.presentation.macroenabled.12",
        *(f"{_OPENDOCUMENT}{part}" for part in ("text", "presentation", "spreadsheet", "text-template")),
    ),
    OLE: (
        *("application/msword", "application/x-msword", "application/vnd.ms-word", "application/doc"),
        *("application/vnd.ms-powerpoint", "application/mspowerpoint", "application/powerpoint"),
        "application/x-mspowerpoint",
    ),
    TAR: ("application/tar", "application/x-gtar", "application/x-ustar"),
    GZIP: (
        *("application/x-gzip", "application/gzip-compressed", "application/x-gunzip", "application/x-tgz"),
        *("application/x-gtar-compressed", "application/x-compressed-tar", "application/x-tar-gz"),
    ),
    BZIP2: ("application/bzip2", "application/x-bzip", "application/x-bzip-compressed-tar"),
    XZ: ("application/xz", "application/x-xz-compressed-tar"),
}  # fmt: skip
_KIND_OF_TYPE = {alias: kind for kind, aliases in _ALIASES.items() for alias in (kind, *aliases)}
# Types that servers send for files of unknown type.
_UNKNOWN_TYPES = frozenset(
    {
        *("", "application/octet-stream", "binary/octet-stream", "application/x-download", "application/download"),
        *("application/force-download", "application/x-octet-stream", "application/unknown"),
    }
)
_KIND_OF_SUFFIX = {
    **dict.fromkeys(("html", "htm", "shtml"), HTML),
    **dict.fromkeys(("xhtml", "xht"), XHTML),
    **dict.fromkeys(("txt", "text", "md", "rst"), PLAIN),
    "tar": TAR,
}
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]+)", re.IGNORECASE)
_SUFFIX = re.compile(r"\.([A-Za-z0-9]{1,8})$")
_HTML_STARTS = (b"<!doctype html", b"<html", b"<head", b"<body", b"<title", b"<!--")
# Text files for machines, which are common in archives.
_DATA_SUFFIXES = frozenset({"css", "js", "json", "map", "svg", "xml", "lock", "csv", "tsv"})
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # UTF-16, in which zero bytes are normal
# Bytes that do not occur in text.
_BINARY = bytes({*range(9), 11, *range(14, 27), *range(28, 32)})


def media_type(content_type: str) -> str:
    """The MIME type of a Content-Type header, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def charset_of(content_type: str) -> str:
    """The charset in a Content-Type header, '' if there is none."""
    found = _CHARSET.search(content_type)
    return found.group(1) if found else ""


def kind_of(mime: str, body: bytes, name: str = "") -> str:
    """The kind of `body`, declared as `mime` ('' if unknown), with its name or URL; `mime` itself if no kind fits."""
    if body.startswith(_MAGIC_STARTS):
        return next(kind for start, kind in _MAGIC if body.startswith(start))
    kind = _KIND_OF_TYPE.get(mime)
    if kind is None and mime not in _UNKNOWN_TYPES:
        return mime
    if body[_TAR_MAGIC_AT : _TAR_MAGIC_AT + len(_TAR_MAGIC)] == _TAR_MAGIC:
        return TAR
    looks_like_html = body[:512].lstrip().lower().startswith(_HTML_STARTS)
    if kind is not None:
        return HTML if looks_like_html else kind
    by_suffix = _KIND_OF_SUFFIX.get(suffix_of(name), "")
    if by_suffix and (by_suffix == TAR or not is_binary(body)):
        return by_suffix
    if mime:
        return mime
    return HTML if looks_like_html else PLAIN


def kind_of_member(head: bytes, name: str) -> str:
    """The kind of a member of an archive, by its first bytes and its name; '' if it is not worth reading."""
    if suffix_of(name) in _DATA_SUFFIXES:
        return ""
    kind = kind_of("", head, name)
    return "" if kind in (HTML, XHTML, PLAIN) and is_binary(head) else kind


def suffix_of(name: str) -> str:
    """The suffix of a file name or of the path of a URL, in lower case and without its dot."""
    found = _SUFFIX.search(name.partition("?")[0])
    return found.group(1).lower() if found else ""


def is_binary(body: bytes) -> bool:
    """Whether the first bytes include some that do not occur in text."""
    head = body[:SNIFF_BYTES]
    return not head.startswith(_WIDE_MARKS) and len(head.translate(None, _BINARY)) < len(head)


class FormatReader(Protocol):
    """Reads one format. Must never raise, whatever the bytes; returns None if they are not in this format."""

    def __call__(self, body: bytes, source: Source) -> Content | None:
        """The content of `body`."""
        ...  # pragma: no cover


class DocumentReader(Protocol):
    """Reads one risky format. Raises `Unreadable`, with a message for the user, if the file cannot be read."""

    def __call__(self, body: bytes, reading: ReadingContext) -> Content:
        """The content of `body`. The reader unpacks only what the budget of `reading` allows."""
        ...  # pragma: no cover


FORMATS: Registry[FormatReader] = Registry("formats")
DOCUMENTS: Registry[DocumentReader] = Registry("documents")


def read_as(kind: str, body: bytes, reading: ReadingContext) -> Content:
    """Read `body` as a file of `kind`, from either registry. Whatever is wrong with it is `Unreadable`."""
    if kind in FORMATS:
        content = FORMATS.get(kind)(body, reading.source)
        if content is None:
            raise Unreadable(f"is not {kind}")
        return content
    if kind not in DOCUMENTS:
        raise Unreadable(f"no reader for {kind}" if kind else "no reader for this kind of file")
    try:
        return DOCUMENTS.get(kind)(body, reading)
    except (Unreadable, MemoryError):
        raise
    except Exception as error:  # libraries raise all sorts of exceptions for broken files
        raise Unreadable(f"broken {DOCUMENT_KINDS.get(kind, kind)}: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """An exception as a short text."""
    return " ".join(str(error).split())[:150] or type(error).__name__
