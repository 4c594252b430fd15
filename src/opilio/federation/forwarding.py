"""Forwarding: which pages of a collection suit the topics of its peers, and how their URLs are offered to them (OASIS
3).

Pages are compared in the order in which they were stored, in slices, once for each peer. A page that is not relevant
here is offered to every peer for one of whose topics it is distinctive (`profiles.py`); a relevant page is offered only
when it suits the peer's topic far better than any topic here. Each URL goes to a peer once: the table `offers` holds
what was sent. A peer that is down, or that does not let us in, is tried again after longer and longer pauses. Meanwhile
its offers are queued, and when the queue is full no more pages are compared for it.

Plain code that may take a while: run it in a thread alongside the crawl, or from a command.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from opilio.federation.offers import MAX_TITLE_CHARS, note, plain
from opilio.federation.peers import MAX_NAME_CHARS, Offer, Peer, PeerEntry, PeerError, PeerSummary, read_peers
from opilio.federation.profiles import PeerTopic, UsualTerms, profiles_from, suitability, topic_profiles
from opilio.store import Store
from opilio.store.offers import offered_with
from opilio.store.pages import page_relevances, pages_since
from opilio.store.terms import bags_of_terms

SLICE_PAGES = 200
BATCH_OFFERS = 100
MAX_QUEUED = 1000
SAMPLE_PAGES, MIN_PAGES = 300, 20
"""Which terms are usual here is measured on a sample of this size; with fewer pages than the second, not at all."""
FAR_BETTER = 1.25
"""A page that is relevant here must suit the peer this many times better. On the small local web, between collections
about cryptography and networking of which the first took everything, 15 of 16 such pages belonged to the second."""
SUMMARY_S = 300.0
"""A peer's summary is used this long before it is fetched again."""
FIRST_DELAY_S, MAX_DELAY_S = 20.0, 900.0
LATE_S = 60.0
"""A page may be committed this much later than it was fetched."""


class ForwardCandidate(NamedTuple):
    """A page to be compared with the topics of others."""

    url: str
    title: str
    is_relevant: bool
    terms: dict[int, int]
    """How often each term occurs, by tid."""
    vector: dict[int, float]
    """The same, weighted by how unusual each term is here."""


@dataclass
class Outbox:
    """The offers queued for one peer, and how it answers."""

    peer: Peer
    summary: PeerSummary | None = None
    topics: list[PeerTopic] = field(default_factory=list)
    """Its topics, seen by which terms are usual here."""
    summary_s: float = 0.0
    """When its summary was fetched."""
    compared: int = 0
    """Pages that were compared with its topics."""
    queued: list[Offer] = field(default_factory=list)
    forwarded: int = 0
    new: int = 0
    """Of the forwarded URLs, those that the peer did not know."""
    tries: int = 0
    """That failed, in a row."""
    next_s: float = 0.0
    trouble: str = ""

    def put_off(self, error: PeerError, now_s: float) -> None:
        """Do not contact the peer for a while."""
        self.trouble = f"{error.message}. {error.hint}".rstrip()
        self.next_s = now_s + min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(self.tries, 20))
        self.tries += 1


class ForwardedCount(NamedTuple):
    """How many URLs one round forwarded."""

    forwarded: int
    new: int
    """Of these, those that the peers did not know."""


