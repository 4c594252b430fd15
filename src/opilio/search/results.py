"""Results: a question in, the best pages with snippets and facets out; and pages that are similar to a page.

Everything is read from the files of the index. Similar pages are found by the characteristic terms of a page as a
weighted question, and ordered by the cosine of whole vectors.
"""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, log1p
from typing import TYPE_CHECKING, Any

import numpy as np
import tantivy

from opilio.errors import InputError
from opilio.model import url_key
from opilio.search.index import NOTHING, SCHEMA, IndexReader, Packed, signed
from opilio.search.matching import mask_of, query_of, words_of
from opilio.search.query import Filter, Question, parse
from opilio.search.ranking import COSINE_PAGES, as_share, asked_numbers, check_weights, combine, cosines, similarity
from opilio.search.snippets import Highlighter
from opilio.topics.tree import OTHERS

if TYPE_CHECKING:
    import numpy.typing as npt

    Values = npt.NDArray[np.float64]
    Whole = npt.NDArray[np.int64]

MAX_HITS = 100_000
"""Hits that are ranked, the best by BM25; when there are more, their number is given as a lower bound."""
MAX_SIZE = 200
NO_AUTHORITY = "no page has an authority score yet"
NO_AUTHORITY_HINT = (
    "Analyse the links first: opilio distill FOLDER. If that finds no authorities, no link leads from one site to "
    "another."
)
MAX_FACET_VALUES = 20
ASKED_TERMS, READ_CHARS, CANDIDATES = 25, 20_000, 200
"""For similar pages: terms in the question, characters they are taken from, and pages whose vectors are compared."""


@dataclass(frozen=True)
class SearchHits:
    """What matches a question, in no order: places in the columns, and the value by each ranking."""

    at: Whole
    parts: dict[str, Values]
    addresses: Sequence[Any] | None = None
    """Where hits are in the index; None when the query has no words ..."""
    which: Whole | None = None
    """... and which of these each hit is."""
    is_all: bool = True

    def page(self, reader: IndexReader, number: int) -> Packed:
        """What is stored of a hit."""
        if self.addresses is None or self.which is None:
            return packed_of(reader, int(self.at[number]))
        return reader.packed(self.addresses[self.which[number]])


def search(
    reader: IndexReader,
    question: str,
    *,
    weights: Mapping[str, float] | None = None,
    filters: Sequence[tuple[str, str]] = (),
    copies_of: int | None = None,
    page: int = 1,
    size: int = 10,
) -> dict[str, Any]:
    """Answer a question. `weights` are those of the rankings; `copies_of` shows the near duplicates of a page."""
    began_s = time.perf_counter()
    weights = check_weights(weights)
    if page < 1 or not 1 <= size <= MAX_SIZE:
        raise InputError(f"page {page} of {size} results", f"Pages count from 1 and have up to {MAX_SIZE} results.")
    if copies_of is not None and not 0 <= copies_of < 2**63:
        raise InputError(f"no page has the number {copies_of}", "Take the `oid` of a result.")
    if weights["authority"] and len(reader.columns) and not reader.columns["authority"].any():
        raise InputError(NO_AUTHORITY, NO_AUTHORITY_HINT)
    ranked = rank(reader, with_filters(parse(question), filters), weights, copies_of)
    shown = ranked.best(page * size)[(page - 1) * size :]
    return {
        "question": question,
        "weights": weights,
        "total": len(ranked.kept),
        "at_least": not ranked.hits.is_all,
        "page": page,
        "size": size,
        "results": ranked.results(reader, shown),
        "facets": ranked.facets(reader),
        "topics": [one["path"] for one in reader.columns.topics if one["path"]],
        "pages_indexed": len(reader.columns),
        "took_ms": round((time.perf_counter() - began_s) * 1000, 1),
    }


