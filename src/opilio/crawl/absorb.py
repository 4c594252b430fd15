"""What a visit changes: the URL's state, its host, the frontier, and the rows of the next transaction.

Plain code without I/O: visits in, changed frontier and a filled batch out.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from opilio.crawl import rows
from opilio.crawl.counters import Counters
from opilio.crawl.recorder import Recorder
from opilio.fetch.robots import RobotsRules
from opilio.frontier import ABSENT, Duplicates, Frontier, HostState, Waiting
from opilio.model import (
    Document,
    Fetch,
    Judgement,
    Lease,
    LeaseKind,
    Link,
    Outcome,
    OutcomeKind,
    UrlState,
    Visit,
    url_key,
)
from opilio.model.url import host_of, path_of, registered_domain
from opilio.settings import Settings
from opilio.store import Batch

SITEMAP_OID = -(2**40)  # leases of sitemaps have oids below this: they are no URLs of the crawl
MAX_SITEMAPS_PER_HOST = 20
OPEN, SETTLED, STORED = 0, 1, 2
MAX_NOTICES = 20
LOST_APART = 16  # leases lost with their worker are tried again at so many different times


class _NewUrl(NamedTuple):
    """A URL met for the first time."""

    url: Waiting
    key: int
    parent: int
    refusal: Outcome | None


class Absorber:
    """Takes in visits. One batch is open at any time; `swap_batch` closes it."""

    def __init__(
        self,
        settings: Settings,
        frontier: Frontier,
        duplicates: Duplicates,
        counters: Counters,
        recorder: Recorder = rows,
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
        self._sitemaps = 0
        self._reads: dict[LeaseKind, Callable[[Visit, float], None]] = {
            LeaseKind.PAGE: self._page,
            LeaseKind.HOST: self._host,
            LeaseKind.SITEMAP: self._sitemap,
        }
        frontier.on_drop = self.drop
        frontier.refuses = self._known_elsewhere
        frontier.on_spill = self._note_priorities

    def swap_batch(self) -> Batch:
        """The batch to be written now; a new one is open."""
        batch, self.batch = self.batch, Batch()
        # Every host, also one that is known by nothing but a URL too long to keep: sids must have no gaps.
        self.changed_hosts.update(range(self.stored_hosts, len(self.frontier.hosts)))
        self.stored_hosts = len(self.frontier.hosts)
        for sid in self.changed_hosts:
            self.recorder.add_host(batch, self.frontier.hosts[sid])
        self.changed_hosts = set()
        for name in self.counters.dirty:
            batch.counters[name] = self.counters.counts[name]
        self.counters.dirty = set()
        return batch

    def notice(self, kind: str, text: str, remedy: str = "", kcid: int | None = None) -> None:
        """Say something about the crawl: it is shown with its status, and kept."""
        self.batch.notices.add(time.time(), kind, kcid, text, remedy)
        self.notices.append({"kind": kind, "text": text, "remedy": remedy})

    def absorb(self, visit: Visit, now_s: float) -> None:
        """Take in a visit."""
        self.counters.add("requests")
        self.counters.add("bytes", visit.fetch.received_bytes)
        self._reads[visit.lease.kind](visit, now_s)
        self.frontier.look_anew()

    # -- hosts and sitemaps

    def _host(self, visit: Visit, now_s: float) -> None:
        host = self.frontier.hosts[-1 - visit.lease.oid]
        report, fetch = visit.host, visit.fetch
        self.changed_hosts.add(host.sid)
        self.recorder.add_visit(self.batch, visit.lease, fetch)
        if fetch.outcome is Outcome.PRIVATE_ADDRESS:
            host.refusal = fetch.outcome
            host.met_s = now_s
        elif report is not None and not fetch.outcome.blames_host:  # else it is met again, until it is `bad`
            host.ip = fetch.ip
            host.robots_status = report.robots_status
            host.crawl_delay_s = report.crawl_delay_s
            host.met_s = now_s
            host.rules = RobotsRules(report, self.settings.user_agent)
            self.batch.robots.add(host.sid, now_s, report.robots)
            self._plan_sitemaps(host.sid, report.sitemaps)
        outcome = fetch.outcome if fetch.outcome.blames_host else Outcome.OK
        if report is None and outcome is Outcome.OK and host.refusal is None:
            outcome = Outcome.CONNECT_FAILED  # the worker could not even try: not for ever
        self.frontier.ended(visit.lease, outcome, now_s)

    def _plan_sitemaps(self, sid: int, urls: list[str]) -> None:
        if not self.settings.robots.sitemaps:
            return
        host = self.frontier.hosts[sid]
        for url in urls[:MAX_SITEMAPS_PER_HOST]:
            if registered_domain(url.split("/")[2]) == host.domain_name:
                self._sitemaps += 1
                self.frontier.host(host_of(url), url[: url.index(":")]).errands.append(
                    Lease(SITEMAP_OID - self._sitemaps, url, LeaseKind.SITEMAP)
                )

    def _sitemap(self, visit: Visit, now_s: float) -> None:
        self.frontier.ended(visit.lease, visit.fetch.outcome, now_s, visit.fetch.retry_after_s)
        self.recorder.add_visit(self.batch, visit.lease, visit.fetch)
        if visit.sitemap_is_index:
            host = self.frontier.host(visit.lease.url.split("/")[2])
            if len(host.errands) < MAX_SITEMAPS_PER_HOST:
                self._plan_sitemaps(host.sid, visit.sitemap_urls)
            return
        for url in visit.sitemap_urls:
            self.counters.add("sitemap urls")
            self.offer(url, parent=-1, depth=1, relevance=0.0, topic=0, now_s=now_s)

    # -- pages

    def _page(self, visit: Visit, now_s: float) -> None:
        fetch = visit.fetch
        url = self.frontier.ended(visit.lease, fetch.outcome, now_s, fetch.retry_after_s)
        if url is None:  # a page recovered from a WARC file
            return
        self.page(url, visit, now_s)

    def page(self, url: Waiting, visit: Visit, now_s: float) -> None:
        """Take in the visit of a page that is no longer in the frontier."""
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

    def _retries(self, url: Waiting, fetch: Fetch, now_s: float) -> bool:
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

    def _redirect(self, url: Waiting, fetch: Fetch, now_s: float) -> None:
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

    def _document(self, url: Waiting, visit: Visit, document: Document, now_s: float) -> None:
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

    def _store(self, url: Waiting, visit: Visit, document: Document, judgement: Judgement | None, now_s: float) -> None:
        self.recorder.add_page(self.batch, visit, document, judgement, self.settings.store)
        if judgement is not None:
            self.batch.judgements.put(url.oid, judgement)
            self.judged_before += judgement.model_version < self.judged_from
            if judgement.accepted:  # a page about nothing stays with the topic that led to it
                url.topic = judgement.topic
        self._settle(url, Outcome.OK, now_s, judgement.relevance if judgement else None)
        self._links(url, judgement, document, now_s)

    def _judgement(self, url: Waiting, visit: Visit) -> Judgement | None:
        """What is to be thought of a page: of an example, what the user says; else what the model says."""
        kcid = self.examples.get(url.oid)
        if visit.judgement is None or kcid not in self.wanted:
            return visit.judgement
        return msgspec.structs.replace(visit.judgement, topic=kcid, accepted=True, relevance=1.0)

    def _refreshed(
        self,
        url: Waiting,
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

    def _canonical_twin(self, url: Waiting, document: Document) -> tuple[Outcome, int] | None:
        canonical = document.canonical
        if not self.settings.duplicates.canonical or not canonical or canonical == url.url:
            return None
        if path_of(canonical) == "/":  # a home page named as everybody's canonical is a common mistake
            return None
        twin = self.frontier.known.get(url_key(canonical))
        if twin not in (ABSENT, url.oid) and self.settled[twin] == STORED:
            return Outcome.DUP_CANONICAL, twin
        return None

    def _links(self, url: Waiting, judgement: Judgement | None, document: Document, now_s: float) -> None:
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
        url.steps = 0 if judgement is not None and judgement.is_relevant else url.steps + 1
        if not self.frontier.strategy.follows(url, judgement):
            self.counters.add("links of pages about other things", len(links))
            return
        relevance = judgement.relevance if judgement else 0.0
        known = self.frontier.known
        oids = known.get_list([link.key for link in links])
        new: list[_NewUrl] = []
        for index, oid in enumerate(oids):
            if oid == ABSENT:
                link = links[index]
                oids[index] = known.get(link.key) if new else ABSENT  # it may have stood on this very page before
                if oids[index] == ABSENT:
                    found = Waiting(self.next_oid, link.url, url.host, url.topic, url.depth + 1, relevance)
                    found.anchor, found.neighbours = link.anchor, document.significant
                    found.steps = url.steps
                    oids[index] = self._name(found, link.key, url.oid, new)
        if self.frontier.strategy.learns:
            self._observe(url, judgement, document, links, oids, new)
        else:
            self.frontier.prioritise([found.url for found in new])
        self._admit(new, now_s)
        self.counters.add("links", len(links))
        self.counters.add("links to known URLs", len(links) - len(new))
        if ABSENT in oids:  # too long, or past the limit of known URLs
            links = [link for link, oid in zip(links, oids, strict=True) if oid != ABSENT]
            oids = [oid for oid in oids if oid != ABSENT]
        self.recorder.add_links(self.batch, url, links, oids, [self.sids[oid] for oid in oids])

    # -- URLs

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
        new: list[_NewUrl] = []
        oid = self._name(Waiting(self.next_oid, url, host, topic, depth, relevance, hops), key, parent, new)
        self.frontier.prioritise([found.url for found in new])
        self._admit(new, now_s)
        return oid

    def _observe(
        self,
        url: Waiting,
        judgement: Judgement | None,
        document: Document,
        links: Sequence[Link],
        oids: Sequence[int],
        new: Sequence[_NewUrl],
    ) -> None:
        """Let a strategy that learns see a page with all its links, before those that are new take their places."""
        if len(links) < len(document.links):  # some are not followed
            places = {id(link): oid for link, oid in zip(links, oids, strict=True)}
            oids = [places.get(id(link), ABSENT) for link in document.links]
        sids = [self.sids[oid] if oid != ABSENT else ABSENT for oid in oids]
        waiting = [found.url for found in new if found.refusal is None]
        self.frontier.observe(url, judgement, document, oids, sids, waiting)

    def _name(self, url: Waiting, key: int, parent: int, new: list[_NewUrl]) -> int:
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
        new.append(_NewUrl(url, key, parent, refusal))
        return url.oid

    def _admit(self, new: Sequence[_NewUrl], now_s: float) -> None:
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

    def _known_elsewhere(self, url: Waiting) -> Outcome | None:
        found = self.duplicates.known_elsewhere(url.oid, url.url, url.host.sid, url.host.ip)
        if found is None:
            return None
        outcome, twin = found
        self.batch.duplicates.add(url.oid, twin, outcome)
        return outcome

    def _note_priorities(self, urls: Sequence[Waiting]) -> None:
        """Record the priorities of waiting URLs as they are by now."""
        for url in urls:
            self.recorder.change_url(self.batch, url, UrlState.WAITING, None, rows.NEVER_S, rows.NEVER_S)

    def drop(self, url: Waiting, outcome: Outcome) -> None:
        """Record that a waiting URL was given up."""
        self._settle(url, outcome, rows.NEVER_S, None)

    def _settle(self, url: Waiting, outcome: Outcome, now_s: float, relevance: float | None) -> None:
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
