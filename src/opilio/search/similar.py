"""More like this: the characteristic terms of a page as a weighted question, then the likeness of whole vectors."""

from __future__ import annotations

from collections import Counter
from math import log, log1p
from typing import Any

import numpy as np
import tantivy

from opilio.errors import InputError
from opilio.model import url_key
from opilio.search.finding import describe
from opilio.search.index import SCHEMA, Packed, Reader, signed
from opilio.search.leaves import words_of
from opilio.search.vectors import likeness

ASKED_TERMS = 25
READ_CHARS = 20_000
CANDIDATES = 200


def similar(reader: Reader, url: str, n: int = 10) -> list[dict[str, Any]]:
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
    alike = likeness(page, [packed for _, packed in candidates], columns)
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


def _place(reader: Reader, address: Any | None) -> tuple[int, bool]:
    """Where a page of the index stands in the columns, and whether it does."""
    if address is None:
        return 0, False
    at, known = reader.columns.places(np.array(reader.searcher.fast_field_values("oid", [address]), np.int64))
    return int(at[0]), bool(known[0])


def _query(reader: Reader, page: Packed) -> Any | None:
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
