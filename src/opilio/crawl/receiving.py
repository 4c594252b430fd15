"""URLs that another collection hands over: what is taken of them, and how they come to wait in the frontier (OASIS 3).

What comes in is noted first (table `offers`), whether a crawl runs or not: so it is never taken twice, and what a crawl
that ends cannot ask for any more is taken up by the next one. From there on such a URL is like any link: scope, locks,
limits and the judgement of its page decide about it. It waits in the queue of its topic, with the relevance that was
offered, but behind what the user named.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from opilio.crawl.absorb import Absorber
from opilio.errors import InputError
from opilio.federation.peers import MAX_NAME_CHARS, Offer
from opilio.frontier import ABSENT
from opilio.model import normalize, url_key
from opilio.store import Batch, Store
from opilio.topics import hierarchy_of

MAX_OFFERS = 1000
"""URLs in one call."""
MAX_OFFERS_PER_HOUR = 20_000
"""New URLs that one collection may hand over: more would crowd out what the crawl finds by itself."""
MAX_RELEVANCE = 0.9
"""What a stranger recommends does not come before what the user named."""
DEPTH = 1
HOUR_S = 3600.0
MAX_URL_CHARS, MAX_TITLE_CHARS = 2000, 300
RECEIVED = "URLs received"

_LATELY = """
    SELECT count(*) FROM offers WHERE incoming AND peer = $1 AND offered >= make_timestamp(($2 * 1e6)::BIGINT)
"""
_KNOWN = """
    SELECT url FROM crawl WHERE key IN (SELECT unnest($1::UBIGINT[]))
    UNION ALL
    SELECT url FROM offers WHERE incoming AND url IN (SELECT unnest($2::VARCHAR[]))
"""
_NOTE = """
    INSERT INTO offers (offered, peer, incoming, url, topic, relevance, title)
    SELECT make_timestamp(($1 * 1e6)::BIGINT), $2, $3, unnest($4::VARCHAR[]), unnest($5::VARCHAR[]),
           unnest($6::FLOAT[]), unnest($7::VARCHAR[])
"""
_NOTED = "SELECT count(*) FROM offers WHERE incoming"
_ALL = "SELECT url, topic, relevance FROM offers WHERE incoming ORDER BY offered, rowid"


class Received(NamedTuple):
    """A URL that is new here, and the topic it is for."""

    url: str
    kcid: int
    relevance: float


def receive(store: Store, sender: str, offers: Sequence[Any]) -> list[Received]:
    """Note what is new and of use among the offers of another collection."""
    name = plain(sender, MAX_NAME_CHARS)
    if not name:
        raise InputError("who hands over URLs must say its name", "Name the collection that they come from.")
    if len(offers) > MAX_OFFERS:
        raise InputError(f"{len(offers):,} URLs at once are too many", f"Send at most {MAX_OFFERS:,} in a call.")
    found = _unknown(store, _usable(offers, wanted_topics(store)))
    now_s = time.time()
    [[lately]] = store.query(_LATELY, [name, now_s - HOUR_S]).rows
    if lately + len(found) > MAX_OFFERS_PER_HOUR:
        raise InputError(
            f"{name} has handed over {lately:,} URLs in the last hour: that is enough for now",
            f"Send more later: at most {MAX_OFFERS_PER_HOUR:,} new ones an hour are taken.",
        )
    if found:
        note(store, name, [offer for offer, _ in found], incoming=True, now_s=now_s)
    return [Received(offer.url, kcid, offer.relevance) for offer, kcid in found]


def receive_at_rest(store: Store, sender: str, offers: Sequence[Any]) -> int:
    """The same where no crawl runs: the next one takes up what was noted. How many are new."""
    found = receive(store, sender, offers)
    if found:
        batch = Batch()
        [[batch.counters[RECEIVED]]] = store.query(_NOTED).rows
        store.write(batch)
    return len(found)


def admit(absorber: Absorber, received: Iterable[Received]) -> int:
    """Let URLs that were handed over wait in the frontier; how many were new to it."""
    count, now_s = 0, time.time()
    for url, kcid, relevance in received:
        if absorber.frontier.known.get(url_key(url)) == ABSENT:
            absorber.frontier.add_topic(kcid)  # it may be younger than the crawl
            shown = min(relevance, MAX_RELEVANCE)
            oid = absorber.offer(url, parent=-1, depth=DEPTH, relevance=shown, topic=kcid, now_s=now_s)
            count += oid != ABSENT
    return count


def take_up(store: Store, absorber: Absorber) -> int:
    """When a crawl begins: let wait what was handed over since the last one, and what that one did not come to."""
    [[noted]] = store.query(_NOTED).rows
    if uncounted := noted - absorber.counters.counts[RECEIVED]:  # a crawl that ends takes some after its last count
        absorber.counters.add(RECEIVED, uncounted)
    topics = wanted_topics(store)
    rows = (row for piece in store.stream(_ALL) for row in zip(*(c.to_pylist() for c in piece.columns), strict=True))
    return admit(absorber, (Received(url, topics[topic], worth) for url, topic, worth in rows if topic in topics))


def note(store: Store, peer: str, offers: Sequence[Offer], *, incoming: bool, now_s: float) -> None:
    """Write down what was handed over."""
    columns = ([getattr(offer, name) for offer in offers] for name in ("url", "topic", "relevance", "title"))
    store.query(_NOTE, [now_s, peer, incoming, *columns], write=True)


def wanted_topics(store: Store) -> dict[str, int]:
    """The topics for which something can be handed over here, by their paths."""
    records = store.load_topics()
    hierarchy = hierarchy_of(records)
    wanted = [record for record in records if hierarchy.is_wanted(record.kcid)]
    return {record.path: record.kcid for record in wanted}  # that of the root is empty


def plain(text: str, max_chars: int) -> str:
    """Text of a stranger: one line, nothing that steers a terminal, not too long."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[: 2 * max_chars]).split())[:max_chars]


def _usable(offers: Iterable[Any], topics: dict[str, int]) -> dict[str, tuple[Offer, int]]:
    """Those that say what they must, by their URLs in normal form."""
    found: dict[str, tuple[Offer, int]] = {}
    for given in offers:
        try:
            offer = given if isinstance(given, Offer) else msgspec.convert(given, Offer)
        except msgspec.ValidationError as error:
            raise InputError(f"an offer cannot be read: {error}", "It needs a url, a topic and a relevance.") from None
        url = normalize(offer.url) if len(offer.url) <= MAX_URL_CHARS else ""
        if url and offer.topic in topics and math.isfinite(offer.relevance):
            relevance = min(1.0, max(0.0, offer.relevance))
            title = plain(offer.title, MAX_TITLE_CHARS)
            found.setdefault(url, (Offer(url, offer.topic, relevance, title), topics[offer.topic]))
    return found


def _unknown(store: Store, offers: dict[str, tuple[Offer, int]]) -> list[tuple[Offer, int]]:
    """Those of which this collection has not heard."""
    if not offers:
        return []
    urls = list(offers)
    rows = store.query(_KNOWN, [[url_key(url) for url in urls], urls], max_rows=2 * len(urls)).rows
    known = {url for (url,) in rows}
    return [offer for url, offer in offers.items() if url not in known]
