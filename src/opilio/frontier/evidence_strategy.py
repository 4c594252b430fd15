"""Deliberate exploration: now and then a URL is taken because little is known of its kind.

What is worth exploring is unknown by itself: a host or folder of which nothing has been fetched, links of pages of
which none has been followed. How much is worth it shows: what was explored may turn out better or worse than what was
taken as the best. When exploration `adapts`, its share grows and shrinks with that (Best-N-First's future work: a
greediness that adjusts itself).

Our own strategy: all that is known of a waiting URL, in one score.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.errors import SettingsError
from opilio.frontier.link_evidence import FEATURES, JudgedAnew, LinkEvidence
from opilio.frontier.link_words import KindredWords, WordVectors
from opilio.frontier.queue import QueuedUrl
from opilio.frontier.strategies import KnownDocument, Strategy, strategies
from opilio.model import Document, Judgement
from opilio.settings import FrontierSettings

if TYPE_CHECKING:
    import numpy.typing as npt

    Values: TypeAlias = npt.NDArray[np.float64]

MEMORY_PAGES = 50.0
"""How good explored pages and others were is an average that forgets: of about so many of the latest."""
LEAST, MOST = 0.2, 3.0
"""An adapting share stays between these multiples of the setting."""


class Explorer:
    """Says which waiting URLs to take next although they are not the best."""

    def __init__(self, share: float, *, adapts: bool) -> None:
        self._share = share
        self._adapts = adapts
        self._chosen: set[int] = set()
        self._credit = 0.0
        self._explored, self._others = 0.0, 0.0

    @property
    def share(self) -> float:
        """The share of pages that are explored, as it is now."""
        if not self._adapts or not self._others:
            return self._share
        return self._share * float(np.clip(self._explored / self._others, LEAST, MOST))

    def settle(self, oid: int, goodness: float) -> None:
        """A page was fetched, for whatever reason."""
        self._credit += self.share
        if oid in self._chosen:
            self._chosen.discard(oid)
            self._explored += (goodness - self._explored) / MEMORY_PAGES
        else:
            self._others += (goodness - self._others) / MEMORY_PAGES

    def begin(self) -> None:
        """Fetching begins: pages that were told of again, after a restart, have earned their share before."""
        self._credit = min(self._credit, 1.0)

    def forget(self, oid: int) -> None:
        """A URL will not be asked for after all."""
        self._chosen.discard(oid)

    def choose(self, oids: npt.NDArray[np.int64], known: Values, scores: Values) -> npt.NDArray[np.int64]:
        """The places of those to be taken next: of the better half, those of which least is known.

        `known` counts, for each, pages fetched of its kind. At most as many as the share has earned since.
        """
        count = min(int(self._credit + 1e-9), len(oids))
        if count <= 0:
            return np.zeros(0, np.int64)
        self._credit -= count
        better = np.flatnonzero(scores >= np.median(scores))
        order = np.lexsort((oids[better], -scores[better], known[better]))
        places = better[order[:count]]
        self._chosen.update(oids[places].tolist())
        return places

    def is_chosen(self, oid: int) -> bool:
        """Whether a URL is to be taken next for exploration."""
        return oid in self._chosen


WEIGHTS = {
    "best parent": 0.15, "mean parent": 0.30, "any parent": 0.20, "parents": -0.10, "relevant parents": -0.10,
    "strength of parents": 0.25, "words": 0.60, "best words": 0.21, "words around": 0.43, "keywords": 0.50,
    "learned words": 0.82, "best learned words": 0.61, "siblings": 0.50, "links beside": 0.29, "host": -0.10,
    "folder": 0.22, "steps from the topic": -0.60, "kindred words": 1.00,
}  # fmt: skip
"""Of each number, in units of its spread over all waiting URLs: the mean of what was thought before and of what two
logistic regressions found on waiting URLs of simulated crawls of development topics; those of parents by hand, for webs
whose links say less than those of the corpora do (docs/concepts/frontier.md)."""
HUB_WEIGHT = 0.5
"""Of being recommended by great hubs, 1 for the URL that they recommend most."""
SEED_PRIORITY, EXPLORED_PRIORITY = 100.0, 50.0
_EVERY_PAGES = 32
"""All waiting URLs are looked at anew after so many pages, more when many wait: after a page for each ..."""
_URLS_PER_PAGE, _MORE_URLS_PER_PAGE, _MANY_URLS = 50, 5, 10_000
"""... 50 of the first 10,000 and for each 5 of those beyond: a look costs 4 us a URL, and what pages bring is weighed
when they come."""
_LEAST_SPREAD = 1e-6
_SHARPNESS = 3.0
"""Relevance to this power is what counts: a judge made of few examples takes many pages, is sure of few of them, and is
right about those. docs/results/evidence.md has what it is worth."""


@strategies.register("auto")
@strategies.register("evidence")
class AllEvidence(Strategy):
    """The URL of which most is to be expected, by all that is known of it."""

    order_by = "priority desc"
    learns = True
    uses_words = True

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        self.evidence = LinkEvidence()
        self.weights = _weights(settings.evidence_without)
        self._mean = np.zeros(len(FEATURES))
        self._spread = np.ones(len(FEATURES))
        self._recommended: dict[int, float] = {}
        self._explorer = Explorer(settings.explore_share, adapts=settings.explore_adapts)
        self._pages = 0
        self._next = 1
        self._looked = False

    def brief(
        self, keywords: Iterable[int], documents: Iterable[KnownDocument], vectors: WordVectors | None = None
    ) -> None:
        """Learn what the topics are about before the first page."""
        keywords, documents = list(keywords), list(documents)
        for document in documents:
            self.evidence.add_words(document.words, document.relevance)
        if vectors is not None:
            self.evidence.kindred = KindredWords(vectors)
        self._name(keywords, documents)

    def _name(self, keywords: Collection[int], documents: Sequence[KnownDocument]) -> None:
        """Tell what is wanted by its names: keywords, and titles of what is taught."""
        self.evidence.set_keywords(keywords)
        if self.evidence.kindred is not None:
            titles = [np.array(list(keywords), np.uint32), *(document.title for document in documents)]
            goodness = np.array([1.0, *(document.relevance for document in documents)])
            of = np.repeat(np.arange(len(titles)), [len(title) for title in titles])
            self.evidence.kindred.brief(np.concatenate(titles), of, goodness)

    def priority(self, link: QueuedUrl) -> float:
        """Of a URL that no link is known to: the user's own come first, what sitemaps and redirects name may wait."""
        return SEED_PRIORITY if link.depth == 0 else float(link.relevance)

    def observe(
        self, page: QueuedUrl, judgement: Judgement | None, document: Document, oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        """A page was fetched and judged."""
        self._pages += 1
        relevance = _sharpened(judgement.relevance) if judgement is not None else 0.0
        self.evidence.add_words(np.frombuffer(document.term_ids, "<u4"), relevance)
        self.evidence.add_page(page.oid, relevance, page.steps, document, oids, sids)

    def to_weigh(self, linked: Iterable[int]) -> Iterable[int]:
        """Those that many links are new to, of all that any are."""
        return self.evidence.grown()

    def settle(self, oid: int, goodness: float) -> None:
        """What became of a URL is known."""
        self.evidence.settle(oid, _sharpened(goodness))
        self._explorer.settle(oid, goodness)
        self._recommended.pop(oid, None)

    def worth(self, relevance: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Relevance as it counts here."""
        return relevance**_SHARPNESS

    def judge_anew(self, judged: JudgedAnew, keywords: Collection[int]) -> None:
        """Pages were judged anew, and the topics may have other words now; all that waits is to be looked at."""
        self.evidence.judge_anew(judged)
        self._name(keywords, judged.documents)
        self._next = self._pages

    def forget(self, oid: int) -> None:
        """A URL is given up unseen."""
        self.evidence.forget(oid)
        self._explorer.forget(oid)
        self._recommended.pop(oid, None)

    def recommend(self, relevance: Mapping[int, float], hub_scores: Mapping[int, float]) -> None:
        """Great hubs recommend URLs, each by so much."""
        most = max(hub_scores.values(), default=0.0)
        self._recommended = {oid: score / most for oid, score in hub_scores.items()} if most > 0 else {}

    def parts(self, oid: int) -> dict[str, float]:
        """What each piece of evidence adds."""
        if not self.evidence.knows(oid):
            return {}
        added = (self.evidence.features([oid], anew=False)[0] - self._mean) / self._spread * self.weights
        parts = dict(zip(FEATURES, added.tolist(), strict=True))
        if oid in self._recommended:
            parts["great hubs"] = HUB_WEIGHT * self._recommended[oid]
        if self._explorer.is_chosen(oid):
            parts["to be explored"] = EXPLORED_PRIORITY
        return parts

    def priorities(self, urls: Sequence[QueuedUrl]) -> list[float]:
        """How much is to be expected of some waiting URLs; one that no link is known to keeps the priority it had."""
        known = self.evidence.known_among([url.oid for url in urls])
        features = self.evidence.features(known, anew=False)
        scores = dict(zip(known.tolist(), self._scores(known, features).tolist(), strict=True))
        if self.settings.explore_share:
            scores.update((oid, EXPLORED_PRIORITY) for oid in scores if self._explorer.is_chosen(oid))
        return [scores[url.oid] if url.oid in scores else url.priority or self.priority(url) for url in urls]

    def is_due(self) -> bool:
        """Whether all waiting URLs should be looked at anew."""
        return self._pages >= self._next

    def look_anew(self, urls: Sequence[QueuedUrl]) -> list[float]:
        """The priorities of all waiting URLs, by what is usual among them now."""
        if not self._looked:
            self._looked = True
            self._explorer.begin()
        more = max(0, len(urls) - _MANY_URLS)
        many = (len(urls) - more) // _URLS_PER_PAGE + more // _MORE_URLS_PER_PAGE
        self._next = self._pages + max(min(self._pages, _EVERY_PAGES), many)
        known = self.evidence.known_among([url.oid for url in urls])
        self.evidence.refresh()
        features = self.evidence.features(known)
        if len(known) > 1:
            self._mean = features.mean(axis=0)
            self._spread = np.maximum(features.std(axis=0), _LEAST_SPREAD)
        scores = self._scores(known, features)
        if self.settings.explore_share:
            places = self._explorer.choose(known, self.evidence.known_nearby(known), scores)
            scores[places] = EXPLORED_PRIORITY
        found = dict(zip(known.tolist(), scores.tolist(), strict=True))
        return [found.get(url.oid, url.priority) for url in urls]

    def _scores(self, oids: npt.NDArray[np.int64], features: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        scores: npt.NDArray[np.float64] = ((features - self._mean) / self._spread) @ self.weights
        if self._recommended:
            hubs = np.array([self._recommended.get(oid, 0.0) for oid in oids.tolist()], np.float64)
            scores += HUB_WEIGHT * hubs
        return scores


def _weights(without: Sequence[str]) -> npt.NDArray[np.float64]:
    unknown = [name for name in without if name not in FEATURES]
    if unknown:
        raise SettingsError(
            f"[frontier] evidence_without: {unknown[0]!r} is no piece of evidence", f"There are: {', '.join(FEATURES)}."
        )
    return np.array([0.0 if name in without else WEIGHTS[name] for name in FEATURES])


def _sharpened(relevance: float) -> float:
    return float(relevance**_SHARPNESS)
