"""Sketches of texts: 64 small numbers that suffice to estimate the similarity of two pages.

A text is represented by the set of its *shingles*, all runs of five words. Hashing puts each shingle into one of 64
bins; a bin keeps its smallest hash. The probability that two texts agree in a bin is the Jaccard similarity of their
shingle sets (one-permutation MinHash). Empty bins, which short pages have, borrow from another bin; each bin has its
own fixed random order of lenders, which keeps the estimate unbiased.

To find candidates, eight consecutive bins form a *band*: pages that share a band are worth comparing. Of pairs with
similarity 0.9, 99 % share a band; of pairs with similarity 0.5, 3 % do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xxhash

if TYPE_CHECKING:  # takes 0.1 s to import
    import numpy.typing as npt

    Hashes = npt.NDArray[np.uint64]


BINS = 64
BANDS = 8
WORDS_PER_SHINGLE = 5
MIN_WORDS = 30
"""A shorter text has too few shingles for a meaningful similarity."""

_BAND_BYTES = BINS // BANDS * 4
_BIN_SHIFT = np.uint64(64 - 6)  # the top six bits choose the bin,
_VALUE_SHIFT = np.uint64(32 - 6)  # the 32 bits after them are the value
_BIN_NUMBERS: Hashes = np.arange(BINS, dtype=np.uint64)
_BIN_STARTS: Hashes = _BIN_NUMBERS << _BIN_SHIFT
_ALL_BINS = _BIN_NUMBERS.tobytes()
# Odd multipliers, one for each place in a shingle, so that the order of words counts.
_PLACES: Hashes = np.array(
    [xxhash.xxh3_64_intdigest(b"place %d" % place) | 1 for place in range(WORDS_PER_SHINGLE)], np.uint64
)
_MIX = np.uint64(xxhash.xxh3_64_intdigest(b"mix") | 1)
_HALF = np.uint64(32)
_VALUE = np.dtype("<u4")
# For each bin, the order in which it borrows from the others if it is empty.
_LENDERS = np.argsort(
    [[xxhash.xxh3_64_intdigest(b"%d asks %d" % (bin_, other)) for other in range(BINS)] for bin_ in range(BINS)]
)


def sketch(words: Hashes) -> bytes:
    """The sketch of a text, given the 64-bit hashes of its words in order; b'' if it is too short to compare."""
    if len(words) < MIN_WORDS:
        return b""
    shingles = np.correlate(words, _PLACES, "valid")
    shingles ^= shingles >> _HALF
    shingles *= _MIX
    shingles ^= shingles >> _HALF
    shingles *= _MIX
    shingles.sort()
    # In sorted order, the smallest hash of a bin is the first one not below the start of the bin.
    firsts = shingles.take(shingles.searchsorted(_BIN_STARTS), mode="clip")
    bins = firsts >> _BIN_SHIFT
    values = (firsts >> _VALUE_SHIFT).astype(_VALUE)
    if bins.tobytes() != _ALL_BINS:
        filled = bins == _BIN_NUMBERS
        empty = np.flatnonzero(~filled)
        lenders = _LENDERS[empty]
        chosen = filled[lenders].argmax(axis=1)
        values[empty] = values[lenders[np.arange(len(empty)), chosen]]
    return values.tobytes()


def jaccard(a: bytes, b: bytes) -> float:
    """The estimated Jaccard similarity of two sketched texts; 0.0 if one of them has no sketch."""
    if not a or not b:
        return 0.0
    return int(np.count_nonzero(np.frombuffer(a, "<u4") == np.frombuffer(b, "<u4"))) / BINS


def bands(sketch: bytes) -> list[int]:
    """The 64-bit keys of the bands of a sketch; similar texts share at least one. Empty for an empty sketch."""
    return [
        xxhash.xxh3_64_intdigest(sketch[start : start + _BAND_BYTES], seed=number)
        for number, start in enumerate(range(0, len(sketch), _BAND_BYTES))
    ]
