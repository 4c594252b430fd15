"""A set of words in few bits (a Bloom filter): it knows surely that a word is not in it, and almost that one is.

A summary has no room for every word of a large collection. The words it leaves out stand in such a set, so that no
collection is passed over because a word is rare in it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import xxhash

BITS_PER_WORD = 10
PROBES = 7  # with 10 bits a word, one word of 120 that is not in the set seems to be
MAX_BYTES = 2**21
"""Room for 1.7 million words; with more, more words seem to be in it that are not."""


def make_set(words: Iterable[str]) -> bytes:
    """The set of some words."""
    hashes = np.fromiter((xxhash.xxh3_64_intdigest(word.encode()) for word in words), np.uint64)
    if not len(hashes):
        return b""
    size = min(MAX_BYTES, max(8, len(hashes) * BITS_PER_WORD // 8 + 1))
    flags = np.zeros(size * 8, bool)
    low, high = hashes & np.uint64(0xFFFFFFFF), hashes >> np.uint64(32)
    for probe in range(PROBES):
        flags[(low + np.uint64(probe) * high) % np.uint64(size * 8)] = True
    return np.packbits(flags, bitorder="little").tobytes()


def may_have(packed: bytes, word: str) -> bool:
    """Whether a word may be in a set."""
    if not packed:
        return False
    code, bits = xxhash.xxh3_64_intdigest(word.encode()), len(packed) * 8
    low, high = code & 0xFFFFFFFF, code >> 32
    places = ((low + probe * high) % bits for probe in range(PROBES))
    return all(packed[place >> 3] >> (place & 7) & 1 for place in places)
