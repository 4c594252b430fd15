"""RTF: text with control words, in nested groups. Bytes beyond ASCII are in the code page of their font."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from opilio.analyze.content import Content
from opilio.analyze.documents.fields import Fields
from opilio.analyze.documents.reading import ReadingContext, Unreadable
from opilio.analyze.draft import Draft
from opilio.analyze.formats import DOCUMENTS, RTF
from opilio.analyze.language import language_of_windows

_MAX_GROUPS = 2000
_MAX_TITLE_CHARS = 2000
_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,9})? ?"  # a control word and its number
    rb"|\\'([0-9a-fA-F]{2})"  # a byte
    rb"|\\([^a-zA-Z'])"  # a control sign
    rb"|([{}])"
    rb"|([^\\{}\r\n]+)"
)
_TEXT, _SKIP, _INFO, _TITLE, _FONTS, _INSTRUCTION = range(6)  # what the text of a group is used for
_PLACES = {
    **dict.fromkeys(("info", "docinfo"), _INFO),
    "fonttbl": _FONTS,
    "fldinst": _INSTRUCTION,
    **dict.fromkeys(
        (
            *("colortbl", "stylesheet", "listtable", "listoverridetable", "rsidtbl", "generator", "pict", "object"),
            *("header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf", "filetbl"),
            *("xe", "tc", "bkmkstart", "bkmkend", "themedata", "datastore", "latentstyles", "revtbl", "nonshppict"),
        ),
        _SKIP,
    ),
}
_LINES = frozenset({"par", "line", "sect", "page", "row", "softline"})
_SIGNS = {
    "tab": "\t", "cell": " ", "nestcell": " ", "emdash": "\u2014", "endash": "\u2013", "bullet": "\u2022",
    "lquote": "\u2018", "rquote": "\u2019", "ldblquote": "\u201c", "rdblquote": "\u201d", "emspace": " ",
    "enspace": " ", "qmspace": " ", "~": "\xa0", "_": "-", "-": "\xad", "\\": "\\", "{": "{", "}": "}",
}  # fmt: skip
_CODE_PAGE_OF_CHARSET = {
    128: "cp932", 129: "cp949", 130: "cp1361", 134: "gbk", 136: "cp950", 161: "cp1253", 162: "cp1254", 163: "cp1258",
    177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250", 77: "mac-roman",
    255: "cp437",
}  # fmt: skip
_CODE_PAGES = {"mac": "mac-roman", "pc": "cp437", "pca": "cp850"}


@DOCUMENTS.register(RTF)
def read_rtf(body: bytes, reading: ReadingContext) -> Content:
    """Read an RTF file."""
    if b"{\\rtf" not in body[:1024]:
        raise Unreadable("is not RTF")
    return _Rtf(body).content(reading)


@dataclass(frozen=True, slots=True)
class _Group:
    """The state of a group, inherited from the group around it."""

    place: int = _TEXT
    fallback_chars: int = 1
    """Number of characters after a Unicode character that replace it in old programs."""
    code_page: str = ""
    """That of the font; '' means that of the file."""
    is_field: bool = False
    is_starred: bool = False
    """It started with \\*: programs skip it if they do not know its control word."""


class _Rtf:
    """Reads one file."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._draft = Draft()
        self._fields = Fields(self._draft)
        self._group = _Group()
        self._groups: list[_Group] = []
        self._code_page = "cp1252"
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._bytes = bytearray()
        self._text: list[str] = []
        self._title: list[str] = []
        self._language = 0
        self._fallback_left = 0

    def content(self, reading: ReadingContext) -> Content:
        """Read to the end, or until the draft is full."""
        at = 0
        while not self._draft.full and (token := _TOKEN.search(self._body, at)):
            at = token.end()
            word, number, hexadecimal, sign, brace, text = token.groups()
            if text:
                self._add_bytes(text)
            elif hexadecimal:
                self._add_bytes(bytes((int(hexadecimal, 16),)))
            elif word:
                if word == b"bin":
                    at += max(0, int(number or 0))
                else:
                    self._control(word.decode("ascii"), int(number) if number else None)
            elif brace:
                self._brace(brace)
            else:
                self._sign(sign.decode("latin-1"))
        self._flush()
        language = language_of_windows(self._language)
        return self._draft.content(reading.source, title="".join(self._title), language=language)

    def _brace(self, brace: bytes) -> None:
        self._fallback_left = 0
        self._flush()
        if brace == b"{":
            if len(self._groups) > _MAX_GROUPS:
                raise Unreadable("broken RTF file: its groups are nested too deep")
            self._groups.append(self._group)
            self._group = replace(self._group, is_field=False)
        elif self._groups:
            if self._group.is_field:
                self._fields.end()
            self._group = self._groups.pop()

    def _sign(self, sign: str) -> None:
        if sign == "*":
            self._group = replace(self._group, is_starred=True)
        elif sign in "\r\n":
            self._line()
        elif sign in _SIGNS:
            self._add_text(_SIGNS[sign])

    def _control(self, word: str, number: int | None) -> None:
        group = self._group
        if group.is_starred:
            self._group = group = replace(group, is_starred=False)
            if word not in _PLACES:
                self._group = replace(group, place=_SKIP)
                return
        if word == "u" and number is not None:
            self._add_text(chr(number % 0x10000))
            self._fallback_left = group.fallback_chars
        elif word in _LINES:
            self._line()
        elif word in _SIGNS:
            self._add_text(_SIGNS[word])
        elif word in _PLACES:
            if group.place in (_TEXT, _INFO):
                self._group = replace(group, place=_PLACES[word])
        elif word == "title" and group.place == _INFO:
            self._group = replace(group, place=_TITLE)
        elif group.place != _SKIP:
            self._format(word, number or 0)

    def _format(self, word: str, number: int) -> None:
        """Apply a control word that changes how the following text is read."""
        if word == "f":
            self._flush()
            self._font = number
            if self._group.place != _FONTS:
                self._group = replace(self._group, code_page=self._fonts.get(number, ""))
        elif word == "fcharset" and self._group.place == _FONTS:
            self._fonts[self._font] = _CODE_PAGE_OF_CHARSET.get(number, "")
        elif word == "field":
            self._flush()
            self._fields.begin()
            self._group = replace(self._group, is_field=True)
        elif word == "fldrslt":
            self._flush()
            self._fields.show()
        elif word == "uc":
            self._group = replace(self._group, fallback_chars=max(0, min(number, 10)))
        elif word == "ansicpg":
            self._code_page = _known_code_page(f"cp{number}")
        elif word in _CODE_PAGES:
            self._code_page = _CODE_PAGES[word]
        elif word == "deflang":
            self._language = number

    def _line(self) -> None:
        self._flush()
        if self._group.place == _TEXT:
            self._fields.end_line()

    def _add_bytes(self, data: bytes) -> None:
        if self._group.place in (_SKIP, _INFO, _FONTS):
            return
        if self._fallback_left:
            skipped = min(self._fallback_left, len(data))
            self._fallback_left -= skipped
            data = data[skipped:]
        self._bytes += data

    def _add_text(self, text: str) -> None:
        if self._group.place not in (_SKIP, _INFO, _FONTS):
            self._decode()
            self._fallback_left = 0
            self._text.append(text)

    def _decode(self) -> None:
        if self._bytes:
            self._text.append(self._bytes.decode(self._group.code_page or self._code_page, "replace"))
            self._bytes.clear()

    def _flush(self) -> None:
        """Write the collected text to where it belongs in this group."""
        self._decode()
        if not self._text:
            return
        text = "".join(self._text)
        self._text.clear()
        if self._group.place == _TEXT:
            self._fields.add(text)
        elif self._group.place == _INSTRUCTION:
            self._fields.instruct(text)
        elif self._group.place == _TITLE and len(self._title) < _MAX_TITLE_CHARS:
            self._title.append(text)


def _known_code_page(name: str) -> str:
    name = {"cp10000": "mac-roman", "cp65001": "utf-8", "cp936": "gbk"}.get(name, name)
    try:
        "".encode(name)
    except LookupError:
        return "cp1252"
    return name