class Forwarding:
    """Finds what suits the peers, and forwards it."""

    def __init__(
        self,
        store: Store,
        sender: str,
        peers: Sequence[Peer],
        *,
        goes_on: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`goes_on` is called often: once it returns False, a round ends early."""
        self.boxes = [Outbox(peer) for peer in peers]
        self.warnings: list[str] = []
        """About the file that names the peers."""
        self._store = store
        self._sender = sender
        self._goes_on = goes_on
        self._clock = clock
        self._pages = array("q")
        self._seen = bytearray()
        self._newest_s = 0.0
        self._usual: UsualTerms | None = None
        self._usual_at = 0
        self._own: PeerSummary | None = None

    def round(self, most_s: float) -> ForwardedCount:
        """Fetch summaries, compare pages and forward URLs, for about `most_s` seconds at most."""
        until_s = self._clock() + most_s
        self.prepare(until_s)
        forwarded, new = self._sums()
        for box in self.boxes:
            while box.queued and self._is_due(box) and self._goes_on():
                self._forward(box)
                if self._clock() >= until_s:  # comparing may have taken all the time: one batch is sent anyway
                    break
        then_forwarded, then_new = self._sums()
        return ForwardedCount(then_forwarded - forwarded, then_new - new)

    def prepare(self, until_s: float) -> None:
        """The same without forwarding: offers are queued."""
        self._find_pages()
        for box in self.boxes:
            self._fetch_summary(box)
        self._compare_pages(until_s)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do now: peers may be down, and there may be too few pages."""
        return all(box.trouble or (self.has_seen_all(box) and not box.queued) for box in self.boxes)

    @property
    def has_more_to_compare(self) -> bool:
        """Whether pages are left to compare for a peer whose queue has room."""
        return any(self._wants_more(box) and not self.has_seen_all(box) for box in self.boxes)

    def has_seen_all(self, box: Outbox) -> bool:
        """Whether all pages were compared that can be: none, while there are too few to know what is usual."""
        return not self.can_compare or box.compared >= len(self._pages)

    @property
    def can_compare(self) -> bool:
        """Whether it is known which terms are usual here."""
        return self._usual is not None and self._usual.pages > 0

    def _sums(self) -> tuple[int, int]:
        return sum(box.forwarded for box in self.boxes), sum(box.new for box in self.boxes)

    def _is_due(self, box: Outbox) -> bool:
        return self._clock() >= box.next_s

    def _find_pages(self) -> None:
        """Find the pages that were stored since the last round."""
        for oid, visited_s in pages_since(self._store, max(0.0, self._newest_s - LATE_S)):
            if oid >= len(self._seen):
                self._seen.extend(bytes(oid + 1 - len(self._seen)))
            if not self._seen[oid]:
                self._seen[oid] = 1
                self._pages.append(oid)
            self._newest_s = max(self._newest_s, visited_s)

    def _fetch_summary(self, box: Outbox) -> None:
        """Fetch what a peer wants, unless its summary is recent or the peer is to be left alone."""
        now_s = self._clock()
        if not self._is_due(box) or (box.summary is not None and now_s - box.summary_s < SUMMARY_S):
            return
        try:
            summary = box.peer.summary(box.summary)
        except PeerError as error:
            box.put_off(error, now_s)
            return
        if summary is not box.summary:
            box.summary, box.topics = summary, []
        box.summary_s, box.tries, box.trouble = now_s, 0, ""

    def _compare_pages(self, until_s: float) -> None:
        """Compare one slice of pages or more, starting where the peer that is furthest behind stands."""
        if not self._measure_usual():
            return
        while self._goes_on():
            boxes = [box for box in self.boxes if self._wants_more(box)]
            if not boxes:
                return
            at = min(box.compared for box in boxes)
            oids = self._pages[at : at + SLICE_PAGES].tolist()
            pages = self._load(oids)
            for box in boxes:
                if box.compared == at:
                    self._compare(box, pages)
                    box.compared = at + len(oids)
            if self._clock() >= until_s:
                return

    def _measure_usual(self) -> bool:
        """Measure which terms are usual once there are enough pages, and again whenever their number has doubled."""
        count = len(self._pages)
        if count >= MIN_PAGES and count >= 2 * self._usual_at:
            self._usual_at = count
            places = range(0, count, max(1, count // SAMPLE_PAGES))
            terms = bags_of_terms(self._store, [self._pages[place] for place in places])
            self._usual = UsualTerms(list(terms.values()))
            for box in self.boxes:
                box.topics = []
        return self.can_compare

    def _wants_more(self, box: Outbox) -> bool:
        return box.summary is not None and len(box.queued) < MAX_QUEUED and box.compared < len(self._pages)

    def _load(self, oids: list[int]) -> list[ForwardCandidate]:
        assert self._usual is not None
        terms = bags_of_terms(self._store, oids)
        return [
            ForwardCandidate(url, title, relevant, terms[oid], self._usual.vector(terms[oid]))
            for oid, url, title, relevant in page_relevances(self._store, oids)
            if oid in terms
        ]

    def _compare(self, box: Outbox, pages: Sequence[ForwardCandidate]) -> None:
        """Queue what suits a peer."""
        assert self._usual is not None
        assert box.summary is not None
        box.topics = box.topics or [PeerTopic(topic, self._usual) for topic in box.summary.topics]
        found = [offer for page in pages if (offer := self._offer(page, box)) is not None]
        if not found:
            return
        sent = offered_with(self._store, box.peer.name, [offer.url for offer in found])
        box.queued += [offer for offer in found if offer.url not in sent]

    def _offer(self, page: ForwardCandidate, box: Outbox) -> Offer | None:
        found = [(topic.relevance(page.terms, page.vector), topic) for topic in box.topics]
        relevance, topic = max(found, key=lambda one: one[0], default=(0.0, None))
        if topic is None or not relevance:
            return None
        if page.is_relevant:
            _, at_home = suitability(page.terms, self._own_summary())
            if topic.suitability(page.terms) < FAR_BETTER * at_home:
                return None
        return Offer(page.url, topic.path, relevance, plain(page.title, MAX_TITLE_CHARS))

    def _own_summary(self) -> PeerSummary:
        """Our own topics, measured as those of peers are; rebuilt whenever the number of pages has doubled."""
        if self._own is None or len(self._pages) > 2 * self._own.pages:
            profiles = profiles_from(topic_profiles(self._store))
            self._own = PeerSummary(self._sender, "", len(self._pages), 0.0, profiles, {})
        return self._own

    def _forward(self, box: Outbox) -> None:
        """Send one batch."""
        batch = box.queued[:BATCH_OFFERS]
        try:
            new = box.peer.offer(self._sender, batch)
        except PeerError as error:
            box.put_off(error, self._clock())
            return
        note(self._store, box.peer.name, batch, incoming=False, now_s=time.time())
        del box.queued[:BATCH_OFFERS]
        box.tries, box.trouble = 0, ""
        box.forwarded += len(batch)
        box.new += new


def forwarding_to(
    peers_file: str | Path,
    store: Store,
    open_peer: Callable[[PeerEntry], Peer],
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> Forwarding:
    """Forwarding from a collection to the peers that a file names; the collection itself is left out if named there.

    `open_peer` opens a peer: one on this machine is a collection, which this package knows nothing of.
    """
    folder = store.path.parent.absolute()
    warnings: list[str] = []
    entries = read_peers(peers_file, warnings.append)
    peers = [open_peer(entry) for entry in entries if entry.is_remote or Path(entry.at).resolve() != folder.resolve()]
    made = Forwarding(store, plain(folder.name, MAX_NAME_CHARS), peers, goes_on=goes_on)
    made.warnings = warnings
    return made
