"""Frontiers without a crawl, and what they hand out."""

from __future__ import annotations

from collections.abc import Container

from opilio.frontier import Frontier, NoListener, QueuedUrl, ScopeFilter, make_strategy
from opilio.model import LeaseKind, Outcome, host_of
from opilio.settings import Settings, override


class Noting(NoListener):
    """Notes which URLs a frontier drops, and why; can call some duplicates of the URL 0."""

    def __init__(self, rejected: Container[int] = ()) -> None:
        self.drops: list[tuple[int, Outcome]] = []
        self._rejected = rejected

    def dropped(self, url: QueuedUrl, outcome: Outcome) -> None:
        self.drops.append((url.oid, outcome))

    def duplicate(self, url: QueuedUrl) -> tuple[Outcome, int] | None:
        return (Outcome.DUP_SUFFIX, 0) if url.oid in self._rejected else None


def make_frontier(
    changes: dict[str, object], topics: list[int] | None = None
) -> tuple[Frontier, list[tuple[int, Outcome]]]:
    chosen = override(Settings(), {"frontier.strategy": "best-first"} | changes)
    listener = Noting()
    scope = ScopeFilter(chosen.scope)
    return Frontier(chosen, make_strategy(chosen.frontier), scope, listener, topics or [0]), listener.drops


def add(frontier: Frontier, oid: int, url: str, relevance: float = 0.0, depth: int = 0, topic: int = 0) -> QueuedUrl:
    waiting = QueuedUrl(oid, url, frontier.host(host_of(url)), topic, depth, relevance)
    frontier.tiers.prioritise([waiting])
    frontier.tiers.add(waiting)
    return waiting


def contact_hosts(frontier: Frontier, now_s: float) -> None:
    """Let every host be contacted, so that the next leases are pages."""
    for lease in frontier.take(now_s, 1000):
        assert lease.kind is LeaseKind.HOST
        frontier.origin(lease.url).contacted_s = now_s
        frontier.ended(lease, Outcome.OK, now_s)


def pages_in_order(frontier: Frontier, now_s: float = 1.0) -> list[int]:
    """Take and finish one URL after the other."""
    order = []
    contact_hosts(frontier, now_s)
    while leases := frontier.take(now_s, 1):
        order.append(leases[0].oid)
        frontier.ended(leases[0], Outcome.OK, now_s)
    return order
