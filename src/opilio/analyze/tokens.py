"""The words of a text, in order, as lower-case UTF-8.

Words are runs of letters and digits. Bytes are split several times faster than strings are searched, and most text is
ASCII, or has no letters that are not. Text without spaces (Chinese, Japanese) is cut into overlapping
pairs of characters, which serve as words there.
"""

from __future__ import annotations

import re

# ASCII letters in lower case; characters that are no letters or digits become spaces.
_LOWERED = bytes(ord(chr(code).lower()) if code < 128 and chr(code).isalnum() else 32 for code in range(256))
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_ASCII = bytes(range(128))


def tokenize(text: str) -> list[bytes]:
    """The words of `text`."""
    if not text.isascii():
        rest = text.encode("utf-8", "replace").translate(None, _ASCII).decode()
        if any(map(str.isalnum, set(rest))):
            return _words(text.lower())
    # What is not ASCII is only signs (dashes, quotes, arrows): each becomes a question mark, and that a space.
    return text.encode("ascii", "replace").translate(_LOWERED).split()


def _words(text: str) -> list[bytes]:
    words = _WORD.findall(text)
    if _UNSPACED.search(text):
        words = [part for word in words for part in _parts(word)]
    return [word.encode("utf-8", "replace") for word in words]


def _parts(word: str) -> list[str]:
    """A word with unspaced script in it: what stands around the script, and the script as pairs of characters."""
    if not _UNSPACED.search(word):
        return [word]
    parts: list[str] = []
    at = 0
    for run in _UNSPACED.finditer(word):
        characters = run.group()
        pairs = [characters[i : i + 2] for i in range(len(characters) - 1)] or [characters]
        parts += [*filter(None, [word[at : run.start()]]), *pairs]
        at = run.end()
    return [*parts, *filter(None, [word[at:]])]
