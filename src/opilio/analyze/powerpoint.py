"""Old PowerPoint files (.ppt): a tree of records, some of which hold text.

The file grows with each saving: what was edited is written again at its end. The *persist directory* says where the
newest version of the document and of each slide is. Where it is broken, all records are read in the order in which
they stand.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from opilio.analyze.draft import Draft
from opilio.analyze.reading import Unreadable

_DOCUMENT, _SLIDE, _NOTES, _MASTER = 1000, 1006, 1008, 1016
_SLIDE_PLACE = 1011  # where a slide is, in the list of slides
_SLIDE_LIST = 4080
_TEXT_WIDE, _TEXT_NARROW, _STRING = 4000, 4008, 4026
_HYPERLINK, _HYPERLINK_NUMBER = 4055, 4051
_CLICK, _CLICK_ACTION, _CLICK_RANGE = 4082, 4083, 4063
_EDIT, _DIRECTORY = 4085, 6002
_URL_STRING = 1
_OF_SLIDES = 0  # which of the slide lists: those of masters and of notes come after
_MAX_DEPTH = 30
_MAX_EDITS = 1000


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
    """All records between `start` and `end`, containers before what is in them."""
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
    """Writes records to a draft. A text is held back until it is known which parts of it are links."""

    def __init__(self, stream: bytes, places: dict[int, int], draft: Draft) -> None:
        self._stream = stream
        self._places = places
        self._draft = draft
        self._links = dict(self._hyperlinks())
        self._text = ""
        self._ranges: list[tuple[int, int, str]] = []
        self._target = ""

    def _hyperlinks(self) -> Iterator[tuple[int, str]]:
        """The addresses of the file by their numbers."""
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
        """Write the slides in the order of the document's list; False when there is no document at `at`."""
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
        """Write what stands on a slide and not in the list; it comes after what does."""
        at = self._places.get(number, -1)
        if at >= 0 and at + 8 <= len(self._stream):
            _, kind, size = struct.unpack_from("<2HI", self._stream, at)
            if kind == _SLIDE:
                self.write_all(at + 8, min(at + 8 + size, len(self._stream)))
        self._flush()

    def write_all(self, start: int, end: int) -> None:
        """Write all texts between two places, but not those of masters, which are sentences of the program."""
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
        """A link for which no range of text was given is one of a picture or a box."""
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
