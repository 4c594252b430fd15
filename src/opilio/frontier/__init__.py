"""Which URL is fetched next: priorities and politeness together.

Invariants. Every URL that was ever found has one oid, is queued once and leased once at a time. A host is never sent a
request before its next allowed time, nor more requests at once than it has places, nor one when its registered domain
has no place left. No URL that is queued in the database only is better than one in memory. Nothing here waits, sleeps,
or reads a clock, a socket or a file: time is an argument.

The states of a URL (`opilio.model.state` has the table of allowed changes):

- *waiting*: queued. `Tiers.add` queues a new URL that no filter rejects; `Frontier.retry` one that is tried again
  later.
- *leased*: a worker fetches it. `Frontier.take` leases it, `Frontier.ended` ends the lease. In memory only.
- *fetched*, *failed*, *dropped*: settled. The absorber (`opilio.crawl.absorb`) settles a URL by the visit that came
  back; the frontier drops one that must not be fetched after all, and reports that to its listener. A settled URL is
  queued again only by the user (a recrawl, a raised limit, a lock that is taken back), or when its page is due in a
  standing crawl.

The story. A link that was found is looked up by the key of its URL (`arrays.py`) and screened: scope and traps
(`filters.py`), depth, a bad origin. A URL that passes is queued in its topic's queue, in the lane of its origin
(`queue.py`), with the priority that the strategy gives it. `Frontier.take` (`frontier.py`) takes turns between topics,
and in each topic leases the best URL whose host is ready (`hosts.py`): first the robots.txt of its origin (http and
https of one host are two origins), then its sitemaps, then pages. Just before the lease, robots rules and duplicates
(`duplicates.py`) may still reject the URL.

Queues are bounded. `Tiers` (`tiers.py`) keeps the best URLs of each topic in memory, the hot ones; the others are cold,
in the table `crawl` only. When a hot queue is full its worst fifth is spilled; when it runs low, one SQL query in the
order of the strategy refills it. BINGO's incoming and outgoing queues and Focus's checkout from CRAWL are this one
mechanism.

The order is that of a `Strategy` (`strategies.py`). The default, `evidence`, learns from every page
(`evidence_strategy.py`): it remembers the links to each URL (`link_memory.py`) and their words (`link_words.py`), and
computes from them what is known of a queued URL (`link_evidence.py`). With a sentence encoder, it scores the best URLs
by the texts of their links too (`link_texts.py`). The strategies of the papers are in `classic.py`, and one that learns
by reinforcement in `tres.py`.
"""

from opilio.frontier.arrays import ABSENT, KeyMap, RecentKeys
from opilio.frontier.classic import Bingo, Focus, HardFocus, Oasis, SharkSearch
from opilio.frontier.duplicates import Duplicates, UrlAliases
from opilio.frontier.evidence_strategy import AllEvidence
from opilio.frontier.filters import ScopeFilter, TrapGuard, covering
from opilio.frontier.frontier import Frontier
from opilio.frontier.hosts import Host, HostState, Origin
from opilio.frontier.queue import QueuedUrl
from opilio.frontier.strategies import (
    DatabaseStrategy,
    LearningStrategy,
    LinkTextStrategy,
    Strategy,
    make_strategy,
    strategies,
)
from opilio.frontier.tiers import FrontierListener, NoListener
from opilio.frontier.tres import Tres

__all__ = [
    "ABSENT",
    "AllEvidence",
    "Bingo",
    "DatabaseStrategy",
    "Duplicates",
    "Focus",
    "Frontier",
    "FrontierListener",
    "HardFocus",
    "Host",
    "HostState",
    "KeyMap",
    "LearningStrategy",
    "LinkTextStrategy",
    "NoListener",
    "Oasis",
    "Origin",
    "QueuedUrl",
    "RecentKeys",
    "ScopeFilter",
    "SharkSearch",
    "Strategy",
    "TrapGuard",
    "Tres",
    "UrlAliases",
    "covering",
    "make_strategy",
    "strategies",
]
