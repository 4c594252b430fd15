"""Pictures drawn by code, for tests: real files in each format that counts, and files that only look like one."""

import struct
import zlib


def png(width: int, height: int, colour: tuple[int, int, int] = (200, 60, 20)) -> bytes:
    """A picture of one colour that every browser shows."""
    rows = (b"\0" + bytes(colour) * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def gif(width: int, height: int) -> bytes:
    """The head of one."""
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\x00\x00\x00;"


def jpeg(width: int, height: int) -> bytes:
    """The head of one: a comment, then the frame."""
    comment = b"\xff\xfe" + struct.pack(">H", 2 + 300) + b"c" * 300
    return b"\xff\xd8" + comment + b"\xff\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)


def webp(width: int, height: int, kind: str = "VP8X") -> bytes:
    """The head of one of the three kinds."""
    heads = {
        "VP8X": bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"),
        "VP8L": b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14),
        "VP8 ": bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height),
    }
    body = b"WEBP" + kind.encode() + struct.pack("<I", len(heads[kind])) + heads[kind]
    return b"RIFF" + struct.pack("<I", len(body)) + body


def ico(*sizes: int) -> bytes:
    """One with pictures of these sizes."""
    pictures = [png(size, size) for size in sizes]
    at, entries = 6 + 16 * len(sizes), b""
    for size, data in zip(sizes, pictures, strict=True):
        entries += struct.pack("<BBBBHHII", size % 256, size % 256, 0, 0, 1, 32, len(data), at)
        at += len(data)
    return struct.pack("<HHH", 0, 1, len(sizes)) + entries + b"".join(pictures)
