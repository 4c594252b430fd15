"""Which URL next: scores and politeness together.

Every URL that was ever offered is known by its key (`keymap.py`) and has an oid; it is added once and leased once at a
time. A host is never asked before its next allowed time, nor by more requests at once than it has places, nor when its
registered domain has no place left (`hosts.py`). URLs that may not be asked at all are refused when they are first met
(`filters.py`) or when their turn comes (robots rules, duplicates).

The frontier is two-level. The hot part is in memory and bounded: one queue per topic, one lane per host in it
(`queue.py`). Everything else waits in the table `crawl`, and comes back by one SQL query in the order of the strategy
(`strategies.py`). What waits in the database only is never better than what is in memory: each topic has a floor, the
best priority that was ever spilled, and offers below it do not enter memory. BINGO's incoming and outgoing queues and
Focus's checkout from CRAWL are this one thing.

Nothing here waits, sleeps, or reads a clock, a socket or a file.
"""

from opilio.frontier.arrays import ABSENT, KeyMap, RecentKeys
from opilio.frontier.classic import Bingo, Focus, HardFocus, Oasis, SharkSearch
from opilio.frontier.duplicates import Duplicates
from opilio.frontier.evidence_strategy import AllEvidence
from opilio.frontier.filters import ScopeFilter, TrapGuard, covering
from opilio.frontier.frontier import Frontier
from opilio.frontier.hosts import Host, HostState
from opilio.frontier.queue import QueuedUrl
from opilio.frontier.strategies import Strategy, make_strategy, strategies

__all__ = [
    "ABSENT",
    "AllEvidence",
    "Bingo",
    "Duplicates",
    "Focus",
    "Frontier",
    "HardFocus",
    "Host",
    "HostState",
    "KeyMap",
    "Oasis",
    "QueuedUrl",
    "RecentKeys",
    "ScopeFilter",
    "SharkSearch",
    "Strategy",
    "TrapGuard",
    "covering",
    "make_strategy",
    "strategies",
]
