"""The states of a URL and of a crawl, and the one table of the changes that a URL's state may make.

Every change of `crawl.state` follows `TRANSITIONS`. A crawl changes states in memory (`UrlStates`) and writes them with
its batches. SQL that changes many at once is built by `opilio.store.urls`. Both use `UrlState.to`, which raises when
the table does not have the change.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class IllegalTransition(ValueError):
    """A URL was about to change to a state that it may not have next: an error in our code, never the web's."""


class UrlState(StrEnum):
    """Where a known URL stands. The database column `crawl.state` has these words."""

    WAITING = "waiting"
    """Known and not fetched. The waiting URLs are the frontier."""
    LEASED = "leased"
    """A worker has it. Lives in memory only: after a crash a leased URL is waiting again."""
    FETCHED = "fetched"
    """Its page is stored, or it was redirected, or its page has not changed."""
    FAILED = "failed"
    """The web did not give it to us, and no further try is allowed; or its host was given up before a try."""
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
    UrlState.FETCHED: frozenset({UrlState.WAITING}),  # a recrawl fetches it again, or its page is due
    UrlState.FAILED: frozenset({UrlState.WAITING}),  # so does `opilio crawl --retry-failed`
    UrlState.DROPPED: frozenset({UrlState.WAITING}),  # a limit was raised, a lock taken back, or a link followed
}


def may_become(old: UrlState, new: UrlState) -> bool:
    """Whether a URL may change from `old` to `new`."""
    return new in TRANSITIONS[old]


_WITH_PAGE = len(UrlState)  # the code of a URL that is fetched and whose page is stored
_NOT_FOLLOWED = _WITH_PAGE + 1  # of one that is dropped because only pages link to it whose links are not followed
_STATES: tuple[UrlState, ...] = (*UrlState, UrlState.FETCHED, UrlState.DROPPED)
_CODES = {state: code for code, state in enumerate(UrlState)}
_LAST_OPEN = _CODES[UrlState.LEASED]  # waiting comes before it, and all other states after it


class UrlStates:
    """The states of all URLs of a crawl in memory, by oid, one byte each. Every change is checked against the table."""

    def __init__(self) -> None:
        self._codes = bytearray()
        self.not_followed = 0
        """How many URLs are dropped only because no link to them is followed."""

    def __len__(self) -> int:
        return len(self._codes)

    def __getitem__(self, oid: int) -> UrlState:
        return _STATES[self._codes[oid]]

    def is_open(self, oid: int) -> bool:
        """Whether a URL is waiting or leased."""
        return self._codes[oid] <= _LAST_OPEN

    def has_page(self, oid: int) -> bool:
        """Whether a URL is fetched, and its page is stored."""
        return self._codes[oid] == _WITH_PAGE

    def is_not_followed(self, oid: int) -> bool:
        """Whether a URL is dropped only because no page whose links are followed has linked to it."""
        return self._codes[oid] == _NOT_FOLLOWED

    def append(self, state: UrlState) -> None:
        """Add the URL with the next oid, which is new: waiting, or settled at once."""
        self._codes.append(_CODES[state])

    def note_not_followed(self, oid: int) -> None:
        """A URL was dropped because the links to it are not followed."""
        if self[oid] is UrlState.DROPPED and not self.is_not_followed(oid):
            self._codes[oid] = _NOT_FOLLOWED
            self.not_followed += 1

    def extend(self, codes: bytes) -> None:
        """Add the URLs with the next oids, by their `stored_code`: when a crawl resumes."""
        self._codes += codes

    def note_page(self, oid: int) -> None:
        """The page of a URL is stored: when a crawl resumes. One that was redirected is fetched too, and has none."""
        if self[oid] is UrlState.FETCHED:
            self._codes[oid] = _WITH_PAGE

    def change(self, oid: int, new: UrlState, *, has_page: bool = False) -> None:
        """Change the state of a URL; IllegalTransition when it may not have that state next."""
        _STATES[self._codes[oid]].to(new)
        self.not_followed -= self._codes[oid] == _NOT_FOLLOWED
        self._codes[oid] = _WITH_PAGE if has_page else _CODES[new]


def stored_code(state: UrlState) -> int:
    """The byte that stands for a state that was read from the database; `UrlStates.note_page` follows for pages."""
    return _CODES[state]


class Phase(StrEnum):
    """Where a crawl that learns first (`learn.phases`) stands, in the order in which it gets there."""

    NONE = "none"
    """The crawl has no phases."""
    LEARNING = "learning"
    PAUSED = "paused"
    """Between the two, for the user to look at the archetypes."""
    HARVESTING = "harvesting"


@dataclass(frozen=True)
class Figures:
    """What a crawl has fetched and found, as its pages are judged now: the view `figures` of the database."""

    pages: int = 0
    """Stored."""
    judged: int = 0
    relevant: int = 0
    requests: int = 0
    """All that were sent: also for robots.txt and sitemaps, and those that failed."""
    elapsed_s: float = 0.0
    """Seconds of crawling, over all runs, pauses left out."""

    @property
    def harvest(self) -> float | None:
        """The harvest rate: the share of the pages that is relevant; None when nothing is judged."""
        return self.relevant / self.pages if self.judged else None

    @property
    def harvest_per_request(self) -> float | None:
        """Relevant pages for each request; None when nothing is judged."""
        return self.relevant / self.requests if self.judged and self.requests else None

    @property
    def harvest_per_s(self) -> float | None:
        """Relevant pages for each second of crawling; None when nothing is judged, or no crawl ran."""
        return self.relevant / self.elapsed_s if self.judged and self.elapsed_s else None

    def plus(self, other: Figures) -> Figures:
        """Both together."""
        return Figures(
            self.pages + other.pages, self.judged + other.judged, self.relevant + other.relevant,
            self.requests + other.requests, self.elapsed_s + other.elapsed_s,
        )  # fmt: skip


@dataclass(frozen=True)
class CrawlProgress:
    """How far a crawl has come by its own plan. Stored in the table `progress`."""

    phase: Phase = Phase.NONE
    archetype_rounds: int = 0
    """Searches for archetypes so far."""
    relevant_at_round: int = 0
    """Pages that had been judged relevant when the latest of these searches began."""
    negative_rounds: int = 0
    """Searches for mined negatives so far."""
    pages_at_analysis: int = 0
    """Pages that were stored when the latest link analysis began."""
    question_rounds: int = 0
    """Numbers of pages passed at which the crawl asks the user questions."""
