"""The states of a URL and of a crawl, and the one table of the changes that a URL's state may make.

Every change of `crawl.state` follows `TRANSITIONS`. Memory changes a state by `UrlState.to`; SQL that changes states is
built from `sources_of` (`opilio.store.states`), so that a statement can only touch rows whose state may change.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class IllegalTransition(ValueError):
    """A URL was about to change to a state that it may not have next: an error in our code, never the web's."""


class UrlState(StrEnum):
    """Where a known URL stands. The database column `crawl.state` holds these words."""

    WAITING = "waiting"
    """Known and not fetched. The waiting URLs are the frontier."""
    LEASED = "leased"
    """A worker has it. Lives in memory only: after a crash a leased URL is waiting again."""
    FETCHED = "fetched"
    """Its page is stored, or it was redirected, or its page has not changed."""
    FAILED = "failed"
    """The web did not give it to us, and no further try is allowed."""
    DROPPED = "dropped"
    """We chose not to fetch or not to keep it: robots.txt, limits, duplicates, traps, eviction."""

    def to(self, new: UrlState) -> UrlState:
        """The state `new`, if a URL in this state may change to it; else IllegalTransition."""
        if new not in TRANSITIONS[self]:
            raise IllegalTransition(f"a URL that is {self.value} cannot become {new.value}")
        return new


TRANSITIONS: dict[UrlState, frozenset[UrlState]] = {
    UrlState.WAITING: frozenset({UrlState.LEASED, UrlState.DROPPED, UrlState.FAILED}),
    UrlState.LEASED: frozenset({UrlState.WAITING, UrlState.FETCHED, UrlState.FAILED, UrlState.DROPPED}),
    UrlState.FETCHED: frozenset({UrlState.WAITING}),  # a recrawl fetches it again
    UrlState.FAILED: frozenset({UrlState.WAITING}),  # so does `opilio crawl --retry-failed`
    UrlState.DROPPED: frozenset({UrlState.WAITING}),  # a limit was raised, or a lock taken back
}


def may_become(old: UrlState, new: UrlState) -> bool:
    """Whether a URL may change from `old` to `new`."""
    return new in TRANSITIONS[old]


def sources_of(new: UrlState) -> tuple[UrlState, ...]:
    """The states from which a URL may change to `new`."""
    return tuple(old for old in UrlState if new in TRANSITIONS[old])


class Phase(StrEnum):
    """Where a crawl that learns first (`learn.phases`) stands, in the order in which it gets there."""

    NONE = "none"
    """The crawl has no phases."""
    LEARNING = "learning"
    PAUSED = "paused"
    """Between the two, for the user to look at the archetypes."""
    HARVESTING = "harvesting"


@dataclass(frozen=True)
class CrawlProgress:
    """How far a crawl has come by its own plan. The table `progress` holds it."""

    phase: Phase = Phase.NONE
    archetype_rounds: int = 0
    """Searches for archetypes so far."""
    relevant_at_round: int = 0
    """Pages that had been judged relevant when the latest of these searches began."""
    negative_rounds: int = 0
    """Searches for mined negatives so far."""
    pages_at_analysis: int = 0
    """Pages that were stored when the latest link analysis began."""
