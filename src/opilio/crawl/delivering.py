"""Delivering: which pages of a collection suit the topics of others, and how their URLs are handed over (OASIS 3).

Pages are looked at in the order in which they were stored, in slices, once for each peer. A page that is not relevant
here is offered to every peer with a topic as whose it stands out (`standing_out`); one that is relevant only when it
suits the other's topic far better than any here. Each URL goes to a peer once: the table `offers` remembers. A peer
that is away, or that does not let us in, is tried again later and later; what is for it waits meanwhile, and when much
does, no more is looked for.

Plain code that may take a while: for a thread beside the crawl, or for a command.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from opilio.crawl.receiving import MAX_TITLE_CHARS, note, plain
from opilio.federation.distinctive import TopicLens, Usual
from opilio.federation.peers import MAX_NAME_CHARS, Offer, Peer, PeerError, PeerSummary, read_peers
from opilio.federation.profiles import profiles_from, suits, topic_profiles
from opilio.model.visit import RELEVANT
from opilio.store import Store

SLICE_PAGES = 200
BATCH_OFFERS = 100
MAX_WAITING = 1000
SAMPLE_PAGES, LEAST_PAGES = 300, 20
"""What is usual here is seen from so many pages; with fewer than the second it cannot be told."""
FAR_BETTER = 1.25
"""A page that is relevant here must suit the other so many times as well. On the small local web, between collections
about cryptography and networking of which the first took everything, 15 of 16 such pages were the other's."""
SUMMARY_S = 300.0
"""So long a peer is believed to want what it wanted."""
FIRST_DELAY_S, MAX_DELAY_S = 20.0, 900.0
LATE_S = 60.0
"""A page may be written down so much later than it was fetched."""

_NEW_PAGES = """
    SELECT oid, epoch(visited) FROM pages WHERE visited >= make_timestamp(($1 * 1e6)::BIGINT) ORDER BY visited, oid
"""
_PAGES = f"""
    SELECT p.oid, c.url, coalesce(p.title, ''), coalesce(p.relevance >= {RELEVANT}, FALSE)
    FROM pages p JOIN crawl c USING (oid) WHERE p.oid IN (SELECT unnest($1::BIGINT[])) ORDER BY p.oid
"""
_TERMS = "SELECT oid, list(tid), list(freq) FROM terms WHERE oid IN (SELECT unnest($1::BIGINT[])) GROUP BY oid"
_HANDED = "SELECT url FROM offers WHERE peer = $1 AND url IN (SELECT unnest($2::VARCHAR[]))"


class ForwardCandidate(NamedTuple):
    """A page to be compared with the topics of others."""

    url: str
    title: str
    is_relevant: bool
    terms: dict[int, int]
    """How often each stands there, by tid."""
    vector: dict[int, float]
    """The same by what is usual here."""


@dataclass
class Outbox:
    """What waits for one peer."""

    peer: Peer
    summary: PeerSummary | None = None
    lenses: list[TopicLens] = field(default_factory=list)
    """Its topics, by what is usual here."""
    asked_s: float = 0.0
    looked_at: int = 0
    """So many of the pages."""
    waiting: list[Offer] = field(default_factory=list)
    handed_over: int = 0
    new: int = 0
    """To the peer, of those that were handed over."""
    tries: int = 0
    """In vain, in a row."""
    next_s: float = 0.0
    trouble: str = ""

    def put_off(self, error: PeerError, now_s: float) -> None:
        """Leave the peer alone for a while."""
        self.trouble = f"{error.message}. {error.hint}".rstrip()
        self.next_s = now_s + min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** min(self.tries, 20))
        self.tries += 1


class Delivered(NamedTuple):
    """What one round came to."""

    handed_over: int
    new: int
    """To the peers, of those that were handed over."""


