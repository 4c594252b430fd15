"""URLs that a crawl is offered: how one gets its oid, waits, and has its last word spoken."""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from opilio.crawl import rows
from opilio.crawl.rows import VisitRecorder
from opilio.crawl.status import Counters
from opilio.frontier import ABSENT, Duplicates, Frontier, QueuedUrl
from opilio.model import Document, Judgement, Link, Outcome, OutcomeKind, UrlState, url_key
from opilio.model.url import host_of
from opilio.settings import Settings
from opilio.store import Batch

OPEN, SETTLED, STORED = 0, 1, 2
MAX_NOTICES = 20
MAX_UNPLACED_PAGES = 128
"""Pages whose links are weighed at once: more of them would gain nothing."""


class NewUrl(NamedTuple):
    """A URL met for the first time."""

    url: QueuedUrl
    key: int
    parent: int
    refusal: Outcome | None


class Offering:
    """The URLs of a crawl, and the batch in which all that happens to them is written down."""

    def __init__(
        self,
        settings: Settings,
        frontier: Frontier,
        duplicates: Duplicates,
        counters: Counters,
        recorder: VisitRecorder = rows,
    ) -> None:
        self.settings = settings
        self.recorder = recorder
        self.frontier = frontier
        self.duplicates = duplicates
        self.counters = counters
        self.batch = Batch()
        self.settled = bytearray()  # by oid: OPEN, SETTLED once the last word about the URL is spoken, or STORED
        self.sids = array("i")  # by oid: the host
        self.recrawls: set[int] = set()
        """Waiting URLs whose page is stored already."""
        self.examples: dict[int, int] = {}
        """URLs of examples that the user gave, and the topic of each."""
        self.wanted: frozenset[int] = frozenset()
        """Topics that are wanted: an example of one is relevant, whatever a model says."""
        self.judged_from = 0
        """Pages should be judged by this model or a later one."""
        self.judged_before = 0
        """How many came that an earlier one had judged: they were under way when it was handed out."""
        self.notices: deque[dict[str, str]] = deque(maxlen=MAX_NOTICES)
        """The latest that the crawl had to say."""
        self.changed_hosts: set[int] = set()
        self.stored_hosts = 0
        """Hosts of which the database has a row: all with a sid below this."""
        self.next_oid = 0
        self._unplaced: list[tuple[Sequence[int], Sequence[NewUrl], float]] = []
        """Of pages whose links have yet to be weighed: where they lead, the URLs found on them, and when."""
        frontier.on_drop = self.drop
        frontier.refuses = self._known_elsewhere
        frontier.on_spill = self._note_priorities

    def swap_batch(self) -> Batch:
        """The batch to be written now; a new one is open."""
        self.catch_up()
        batch, self.batch = self.batch, Batch()
        # Every host, also one that is known by nothing but a URL too long to keep: sids must have no gaps.
        self.changed_hosts.update(range(self.stored_hosts, len(self.frontier.hosts)))
        self.stored_hosts = len(self.frontier.hosts)
        for sid in self.changed_hosts:
            self.recorder.add_host(batch, self.frontier.hosts[sid])
        self.changed_hosts = set()
        self.counters.write_changes(batch)
        return batch

    def notice(self, kind: str, text: str, remedy: str = "", kcid: int | None = None) -> None:
        """Say something about the crawl: it is shown with its status, and kept."""
        self.batch.notices.add(time.time(), kind, kcid, text, remedy)
        self.notices.append({"kind": kind, "text": text, "remedy": remedy})

    def offer(
        self, url: str, *, parent: int, depth: int, relevance: float, topic: int, now_s: float, hops: int = 0
    ) -> int:
        """Make a URL known, unless it is. Returns its oid, or ABSENT when it is not worth one."""
        key = url_key(url)
        oid = self.frontier.known.get(key)
        if oid != ABSENT:
            self.counters.add("links to known URLs")
            return oid
        host = self.frontier.host(host_of(url), url[: url.index(":")])
        new: list[NewUrl] = []
        oid = self._name(QueuedUrl(self.next_oid, url, host, topic, depth, relevance, hops), key, parent, new)
        if self._unplaced:  # URLs are written down in the order of their oids
            self._unplaced.append(((), new, now_s))
        else:
            self.frontier.prioritise([found.url for found in new])
            self._admit(new, now_s)
        return oid

    def _observe(
        self,
        url: QueuedUrl,
        judgement: Judgement | None,
        document: Document,
        links: Sequence[Link],
        oids: Sequence[int],
        sids: Sequence[int],
        new: Sequence[NewUrl],
        now_s: float,
    ) -> None:
        """Let a strategy that learns see a page with all its links, before those that are new take their places."""
        if len(links) < len(document.links):  # some are not followed
            places = {id(link): place for link, place in zip(links, zip(oids, sids, strict=True), strict=True)}
            found = [places.get(id(link), (ABSENT, ABSENT)) for link in document.links]
            oids, sids = [oid for oid, _ in found], [sid for _, sid in found]
        self.frontier.strategy.observe(url, judgement, document, oids, sids)
        self._unplaced.append((oids, new, now_s))
        if len(self._unplaced) >= MAX_UNPLACED_PAGES:
            self.catch_up()

    def catch_up(self) -> None:
        """Weigh what the pages that came link to, all at once, and give the URLs found on them their places."""
        if self._unplaced:
            unplaced, self._unplaced = self._unplaced, []
            waiting = [found.url for _, new, _ in unplaced for found in new if found.refusal is None]
            self.frontier.weigh(waiting, chain.from_iterable(oids for oids, _, _ in unplaced))
            for _, new, now_s in unplaced:
                self._admit(new, now_s)

    def _name(self, url: QueuedUrl, key: int, parent: int, new: list[NewUrl]) -> int:
        """Give a URL met for the first time its oid, unless it is not worth one; it joins the `new` ones."""
        url.host, refusal = self.frontier.judge_new(url.url, url.depth)
        if refusal is Outcome.URL_TOO_LONG:
            self.counters.outcome(refusal)
            return ABSENT
        if 0 < self.settings.limits.max_urls <= self.next_oid:
            self.counters.add("URLs past the limit of known URLs")
            return ABSENT
        self.next_oid += 1
        self.frontier.known.set(key, url.oid)
        self.sids.append(url.host.sid)
        self.settled.append(OPEN if refusal is None else SETTLED)
        new.append(NewUrl(url, key, parent, refusal))
        return url.oid

    def _admit(self, new: Sequence[NewUrl], now_s: float) -> None:
        """Let new URLs wait, those that something speaks against excepted."""
        for url, key, parent, refusal in new:
            if refusal is not None:
                self.counters.outcome(refusal)
            self.recorder.add_url(self.batch, url, key, parent, now_s, refusal)
            if refusal is None:
                self.frontier.add(url)

    def reopen(self, oid: int) -> None:
        """Let a URL be asked for again about which the last word was spoken."""
        if self.settled[oid] == STORED:
            self.recrawls.add(oid)
        self.settled[oid] = OPEN

    def _known_elsewhere(self, url: QueuedUrl) -> Outcome | None:
        found = self.duplicates.known_elsewhere(url.oid, url.url, url.host.sid, url.host.ip)
        if found is None:
            return None
        outcome, twin = found
        self.batch.duplicates.add(url.oid, twin, outcome)
        return outcome

    def _note_priorities(self, urls: Sequence[QueuedUrl]) -> None:
        """Record the priorities of waiting URLs as they are by now."""
        for url in urls:
            if url.oid in self.recrawls:  # its row says by its outcome that a page of it is stored
                continue
            self.recorder.change_url(self.batch, url, UrlState.WAITING, None, rows.NEVER_S, rows.NEVER_S)

    def drop(self, url: QueuedUrl, outcome: Outcome) -> None:
        """Record that a waiting URL was given up."""
        self._settle(url, outcome, rows.NEVER_S, None)

    def _settle(self, url: QueuedUrl, outcome: Outcome, now_s: float, relevance: float | None) -> None:
        """Speak the last word about a URL."""
        self.settled[url.oid] = STORED if outcome in (Outcome.OK, Outcome.NOT_MODIFIED) else SETTLED
        if self.frontier.strategy.learns:
            if relevance is not None or outcome.kind is OutcomeKind.FAILED:
                self.frontier.strategy.settle(url.oid, relevance or 0.0)
            else:  # refused unseen, redirected, or a copy of what is known
                self.frontier.strategy.forget(url.oid)
        self.counters.outcome(outcome)
        if relevance is not None:
            url.relevance = relevance
        self.recorder.change_url(self.batch, url, outcome.final_state, outcome, now_s, rows.NEVER_S)
