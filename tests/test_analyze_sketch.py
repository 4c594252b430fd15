"""Sketches against exact Jaccard similarity of shingle sets."""

from __future__ import annotations

import random
import statistics

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from opilio.analyze import bands, jaccard
from opilio.analyze.sketch import BANDS, BINS, MIN_WORDS, WORDS_PER_SHINGLE, sketch


def sketch_of(words: list[str]) -> bytes:
    """The sketch of a text given as words."""
    return sketch(np.array([xxhash.xxh3_64_intdigest(word.encode()) for word in words], np.uint64))


def exact(a: list[str], b: list[str]) -> float:
    """The Jaccard similarity of two texts by brute force."""
    sets = [
        {tuple(words[i : i + WORDS_PER_SHINGLE]) for i in range(len(words) - WORDS_PER_SHINGLE + 1)} for words in (a, b)
    ]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def pair_of(rng: random.Random, words: int, edits: int) -> tuple[list[str], list[str]]:
    """A random text, and the same with some words changed."""
    text = [f"w{rng.randrange(5000)}" for _ in range(words)]
    other = list(text)
    for at in rng.sample(range(words), edits):
        other[at] = f"x{rng.randrange(10**9)}"
    return text, other


@pytest.mark.parametrize("words", [40, 150, 1000])
@pytest.mark.parametrize("edit_share", [0.01, 0.05, 0.15])
def test_estimate_is_unbiased(words: int, edit_share: float) -> None:
    """Over many pairs the mean error is near 0, for short texts with borrowed bins too, and single errors are small."""
    rng = random.Random(words * 1000 + int(edit_share * 100))
    errors = []
    for _ in range(150):
        a, b = pair_of(rng, words, max(1, round(words * edit_share)))
        errors.append(jaccard(sketch_of(a), sketch_of(b)) - exact(a, b))
    # An estimate of 64 independent bins has a standard error of at most 0.0625; borrowed bins are not independent.
    bound = 0.0625 if words >= 150 else 0.12
    assert abs(statistics.fmean(errors)) < 4 * bound / 150**0.5
    assert statistics.pstdev(errors) < 1.25 * bound


def test_near_duplicates_share_a_band() -> None:
    """Of pairs with similarity of at least 0.9, 97 % and more share a band; of dissimilar ones hardly any."""
    rng = random.Random(7)
    found = near = false = far = 0
    for _ in range(400):
        a, b = pair_of(rng, 500, rng.choice((1, 2, 4, 60, 100)))
        shared = not set(bands(sketch_of(a))).isdisjoint(bands(sketch_of(b)))
        similarity = exact(a, b)
        near, found = near + (similarity >= 0.9), found + (similarity >= 0.9 and shared)
        far, false = far + (similarity < 0.4), false + (similarity < 0.4 and shared)
    assert near > 150
    assert far > 100
    assert found / near >= 0.97
    assert false / far <= 0.05


@given(st.lists(st.sampled_from("abcdefgh"), min_size=MIN_WORDS, max_size=60))
def test_repetition_and_identity(words: list[str]) -> None:
    """A sketch depends on the set of shingles only: how often a text repeats itself does not count."""
    assert sketch_of(words * 2) == sketch_of(words * 3)
    assert jaccard(sketch_of(words), sketch_of(words)) == 1.0
    assert len(sketch_of(words)) == 4 * BINS


@given(st.lists(st.text(min_size=1, max_size=4), max_size=MIN_WORDS - 1))
def test_short_texts_have_no_sketch(words: list[str]) -> None:
    """Short texts have no sketch, no bands, and are similar to nothing."""
    assert sketch_of(words) == b""
    assert bands(b"") == []
    assert jaccard(b"", b"") == jaccard(b"", sketch_of(["x"] * MIN_WORDS)) == 0.0


def test_word_order_counts() -> None:
    """The same words in another order are another text."""
    words = [f"w{i}" for i in range(200)]
    assert jaccard(sketch_of(words), sketch_of(words[::-1])) < 0.1


def test_bands_are_salted() -> None:
    """Equal rows in different bands give different keys, so that a key names its band; keys fit 64 bits."""
    keys = bands(sketch_of(["same"] * 100))
    assert len(set(keys)) == BANDS
    assert all(0 <= key < 2**64 for key in keys)


def test_known_sketch() -> None:
    """Sketches are stored and compared across runs and versions: this one must never change."""
    words = np.arange(1, 101, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert xxhash.xxh3_64_hexdigest(sketch(words)) == "bc51e60463a725ae"
