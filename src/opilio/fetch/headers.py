"""Pure functions on the heads of requests and responses, and on the type of a body.

The type of a body is that of its Content-Type, or that of its first bytes where the header is missing or wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus

from opilio.fetch.decoding import HTML_LIKE

MAX_RETRY_AFTER_S = 10.0 * 365 * 86_400

_STATUS_LINE = re.compile(rb"HTTP/([0-9.]+) +([0-9]{3})(?: +([^\r\n]*))?")
_REASONS = {status.value: status.phrase for status in HTTPStatus}
SNIFF_BYTES = 1024
UNKNOWN_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream"})
"""Types that servers send for files of unknown type."""

# The first bytes of formats that are never text, whatever the header says.
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


def status_of(line: bytes) -> int:
    """The status code of a status line; 0 if it is not one."""
    found = _STATUS_LINE.match(line)
    return int(found.group(2)) if found else 0


def parse_headers(lines: Sequence[bytes]) -> dict[str, str]:
    """Headers by lower-case name, from lines without the status line; repeated headers are joined by a comma.

    Those of X-Robots-Tag are joined by a line end: each may be addressed to another crawler.
    """
    headers: dict[str, str] = {}
    name = ""
    for line in lines:
        text = line.decode("latin-1")
        if text[:1] in (" ", "\t"):  # a folded line continues the previous header
            if name:
                headers[name] = f"{headers[name]} {text.strip()}".strip()
            continue
        head, colon, value = text.partition(":")
        if not colon:
            continue
        name = head.strip().lower()
        value = value.strip()
        joint = "\n" if name == "x-robots-tag" else ", "
        headers[name] = f"{headers[name]}{joint}{value}" if name in headers else value
    return headers


def raw_head(lines: Sequence[bytes]) -> bytes:
    """The head as received, ending in an empty line; an HTTP/2 status line is written in the form of HTTP/1.1."""
    if not lines:
        return b""
    first = lines[0]
    found = None if first.startswith(b"HTTP/1") else _STATUS_LINE.match(first)
    if found:
        reason = found.group(3) or _REASONS.get(int(found.group(2)), "").encode()
        first = b"HTTP/1.1 %s %s\r\n" % (found.group(2), reason)
    head = first + b"".join(lines[1:])
    return head if head.endswith((b"\r\n\r\n", b"\n\n")) else head + b"\r\n"


def request_head(host: str, target: str, headers: Sequence[str]) -> bytes:
    """The head of a GET request as libcurl sends it with these headers."""
    return "\r\n".join((f"GET {target} HTTP/1.1", f"Host: {host}", *headers, "", "")).encode("latin-1", "replace")


def retry_after_s(value: str, now_s: float) -> float:
    """The wait that a Retry-After header (seconds or a date) asks for; 0 if it is not usable."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value), MAX_RETRY_AFTER_S) if len(value) < 12 else MAX_RETRY_AFTER_S
    try:
        when = parsedate_to_datetime(value)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return min(max(when.timestamp() - now_s, 0.0), MAX_RETRY_AFTER_S)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0


def safe_value(value: str) -> str:
    """A header value without line ends and other control characters. Some values were sent to us by a server."""
    return "".join(char for char in value if char.isprintable())


def media_type(content_type: str) -> str:
    """The bare type in a Content-Type header, in lower case; '' if there is none."""
    found = _TYPE.match(content_type.strip().lower())
    return found.group() if found else ""


def is_text(mime_type: str) -> bool:
    """Whether a type means text."""
    return mime_type.startswith("text/") or mime_type.endswith(("+xml", "/xml"))


def sniff(start: bytes, content_type: str = "") -> str:
    """The type of a body by its first bytes: `text/html`, `text/plain` or a binary type.

    `content_type` is the header as sent: its charset distinguishes UTF-16, which is full of NULs, from binary data.
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
    """Whether more than 2 % are control characters: a stray NUL is tolerated, binary data is not."""
    return (len(start) - len(start.translate(None, _CONTROLS))) * 50 > len(start)
