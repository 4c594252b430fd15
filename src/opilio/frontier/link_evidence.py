"""Pages are judged anew: what was learned from the old judgements is put right, without being told all again.

What is known of waiting URLs: the pages that link to them, the words of those links, what became of others nearby.

When a page has been fetched and judged, all that led to it learn from that: the pages it was linked from, the links
beside it, its host and folder, its links' words (`link_memory.py`).

`features` makes numbers of this for any waiting URLs at once, whether the few that some new pages link to or all of
them, in some twenty array operations. What the words of a link say, and what became of the links beside it, is
remembered with the link, as of the last look at it: most of the links to a URL have not changed when a page adds one
more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from opilio.frontier.arrays import ABSENT, Column, once
from opilio.frontier.link_memory import CONTEXT, HALF_BITS, LOWER_HALF, LinkMemory, RelevanceRecords
from opilio.frontier.link_words import SLOT, SLOTS, WordOdds
from opilio.frontier.strategies import KnownDocument
from opilio.model import RELEVANT

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.frontier.link_words import Words

    Rows: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]


class JudgedAnew(NamedTuple):
    """What a new model says of pages that were seen."""

    oids: Rows
    goodness: Values
    steps: Values
    """Of each page: how many links ago the last relevant page was."""
    page_words: WordOdds
    """Of these pages, and of what is taught."""
    documents: Sequence[KnownDocument] = ()
    """What is taught by now."""


class Reconsidering(LinkMemory):
    """A memory of links whose lessons can be corrected."""

    def __init__(self) -> None:
        super().__init__()
        self._meanwhile: list[tuple[Words, float]] | None = None
        """The words of pages that came while others were judged anew."""

    def add_words(self, words: Words, relevance: float) -> None:
        """Learn from the words of a page: what the pages of the topic speak of, links to them will speak of too."""
        super().add_words(words, relevance)
        if self._meanwhile is not None:
            self._meanwhile.append((words, relevance))

    def pages_seen(self) -> Rows:
        """The oids of all pages seen so far; the words of those that come from now on are noted for `judge_anew`."""
        self.catch_up()
        self._meanwhile = []
        return self._page_oid.values.copy()

    def never_mind(self) -> None:
        """Nothing is judged anew after all: the words of pages need not be noted any longer."""
        self._meanwhile = None

    def judge_anew(self, judged: JudgedAnew) -> None:
        """Put right what depends on how good pages are. `pages_seen` was called before they were judged."""
        self.catch_up()
        self._grow_oids(int(judged.oids.max(initial=-1)) + 1)
        before = self._goodness.values.astype(np.float64)
        self._goodness.values[judged.oids] = judged.goodness
        gained = self._goodness.values - before
        is_new = np.isnan(before[judged.oids])
        gained[np.isnan(gained)] = 0.0
        self._correct_pages(judged)
        self._correct_records(gained)
        self._correct_links(gained)
        self._settle_unjudged(judged.oids[is_new], judged.goodness[is_new])
        self.page_words = judged.page_words
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile:
            self._learn_words(meanwhile)

    def _correct_pages(self, judged: JudgedAnew) -> None:
        goodness = self._goodness.values[self._page_oid.values]
        self._relevance.values[:] = np.nan_to_num(goodness)
        steps = np.full(len(self._goodness), np.nan)
        steps[judged.oids] = judged.steps
        steps = steps[self._page_oid.values]
        known = ~np.isnan(steps)
        self._steps.values[known] = steps[known]

    def _correct_records(self, gained: Values) -> None:
        self._good_pages += float(gained.sum())
        changed = np.flatnonzero((gained != 0.0) & (self._home.values != ABSENT))
        homes = self._home.values[changed]
        np.add.at(self._hosts.good.values, homes >> HALF_BITS, gained[changed])
        np.add.at(self._folders.good.values, homes & LOWER_HALF, gained[changed])

    def _correct_links(self, gained: Values) -> None:
        known = np.flatnonzero(~np.isnan(self._fate.values))
        targets = self._target.values[known]
        self._fate.values[known] = self._goodness.values[targets]
        children = once(self._parent.values[known] << HALF_BITS | targets)
        np.add.at(self._children.good.values, children >> HALF_BITS, gained[children & LOWER_HALF])
        self._link_words.correct((self._lesson_slot.values, self._lesson_oid.values), gained)

    def _settle_unjudged(self, oids: Rows, goodness: Values) -> None:
        """Pages that nothing had judged are known now."""
        order = np.argsort(oids)
        oids, goodness = oids[order], goodness[order]
        self._record_pages(oids, goodness)
        if not len(oids):
            return
        which = np.minimum(np.searchsorted(oids, self._target.values), len(oids) - 1)
        links = np.flatnonzero((oids[which] == self._target.values) & np.isnan(self._fate.values))
        links = links[np.argsort(which[links], kind="stable")]
        self._chains.drop(oids)
        if len(links):
            self._settle_links(links, which[links], goodness)


NEAR = (-3, -2, -1, 1, 2, 3)
"""Links so far before and behind a link on its page stand beside it."""
_NEAR = np.array(NEAR)[:, None]
_NEARNESS = 1.0 / np.abs(_NEAR)
_MOST_LINKS = 100_000
"""Links looked at again at one time, at most: a fifth of a second's work."""
_PIECE_LINKS = 2048
"""Links looked at in one go: what is in between then stays in the processor's cache."""
PATIENCE = 3.0
"""The record of a host, folder or page counts as if so many more of its pages were known, of the usual worth."""
_VIEWS = 7
_CONTEXT_BACK = np.uint32(pow(int(CONTEXT), -1, 2**32))

