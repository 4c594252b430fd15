"""The strategies of the papers, each as its paper describes it.

In most of them the score of a link comes from the page it is on (`InheritedScores`). They differ in what is taken from
that page, in what a second page that links to the same URL changes, and in whether the links of off-topic pages are
followed. `SharpFocus` is the order of BINGO's learning phase (BINGO 2.6, 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from opilio.frontier.arrays import ABSENT
from opilio.frontier.queue import QueuedUrl
from opilio.frontier.strategies import KnownDocument, LearningStrategy, LinkTextStrategy, Strategy, strategies
from opilio.model import Document, Judgement
from opilio.settings import FrontierSettings
from opilio.topics.hierarchy import ROOT

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.frontier.link_words import Words, WordVectors


SEED_SCORE = 1.0
# Shark-Search's constants, as its authors chose them.
SHARK_DECAY, SHARK_INHERITED, SHARK_ANCHOR = 0.5, 0.5, 0.8
SEED_PRIORITY = 1e6
STRAYED_PRIORITY = -1.0
"""Of a URL that was found where the focus had been lost. It is stored, so that a refill sees it too."""


class InheritedScores(LearningStrategy):
    """Base class of the papers' strategies: keeps the score of each URL that is queued or leased."""

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        self._scores: dict[int, float] = {}
        self._settled = bytearray()
        """By oid: 1 once a URL is settled; links to it have no score any more."""

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
        """Whether a URL is not settled yet."""
        return oid != ABSENT and (oid >= len(self._settled) or not self._settled[oid])

    def settle(self, oid: int, relevance: float | None) -> None:
        """Discard its score."""
        self._scores.pop(oid, None)
        if oid >= len(self._settled):
            self._settled.extend(bytes(oid + 1 - len(self._settled)))
        self._settled[oid] = 1

    def hand_over(self, oid: int, target: int, url: QueuedUrl | None) -> None:
        """The target has its score: that of the redirected URL, joined with its own if it has one."""
        score = self._scores.get(oid)
        if score is not None and self.is_open(target):
            self._scores[target] = self.joined(target, score) if target in self._scores else score

    def recommend(self, relevance: Mapping[int, float], hub_scores: Mapping[int, float]) -> None:
        """A URL that great hubs link to counts as if a page as relevant as their other links had it (Focus 3.7)."""
        for oid, value in relevance.items():
            if self.is_open(oid):
                self._scores[oid] = max(value, self._scores.get(oid, 0.0))

    def score_of(self, url: QueuedUrl) -> float:
        """The score of a URL that is queued or leased."""
        return self._scores.get(url.oid, url.priority or self.priority(url))

    def priority(self, link: QueuedUrl) -> float:
        """Of a URL that has no score."""
        return SEED_SCORE if link.depth == 0 else link.relevance

    def priorities(self, links: Sequence[QueuedUrl]) -> list[float]:
        """The scores; seeds, and examples that were mere links when the user named them, come first."""
        return [self.score_of(link) if link.depth else self.priority(link) for link in links]


@strategies.register("focus")
class Focus(InheritedScores):
    """Soft focus: the relevance of the most relevant page that links to it (Focus 2.1.2)."""


@strategies.register("focus-hard")
class HardFocus(InheritedScores):
    """Hard focus: only links of pages on a good topic are followed. A crawl may run dry (Focus 2.1.2)."""

    def follows(self, page: QueuedUrl, judgement: Judgement | None) -> bool:
        """Whether the page is on a good topic."""
        return judgement is None or judgement.is_relevant


@strategies.register("bingo")
class Bingo(InheritedScores):
    """The confidence of the page, halved for each step through pages that no topic accepted (BINGO 3.3, 4.2).

    Confidence is between 0 and 1, as relevance is: so a tunnelled link never comes before a link of an accepted page.
    With distances from the hyperplane, where examples are far ahead of all that is found, it would.
    """

    def follows(self, page: QueuedUrl, judgement: Judgement | None) -> bool:
        """Whether a topic accepted the page, or one of the last pages on the path to it."""
        return judgement is None or judgement.accepted or page.steps <= self.settings.tunnel_steps

    def link_scores(self, page: QueuedUrl, judgement: Judgement, document: Document) -> Sequence[float]:
        """The page's own confidence, or a part of the score that it inherited."""
        if judgement.accepted:
            return [judgement.relevance]
        return [self.settings.tunnel_decay * self.score_of(page)]


@strategies.register("oasis")
class Oasis(InheritedScores):
    """The mean relevance of all pages that link to it; it moves as more are found (OASIS 1)."""

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        self._parents: dict[int, int] = {}

    def joined(self, oid: int, score: float) -> float:
        """The mean, with one page more."""
        parents = self._parents[oid] = self._parents.get(oid, 1) + 1
        return self._scores[oid] + (score - self._scores[oid]) / parents

    def settle(self, oid: int, relevance: float | None) -> None:
        """Discard its score."""
        super().settle(oid, relevance)
        self._parents.pop(oid, None)


@strategies.register("shark-search")
class SharkSearch(InheritedScores, LinkTextStrategy):
    """What a page inherits, and the keywords in the words of the link and around it (Hersovici et al., 1998).

    A page passes on half of its own relevance; one that has none, half of what it inherited. The words around a link
    count when none of its own words is a keyword.
    """

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        self._keywords: Words = np.zeros(0, np.uint32)
        self._inherited: dict[int, float] = {}
        self._passed = 0.0

    def prepare(
        self, keywords: Iterable[int], documents: Iterable[KnownDocument], vectors: WordVectors | None = None
    ) -> None:
        """Take the keywords."""
        self._keywords = np.array(sorted(set(keywords)), np.uint32)

    def link_scores(self, page: QueuedUrl, judgement: Judgement, document: Document) -> Sequence[float]:
        """A score for each link."""
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

    def hand_over(self, oid: int, target: int, url: QueuedUrl | None) -> None:
        """The target inherits it too."""
        super().hand_over(oid, target, url)
        if oid in self._inherited and self.is_open(target):
            self._inherited[target] = max(self._inherited.pop(oid), self._inherited.get(target, 0.0))

    def settle(self, oid: int, relevance: float | None) -> None:
        """Discard its score; what it inherits is needed until its links were observed."""
        super().settle(oid, relevance)
        if relevance:
            self._inherited.pop(oid, None)


def _likeness(document: Document, keywords: Words) -> list[tuple[float, float]]:
    """By link: the cosine of the keywords with its words, and with those around it."""
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


class SharpFocus(Strategy):
    """Depth-first, within some domains, as long as pages are of the same class as those that led to them.

    Links that are not followed stay in the database: the harvest begins with them. Up to `tunnel_steps` pages of other
    classes are passed through, as by the papers' crawler, so that a crawl does not run dry at a welcome page.
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
        """Links followed since a page of the class of the page before; of any class, where that has none."""
        is_same = judgement is not None and judgement.accepted and page.sought in (judgement.topic, ROOT)
        return 0 if is_same else page.steps + 1

    def admits(self, url: QueuedUrl) -> bool:
        """Whether it is near enough, in the seeds' domains, and was found without losing the focus.

        URLs that are not admitted come last in `order_by`: a refill that finds one has brought all that are admitted.
        """
        if not url.depth:
            return True
        near = url.depth <= self._max_depth and url.priority != STRAYED_PRIORITY
        return near and url.host.domain_name in self._domains