class Delivery:
    """Looks for what suits others, and hands it over."""

    def __init__(
        self,
        store: Store,
        sender: str,
        peers: Sequence[Peer],
        *,
        goes_on: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`goes_on` is asked often: when it says no, a round ends early."""
        self.boxes = [Outbox(peer) for peer in peers]
        self.warnings: list[str] = []
        """What is to be said of the file that names the peers."""
        self._store = store
        self._sender = sender
        self._goes_on = goes_on
        self._clock = clock
        self._pages = array("q")
        self._seen = bytearray()
        self._newest_s = 0.0
        self._usual: Usual | None = None
        self._usual_at = 0
        self._own: PeerSummary | None = None

    def round(self, most_s: float) -> Delivered:
        """Hear what the peers want, look at pages, hand over; for about so long at most."""
        until_s = self._clock() + most_s
        self.prepare(until_s)
        handed_over, new = self._sums()
        for box in self.boxes:
            while box.waiting and self._is_due(box) and self._goes_on():
                self._hand_over(box)
                if self._clock() >= until_s:  # looking may have taken all the time: a batch goes out all the same
                    break
        then_handed_over, then_new = self._sums()
        return Delivered(then_handed_over - handed_over, then_new - new)

    def prepare(self, until_s: float) -> None:
        """The same without handing anything over: it waits."""
        self._find_pages()
        for box in self.boxes:
            self._hear(box)
        self._look(until_s)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left that can be done now: peers may be away, and there may be too few pages."""
        return all(box.trouble or (self.has_seen_all(box) and not box.waiting) for box in self.boxes)

    @property
    def is_looking(self) -> bool:
        """Whether there are pages to be compared for a peer for which not too much waits."""
        return any(self._wants_more(box) and not self.has_seen_all(box) for box in self.boxes)

    def has_seen_all(self, box: Outbox) -> bool:
        """Whether all pages were compared that can be: none, while it is not known what is usual."""
        return not self.can_compare or box.looked_at >= len(self._pages)

    @property
    def can_compare(self) -> bool:
        """Whether it is known what is usual here."""
        return self._usual is not None and self._usual.pages > 0

    def _sums(self) -> tuple[int, int]:
        return sum(box.handed_over for box in self.boxes), sum(box.new for box in self.boxes)

    def _is_due(self, box: Outbox) -> bool:
        return self._clock() >= box.next_s

    def _find_pages(self) -> None:
        """Note which pages were stored since the last round."""
        for piece in self._store.stream(_NEW_PAGES, [max(0.0, self._newest_s - LATE_S)]):
            for oid, visited_s in zip(*(column.to_pylist() for column in piece.columns), strict=True):
                if oid >= len(self._seen):
                    self._seen.extend(bytes(oid + 1 - len(self._seen)))
                if not self._seen[oid]:
                    self._seen[oid] = 1
                    self._pages.append(oid)
                self._newest_s = max(self._newest_s, visited_s)

    def _hear(self, box: Outbox) -> None:
        """Hear what a peer wants, unless that is known well enough, or it is not its time."""
        now_s = self._clock()
        if not self._is_due(box) or (box.summary is not None and now_s - box.asked_s < SUMMARY_S):
            return
        try:
            summary = box.peer.summary(box.summary)
        except PeerError as error:
            box.put_off(error, now_s)
            return
        if summary is not box.summary:
            box.summary, box.lenses = summary, []
        box.asked_s, box.tries, box.trouble = now_s, 0, ""

    def _look(self, until_s: float) -> None:
        """Look at a slice of pages or more, those first at which the fewest peers' topics were compared."""
        if not self._knows_what_is_usual():
            return
        while self._goes_on():
            boxes = [box for box in self.boxes if self._wants_more(box)]
            if not boxes:
                return
            at = min(box.looked_at for box in boxes)
            oids = self._pages[at : at + SLICE_PAGES].tolist()
            pages = self._load(oids)
            for box in boxes:
                if box.looked_at == at:
                    self._compare(box, pages)
                    box.looked_at = at + len(oids)
            if self._clock() >= until_s:
                return

    def _knows_what_is_usual(self) -> bool:
        """See what is usual here when there are enough pages, and anew when there are twice as many."""
        count = len(self._pages)
        if count >= LEAST_PAGES and count >= 2 * self._usual_at:
            self._usual_at = count
            places = range(0, count, max(1, count // SAMPLE_PAGES))
            terms = self._terms([self._pages[place] for place in places])
            self._usual = Usual(list(terms.values()))
            for box in self.boxes:
                box.lenses = []
        return self.can_compare

    def _terms(self, oids: list[int]) -> dict[int, dict[int, int]]:
        rows = self._store.query(_TERMS, [oids], max_rows=len(oids)).rows
        return {oid: dict(zip(tids, counts, strict=True)) for oid, tids, counts in rows}

    def _wants_more(self, box: Outbox) -> bool:
        return box.summary is not None and len(box.waiting) < MAX_WAITING and box.looked_at < len(self._pages)

    def _load(self, oids: list[int]) -> list[ForwardCandidate]:
        assert self._usual is not None
        terms = self._terms(oids)
        rows = self._store.query(_PAGES, [oids], max_rows=len(oids)).rows
        return [
            ForwardCandidate(url, title, relevant, terms[oid], self._usual.vector(terms[oid]))
            for oid, url, title, relevant in rows
            if oid in terms
        ]

    def _compare(self, box: Outbox, pages: Sequence[ForwardCandidate]) -> None:
        """Let what suits a peer wait for it."""
        assert self._usual is not None
        assert box.summary is not None
        box.lenses = box.lenses or [TopicLens(topic, self._usual) for topic in box.summary.topics]
        found = [offer for page in pages if (offer := self._offer(page, box)) is not None]
        if not found:
            return
        rows = self._store.query(_HANDED, [box.peer.name, [offer.url for offer in found]], max_rows=2 * len(found)).rows
        handed = {url for (url,) in rows}
        box.waiting += [offer for offer in found if offer.url not in handed]

    def _offer(self, page: ForwardCandidate, box: Outbox) -> Offer | None:
        told = [(lens.relevance(page.terms, page.vector), lens) for lens in box.lenses]
        relevance, lens = max(told, key=lambda one: one[0], default=(0.0, None))
        if lens is None or not relevance:
            return None
        if page.is_relevant and lens.plainly(page.terms) < FAR_BETTER * suits(page.terms, self._of_ours())[1]:
            return None
        return Offer(page.url, lens.path, relevance, plain(page.title, MAX_TITLE_CHARS))

    def _of_ours(self) -> PeerSummary:
        """Our own topics, by the measure by which the others' are compared; anew when there are twice as many pages."""
        if self._own is None or len(self._pages) > 2 * self._own.pages:
            profiles = profiles_from(topic_profiles(self._store))
            self._own = PeerSummary(self._sender, "", len(self._pages), 0.0, profiles, {})
        return self._own

    def _hand_over(self, box: Outbox) -> None:
        """Deliver a batch."""
        batch = box.waiting[:BATCH_OFFERS]
        try:
            new = box.peer.offer(self._sender, batch)
        except PeerError as error:
            box.put_off(error, self._clock())
            return
        note(self._store, box.peer.name, batch, incoming=False, now_s=time.time())
        del box.waiting[:BATCH_OFFERS]
        box.tries, box.trouble = 0, ""
        box.handed_over += len(batch)
        box.new += new


def delivery_to(peers_file: str | Path, store: Store, *, goes_on: Callable[[], bool] = lambda: True) -> Delivery:
    """What delivers from a collection to the peers that a file names; itself, which may be named there, is left out."""
    from opilio.crawl import open_peer  # noqa: PLC0415  (a folder as a peer is a collection, which hands over, too)

    folder = store.path.parent.absolute()
    warnings: list[str] = []
    entries = read_peers(peers_file, warnings.append)
    peers = [open_peer(entry) for entry in entries if entry.is_remote or Path(entry.at).resolve() != folder.resolve()]
    delivery = Delivery(store, plain(folder.name, MAX_NAME_CHARS), peers, goes_on=goes_on)
    delivery.warnings = warnings
    return delivery
