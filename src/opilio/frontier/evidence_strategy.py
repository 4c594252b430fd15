"""The strategy `evidence`: everything that is known of a queued URL, in one score.

`AllEvidence` weighs the numbers of `LinkEvidence`. `Explorer` adds deliberate exploration: now and then a URL is taken
because little is known of its kind, such as a host or folder of which nothing has been fetched. Whether that pays shows
later: explored pages may turn out better or worse than those taken as the best. When exploration `adapts`, its share
grows and shrinks with that (Best-N-First's future work: a greediness that adjusts itself).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.errors import SettingsError
from opilio.frontier.link_evidence import FEATURES, LinkEvidence
from opilio.frontier.link_texts import TextSimilarity
from opilio.frontier.queue import QueuedUrl
from opilio.frontier.strategies import KnownDocument, LinkTextStrategy, RejudgedPages, strategies
from opilio.model import Document, Judgement
from opilio.settings import FrontierSettings

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.frontier.link_texts import Encode
    from opilio.frontier.link_words import Words, WordVectors

    Oids: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]

WEIGHTS = {
    "best parent": 0.15, "mean parent": 0.30, "any parent": 0.20, "parents": -0.10, "relevant parents": -0.10,
    "strength of parents": 0.25, "words": 0.60, "best words": 0.21, "words around": 0.43, "keywords": 0.50,
    "learned words": 0.82, "best learned words": 0.61, "siblings": 0.50, "links beside": 0.29, "host": -0.10,
    "folder": 0.22, "steps from the topic": -0.60, "embedding similarity": 1.00,
    "likely dead": -20.00,
}  # fmt: skip
"""Weight of each number, in units of its spread over all queued URLs: the mean of a first guess and of what two
logistic regressions found on queued URLs of simulated crawls of development topics. Those of parents were set by hand,
for webs whose links say less than those of the corpora do (docs/concepts/frontier.md). `likely dead` is 0 or 1 and not
standardised: its weight puts such URLs behind all others."""
FORMER_NAMES = {"kindred words": "embedding similarity"}
"""Names of evidence that settings of older collections may have."""
HUB_WEIGHT = 0.5
"""Weight of being recommended by great hubs, which is 1 for the URL that they recommend most."""
ENCODED_URLS = 300
"""With a sentence encoder, this many of the best queued URLs are scored by the similarity of their texts too."""
TEXT_WEIGHT = 1.0
"""Weight of that similarity, in units of its spread over these URLs (docs/results/log.md, 2026-11-18)."""
SEED_PRIORITY, EXPLORED_PRIORITY = 100.0, 50.0
MEMORY_PAGES = 50.0
"""The relevance of explored pages and of others is an average over about this many of the latest."""
LEAST, MOST = 0.2, 3.0
"""An adapting share stays between these multiples of the setting."""
_EVERY_PAGES = 32
"""All queued URLs are reprioritised after at least this many pages."""
_URLS_PER_PAGE, _MORE_URLS_PER_PAGE, _MANY_URLS = 50, 5, 10_000
"""It takes one more page for every 50 queued URLs up to 10,000, and for every 5 beyond: reprioritising costs 4 us a
URL, and the links of new pages are scored when the pages come."""
_LEAST_SPREAD, _MOST_SPREADS = 1e-6, 5.0
"""No number counts for more than five spreads: while all queued URLs are alike, a spread says nothing."""
_LIKELY_DEAD = FEATURES.index("likely dead")
_SHARPNESS = 3.0
"""Relevance to this power is what counts: a classifier made of few examples accepts many pages, is sure of few of them,
and is right about those. Without it every web finds less (docs/results/log.md, 2026-11-18)."""


class Explorer:
    """Chooses queued URLs that are taken next although they are not the best."""

    def __init__(self, share: float, *, adapts: bool) -> None:
        self._share = share
        self._adapts = adapts
        self._chosen: set[int] = set()
        self._credit = 0.0
        self._explored, self._others = 0.0, 0.0

    @property
    def share(self) -> float:
        """The share of pages that are explored at present."""
        if not self._adapts or not self._others:
            return self._share
        return self._share * float(np.clip(self._explored / self._others, LEAST, MOST))

    def settle(self, oid: int, relevance: float) -> None:
        """A page was fetched, for whatever reason."""
        self._credit += self.share
        if oid in self._chosen:
            self._chosen.discard(oid)
            self._explored += (relevance - self._explored) / MEMORY_PAGES
        else:
            self._others += (relevance - self._others) / MEMORY_PAGES

    def begin(self) -> None:
        """Fetching begins: pages that were replayed after a restart earned their share before."""
        self._credit = min(self._credit, 1.0)

    def forget(self, oid: int) -> None:
        """A URL will not be fetched after all."""
        self._chosen.discard(oid)

    def choose(self, oids: Oids, known: Values, scores: Values) -> Oids:
        """The indexes of those to be taken next: of the better half, those of which least is known.

        `known` counts, for each, fetched pages of its kind. At most as many are chosen as the share has earned.
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


