"""The absorber: what a visit changes in the URL's state, its host, the frontier, and the rows of the next transaction.

Plain code without I/O: visits in, changed frontier and a filled batch out. `Absorber` decides what becomes of a page.
It has the `Ledger` (the state of each URL, and the open batch), `Discovery` (URLs that were found), `FirstContact`,
`Soft404s` and `Pictures`.

First contact with an origin (http or https on a host) is its robots.txt: it is requested before the first page of the
origin, and again when it is out of date. Files in which the origin reserves rights, if they are wanted, and the
sitemaps that robots.txt names follow, one at a time, in the turns of its URLs; of sitemaps as many as its domain may
have for the pages that it gives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import numpy as np
import xxhash

from opilio.analyze.terms import term_ids
from opilio.crawl.discovery import Discovery
from opilio.crawl.ledger import Ledger
from opilio.crawl.pictures import Pictures
from opilio.distill.back_links import BackLinks
from opilio.fetch.robots import RobotsRules
from opilio.fetch.site_rights import PATHS, SiteRights
from opilio.frontier import ABSENT, Frontier, HostState, KeyMap, Origin, QueuedUrl
from opilio.learn.directories import RelevantDirectories
from opilio.model import Document, Fetch, Judgement, Lease, LeaseKind, Outcome, UrlState, Visit, url_key
from opilio.model.url import host_of, path_of, registered_domain
from opilio.model.visit import SUBRESOURCE_OID
from opilio.settings import Settings
from opilio.store import Batch

if TYPE_CHECKING:  # it takes a tenth of a second to import
    import numpy.typing as npt

    Terms: TypeAlias = npt.NDArray[np.uint32]

SITEMAP_OID = -(2**40)  # leases of sitemaps have oids below this: they are no URLs of the crawl
MAX_PENDING_SITEMAPS = 1000
"""Sitemaps of one origin that wait for their turn."""
RIGHTS_OID = -(2**45)  # those of files in which a site reserves rights
MAX_LOST = 10  # visits to one host, or to one sitemap, that were lost with their workers
LOST_APART = 16  # leases lost with their worker are tried again at this many different times
EVALUATED = "documents evaluated"
"""Counted when the crawl forgets visited pages after so many of them (`forgetting.py`)."""
VISIT_SPACING_S = 4e-6  # between visits that came together: so the database keeps the order in which they were absorbed


class Absorber:
    """Takes in visits."""

    def __init__(self, settings: Settings, frontier: Frontier, ledger: Ledger) -> None:
        """`ledger` is the listener of `frontier`."""
        self.settings = settings
        self.frontier = frontier
        self.ledger = ledger
        self.counters = ledger.counters
        self.notice = ledger.notice
        self._duplicates = ledger.duplicates
        self._discovery = Discovery(settings, frontier, ledger)
        self.offer = self._discovery.offer
        self.is_new = self._discovery.is_new
        self.pictures = Pictures(settings.fetch, frontier, ledger)
        self._soft_404s = Soft404s(settings, frontier, ledger)
        contact = FirstContact(settings, frontier, ledger, self._discovery)
        self.plan_rights = contact.plan_rights
        self._absorb: dict[LeaseKind, Callable[[Visit, float], None]] = {
            LeaseKind.PAGE: self._absorb_lease,
            LeaseKind.HOST: contact.absorb_host,
            LeaseKind.SITEMAP: contact.absorb_sitemap,
            LeaseKind.MISSING: self._soft_404s.absorb,
            LeaseKind.RIGHTS: contact.absorb_rights,
            LeaseKind.PICTURE: self.pictures.absorb,
            LeaseKind.ICON: self.pictures.absorb,
        }
        self.examples: dict[int, int] = {}
        """URLs of examples that the user gave, and the topic of each."""
        self.wanted: frozenset[int] = frozenset()
        """The wanted topics: an example of one is relevant, whatever a model says."""
        self.directories: RelevantDirectories | None = None
        """Where relevant pages were found; None unless the directory metric of `oasis` is in use."""
        self.shells: Counter[str] = Counter()
        """Pages that are empty without JavaScript, by host."""
        self.min_model_version = 0
        """Pages should be judged by this version of the model or a later one."""
        self.pages_of_older_models_seen = 0
        """How many pages came that an earlier version had judged: they were under way when the model was sent."""

    @property
    def back_links(self) -> BackLinks | None:
        """Known links from outside the crawl, if the settings name any."""
        return self._discovery.sources.back_links

    def load_back_links(self) -> None:
        """Read them before anything is fetched, so that what is wrong with them is known then."""
        _ = self.back_links

    def swap_batch(self) -> Batch:
        """The batch to be written now; a new one is open."""
        self._discovery.queue_pending()
        return self.ledger.swap_batch(self.frontier.hosts)

    def absorb(self, visit: Visit, now_s: float) -> None:
        """Take in a visit."""
        self.absorb_all([visit], now_s)

    def absorb_all(self, visits: Sequence[Visit], now_s: float) -> None:
        """Take in visits that came together. The links of their pages are weighed once, at the end."""
        self._count(visits)
        for place, visit in enumerate(visits):
            self.counters.request(visit.fetch.outcome)
            self._absorb[visit.lease.kind](visit, now_s + place * VISIT_SPACING_S)
        self._discovery.queue_pending()
        self.frontier.tiers.reprioritise()

    def absorb_probe(self, visit: Visit, now_s: float) -> None:
        """Take in a request that was made only to see whether a host answers."""
        self._count([visit])
        self.ledger.recorder.add_visit(self.ledger.batch, visit.lease, visit.fetch)
        self.frontier.put_back(visit.lease, now_s)

    def put_back(self, visits: Sequence[Visit], now_s: float) -> None:
        """Take in visits that failed because the network was down: no host is blamed, and no URL loses a try."""
        ledger = self.ledger
        self._count(visits)
        self.counters.add("requests made while no host answered", len(visits))
        for visit in visits:
            ledger.recorder.add_visit(ledger.batch, visit.lease, visit.fetch)
            url = self.frontier.put_back(visit.lease, now_s)
            if url is not None:
                ledger.put_back(url)
            self.pictures.put_back(visit.lease)
            ledger.changed_hosts.add(self.frontier.origin(visit.lease.url).host.sid)

    def _count(self, visits: Sequence[Visit]) -> None:
        self.counters.add("requests", len(visits))
        self.counters.add("bytes", sum([visit.fetch.received_bytes for visit in visits]))

    def _absorb_lease(self, visit: Visit, now_s: float) -> None:
        fetch = visit.fetch
        url = self.frontier.ended(visit.lease, fetch.outcome, now_s, fetch.retry_after_s)
        if url is not None:  # else the page was recovered from a WARC file meanwhile
            self._absorb_page(url, visit, now_s)

    def _absorb_page(self, url: QueuedUrl, visit: Visit, now_s: float) -> None:
        fetch, ledger = visit.fetch, self.ledger
        url.numtries += 1
        url.host.bytes += fetch.received_bytes
        ledger.changed_hosts.add(url.host.sid)
        ledger.recorder.add_visit(ledger.batch, visit.lease, fetch)
        if visit.rendered:
            self.counters.add("pages rendered")
        if visit.subrequests:
            self._absorb_subrequests(url, visit, now_s)
        if fetch.outcome is Outcome.OK and visit.document is not None:
            self._document(url, visit, visit.document, now_s)
        elif fetch.outcome is Outcome.REDIRECT:
            self._redirect(url, fetch, now_s)
        elif fetch.outcome.may_retry and self._retries(url, fetch, now_s):
            self.counters.add("retries")
        else:
            if fetch.outcome is Outcome.NOT_MODIFIED and url.oid in ledger.recrawls:
                self._count_revisit(url, fetch, None)
            self._settle(url, fetch.outcome, now_s)

    def _absorb_subrequests(self, url: QueuedUrl, visit: Visit, now_s: float) -> None:
        """Take in what rendering a page requested: each host rests as if the requests had been visits of their own."""
        requests: Counter[str] = Counter()
        for one in visit.subrequests:
            requests[host_of(one.url)] += 1
            self.counters.request(one.fetch.outcome)
            lease = Lease(SUBRESOURCE_OID - url.oid, one.url, LeaseKind.SUBRESOURCE)
            detail = f"{one.url} {one.fetch.detail}".strip()[:1000]
            fetch = msgspec.structs.replace(one.fetch, detail=detail)
            self.ledger.recorder.add_visit(self.ledger.batch, lease, fetch)
        self.counters.add("requests of rendered pages", len(visit.subrequests))
        self.counters.add("requests", len(visit.subrequests))
        self.counters.add("bytes", sum(one.fetch.received_bytes for one in visit.subrequests))
        for name, count in requests.items():
            fetches = [one.fetch for one in visit.subrequests if host_of(one.url) == name]
            host = self.frontier.charge(name, count, now_s, max(fetch.retry_after_s for fetch in fetches))
            host.bytes += sum(fetch.received_bytes for fetch in fetches)
            self.ledger.changed_hosts.add(host.sid)

    def _count_revisit(self, url: QueuedUrl, fetch: Fetch, content_hash: int | None) -> None:
        """Count a visit to a page that is stored; None: the server says that it has not changed."""
        self.ledger.recrawls.discard(url.oid)
        self.ledger.batch.revisits.add(url.oid, fetch.started_s, content_hash)
        self.counters.add("pages visited again")

    def _settle(self, url: QueuedUrl, outcome: Outcome, now_s: float, relevance: float | None = None) -> None:
        """Give a URL its final state. `relevance` is that of its page, when that is known."""
        self.frontier.tiers.settle(url.oid, outcome, relevance)
        self.ledger.settle(url, outcome, now_s, relevance)

    def _retries(self, url: QueuedUrl, fetch: Fetch, now_s: float) -> bool:
        """Queue a URL for another try, if it may have one."""
        fetching = self.settings.fetch
        if url.numtries >= fetching.max_tries or url.origin.state is HostState.BAD:
            return False
        if fetch.retry_after_s > fetching.max_backoff_s:
            return False
        wait_s = max(fetch.retry_after_s, min(fetching.backoff_s * 2 ** (url.numtries - 1), fetching.max_backoff_s))
        if fetch.outcome.is_lost:  # one of many lost together may be the cause: try them apart
            wait_s *= 1 + url.oid % LOST_APART
        self.frontier.retry(url, now_s + wait_s)
        self.ledger.change(url, UrlState.WAITING, fetch.outcome, now_s, now_s + wait_s)
        return True

    def _redirect(self, url: QueuedUrl, fetch: Fetch, now_s: float) -> None:
        if url.hops >= self.settings.fetch.max_redirects:
            self._settle(url, Outcome.TOO_MANY_REDIRECTS, now_s)
            return
        oid = self._discovery.offer_target(url, fetch.redirect_url, now_s)
        if oid != ABSENT:
            self.ledger.batch.redirects.add(url.oid, oid, fetch.status)
            self.ledger.aliases.add(url.oid, oid)
            if url.oid in self.examples:
                self.examples[oid] = self.examples[url.oid]
        self._settle(url, Outcome.REDIRECT, now_s)

    def _document(self, url: QueuedUrl, visit: Visit, document: Document, now_s: float) -> None:
        fetch, ledger = visit.fetch, self.ledger
        said = visit.judgement
        if said is not None and self.directories is not None:
            said = self.directories.judge(url.url, said)
        judgement = self.judgement_of(url, said)
        if self.settings.frontier.forget_after:
            self.counters.add(EVALUATED)
        ledger.recorder.add_words(ledger.batch, document)
        if document.noindex and self.settings.robots.obey_meta:
            self._settle(url, Outcome.NOINDEX, now_s)
            self._discovery.offer_links(url, judgement, document, now_s)
            return
        if document.needs_javascript:
            self.shells[url.host.name] += 1
            self._settle(url, Outcome.NEEDS_JAVASCRIPT, now_s)
            self._discovery.offer_links(url, judgement, document, now_s)
            return
        if self._soft_404s.matches(url, document):
            self.frontier.repeats.note(url.url, url.host.sid, is_new=False)
            self._settle(url, Outcome.SOFT_404, now_s)
            return
        repeated = self._canonical_twin(url, document) or self._duplicates.repeats(
            document, url.host.sid, url.url, fetch.ip, fetch.full_bytes
        )
        if url.oid in ledger.recrawls:
            self._refreshed(url, visit, document, judgement, repeated, now_s)
            return
        self.frontier.repeats.note(url.url, url.host.sid, is_new=repeated is None)
        self._soft_404s.note(url, document, None if repeated is None else repeated[1])
        if repeated is not None:
            outcome, twin = repeated
            ledger.batch.duplicates.add(url.oid, twin, outcome)
            ledger.aliases.add(url.oid, twin)
            self._settle(url, outcome, now_s, judgement.relevance if judgement else None)
            if outcome is Outcome.DUP_NEAR:  # nearly the same words, perhaps other links
                self._discovery.offer_links(url, judgement, document, now_s)
            return
        self._duplicates.remember(url.oid, document, url.host.sid, url.url, fetch.ip, fetch.full_bytes)
        url.host.add_pages(1, judgement is not None and judgement.is_relevant)
        self.counters.page(judgement.relevance if judgement else None)
        self._store(url, visit, document, judgement, now_s)

    def _store(
        self, url: QueuedUrl, visit: Visit, document: Document, judgement: Judgement | None, now_s: float
    ) -> None:
        ledger = self.ledger
        if url.origin.rights is not None and (more := url.origin.rights.rights(url.url)):
            document = msgspec.structs.replace(document, rights=[*document.rights, *more])
        ledger.aliases.remove(url.oid)  # a redirect of earlier may have been taken back
        ledger.recorder.add_page(ledger.batch, visit, document, judgement, self.settings.store)
        self.pictures.note(url.oid, url.host.sid, document.picture, document.icon)
        if judgement is not None:
            ledger.batch.judgements.put(url.oid, judgement)
            self.pages_of_older_models_seen += judgement.model_version < self.min_model_version
            if judgement.accepted:  # a page that no topic accepts stays with the topic that led to it
                url.topic = judgement.topic
        self._settle(url, Outcome.OK, now_s, judgement.relevance if judgement else None)
        self._discovery.offer_links(url, judgement, document, now_s)
        if judgement is not None and judgement.is_relevant:
            self._discovery.offer_nearby(url, judgement, now_s)

    def judgement_of(self, url: QueuedUrl, said: Judgement | None) -> Judgement | None:
        """The judgement of a page: the user's for an example of a wanted topic, else what the model `said`."""
        kcid = self.examples.get(url.oid)
        if said is None or kcid not in self.wanted:
            return said
        return msgspec.structs.replace(said, topic=kcid, accepted=True, relevance=1.0)

    def _refreshed(
        self,
        url: QueuedUrl,
        visit: Visit,
        document: Document,
        judgement: Judgement | None,
        repeated: tuple[Outcome, int] | None,
        now_s: float,
    ) -> None:
        """A stored page was fetched again: it is unchanged, or its new form replaces the old."""
        ledger = self.ledger
        is_same = repeated is not None and repeated[1] == url.oid and repeated[0] is not Outcome.DUP_NEAR
        self._count_revisit(url, visit.fetch, document.content_hash)
        if is_same:
            self._settle(url, Outcome.NOT_MODIFIED, now_s)
            return
        self.counters.add("pages refreshed")
        self._duplicates.remember(url.oid, document, url.host.sid, url.url, visit.fetch.ip, visit.fetch.full_bytes)
        ledger.batch.replaced.append(url.oid)
        self._store(url, visit, document, judgement, now_s)

    def _canonical_twin(self, url: QueuedUrl, document: Document) -> tuple[Outcome, int] | None:
        canonical = document.canonical
        if not self.settings.duplicates.canonical or not canonical or canonical == url.url:
            return None
        if path_of(canonical) == "/":  # a home page that is declared canonical for all pages is a common mistake
            return None
        twin = self.frontier.known.get(url_key(canonical))
        if twin not in (ABSENT, url.oid) and self.ledger.is_stored(twin):
            return Outcome.DUP_CANONICAL, twin
        return None