def matching_pages(reader: IndexReader, question: str, filters: Sequence[tuple[str, str]] = ()) -> list[int]:
    """The oids of all pages that match a question, best first; of near duplicates only the best."""
    ranked = rank(reader, with_filters(parse(question), filters), check_weights(None))
    order = ranked.best(len(ranked.kept))
    found: list[int] = reader.columns["oid"][ranked.hits.at[order]].tolist()
    return found


@dataclass(frozen=True)
class Ranked:
    """What matches a question, put in order on demand: hits go by their numbers."""

    asked: Question
    hits: SearchHits
    scores: Values
    kept: Whole
    """Hits, of each group of copies only the best, ..."""
    folded: dict[int, int]
    """... and how many others each best one stands for."""
    terms: list[list[int]]
    """The terms of the question, by number."""

    def best(self, most: int) -> Whole:
        """The best hits, in order."""
        return _best(self.hits, self.scores, self.kept, most)

    def results(self, reader: IndexReader, order: Whole) -> list[dict[str, Any]]:
        """What is shown of some hits."""
        highlighter = Highlighter(self.asked.words())
        return [{**result, **pieces(highlighter, result["title"], text)} for result, text in self.uncut(reader, order)]

    def uncut(self, reader: IndexReader, order: Whole) -> list[tuple[dict[str, Any], str]]:
        """The same without highlighting, which takes most of the time, and with the text that snippets are cut from."""
        pages = [self.hits.page(reader, number) for number in order.tolist()]
        self.hits.parts["cosine"][order] = cosines(self.terms, pages, reader.columns)
        return [(self._result(reader, number, page), page.text) for number, page in zip(order, pages, strict=True)]

    def _result(self, reader: IndexReader, number: int, page: Packed) -> dict[str, Any]:
        return {
            **describe(reader, int(self.hits.at[number]), page),
            "score": round(float(self.scores[number]), 4),
            "parts": {name: round(float(values[number]), 4) for name, values in self.hits.parts.items()},
            "folded": self.folded.get(int(number), 0),
        }

    def facets(self, reader: IndexReader) -> dict[str, list[dict[str, Any]]]:
        """How many of the hits each value of a filter would leave."""
        return _facets(reader, self.hits.at[self.kept])


def pieces(highlighter: Highlighter, title: str, text: str) -> dict[str, Any]:
    """The title and the best part of the text of a page, in pieces that match the question or do not."""
    return {"title_pieces": highlighter.whole(title), "snippet": highlighter.snippet(text)}


def with_filters(asked: Question, filters: Sequence[tuple[str, str]]) -> Question:
    """A question with filters in addition to those that are written in it."""
    return Question(asked.tree, (*asked.filters, *(Filter(name, value) for name, value in filters)))


def rank(reader: IndexReader, asked: Question, weights: Mapping[str, float], copies_of: int | None = None) -> Ranked:
    """All that matches a question, with scores."""
    hits = find_hits(reader, asked, copies_of)
    terms = asked_numbers([form for word in asked.words() for form in words_of(word.text)], reader.columns)
    rank_by_cosine(reader, hits, terms, weights)
    scores = combine(weights, hits.parts)
    kept, folded = _fold(reader, hits, scores) if copies_of is None else (np.arange(len(scores)), {})
    return Ranked(asked, hits, scores, kept, folded, terms)


def find_hits(reader: IndexReader, asked: Question, copies_of: int | None = None) -> SearchHits:
    """What matches a question. The cosine is left to `rank_by_cosine`."""
    columns = reader.columns
    mask = mask_of(asked.filters, columns)
    if copies_of is not None:
        at, known = columns.places(np.array([copies_of], np.int64))
        mask &= columns["group"] == (columns["group"][at[0]] if known[0] else -1)
    if asked.tree is None:
        at = np.flatnonzero(mask)
        return SearchHits(at, _parts(reader, at, np.zeros(len(at))))
    addresses, oids, scores, count = reader.find(query_of(asked.tree), MAX_HITS)
    at, known = columns.places(oids)
    kept = np.flatnonzero(known & mask[at]) if len(columns) else np.zeros(0, np.int64)
    parts = _parts(reader, at[kept], as_share(scores[kept]))
    return SearchHits(at[kept], parts, addresses, kept, is_all=count <= len(addresses))


