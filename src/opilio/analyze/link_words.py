"""The words of links as hash codes: what a strategy looks at that judges links by what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from opilio.analyze.terms import Vocabulary
from opilio.analyze.tokens import tokenize
from opilio.model import Link

MAX_WORDS = 60
"""Of a link, and as many of those around it."""


class LinkWords(NamedTuple):
    """The words of all links of a page, as the model's `Document` holds them."""

    stems: bytes = b""
    inside: bytes = b""
    around: bytes = b""


def link_words(links: Sequence[Link], language: str, vocabulary: Vocabulary) -> LinkWords:
    """The stems of the words in and around links, and of the paths of their URLs."""
    parts = [part[:MAX_WORDS] for link in links for part in _parts(link)]
    words = [word for part in parts for word in part]
    stems = vocabulary.numbers(words, language).astype(np.uint32)
    part_of = np.repeat(np.arange(len(parts)), np.fromiter(map(len, parts), np.int64, len(parts)))
    counts = np.bincount(part_of[stems > 0], minlength=len(parts)).astype(np.uint8)
    return LinkWords(stems[stems > 0].astype("<u4").tobytes(), counts[::2].tobytes(), counts[1::2].tobytes())


def _parts(link: Link) -> Iterator[list[bytes]]:
    url = link.url
    yield tokenize(link.anchor) + tokenize(url[url.index("/", 8) :])
    yield tokenize(link.context) if link.context else []
