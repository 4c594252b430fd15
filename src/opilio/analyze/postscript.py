"""PostScript. It is a programming language: what a file shows is known when it was run.

Ghostscript runs it, when the machine has it: in its safe mode, inside of the process that reads documents and under
the limits of that process. Without it, or when it fails, we look for the strings that the program shows
(`shown.py`), which serves for papers made by TeX and for simple programs.
"""

from __future__ import annotations

import re
import shutil
import subprocess

from opilio.analyze.content import Content
from opilio.analyze.draft import Draft
from opilio.analyze.formats import DOCUMENTS
from opilio.analyze.kinds import POSTSCRIPT
from opilio.analyze.layout import MAX_TEXT_CHARS
from opilio.analyze.reading import Reading, Unreadable
from opilio.analyze.shown import shown_text

NOT_INSTALLED = "Ghostscript is not installed: apt install ghostscript"

_START = re.compile(rb"%!")
_TITLE = re.compile(rb"^%%Title:[ \t]*([^\r\n]{1,500})", re.MULTILINE)
_HEAD_BYTES = 8192
_CUT_WORD = re.compile(r"(?<=[^\W\d_])-[ \t]*\n[ \t]*(?=[^\W\d_A-Z])")
_MIN_WORDS = 5
"""A text with fewer words, or with less than this share of them made of letters, is not what the pages show."""
_MIN_LETTER_SHARE = 0.5
_WORD = re.compile(r"[^\W\d_]{2,}")


@DOCUMENTS.register(POSTSCRIPT)
def read_postscript(body: bytes, reading: Reading) -> Content:
    """Read a PostScript file."""
    start = _START.search(body, 0, _HEAD_BYTES)
    if start is None:
        raise Unreadable("broken PostScript file: it does not begin as one")
    body = body[start.start() :]
    program = shutil.which("gs")
    text = _run(program, body, reading) if program else ""
    if not text.strip():
        text = shown_text(body, reading.budget.max_pages)
        if not _is_prose(text):
            raise Unreadable("Ghostscript found no text in it" if program else NOT_INSTALLED)
    draft = Draft()
    draft.add(_CUT_WORD.sub("", text[: 2 * MAX_TEXT_CHARS]))
    found = _TITLE.search(body, 0, _HEAD_BYTES)
    title = found.group(1).decode("latin-1").strip("() ") if found else ""
    return draft.content(reading.source, title=title, bare_urls=True)


def _run(program: str, body: bytes, reading: Reading) -> str:
    """The text that Ghostscript finds; '' when it fails. It inherits all limits, and ends with our process."""
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
