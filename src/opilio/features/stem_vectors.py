"""Word vectors by the hash codes of stems, as the words of links are known."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from opilio.analyze.terms import Vocabulary
from opilio.features.wordvectors import Table, load, locate, marks_of
from opilio.frontier.kindred import WordVectors

INSTALLED = "installed"
"""Instead of a folder: the model that the extra brings."""


def stem_vectors(model: str, language: str = "") -> WordVectors:
    """The vectors of a model's folder or file, or of the extra (`installed`), by the stems of a language."""
    return _of(load(_path(model)), language)


def check_vectors(model: str) -> None:
    """Raise SettingsError when there are no such vectors; they are not read for that."""
    if model:
        locate(_path(model))


def _path(model: str) -> str:
    return "" if model == INSTALLED else model


@lru_cache(maxsize=2)
def _of(table: Table, language: str) -> WordVectors:
    """Of the pieces of a model those that are whole words, and of words with the same stem the most frequent."""
    start, inside = marks_of(table.pieces)
    first: dict[str, int] = {}
    for number, piece in enumerate(table.pieces):
        if piece.startswith(start) and not (inside and piece.startswith(inside)):
            first.setdefault(piece[len(start) :].lower(), number)
    stems = Vocabulary().numbers([word.encode() for word in first], language).astype(np.uint32)
    rows = np.fromiter(first.values(), np.int64, len(first))
    is_term = stems > 0
    known, places = np.unique(stems[is_term], return_index=True)  # the first of each
    return WordVectors(known, rows[is_term][places], table.rows)
