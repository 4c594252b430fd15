"""Word and PowerPoint files from before 2007: small file systems (OLE) with streams in them.

Which streams there are tells what the file is; `word.py` and `powerpoint.py` read them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from io import BytesIO
from typing import Any

from opilio.analyze.content import Content
from opilio.analyze.draft import Draft
from opilio.analyze.formats import DOCUMENTS
from opilio.analyze.kinds import OLE
from opilio.analyze.languages import language_of_windows
from opilio.analyze.powerpoint import write_presentation
from opilio.analyze.reading import Reading, Unreadable
from opilio.analyze.word import write_word

_PRESENTATION = "PowerPoint Document"
_UTF8_CODE_PAGE = 65001
_CODE_PAGE, _TITLE = 1, 2  # numbers of properties
_STRING, _WIDE_STRING = 30, 31  # types of their values
_MAX_PROPERTIES = 100


@DOCUMENTS.register(OLE)
def read_ole(body: bytes, reading: Reading) -> Content:
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
    """A stream; b'' when there is none."""
    return bytes(file.openstream(name).read()) if file.exists(name) else b""


def _title(stream: bytes) -> str:
    """What the file calls itself; '' when its properties are broken: the text counts."""
    try:
        properties = dict(_properties(stream))
        (code_page,) = struct.unpack_from("<4xH", stream, properties.get(_CODE_PAGE, len(stream)))
        kind, size = struct.unpack_from("<II", stream, properties.get(_TITLE, len(stream)))
        start = properties[_TITLE] + 8
        if kind == _WIDE_STRING:
            return stream[start : start + 2 * size].decode("utf-16-le", "replace").rstrip("\0")
        name = "utf-8" if code_page == _UTF8_CODE_PAGE else f"cp{code_page}"
        return stream[start : start + size].decode(name, "replace").rstrip("\0") if kind == _STRING else ""
    except (struct.error, LookupError):
        return ""


def _properties(stream: bytes) -> Iterator[tuple[int, int]]:
    """Numbers and places of the properties."""
    (section,) = struct.unpack_from("<I", stream, 44)
    (count,) = struct.unpack_from("<I", stream, section + 4)
    for number in range(min(count, _MAX_PROPERTIES)):
        name, offset = struct.unpack_from("<II", stream, section + 8 + 8 * number)
        yield name, section + offset
