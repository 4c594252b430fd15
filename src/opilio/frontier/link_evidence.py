"""What is known of queued URLs: the pages that link to them, the words of those links, how others nearby turned out.

When a page has been fetched and judged, everything that led to it learns from that: the pages that link to it, the
links beside those links, its host and folder, the words of the links (`link_memory.py`).

`features` computes numbers from this for any queued URLs at once, whether the few that some new pages link to or all of
them, in some twenty array operations. The views of a link, which are what its words say and how the links beside it
turned out, are kept with the link as of the last look at it: most of the links to a URL have not changed when another
page adds one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.frontier.arrays import Column
from opilio.frontier.link_memory import CONTEXT, LinkMemory, Records
from opilio.frontier.link_words import SLOT, SLOTS
from opilio.frontier.queue import QueuedUrl
from opilio.frontier.strategies import RejudgedPages
from opilio.model import RELEVANT, Document

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.frontier.link_words import Words, WordVectors

    Rows: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]

NEAR = (-3, -2, -1, 1, 2, 3)
"""Offsets, among the links of a page, of the links that stand beside a link."""
PRIOR_PAGES = 3.0
"""The record of a host, folder or page counts as if this many more of its pages were known, of the usual relevance."""
LIKELY_DEAD = 0.9
"""A URL is likely dead when the probability of that is higher. With 0.8 recall fell (docs/results/log.md)."""
PRIOR_DEAD, DEAD_TRUST = 2.0, 0.6
"""The record of dead URLs of a form, host or page counts as if this many more were known, and its log odds count as
this much: the three records overlap. Both by the log loss on requests of simulated crawls (docs/results/log.md)."""
_NEAR = np.array(NEAR)[:, None]
_NEARNESS = 1.0 / np.abs(_NEAR)
_MOST_LINKS = 100_000
"""Links whose views are renewed at a time, at most: a fifth of a second's work."""
_PIECE_LINKS = 2048
"""Links viewed in one piece: intermediate arrays then stay in the processor's cache."""
_VIEWS = 7
_CONTEXT_BACK = np.uint32(pow(int(CONTEXT), -1, 2**32))

FEATURES = (
    "best parent", "mean parent", "any parent", "parents", "relevant parents", "strength of parents",
    "words", "best words", "words around", "keywords", "learned words", "best learned words",
    "siblings", "links beside", "host", "folder", "steps from the topic", "embedding similarity", "likely dead",
)  # fmt: skip


