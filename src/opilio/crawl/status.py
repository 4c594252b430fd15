"""Running counts of a crawl, and the figures shown while it runs."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opilio.model import RELEVANT, CrawlProgress, Outcome, Phase

if TYPE_CHECKING:  # it takes a tenth of a second to import
    from opilio.store import Batch

FOUND = "pages relevant when fetched"
_PROGRESS_NAMES = {
    "phase": "phase",
    "archetype_rounds": "rounds of archetypes",
    "relevant_at_round": "pages relevant when fetched before the last round of archetypes",
    "negative_rounds": "rounds of mined negatives",
    "pages_at_analysis": "pages at the latest link analysis",
    "question_rounds": "rounds of questions",
}
SHOWN_SHELL_HOSTS = 5
RATE_WINDOW_S = 10.0
RECENT_PAGES = 500
"""Pages over which the recent harvest is measured."""
RECENT_STEP_PAGES = 50


@dataclass
class Status:
    """A snapshot of a crawl, as the display, `opilio status` and --json show it."""

    folder: str
    running: bool
    pages: int
    fetched_bytes: int
    urls: int
    waiting: int
    hot: int
    in_flight: int
    hosts: int
    slow_hosts: int
    bad_hosts: int
    elapsed_s: float
    pages_per_s: float
    relevant: int
    """Relevant pages, as they are judged now."""
    requests: int
    """Requests that were sent, those that failed included."""
    harvest: float | None
    """The harvest rate: relevant pages / pages, as they are judged now; None when nothing is judged."""
    harvest_per_request: float | None
    """Relevant pages / requests."""
    harvest_per_s: float | None
    """Relevant pages / seconds of crawling (`elapsed_s`: over all runs, pauses left out)."""
    recent_harvest: float | None
    """The share of relevant pages among the latest 500 of this run, as they were judged when they were fetched."""
    recent_harvests: list[float]
    """The recent harvest after each 50 pages, the latest last."""
    outcomes: dict[str, int]
    counters: dict[str, int]
    strategy: str
    order_by: str
    topics: dict[str, int] = field(default_factory=dict)
    eta_s: float | None = None
    limit: str = ""
    reason: str = ""
    model: str = ""
    """The model that judges, in words."""
    notices: list[dict[str, Any]] = field(default_factory=list)
    """The latest notices of the crawl: kind, text, what can be done in words (remedy), and as data (remedies)."""
    recall: float | None = None
    """The share of all relevant pages within reach that has been found, as the crawl estimates it."""
    phase: str = Phase.NONE
    """Where a crawl that learns first (`learn.phases`) stands: none, learning, paused or harvesting."""
    stopped: bool = False
    """Whether somebody ended it: the user, the program that runs it, or a signal."""
    interrupted: bool = False
    """Whether a signal ended it."""
    paused: bool = False
    """Whether the user has paused it: requests under way are finished, and no new ones are sent."""
    no_network: bool = False
    """Whether it waits because no host answers, or ended because none did for too long."""
    boosts: dict[str, float] = field(default_factory=dict)
    """Hosts that get their turn sooner, subdomains included, and by what factor."""
    questions: int = 0
    """How many questions wait for an answer."""
    system: str = ""
    """The system of a paper that runs; empty: Opilio's own."""
    due_pages: int = 0
    """Stored pages that are due to be visited again; always 0 unless `revisit.keep_fresh` is set."""
    next_due_url: str = ""
    """The stored page that is due first."""
    next_due_s: float | None = None
    """When it is due, in seconds since the epoch."""
    shells: dict[str, int] = field(default_factory=dict)
    """Pages that are empty without JavaScript and were not rendered, by host: the hosts with most of them."""
    shell_pages: int = 0
    """How many such pages there are, on all hosts."""
    reached_nothing: bool = False
    """Whether this run sent requests and none of them reached a server."""


