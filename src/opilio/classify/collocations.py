"""Words with their places in a text, and the collocations they form (OASIS 4, step 2).

A collocation is two or three terms that follow each other with no stop word and no punctuation between them. A blank
does not part words, nor does a hyphen that joins them ("object-oriented programming" is one collocation of three); the
end of a line does, for lines are headings, paragraphs, items of lists.

Evidence carries the stems of a page but not where they stand. Their places are found again here without another look
at words: the kinds of the characters are enough, and numpy looks at all of them at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opilio.analyze.terms import tokenize
from opilio.features.evidence import Evidence

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.features.evidence import Stems

    Places = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]
    Codes = npt.NDArray[np.uint64]

SIZES = (1, 2, 3)
"""Words of an element of a filter: a term, a pair, a triple."""

# What a character is, by its code point; learned as characters are met.
_UNKNOWN, _BREAK, _BLANK, _HYPHEN, _LETTER, _UNSPACED = range(6)
_KINDS = np.zeros(0x110000, np.uint8)
_HYPHENS = "-\u2010\u2011"
_BLANKS = " \t\u00a0"

_NOWHERE: Places = np.zeros(0, np.int64)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


class PlacedWords(NamedTuple):
    """The words of a page, title first."""

    stems: Stems
    """0 for a word that is no term."""
    joined: Flags
    """Whether nothing parts a word from the one before it."""
    starts: Places
    """The character at which a word starts; empty when the page's text is not at hand."""
    ends: Places
    chars: int
    """Characters of title and text."""


class Phrases(NamedTuple):
    """All collocations of one size, in their order."""

    codes: Codes
    """A number for each, the same wherever the same stems stand in the same order."""
    places: Places
    """Which word is its first."""


def words_of(evidence: Evidence) -> PlacedWords:
    """The words of a page. Without its text only stop words are known to part them."""
    stems = evidence.stems
    text = f"{evidence.title}\n{evidence.text}" if evidence.title else evidence.text
    if text:
        kinds = _kinds(text)
        starts, ends = _spans(kinds)
        if len(starts) == len(stems):
            return PlacedWords(stems, _joined(kinds, starts, ends), starts, ends, len(kinds))
    return PlacedWords(stems, np.ones(len(stems), np.bool_), _NOWHERE, _NOWHERE, 0)


def phrases(words: PlacedWords, size: int) -> Phrases:
    """The collocations of `size` words; of one word: the terms themselves."""
    stems = words.stems
    last = len(stems) - size + 1
    if last <= 0:
        return Phrases(np.zeros(0, np.uint64), _NOWHERE)
    whole = stems[:last] != 0
    for step in range(1, size):
        whole &= (stems[step : last + step] != 0) & words.joined[step : last + step]
    places = np.flatnonzero(whole)
    return Phrases(_codes([stems[places + step] for step in range(size)]), places)


def code_of(stems: tuple[int, ...]) -> int:
    """The number of the collocation of these stems."""
    return int(_codes([np.array([stem], np.uint32) for stem in stems])[0])


def _codes(columns: list[Stems]) -> Codes:
    """One number for each row. For two stems it is exact; for three a 64-bit hash."""
    code = columns[0].astype(np.uint64)
    for column in columns[1:2]:
        code = (code << _SHIFT) | column
    for column in columns[2:]:
        code = code * _MIX
        code = ((code ^ (code >> _SHIFT)) + column) * _MIX
    return code


def _kinds(text: str) -> npt.NDArray[np.uint8]:
    """What each character of the lower-case text is."""
    if text.isascii():
        points: npt.NDArray[np.unsignedinteger] = np.frombuffer(text.encode(), np.uint8)
    else:  # in lower case, as words are read: some letters become two then
        points = np.frombuffer(text.lower().encode("utf-32-le", "surrogatepass"), "<u4")
    kinds: npt.NDArray[np.uint8] = _KINDS[points]
    unknown = points[kinds == _UNKNOWN]
    if len(unknown):
        for point in set(unknown.tolist()):
            _KINDS[point] = _kind(chr(point))
        kinds = _KINDS[points]
    return kinds


def _kind(character: str) -> int:
    if character.isalnum():  # the tokenizer knows which scripts it cuts into pairs of characters
        return _UNSPACED if len(tokenize(f"x{character}")) > 1 else _LETTER
    if character in _HYPHENS:
        return _HYPHEN
    return _BLANK if character in _BLANKS else _BREAK


def _spans(kinds: npt.NDArray[np.uint8]) -> tuple[Places, Places]:
    """Where words start and end: runs of letters, and of unspaced script each two neighbours (or a lone one)."""
    letter = np.zeros(len(kinds) + 2, np.bool_)
    letter[1:-1] = kinds == _LETTER
    edges = letter[1:] != letter[:-1]
    bounds = np.flatnonzero(edges)
    starts, ends = bounds[0::2], bounds[1::2]
    unspaced = np.zeros(len(kinds) + 2, np.bool_)
    unspaced[1:-1] = kinds == _UNSPACED
    if not unspaced.any():
        return starts, ends
    own, before, after = unspaced[1:-1], unspaced[:-2], unspaced[2:]
    pairs = np.flatnonzero(own & (after | ~before))
    all_starts = np.concatenate((starts, pairs))
    all_ends = np.concatenate((ends, pairs + 1 + after[pairs]))
    order = np.argsort(all_starts, kind="stable")
    return all_starts[order], all_ends[order]


def _joined(kinds: npt.NDArray[np.uint8], starts: Places, ends: Places) -> Flags:
    """Which words follow the one before them with only blanks, or one hyphen, between."""
    joined = np.zeros(len(starts), np.bool_)
    if len(starts) > 1:
        parting = np.zeros(len(kinds) + 1, np.int32)
        np.cumsum((kinds == _BREAK) | (kinds == _HYPHEN), out=parting[1:])
        before, here = ends[:-1], starts[1:]
        free = parting[here] <= parting[before]  # words of unspaced script overlap: nothing can part them
        hyphen = (here - before == 1) & (kinds[np.minimum(before, len(kinds) - 1)] == _HYPHEN)
        joined[1:] = free | hyphen
    return joined