FEATURES = (
    "best parent", "mean parent", "any parent", "parents", "relevant parents", "strength of parents",
    "words", "best words", "words around", "keywords", "learned words", "best learned words",
    "siblings", "links beside", "host", "folder", "steps from the topic", "kindred words",
)  # fmt: skip


class LinkEvidence(Reconsidering):
    """The links to waiting URLs, and what they amount to."""

    def __init__(self) -> None:
        super().__init__()
        self._keywords = np.zeros(0, np.uint32)
        self._may_be_keyword = np.zeros(SLOTS, np.bool_)
        """By the lower bits of a word: whether a keyword has the same."""
        self._views: Column[np.float32] = Column(np.float32, _VIEWS)
        """By link: what `_look_at` says of it, as of the last look."""
        self._looked_to = 0

    def set_keywords(self, keywords: Iterable[int]) -> None:
        """The hash codes of the words that name the topics."""
        self._keywords = np.array(sorted(set(keywords)), np.uint32)
        self._may_be_keyword[:] = False
        self._may_be_keyword[self._keywords & SLOT] = True

    # -- what it amounts to

    def refresh(self) -> None:
        """Weigh all words anew."""
        self.catch_up()
        self.page_words.refresh()
        self._link_words.refresh()
        if self.kindred is not None:
            self.kindred.refresh(self._goodness.values)

    def features(self, oids: Sequence[int] | Rows, *, anew: bool = True) -> Values:
        """One row of numbers, by `FEATURES`, for each of some URLs that there are links to.

        With `anew`, links to them are looked at again, else only what changes with each page is.
        """
        self.catch_up(may_wait=not anew)
        if not len(oids):
            return np.zeros((0, len(FEATURES)))
        links, which = self._chains.follow(np.asarray(oids, np.int64))
        sizes = np.bincount(which, minlength=len(oids))
        starts = sizes.cumsum() - sizes
        parents = self._parent.values[links]
        relevance = self._relevance.values[parents]
        usual = self._good_pages / self._known_pages

        def total(values: Values) -> Values:
            return np.add.reduceat(values, starts)

        def most(values: Values) -> Values:
            return np.maximum.reduceat(values, starts)

        children_known, children_good = (
            total(self._children.known.values[parents]),
            total(self._children.good.values[parents]),
        )
        if anew:
            self._look_again(links)
        views = self._views.values[links].T.astype(np.float64, order="C")
        beside_known, beside_good, words, around, _, learned, kindred = np.add.reduceat(views, starts, axis=1)
        best_words, _, best_keywords, best_learned = np.maximum.reduceat(views[2:6], starts, axis=1)
        hosts, folders = self._homes(oids)
        table = [
            most(relevance),
            total(relevance) / sizes,
            -total(np.log1p(-0.95 * relevance)),
            np.log(sizes),
            total((relevance >= RELEVANT).astype(np.float64)) / sizes,
            total(relevance / np.sqrt(self._links.values[parents])),
            words / sizes,
            best_words,
            around / sizes,
            best_keywords,
            learned / sizes,
            best_learned,
            (children_good + PATIENCE * usual) / (children_known + PATIENCE),
            (beside_good + PATIENCE * usual) / (beside_known + PATIENCE),
            self._record(self._hosts, hosts, usual),
            self._record(self._folders, folders, usual),
            -most(-self._steps.values[parents]),
            kindred / sizes,
        ]  # fmt: skip
        return np.array(table).T

    def _look_again(self, links: Rows) -> None:
        """Look at links again; when there are very many, at those whose turn it is."""
        if len(links) > _MOST_LINKS:
            links = np.sort(links)
            links = np.roll(links, -int(np.searchsorted(links, self._looked_to)))[:_MOST_LINKS]
            self._looked_to = int(links[-1]) + 1
        for at in range(0, len(links), _PIECE_LINKS):
            piece = links[at : at + _PIECE_LINKS]
            self._views.values[piece] = self._look_at(piece)

    def known_nearby(self, oids: Rows) -> Values:
        """How many pages are known of the host and of the folder of each of some URLs that there are links to."""
        hosts, folders = self._homes(oids)
        return self._hosts.known.values[hosts] + self._folders.known.values[folders]

    def _homes(self, oids: Sequence[int] | Rows) -> tuple[Rows, Rows]:
        """Host and folder of each URL."""
        homes = self._home.values[np.array(oids, np.int64)]
        return homes >> HALF_BITS, homes & LOWER_HALF

    @staticmethod
    def _record(records: RelevanceRecords, rows: Rows, usual: float) -> Values:
        return (records.good.values[rows] + PATIENCE * usual) / (records.known.values[rows] + PATIENCE)

    def _look_at(self, links: Rows) -> Values:
        """What can be seen of links, a row for each: those beside them, their words."""
        return np.array((*self._beside(links), *self._word_scores(links))).T

    def _beside(self, links: Rows) -> tuple[Values, Values]:
        """Of the links beside each link: how many were followed, the nearer the more they count, and how good."""
        near = links + _NEAR
        inside = np.minimum(np.maximum(near, 0), len(self._parent) - 1)
        fates = self._fate.values[inside]
        parents = self._parent.values
        counts = (inside == near) & ~np.isnan(fates) & (parents[inside] == parents[links])
        weights = counts * _NEARNESS
        return weights.sum(axis=0), (weights * np.where(counts, fates, 0.0)).sum(axis=0)

    def _word_scores(self, links: Rows) -> tuple[Values, Values, Values, Values, Values]:
        """Of each link: what its words and those around it say, how many keywords it has, what was learned of such, and
        what words say that mean much the same."""
        size = len(links)
        starts, inner, outer = (c.values[links] for c in (self._words_start, self._words_in, self._words_around))
        words, of, _ = self._words_of(starts, inner + outer)
        # Twice as many places as links: at the even ones are words in links, at the odd ones those around them.
        place = np.arange(2 * size).repeat(np.array((inner, outer)).T.ravel())
        spoken = self.page_words.odds(np.where(place & 1, words * _CONTEXT_BACK, words))
        said = np.bincount(place, spoken, 2 * size)
        keywords = np.bincount(place, self._is_keyword(words), 2 * size)
        return (
            said[::2] / np.sqrt(1.0 + inner),
            said[1::2] / np.sqrt(1.0 + outer),
            keywords[::2] / np.sqrt(1.0 + inner),
            np.bincount(of, self._link_words.odds(words), size) / np.sqrt(1.0 + inner + outer),
            self._kindred_scores(words, place, inner),
        )

    def _kindred_scores(self, words: Words, place: Rows, inner: Rows) -> Values:
        if self.kindred is None:
            return np.zeros(len(inner))
        is_inside = (place & 1) == 0
        said = np.bincount(place[is_inside] >> 1, self.kindred.scores(words[is_inside]), len(inner))
        scores: Values = said / np.sqrt(1.0 + inner)
        return scores

    def _is_keyword(self, words: Words) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self._may_be_keyword[words & SLOT]
        candidates = words[found]
        if len(candidates):
            at = np.searchsorted(self._keywords, candidates)
            at[at == len(self._keywords)] = 0
            found[found] = self._keywords[at] == candidates
        return found

    # -- what is seen of new links is kept with them

    def catch_up(self, *, may_wait: bool = False) -> None:
        """Work in all that was noted, and look at the new links."""
        super().catch_up(may_wait=may_wait)
        for at in range(len(self._views), len(self._parent), _PIECE_LINKS):
            piece = np.arange(at, min(at + _PIECE_LINKS, len(self._parent)))
            self._views.grow(at + len(piece))
            piece = piece[np.isnan(self._fate.values[piece])]  # of the others nobody will ask
            self._views.values[piece] = self._look_at(piece)

    def _forget(self) -> None:
        count = len(self._parent) // 2
        self._views.cut(min(count, len(self._views)))
        self._looked_to = max(0, self._looked_to - count)
        super()._forget()
