"""The order of the learning phase (BINGO 2.6, 3.3)."""

from __future__ import annotations

from collections.abc import Iterable

from opilio.frontier.queue import Waiting
from opilio.frontier.strategies import Strategy
from opilio.model import Judgement
from opilio.settings import Frontier as FrontierSettings

SEED_PRIORITY = 1e6


class SharpFocus(Strategy):
    """Depth-first, within some domains, as long as pages are of the class of those that led to them.

    What is not followed now waits in the database: the harvest begins with it. Through pages of other classes it goes
    `tunnel_steps` far, as the papers' crawler did, lest it run dry at a welcome page.
    """

    def __init__(self, settings: FrontierSettings, domains: Iterable[str], max_depth: int) -> None:
        super().__init__(settings)
        self._domains = frozenset(domains)
        self._max_depth = max_depth
        names = ", ".join("'" + name.replace("'", "''") + "'" for name in sorted(self._domains)) or "''"
        self.order_by = f"(depth = 0) desc, (depth <= {max_depth} AND domain IN ({names})) desc, depth desc"

    def priority(self, link: Waiting) -> float:
        """The depth; seeds come first."""
        return float(link.depth) if link.depth else SEED_PRIORITY

    def steps_at(self, page: Waiting, judgement: Judgement | None) -> int:
        """Steps since a page of the class that was sought."""
        is_same = judgement is not None and judgement.accepted and judgement.topic == page.sought
        return 0 if is_same else page.steps + 1

    def admits(self, url: Waiting) -> bool:
        """Whether it is near enough, in the seeds' domains, and the way to it kept the focus."""
        if not url.depth:
            return True
        near = url.depth <= self._max_depth and url.steps <= self.settings.tunnel_steps
        return near and url.host.domain_name in self._domains
