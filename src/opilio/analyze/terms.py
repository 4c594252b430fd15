"""Terms: the stems of a page's words, as 32-bit hash codes with their counts.

A word is stemmed and hashed once and then remembered. What is remembered of it is one 64-bit number: the hash of its
stem in the lower half (0 for a word that is no term), the hash of the word itself in the upper half. So one look-up a
word serves both the terms of the page and its sketch. The numbers are kept as bytes, which are joined much faster than
Python's integers are made into an array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import Stemmer
import xxhash

from opilio.analyze.stopwords import ENGLISH

if TYPE_CHECKING:
    from opilio.analyze.sketch import Hashes

MAX_TERMS = 2000
"""Distinct terms kept of a page: the most frequent."""
MAX_TERM_BYTES = 60
MAX_NUMBER_DIGITS = 4
"""Longer numbers are no terms: they are dates, prices, serial numbers."""

_MAX_REMEMBERED = 500_000
_MAX_COUNT = 65535
_NO_TERM = np.zeros(1, "<u4")
_STEMMERS = {
    "ar": "arabic", "ca": "catalan", "da": "danish", "de": "german", "el": "greek", "es": "spanish", "eu": "basque",
    "fi": "finnish", "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian",
    "id": "indonesian", "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish", "yi": "yiddish",
}  # fmt: skip


class Terms(NamedTuple):
    """The terms of a page, as the model's `Document` holds them."""

    ids: bytes
    counts: bytes
    new: list[tuple[int, str]]


class _Words(dict[bytes, bytes]):
    """Words of one language, each with its 64-bit number."""

    def __init__(self, algorithm: str, stop_words: frozenset[str], on_term: Callable[[int, str], None]) -> None:
        super().__init__()
        self._stem = Stemmer.Stemmer(algorithm, 0).stemWord  # we remember the stems, it need not
        self._stop_words = stop_words
        self._on_term = on_term

    def __missing__(self, word: bytes) -> bytes:
        number = (xxhash.xxh32_intdigest(word, seed=1) << 32 | self._term(word)).to_bytes(8, "little")
        if len(word) <= MAX_TERM_BYTES:
            self[word] = number
        return number

    def _term(self, word: bytes) -> int:
        too_long = len(word) > (MAX_NUMBER_DIGITS if word.isdigit() else MAX_TERM_BYTES)
        text = "" if too_long else word.decode("utf-8", "replace")
        if len(text) < 2 or text in self._stop_words:
            return 0
        stem: str = self._stem(text)
        term = xxhash.xxh32_intdigest(stem.encode())
        self._on_term(term, stem)
        return term


class Vocabulary:
    """The words met so far, by language, and the terms already reported to the lexicon. Bounded: it starts afresh."""

    def __init__(self) -> None:
        self._languages: dict[str, _Words] = {}
        self._reported: set[int] = set()
        self._new: list[tuple[int, str]] = []

    def numbers(self, words: list[bytes], language: str) -> Hashes:
        """The 64-bit numbers of `words`, in order."""
        if sum(map(len, self._languages.values())) > _MAX_REMEMBERED:
            self._languages.clear()
        known = self._languages.get(language) or self._learn(language)
        return np.frombuffer(b"".join(map(known.__getitem__, words)), "<u8")

    def terms(self, numbers: Hashes) -> Terms:
        """The terms among `numbers`, and the stems that were met for the first time since the last call."""
        new, self._new = self._new, []
        ordered = np.sort(numbers.astype("<u4"))
        if not len(ordered) or ordered[0]:
            ordered = np.concatenate((_NO_TERM, ordered))
        # Each change to another value starts the run of a term; what is before the first change is no term.
        starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        if not len(starts):
            return Terms(b"", b"", new)
        counts = np.empty_like(starts)
        counts[:-1] = starts[1:] - starts[:-1]
        counts[-1] = len(ordered) - starts[-1]
        ids = ordered[starts]
        if len(ids) > MAX_TERMS:
            kept = np.sort(np.argsort(-counts, kind="stable")[:MAX_TERMS])
            ids, counts = ids[kept], counts[kept]
        return Terms(ids.tobytes(), np.minimum(counts, _MAX_COUNT).astype("<u2").tobytes(), new)

    def _report(self, term: int, stem: str) -> None:
        """Note a stem for the lexicon, unless it was noted before; to note it twice does no harm."""
        if term in self._reported:
            return
        if len(self._reported) > _MAX_REMEMBERED:
            self._reported.clear()
        self._reported.add(term)
        self._new.append((term, stem))

    def _learn(self, language: str) -> _Words:
        algorithm = _STEMMERS.get(language, "porter")
        stop_words = ENGLISH if language in ("", "en") else frozenset()
        words = self._languages[language] = _Words(algorithm, stop_words, self._report)
        return words
