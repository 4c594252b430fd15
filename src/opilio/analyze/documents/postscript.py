"""PostScript, a programming language: only running a file shows its text for certain.

If the machine has Ghostscript, it runs the file: in its safe mode, inside the extraction process and under the limits
of that process. Without it, or if it fails, `scan_text` looks for the strings that the program shows, without running
it. This works for papers made by TeX and for simple programs.

Programs do not show text with the operator `show` but with procedures of their own. Two cases are distinguished:

- TeX's dvips, which made most papers in PostScript. Its procedures have one-letter names and fixed meanings: show a
  string, then move by a number of dots. A move as wide as a space is a space; a narrow one is kerning.
- Everything else: every string on the pages counts as shown. The names that many programs use for moving show where a
  line ends.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

from opilio.analyze.content import Content
from opilio.analyze.documents.reading import ReadingContext, Unreadable
from opilio.analyze.draft import Draft
from opilio.analyze.formats import DOCUMENTS, POSTSCRIPT
from opilio.analyze.layout import MAX_TEXT_CHARS

NOT_INSTALLED = "Ghostscript is not installed: apt install ghostscript"

_START = re.compile(rb"%!")
_TITLE = re.compile(rb"^%%Title:[ \t]*([^\r\n]{1,500})", re.MULTILINE)
_HEAD_BYTES = 8192
_CUT_WORD = re.compile(r"(?<=[^\W\d_])-[ \t]*\n[ \t]*(?=[^\W\d_A-Z])")
_MIN_WORDS = 5
"""A scanned text with fewer words is not the text of the pages."""
_MIN_LETTER_SHARE = 0.5
"""Nor is one in which a smaller share of the words consists of letters."""
_WORD = re.compile(r"[^\W\d_]{2,}")

# Scanning a program without running it.
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
"""A wider move is a space. In a 10 pt font, kerning is under 0.01 inches and a space 0.03 inches wide."""
_GOES_TO = frozenset({b"moveto", b"Tm", b"MT"})
_GOES_BY = frozenset({b"rmoveto", b"Td", b"TD"})
_SHOWS = frozenset({b"show", b"ashow", b"widthshow", b"awidthshow", b"xshow", b"Tj", b"TJ"})
_RESOURCE_STARTS = (b"%%BeginFont", b"%%BeginResource", b"%%BeginProcSet", b"%%BeginData")
_RESOURCE_ENDS = (b"%%EndFont", b"%%EndResource", b"%%EndProcSet", b"%%EndData")
_NUMBER = re.compile(rb"[-+]?\d*\.?\d+")
# TeX's encoding of characters outside ASCII.
_TEX_SIGNS = {
    0x0B: "ff", 0x0C: "fi", 0x0D: "fl", 0x0E: "ffi", 0x0F: "ffl", 0x10: "\u0131", 0x19: "\xdf", 0x1A: "\xe6",
    0x1B: "\u0153", 0x1C: "\xf8", 0x22: "\u201d", 0x5C: "\u201c", 0x7B: "\u2013", 0x7C: "\u2014", 0x27: "\u2019",
    0x60: "\u2018",
}  # fmt: skip
_ADDED_TO_LAST_MOVE = {letter: number - 4 for number, letter in enumerate(b"cdefghijk")}
_OWN_MOVE = dict(zip(b"lmnopqrst", range(-4, 5), strict=True))


@DOCUMENTS.register(POSTSCRIPT)
def read_postscript(body: bytes, reading: ReadingContext) -> Content:
    """Read a PostScript file."""
    start = _START.search(body, 0, _HEAD_BYTES)
    if start is None:
        raise Unreadable("broken PostScript file: it does not begin as one")
    body = body[start.start() :]
    program = shutil.which("gs")
    text = _run(program, body, reading) if program else ""
    if not text.strip():
        text = scan_text(body, reading.budget.max_pages)
        if not _is_prose(text):
            raise Unreadable("Ghostscript found no text in it" if program else NOT_INSTALLED)
    draft = Draft()
    draft.add(_CUT_WORD.sub("", text[: 2 * MAX_TEXT_CHARS]))
    found = _TITLE.search(body, 0, _HEAD_BYTES)
    title = found.group(1).decode("latin-1").strip("() ") if found else ""
    return draft.content(reading.source, title=title, bare_urls=True)


def _run(program: str, body: bytes, reading: ReadingContext) -> str:
    """The text that Ghostscript finds; '' if it fails. It inherits all limits, and ends with our process."""
    command = [
        *(program, "-q", "-dSAFER", "-dBATCH", "-dNOPAUSE", "-dNOPROMPT", "-sstdout=%stderr", "-sDEVICE=txtwrite"),
        *(f"-dLastPage={reading.budget.max_pages}", "-sOutputFile=-", "-"),
    ]
    try:
        run = subprocess.run(
            command,
            input=body,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=reading.budget.left_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    reading.budget.spend(len(run.stdout))
    return run.stdout.decode("utf-8", "replace")


def _is_prose(text: str) -> bool:
    words = text.split()
    return len(words) >= _MIN_WORDS and len(_WORD.findall(text)) >= _MIN_LETTER_SHARE * len(words)


def scan_text(body: bytes, max_pages: int) -> str:
    """The text that a program probably shows, line by line."""
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
    """The strings, and what the moves after them mean: nothing, a space or a line end."""
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
        """The separator that a procedure `name`, called with `number`, puts between two strings."""
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
    """The strings, with spaces between them and line ends where the program probably starts a new line."""
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