def _parts(reader: IndexReader, at: Whole, bm25: Values) -> dict[str, Values]:
    columns = reader.columns
    return {
        "bm25": bm25,
        "cosine": np.zeros(len(at)),
        "relevance": columns["relevance"][at].astype(np.float64),
        "authority": np.sqrt(columns["authority"][at].astype(np.float64)),
    }


def rank_by_cosine(
    reader: IndexReader, hits: SearchHits, numbers: list[list[int]], weights: Mapping[str, float]
) -> None:
    """Put the cosines of the best hits in. Unless another ranking is requested, BM25 says which are the best."""
    if not weights["cosine"] or hits.addresses is None or hits.which is None:
        return
    so_far = combine(weights, hits.parts) + 1e-6 * hits.parts["bm25"]
    best = (
        np.argpartition(-so_far, COSINE_PAGES)[:COSINE_PAGES] if len(so_far) > COSINE_PAGES else np.arange(len(so_far))
    )
    pages = [reader.vector(hits.addresses[at]) for at in hits.which[best].tolist()]
    hits.parts["cosine"][best] = cosines(numbers, pages, reader.columns)


def _fold(reader: IndexReader, hits: SearchHits, scores: Values) -> tuple[Whole, dict[int, int]]:
    """The hits without all but the best of each group of copies, and how many others each best one stands for."""
    columns = reader.columns
    copied = np.flatnonzero(columns.is_copied[hits.at])
    if not len(copied):
        return np.arange(len(scores)), {}
    copied = _ordered(hits, scores, copied)
    _, first, counts = np.unique(columns["group"][hits.at[copied]], return_index=True, return_counts=True)
    is_kept = np.ones(len(scores), bool)
    is_kept[copied] = False
    is_kept[copied[first]] = True
    return np.flatnonzero(is_kept), dict(zip(copied[first].tolist(), (counts - 1).tolist(), strict=True))


def _best(hits: SearchHits, scores: Values, kept: Whole, most: int) -> Whole:
    """The best `most` of some hits, in order. Only those are sorted that may be among them."""
    if len(kept) > most:
        least = np.partition(scores[kept], len(kept) - most)[len(kept) - most]
        kept = kept[scores[kept] >= least]
    return _ordered(hits, scores, kept)[:most]


def _ordered(hits: SearchHits, scores: Values, some: Whole) -> Whole:
    """Hits by their scores; among equals the surest first, then the first that was found on the web."""
    order: Whole = some[np.lexsort((hits.at[some], -hits.parts["relevance"][some], -scores[some]))]
    return order


def packed_of(reader: IndexReader, at: int) -> Packed:
    """What is stored of the page at a place of the columns."""
    address = reader.address("oid", int(reader.columns["oid"][at]))
    return reader.packed(address) if address is not None else NOTHING


def describe(reader: IndexReader, at: int, page: Packed) -> dict[str, Any]:
    """What every list of pages shows of one."""
    columns = reader.columns
    visited = datetime.datetime.fromtimestamp(columns["visited_us"][at] / 1e6, datetime.UTC)
    return {
        "oid": int(columns["oid"][at]),
        "url": page.url,
        "title": page.title,
        "host": columns.hosts.get(int(columns["sid"][at]), ""),
        "topic": OTHERS if columns.in_others[at] else topic_names(reader).get(int(columns["kcid"][at]), ""),
        "relevance": round(float(columns["relevance"][at]), 4),
        "authority": round(float(columns["authority"][at]), 4),
        "visited": visited.strftime("%Y-%m-%dT%H:%M:%S"),
        "language": columns.languages[columns["language"][at]],
        "type": columns.kinds[columns["kind"][at]],
    }


def topic_names(reader: IndexReader) -> dict[int, str]:
    """The path of each topic; the name of the root, which has none."""
    return {topic["kcid"]: topic["path"] or topic["name"] for topic in reader.columns.topics}