class FirstContact:
    """Takes in visits that bring no page: to robots.txt files, sitemaps, and files in which sites reserve rights."""

    def __init__(self, settings: Settings, frontier: Frontier, ledger: Ledger, discovery: Discovery) -> None:
        self._settings = settings
        self._frontier = frontier
        self._ledger = ledger
        self._discovery = discovery
        self._sitemaps: dict[str, int] = {}
        """Sitemaps that were planned so far, and the oid of each lease."""
        self._from_index: set[int] = set()
        """The oids of those that an index of sitemaps names. An index must not name another one (sitemaps.org)."""
        self._rights_files = 0
        """Files of rights that were planned so far."""
        self._tries: Counter[str] = Counter()
        """Visits to robots.txt that were lost, and to other such files that failed, by URL."""

    def absorb_host(self, visit: Visit, now_s: float) -> None:
        """Take in what an origin says about itself. Unless it says something, it is contacted again until it is bad."""
        origin = self._frontier.origin(visit.lease.url)
        host, report, fetch = origin.host, visit.host, visit.fetch
        ledger = self._ledger
        ledger.changed_hosts.add(host.sid)
        ledger.recorder.add_visit(ledger.batch, visit.lease, fetch)
        if self._was_lost(visit):  # which says nothing about the origin: it is contacted again
            self._frontier.ended(visit.lease, fetch.outcome, now_s, self._settings.fetch.backoff_s)
            return
        if report is not None and fetch.outcome.tells_rules:
            host.ip = fetch.ip
            origin.robots_status = report.robots_status
            origin.crawl_delay_s = report.crawl_delay_s
            origin.contacted_s = now_s
            origin.rules = RobotsRules(report, self._settings.user_agent)
            ledger.batch.robots.add(host.sid, origin.scheme, now_s, report.robots)
            self._plan_sitemaps(host.domain_name, report.sitemaps)
            self.plan_rights(origin)
        elif fetch.outcome is Outcome.WORKER_LOST:  # too often: it may be the cause
            origin.give_up(fetch.outcome)
        self._frontier.ended(visit.lease, fetch.outcome, now_s, fetch.retry_after_s)

    def absorb_sitemap(self, visit: Visit, now_s: float) -> None:
        """Offer the URLs of a sitemap, or request the sitemaps that it names."""
        if self._retries_file(visit, now_s):
            self._frontier.origin(visit.lease.url).pending_files.append(visit.lease)
            return
        counters = self._ledger.counters
        counters.add("sitemaps read")
        if visit.sitemap_is_index:
            if visit.lease.oid in self._from_index:
                counters.add("sitemap indexes named by an index, not followed")
            else:
                host = self._frontier.origin(visit.lease.url).host
                self._plan_sitemaps(host.domain_name, visit.sitemap_urls, from_index=True)
            return
        for url in visit.sitemap_urls:
            counters.add("sitemap urls")
            self._discovery.offer(url, parent=-1, depth=1, relevance=0.0, topic=0, now_s=now_s)

    def plan_rights(self, origin: Origin) -> None:
        """Request the files in which an origin may reserve rights, if they are wanted, before anything else of it."""
        robots = self._settings.robots
        if not robots.reads_rights_files:
            return
        origin.rights = SiteRights(self._settings.user_agent, robots.obey_rights)
        for path in PATHS:
            url = f"{origin}{path}"
            if origin.rules is None or origin.rules.allows(url):
                self._rights_files += 1
                origin.pending_files.appendleft(Lease(RIGHTS_OID - self._rights_files, url, LeaseKind.RIGHTS))

    def absorb_rights(self, visit: Visit, now_s: float) -> None:
        """Take in a file in which an origin reserves rights."""
        origin = self._frontier.origin(visit.lease.url)
        if self._retries_file(visit, now_s):
            origin.pending_files.appendleft(visit.lease)
        elif visit.fetch.outcome is Outcome.OK and isinstance(origin.rights, SiteRights):
            origin.rights.read(path_of(visit.lease.url), visit.rights_file)

    def _was_lost(self, visit: Visit) -> bool:
        """Whether a visit was lost with its worker and is made again: not for ever, for it may have been the cause."""
        if visit.fetch.outcome is not Outcome.WORKER_LOST:
            return False
        self._tries[visit.lease.url] += 1
        return self._tries[visit.lease.url] <= MAX_LOST

    def _retries_file(self, visit: Visit, now_s: float) -> bool:
        """End the lease of a file that is not robots.txt; whether it failed in a way that may pass, and is retried."""
        fetch, fetching = visit.fetch, self._settings.fetch
        self._ledger.recorder.add_visit(self._ledger.batch, visit.lease, fetch)
        is_retried = self._was_lost(visit)
        if fetch.outcome.may_retry and not fetch.outcome.is_lost:
            self._tries[visit.lease.url] += 1
            is_retried = self._tries[visit.lease.url] < fetching.max_tries
        wait_s = max(fetch.retry_after_s, fetching.backoff_s) if is_retried else fetch.retry_after_s
        self._frontier.ended(visit.lease, fetch.outcome, now_s, wait_s)
        return is_retried

    def _plan_sitemaps(self, domain_name: str, urls: list[str], *, from_index: bool = False) -> None:
        if not self._settings.robots.sitemaps:
            return
        for url in urls:
            if registered_domain(host_of(url)) != domain_name or url in self._sitemaps:
                continue
            self._ledger.counters.add("sitemaps found")
            pending = self._frontier.origin(url).pending_files
            if len(pending) < MAX_PENDING_SITEMAPS:
                oid = self._sitemaps[url] = SITEMAP_OID - 1 - len(self._sitemaps)
                if from_index:
                    self._from_index.add(oid)
                pending.append(Lease(oid, url, LeaseKind.SITEMAP))


