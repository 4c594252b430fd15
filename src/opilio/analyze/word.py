"""Old Word files (.doc, Word 6 to 2003): text in pieces, and a table that says in which order they are to be read.

The stream `WordDocument` begins with the *file information block* (FIB): where everything is. Its *piece table* stands
in another stream; each piece is a stretch of characters, of one byte (Windows-1252) or two (UTF-16). Characters below
32 are structure: paragraph ends, table cells, fields.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from opilio.analyze.draft import Draft
from opilio.analyze.fields import Fields
from opilio.analyze.reading import Unreadable

_MAGIC = 0xA5EC
_WORD_6_MAGIC = 0xA5DC
_FIRST_WORD_97 = 106
"""Versions of the format from here on have a piece table in all files, and UTF-16."""
_ENCRYPTED, _USES_TABLE_1, _IN_PIECES = 0x0100, 0x0200, 0x0004
_WORD_97_CLX, _WORD_6_CLX = 0x01A2, 0x0160
_PROPERTIES, _PIECES = 1, 2  # what a block of the piece table's stream is
_ONE_BYTE = 0x4000_0000
"""In the offset of a piece: its characters have one byte."""
_STRUCTURE = re.compile("([\x07\x0b\x0c\r\n\x13\x14\x15])")
_LINE_ENDS = frozenset("\x0b\x0c\r\n")


class _Piece(NamedTuple):
    characters: int
    offset: int
    one_byte: bool


def write_word(stream: bytes, tables: Mapping[str, bytes], draft: Draft) -> int:
    """Write the text of a Word file to `draft`; returns the number of its language."""
    magic, version, _, language, _, flags = struct.unpack_from("<6H", stream)
    if magic not in (_MAGIC, _WORD_6_MAGIC):
        raise Unreadable("broken Word file: it does not begin as one")
    if flags & _ENCRYPTED:
        raise Unreadable("is protected by a password")
    if version >= _FIRST_WORD_97:
        table = tables["1Table" if flags & _USES_TABLE_1 else "0Table"]
        pieces = list(_pieces(_block(table, stream, _WORD_97_CLX)))
    elif flags & _IN_PIECES:
        pieces = [piece._replace(one_byte=True) for piece in _pieces(_block(stream, stream, _WORD_6_CLX))]
    else:
        start, end = struct.unpack_from("<2I", stream, 0x18)
        pieces = [_Piece(max(0, end - start), start, one_byte=True)]
    if version >= _FIRST_WORD_97:
        pieces = list(_without(pieces, *_page_headers(stream)))
    _write(stream, pieces, draft)
    return int(language)


def _block(table: bytes, stream: bytes, at: int) -> bytes:
    """The block of `table` whose place stands in the FIB at `at`."""
    offset, size = struct.unpack_from("<2I", stream, at)
    return table[offset : offset + size]


def _pieces(block: bytes) -> Iterator[_Piece]:
    """The pieces, in the order of the text."""
    at = 0
    while at + 3 <= len(block) and block[at] == _PROPERTIES:
        at += 3 + int.from_bytes(block[at + 1 : at + 3], "little")
    if at + 5 > len(block) or block[at] != _PIECES:
        raise Unreadable("broken Word file: it has no table of its pieces")
    (size,) = struct.unpack_from("<I", block, at + 1)
    block = block[at + 5 : at + 5 + size]
    count = (len(block) - 4) // 12
    if count < 1:
        raise Unreadable("broken Word file: the table of its pieces is empty")
    positions = struct.unpack_from(f"<{count + 1}I", block)
    for number in range(count):
        (offset,) = struct.unpack_from("<I", block, 4 * (count + 1) + 8 * number + 2)
        one_byte = bool(offset & _ONE_BYTE)
        offset &= _ONE_BYTE - 1
        characters = max(0, positions[number + 1] - positions[number])
        yield _Piece(characters, offset // 2 if one_byte else offset, one_byte)


def _page_headers(stream: bytes) -> tuple[int, int]:
    """Where in the text the headers and footers of pages stand: after the document and its footnotes."""
    document, footnotes, headers = struct.unpack_from("<3I", stream, 0x4C)
    return document + footnotes, document + footnotes + headers


def _without(pieces: list[_Piece], start: int, end: int) -> Iterator[_Piece]:
    """The pieces without the characters from `start` to `end`."""
    position = 0
    for piece in pieces:
        before = max(0, min(piece.characters, start - position))
        after = max(0, min(piece.characters, position + piece.characters - end))
        position += piece.characters
        width = 1 if piece.one_byte else 2
        if before:
            yield piece._replace(characters=before)
        if after and before < piece.characters:
            yield piece._replace(characters=after, offset=piece.offset + width * (piece.characters - after))


def _write(stream: bytes, pieces: list[_Piece], draft: Draft) -> None:
    fields = Fields(draft)
    act = {"\x13": fields.begin, "\x14": fields.show, "\x15": fields.end}
    for piece in pieces:
        if draft.full:
            return
        if piece.one_byte:
            text = stream[piece.offset : piece.offset + piece.characters].decode("cp1252", "replace")
        else:
            text = stream[piece.offset : piece.offset + 2 * piece.characters].decode("utf-16-le", "replace")
        for part in _STRUCTURE.split(text):
            if part in act:
                act[part]()
            elif part in _LINE_ENDS:
                fields.end_line()
            else:
                fields.add(" " if part == "\x07" else part.replace("\x1e", "-").replace("\x1f", ""))
