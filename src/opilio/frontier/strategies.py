"""Strategies: in which order waiting URLs are asked for.

A strategy says the same thing twice: `priority` for a URL that was just found (higher is earlier), and `order_by` in
SQL for the URLs that wait in the database. The two must agree; the contract test in tests/test_frontier_strategies.py
checks that for each registered strategy. Equal priorities go by discovery (`oid`). To add one:

    @strategies.register("shortest-url")
    class ShortestUrl(Strategy):
        order_by = "length(url)"

        def priority(self, link: Waiting) -> float:
            return -len(link.url)

A strategy with `batch` = N takes the N best, waits until all of them are done, and only then looks at the frontier
again (Best-N-First). Without, the best URL whose host may be asked is taken at any time. A strategy with no `priority`
of its own (`uses_sql`) has its order asked from the database again and again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from opilio.errors import SettingsError
from opilio.frontier.queue import QueuedUrl
from opilio.model import Document, Judgement
from opilio.registry import Registry
from opilio.settings import FrontierSettings

if TYPE_CHECKING:
    from opilio.frontier.link_words import Words, WordVectors


class KnownDocument(NamedTuple):
    """A document whose worth is known before the crawl."""

    words: Words
    """Each once."""
    title: Words
    relevance: float


class Strategy:
    """Base of the strategies; the defaults are those of best-first."""

    order_by = "relevance desc"
    """ORDER BY over the view `frontier`; ties go by oid."""
    batch = 0
    """How many URLs are taken before their links are looked at; 0: no batches."""
    uses_sql = False
    """Whether only the database can order URLs."""

    def __init__(self, settings: FrontierSettings) -> None:
        self.settings = settings

    learns = False
    """Whether priorities change with what the crawl finds: then the methods from `brief` on are called too."""
    uses_words = False
    """Whether it looks at the words of links: then workers send them."""

    def priority(self, link: QueuedUrl) -> float:
        """How early a URL that was just found should be asked for."""
        return link.relevance

    def priorities(self, links: Sequence[QueuedUrl]) -> list[float]:
        """The same for several."""
        return [self.priority(link) for link in links]

    def follows(self, page: QueuedUrl, judgement: Judgement | None) -> bool:
        """Whether the links of a page are followed at all."""
        return True

    def steps_at(self, page: QueuedUrl, judgement: Judgement | None) -> int:
        """Steps since the last page that was sought: 0 at one, else one more than at the page before."""
        return 0 if judgement is not None and judgement.is_relevant else page.steps + 1

    def admits(self, url: QueuedUrl) -> bool:
        """Whether a URL may be asked for as long as this strategy orders; else it waits in the database."""
        return True

    def brief(
        self, keywords: Iterable[int], documents: Iterable[KnownDocument], vectors: WordVectors | None = None
    ) -> None:
        """What is known before the crawl: stems that name the topics, documents, and what words mean."""

    def observe(
        self, page: QueuedUrl, judgement: Judgement | None, document: Document, oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        """A page was fetched and judged; its links lead to `oids` (ABSENT: not followed) on the hosts `sids`."""

    def to_weigh(self, linked: Iterable[int]) -> Iterable[int]:
        """Those of the URLs that pages which were observed link to whose priority may be another one now."""
        return dict.fromkeys(linked)

    def parts(self, oid: int) -> dict[str, float]:
        """What the priority of a waiting URL is made of, by name; nothing when that cannot be told."""
        return {}

    def settle(self, oid: int, goodness: float) -> None:
        """The last word about a URL is spoken: how relevant its page is, 0 when there is none."""

    def forget(self, oid: int) -> None:
        """A URL will not be asked for after all (robots rules, limits, duplicates): nothing is known of its page."""

    def recommend(self, relevance: Mapping[int, float], hub_scores: Mapping[int, float]) -> None:
        """Great hubs recommend waiting URLs: how relevant what they link to is, and how great they are together."""

    def is_due(self) -> bool:
        """Whether all waiting URLs should get new priorities now."""
        return False

    def look_anew(self, links: Sequence[QueuedUrl]) -> list[float]:
        """The priorities of all waiting URLs in memory."""
        return self.priorities(links)


Factory = Callable[[FrontierSettings], Strategy]
strategies: Registry[Factory] = Registry("strategies")

_BFS_N = re.compile(r"bfs(\d+)$")


def make_strategy(settings: FrontierSettings) -> Strategy:
    """The strategy that the settings name; `bfs16` is short for best-n-first with n = 16 (the paper's names)."""
    named_n = _BFS_N.match(settings.strategy)
    if named_n and int(named_n[1]) > 0:
        return BestNFirst(settings, int(named_n[1]))
    return strategies.get(settings.strategy)(settings)


@strategies.register("best-first")
class BestFirst(Strategy):
    """The URL with the best estimate first, at any time."""


@strategies.register("best-n-first")
class BestNFirst(Strategy):
    """The N URLs with the best estimates, then the next N (BestN, figure 1)."""

    def __init__(self, settings: FrontierSettings, n: int = 0) -> None:
        super().__init__(settings)
        self.batch = n or settings.n


@strategies.register("breadth-first")
class BreadthFirst(Strategy):
    """The URL nearest to a seed first, in the order of discovery."""

    order_by = "depth"

    def priority(self, link: QueuedUrl) -> float:
        """Minus the depth."""
        return -float(link.depth)


@strategies.register("depth-first")
class DepthFirst(Strategy):
    """The URL farthest from a seed first."""

    order_by = "depth desc"

    def priority(self, link: QueuedUrl) -> float:
        """The depth."""
        return float(link.depth)


@strategies.register("sql")
class SqlOrder(Strategy):
    """Any ORDER BY over the view `frontier` (Focus 3.2)."""

    uses_sql = True

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        if not settings.order_by.strip():
            raise SettingsError(
                "strategy 'sql' needs an order",
                "Set [frontier] order_by, for example: numtries, relevance desc, serverload",
            )
        if settings.max_queued:
            raise SettingsError(
                "a limit of waiting URLs (max_queued) needs an order that is known in memory, which 'sql' is not",
                "Use another strategy, or set [frontier] max_queued = 0.",
            )
        self.order_by = settings.order_by
