"""URLs that another collection offers to this one: which are accepted, and how they enter the frontier (OASIS 3).

An offer is written down first (table `offers`), whether a crawl runs or not. So none is accepted twice, and what a
crawl that is ending can no longer fetch is left for the next one. From there on such a URL is like any link: scope,
locks, limits and the judgement of its page decide about it. It is queued under its topic with the relevance that was
offered, but behind the URLs that the user named.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from opilio.errors import InputError
from opilio.federation.peers import MAX_NAME_CHARS, Offer
from opilio.frontier import ABSENT, Frontier
from opilio.model import normalize
from opilio.store import Batch, Store
from opilio.store.offers import add_offers, count_incoming, count_offers_since, incoming_offers, known_urls
from opilio.topics import hierarchy_of

MAX_OFFERS = 1000
"""In one call."""
MAX_OFFERS_PER_HOUR = 20_000
"""New URLs from one collection: more would crowd out what the crawl finds by itself."""
MAX_RELEVANCE = 0.9
"""A URL that another collection recommends does not come before those that the user named."""
DEPTH = 1
HOUR_S = 3600.0
MAX_URL_CHARS, MAX_TITLE_CHARS = 2000, 300
RECEIVED = "URLs received"


class RunningCounts(Protocol):
    """Counts that a crawl keeps by name."""

    @property
    def counts(self) -> Mapping[str, int]:
        """All of them."""
        ...

    def add(self, name: str, n: int = 1) -> None:
        """Count `n` more of `name`."""
        ...


class AdmitsUrls(Protocol):
    """The crawl that admits offered URLs, as far as this module needs to know it."""

    @property
    def frontier(self) -> Frontier:
        """The URLs it knows, and its queues."""
        ...

    @property
    def counters(self) -> RunningCounts:
        """What it counts."""
        ...

    def is_new(self, url: str) -> bool:
        """Whether a URL is new, or known only by links that were not followed."""
        ...

    def offer(self, url: str, *, parent: int, depth: int, relevance: float, topic: int, now_s: float) -> int:
        """Make a URL known, unless it is. Returns its oid, or ABSENT when it is not worth one."""
        ...


class Received(NamedTuple):
    """An offered URL that is new here, and the topic it is for."""

    url: str
    kcid: int
    relevance: float


def receive(store: Store, sender: str, offers: Sequence[Any]) -> list[Received]:
    """Write down the offers of another collection that are new and can be used; return these."""
    name = plain(sender, MAX_NAME_CHARS)
    if not name:
        raise InputError("offers of URLs need the name of a sender", "Name the collection that they come from.")
    if len(offers) > MAX_OFFERS:
        raise InputError(f"{len(offers):,} URLs at once are too many", f"Send at most {MAX_OFFERS:,} in a call.")
    found = _unknown(store, _usable(offers, wanted_topics(store)))
    now_s = time.time()
    lately = count_offers_since(store, name, now_s - HOUR_S)
    if lately + len(found) > MAX_OFFERS_PER_HOUR:
        raise InputError(
            f"{name} has offered {lately:,} URLs in the last hour: that is enough for now",
            f"Send more later: at most {MAX_OFFERS_PER_HOUR:,} new ones an hour are accepted.",
        )
    if found:
        note(store, name, [offer for offer, _ in found], incoming=True, now_s=now_s)
    return [Received(offer.url, kcid, offer.relevance) for offer, kcid in found]


def receive_offline(store: Store, sender: str, offers: Sequence[Any]) -> int:
    """The same where no crawl runs: the next crawl admits them. Returns how many are new."""
    found = receive(store, sender, offers)
    if found:
        batch = Batch()
        batch.counters[RECEIVED] = count_incoming(store)
        store.write(batch)
    return len(found)


def admit(crawl: AdmitsUrls, received: Iterable[Received]) -> int:
    """Queue offered URLs in the frontier of a crawl; return how many were new to it."""
    count, now_s = 0, time.time()
    for url, kcid, relevance in received:
        if crawl.is_new(url):
            crawl.frontier.add_topic(kcid)  # it may be younger than the crawl
            shown = min(relevance, MAX_RELEVANCE)
            oid = crawl.offer(url, parent=-1, depth=DEPTH, relevance=shown, topic=kcid, now_s=now_s)
            count += oid != ABSENT
    return count


def admit_pending(store: Store, crawl: AdmitsUrls) -> int:
    """When a crawl begins: queue what was offered since the last one, and what that one did not reach."""
    uncounted = count_incoming(store) - crawl.counters.counts[RECEIVED]
    if uncounted:  # a crawl that ends accepts some after its last count
        crawl.counters.add(RECEIVED, uncounted)
    topics = wanted_topics(store)
    pending = ((url, topics[topic], worth) for url, topic, worth in incoming_offers(store) if topic in topics)
    return admit(crawl, (Received(*offer) for offer in pending))


def note(store: Store, peer: str, offers: Sequence[Offer], *, incoming: bool, now_s: float) -> None:
    """Write down offers that were received or forwarded."""
    add_offers(
        store, now_s, peer, incoming=incoming, urls=[offer.url for offer in offers],
        topics=[offer.topic for offer in offers], relevance=[offer.relevance for offer in offers],
        titles=[offer.title for offer in offers],
    )  # fmt: skip


def wanted_topics(store: Store) -> dict[str, int]:
    """The topics for which this collection accepts offers, by their paths."""
    records = store.load_topics()
    hierarchy = hierarchy_of(records)
    wanted = [record for record in records if hierarchy.is_wanted(record.kcid)]
    return {record.path: record.kcid for record in wanted}  # that of the root is empty


def plain(text: str, max_chars: int) -> str:
    """Text from outside, made safe: one line, no control characters, not too long."""
    return " ".join("".join(c if c.isprintable() else " " for c in text[: 2 * max_chars]).split())[:max_chars]


def _usable(offers: Iterable[Any], topics: dict[str, int]) -> dict[str, tuple[Offer, int]]:
    """The offers that are complete and for a wanted topic, by their URLs in normal form."""
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
    """The offers whose URLs this collection does not know."""
    if not offers:
        return []
    known = known_urls(store, list(offers))
    return [offer for url, offer in offers.items() if url not in known]
