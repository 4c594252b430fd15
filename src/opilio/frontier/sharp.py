"""The order of the learning phase (BINGO 2.6, 3.3)."""

from __future__ import annotations

from collections.abc import Iterable

from opilio.frontier.queue import Waiting
from opilio.frontier.strategies import Strategy
from opilio.model import Judgement
from opilio.settings import Frontier as FrontierSettings
from opilio.topics.hierarchy import ROOT

SEED_PRIORITY = 1e6
STRAYED_PRIORITY = -1.0
"""Of a URL that was found where the focus had been lost. It is written down, so that a refill knows it too."""


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
        near = f"depth <= {max_depth} AND priority <> {STRAYED_PRIORITY} AND domain IN ({names})"
        self.order_by = f"(depth = 0) desc, ({near}) desc, depth desc"

    def priority(self, link: Waiting) -> float:
        """The depth; seeds come first."""
        if not link.depth:
            return SEED_PRIORITY
        return float(link.depth) if link.steps <= self.settings.tunnel_steps else STRAYED_PRIORITY

    def steps_at(self, page: Waiting, judgement: Judgement | None) -> int:
        """Steps since a page of the class that was sought; where none was, of any."""
        is_same = judgement is not None and judgement.accepted and page.sought in (judgement.topic, ROOT)
        return 0 if is_same else page.steps + 1

    def admits(self, url: Waiting) -> bool:
        """Whether it is near enough, in the seeds' domains, and the way to it kept the focus.

        What is not admitted comes last in `order_by`: a refill that meets some of it has brought all that is.
        """
        if not url.depth:
            return True
        near = url.depth <= self._max_depth and url.priority != STRAYED_PRIORITY
        return near and url.host.domain_name in self._domains
