"""From a question to a query of the index, and to masks over the columns.

Each word of a question becomes leaves of the query, one for each field that is searched. The score of a page is made of
its leaves. So whoever knows how often each leaf is in a page, how long the page is and how many pages have the leaf can
compute the same score elsewhere (`federation.merging`).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tantivy

from opilio.errors import InputError
from opilio.search.columns import Columns
from opilio.search.index import SCHEMA, analyzer, spaced
from opilio.search.query import AnyOf, Filter, Node, Without, Word
from opilio.topics import TopicRecord, find_topic
from opilio.topics.tree import OTHERS

if TYPE_CHECKING:
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]

# docs/results/search.md says how these were chosen.
BOOSTS = {"stems": 1.0, "title_stems": 2.0, "anchor": 1.0, "text": 0.2, "url": 0.2}
TITLE_BOOST = 2.0
STEMMED = frozenset({"stems", "title_stems", "anchor"})
"""Fields whose words are stems."""
_FIELD_OF = {"title": "title_stems", "text": "text", "anchor": "anchor", "url": "url"}
_WORDS, _STEMS = analyzer(stems=False), analyzer(stems=True)
_MUST, _SHOULD, _MUST_NOT = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Occur.MustNot


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
        """The query, without the boost."""
        if self.is_prefix:
            return tantivy.Query.regex_query(SCHEMA, self.field, f"{self.terms[0]}.*")
        if self.distance:
            return tantivy.Query.fuzzy_term_query(SCHEMA, self.field, self.terms[0], self.distance)
        if len(self.terms) > 1:
            return tantivy.Query.phrase_query(SCHEMA, self.field, list(self.terms))
        return term_query(self.field, self.terms[0])


def term_query(field: str, term: str) -> Any:
    """The query for one word in one field."""
    return tantivy.Query.term_query(SCHEMA, field, term, "freq")


def words_of(text: str, *, stems: bool = False) -> list[str]:
    """The words of a question's part as the index has them."""
    found: list[str] = (_STEMS if stems else _WORDS).analyze(spaced(text))
    return found


def leaves_of(word: Word) -> list[Leaf]:
    """Where a word is searched: a page that has one of the leaves has the word."""
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


def query_of(node: Node) -> Any:
    """The query for a question, or for a part of one."""
    if isinstance(node, Word):
        return _word(node)
    if isinstance(node, Without):
        return _boolean([(_MUST, tantivy.Query.all_query()), (_MUST_NOT, query_of(node.part))])
    if isinstance(node, AnyOf):
        return _boolean([(_SHOULD, query_of(part)) for part in node.parts])
    parts = [(_MUST_NOT if isinstance(part, Without) else _MUST, _inner(part)) for part in node.parts]
    if all(occur is _MUST_NOT for occur, _ in parts):
        parts.append((_MUST, tantivy.Query.all_query()))
    return _boolean(parts)


def _inner(node: Node) -> Any:
    return query_of(node.part if isinstance(node, Without) else node)


def _boolean(parts: Sequence[tuple[Any, Any]]) -> Any:
    return parts[0][1] if len(parts) == 1 and parts[0][0] is not _MUST_NOT else tantivy.Query.boolean_query(list(parts))


def _word(word: Word) -> Any:
    return _boolean([(_SHOULD, _boosted(leaf.query(), leaf.boost)) for leaf in leaves_of(word)])


def _boosted(query: Any, boost: float) -> Any:
    return query if boost == 1.0 else tantivy.Query.boost_query(query, boost)


# -- filters


def mask_of(filters: Iterable[Filter], columns: Columns) -> Mask:
    """The pages that filters admit: one of the values for each kind of filter, and all kinds."""
    mask = np.ones(len(columns), bool)
    kinds: dict[str, Mask] = {}
    for one in filters:
        fits = _MASKS[one.name](one.value, columns)
        if one.is_not:
            mask &= ~fits
        else:
            kinds[one.name] = kinds[one.name] | fits if one.name in kinds else fits
    for fits in kinds.values():
        mask &= fits
    return mask


def _host(value: str, columns: Columns) -> Mask:
    """A host, or a domain with all hosts below it."""
    wanted = value.lower().strip(".")
    sids = [sid for sid, host in columns.hosts.items() if host == wanted or host.endswith(f".{wanted}")]
    return np.isin(columns["sid"], sids)


def _named(column: str, names: list[str], value: str, columns: Columns) -> Mask:
    wanted = value.lower()
    return np.isin(columns[column], [at for at, name in enumerate(names) if (name or "unknown") == wanted])


def _topic(value: str, columns: Columns) -> Mask:
    if value == OTHERS:
        return columns.in_others
    records = [TopicRecord(**topic, type="", keywords=[]) for topic in columns.topics]
    return np.isin(columns["kcid"], columns.subtree(find_topic(records, value).kcid))


def _day_us(value: str) -> int:
    for form in ("%Y-%m-%d", "%Y-%m", "%Y"):
        try:
            day = datetime.datetime.strptime(value, form).replace(tzinfo=datetime.UTC)
        except ValueError:
            continue
        return int(day.timestamp()) * 1_000_000
    raise InputError(f"{value!r} is no day", "Write it as 2026-01-31, 2026-01 or 2026.")


def _relevance(value: str, columns: Columns) -> Mask:
    try:
        least = float(value)
    except ValueError:
        raise InputError(f"relevance: {value!r} is no number", "Write relevance:0.5 for at least 0.5.") from None
    fits: Mask = columns["relevance"] >= np.float32(least)
    return fits


_MASKS = {
    "host": _host,
    "lang": lambda value, columns: _named("language", columns.languages, value, columns),
    "type": lambda value, columns: _named("kind", columns.kinds, value, columns),
    "topic": _topic,
    "since": lambda value, columns: columns["visited_us"] >= _day_us(value),
    "before": lambda value, columns: columns["visited_us"] < _day_us(value),
    "relevance": _relevance,
}
