"""Frontiers without a crawl, and what they hand out."""

from __future__ import annotations

from opilio.frontier import Frontier, QueuedUrl, ScopeFilter, make_strategy
from opilio.model import LeaseKind, Outcome, host_of
from opilio.settings import Settings, override


def make_frontier(
    changes: dict[str, object], topics: list[int] | None = None
) -> tuple[Frontier, list[tuple[int, Outcome]]]:
    chosen = override(Settings(), {"frontier.strategy": "best-first"} | changes)
    dropped: list[tuple[int, Outcome]] = []
    frontier = Frontier(
        chosen,
        make_strategy(chosen.frontier),
        ScopeFilter(chosen.scope),
        lambda url, outcome: dropped.append((url.oid, outcome)),
        topics or [0],
    )
    return frontier, dropped


def add(frontier: Frontier, oid: int, url: str, relevance: float = 0.0, depth: int = 0, topic: int = 0) -> QueuedUrl:
    waiting = QueuedUrl(oid, url, frontier.host(host_of(url)), topic, depth, relevance)
    frontier.prioritise([waiting])
    frontier.add(waiting)
    return waiting


def meet(frontier: Frontier, now_s: float) -> None:
    """Let every host be met, so that the next leases are pages."""
    for lease in frontier.take(now_s, 1000):
        assert lease.kind is LeaseKind.HOST
        frontier.host(host_of(lease.url)).met_s = now_s
        frontier.ended(lease, Outcome.OK, now_s)


def pages_in_order(frontier: Frontier, now_s: float = 1.0) -> list[int]:
    """Take and finish one URL after the other."""
    order = []
    meet(frontier, now_s)
    while leases := frontier.take(now_s, 1):
        order.append(leases[0].oid)
        frontier.ended(leases[0], Outcome.OK, now_s)
    return order