class Counters:
    """What happened, by name; outcomes under `outcome:<name>`. Counts and progress survive a restart."""

    def __init__(self, stored: dict[str, int] | None = None, progress: CrawlProgress | None = None) -> None:
        self.counts: Counter[str] = Counter(stored or {})
        self.progress = progress or CrawlProgress()
        """How far the crawl has come by its own plan; `advance` changes it."""
        self._has_advanced = False
        self._recent: deque[float] = deque()  # when the latest pages were stored
        self._latest: deque[bool] = deque(maxlen=RECENT_PAGES)  # whether they were relevant
        self._recent_harvests: deque[float] = deque(maxlen=60)
        self.judged = 0
        """Pages that were judged in this run ..."""
        self.relevant = 0
        """... and those of them that were relevant."""
        self.requests = 0
        """Requests sent in this run ..."""
        self.unreached = 0
        """... and how many of the latest, in a row, reached no server."""
        self._changed: set[str] = set()

    def add(self, name: str, n: int = 1) -> None:
        """Count `n` more of `name`."""
        self.counts[name] += n
        self._changed.add(name)

    def advance(self, **changes: Any) -> None:
        """Change fields of the progress."""
        self.progress = dataclasses.replace(self.progress, **changes)
        self._has_advanced = True

    def write_changes(self, batch: Batch) -> None:
        """Put what has changed since the last call into a batch."""
        for name in self._changed:
            batch.counters[name] = self.counts[name]
        self._changed = set()
        if self._has_advanced:
            batch.progress, self._has_advanced = self.progress, False

    def shown(self) -> dict[str, int]:
        """All that is counted, the progress of the crawl included, under the names that users read."""
        values = dataclasses.asdict(self.progress) | {"phase": list(Phase).index(self.progress.phase)}
        return dict(self.counts) | {_PROGRESS_NAMES[name]: n for name, n in values.items() if n}

    def outcome(self, outcome: Outcome) -> None:
        """Count the outcome of a settled URL."""
        self.add(f"outcome:{outcome.value}")

    def request(self, outcome: Outcome) -> None:
        """Count a request, and whether it reached a server; one that was never sent says nothing."""
        if outcome in (Outcome.PRIVATE_ADDRESS, Outcome.WORKER_LOST):
            return
        self.requests += 1
        self.unreached = self.unreached + 1 if outcome.is_unreachable else 0

    def page(self, relevance: float | None) -> None:
        """Count a stored page."""
        self.add("pages")
        self._recent.append(time.monotonic())
        self._forget_old()
        if relevance is not None:
            self.judged += 1
            if relevance >= RELEVANT:
                self.relevant += 1
                self.add(FOUND)
            self._latest.append(relevance >= RELEVANT)
            if self.judged % RECENT_STEP_PAGES == 0:
                self._recent_harvests.append(self.recent_harvest or 0.0)

    @property
    def pages(self) -> int:
        """Pages stored, over all runs."""
        return self.counts["pages"]

    @property
    def recent_harvest(self) -> float | None:
        """The share of relevant pages among the latest, as judged when they were fetched; None: nothing is judged."""
        return sum(self._latest) / len(self._latest) if self._latest else None

    @property
    def recent_harvests(self) -> list[float]:
        """The recent harvest after each 50 pages, the latest last."""
        return list(self._recent_harvests)

    def pages_per_s(self) -> float:
        """Pages stored a second, over the last seconds."""
        self._forget_old()
        return len(self._recent) / max(0.5, time.monotonic() - self._recent[0]) if self._recent else 0.0

    def _forget_old(self) -> None:
        """Keep the pages of the last seconds only."""
        oldest_s = time.monotonic() - RATE_WINDOW_S
        while self._recent and self._recent[0] < oldest_s:
            self._recent.popleft()

    def outcomes(self) -> dict[str, int]:
        """Counts by outcome, most frequent first."""
        prefix = "outcome:"
        counts = {name[len(prefix) :]: n for name, n in self.counts.items() if name.startswith(prefix) and n}
        return dict(sorted(counts.items(), key=lambda item: -item[1]))
