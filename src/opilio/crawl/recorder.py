"""What the absorber tells of each visit: the seam between a crawl's decisions and what is kept of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from opilio.frontier import Host, Waiting
from opilio.model import Document, Fetch, Judgement, Lease, Link, Outcome, UrlState, Visit
from opilio.settings import Storage
from opilio.store import Batch


class Recorder(Protocol):
    """Keeps what happened. The module `opilio.crawl.rows` is one, for the database; a simulation has its own."""

    def add_url(
        self, batch: Batch, url: Waiting, key: int, parent: int, found_s: float, refusal: Outcome | None
    ) -> None:
        """A URL was met for the first time, and waits unless it was refused."""
        ...  # pragma: no cover

    def change_url(
        self,
        batch: Batch,
        url: Waiting,
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
        self, batch: Batch, visit: Visit, document: Document, judgement: Judgement | None, storage: Storage
    ) -> None:
        """A page is to be stored."""
        ...  # pragma: no cover

    def add_words(self, batch: Batch, document: Document) -> None:
        """A worker met stems for the first time."""
        ...  # pragma: no cover

    def add_links(
        self, batch: Batch, source: Waiting, links: Sequence[Link], oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        """A page has links."""
        ...  # pragma: no cover

    def add_host(self, batch: Batch, host: Host) -> None:
        """A host is new or has changed."""
        ...  # pragma: no cover
