"""The space `embeddings`: the mean of the word vectors of a page, as a short dense vector.

Related words ('heron', 'egret') have similar vectors even if they never occur together in the examples, so a few
examples go further than with terms. On the other hand, words that distinguish neighbouring topics are similar as well.
So this space is best used in addition to the others, not in place of them.

The vector of a page is the sum over its distinct words of sqrt(count) times the mean of the word's prepared rows
(`word_vectors.py`), scaled to length 1. The model is that of the extra `opilio[embeddings]`, or a folder of the user's
(`classify.embedding_model`); without either, using the space is an error.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain

import numpy as np

from opilio.analyze.terms import tokenize
from opilio.features.classifier_input import ClassifierInput
from opilio.features.spaces import SPACES, Vector
from opilio.features.word_vectors import Table, load, marks_of
from opilio.settings import ClassifySettings

EMBEDDING = 3 << 32
"""Added to the number of a dimension; `spaces.py` lists the numbers of other kinds."""
MAX_WORDS = 2000
"""Words that are used; further ones change the mean little."""

MAX_WORD_BYTES = 60
MAX_WORD_CHARS = 30
"""Longer words are not cut into pieces."""

_MAX_REMEMBERED = 100_000
_MAX_CHARS = 10 * MAX_WORDS
_NOTHING = Vector(np.zeros(0, np.uint64), np.zeros(0))


class WordRows(dict[bytes, tuple[int, ...]]):
    """A cache of words in lower case, each with the rows of its pieces; none for an unknown word.

    When it is full, it is cleared.
    """

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._start, self._inside = marks_of(table.pieces)
        self._numbers = {piece: number for number, piece in enumerate(table.pieces)}
        self._longest = max(map(len, table.pieces))

    def __missing__(self, word: bytes) -> tuple[int, ...]:
        if len(word) > MAX_WORD_BYTES:
            return ()
        if len(self) >= _MAX_REMEMBERED:
            self.clear()
        rows = self[word] = self._look_up(word.decode("utf-8", "replace"))
        return rows

    def _look_up(self, word: str) -> tuple[int, ...]:
        plain = word if word.isascii() else _without_accents(word)
        whole = self._whole(word) or self._whole(plain)
        if whole or self._inside is None or len(word) > MAX_WORD_CHARS:
            return whole
        return tuple(self._cut(plain, self._start, self._inside))

    def _whole(self, word: str) -> tuple[int, ...]:
        """The row of a whole word. A case-sensitive model has names only with capitals."""
        for form in (word, word.capitalize(), word.upper()):
            number = self._numbers.get(self._start + form)
            if number is not None:
                return (number,)
        return ()

    def _cut(self, word: str, mark: str, inside: str) -> Iterator[int]:
        """The rows of the longest piece at the start, then of the longest that continues it, ...; gaps are skipped."""
        at = 0
        while at < len(word):
            for end in range(min(len(word), at + self._longest), at, -1):
                number = self._numbers.get(mark + word[at:end])
                if number is None and end == at + 1:  # scripts without spaces have one-letter pieces of either kind
                    number = self._numbers.get((self._start if mark == inside else inside) + word[at:end])
                if number is not None:
                    yield number
                    break
            at, mark = end, inside


def _without_accents(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


@lru_cache(maxsize=4)
def words_of(table: Table) -> WordRows:
    """The cache of a table, shared by all spaces of a process that use it."""
    return WordRows(table)


@SPACES.register("embeddings")
class Embeddings:
    """The mean of the vectors of a page's words. The model is loaded when the space is created."""

    name = "embeddings"
    dense = True

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings
        table = load(settings.embedding_model)
        self._rows = table.rows
        self._words = words_of(table)
        self._ids = np.arange(table.rows.shape[1], dtype=np.uint64) | np.uint64(EMBEDDING)
        self._ids.flags.writeable = False  # all vectors share it

    def vector(self, item: ClassifierInput) -> Vector:
        """The mean over title and text; empty if no word is known."""
        words = Counter(tokenize(f"{item.title}\n{item.text[:_MAX_CHARS]}")[:MAX_WORDS])
        pieces = list(map(self._words.__getitem__, words))
        lengths = np.fromiter(map(len, pieces), np.intp, len(pieces))
        rows = np.fromiter(chain.from_iterable(pieces), np.intp)
        if not len(rows):
            return _NOTHING
        counts = np.fromiter(words.values(), np.float32, len(words))
        shares = np.repeat(np.sqrt(counts) / np.maximum(lengths, 1), lengths).astype(np.float32)
        total = (shares @ self._rows.take(rows, axis=0)).astype(np.float64)
        length = float(np.sqrt(total @ total))
        return Vector(self._ids, total / length) if length > 0 else _NOTHING

    def names(self, item: ClassifierInput, terms: Mapping[int, str]) -> dict[int, str]:
        """Dimensions have no meaning by themselves, so they are numbered: 'embedding 17'."""
        return {EMBEDDING | dimension: f"embedding {dimension}" for dimension in range(len(self._ids))}
