"""Plain text: the bytes are the text. It has no title and no links."""

from __future__ import annotations

from opilio.analyze.content import Content, Source
from opilio.analyze.formats import FORMATS
from opilio.analyze.layout import MAX_TEXT_CHARS, fold_lines
from opilio.analyze.markup import decode

_SNIFFED_BYTES = 1024
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")  # UTF-16, in which zero bytes are normal
# Bytes that no text has; servers like to call unknown files text/plain.
_BINARY = bytes({*range(9), 11, *range(14, 27), *range(28, 32)})


@FORMATS.register("text/plain")
def read_plain(body: bytes, source: Source) -> Content | None:
    """Read a text file; None when it is binary."""
    head = body[:_SNIFFED_BYTES]
    wide = head.startswith(_WIDE_MARKS) or source.charset.lower().startswith("utf-16")
    if not wide and len(head.translate(None, _BINARY)) < len(head):
        return None
    text, charset = decode(body, source.charset)
    text = fold_lines(text[:MAX_TEXT_CHARS])
    return Content(text, text, charset)
