"""Answers: what a collection sends when a federation asks it, its best pages and what their scores are made of.

The weight of a word depends on all pages of all collections, and a peer knows only its own. So it sends what it
counted: how often each word occurs in each field of a page, how long these fields are, and how many of its pages have
the word. `results.py` computes scores from that which are the same as if all collections were one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from opilio.errors import InputError
from opilio.federation.peers import PeerAnswer, PeerHit
from opilio.search.matching import Leaf, leaves_of, term_query
from opilio.search.query import Node, Question, Without, Word, parse
from opilio.search.ranking import check_weights
from opilio.search.results import Ranked, rank, with_filters
from opilio.topics import TopicRecord, find_topic
from opilio.topics.tree import OTHERS

if TYPE_CHECKING:
    from opilio.search.index import IndexReader

BEST_BY_WORDS = 3
"""Pages that are sent because they match the words best, whatever their other scores: scores are relative to theirs."""


class LeafCount(msgspec.Struct):
    """What the index counted for a leaf in a page."""

    frequency: float = 1.0
    length: float = 0.0
    mean_length: float = 0.0
    pages: float = 0.0


class _Explanation(msgspec.Struct):
    value: float
    description: str
    details: list[_Explanation] = []


_DECODER = msgspec.json.Decoder(_Explanation)


def every_word(node: Node | None) -> list[Word]:
    """The words of a question, excluded ones included."""
    if node is None:
        return []
    if isinstance(node, Word):
        return [node]
    parts = (node.part,) if isinstance(node, Without) else node.parts
    return [word for part in parts for word in every_word(part)]


def answer(
    reader: IndexReader,
    question: str,
    *,
    weights: Mapping[str, float] | None,
    filters: Sequence[tuple[str, str]],
    most: int,
    cut: bool = True,
) -> PeerAnswer:
    """The best `most` pages for a question, in the collection's own order, and a few that fit its words best.

    `cut`: with the pieces of title and text that are shown of a page; else with its text, for who asks to cut them of
    those few that are shown in the end.
    """
    began_s = time.perf_counter()
    asked, fits = _with_known_topics(reader, with_filters(parse(question), filters))
    if not fits:
        return PeerAnswer(0, [])
    ranked = rank(reader, asked, check_weights(weights))
    order = _candidates(ranked, most)
    leaves = {leaf.key: leaf for word in every_word(ranked.asked.tree) for leaf in leaves_of(word)}
    explainer = _Explainer(reader, list(leaves.values()))
    described = [(one, None) for one in ranked.results(reader, order)] if cut else ranked.uncut(reader, order)
    pages = [
        _found(reader, ranked, explainer, number, result, text)
        for number, (result, text) in zip(order.tolist(), described, strict=True)
    ]
    return PeerAnswer(
        total=len(ranked.kept),
        pages=pages,
        facets=ranked.facets(reader),
        pages_indexed=explainer.pages or len(reader.columns),
        frequencies=_frequencies(reader, leaves.values()),
        lengths=explainer.mean_lengths,
        at_least=not ranked.hits.is_all,
        took_ms=round((time.perf_counter() - began_s) * 1000, 1),
    )


def _with_known_topics(reader: IndexReader, asked: Question) -> tuple[Question, bool]:
    """The question without filters by topics that other collections have; whether anything can fit it then."""
    records = [TopicRecord(**topic, type="", keywords=[]) for topic in reader.columns.topics]
    kept = [one for one in asked.filters if one.name != "topic" or _is_known(one.value, records)]
    wanted, left = ([one for one in some if one.name == "topic" and not one.is_not] for some in (asked.filters, kept))
    return Question(asked.tree, tuple(kept)), bool(left) or not wanted


def _is_known(topic: str, records: Sequence[TopicRecord]) -> bool:
    try:
        return topic == OTHERS or find_topic(records, topic) is not None
    except InputError:
        return False


def _candidates(ranked: Ranked, most: int) -> Any:
    order = ranked.best(most)
    if len(order) < len(ranked.kept):
        by_words = ranked.hits.parts["bm25"][ranked.kept]
        best = ranked.kept[np.argsort(-by_words, kind="stable")[:BEST_BY_WORDS]]
        order = np.concatenate([order, best[~np.isin(best, order)]])
    return order


def _found(
    reader: IndexReader, ranked: Ranked, explainer: _Explainer, number: int, result: dict[str, Any], text: str | None
) -> PeerHit:
    hits, columns = ranked.hits, reader.columns
    at = int(hits.at[number])
    counted = {}
    if hits.addresses is not None and hits.which is not None:
        counted = explainer.explain(hits.addresses[hits.which[number]])
    lengths = {key.partition(":")[0]: one.length for key, one in counted.items() if one.length}
    marks = [columns["content_hash"][at], *columns.bands[at]]
    parts = {name: float(values[number]) for name, values in hits.parts.items()}  # not rounded: near scores stay apart
    return PeerHit(
        {**result, "parts": parts},
        {key: one.frequency for key, one in counted.items()},
        lengths,
        [f"{int(mark):x}" if mark else "" for mark in marks],
        text,
    )


def _frequencies(reader: IndexReader, leaves: Any) -> dict[str, int]:
    """How many pages have each word in each field."""
    asked = {(leaf.field, term) for leaf in leaves if not leaf.is_constant for term in leaf.terms}
    return {f"{field}:{term}": reader.searcher.doc_freq(field, term) for field, term in sorted(asked)}


class _Explainer:
    """Reads out of the index what the score of a page is made of."""

    def __init__(self, reader: IndexReader, leaves: Sequence[Leaf]) -> None:
        self._searcher = reader.searcher
        self._leaves = [(leaf, leaf.query()) for leaf in leaves]
        self.pages = 0
        self.mean_lengths: dict[str, float] = {}

    def explain(self, address: Any) -> dict[str, LeafCount]:
        """What was counted for each leaf that a page has."""
        found = {}
        for leaf, query in self._leaves:
            counted = explained(self._searcher, query, address)
            if counted is None:
                continue
            if len(leaf.terms) > 1 and not self.pages:  # of phrases, the index does not say how many pages there are
                alone = explained(self._searcher, term_query(leaf.field, leaf.terms[0]), address)
                self.pages = int(alone.pages) if alone else 0
            found[leaf.key] = counted
            self.pages = max(self.pages, int(counted.pages))
            if counted.mean_length:
                self.mean_lengths[leaf.field] = counted.mean_length
        return found


def explained(searcher: Any, query: Any, address: Any) -> LeafCount | None:
    """What the index counted for a query of one leaf in a page; None when the page does not have it."""
    try:
        report = query.explain(searcher, address).to_json()
    except ValueError:  # so the library says that it does not fit
        return None
    counted = LeafCount()
    _collect(_DECODER.decode(report), counted)
    return counted


def _collect(explanation: _Explanation, counted: LeafCount) -> None:
    for part in explanation.details:
        if part.description.startswith("freq /"):  # frequency, k1, b, length, mean length
            counted.frequency, _, _, counted.length, counted.mean_length = (one.value for one in part.details)
        elif part.description.startswith("idf") and part.details:  # pages with the word, all pages
            counted.pages = part.details[1].value
        else:
            _collect(part, counted)
