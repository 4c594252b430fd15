"""The orders of the papers, each as its paper describes it.

In all of them a link's score is made of the page it stands on. They differ in what is taken from that page, in what a
second page that links to the same URL changes, and in whether links of a page about something else are followed.

The order of the learning phase (BINGO 2.6, 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from opilio.frontier.arrays import ABSENT
from opilio.frontier.queue import QueuedUrl
from opilio.frontier.strategies import KnownDocument, Strategy, strategies
from opilio.model import Document, Judgement
from opilio.settings import FrontierSettings
from opilio.topics.hierarchy import ROOT

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.frontier.link_words import Words, WordVectors


SEED_SCORE = 1.0
# Shark-Search's constants, as its authors chose them.
SHARK_DECAY, SHARK_INHERITED, SHARK_ANCHOR = 0.5, 0.5, 0.8


class Inheriting(Strategy):
    """Base of these strategies: keeps the score of each URL that waits or is under way."""

    order_by = "priority desc"
    learns = True

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        self._scores: dict[int, float] = {}
        self._settled = bytearray()
        """By oid: 1 once the last word about a URL is spoken; links to it have no score any more."""

    def link_scores(self, page: QueuedUrl, judgement: Judgement, document: Document) -> Sequence[float]:
        """The scores of a page's links; one for all of them, or one for each."""
        return [judgement.relevance]

    def joined(self, oid: int, score: float) -> float:
        """The score of a URL that had one already, now that another page links to it."""
        return max(self._scores[oid], score)

    def observe(
        self, page: QueuedUrl, judgement: Judgement | None, document: Document, oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        """Score the links of a page."""
        found = self.link_scores(page, judgement or Judgement(), document)
        each = found if len(found) == len(oids) else [*found] * len(oids)
        for oid, score in dict(zip(oids, each, strict=True)).items():
            if oid in self._scores:
                self._scores[oid] = self.joined(oid, score)
            elif self.is_open(oid):
                self._scores[oid] = score

    def is_open(self, oid: int) -> bool:
        """Whether a URL is still to be asked for."""
        return oid != ABSENT and (oid >= len(self._settled) or not self._settled[oid])

    def settle(self, oid: int, goodness: float) -> None:
        """Its score is of no more use."""
        self._scores.pop(oid, None)
        if oid >= len(self._settled):
            self._settled.extend(bytes(oid + 1 - len(self._settled)))
        self._settled[oid] = 1

    def forget(self, oid: int) -> None:
        """Its score is of no more use."""
        self.settle(oid, 0.0)

    def recommend(self, relevance: Mapping[int, float], hub_scores: Mapping[int, float]) -> None:
        """What great hubs link to counts as if it stood on a page as relevant as what else they link to (Focus 3.7)."""
        for oid, value in relevance.items():
            if self.is_open(oid):
                self._scores[oid] = max(value, self._scores.get(oid, 0.0))

    def score_of(self, url: QueuedUrl) -> float:
        """The score of a URL that waits or is under way."""
        return self._scores.get(url.oid, url.priority or self.priority(url))

    def priority(self, link: QueuedUrl) -> float:
        """Of a URL that no link is known to."""
        return SEED_SCORE if link.depth == 0 else link.relevance

    def priorities(self, links: Sequence[QueuedUrl]) -> list[float]:
        """The scores."""
        return [self.score_of(link) for link in links]


@strategies.register("focus")
class Focus(Inheriting):
    """Soft focus: how relevant the best page is that links to it (Focus 2.1.2)."""


@strategies.register("focus-hard")
class HardFocus(Inheriting):
    """Hard focus: only links of pages that a good topic took are followed. A crawl may run dry (Focus 2.1.2)."""

    def follows(self, page: QueuedUrl, judgement: Judgement | None) -> bool:
        """Whether the page is of a good topic."""
        return judgement is None or judgement.is_relevant


@strategies.register("bingo")
class Bingo(Inheriting):
    """The confidence of the page, halved for each step through pages that no topic took (BINGO 3.3, 4.2).

    Confidence counts from 0 to 1, as relevance does: so a tunnelled link never comes before one of a page that a topic
    took. Measured in distances from the hyperplane, where examples are far ahead of all that is found, it would.
    """

    def follows(self, page: QueuedUrl, judgement: Judgement | None) -> bool:
        """Whether a topic took the page, or one of the last pages on the way to it."""
        return judgement is None or judgement.accepted or page.steps <= self.settings.tunnel_steps

    def link_scores(self, page: QueuedUrl, judgement: Judgement, document: Document) -> Sequence[float]:
        """The page's own confidence, or what it was given on the way, less."""
        if judgement.accepted:
            return [judgement.relevance]
        return [self.settings.tunnel_decay * self.score_of(page)]


@strategies.register("oasis")
class Oasis(Inheriting):
    """The mean relevance of all pages that link to it; it moves as more are found (OASIS 1)."""

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        self._parents: dict[int, int] = {}

    def joined(self, oid: int, score: float) -> float:
        """The mean, with one page more."""
        parents = self._parents[oid] = self._parents.get(oid, 1) + 1
        return self._scores[oid] + (score - self._scores[oid]) / parents

    def settle(self, oid: int, goodness: float) -> None:
        """Its score is of no more use."""
        super().settle(oid, goodness)
        self._parents.pop(oid, None)


@strategies.register("shark-search")
class SharkSearch(Inheriting):
    """What a page inherits and what the words in and around the link say of the keywords (Hersovici et al., 1998).

    A page passes on half of its own relevance; one that has none, half of what it inherited. Of a link without any
    keyword in its words, those around it are looked at.
    """

    uses_words = True

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        self._keywords: Words = np.zeros(0, np.uint32)
        self._inherited: dict[int, float] = {}
        self._passed = 0.0

    def brief(
        self, keywords: Iterable[int], documents: Iterable[KnownDocument], vectors: WordVectors | None = None
    ) -> None:
        """Take the keywords."""
        self._keywords = np.array(sorted(set(keywords)), np.uint32)

    def link_scores(self, page: QueuedUrl, judgement: Judgement, document: Document) -> Sequence[float]:
        """One for each link."""
        own = judgement.relevance if judgement.relevance > 0.0 else self._inherited.get(page.oid, 0.0)
        inherited = SHARK_DECAY * own
        self._passed = inherited
        scores = []
        for inside, around in _likeness(document, self._keywords):
            near = SHARK_ANCHOR * inside + (1.0 - SHARK_ANCHOR) * (1.0 if inside > 0.0 else around)
            scores.append(SHARK_INHERITED * inherited + (1.0 - SHARK_INHERITED) * near)
        return scores or [inherited]

    def observe(
        self, page: QueuedUrl, judgement: Judgement | None, document: Document, oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        """Score the links of a page, and note what their targets inherit."""
        super().observe(page, judgement, document, oids, sids)
        for oid in oids:
            if self.is_open(oid):
                self._inherited[oid] = max(self._passed, self._inherited.get(oid, 0.0))
        self._inherited.pop(page.oid, None)

    def settle(self, oid: int, goodness: float) -> None:
        """Its score is of no more use; what it inherits still is, until its links were seen."""
        super().settle(oid, goodness)
        if goodness > 0.0:
            self._inherited.pop(oid, None)


def _likeness(document: Document, keywords: Words) -> list[tuple[float, float]]:
    """Of each link: the cosine of the keywords with its words, and with those around it."""
    words = np.frombuffer(document.link_words, "<u4")
    hits = np.isin(words, keywords)
    found, at = [], 0
    for inside, around in zip(document.link_words_in, document.link_words_around, strict=True):
        middle, end = at + inside, at + inside + around
        found.append((_cosine(hits[at:middle], len(keywords)), _cosine(hits[middle:end], len(keywords))))
        at = end
    return found


def _cosine(hits: npt.NDArray[np.bool_], keywords: int) -> float:
    return float(hits.sum()) / math.sqrt(len(hits) * keywords) if len(hits) and keywords else 0.0


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

    def priority(self, link: QueuedUrl) -> float:
        """The depth; seeds come first."""
        if not link.depth:
            return SEED_PRIORITY
        return float(link.depth) if link.steps <= self.settings.tunnel_steps else STRAYED_PRIORITY

    def steps_at(self, page: QueuedUrl, judgement: Judgement | None) -> int:
        """Steps since a page of the class that was sought; where none was, of any."""
        is_same = judgement is not None and judgement.accepted and page.sought in (judgement.topic, ROOT)
        return 0 if is_same else page.steps + 1

    def admits(self, url: QueuedUrl) -> bool:
        """Whether it is near enough, in the seeds' domains, and the way to it kept the focus.

        What is not admitted comes last in `order_by`: a refill that meets some of it has brought all that is.
        """
        if not url.depth:
            return True
        near = url.depth <= self._max_depth and url.priority != STRAYED_PRIORITY
        return near and url.host.domain_name in self._domains
