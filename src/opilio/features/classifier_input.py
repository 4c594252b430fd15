"""What a classifier is given: everything known about a page when it is judged or learned from."""

from __future__ import annotations

import functools
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from opilio.analyze.language import language_of
from opilio.analyze.terms import Terms, Vocabulary, spellings, term_ids, tokenize
from opilio.model import Document

if TYPE_CHECKING:  # takes 0.1 s to import
    import numpy.typing as npt

    from opilio.analyze.sketch import Hashes

    Stems = npt.NDArray[np.uint32]
    """Hash codes of stems in the order of the text; 0 for a word that is not a term, such as a stop word."""

SIGNIFICANT_STEMS = 30
"""Stems that represent a neighbour: a few suffice to characterise a page, and all of them would drown out its own."""

REMEMBERED_BYTES = 16 * 2**20
"""Stems of texts that a process remembers: those of a thousand long pages. Splitting one again takes 0.5 ms."""
_REMEMBERED_CHARS = 500  # a shorter text is split as fast as it is found
_MAX_NAMES = 300_000

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

    def __init__(self, remembered_bytes: int = 0) -> None:
        """Up to `remembered_bytes` of stems are remembered, those of the texts that were read last."""
        self._vocabulary = Vocabulary()
        self._remembered_bytes = remembered_bytes
        self._memory: dict[tuple[bytes, str], Stems] = {}  # in the order in which they were read last
        self._held_bytes = 0
        self._turn = threading.RLock()
        self.terms: dict[int, str] = {}
        """The stems read so far, by hash code."""

    def read(
        self,
        title: str,
        text: str,
        language: str | None = None,
        url: str = "",
        anchors: Iterable[str] = (),
        neighbours: Stems = NO_STEMS,
    ) -> ClassifierInput:
        """From a text; `anchors` are anchor texts.

        The language is detected if it is not given. '' is given for a page of which no worker could tell it.
        """
        language = language_of(text) if language is None else language
        links = self._links([*anchors], language)
        return ClassifierInput(self.stems(f"{title}\n{text}", language), links, neighbours, title, text, language, url)

    def stems(self, text: str, language: str = "") -> Stems:
        """The stems of a text in order, with 0 for words that are not terms."""
        if not self._remembered_bytes or len(text) < _REMEMBERED_CHARS:
            return self._numbers(text, language).astype(np.uint32)
        key = _key(text, language)
        with self._turn:
            stems = self._memory.get(key)
            if stems is None:
                stems = self._numbers(text, language).astype(np.uint32)
            self._hold(key, stems)
        return stems

    def remember(self, document: Document) -> None:
        """Remember the stems of a page that a worker has split, so that it is not split here."""
        text = f"{document.title}\n{document.text}"
        if document.stems and len(text) >= _REMEMBERED_CHARS:
            with self._turn:
                self._hold(_key(text, document.language), np.frombuffer(document.stems, "<u4"))

    def _hold(self, key: tuple[bytes, str], stems: Stems) -> None:
        """Remember stems as those that were read last. All readings share them."""
        stems.flags.writeable = False
        before = self._memory.pop(key, NO_STEMS)
        self._memory[key] = stems
        self._held_bytes += stems.nbytes - before.nbytes
        while self._held_bytes > self._remembered_bytes:
            self._held_bytes -= self._memory.pop(next(iter(self._memory))).nbytes

    def names(self, items: Sequence[ClassifierInput]) -> dict[int, str]:
        """The stems in some texts that were read here and in their anchor texts, by hash code."""
        codes: set[int] = set()
        for item in items:
            of_item = {*item.stems.tolist(), *item.anchors.tolist()} - {0}
            if item.text and not of_item <= self.terms.keys():  # a worker has split it
                self._numbers(f"{item.title}\n{item.text}", item.language)
            codes |= of_item
        return {code: self.terms[code] for code in sorted(codes) if code in self.terms}

    def spellings(self, texts: Iterable[tuple[str, str, Collection[int]]]) -> dict[int, str]:
        """For each term, the word that texts write most often for it; a text comes with its language and its terms."""
        with self._turn:
            return spellings(texts, self._vocabulary)

    def counted_terms(self, text: str, language: str) -> Terms:
        """The terms of a text, as a worker counts them."""
        with self._turn:
            return self._vocabulary.terms(self._numbers(text, language))

    def _links(self, anchors: Sequence[str], language: str) -> Stems:
        """The stems of anchor texts, with a 0 after each. All at once: a page may have dozens of a few words each."""
        if not anchors:
            return NO_STEMS
        distinct = {anchor: [*tokenize(anchor), b""] for anchor in {*anchors}}  # most links to a page say the same
        words = [distinct[anchor] for anchor in anchors]
        stems = self._numbers_of([word for link in words for word in link], language).astype(np.uint32)
        kept = stems > 0
        kept[np.cumsum([len(link) for link in words]) - 1] = True
        return stems[kept]

    def _numbers(self, text: str, language: str) -> Hashes:
        return self._numbers_of(tokenize(text), language)

    def _numbers_of(self, words: list[bytes], language: str) -> Hashes:
        with self._turn:
            if len(self.terms) > _MAX_NAMES:  # whoever holds the names keeps them
                self._vocabulary, self.terms = Vocabulary(), {}
            numbers = self._vocabulary.numbers(words, language)
            self.terms.update(self._vocabulary.take_new())
        return numbers


def _key(text: str, language: str) -> tuple[bytes, str]:
    return xxhash.xxh3_128_digest(text.encode("utf-8", "replace")), language


@functools.cache
def stored_reader() -> TextReader:
    """The reader of stored texts in this process. A text that several models learn from or judge is split once, in a
    crawl by its worker, and a word is stemmed once. Threads may share it."""
    return TextReader(REMEMBERED_BYTES)
