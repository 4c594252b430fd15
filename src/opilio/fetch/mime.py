"""What a body is: by its Content-Type, and by its bytes where the header is missing or lies."""

from __future__ import annotations

import re

from opilio.fetch.decoding import HTML_LIKE

SNIFF_BYTES = 1024
SAYS_NOTHING = frozenset({"", "application/octet-stream", "binary/octet-stream"})
"""Types that servers give to files they know nothing of."""

# First bytes of formats that are never text, whatever the header says.
_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF8", "image/gif"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"%PDF-", "application/pdf"),
    (b"%!PS", "application/postscript"),
    (b"{\\rtf", "application/rtf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (b"\x7fELF", "application/x-executable"),
    (b"OggS", "application/ogg"),
    (b"ID3", "audio/mpeg"),
    (b"wOFF", "font/woff"),
    (b"wOF2", "font/woff2"),
    (b"\x00asm", "application/wasm"),
)  # fmt: skip
_MAGIC_STARTS = tuple(start for start, _ in _MAGIC)
_UTF16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff", b"<\x00", b"\x00<")
_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]+/[a-z0-9!#$&^_.+-]+")
_TEXT_CONTROLS = bytes({*range(7, 14), 27})
_CONTROLS = bytes(sorted(set(range(32)) - set(_TEXT_CONTROLS)))


def media_type(content_type: str) -> str:
    """The bare type of a Content-Type header, in lower case; '' when it names none."""
    found = _TYPE.match(content_type.strip().lower())
    return found.group() if found else ""


def is_text(mime_type: str) -> bool:
    """Whether a type promises text."""
    return mime_type.startswith("text/") or mime_type.endswith(("+xml", "/xml"))


def sniff(start: bytes, content_type: str = "") -> str:
    """The type that the first bytes of a body show: `text/html`, `text/plain`, a binary type.

    `content_type` is the header as sent: its charset tells UTF-16, full of NULs, from binary data.
    """
    start = start[:SNIFF_BYTES]
    if start.startswith(_MAGIC_STARTS):
        return next(name for magic, name in _MAGIC if start.startswith(magic))
    if start.startswith(b"RIFF") and start[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return "application/x-riff"
    if start[257:262] == b"ustar":
        return "application/x-tar"
    if start[4:8] == b"ftyp":
        return "video/mp4"
    if HTML_LIKE.match(start):
        return "application/octet-stream" if _many_controls(start) else "text/html"
    if start.startswith(_UTF16_OR_32) or "utf-16" in content_type.lower() or "utf-32" in content_type.lower():
        return "text/html" if b"<" in start else "text/plain"
    return "application/octet-stream" if _many_controls(start) else "text/plain"


def _many_controls(start: bytes) -> bool:
    """Control characters past 2 %: a stray NUL is forgiven, binary data is not."""
    return (len(start) - len(start.translate(None, _CONTROLS))) * 50 > len(start)
