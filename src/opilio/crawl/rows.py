"""Which rows of the database a visit becomes.

`VisitRecorder` is the seam between a crawl's decisions and what is kept of them. This module implements it for the
database; a simulation has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from opilio.frontier import Host, QueuedUrl
from opilio.model import Document, Fetch, Judgement, Lease, Links, Outcome, UrlState, Visit
from opilio.settings import StoreSettings
from opilio.store import Batch

NEVER_S = 0.0
MAX_DEPTH = 32_767


def add_url(batch: Batch, url: QueuedUrl, key: int, parent: int, found_s: float, rejection: Outcome | None) -> None:
    """A new URL, which is queued or rejected at once."""
    rows = batch.urls
    rows.oid.append(url.oid)
    rows.url.append(url.url)
    rows.key.append(key)
    rows.sid.append(url.host.sid)
    rows.topic.append(url.topic)
    rows.depth.append(min(url.depth, MAX_DEPTH))
    rows.parent.append(parent if parent >= 0 else None)
    rows.hops.append(url.hops)
    rows.state.append(UrlState.WAITING if rejection is None else rejection.final_state)
    rows.outcome.append(rejection)
    rows.numtries.append(0)
    rows.relevance.append(url.relevance)
    rows.priority.append(url.priority)
    rows.not_before.append(NEVER_S)
    rows.found.append(found_s)
    rows.lastvisited.append(NEVER_S)


def change_url(
    batch: Batch, url: QueuedUrl, state: UrlState, outcome: Outcome | None, visited_s: float, not_before_s: float
) -> None:
    """A URL's new state."""
    rows = batch.changes
    rows.oid.append(url.oid)
    rows.topic.append(url.topic)
    rows.state.append(state)
    rows.outcome.append(outcome)
    rows.numtries.append(min(url.numtries, 255))
    rows.relevance.append(url.relevance)
    rows.priority.append(url.priority)
    rows.not_before.append(not_before_s)
    rows.lastvisited.append(visited_s)


def add_visit(batch: Batch, lease: Lease, fetch: Fetch) -> None:
    """A request and its outcome."""
    batch.visits.add(
        lease.oid, fetch.started_s, lease.kind, fetch.outcome, fetch.status, fetch.detail, fetch.took_ms,
        fetch.received_bytes, fetch.warc_file, fetch.warc_offset, fetch.warc_bytes,
    )  # fmt: skip


def add_page(
    batch: Batch, visit: Visit, document: Document, judgement: Judgement | None, storage: StoreSettings
) -> None:
    """A page and its terms."""
    oid, fetch = visit.lease.oid, visit.fetch
    batch.pages.add(
        oid, fetch.started_s, fetch.status, fetch.content_type, document.charset, document.language, document.title,
        document.description, document.text if storage.text else None, document.main_text if storage.text else None,
        document.content_hash, document.canonical, document.noindex, fetch.received_bytes, fetch.body_bytes,
        fetch.took_ms, fetch.ip, fetch.etag, fetch.last_modified, judgement.relevance if judgement else None,
        judgement.topic if judgement else None, judgement.model_version if judgement else None, fetch.warc_file,
        fetch.warc_offset, fetch.warc_bytes, document.shingles, judgement.undoubted if judgement else None, fetch.cut,
        _rights_json(document),
    )  # fmt: skip
    if document.term_ids:
        batch.terms.oid.append(oid)
        batch.terms.term_ids.append(document.term_ids)
        batch.terms.term_counts.append(document.term_counts)


def _rights_json(document: Document) -> str | None:
    """The rights of a page as they are stored."""
    if not document.rights:
        return None
    return msgspec.json.encode(
        [{"signal": one.signal, "value": one.value, "source": one.source} for one in document.rights]
    ).decode()


def add_words(batch: Batch, document: Document) -> None:
    """The stems that a worker reports, each once: also those of a page that is not stored."""
    for tid, term in document.new_terms:
        batch.lexicon.tid.append(tid)
        batch.lexicon.term.append(term)


def add_links(batch: Batch, source: QueuedUrl, links: Links, oids: Sequence[int], sids: Sequence[int]) -> None:
    """The links of a page; `oids` and `sids` of their targets are parallel to them."""
    batch.links.put(source.oid, source.host.sid, oids, sids, links)


def add_host(batch: Batch, host: Host) -> None:
    """A host with its origins as they are now."""
    batch.hosts.add(
        host.sid, host.name, host.domain_name, host.ip or None, host.pages, host.bytes, host.requests, host.next_s
    )
    for origin in host.origins.values():
        batch.origins.add(
            host.sid, origin.scheme, origin.state, origin.failures, origin.problem,
            origin.robots_status if origin.contacted_s else None, origin.crawl_delay_s, origin.contacted_s,
        )  # fmt: skip


class VisitRecorder(Protocol):
    """Records what happened."""

    def add_url(
        self, batch: Batch, url: QueuedUrl, key: int, parent: int, found_s: float, rejection: Outcome | None
    ) -> None:
        """A URL is new; it is queued unless it is rejected."""
        ...  # pragma: no cover

    def change_url(
        self,
        batch: Batch,
        url: QueuedUrl,
        state: UrlState,
        outcome: Outcome | None,
        visited_s: float,
        not_before_s: float,
    ) -> None:
        """A URL has another state."""
        ...  # pragma: no cover

    def add_visit(self, batch: Batch, lease: Lease, fetch: Fetch) -> None:
        """A request was made."""
        ...  # pragma: no cover

    def add_page(
        self, batch: Batch, visit: Visit, document: Document, judgement: Judgement | None, storage: StoreSettings
    ) -> None:
        """A page is stored."""
        ...  # pragma: no cover

    def add_words(self, batch: Batch, document: Document) -> None:
        """A worker reports stems for the first time."""
        ...  # pragma: no cover

    def add_links(
        self, batch: Batch, source: QueuedUrl, links: Links, oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        """A page has links."""
        ...  # pragma: no cover

    def add_host(self, batch: Batch, host: Host) -> None:
        """A host is new or has changed, or one of its origins has."""
        ...  # pragma: no cover
