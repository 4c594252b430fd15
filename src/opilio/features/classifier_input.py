"""What a classifier is given: everything known about a page when it is judged or learned from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from opilio.analyze.language import language_of
from opilio.analyze.terms import Vocabulary, term_ids, tokenize
from opilio.model import Document

if TYPE_CHECKING:  # takes 0.1 s to import
    import numpy.typing as npt

    Stems = npt.NDArray[np.uint32]
    """Hash codes of stems in the order of the text; 0 for a word that is not a term, such as a stop word."""

SIGNIFICANT_STEMS = 30
"""Stems that represent a neighbour: a few suffice to characterise a page, and all of them would drown out its own."""

NO_STEMS: Stems = np.zeros(0, np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierInput:
    """Everything known about a page when it is judged. If a space finds nothing in it, its vector is empty."""

    stems: Stems
    """Those of title and text."""
    anchors: Stems = field(default_factory=lambda: NO_STEMS)
    """Those of the anchor texts of links to the page, one link after the other, with a 0 between them."""
    neighbours: Stems = field(default_factory=lambda: NO_STEMS)
    """The most significant ones of pages that link here or are linked to."""
    title: str = ""
    text: str = ""
    language: str = ""
    url: str = ""

    @classmethod
    def of(cls, document: Document, url: str, anchor: str = "", neighbours: bytes = b"") -> ClassifierInput:
        """From a document with one known link to it; `neighbours` are uint32, little-endian."""
        return cls(
            stems=np.frombuffer(document.stems, "<u4"),
            anchors=np.array(term_ids(anchor, document.language), np.uint32) if anchor else NO_STEMS,
            neighbours=np.frombuffer(neighbours, "<u4") if neighbours else NO_STEMS,
            title=document.title,
            text=document.text,
            language=document.language,
            url=url,
        )


def significant_stems(document: Document) -> bytes:
    """The stems that represent a page as a neighbour of others (uint32 little-endian): its most frequent ones."""
    ids, counts = np.frombuffer(document.term_ids, "<u4"), np.frombuffer(document.term_counts, "<u2")
    if len(ids) <= SIGNIFICANT_STEMS:
        return document.term_ids
    chosen = np.argpartition(counts, -SIGNIFICANT_STEMS)[-SIGNIFICANT_STEMS:]
    return np.sort(ids[chosen]).tobytes()


class TextReader:
    """Makes the input from texts that no worker has analysed: training documents, files. It stems as workers do."""

    def __init__(self, vocabulary: Vocabulary | None = None) -> None:
        self._vocabulary = vocabulary or Vocabulary()
        self.terms: dict[int, str] = {}
        """The stems read so far, by hash code; without those that a given `vocabulary` has reported before."""

    def read(
        self,
        title: str,
        text: str,
        language: str = "",
        url: str = "",
        anchors: Iterable[str] = (),
        neighbours: Stems = NO_STEMS,
    ) -> ClassifierInput:
        """From a text, whose language is detected if it is not given; `anchors` are anchor texts."""
        language = language or language_of(text)
        links = [self.stems(anchor, language) for anchor in anchors]
        gap = np.zeros(1, np.uint32)
        joined = np.concatenate([piece for link in links for piece in (link[link > 0], gap)]) if links else NO_STEMS
        return ClassifierInput(self.stems(f"{title}\n{text}", language), joined, neighbours, title, text, language, url)

    def stems(self, text: str, language: str = "") -> Stems:
        """The stems of a text in order, with 0 for words that are not terms."""
        numbers = self._vocabulary.numbers(tokenize(text), language)
        self.terms.update(self._vocabulary.terms(numbers[:0]).new)
        return numbers.astype(np.uint32)
