"""Pictures: which address of a page is its picture and which its icon, and what the bytes of a picture are.

Only raster formats count, recognised by their first bytes, whatever the server says: PNG, JPEG, GIF, WebP and ICO. SVG
never does, because it can contain scripts. Nothing is decoded: type and size are read from the header of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from opilio.model import Picture

MAX_SIDE = 10_000
"""Pixels: a larger picture would take a browser a gigabyte to decode."""
_OF_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_MAX_JPEG_SEGMENTS = 500


def icon_of(links: Sequence[tuple[str, str]]) -> str:
    """The address of the icon, as written, from the relation and address of each `link` element of a page.

    An icon for browsers comes before one for telephones. A drawing is passed over.
    """
    for name in ("icon", "apple-touch-icon"):
        for relation, href in links:
            if name in relation.split() and not href.partition("?")[0].lower().endswith(".svg"):
                return href
    return ""


def read_picture(data: bytes) -> Picture | None:
    """The picture in `data`; None if it is not of a known format, is broken, or would be too large to show."""
    for magic, mime_type, size_of in _FORMATS:
        if data.startswith(magic):
            try:
                width, height = size_of(data)
            except (struct.error, ValueError, IndexError):  # cut off
                return None
            if not 0 < width <= MAX_SIDE or not 0 < height <= MAX_SIDE:
                return None
            return Picture(mime_type, width, height, data)
    return None


def _png(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from(">II", data, 16)
    return (width, height) if data[12:16] == b"IHDR" else (0, 0)


def _gif(data: bytes) -> tuple[int, int]:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _jpeg(data: bytes) -> tuple[int, int]:
    """Skip from segment to segment to the one that begins a frame."""
    at = 2
    for _ in range(_MAX_JPEG_SEGMENTS):
        while data[at] == 0xFF and data[at + 1] == 0xFF:  # filling
            at += 1
        marker, length = data[at + 1], struct.unpack_from(">H", data, at + 2)[0]
        if data[at] != 0xFF or length < 2:
            break
        if marker in _OF_JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + length
    return 0, 0


def _webp(data: bytes) -> tuple[int, int]:
    kind = data[12:16] if data[8:12] == b"WEBP" else b""
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L" and data[20] == 0x2F:
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X" and len(data) >= 30:
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return 0, 0


def _ico(data: bytes) -> tuple[int, int]:
    """The largest of the pictures in it."""
    count = struct.unpack_from("<H", data, 4)[0]
    sizes = [(data[6 + 16 * n] or 256, data[7 + 16 * n] or 256) for n in range(min(count, 64))]
    return max(sizes, default=(0, 0))


_FORMATS = (
    (b"\x89PNG\r\n\x1a\n", "image/png", _png),
    (b"\xff\xd8\xff", "image/jpeg", _jpeg),
    (b"GIF87a", "image/gif", _gif),
    (b"GIF89a", "image/gif", _gif),
    (b"RIFF", "image/webp", _webp),
    (b"\x00\x00\x01\x00", "image/x-icon", _ico),
)
