"""First contact with a host: what its robots.txt says, and the sitemaps that it names.

A host is contacted before its first page is fetched, and again when its robots.txt is out of date. Sitemaps are
requested after that, one at a time, in the turns of the host's URLs.
"""

from __future__ import annotations

from collections import Counter

from opilio.crawl.discovery import Discovery
from opilio.crawl.ledger import Ledger
from opilio.fetch.robots import RobotsRules
from opilio.frontier import Frontier
from opilio.model import Lease, LeaseKind, Outcome, Visit
from opilio.model.url import host_of, registered_domain
from opilio.settings import Settings

SITEMAP_OID = -(2**40)  # leases of sitemaps have oids below this: they are no URLs of the crawl
MAX_SITEMAPS_PER_HOST = 20
MAX_LOST = 10  # visits to one host, or to one sitemap, that were lost with their workers


class FirstContact:
    """Takes in visits that bring no page: to robots.txt files and to sitemaps."""

    def __init__(self, settings: Settings, frontier: Frontier, ledger: Ledger, discovery: Discovery) -> None:
        self._settings = settings
        self._frontier = frontier
        self._ledger = ledger
        self._discovery = discovery
        self._sitemaps = 0
        """Sitemaps that were planned so far."""
        self._lost: Counter[str] = Counter()
        """How often a visit to robots.txt or a sitemap was lost, by its URL."""

    def absorb_host(self, visit: Visit, now_s: float) -> None:
        """Take in what a host says about itself."""
        host = self._frontier.hosts[-1 - visit.lease.oid]
        report, fetch = visit.host, visit.fetch
        ledger = self._ledger
        ledger.changed_hosts.add(host.sid)
        ledger.recorder.add_visit(ledger.batch, visit.lease, fetch)
        if self._was_lost(visit):  # which says nothing about the host: it is contacted again
            self._frontier.ended(visit.lease, fetch.outcome, now_s, self._settings.fetch.backoff_s)
            return
        if fetch.outcome is Outcome.PRIVATE_ADDRESS:
            host.rejection = fetch.outcome
            host.contacted_s = now_s
        elif report is not None and not fetch.outcome.blames_host:  # else it is contacted again, until it is `bad`
            host.ip = fetch.ip
            host.robots_status = report.robots_status
            host.crawl_delay_s = report.crawl_delay_s
            host.contacted_s = now_s
            host.rules = RobotsRules(report, self._settings.user_agent)
            ledger.batch.robots.add(host.sid, now_s, report.robots)
            self._plan_sitemaps(host.sid, report.sitemaps)
        outcome = fetch.outcome if fetch.outcome.blames_host else Outcome.OK
        if report is None and outcome is Outcome.OK and host.rejection is None:
            outcome = Outcome.CONNECT_FAILED  # the worker could not even try: counted, so that it is not tried for ever
        self._frontier.ended(visit.lease, outcome, now_s)

    def absorb_sitemap(self, visit: Visit, now_s: float) -> None:
        """Offer the URLs of a sitemap, or request the sitemaps that it names."""
        self._frontier.ended(visit.lease, visit.fetch.outcome, now_s, visit.fetch.retry_after_s)
        self._ledger.recorder.add_visit(self._ledger.batch, visit.lease, visit.fetch)
        if self._was_lost(visit):
            self._frontier.host(host_of(visit.lease.url)).pending_sitemaps.append(visit.lease)
            return
        if visit.sitemap_is_index:
            host = self._frontier.host(visit.lease.url.split("/")[2])
            if len(host.pending_sitemaps) < MAX_SITEMAPS_PER_HOST:
                self._plan_sitemaps(host.sid, visit.sitemap_urls)
            return
        for url in visit.sitemap_urls:
            self._ledger.counters.add("sitemap urls")
            self._discovery.offer(url, parent=-1, depth=1, relevance=0.0, topic=0, now_s=now_s)

    def _was_lost(self, visit: Visit) -> bool:
        """Whether a visit was lost with its worker and is made again: not for ever, for it may have been the cause."""
        if visit.fetch.outcome is not Outcome.WORKER_LOST:
            return False
        self._lost[visit.lease.url] += 1
        return self._lost[visit.lease.url] <= MAX_LOST

    def _plan_sitemaps(self, sid: int, urls: list[str]) -> None:
        if not self._settings.robots.sitemaps:
            return
        host = self._frontier.hosts[sid]
        for url in urls[:MAX_SITEMAPS_PER_HOST]:
            if registered_domain(url.split("/")[2]) == host.domain_name:
                self._sitemaps += 1
                self._frontier.host(host_of(url), url[: url.index(":")]).pending_sitemaps.append(
                    Lease(SITEMAP_OID - self._sitemaps, url, LeaseKind.SITEMAP)
                )
