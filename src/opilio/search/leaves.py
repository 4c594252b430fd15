"""What the index is asked for each word of a question: one leaf for each field that is looked into.

The score of a page is made of its leaves. So whoever knows how often each leaf stands in a page, how long the page is
and how many pages have the leaf can compute the same score elsewhere (`federation.merging`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tantivy

from opilio.errors import InputError
from opilio.search.index import SCHEMA, analyzer, spaced
from opilio.search.query import Word

# docs/results/search.md says how these were chosen.
BOOSTS = {"stems": 1.0, "title_stems": 2.0, "anchor": 1.0, "text": 0.2, "url": 0.2}
TITLE_BOOST = 2.0
STEMMED = frozenset({"stems", "title_stems", "anchor"})
"""Fields whose words are stems."""
_FIELD_OF = {"title": "title_stems", "text": "text", "anchor": "anchor", "url": "url"}
_WORDS, _STEMS = analyzer(stems=False), analyzer(stems=True)


@dataclass(frozen=True)
class Leaf:
    """One word in one field, or words that follow each other there."""

    field: str
    terms: tuple[str, ...]
    boost: float = 1.0
    is_prefix: bool = False
    distance: int = 0
    """How many letters may differ."""

    @property
    def key(self) -> str:
        """Its name: stems:owl, text:barn owl, title:owl*."""
        vague = "*" if self.is_prefix else f"~{self.distance}" if self.distance else ""
        return f"{self.field}:{' '.join(self.terms)}{vague}"

    @property
    def is_constant(self) -> bool:
        """Whether it adds the same to every page that has it."""
        return self.is_prefix or self.distance > 0

    def query(self) -> Any:
        """What the index is asked, without the boost."""
        if self.is_prefix:
            return tantivy.Query.regex_query(SCHEMA, self.field, f"{self.terms[0]}.*")
        if self.distance:
            return tantivy.Query.fuzzy_term_query(SCHEMA, self.field, self.terms[0], self.distance)
        if len(self.terms) > 1:
            return tantivy.Query.phrase_query(SCHEMA, self.field, list(self.terms))
        return term_query(self.field, self.terms[0])


def term_query(field: str, term: str) -> Any:
    """What the index is asked for one word in one field."""
    return tantivy.Query.term_query(SCHEMA, field, term, "freq")


def words_of(text: str, *, stems: bool = False) -> list[str]:
    """The words of a question's part as the index has them."""
    found: list[str] = (_STEMS if stems else _WORDS).analyze(spaced(text))
    return found


def leaves_of(word: Word) -> list[Leaf]:
    """Where a word is looked for: a page that has one of the leaves has the word."""
    words = words_of(word.text)
    if not words:
        raise InputError(f"{word.text!r} cannot be searched for: it is too long, or no word", "Leave it out.")
    if word.is_prefix or word.distance:
        return _vague(word, words)
    if word.is_phrase or len(words) > 1:
        return _phrase(word, tuple(words))
    stem = words_of(word.text, stems=True)[0]
    if word.field:
        field = _FIELD_OF[word.field]
        return [Leaf(field, (stem if field in STEMMED else words[0],))]
    return [Leaf(field, (stem if field in STEMMED else words[0],), boost) for field, boost in BOOSTS.items()]


def _phrase(word: Word, words: tuple[str, ...]) -> list[Leaf]:
    """Words in this order, as they are written; in anchors, in any form."""
    stems = tuple(words_of(word.text, stems=True))
    return [
        Leaf(field, stems if field == "anchor" else words, TITLE_BOOST if field == "title" else 1.0)
        for field in ([word.field] if word.field else ["text", "title", "anchor"])
    ]


def _vague(word: Word, words: list[str]) -> list[Leaf]:
    if len(words) > 1:
        raise InputError(f"{word.text!r} is more than one word, and * and ~ belong to one", "Write them apart.")
    return [
        Leaf(field, (words[0],), TITLE_BOOST if field == "title" else 1.0, word.is_prefix, word.distance)
        for field in ([word.field] if word.field else ["text", "title"])
    ]