def _facets(reader: IndexReader, at: Whole) -> dict[str, list[dict[str, Any]]]:
    columns = reader.columns
    named = {"lang": ("language", columns.languages), "type": ("kind", columns.kinds)}
    facets = {"topic": _topic_facet(reader, at), "host": _counted(columns["sid"][at], columns.hosts)}
    for facet, (column, names) in named.items():
        facets[facet] = _counted(columns[column][at], {n: name or "unknown" for n, name in enumerate(names)})
    return facets


def _counted(numbers: npt.NDArray[Any], names: Mapping[int, str]) -> list[dict[str, Any]]:
    counts = np.bincount(numbers)
    best = np.argsort(-counts, kind="stable")[:MAX_FACET_VALUES]
    return [{"value": names[int(n)], "count": int(counts[n])} for n in best.tolist() if counts[n] and int(n) in names]


def _topic_facet(reader: IndexReader, at: Whole) -> list[dict[str, Any]]:
    """The topics but the root with all below them, in the order of their paths, and OTHERS."""
    columns = reader.columns
    kcids = columns["kcid"][at]
    counts = np.bincount(kcids[kcids >= 0], minlength=1 + max((t["kcid"] for t in columns.topics), default=0))
    found = [
        {"value": topic["path"], "count": int(counts[columns.subtree(topic["kcid"])].sum())}
        for topic in columns.topics
        if topic["path"]
    ]
    found.append({"value": OTHERS, "count": int(columns.in_others[at].sum())})
    return [one for one in found if one["count"]]


# -- similar pages


def similar(reader: IndexReader, url: str, n: int = 10) -> list[dict[str, Any]]:
    """The stored pages most like the page of a URL (in normal form); neither itself nor copies of it."""
    columns = reader.columns
    address = reader.address("key", signed(url_key(url)))
    own, is_known = _place(reader, address)
    if address is None or not is_known:
        raise InputError(f"{url}: not in the index", "Only stored pages can be compared.")
    page = reader.packed(address)
    query = _query(reader, page)
    if query is None:
        return []
    addresses, oids, _, _ = reader.find(query, CANDIDATES)
    at, known = columns.places(oids)
    seen = {int(columns["group"][own])}
    candidates = [(int(at[i]), reader.packed(addresses[i])) for i in np.flatnonzero(known).tolist()]
    alike = similarity(page, [packed for _, packed in candidates], columns)
    found = []
    for place in np.argsort(-alike, kind="stable").tolist():
        where, packed = candidates[place]
        group = int(columns["group"][where])
        if group not in seen and alike[place] > 0:
            seen.add(group)
            found.append({**describe(reader, where, packed), "likeness": round(float(alike[place]), 4)})
        if len(found) >= n:
            break
    return found


def _place(reader: IndexReader, address: Any | None) -> tuple[int, bool]:
    """The place of a page of the index in the columns, and whether it is there."""
    if address is None:
        return 0, False
    at, known = reader.columns.places(np.array(reader.searcher.fast_field_values("oid", [address]), np.int64))
    return int(at[0]), bool(known[0])


def _query(reader: IndexReader, page: Packed) -> Any | None:
    """The terms of a page with the greatest tf*idf that another page has too, each weighted by it."""
    counts = Counter(words_of(f"{page.title} {page.text[:READ_CHARS]}", stems=True))
    pages = max(1, len(reader.columns))
    weights = {}
    for term, count in counts.items():
        pages_with = reader.searcher.doc_freq("stems", term) if len(term) > 1 else 0
        if pages_with > 1:
            weights[term] = (1 + log(count)) * log1p(pages / pages_with)
    best = sorted(weights, key=lambda term: (-weights[term], term))[:ASKED_TERMS]
    parts = [
        (
            tantivy.Occur.Should,
            tantivy.Query.boost_query(tantivy.Query.term_query(SCHEMA, "stems", term), weights[term]),
        )
        for term in best
    ]
    return tantivy.Query.boolean_query(parts) if parts else None
