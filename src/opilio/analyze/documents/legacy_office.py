"""Word and PowerPoint files from before 2007 (.doc, .ppt): small file systems (OLE) that contain streams.

The names of the streams show which of the two a file is.

*Word* (6 to 2003). The stream `WordDocument` begins with the *file information block* (FIB), which says where
everything is. Its *piece table* is in another stream; each piece is a run of characters of one byte (Windows-1252) or
two (UTF-16). Characters below 32 are structure: paragraph ends, table cells, fields.

*PowerPoint*. The stream is a tree of records, some of which contain text. Each save appends what was edited to the
file; the *persist directory* says where the newest version of the document and of each slide is. If it is broken, all
records are read in the order of the file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, NamedTuple

from opilio.analyze.content import Content
from opilio.analyze.documents.fields import Fields
from opilio.analyze.documents.reading import ReadingContext, Unreadable
from opilio.analyze.draft import Draft
from opilio.analyze.formats import DOCUMENTS, OLE
from opilio.analyze.language import language_of_windows

# Word.
_MAGIC = 0xA5EC
_WORD_6_MAGIC = 0xA5DC
_FIRST_WORD_97 = 106
"""From this version of the format on, all files have a piece table, and text may be UTF-16."""
_ENCRYPTED, _USES_TABLE_1, _IN_PIECES = 0x0100, 0x0200, 0x0004
_WORD_97_CLX, _WORD_6_CLX = 0x01A2, 0x0160
_PROPERTIES, _PIECES = 1, 2  # types of blocks in the stream of the piece table
_ONE_BYTE = 0x4000_0000
"""Flag in the offset of a piece: its characters have one byte."""
_STRUCTURE = re.compile("([\x07\x0b\x0c\r\n\x13\x14\x15])")
_LINE_ENDS = frozenset("\x0b\x0c\r\n")

# PowerPoint: types of records.
_DOCUMENT, _SLIDE, _NOTES, _MASTER = 1000, 1006, 1008, 1016
_SLIDE_PLACE = 1011  # where a slide is, in the list of slides
_SLIDE_LIST = 4080
_TEXT_WIDE, _TEXT_NARROW, _STRING = 4000, 4008, 4026
_HYPERLINK, _HYPERLINK_NUMBER = 4055, 4051
_CLICK, _CLICK_ACTION, _CLICK_RANGE = 4082, 4083, 4063
_EDIT, _DIRECTORY = 4085, 6002
_URL_STRING = 1
_OF_SLIDES = 0  # the list of slides; those of masters and of notes have other numbers
_MAX_DEPTH = 30
_MAX_EDITS = 1000

# The file system, and the properties of a document.
_PRESENTATION = "PowerPoint Document"
_UTF8_CODE_PAGE = 65001
_CODE_PAGE, _TITLE = 1, 2  # numbers of properties
_PROPERTY_STRING, _WIDE_STRING = 30, 31  # types of their values
_MAX_PROPERTIES = 100


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
    """The block of `table` whose place is in the FIB at `at`."""
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
    """Where the page headers and footers are in the text: after the document and its footnotes."""
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


class _Record(NamedTuple):
    kind: int
    instance: int
    is_container: bool
    start: int
    end: int
    depth: int


def write_presentation(stream: bytes, current_user: bytes, draft: Draft) -> None:
    """Write the text of a presentation to `draft`, slide by slide."""
    if len(stream) < 8:
        raise Unreadable("broken PowerPoint file: it is empty")
    if len(current_user) >= 16 and current_user[12:16] == b"\xdf\xc4\xd1\xf3":
        raise Unreadable("is protected by a password")
    try:
        places, document = _directory(stream, current_user)
    except (struct.error, LookupError):
        places, document = {}, -1
    slides = _Slides(stream, places, draft)
    if document < 0 or not slides.write_document(document):
        slides.write_all(0, len(stream))


def _directory(stream: bytes, current_user: bytes) -> tuple[dict[int, int], int]:
    """Where each persistent record is, newest version first, and where the document is."""
    (edit,) = struct.unpack_from("<I", current_user, 16)
    places: dict[int, int] = {}
    document = -1
    for _ in range(_MAX_EDITS):
        kind, _, previous, directory, number = struct.unpack_from("<2xHI8x3I", stream, edit)
        if kind != _EDIT:
            raise LookupError("no edit here")
        document = number if document < 0 else document
        for persistent, place in _entries(stream, directory):
            places.setdefault(persistent, place)
        if not previous or previous >= edit:
            break
        edit = previous
    return places, places[document]


def _entries(stream: bytes, at: int) -> Iterator[tuple[int, int]]:
    kind, size = struct.unpack_from("<2xHI", stream, at)
    if kind != _DIRECTORY:
        raise LookupError("no directory here")
    at, end = at + 8, min(at + 8 + size, len(stream))
    while at + 4 <= end:
        (head,) = struct.unpack_from("<I", stream, at)
        first, count = head & 0xFFFFF, head >> 20
        at += 4
        for number in range(min(count, (end - at) // 4)):
            yield first + number, struct.unpack_from("<I", stream, at + 4 * number)[0]
        at += 4 * count


def _records(stream: bytes, start: int, end: int) -> Iterator[_Record]:
    """All records between `start` and `end`, containers before their contents."""
    at, ends = start, [end]
    while at + 8 <= ends[-1]:
        version, kind, size = struct.unpack_from("<2HI", stream, at)
        is_container = version & 0xF == 0xF and len(ends) < _MAX_DEPTH
        body = at + 8
        stop = min(body + size, ends[-1])
        yield _Record(kind, version >> 4, is_container, body, stop, len(ends))
        if is_container:
            ends.append(stop)
            at = body
        else:
            at = stop
        while len(ends) > 1 and at + 8 > ends[-1]:
            at = ends.pop()


class _Slides:
    """Writes records to a draft. A text is buffered until it is known which parts of it are links."""

    def __init__(self, stream: bytes, places: dict[int, int], draft: Draft) -> None:
        self._stream = stream
        self._places = places
        self._draft = draft
        self._links = dict(self._hyperlinks())
        self._text = ""
        self._ranges: list[tuple[int, int, str]] = []
        self._target = ""

    def _hyperlinks(self) -> Iterator[tuple[int, str]]:
        """The link addresses in the file, by number."""
        number = -1
        for record in _records(self._stream, 0, len(self._stream)):
            if record.kind == _HYPERLINK:
                number = -1
            elif record.kind == _HYPERLINK_NUMBER and record.end - record.start >= 4:
                (number,) = struct.unpack_from("<I", self._stream, record.start)
            elif record.kind == _STRING and record.instance == _URL_STRING and number >= 0:
                yield number, self._decode(record)
                number = -1

    def write_document(self, at: int) -> bool:
        """Write the slides in the order of the document's list; False if there is no document at `at`."""
        if at + 8 > len(self._stream):
            return False
        _, kind, size = struct.unpack_from("<2HI", self._stream, at)
        if kind != _DOCUMENT:
            return False
        slide = list_depth = -1
        for record in _records(self._stream, at + 8, min(at + 8 + size, len(self._stream))):
            if list_depth >= 0 and record.depth <= list_depth:
                list_depth = -1
            if record.kind == _SLIDE_LIST and record.instance == _OF_SLIDES:
                list_depth = record.depth
            elif list_depth >= 0 and record.kind == _SLIDE_PLACE and record.end - record.start >= 4:
                self._write_slide(slide)
                (slide,) = struct.unpack_from("<I", self._stream, record.start)
            elif list_depth >= 0:
                self._take(record)
            if self._draft.full:
                return True
        self._write_slide(slide)
        return True

    def _write_slide(self, number: int) -> None:
        """Write the text that is on a slide but not in the list; it comes after the text in the list."""
        at = self._places.get(number, -1)
        if at >= 0 and at + 8 <= len(self._stream):
            _, kind, size = struct.unpack_from("<2HI", self._stream, at)
            if kind == _SLIDE:
                self.write_all(at + 8, min(at + 8 + size, len(self._stream)))
        self._flush()

    def write_all(self, start: int, end: int) -> None:
        """Write all texts in a range, except those of masters, which come from the program."""
        skip_to = start
        for record in _records(self._stream, start, end):
            if self._draft.full:
                break
            if record.kind == _MASTER:
                skip_to = max(skip_to, record.end)
            elif record.start >= skip_to:
                self._take(record)
        self._flush()

    def _take(self, record: _Record) -> None:
        size = record.end - record.start
        if record.kind in (_TEXT_WIDE, _TEXT_NARROW):
            self._flush()
            self._text = self._decode(record)
        elif record.kind == _CLICK:
            self._end_click()
        elif record.kind == _CLICK_ACTION and size >= 8:
            (number,) = struct.unpack_from("<I", self._stream, record.start + 4)
            self._target = self._links.get(number, "")
        elif record.kind == _CLICK_RANGE and size >= 8 and self._target:
            begin, end = struct.unpack_from("<2I", self._stream, record.start)
            self._ranges.append((begin, end, self._target))
            self._target = ""

    def _end_click(self) -> None:
        """A link without a range of text belongs to a picture or a box."""
        if self._target:
            self._draft.add_link(self._target)
            self._target = ""

    def _decode(self, record: _Record) -> str:
        data = self._stream[record.start : record.end]
        return data.decode("latin-1") if record.kind == _TEXT_NARROW else data.decode("utf-16-le", "replace")

    def _flush(self) -> None:
        self._end_click()
        at = 0
        for begin, end, target in sorted(self._ranges):
            if at <= begin < end:
                self._draft.add(self._text[at:begin])
                self._draft.begin_link(target)
                self._draft.add(self._text[begin:end])
                self._draft.end_link()
                at = end
        self._draft.add(self._text[at:])
        self._draft.end_line()
        self._text = ""
        self._ranges.clear()


