"""Discovery: how a URL that was found gets its oid, passes the filters and is queued.

A learning strategy observes a page with all its links before the new URLs on it are queued. Then the links of all pages
that came together are scored at once (`queue_pending`): that takes little longer than for one page. New URLs are
recorded in the order of their oids.

Links that the strategy does not follow are recorded too, for link analysis and for later: a new URL to which they lead
is dropped with the outcome `not-followed`. It is queued when a page links to it whose links are followed, or when such
a page turns out to be one of those after all (`Steering.follow_links`). Until then it counts neither towards
`limits.max_urls`, up to as many URLs again, nor towards the limits of traps.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from opilio.crawl.extra_urls import STEP_DECAY, Sources
from opilio.crawl.ledger import Ledger
from opilio.frontier import ABSENT, Frontier, LearningStrategy, QueuedUrl
from opilio.model import Document, Judgement, Links, Outcome, url_key
from opilio.model.url import host_of
from opilio.settings import Settings

MAX_PENDING_PAGES = 128
"""Pages whose links are scored at once: more of them would gain nothing."""


PAST_LIMIT = "URLs past the limit of known URLs"


class NewUrl(NamedTuple):
    """A URL that was found for the first time, or that is followed for the first time."""

    url: QueuedUrl
    key: int
    parent: int
    rejection: Outcome | None
    is_known: bool = False
    """It was known, but no link to it was followed."""


class Discovery:
    """Takes in URLs: single ones, the links of pages, and URLs that are worth a try because of a relevant page."""

    def __init__(self, settings: Settings, frontier: Frontier, ledger: Ledger) -> None:
        self._settings = settings
        self._frontier = frontier
        self._ledger = ledger
        self._counters = ledger.counters
        self.sources = Sources(settings.frontier, lambda: [host.name for host in frontier.hosts])
        self._pending: list[tuple[Sequence[int], Sequence[NewUrl], float]] = []
        """Of pages whose links have yet to be scored: where they lead, the new URLs among them, and the time."""

    def offer(self, url: str, *, parent: int, depth: int, relevance: float, topic: int, now_s: float) -> int:
        """Register and queue a URL if it is new. Returns its oid, or ABSENT when it gets none."""
        key = url_key(url)
        oid = self._frontier.known.get(key)
        if not self._is_open(oid):
            self._counters.add("links to known URLs")
            return oid
        host = self._frontier.host(host_of(url))
        found = QueuedUrl(self._ledger.next_oid, url, host, topic, depth, relevance)
        new: list[NewUrl] = []
        oid = self._take_up(found, oid, key, parent, new)
        self._queue(new, now_s)
        return oid

    def offer_target(self, source: QueuedUrl, url: str, now_s: float) -> int:
        """Register the URL that `source` was redirected to: it takes over the links, evidence and priority of `source`.

        Returns its oid, or ABSENT when it gets none.
        """
        key, tiers = url_key(url), self._frontier.tiers
        oid = self._frontier.known.get(key)
        if not self._is_open(oid):
            self._counters.add("links to known URLs")
            tiers.hand_over(source, self._ledger.aliases.final(oid))
            return oid
        found = QueuedUrl(
            self._ledger.next_oid, url, source.host, source.topic, source.depth, source.relevance, source.hops + 1
        )
        found.sought, found.steps, found.priority = source.sought, source.steps, source.priority
        found.anchor, found.neighbours = source.anchor, source.neighbours
        new: list[NewUrl] = []
        oid = self._take_up(found, oid, key, source.oid, new)
        if new and new[0].rejection is None:
            tiers.hand_over(source, found)
        self._queue(new, now_s)
        return oid

    def _queue(self, new: Sequence[NewUrl], now_s: float) -> None:
        """Give new URLs their priorities and queue them."""
        if self._pending:  # URLs are recorded in the order of their oids
            self._pending.append(((), new, now_s))
        else:
            self._frontier.tiers.prioritise([found.url for found in new])
            self._place(new, now_s)

    def offer_links(self, page: QueuedUrl, judgement: Judgement | None, document: Document, now_s: float) -> None:
        """Offer the links of a page, and record them."""
        counters, robots = self._counters, self._settings.robots
        if document.links_dropped:
            counters.add("links past the limit of a page", document.links_dropped)
        if document.nofollow and robots.obey_meta:
            counters.add("links on nofollow pages", len(document.links))
            return
        links, kept = document.links, None
        if robots.obey_rel_nofollow:
            counters.add("nofollow links", sum(links.nofollow))
            if any(links.nofollow):
                kept = [place for place, nofollow in enumerate(links.nofollow) if not nofollow]
                links = links.take(kept)
        if not links:
            return
        frontier = self._frontier
        page.steps = frontier.strategy.steps_at(page, judgement)
        if not frontier.strategy.follows(page, judgement):
            counters.add("links of pages about other things", len(links))
            oids, new = self._look_up(page, judgement, document, links, follows=False)
            self._queue(new, now_s)
            self._record(page, links, oids)
            return
        oids, new = self._look_up(page, judgement, document, links)
        self._ledger.find(oids)
        learner = frontier.learner
        if learner is not None:
            leading = self._ledger.aliases.final_all(oids)
            self._observe(learner, page, judgement, document, kept, leading, self._sids(leading))
            self._pending.append((leading, new, now_s))
            if len(self._pending) >= MAX_PENDING_PAGES:
                self.queue_pending()
        else:
            frontier.tiers.prioritise([found.url for found in new])
            self._place(new, now_s)
        counters.add("links", len(links))
        counters.add("links to known URLs", len(links) - len(new))
        self._record(page, links, oids)

    def _record(self, page: QueuedUrl, links: Links, oids: Sequence[int]) -> None:
        """Record the links of a page."""
        if ABSENT in oids:  # too long, or past the limit of known URLs
            links = links.take([place for place, oid in enumerate(oids) if oid != ABSENT])
            oids = [oid for oid in oids if oid != ABSENT]
        self._ledger.recorder.add_links(self._ledger.batch, page, links, oids, self._sids(oids))

    def _sids(self, oids: Sequence[int]) -> list[int]:
        """The hosts of URLs."""
        sids = self._ledger.sids
        return [sids[oid] if oid != ABSENT else ABSENT for oid in oids]

    def offer_nearby(self, page: QueuedUrl, judgement: Judgement, now_s: float) -> None:
        """Offer further URLs that are worth a try because a page is relevant, each once."""
        for found in self.sources.around(page.url):
            if self.is_new(found.url):
                relevance = judgement.relevance * STEP_DECAY**found.steps
                depth = page.depth + 1
                oid = self.offer(
                    found.url, parent=page.oid, depth=depth, relevance=relevance, topic=page.topic, now_s=now_s
                )
                self._counters.add(found.counter, oid != ABSENT)

    def queue_pending(self) -> None:
        """Score the links of the pages that came, all at once, and queue the new URLs."""
        if self._pending:
            pending, self._pending = self._pending, []
            queued = [found.url for _, new, _ in pending for found in new if found.rejection is None]
            self._frontier.tiers.prioritise_observed(queued, chain.from_iterable(oids for oids, _, _ in pending))
            for _, new, now_s in pending:
                self._place(new, now_s)

    def _look_up(
        self,
        page: QueuedUrl,
        judgement: Judgement | None,
        document: Document,
        links: Links,
        *,
        follows: bool = True,
    ) -> tuple[list[int], list[NewUrl]]:
        """The oid of each link, ABSENT for one that gets none, and the URLs that are to be queued or recorded.

        If the links are not followed, new URLs are recorded as such. They are queued as soon as a page links to them
        whose links are followed.
        """
        known, ledger = self._frontier.known, self._ledger
        keys = links.key_list()
        oids = known.get_list(keys)
        new: list[NewUrl] = []
        depth = page.depth + 1
        takes_up = follows and ledger.states.not_followed and not 0 < self._settings.limits.max_depth < depth
        if ABSENT not in oids and not takes_up:
            return oids, new
        relevance = judgement.relevance if judgement else 0.0
        urls, anchors = links.url_list(), links.anchor_list()
        for index, oid in enumerate(oids):
            if oid == ABSENT and new:  # an earlier link of this page may be the same
                oid = oids[index] = known.get(keys[index])  # noqa: PLW2901
            if oid != ABSENT and not (takes_up and ledger.states.is_not_followed(oid)):
                continue
            found = QueuedUrl(ledger.next_oid, urls[index], page.host, page.topic, depth, relevance)
            found.anchor, found.neighbours = anchors[index], document.significant
            found.steps = page.steps
            oids[index] = self._take_up(found, oid, keys[index], page.oid, new, follows=follows)
        return oids, new

    def is_new(self, url: str) -> bool:
        """Whether a URL is new, or known only by links that were not followed."""
        return self._is_open(self._frontier.known.get(url_key(url)))

    def _is_open(self, oid: int) -> bool:
        """Whether a URL is new, or known only by links that were not followed."""
        return oid == ABSENT or self._ledger.states.is_not_followed(oid)

    def _take_up(
        self, url: QueuedUrl, oid: int, key: int, parent: int, new: list[NewUrl], *, follows: bool = True
    ) -> int:
        """Register a URL, or follow one that has an oid and to which no link was followed so far; it joins `new`."""
        if oid == ABSENT:
            return self._register(url, key, parent, new, follows=follows)
        url.oid = oid
        url.host, rejection = self._frontier.screen(url.url, url.depth)
        if rejection is not None:  # it stays as it is: dropped
            return oid
        if self._is_full():
            self._counters.add(PAST_LIMIT)
            return oid
        self._ledger.reopen(oid)
        new.append(NewUrl(url, key, parent, None, is_known=True))
        return oid

    def _register(self, url: QueuedUrl, key: int, parent: int, new: list[NewUrl], *, follows: bool = True) -> int:
        """Give a new URL its oid, unless it is not worth one; it joins the `new` ones."""
        url.host, rejection = self._frontier.screen(url.url, url.depth, counts=follows)
        if not follows and rejection in (None, Outcome.TOO_DEEP):  # a link to it that is followed may come, and nearer
            rejection = Outcome.NOT_FOLLOWED
        if rejection is Outcome.URL_TOO_LONG:
            self._counters.outcome(rejection)
            return ABSENT
        if self._is_full(follows=follows):
            self._counters.add(PAST_LIMIT)
            return ABSENT
        self._frontier.known.set(key, url.oid)
        self._ledger.register(url.host.sid, rejection)
        new.append(NewUrl(url, key, parent, rejection))
        return url.oid

    def _is_full(self, *, follows: bool = True) -> bool:
        """Whether no URL may be added; those to which no link is followed take no room from others."""
        states = self._ledger.states
        return 0 < self._settings.limits.max_urls <= len(states) - (states.not_followed if follows else 0)

    @staticmethod
    def _observe(
        learner: LearningStrategy,
        page: QueuedUrl,
        judgement: Judgement | None,
        document: Document,
        kept: Sequence[int] | None,
        oids: Sequence[int],
        sids: Sequence[int],
    ) -> None:
        """Show a page with all its links to a learning strategy, before the new URLs among them are queued.

        `oids` and `sids` are those of the links at the places `kept`; None: of all.
        """
        if kept is not None:  # the others are not followed
            all_oids, all_sids = ([ABSENT] * len(document.links) for _ in range(2))
            for place, oid, sid in zip(kept, oids, sids, strict=True):
                all_oids[place], all_sids[place] = oid, sid
            oids, sids = all_oids, all_sids
        learner.observe(page, judgement, document, oids, sids)

    def _place(self, new: Sequence[NewUrl], now_s: float) -> None:
        """Record new URLs, and queue those that are not rejected."""
        ledger, enqueue = self._ledger, self._frontier.tiers.add
        for url, key, parent, rejection, is_known in new:
            if is_known:
                ledger.follow(url, parent)
            else:
                ledger.add(url, key, parent, now_s, rejection)
            if rejection is None:
                enqueue(url)
