"""Collocations: two or three terms that follow each other (OASIS 4, step 2).

There must be no stop word and no punctuation between them. Spaces do not separate words, nor does a hyphen that joins
them ("object-oriented programming" is one collocation of three); line ends do, because lines are headings, paragraphs
and list items.

A `ClassifierInput` has the stems of a page but not their positions. They are found again here without tokenising: the
kinds of the characters suffice, and numpy processes all of them at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from opilio.analyze.terms import tokenize
from opilio.features.classifier_input import ClassifierInput

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.features.classifier_input import Stems

    Places = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]
    Codes = npt.NDArray[np.uint64]

SIZES = (1, 2, 3)
"""Numbers of words in an element of a filter: a term, a pair, a triple."""

# The kind of each character, by its code point; filled in as characters occur.
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
    """0 for a word that is not a term."""
    joined: Flags
    """Whether nothing separates a word from the previous one."""
    starts: Places
    """The character at which a word starts; empty if the text of the page is not available."""
    ends: Places
    chars: int
    """Number of characters in title and text."""


class Phrases(NamedTuple):
    """All collocations of one size, in their order."""

    codes: Codes
    """A number for each, which depends only on the stems and their order."""
    places: Places
    """The index of its first word."""


def words_of(item: ClassifierInput) -> PlacedWords:
    """The words of a page. Without its text, only stop words are known to separate them."""
    stems = item.stems
    text = f"{item.title}\n{item.text}" if item.title else item.text
    if text:
        kinds = _kinds(text)
        starts, ends = _spans(kinds)
        if len(starts) == len(stems):
            return PlacedWords(stems, _joined(kinds, starts, ends), starts, ends, len(kinds))
    return PlacedWords(stems, np.ones(len(stems), np.bool_), _NOWHERE, _NOWHERE, 0)


def phrases(words: PlacedWords, size: int) -> Phrases:
    """The collocations of `size` words; for one word, the terms themselves."""
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
    """One number for each row: exact for two stems, a 64-bit hash for three."""
    code = columns[0].astype(np.uint64)
    for column in columns[1:2]:
        code = (code << _SHIFT) | column
    for column in columns[2:]:
        code = code * _MIX
        code = ((code ^ (code >> _SHIFT)) + column) * _MIX
    return code


def _kinds(text: str) -> npt.NDArray[np.uint8]:
    """The kind of each character of the text in lower case."""
    if text.isascii():
        points: npt.NDArray[np.unsignedinteger] = np.frombuffer(text.encode(), np.uint8)
    else:  # in lower case, as the tokenizer does: some letters become two
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
    """Where words start and end: runs of letters, and pairs of characters (or a single one) in unspaced script."""
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
    """Which words follow the previous one with only blanks, or one hyphen, between them."""
    joined = np.zeros(len(starts), np.bool_)
    if len(starts) > 1:
        parting = np.zeros(len(kinds) + 1, np.int32)
        np.cumsum((kinds == _BREAK) | (kinds == _HYPHEN), out=parting[1:])
        before, here = ends[:-1], starts[1:]
        free = parting[here] <= parting[before]  # words of unspaced script overlap: nothing can separate them
        hyphen = (here - before == 1) & (kinds[np.minimum(before, len(kinds) - 1)] == _HYPHEN)
        joined[1:] = free | hyphen
    return joined