@DOCUMENTS.register(OLE)
def read_ole(body: bytes, reading: ReadingContext) -> Content:
    """Read an old Word or PowerPoint file."""
    import olefile  # noqa: PLC0415

    if not body.startswith(olefile.MAGIC):
        raise Unreadable("is neither an old Word or PowerPoint file nor anything else we can read")
    with olefile.OleFileIO(BytesIO(body)) as file:
        draft, language = Draft(), ""
        if file.exists("WordDocument"):
            tables = {name: _stream(file, name) for name in ("0Table", "1Table")}
            language = language_of_windows(write_word(_stream(file, "WordDocument"), tables, draft))
        elif file.exists(_PRESENTATION):
            write_presentation(_stream(file, _PRESENTATION), _stream(file, "Current User"), draft)
        elif file.exists("EncryptedPackage"):
            raise Unreadable("is protected by a password")
        else:
            raise Unreadable("is neither a Word nor a PowerPoint file")
        return draft.content(reading.source, title=_title(_stream(file, "\x05SummaryInformation")), language=language)


def _stream(file: Any, name: str) -> bytes:
    """A stream; b'' if there is none."""
    return bytes(file.openstream(name).read()) if file.exists(name) else b""


def _title(stream: bytes) -> str:
    """The title in the properties of the file; '' if they are broken, because the text is what counts."""
    try:
        properties = dict(_properties(stream))
        (code_page,) = struct.unpack_from("<4xH", stream, properties.get(_CODE_PAGE, len(stream)))
        kind, size = struct.unpack_from("<II", stream, properties.get(_TITLE, len(stream)))
        start = properties[_TITLE] + 8
        if kind == _WIDE_STRING:
            return stream[start : start + 2 * size].decode("utf-16-le", "replace").rstrip("\0")
        name = "utf-8" if code_page == _UTF8_CODE_PAGE else f"cp{code_page}"
        return stream[start : start + size].decode(name, "replace").rstrip("\0") if kind == _PROPERTY_STRING else ""
    except (struct.error, LookupError):
        return ""


def _properties(stream: bytes) -> Iterator[tuple[int, int]]:
    """The properties, as pairs of number and offset."""
    (section,) = struct.unpack_from("<I", stream, 44)
    (count,) = struct.unpack_from("<I", stream, section + 4)
    for number in range(min(count, _MAX_PROPERTIES)):
        name, offset = struct.unpack_from("<II", stream, section + 8 + 8 * number)
        yield name, section + offset
