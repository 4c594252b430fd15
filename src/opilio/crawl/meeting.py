"""Visits that bring no page: to hosts that are met, and to their sitemaps."""

from __future__ import annotations

from collections import Counter

from opilio.crawl.offering import Offering
from opilio.fetch.robots import RobotsRules
from opilio.model import Lease, LeaseKind, Outcome, Visit
from opilio.model.url import host_of, registered_domain

SITEMAP_OID = -(2**40)  # leases of sitemaps have oids below this: they are no URLs of the crawl
MAX_SITEMAPS_PER_HOST = 20
MAX_LOST = 10  # visits to one host, or to one sitemap, that were lost with their workers


class Meeting(Offering):
    """Takes in what hosts say about themselves."""

    _sitemaps = 0
    """Sitemaps that were planned."""
    _lost: Counter[str]
    """How often a visit to robots.txt or a sitemap was lost, by its URL."""

    def _host(self, visit: Visit, now_s: float) -> None:
        host = self.frontier.hosts[-1 - visit.lease.oid]
        report, fetch = visit.host, visit.fetch
        self.changed_hosts.add(host.sid)
        self.recorder.add_visit(self.batch, visit.lease, fetch)
        if self._was_lost(visit):  # that says nothing of the host: it is met again
            self.frontier.ended(visit.lease, fetch.outcome, now_s, self.settings.fetch.backoff_s)
            return
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

    def _was_lost(self, visit: Visit) -> bool:
        """Whether a visit was lost with its worker, and may be made again: not for ever, for it may be to blame."""
        if visit.fetch.outcome is not Outcome.WORKER_LOST:
            return False
        self._lost[visit.lease.url] += 1
        return self._lost[visit.lease.url] <= MAX_LOST

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
        if self._was_lost(visit):
            self.frontier.host(host_of(visit.lease.url)).errands.append(visit.lease)
            return
        if visit.sitemap_is_index:
            host = self.frontier.host(visit.lease.url.split("/")[2])
            if len(host.errands) < MAX_SITEMAPS_PER_HOST:
                self._plan_sitemaps(host.sid, visit.sitemap_urls)
            return
        for url in visit.sitemap_urls:
            self.counters.add("sitemap urls")
            self.offer(url, parent=-1, depth=1, relevance=0.0, topic=0, now_s=now_s)
