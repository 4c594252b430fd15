"""The states of a URL, and the one table of allowed changes between them."""

from __future__ import annotations

from enum import StrEnum


class UrlState(StrEnum):
    """Where a known URL stands. The database column `crawl.state` holds these words."""

    WAITING = "waiting"
    """Known, not yet asked for. Waiting URLs are the frontier."""
    LEASED = "leased"
    """A worker has it. Lives in memory only: after a crash a leased URL is waiting again."""
    FETCHED = "fetched"
    """Its page is stored (or it was answered by a redirect, or was unchanged)."""
    FAILED = "failed"
    """The web did not give it to us, and no further try is allowed."""
    DROPPED = "dropped"
    """We chose not to keep or not to ask: robots, limits, duplicates, traps, eviction."""


TRANSITIONS: dict[UrlState, frozenset[UrlState]] = {
    UrlState.WAITING: frozenset({UrlState.LEASED, UrlState.DROPPED, UrlState.FAILED}),
    UrlState.LEASED: frozenset({UrlState.WAITING, UrlState.FETCHED, UrlState.FAILED, UrlState.DROPPED}),
    UrlState.FETCHED: frozenset({UrlState.WAITING}),  # a recrawl asks again
    UrlState.FAILED: frozenset({UrlState.WAITING}),  # so does `opilio crawl --retry-failed`
    UrlState.DROPPED: frozenset({UrlState.WAITING}),  # a limit was raised
}


def may_become(old: UrlState, new: UrlState) -> bool:
    """Whether a URL may go from `old` to `new`."""
    return new in TRANSITIONS[old]
