"""Standing collections: `opilio watch` visits stored pages again when they are due, and reports what has changed.

A round (`rounds.py`) is a crawl that keeps a collection fresh (`opilio.crawl.refresher`) and ends when no page is due.
What is new, changed and gone since the latest report comes from the operation `changes`. It is delivered as a feed, as
a digest to read or to mail (`reports.py`), and to webhooks (`webhooks.py`).

Invariants: one process watches a collection at a time. Each channel records what it has delivered. What could not be
delivered is part of the next report, and after a kill at most the delivery that was under way is repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opilio.process import loader

if TYPE_CHECKING:
    from opilio.standing.rounds import Channels, RoundReport, StandingWatch

__all__ = ["Channels", "RoundReport", "StandingWatch"]

_MODULES = dict.fromkeys(("Channels", "RoundReport", "StandingWatch"), "rounds")

__getattr__ = loader(__name__, _MODULES)
