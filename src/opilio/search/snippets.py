"""Snippets: the part of a text that says most about a question, in pieces that are matches or are not. Never HTML."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache

from opilio.search.matching import words_of
from opilio.search.query import Word

WIDTH_CHARS = 240
LEAD_CHARS = 50
MAX_MATCHES = 400
FUZZY_CHARS = 20_000
"""Of a text in which words that are only alike are looked for: each of its words has to be compared."""

Pieces = list[tuple[str, bool]]
_SPACES = re.compile(r"\s+")
_UNSPACED = re.compile(r"[\u3040-\u9fff\uf900-\ufaff]")
# Accents are taken off letter by letter, so that places stay what they are.
_BARE = {
    code: base
    for code in range(0xC0, 0x250)
    if (base := unicodedata.normalize("NFD", chr(code))[0]) != chr(code) and base.isascii()
}


class Highlighter:
    """Finds what a question asks for in texts."""

    def __init__(self, words: Iterable[Word]) -> None:
        self._finders = [_finder(word) for word in words if word.field in ("", "text", "title")]

    def snippet(self, text: str) -> Pieces:
        """The best part of a text; its beginning when nothing in it matches."""
        matches = self._matches(text)
        start = _best_start(matches)
        begin = _at_word(text, start - LEAD_CHARS) if start > LEAD_CHARS else 0
        end = min(len(text), begin + WIDTH_CHARS)
        if end < len(text):
            cut = text.rfind(" ", begin + WIDTH_CHARS // 2, end)
            end = cut if cut > 0 else end
        pieces = _cut(text, begin, end, [(a, b) for a, b, _ in matches])
        if begin > 0:
            pieces.insert(0, ("… ", False))
        if end < len(text):
            pieces.append((" …", False))
        return pieces

    def whole(self, text: str) -> Pieces:
        """All of a short text, such as a title."""
        return _cut(text, 0, len(text), [(a, b) for a, b, _ in self._matches(text)])

    def _matches(self, text: str) -> list[tuple[int, int, int]]:
        bare = text if text.isascii() else text.translate(_BARE)
        found = [(*span, which) for which, finder in enumerate(self._finders) for span in finder(bare)]
        return sorted(found)


def _finder(word: Word) -> Callable[[str], list[tuple[int, int]]]:
    words = words_of(word.text)
    if word.distance:
        return lambda text: _fuzzy(text, words[0], word.distance)
    if _UNSPACED.search(word.text):
        pattern, fits = re.escape(word.text), None
    elif word.is_prefix:
        pattern, fits = rf"(?<![^\W_]){re.escape(words[0])}[^\W_]*", None
    elif word.is_phrase or len(words) != 1:
        pattern, fits = r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, words)) + r"(?![^\W_])", None
    else:
        stem = _stem(words[0])
        begin = _common_start(words[0], stem)
        pattern, fits = rf"(?<![^\W_]){re.escape(begin)}[^\W_]*", lambda found: _stem(found) == stem
    compiled = re.compile(pattern, re.IGNORECASE)

    def find(text: str) -> list[tuple[int, int]]:
        spans = []
        for match in compiled.finditer(text):
            if fits is None or fits(match.group()):
                spans.append(match.span())
                if len(spans) >= MAX_MATCHES:
                    break
        return spans

    return find


@lru_cache(10_000)
def _stem(word: str) -> str:
    return " ".join(words_of(word, stems=True))


def _common_start(word: str, stem: str) -> str:
    """What all words of a stem begin with, or nearly so: a stem may end otherwise than its words (happy, happi)."""
    same = 0
    while same < min(len(word), len(stem)) and word[same] == stem[same]:
        same += 1
    return word[: max(1, same - 1)] if same == len(stem) > 3 else word[: max(1, same)]


def _fuzzy(text: str, word: str, most: int) -> list[tuple[int, int]]:
    known: dict[str, bool] = {}
    spans = []
    for match in re.finditer(r"[^\W_]+", text[:FUZZY_CHARS]):
        found = match.group().lower()
        if abs(len(found) - len(word)) > most:
            continue
        if found not in known:
            known[found] = differs_by(found, word) <= most
        if known[found]:
            spans.append(match.span())
    return spans[:MAX_MATCHES]


def differs_by(a: str, b: str) -> int:
    """How many letters must be put in, taken out, changed or swapped with the next to make one of the other."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        earlier, before, row = before, row, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, earlier[j - 2] + 1)
            row.append(cost)
    return row[-1]


def _best_start(matches: list[tuple[int, int, int]]) -> int:
    """Where the window begins that has most words of the query, then most matches; the first of those."""
    best, start = (0, 0), 0
    for number, (begin, _, _) in enumerate(matches):
        inside = []
        for match in matches[number:]:
            if match[1] > begin + WIDTH_CHARS - LEAD_CHARS:
                break
            inside.append(match[2])
        value = (len(set(inside)), len(inside))
        if value > best:
            best, start = value, begin
    return start


def _at_word(text: str, at: int) -> int:
    """The next beginning of a word."""
    found = text.find(" ", at, at + LEAD_CHARS)
    return found + 1 if found >= 0 else at


def _cut(text: str, begin: int, end: int, matches: list[tuple[int, int]]) -> Pieces:
    pieces: Pieces = []
    at = begin
    for first, last in matches:
        if first < at or last > end:
            continue
        pieces += [(text[at:first], False), (text[first:last], True)]
        at = last
    pieces.append((text[at:end], False))
    return [(_SPACES.sub(" ", piece), is_match) for piece, is_match in pieces if piece]


# -- summaries

MAX_SUMMARY_CHARS, MIN_SENTENCE_CHARS = 200, 40
_ENDS = ".!?\u3002\uff01\uff1f"
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[\u3002\uff01\uff1f])")
_MIN_LETTERS = 0.85
"""... of a sentence: less is a formula, a signature or a list of numbers."""


def summary_of(title: str, description: str, text: str) -> str:
    """What a page says of itself, in a sentence: its description, else the first good sentence of its text.

    A good sentence is whole, long enough, mostly letters, and not the title again. Without one, there is no summary.
    """
    told = _SPACES.sub(" ", description).strip()
    if len(told) >= MIN_SENTENCE_CHARS and told.casefold() not in title.casefold():
        return _shortened(told)
    for line in text.splitlines():
        for sentence in _SENTENCE_END.split(_SPACES.sub(" ", line).strip()):
            if _is_good(sentence) and sentence.casefold() not in title.casefold():
                return _shortened(sentence)
    return ""


def _is_good(sentence: str) -> bool:
    is_whole = len(sentence) >= MIN_SENTENCE_CHARS and sentence[-1] in _ENDS and not sentence[0].islower()
    return is_whole and sum(sign.isalpha() or sign == " " for sign in sentence) >= _MIN_LETTERS * len(sentence)


def _shortened(text: str) -> str:
    """At most so many characters, cut between words."""
    if len(text) <= MAX_SUMMARY_CHARS:
        return text
    cut = text.rfind(" ", MAX_SUMMARY_CHARS // 2, MAX_SUMMARY_CHARS)
    return text[: cut if cut > 0 else MAX_SUMMARY_CHARS].rstrip(" ,;:") + " …"
