"""The strings that a PostScript program shows, found without running it.

Programs do not show their text with the operator `show` but with procedures of their own. Two cases are told apart:

- TeX's dvips, which most papers in PostScript were made with. Its procedures have one letter each and always the same
  meaning: show a string, then move by so many dots. A move as wide as a space is a space; a narrow one is kerning.
- Everything else: every string on the pages is taken as shown. The names that many programs give to moving tell where
  a line ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from opilio.analyze.layout import MAX_TEXT_CHARS

_TOKEN = re.compile(
    rb"\((?:[^()\\]+|\\.)*\)?"  # a string, as far as the next parenthesis: it always matches, so time stays linear
    rb"|%[^\r\n]*"
    rb"|[^\s()<>\[\]{}/%]+"  # a number or a name
    rb"|/[^\s()<>\[\]{}/%]*"
    rb"|<[0-9A-Fa-f\s]*>",
    re.DOTALL,
)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|(\r\n|[\r\n])|(.))", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"", b"f": b"\f"}
_DVIPS_START = re.compile(rb"TeXDict begin\s+\d+\s+\d+\s+\d+\s+(\d+)\s+\d+")
_DVIPS_PAGE = re.compile(rb"\d\s+bop\b")
_PAGES = re.compile(rb"%%EndProlog|%%EndSetup|%%Page:")
_SPACE_INCHES = 0.022
"""A move of more than this is a space. Between letters of a 10 pt font, kerning is under 0.01 inches; a space 0.03."""
_GOES_TO = frozenset({b"moveto", b"Tm", b"MT"})
_GOES_BY = frozenset({b"rmoveto", b"Td", b"TD"})
_SHOWS = frozenset({b"show", b"ashow", b"widthshow", b"awidthshow", b"xshow", b"Tj", b"TJ"})
_RESOURCE_STARTS = (b"%%BeginFont", b"%%BeginResource", b"%%BeginProcSet", b"%%BeginData")
_RESOURCE_ENDS = (b"%%EndFont", b"%%EndResource", b"%%EndProcSet", b"%%EndData")
_NUMBER = re.compile(rb"[-+]?\d*\.?\d+")
# TeX's own encoding of signs that ASCII does not have.
_TEX_SIGNS = {
    0x0B: "ff", 0x0C: "fi", 0x0D: "fl", 0x0E: "ffi", 0x0F: "ffl", 0x10: "\u0131", 0x19: "\xdf", 0x1A: "\xe6",
    0x1B: "\u0153", 0x1C: "\xf8", 0x22: "\u201d", 0x5C: "\u201c", 0x7B: "\u2013", 0x7C: "\u2014", 0x27: "\u2019",
    0x60: "\u2018",
}  # fmt: skip
_ADDED_TO_LAST_MOVE = {letter: number - 4 for number, letter in enumerate(b"cdefghijk")}
_OWN_MOVE = dict(zip(b"lmnopqrst", range(-4, 5), strict=True))


def shown_text(body: bytes, max_pages: int) -> str:
    """The text that the program seems to show, line by line."""
    dvips = _DVIPS_START.search(body)
    if dvips:
        resolution = int(dvips.group(1)[:5])
        first = _DVIPS_PAGE.search(body, dvips.end())
        parts = _dvips(_tokens(body, first.start() if first else len(body)), _SPACE_INCHES * resolution, max_pages)
    else:
        first = _PAGES.search(body)
        parts = _others(_tokens(body, first.start() if first else 0), max_pages)
    text: list[str] = []
    chars = 0
    for part in parts:
        text.append(part)
        chars += len(part)
        if chars > MAX_TEXT_CHARS:
            break
    return "".join(text)


def _tokens(body: bytes, start: int) -> Iterator[bytes]:
    return (token.group() for token in _TOKEN.finditer(body, start))


def _string(token: bytes) -> bytes:
    def unescape(found: re.Match[bytes]) -> bytes:
        octal, line_end, sign = found.groups()
        if octal:
            return bytes((int(octal, 8) & 255,))
        return b"" if line_end else _NAMED.get(sign, sign)

    inner = token[1:-1] if token.endswith(b")") else token[1:]
    return _ESCAPE.sub(unescape, inner) if b"\\" in inner else inner


def _dvips(tokens: Iterator[bytes], space: float, max_pages: int) -> Iterator[str]:
    """Strings, and what the moves after them are: nothing, a space, the end of a line."""
    pen = _Pen(space)
    shown: str | None = None
    number = 0.0
    pages = 0
    for token in tokens:
        if token.startswith(b"("):
            shown = "".join(_TEX_SIGNS.get(byte) or chr(byte) for byte in _string(token))
        elif _NUMBER.fullmatch(token):
            number = float(token)
        else:
            if shown is not None:
                yield shown
                shown = None
            yield pen.move(token, number)
            pages += token == b"eop"
            if pages >= max_pages:
                return


class _Pen:
    """Follows the moves of dvips.

    `b` shows and moves; `c` to `k` too, by a little less or more than the move before; `l` to `t` show and move a
    little; `w` moves; `y` shows and goes elsewhere, `a` goes elsewhere.
    """

    def __init__(self, space: float) -> None:
        self._space = space
        self._last = 0.0
        self._line: float | None = None

    def move(self, name: bytes, number: float) -> str:
        """What a procedure called `name`, after `number`, puts between the strings before and after it."""
        letter = name[0] if len(name) == 1 else 0
        if name in (b"a", b"y"):
            same_line = self._line is not None and abs(self._line - number) <= self._space
            self._line = number
            return " " if same_line else "\n"
        if name == b"eop":
            self._line = None
            return "\n"
        if letter in _ADDED_TO_LAST_MOVE:
            self._last += _ADDED_TO_LAST_MOVE[letter]
            moved = self._last
        elif name == b"b":
            moved = self._last = number
        else:
            moved = number if name == b"w" else float(_OWN_MOVE.get(letter, 0))
        return " " if moved > self._space else ""


def _others(tokens: Iterator[bytes], max_pages: int) -> Iterator[str]:
    """Strings with spaces between them, and line ends where the program seems to begin another line."""
    pages = 0
    number, line = 0.0, None
    in_resource = False
    for token in tokens:
        if token.startswith(_RESOURCE_STARTS):
            in_resource = True
        elif token.startswith(_RESOURCE_ENDS):
            in_resource = False
        elif in_resource:
            continue
        elif token.startswith(b"("):
            if text := _string(token).decode("latin-1"):
                yield text
        elif _NUMBER.fullmatch(token):
            number = float(token)
        elif token in _GOES_BY:
            yield "\n" if number else " "
        elif token in _GOES_TO:
            yield "\n" if number != line else " "
            line = number
        elif token.startswith(b"%%Page:"):
            pages += 1
            yield "\n"
            if pages > max_pages:
                return
        elif token in _SHOWS:
            yield " "
