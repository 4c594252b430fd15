"""Strategies: in which order queued URLs are fetched.

A `Strategy` states the same order twice: `priority` for a URL that was just found (a higher one is fetched earlier),
and `order_by` in SQL for the URLs that are queued in the database only. The two must agree; the
contract test in tests/test_frontier_strategies.py checks that for every registered strategy. URLs with equal priorities
are fetched in the order of discovery (`oid`). To add one:

    @strategies.register("shortest-url")
    class ShortestUrl(Strategy):
        order_by = "length(url)"

        def priority(self, link: QueuedUrl) -> float:
            return -len(link.url)

There are three special kinds, each a base class:

- A `LearningStrategy` changes its priorities with what the crawl finds. It must `observe` and `settle`; the other
  methods have defaults.
- A `LinkTextStrategy` learns from words too: those that name the topics, and those of links, which workers then send.
- A `DatabaseStrategy` has an order that cannot be computed in memory: the database is queried for the next URLs again
  and again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from opilio.errors import SettingsError
from opilio.frontier.queue import QueuedUrl
from opilio.model import Document, Judgement
from opilio.registry import Registry
from opilio.settings import FrontierSettings

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from opilio.frontier.link_texts import Encode
    from opilio.frontier.link_words import WordOdds, Words, WordVectors

    Oids: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]


class Strategy:
    """In which order queued URLs are fetched. The defaults are those of best-first; most strategies change two.

    The frontier uses nothing else of a strategy, apart from the three special kinds below.
    """

    order_by = "relevance desc"
    """ORDER BY over the view `frontier`; ties are broken by oid."""
    batch = 0
    """How many URLs are taken before their links are considered (Best-N-First). 0: the best URL whose host is ready is
    taken at any time."""

    def __init__(self, settings: FrontierSettings) -> None:
        self.settings = settings

    def priority(self, link: QueuedUrl) -> float:
        """How early a URL should be fetched of which only its own attributes are known.

        The default is the relevance that is expected of its page.
        """
        return link.relevance

    def priorities(self, links: Sequence[QueuedUrl]) -> list[float]:
        """The priorities of several URLs, by everything that is known of them."""
        return [self.priority(link) for link in links]

    def follows(self, page: QueuedUrl, judgement: Judgement | None) -> bool:
        """Whether the links of a page are followed at all: those of every page."""
        return True

    def steps_at(self, page: QueuedUrl, judgement: Judgement | None) -> int:
        """Links followed since the last page on a wanted topic: 0 at one, else one more than at the page before."""
        return 0 if judgement is not None and judgement.is_relevant else page.steps + 1

    def admits(self, url: QueuedUrl) -> bool:
        """Whether a URL may be fetched as long as this strategy is in force; if not, it stays in the database."""
        return True


class LearningStrategy(Strategy):
    """Base class of strategies whose priorities change with what the crawl finds.

    The crawl calls `observe` for every page whose links are followed, and `settle` once for every URL that leaves the
    frontier.
    """

    order_by = "priority desc"

    def observe(
        self, page: QueuedUrl, judgement: Judgement | None, document: Document, oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        """Learn from a page that was fetched and judged.

        Its links lead to the URLs `oids` (ABSENT: not followed) on the hosts `sids`.
        """
        raise NotImplementedError

    def settle(self, oid: int, relevance: float | None) -> None:
        """Learn how a URL ended: how relevant its page is, 0 when it could not be had.

        None: nothing is known of its page (robots rules, limits, redirects, duplicates).
        """
        raise NotImplementedError

    def settle_dead(self, oid: int) -> None:
        """Learn that a URL is dead: there is no page (`Outcome.is_dead`). By default as if its relevance were 0."""
        self.settle(oid, 0.0)

    def hand_over(self, oid: int, target: int, url: QueuedUrl | None) -> None:
        """A URL leads to `target`: it was redirected there, or is a duplicate. Links to it are links to that URL.

        `url` is the target when it is queued in memory or about to be. Links found later come with the target's oid.
        """

    def recommend(self, relevance: Mapping[int, float], hub_scores: Mapping[int, float]) -> None:
        """Great hubs recommend URLs. By oid: the relevance that this suggests, and the sum of the hubs' scores."""

    def outdated(self, linked: Iterable[int]) -> Iterable[int]:
        """The oids, among those that observed pages link to, whose priority may have changed since."""
        return dict.fromkeys(linked)

    def reprioritise(self, urls: Collection[QueuedUrl]) -> list[float] | None:
        """New priorities of all URLs in memory, in their order; None while the ones that they have will do.

        Called often; a strategy decides itself when it is worth the time.
        """
        return None

    def explain(self, oid: int) -> dict[str, float]:
        """What the priority of a queued URL is made of, by name; nothing when that is not known."""
        return {}

    def rejudging(self) -> Rejudging | None:
        """Called when stored pages are about to be re-judged by another model.

        Returns what takes the new judgements. None: the strategy cannot correct what it learned, and is built again.
        """
        return None