class LinkEvidence:
    """The evidence for queued URLs: a memory of links, and what it amounts to."""

    def __init__(self) -> None:
        self.memory = LinkMemory()
        self._keywords = np.zeros(0, np.uint32)
        self._may_be_keyword = np.zeros(SLOTS, np.bool_)
        """By slot of a word: whether a keyword has the same slot."""
        self._views: Column[np.float32] = Column(np.float32, _VIEWS)
        """By link: what `_view` gave at the last look."""
        self._viewed_to = 0
        self._forgotten = 0
        """Links whose views were forgotten."""

    # -- what happens

    def set_keywords(self, keywords: Iterable[int]) -> None:
        """The hash codes of the words that name the topics."""
        self._keywords = np.array(sorted(set(keywords)), np.uint32)
        self._may_be_keyword[:] = False
        self._may_be_keyword[self._keywords & SLOT] = True

    def use_vectors(self, vectors: WordVectors) -> None:
        """Score words by their vectors too, from now on."""
        self.memory.use_vectors(vectors)

    def set_titles(self, words: Words, of: Rows, relevance: Values) -> None:
        """The words of titles whose relevance is known before the crawl, for the similarity of vectors."""
        if self.memory.similarity is not None:
            self.memory.similarity.prepare(words, of, relevance)

    def add_page(
        self, oid: int, relevance: float, steps: int, document: Document, oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        """A page was fetched, with links to `oids`, ABSENT for those that are not followed, on hosts `sids`.

        `steps` is the number of links followed since the last relevant page.
        """
        if self.memory.note_page(oid, relevance, steps, document, oids, sids):
            self.process_events()

    def add_words(self, words: Words, relevance: float) -> None:
        """Learn from the words of a page: links to pages like it will have the same words."""
        self.memory.note_words(words, relevance)

    def settle(self, oid: int, relevance: float, *, is_dead: bool = False) -> None:
        """The relevance of a URL's page is known: 0 for a page that could not be had, such as that of a dead URL."""
        self.memory.settle(oid, relevance, is_dead=is_dead)

    def forget(self, oid: int) -> None:
        """A URL will not be fetched, which says nothing about its page."""
        self.memory.forget(oid)

    def hand_over(self, oid: int, target: int, url: QueuedUrl | None) -> None:
        """A URL leads to `target`, which is `url` when that is queued: links to the first are links to the second."""
        self.memory.hand_over(oid, target, url)

    def pages_seen(self) -> Rows:
        """The oids of all pages added so far."""
        self.process_events()
        return self.memory.pages.oid.values.copy()

    def rejudge(self, rejudged: RejudgedPages, words_since: Sequence[tuple[Words, float]] = ()) -> None:
        """Correct all that depends on the relevance of pages.

        `words_since` are the words of pages that were added after `pages_seen` was called.
        """
        self.process_events()
        self.memory.rejudge(rejudged, words_since)

    def process_events(self, *, may_wait: bool = False) -> None:
        """Process everything that was added, and view the new links."""
        memory = self.memory
        memory.process_events(may_wait=may_wait)
        links = memory.links
        if links.forgotten > self._forgotten:
            count = links.forgotten - self._forgotten
            self._forgotten = links.forgotten
            self._views.cut(min(count, len(self._views)))
            self._viewed_to = max(0, self._viewed_to - count)
        for at in range(len(self._views), len(links), _PIECE_LINKS):
            piece = np.arange(at, min(at + _PIECE_LINKS, len(links)))
            self._views.grow(at + len(piece))
            piece = piece[np.isnan(links.relevance.values[piece])]  # the others are not needed
            self._views.values[piece] = self._view(piece)

    # -- what it amounts to

    def knows(self, oid: int) -> bool:
        """Whether there is evidence for a URL: a remembered link to it, while its relevance is not known."""
        return len(self.known_among([oid])) > 0

    def known_among(self, oids: Sequence[int]) -> Rows:
        """Those of some URLs that there is evidence for."""
        self.process_events(may_wait=True)
        return self.memory.known_among(oids)

    def grown(self) -> list[int]:
        """The URLs to which many of the links are new: links found since the last call count as new."""
        self.process_events(may_wait=True)
        return self.memory.grown()

    def refresh(self) -> None:
        """Recompute the scores of all words."""
        self.process_events()
        memory = self.memory
        memory.page_words.refresh()
        memory.link_words.refresh()
        if memory.similarity is not None:
            memory.similarity.refresh(memory.relevance.values)

    def features(self, oids: Sequence[int] | Rows, *, renew: bool = True) -> Values:
        """One row of numbers, by `FEATURES`, for each of some URLs that there is evidence for.

        With `renew`, the views of the links to them are renewed; else only what changes with each page is.
        """
        self.process_events(may_wait=not renew)
        if not len(oids):
            return np.zeros((0, len(FEATURES)))
        memory, pages = self.memory, self.memory.pages
        links, which = memory.chains.follow(np.asarray(oids, np.int64))
        sizes = np.bincount(which, minlength=len(oids))
        starts = sizes.cumsum() - sizes
        parents = memory.links.parent.values[links]
        relevance = pages.relevance.values[parents]
        usual = memory.usual

        def total(values: Values) -> Values:
            return np.add.reduceat(values, starts)

        def most(values: Values) -> Values:
            return np.maximum.reduceat(values, starts)

        children_known = total(pages.children.known.values[parents])
        children_good = total(pages.children.good.values[parents])
        if renew:
            self._renew_views(links)
        views = self._views.values[links].T.astype(np.float64, order="C")
        beside_known, beside_good, words, around, _, learned, similarity = np.add.reduceat(views, starts, axis=1)
        best_words, _, best_keywords, best_learned = np.maximum.reduceat(views[2:6], starts, axis=1)
        hosts, folders = memory.homes(oids)
        table = [
            most(relevance),
            total(relevance) / sizes,
            -total(np.log1p(-0.95 * relevance)),
            np.log(sizes),
            total((relevance >= RELEVANT).astype(np.float64)) / sizes,
            total(relevance / np.sqrt(pages.links.values[parents])),
            words / sizes,
            best_words,
            around / sizes,
            best_keywords,
            learned / sizes,
            best_learned,
            (children_good + PRIOR_PAGES * usual) / (children_known + PRIOR_PAGES),
            (beside_good + PRIOR_PAGES * usual) / (beside_known + PRIOR_PAGES),
            self._record(memory.hosts, hosts, usual),
            self._record(memory.folders, folders, usual),
            -most(-pages.steps.values[parents]),
            similarity / sizes,
            self._death(oids, total(pages.dead.known.values[parents]), total(pages.dead.good.values[parents]))
            > LIKELY_DEAD,
        ]
        return np.array(table).T

    def _death(self, oids: Sequence[int] | Rows, linked: Values, linked_dead: Values) -> Values:
        """The probability that each of some URLs is dead.

        It is estimated from the URLs of the same form, those of the same form and host, and those linked to from the
        same pages: each of the three records adds a part of its log odds.
        """
        memory = self.memory
        usual = memory.usually_dead
        base = np.log(usual / (1.0 - usual))
        forms, host_forms = memory.forms_of(oids)
        odds = np.full(len(oids), base)
        for known, dead in (
            (memory.forms.known.values[forms], memory.forms.good.values[forms]),
            (memory.host_forms.known.values[host_forms], memory.host_forms.good.values[host_forms]),
            (linked, linked_dead),
        ):
            alive = known - dead
            ratio = (dead + PRIOR_DEAD * usual) / (alive + PRIOR_DEAD * (1.0 - usual))
            odds += DEAD_TRUST * (np.log(ratio) - base)
        probability: Values = 1.0 / (1.0 + np.exp(-odds))
        return probability

    def known_nearby(self, oids: Rows) -> Values:
        """How many pages are known of the host and of the folder of each of some URLs that there is evidence for."""
        hosts, folders = self.memory.homes(oids)
        return self.memory.hosts.known.values[hosts] + self.memory.folders.known.values[folders]

    @staticmethod
    def _record(records: Records, rows: Rows, usual: float) -> Values:
        return (records.good.values[rows] + PRIOR_PAGES * usual) / (records.known.values[rows] + PRIOR_PAGES)

    # -- views of links

    def _renew_views(self, links: Rows) -> None:
        """View links again; when there are very many, those whose turn it is."""
        if len(links) > _MOST_LINKS:
            links = np.sort(links)
            links = np.roll(links, -int(np.searchsorted(links, self._viewed_to)))[:_MOST_LINKS]
            self._viewed_to = int(links[-1]) + 1
        for at in range(0, len(links), _PIECE_LINKS):
            piece = links[at : at + _PIECE_LINKS]
            self._views.values[piece] = self._view(piece)

    def _view(self, links: Rows) -> Values:
        """The views of links, a row for each: the links beside it, and its words."""
        return np.array((*self._beside(links), *self._word_scores(links))).T

    def _beside(self, links: Rows) -> tuple[Values, Values]:
        """Of the links beside each link: how many targets are known, the nearer counting more, and how relevant."""
        table = self.memory.links
        near = links + _NEAR
        inside = np.minimum(np.maximum(near, 0), len(table) - 1)
        relevance = table.relevance.values[inside]
        parents = table.parent.values
        counts = (inside == near) & ~np.isnan(relevance) & (parents[inside] == parents[links])
        weights = counts * _NEARNESS
        return weights.sum(axis=0), (weights * np.where(counts, relevance, 0.0)).sum(axis=0)

    def _word_scores(self, links: Rows) -> tuple[Values, Values, Values, Values, Values]:
        """By link: the odds of its words and of those around it, by words of pages; its keywords; the odds of both, by
        words of links; and the similarity of its words to those of links to relevant pages."""
        memory, table, size = self.memory, self.memory.links, len(links)
        starts, inner, outer = (c.values[links] for c in (table.words_start, table.words_in, table.words_around))
        words, of, _ = table.words_of(starts, inner + outer)
        # Twice as many places as links: at the even ones are words in links, at the odd ones those around them.
        place = np.arange(2 * size).repeat(np.array((inner, outer)).T.ravel())
        odds = memory.page_words.odds(np.where(place & 1, words * _CONTEXT_BACK, words))
        total = np.bincount(place, odds, 2 * size)
        keywords = np.bincount(place, self._is_keyword(words), 2 * size)
        return (
            total[::2] / np.sqrt(1.0 + inner),
            total[1::2] / np.sqrt(1.0 + outer),
            keywords[::2] / np.sqrt(1.0 + inner),
            np.bincount(of, memory.link_words.odds(words), size) / np.sqrt(1.0 + inner + outer),
            self._similarities(words, place, inner),
        )

    def _similarities(self, words: Words, place: Rows, inner: Rows) -> Values:
        similarity = self.memory.similarity
        if similarity is None:
            return np.zeros(len(inner))
        is_inside = (place & 1) == 0
        total = np.bincount(place[is_inside] >> 1, similarity.scores(words[is_inside]), len(inner))
        scores: Values = total / np.sqrt(1.0 + inner)
        return scores

    def _is_keyword(self, words: Words) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self._may_be_keyword[words & SLOT]
        candidates = words[found]
        if len(candidates):
            at = np.searchsorted(self._keywords, candidates)
            at[at == len(self._keywords)] = 0
            found[found] = self._keywords[at] == candidates
        return found