@strategies.register("auto")
@strategies.register("evidence")
class AllEvidence(LinkTextStrategy):
    """The URL whose page is expected to be the most relevant, by everything that is known of it."""

    def __init__(self, settings: FrontierSettings) -> None:
        super().__init__(settings)
        self.evidence = LinkEvidence()
        self.weights = _weights(settings.evidence_without)
        self._mean = np.zeros(len(FEATURES))
        self._spread = np.ones(len(FEATURES))
        self._recommended: dict[int, float] = {}
        self._explorer = Explorer(settings.explore_share, adapts=settings.explore_adapts)
        self._rejudging: EvidenceRejudging | None = None
        self._texts: TextSimilarity | None = None
        """Of the texts of links; None without a sentence encoder."""
        self._least_encoded = -np.inf
        """URLs with at least this score are scored by their texts too."""
        self._pages = 0
        self._next = 1
        self._has_begun = False

    # -- learning

    def prepare(
        self, keywords: Iterable[int], documents: Iterable[KnownDocument], vectors: WordVectors | None = None
    ) -> None:
        """Learn what the topics are about before the first page."""
        documents = list(documents)
        for document in documents:
            self._add_words(document.words, document.relevance)
        if vectors is not None:
            self.evidence.use_vectors(vectors)
        self._set_names(list(keywords), documents)

    def use_encoder(self, encode: Encode, texts: Sequence[tuple[str, float]]) -> None:
        """Score the best queued URLs by the texts of links too, from now on."""
        self._texts = TextSimilarity(encode)
        self._texts.prepare(texts)

    def _set_names(self, keywords: Collection[int], documents: Sequence[KnownDocument]) -> None:
        """Take what names the topics: keywords, and titles of training documents."""
        self.evidence.set_keywords(keywords)
        titles = [np.array(list(keywords), np.uint32), *(document.title for document in documents)]
        relevance = np.array([1.0, *(document.relevance for document in documents)])
        of = np.repeat(np.arange(len(titles)), [len(title) for title in titles])
        self.evidence.set_titles(np.concatenate(titles), of, relevance)

    def observe(
        self, page: QueuedUrl, judgement: Judgement | None, document: Document, oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        """Learn from the words and links of a page."""
        self._pages += 1
        relevance = _sharpened(judgement.relevance) if judgement is not None else 0.0
        self._add_words(np.frombuffer(document.term_ids, "<u4"), relevance)
        self.evidence.add_page(page.oid, relevance, page.steps, document, oids, sids)
        if self._texts is not None:
            self._texts.add_links(document, oids)

    def _add_words(self, words: Words, relevance: float) -> None:
        self.evidence.add_words(words, relevance)
        if self._rejudging is not None:
            self._rejudging.words_since.append((words, relevance))

    def settle(self, oid: int, relevance: float | None) -> None:
        """Learn how a URL ended."""
        if relevance is None:
            self.evidence.forget(oid)
            self._explorer.forget(oid)
            if self._texts is not None:
                self._texts.forget(oid)
            self._recommended.pop(oid, None)
        else:
            self._settle(oid, relevance, is_dead=False)

    def settle_dead(self, oid: int) -> None:
        """Learn that a URL is dead: its relevance is 0, and URLs like it are likely dead too."""
        self._settle(oid, 0.0, is_dead=True)

    def _settle(self, oid: int, relevance: float, *, is_dead: bool) -> None:
        self.evidence.settle(oid, _sharpened(relevance), is_dead=is_dead)
        self._explorer.settle(oid, relevance)
        if self._texts is not None:
            self._texts.settle(oid)
        self._recommended.pop(oid, None)

    def hand_over(self, oid: int, target: int, url: QueuedUrl | None) -> None:
        """Links to a URL become links to its target, and what hubs say of it is said of the target."""
        self.evidence.hand_over(oid, target, url)
        if self._texts is not None:
            self._texts.hand_over(oid, target)
        if oid in self._recommended:
            self._recommended[target] = max(self._recommended[oid], self._recommended.get(target, 0.0))

    def recommend(self, relevance: Mapping[int, float], hub_scores: Mapping[int, float]) -> None:
        """Great hubs recommend URLs: their scores count, relative to the highest."""
        most = max(hub_scores.values(), default=0.0)
        self._recommended = {oid: score / most for oid, score in hub_scores.items()} if most > 0 else {}

    def rejudging(self) -> EvidenceRejudging:
        """Stored pages are about to be re-judged."""
        self._rejudging = EvidenceRejudging(self, self.evidence.pages_seen())
        return self._rejudging

    def end_rejudging(self, rejudged: RejudgedPages | None, words_since: Sequence[tuple[Words, float]] = ()) -> None:
        """Take new judgements of pages, if there are any; all queued URLs are reprioritised then."""
        self._rejudging = None
        if rejudged is not None:
            self.evidence.rejudge(rejudged, words_since)
            self._set_names(rejudged.keywords, rejudged.documents)
            if self._texts is not None:
                self._texts.prepare(rejudged.texts)
            self._next = self._pages

    # -- priorities

    def priority(self, link: QueuedUrl) -> float:
        """Of a URL without evidence: seeds come first, what sitemaps name comes late."""
        return SEED_PRIORITY if link.depth == 0 else float(link.relevance)

    def priorities(self, links: Sequence[QueuedUrl]) -> list[float]:
        """Scores that rank queued URLs by expected relevance; a URL without evidence keeps the priority it had.

        Seeds come first, and so do examples that were mere links when the user named them.
        """
        known = self.evidence.known_among([url.oid for url in links])
        features = self.evidence.features(known, renew=False)
        scored = self._with_texts(known, self._scores(known, features))
        scores = dict(zip(known.tolist(), scored.tolist(), strict=True))
        if self.settings.explore_share:
            scores.update((oid, EXPLORED_PRIORITY) for oid in scores if self._explorer.is_chosen(oid))

        def score(url: QueuedUrl) -> float:
            return scores[url.oid] if url.oid in scores else url.priority or self.priority(url)

        return [score(url) if url.depth else self.priority(url) for url in links]

    def outdated(self, linked: Iterable[int]) -> Iterable[int]:
        """The queued URLs whose number of known links has grown noticeably since they were scored."""
        return self.evidence.grown()

    def reprioritise(self, urls: Collection[QueuedUrl]) -> list[float] | None:
        """The priorities of all queued URLs, by means and spreads over them as they are now."""
        if self._pages < self._next:
            return None
        if not self._has_begun:
            self._has_begun = True
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
            self._mean[_LIKELY_DEAD], self._spread[_LIKELY_DEAD] = 0.0, 1.0
        scores = self._scores(known, features)
        if self._texts is not None:
            self._least_encoded = np.sort(scores)[-ENCODED_URLS] if len(scores) > ENCODED_URLS else -np.inf
            self._texts.refresh(self.evidence.memory.relevance.values, known[scores >= self._least_encoded])
            scores = self._with_texts(known, scores)
        if self.settings.explore_share:
            places = self._explorer.choose(known, self.evidence.known_nearby(known), scores)
            scores[places] = EXPLORED_PRIORITY
        found = dict(zip(known.tolist(), scores.tolist(), strict=True))
        return [found.get(url.oid, url.priority) if url.depth else self.priority(url) for url in urls]

    def explain(self, oid: int) -> dict[str, float]:
        """What each piece of evidence adds."""
        if not self.evidence.knows(oid):
            return {}
        added = self._standardised(self.evidence.features([oid], renew=False)[0]) * self.weights
        parts = dict(zip(FEATURES, added.tolist(), strict=True))
        if self._texts is not None and added.sum() >= self._least_encoded:
            parts["text similarity"] = TEXT_WEIGHT * float(self._texts.similarities(np.array([oid]))[0])
        if oid in self._recommended:
            parts["great hubs"] = HUB_WEIGHT * self._recommended[oid]
        if self._explorer.is_chosen(oid):
            parts["to be explored"] = EXPLORED_PRIORITY
        return parts

    def _standardised(self, features: Values) -> Values:
        """Numbers in units of their spread over all queued URLs."""
        return np.clip((features - self._mean) / self._spread, -_MOST_SPREADS, _MOST_SPREADS)

    def _scores(self, oids: Oids, features: Values) -> Values:
        scores: Values = self._standardised(features) @ self.weights
        if self._recommended:
            hubs = np.array([self._recommended.get(oid, 0.0) for oid in oids.tolist()], np.float64)
            scores += HUB_WEIGHT * hubs
        return scores

    def _with_texts(self, oids: Oids, scores: Values) -> Values:
        """Scores to which, for the best, the similarity of texts is added."""
        if self._texts is None:
            return scores
        added = np.zeros(len(scores))
        best = scores >= self._least_encoded
        added[best] = TEXT_WEIGHT * self._texts.similarities(oids[best])
        return scores + added


class EvidenceRejudging:
    """Pages that the evidence was learned from are being re-judged; it keeps learning meanwhile."""

    def __init__(self, order: AllEvidence, oids: Oids) -> None:
        self.oids = oids
        self.words_since: list[tuple[Words, float]] = []
        """The words of pages that came meanwhile."""
        self._order = order

    def weigh(self, relevance: Values) -> Values:
        """Relevance as it counts for the strategy."""
        return relevance**_SHARPNESS

    def finish(self, rejudged: RejudgedPages) -> None:
        """Correct what was learned from the old judgements."""
        self._order.end_rejudging(rejudged, self.words_since)

    def cancel(self) -> None:
        """The old judgements stand."""
        self._order.end_rejudging(None)


def _weights(without: Sequence[str]) -> Values:
    left_out = [FORMER_NAMES.get(name, name) for name in without]
    unknown = [name for name in left_out if name not in FEATURES]
    if unknown:
        raise SettingsError(
            f"[frontier] evidence_without: {unknown[0]!r} is no piece of evidence", f"There are: {', '.join(FEATURES)}."
        )
    return np.array([0.0 if name in left_out else WEIGHTS[name] for name in FEATURES])


def _sharpened(relevance: float) -> float:
    return float(relevance**_SHARPNESS)