class Soft404s:
    """Recognises pages that only say that there is no such page, though their status is 200.

    When two pages of a host look alike, since they have the same title or one repeats the other, a URL that should not
    exist is requested from the host, in the folder of the second, once in a run. It is a request like all others: it
    obeys robots.txt and delays. If it is answered like a page, a page of the host is a soft 404 that has next to
    nothing of its own: no more than `OWN_TERMS` terms that the answer has not, and that are not in its URL, which such
    pages like to repeat. Seeds and home pages are always taken for pages.
    """

    OWN_TERMS = 2
    MISSING_SHARE = 0.1

    def __init__(self, settings: Settings, frontier: Frontier, ledger: Ledger) -> None:
        self._is_on = settings.traps.soft_404
        self._frontier = frontier
        self._ledger = ledger
        self._titles = KeyMap()
        """By host and title: a page."""
        self._requested: set[int] = set()
        """The hosts for which a URL that should not exist was chosen."""
        self._answers: dict[int, Terms] = {}
        """By host: the terms of what it answers where there is no page, without those of the URL."""

    def note(self, url: QueuedUrl, document: Document, twin: int | None) -> None:
        """A page was fetched; `twin` is the page that it repeats. If the host has one like it, look into it."""
        sid = url.host.sid
        if not self._is_on or sid in self._requested:
            return
        key = xxhash.xxh3_64_intdigest(f"{sid} {document.title}".encode())
        is_alike = twin is not None and self._ledger.sids[twin] == sid
        if document.title:
            is_alike |= self._titles.get(key) != ABSENT
            self._titles.add(key, url.oid)
        if not is_alike:
            return
        self._requested.add(sid)
        folder, _, name = url.url.partition("?")[0].rpartition("/")
        missing = f"{folder}/{xxhash.xxh3_64_hexdigest(url.url.encode())}{PurePosixPath(name).suffix}"
        rules = url.origin.rules
        if rules is None or rules.allows(missing):
            url.host.missing = missing

    def absorb(self, visit: Visit, now_s: float) -> None:
        """Take in what a host answers where there is no page."""
        fetch, origin = visit.fetch, self._frontier.origin(visit.lease.url)
        self._frontier.ended(visit.lease, fetch.outcome, now_s, fetch.retry_after_s)
        self._ledger.changed_hosts.add(origin.host.sid)
        self._ledger.recorder.add_visit(self._ledger.batch, visit.lease, fetch)
        if fetch.outcome is Outcome.OK and visit.document is not None and visit.document.term_ids:
            self._answers[origin.host.sid] = _own_terms(visit.lease.url, visit.document)
            self._ledger.counters.add("hosts with soft 404s")

    def matches(self, url: QueuedUrl, document: Document) -> bool:
        """Whether a page is what its host answers where there is no page."""
        answer = self._answers.get(url.host.sid)
        if answer is None or not url.depth or path_of(url.url) == "/":
            return False
        own = _own_terms(url.url, document)
        shared = int(np.count_nonzero(np.isin(own, answer, assume_unique=True)))
        missing = len(answer) - shared
        return len(own) - shared <= self.OWN_TERMS and missing <= max(self.OWN_TERMS, self.MISSING_SHARE * len(answer))


def _own_terms(url: str, document: Document) -> Terms:
    """The terms of a page that are not in its URL."""
    found = np.frombuffer(document.term_ids, "<u4")
    return found[~np.isin(found, np.array(term_ids(url, document.language), np.uint32))]
