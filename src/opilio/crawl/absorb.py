"""What a visit changes: the URL's state, its host, the frontier, and the rows of the next transaction.

Plain code without I/O: visits in, changed frontier and a filled batch out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from opilio.crawl import rows
from opilio.crawl.extra_urls import STEP_DECAY, Sources
from opilio.crawl.meeting import Meeting
from opilio.crawl.offering import MAX_NOTICES, OPEN, SETTLED, STORED, NewUrl
from opilio.crawl.rows import VisitRecorder
from opilio.crawl.status import Counters
from opilio.frontier import ABSENT, Duplicates, Frontier, HostState, QueuedUrl
from opilio.model import Document, Fetch, Judgement, LeaseKind, Outcome, UrlState, Visit, url_key
from opilio.model.url import path_of
from opilio.settings import Settings

LOST_APART = 16  # leases lost with their worker are tried again at so many different times
TELL_APART_S = 4e-6  # between visits that came together: the order in which they were taken in must be found again

__all__ = ["MAX_NOTICES", "OPEN", "SETTLED", "STORED", "Absorber"]


class Absorber(Meeting):
    """Takes in visits. One batch is open at any time; `swap_batch` closes it."""

    def __init__(
        self,
        settings: Settings,
        frontier: Frontier,
        duplicates: Duplicates,
        counters: Counters,
        recorder: VisitRecorder = rows,
    ) -> None:
        super().__init__(settings, frontier, duplicates, counters, recorder)
        self._lost = Counter()
        self._sources = Sources(settings.frontier)
        self._reads: dict[LeaseKind, Callable[[Visit, float], None]] = {
            LeaseKind.PAGE: self._page,
            LeaseKind.HOST: self._host,
            LeaseKind.SITEMAP: self._sitemap,
        }

    def absorb(self, visit: Visit, now_s: float) -> None:
        """Take in a visit."""
        self.absorb_all([visit], now_s)

    def absorb_all(self, visits: Sequence[Visit], now_s: float) -> None:
        """Take in visits that came together. What is found on their pages is weighed once, when all are in."""
        self.counters.add("requests", len(visits))
        self.counters.add("bytes", sum([visit.fetch.received_bytes for visit in visits]))
        for place, visit in enumerate(visits):
            self._reads[visit.lease.kind](visit, now_s + place * TELL_APART_S)
        self.catch_up()
        self.frontier.look_anew()

    def _page(self, visit: Visit, now_s: float) -> None:
        fetch = visit.fetch
        url = self.frontier.ended(visit.lease, fetch.outcome, now_s, fetch.retry_after_s)
        if url is None:  # a page recovered from a WARC file
            return
        self._take_in(url, visit, now_s)

    def page(self, url: QueuedUrl, visit: Visit, now_s: float) -> None:
        """Take in the visit of a page that is no longer in the frontier."""
        self._take_in(url, visit, now_s)
        self.catch_up()

    def _take_in(self, url: QueuedUrl, visit: Visit, now_s: float) -> None:
        fetch = visit.fetch
        url.numtries += 1
        url.host.bytes += fetch.received_bytes
        self.changed_hosts.add(url.host.sid)
        self.recorder.add_visit(self.batch, visit.lease, fetch)
        if fetch.outcome is Outcome.OK and visit.document is not None:
            self._document(url, visit, visit.document, now_s)
        elif fetch.outcome is Outcome.REDIRECT:
            self._redirect(url, fetch, now_s)
        elif fetch.outcome.may_retry and self._retries(url, fetch, now_s):
            self.counters.add("retries")
        else:
            self._settle(url, fetch.outcome, now_s, None)

    def _retries(self, url: QueuedUrl, fetch: Fetch, now_s: float) -> bool:
        """Let a URL wait for another try, if it may have one."""
        fetching = self.settings.fetch
        if url.numtries >= fetching.max_tries or url.host.state is HostState.BAD:
            return False
        if fetch.retry_after_s > fetching.max_backoff_s:
            return False
        wait_s = max(fetch.retry_after_s, min(fetching.backoff_s * 2 ** (url.numtries - 1), fetching.max_backoff_s))
        if fetch.outcome is Outcome.WORKER_LOST:  # one of many lost together may be to blame: not together again
            wait_s *= 1 + url.oid % LOST_APART
        self.frontier.retry(url, now_s + wait_s)
        self.recorder.change_url(self.batch, url, UrlState.WAITING, fetch.outcome, now_s, now_s + wait_s)
        return True

    def _redirect(self, url: QueuedUrl, fetch: Fetch, now_s: float) -> None:
        target = fetch.redirect_url
        hops = url.hops + 1
        if hops > self.settings.fetch.max_redirects:
            self._settle(url, Outcome.TOO_MANY_REDIRECTS, now_s, None)
            return
        oid = self.offer(
            target, parent=url.oid, depth=url.depth, relevance=url.relevance, topic=url.topic, now_s=now_s, hops=hops
        )
        if oid != ABSENT:
            self.batch.redirects.add(url.oid, oid, fetch.status)
            if url.oid in self.examples:
                self.examples[oid] = self.examples[url.oid]
        self._settle(url, Outcome.REDIRECT, now_s, None)

    def _document(self, url: QueuedUrl, visit: Visit, document: Document, now_s: float) -> None:
        fetch, judgement = visit.fetch, self._judgement(url, visit)
        self.recorder.add_words(self.batch, document)
        if document.noindex and self.settings.robots.obey_meta:
            self._settle(url, Outcome.NOINDEX, now_s, None)
            self._links(url, judgement, document, now_s)
            return
        repeated = self._canonical_twin(url, document) or self.duplicates.repeats(
            document, url.host.sid, url.url, fetch.ip, fetch.body_bytes
        )
        if url.oid in self.recrawls:
            self._refreshed(url, visit, document, judgement, repeated, now_s)
            return
        if repeated is not None:
            outcome, twin = repeated
            self.batch.duplicates.add(url.oid, twin, outcome)
            self._settle(url, outcome, now_s, judgement.relevance if judgement else None)
            if outcome is Outcome.DUP_NEAR:  # nearly the same words, perhaps other links
                self._links(url, judgement, document, now_s)
            return
        self.duplicates.remember(url.oid, document, url.host.sid, url.url, fetch.ip, fetch.body_bytes)
        url.host.pages += 1
        self.counters.page(judgement.relevance if judgement else None)
        self._store(url, visit, document, judgement, now_s)

    def _store(
        self, url: QueuedUrl, visit: Visit, document: Document, judgement: Judgement | None, now_s: float
    ) -> None:
        self.recorder.add_page(self.batch, visit, document, judgement, self.settings.store)
        if judgement is not None:
            self.batch.judgements.put(url.oid, judgement)
            self.judged_before += judgement.model_version < self.judged_from
            if judgement.accepted:  # a page about nothing stays with the topic that led to it
                url.topic = judgement.topic
        self._settle(url, Outcome.OK, now_s, judgement.relevance if judgement else None)
        self._links(url, judgement, document, now_s)
        if judgement is not None and judgement.is_relevant:
            self._look_around(url, judgement, now_s)

    def _look_around(self, url: QueuedUrl, judgement: Judgement, now_s: float) -> None:
        """Offer what is worth a try beside the links of a relevant page, each URL once."""
        for found in self._sources.around(url.url):
            if self.frontier.known.get(url_key(found.url)) == ABSENT:
                relevance = judgement.relevance * STEP_DECAY**found.steps
                depth = url.depth + 1
                oid = self.offer(
                    found.url, parent=url.oid, depth=depth, relevance=relevance, topic=url.topic, now_s=now_s
                )
                self.counters.add(found.counter, oid != ABSENT)

    def _judgement(self, url: QueuedUrl, visit: Visit) -> Judgement | None:
        """What is to be thought of a page: of an example, what the user says; else what the model says."""
        kcid = self.examples.get(url.oid)
        if visit.judgement is None or kcid not in self.wanted:
            return visit.judgement
        return msgspec.structs.replace(visit.judgement, topic=kcid, accepted=True, relevance=1.0)

    def _refreshed(
        self,
        url: QueuedUrl,
        visit: Visit,
        document: Document,
        judgement: Judgement | None,
        repeated: tuple[Outcome, int] | None,
        now_s: float,
    ) -> None:
        """A page that is stored was asked for again: it is the same, or its new form takes the place of the old."""
        self.recrawls.discard(url.oid)
        if repeated is not None and repeated[1] == url.oid and repeated[0] is not Outcome.DUP_NEAR:
            self._settle(url, Outcome.NOT_MODIFIED, now_s, None)
            return
        self.counters.add("pages refreshed")
        self.duplicates.remember(url.oid, document, url.host.sid, url.url, visit.fetch.ip, visit.fetch.body_bytes)
        self.batch.replaced.append(url.oid)
        self._store(url, visit, document, judgement, now_s)

    def _canonical_twin(self, url: QueuedUrl, document: Document) -> tuple[Outcome, int] | None:
        canonical = document.canonical
        if not self.settings.duplicates.canonical or not canonical or canonical == url.url:
            return None
        if path_of(canonical) == "/":  # a home page named as everybody's canonical is a common mistake
            return None
        twin = self.frontier.known.get(url_key(canonical))
        if twin not in (ABSENT, url.oid) and self.settled[twin] == STORED:
            return Outcome.DUP_CANONICAL, twin
        return None

    def _links(self, url: QueuedUrl, judgement: Judgement | None, document: Document, now_s: float) -> None:
        """Offer the links of a page to the frontier, and note them."""
        if document.links_dropped:
            self.counters.add("links past the limit of a page", document.links_dropped)
        if document.nofollow and self.settings.robots.obey_meta:
            self.counters.add("links on nofollow pages", len(document.links))
            return
        links = document.links
        if self.settings.robots.obey_rel_nofollow:
            links = [link for link in links if not link.nofollow]
            self.counters.add("nofollow links", len(document.links) - len(links))
        if not links:
            return
        url.steps = self.frontier.strategy.steps_at(url, judgement)
        if not self.frontier.strategy.follows(url, judgement):
            self.counters.add("links of pages about other things", len(links))
            return
        relevance = judgement.relevance if judgement else 0.0
        known = self.frontier.known
        oids = known.get_list([link.key for link in links])
        new: list[NewUrl] = []
        for index, oid in enumerate(oids):
            if oid == ABSENT:
                link = links[index]
                oids[index] = known.get(link.key) if new else ABSENT  # it may have stood on this very page before
                if oids[index] == ABSENT:
                    found = QueuedUrl(self.next_oid, link.url, url.host, url.topic, url.depth + 1, relevance)
                    found.anchor, found.neighbours = link.anchor, document.significant
                    found.steps = url.steps
                    oids[index] = self._name(found, link.key, url.oid, new)
        sids = [self.sids[oid] if oid != ABSENT else ABSENT for oid in oids]
        if self.frontier.strategy.learns:
            self._observe(url, judgement, document, links, oids, sids, new, now_s)
        else:
            self.frontier.prioritise([found.url for found in new])
            self._admit(new, now_s)
        self.counters.add("links", len(links))
        self.counters.add("links to known URLs", len(links) - len(new))
        if ABSENT in oids:  # too long, or past the limit of known URLs
            links = [link for link, oid in zip(links, oids, strict=True) if oid != ABSENT]
            oids, sids = [oid for oid in oids if oid != ABSENT], [sid for sid in sids if sid != ABSENT]
        self.recorder.add_links(self.batch, url, links, oids, sids)
