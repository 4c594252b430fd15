"""The space `embeddings`: where a page's words point to, as a short dense vector.

Words that never meet in the examples ('heron', 'egret') still lie close to each other, so a few examples go further
than with terms; the price is that words which tell neighbouring topics apart lie close as well. It is best used beside
the other spaces, not instead of them.

The vector of a page is the sum over its distinct words of sqrt(count) times the mean of the word's prepared rows
(`wordvectors.py`), scaled to length 1. The model is that of the extra `opilio[embeddings]`, or a folder of the user's
(`classify.embedding_model`); without any, asking for the space is an error.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain

import numpy as np

from opilio.analyze.terms import tokenize
from opilio.features.evidence import Evidence
from opilio.features.spaces import SPACES, Vector
from opilio.features.word_vectors import Table, load, marks_of
from opilio.settings import ClassifySettings

EMBEDDING = 3 << 32
"""Added to the number of a dimension; see `spaces.py` for the numbers of other kinds."""
MAX_WORDS = 2000
"""Words looked at: further ones move the mean little."""

MAX_WORD_BYTES = 60
MAX_WORD_CHARS = 30
"""Longer words are not cut into pieces."""

_MAX_REMEMBERED = 100_000
_MAX_CHARS = 10 * MAX_WORDS
_NOTHING = Vector(np.zeros(0, np.uint64), np.zeros(0))


class WordRows(dict[bytes, tuple[int, ...]]):
    """The words met so far, in lower case, each with the rows of its pieces; none for one that is not known.

    Bounded: it starts afresh.
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
        """A model that tells case has names only with their capitals."""
        for form in (word, word.capitalize(), word.upper()):
            number = self._numbers.get(self._start + form)
            if number is not None:
                return (number,)
        return ()

    def _cut(self, word: str, mark: str, inside: str) -> Iterator[int]:
        """The longest piece that the word starts with, then the longest that goes on, ...; what has none is skipped."""
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
    """Shared by all spaces of a process that use this table."""
    return WordRows(table)


@SPACES.register("embeddings")
class Embeddings:
    """The mean of the vectors of a page's words. The model is opened when the space is made, not when it is named."""

    name = "embeddings"
    dense = True

    def __init__(self, settings: ClassifySettings) -> None:
        self.settings = settings
        table = load(settings.embedding_model)
        self._rows = table.rows
        self._words = words_of(table)
        self._ids = np.arange(table.rows.shape[1], dtype=np.uint64) | np.uint64(EMBEDDING)
        self._ids.flags.writeable = False  # all vectors share it

    def vector(self, evidence: Evidence) -> Vector:
        """The mean of title and text; empty when no word is known."""
        words = Counter(tokenize(f"{evidence.title}\n{evidence.text[:_MAX_CHARS]}")[:MAX_WORDS])
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

    def names(self, evidence: Evidence, terms: Mapping[int, str]) -> dict[int, str]:
        """Dimensions have no meaning by themselves, so they are counted: 'embedding 17'."""
        return {EMBEDDING | dimension: f"embedding {dimension}" for dimension in range(len(self._ids))}
