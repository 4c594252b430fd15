"""The words of a text, in order, as lower-case UTF-8.

Words are runs of letters and digits. Bytes are split several times faster than strings are searched, and most text is
ASCII; words that are not are looked at one by one. Text without spaces (Chinese, Japanese) is cut into overlapping
pairs of characters, which serve as words there.
"""

from __future__ import annotations

import re

# ASCII characters that are no letters or digits become spaces.
_SPACED = bytes(code if code >= 128 or chr(code).isalnum() else 32 for code in range(256))
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
# Punctuation that English text has beside ASCII. Without it, most English text is ASCII.
_TYPOGRAPHIC = "\u2019\u2018\u201c\u201d\u2013\u2014\u2026\u2022\u00b7\u00a9\u00ae\u00b6\u00ab\u00bb\u2192\u2190\u2122"
_MOSTLY_ASCII = 1.1  # bytes a character


def tokenize(text: str) -> list[bytes]:
    """The words of `text`."""
    lowered = text.lower()
    if not lowered.isascii():
        for char in _TYPOGRAPHIC:
            lowered = lowered.replace(char, " ")
    encoded = lowered.encode("utf-8", "replace")
    if len(encoded) > _MOSTLY_ASCII * len(lowered):
        return _words(lowered)
    tokens = encoded.translate(_SPACED).split()
    return tokens if len(encoded) == len(lowered) else _refine(tokens)


def _refine(tokens: list[bytes]) -> list[bytes]:
    """`tokens` cut also where characters that are not ASCII are not letters either."""
    refined = {token: _words(token.decode()) for token in set(tokens) if not token.isascii()}
    if all(words == [token] for token, words in refined.items()):
        return tokens
    return [word for token in tokens for word in (refined.get(token) or (token,) if not token.isascii() else (token,))]


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