class LinkTextStrategy(LearningStrategy):
    """Base class of learning strategies that read words: workers send the words of links with each document."""

    def prepare(
        self, keywords: Iterable[int], documents: Iterable[KnownDocument], vectors: WordVectors | None = None
    ) -> None:
        """Learn what is known before the crawl: stems that name the topics, documents, and vectors of words."""
        raise NotImplementedError

    def use_encoder(self, encode: Encode, texts: Sequence[tuple[str, float]]) -> None:
        """Called before `prepare` when a sentence encoder is set.

        `texts` are those known before the crawl, each with its relevance: keywords of topics, titles of documents.
        """


class KnownDocument(NamedTuple):
    """A document whose relevance is known before the crawl."""

    words: Words
    """Each once."""
    title: Words
    relevance: float


class RejudgedPages(NamedTuple):
    """What a new model says of pages that a strategy has learned from."""

    oids: Oids
    relevance: Values
    """As `Rejudging.weigh` gives it."""
    steps: Values
    """Links followed to each page since the last relevant page."""
    page_words: WordOdds
    """Learned from these pages, and from the training documents."""
    documents: Sequence[KnownDocument] = ()
    """The training documents as they are now."""
    keywords: Collection[int] = ()
    """Stems that name the topics."""
    texts: Sequence[tuple[str, float]] = ()
    """As for `LinkTextStrategy.use_encoder`."""


class Rejudging(Protocol):
    """Stored pages are being re-judged. Ends with exactly one of `finish` and `cancel`."""

    @property
    def oids(self) -> Oids:
        """The pages that the strategy has learned from."""
        ...

    def weigh(self, relevance: Values) -> Values:
        """Relevance as it counts for the strategy."""
        ...

    def finish(self, rejudged: RejudgedPages) -> None:
        """Correct what was learned from the old judgements."""
        ...

    def cancel(self) -> None:
        """The old judgements stand."""
        ...


class DatabaseStrategy(Strategy):
    """A strategy whose order only the database can compute. Its URLs have no priority in memory."""

    def __init__(self, settings: FrontierSettings, order_by: str) -> None:
        super().__init__(settings)
        if settings.max_queued:
            raise SettingsError(
                "a limit of waiting URLs (max_queued) needs an order that is known in memory, which 'sql' is not",
                "Use another strategy, or set [frontier] max_queued = 0.",
            )
        self.order_by = order_by


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
def sql_order(settings: FrontierSettings) -> DatabaseStrategy:
    """Any ORDER BY over the view `frontier` (Focus 3.2)."""
    if not settings.order_by.strip():
        raise SettingsError(
            "strategy 'sql' needs an order",
            "Set [frontier] order_by, for example: numtries, relevance desc, serverload",
        )
    return DatabaseStrategy(settings, settings.order_by)
