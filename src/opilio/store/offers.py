"""URLs that other collections offered to this one, and those that were forwarded to them: the table `offers`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from opilio.model import url_key
from opilio.store.database import Store

_OFFERS_OF = """
    SELECT url, peer, relevance FROM offers WHERE incoming AND url IN (SELECT unnest($1::VARCHAR[]))
    ORDER BY offered, rowid
"""
_SINCE = """
    SELECT count(*) FROM offers WHERE incoming AND peer = $1 AND offered >= make_timestamp(($2 * 1e6)::BIGINT)
"""
_KNOWN = """
    SELECT url FROM crawl WHERE key IN (SELECT unnest($1::UBIGINT[])) AND coalesce(outcome, '') <> 'not-followed'
    UNION ALL
    SELECT url FROM offers WHERE incoming AND url IN (SELECT unnest($2::VARCHAR[]))
"""
_ADD = """
    INSERT INTO offers (offered, peer, incoming, url, topic, relevance, title)
    SELECT make_timestamp(($1 * 1e6)::BIGINT), $2, $3, unnest($4::VARCHAR[]), unnest($5::VARCHAR[]),
           unnest($6::FLOAT[]), unnest($7::VARCHAR[])
"""
_COUNT = "SELECT count(*) FROM offers WHERE incoming"
_INCOMING = "SELECT url, topic, relevance FROM offers WHERE incoming ORDER BY offered, rowid"
_FORWARDED = "SELECT url FROM offers WHERE peer = $1 AND url IN (SELECT unnest($2::VARCHAR[]))"


def offers_of(store: Store, urls: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """By URL, the collections that offered it, each with the relevance that it expected."""
    found: dict[str, list[dict[str, Any]]] = {url: [] for url in urls}
    for url, peer, relevance in store.select(_OFFERS_OF, [list(urls)]).rows:
        found[url].append({"peer": peer, "relevance": relevance})
    return found


def count_offers_since(store: Store, peer: str, since_s: float) -> int:
    """How many URLs another collection has offered since a moment."""
    return int(store.select(_SINCE, [peer, since_s]).rows[0][0])


def known_urls(store: Store, urls: Sequence[str]) -> set[str]:
    """Those of some URLs that the crawl knows, and not only by links that it does not follow, or that were offered
    before."""
    rows = store.select(_KNOWN, [[url_key(url) for url in urls], list(urls)], max_rows=2 * len(urls)).rows
    return {url for (url,) in rows}


def add_offers(
    store: Store,
    at_s: float,
    peer: str,
    *,
    incoming: bool,
    urls: Sequence[str],
    topics: Sequence[str],
    relevance: Sequence[float],
    titles: Sequence[str],
) -> None:
    """Record URLs that another collection offered (`incoming`), or that were forwarded to it."""
    store.query(_ADD, [at_s, peer, incoming, list(urls), list(topics), list(relevance), list(titles)], write=True)


def count_incoming(store: Store) -> int:
    """How many URLs other collections have offered."""
    return int(store.select(_COUNT).rows[0][0])


def incoming_offers(store: Store) -> Iterator[tuple[str, str, float]]:
    """All URLs that were offered, oldest first: URL, path of the topic, relevance."""
    for piece in store.select_pieces(_INCOMING):
        yield from zip(*(column.to_pylist() for column in piece.columns), strict=True)


def offered_with(store: Store, peer: str, urls: Sequence[str]) -> set[str]:
    """Those of some URLs that were forwarded to another collection, or offered by it."""
    return {url for (url,) in store.select(_FORWARDED, [peer, list(urls)], max_rows=2 * len(urls)).rows}
