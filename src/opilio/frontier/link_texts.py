"""What a sentence encoder says of links: how similar their texts are to those that led to relevant pages.

The text of a link is its anchor text with the words of its URL. An encoder (`features/encoder.py`) gives it a vector of
length 1. The links whose pages are known, and texts that were given before the crawl, show what to look for: the mean
vector of the relevant ones less the mean vector of the others. How far a link lies in that direction is its similarity.

A text takes one or two milliseconds, so a strategy asks for the best of its queued URLs only.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote, urlsplit

import numpy as np

from opilio.frontier.arrays import ABSENT
from opilio.model import Document, Link

if TYPE_CHECKING:
    import numpy.typing as npt

    Oids: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]
    Matrix: TypeAlias = npt.NDArray[np.float32]
    Encode: TypeAlias = Callable[[Sequence[str]], Matrix]
    """Gives each text a row of length 1, or of zeros."""

MAX_TEXTS = 3
"""Different texts of links to one URL that count: the first."""
MAX_URLS = 200_000
"""URLs whose texts are remembered: the latest."""
MAX_POINTS = 1024
"""Links with known pages that count: the latest. After a restart all of them are encoded at once."""
MOST_SPREADS = 5.0
_MAX_CHARS = 160
_LEAST_SPREAD = 1e-6
_WORD = re.compile(r"[^\W\d_]{2,}|\d{4}")
_NO_WORDS = frozenset({"htm", "html", "php", "asp", "aspx", "index", "pdf", "jpg", "png"})


def link_text(link: Link) -> str:
    """The anchor text, and the words at the end of the URL that it lacks."""
    anchor = link.anchor[:_MAX_CHARS]
    path = "/".join(urlsplit(link.url).path.rstrip("/").split("/")[-2:])
    words = [word for word in _WORD.findall(unquote(path)) if word.lower() not in _NO_WORDS]
    missing = " ".join(word for word in words if word.lower() not in anchor.lower())[:_MAX_CHARS]
    return ", ".join(part for part in (anchor, missing) if part)


class TextSimilarity:
    """By queued URL: how similar the texts of the links to it are to those that led to relevant pages."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._texts: dict[int, list[str]] = {}
        """By oid: the texts of links to a URL whose page is not known."""
        self._settled: deque[tuple[int, list[str]]] = deque(maxlen=MAX_POINTS)
        """URLs with known pages."""
        self._given: list[tuple[str, float]] = []
        self._direction: Matrix | None = None
        self._mean, self._spread = 0.0, 1.0

    def prepare(self, texts: Sequence[tuple[str, float]]) -> None:
        """Texts whose relevance is known before the crawl, such as titles of examples; they replace earlier ones."""
        self._given = [(text[:_MAX_CHARS], relevance) for text, relevance in texts if text.strip()]

    def add_links(self, document: Document, oids: Sequence[int]) -> None:
        """Remember the texts of the links of a page, which lead to `oids`."""
        for link, oid in zip(document.links, oids, strict=True):
            if oid != ABSENT:
                self._add(oid, [link_text(link)])
        while len(self._texts) > MAX_URLS:
            del self._texts[next(iter(self._texts))]

    def _add(self, oid: int, texts: Sequence[str]) -> None:
        known = self._texts.setdefault(oid, [])
        known += [text for text in texts if text and text not in known][: MAX_TEXTS - len(known)]

    def settle(self, oid: int) -> None:
        """The relevance of a URL's page is known."""
        texts = self._texts.pop(oid, None)
        if texts:
            self._settled.append((oid, texts))

    def forget(self, oid: int) -> None:
        """A URL will not be fetched, which says nothing about its page."""
        self._texts.pop(oid, None)

    def hand_over(self, oid: int, target: int) -> None:
        """A URL leads to `target`: texts of links to the first are texts of links to the second."""
        self._add(target, self._texts.get(oid, []))

    def refresh(self, relevance: npt.NDArray[np.float32], best: Oids) -> None:
        """Recompute the direction, and standardise by the URLs `best`; `relevance` has a number for each oid."""
        points = np.concatenate(
            (self._rows([[text] for text, _ in self._given]), self._rows([t for _, t in self._settled]))
        )
        known = relevance[[oid for oid, _ in self._settled]]
        good = np.concatenate(([good for _, good in self._given], known)).astype(np.float32)
        points, good = points[~np.isnan(good)], good[~np.isnan(good)]
        if good.sum() <= 0 or (1 - good).sum() <= 0:
            return
        self._direction = good @ points / good.sum() - (1 - good) @ points / (1 - good).sum()
        self._mean, self._spread = 0.0, 1.0
        found = self._distances(best, self._direction)
        found = found[~np.isnan(found)]
        if len(found) > 1:
            self._mean, self._spread = float(found.mean()), max(float(found.std()), _LEAST_SPREAD)

    def similarities(self, oids: Oids) -> Values:
        """In units of the spread over the best URLs; 0 for a URL of which no text is known."""
        if self._direction is None:
            return np.zeros(len(oids))
        found = (self._distances(oids, self._direction) - self._mean) / self._spread
        return np.clip(np.nan_to_num(found), -MOST_SPREADS, MOST_SPREADS)

    def _distances(self, oids: Oids, direction: Matrix) -> Values:
        """How far the texts of each URL lie in a direction; not a number where no text is known."""
        texts = [self._texts.get(oid, []) for oid in oids.tolist()]
        found = (self._rows(texts) @ direction).astype(np.float64)
        found[[not some for some in texts]] = np.nan
        return found

    def _rows(self, texts: Sequence[Sequence[str]]) -> Matrix:
        """For each group of texts the mean of their vectors, scaled to length 1."""
        rows = self._encode([text for group in texts for text in group])
        of = np.repeat(np.arange(len(texts)), [len(group) for group in texts])
        sums = np.zeros((len(texts), rows.shape[1]), np.float32)
        np.add.at(sums, of, rows)
        scaled: Matrix = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), _LEAST_SPREAD)
        return scaled
