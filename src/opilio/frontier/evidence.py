"""What is known of waiting URLs: the pages that link to them, the words of those links, what became of others nearby.

Every link of every page is remembered, the last `MAX_LINKS` of them. When a page has been fetched and judged, all that
led to it learn from that: the pages it was linked from, the links beside it, its host and folder, its links' words.

`features` makes numbers of this for any waiting URLs at once, whether the few that a new page links to or all of them,
in some twenty array operations. What the words of a link say, and what became of the links beside it, is remembered
with the link, as of the last look at it: most of the links to a URL have not changed when a page adds one more.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from opilio.frontier.columns import Column
from opilio.frontier.keymap import ABSENT
from opilio.frontier.link_words import SLOTS, WordOdds
from opilio.model import RELEVANT, Document

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.frontier.link_words import Words

    Rows: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]

MAX_LINKS = 1_000_000
MAX_FOLDERS = 200_000
NEAR = (-3, -2, -1, 1, 2, 3)
"""Links so far before and behind a link on its page stand beside it."""
_NEAR = np.array(NEAR)[:, None]
_NEARNESS = 1.0 / np.abs(_NEAR)
_PIECE_LINKS = 2048
"""Links looked at in one go: what is in between then stays in the processor's cache."""
PATIENCE = 3.0
"""The record of a host, folder or page counts as if so many more of its pages were known, of the usual worth."""
_VIEWS = 6
_CONTEXT = np.uint32(0x9E3779B1)  # times this, words around a link are other words than those in it
_CONTEXT_BACK = np.uint32(pow(0x9E3779B1, -1, 2**32))

FEATURES = (
    "best parent", "mean parent", "any parent", "parents", "relevant parents", "strength of parents",
    "words", "best words", "words around", "keywords", "learned words", "best learned words",
    "siblings", "links beside", "host", "folder", "steps from the topic",
)  # fmt: skip


class _Records:
    """How many pages of something are known, and how good they are together."""

    def __init__(self) -> None:
        self.known: Column[np.float64] = Column(np.float64)
        self.good: Column[np.float64] = Column(np.float64)

    def grow(self, size: int) -> None:
        self.known.grow(size)
        self.good.grow(size)

    def add(self, rows: Rows | int, goodness: float) -> None:
        self.known.values[rows] += 1.0
        self.good.values[rows] += goodness


class LinkEvidence:
    """The links to waiting URLs, and the records of what they belong to."""

    def __init__(self) -> None:
        self.page_words = WordOdds()
        self._link_words = WordOdds()
        self._keywords = np.zeros(0, np.uint32)
        self._may_be_keyword = np.zeros(SLOTS, np.bool_)
        """By the lower bits of a word: whether a keyword has the same."""
        self._goodness: Column[np.float32] = Column(np.float32)
        """By oid: how relevant its page is; not a number while that is not known."""
        self._links_to: dict[int, array[int]] = {}
        """By oid of a URL not known yet: the links to it, counted from the first ever."""
        self._first = 0
        """Links before this one are forgotten."""
        self._parent: Column[np.int64] = Column(np.int64)
        self._fate: Column[np.float32] = Column(np.float32)
        self._words: Column[np.uint32] = Column(np.uint32)
        self._words_start: Column[np.int64] = Column(np.int64)
        self._words_in: Column[np.int64] = Column(np.int64)
        self._words_around: Column[np.int64] = Column(np.int64)
        self._forgotten_words = 0
        self._views: list[Column[np.float32]] = [Column(np.float32) for _ in range(_VIEWS)]
        """By link: what `_look_at` says of it, as of the last look."""
        self._relevance: Column[np.float64] = Column(np.float64)
        self._links: Column[np.float64] = Column(np.float64)
        self._steps: Column[np.float64] = Column(np.float64)
        self._children = _Records()
        self._hosts = _Records()
        self._folders = _Records()
        self._folder_rows: dict[str, int] = {}
        self._home: dict[int, tuple[int, int]] = {}
        """By oid of a URL not known yet: its host and its folder."""
        self._known_pages, self._good_pages = 2.0, 1.0

    def set_keywords(self, keywords: Iterable[int]) -> None:
        """The hash codes of the words that name the topics."""
        self._keywords = np.array(sorted(set(keywords)), np.uint32)
        self._may_be_keyword[:] = False
        self._may_be_keyword[self._keywords % SLOTS] = True

    # -- what happens

    def add_page(
        self, relevance: float, steps: int, document: Document, oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        """A page was fetched, with links to `oids`, ABSENT for those that are not followed, on hosts `sids`.

        `steps` says how many links ago the last relevant page was.
        """
        links = document.links
        count = len(links)
        parent, first = len(self._relevance), self._first + len(self._parent)
        self._relevance.extend([relevance])
        self._links.extend([float(count)])
        self._steps.extend([float(steps)])
        self._parent.extend(np.full(count, parent))
        self._goodness.grow(max(oids, default=0) + 1, np.nan)
        fates = self._goodness.values[np.array(oids, np.int64)]
        known = ~np.isnan(fates)
        self._fate.extend(fates)
        self._children.grow(parent + 1)
        self._children.known.values[parent] = known.sum()
        self._children.good.values[parent] = fates[known].sum()
        self._add_words(document, count)
        for column, values in zip(self._views, self._look_at(np.arange(count) + first - self._first), strict=True):
            column.extend(values)
        links_to, home = self._links_to, self._home
        for number, oid in enumerate(oids):
            if oid == ABSENT or known[number]:
                continue
            found = links_to.get(oid)
            if found is not None:
                found.append(first + number)
            else:
                links_to[oid] = array("q", (first + number,))
                home[oid] = (sids[number], self._folder(links[number].url))
                self._hosts.grow(sids[number] + 1)
        if len(self._parent) > MAX_LINKS:
            self._forget()

    def add_words(self, words: Words, relevance: float) -> None:
        """Learn from the words of a page: what the pages of the topic speak of, links to them will speak of too."""
        self.page_words.learn(words, relevance)

    def settle(self, oid: int, goodness: float) -> None:
        """A URL is known by now: how relevant its page is, 0 for one that could not be had."""
        self._known_pages += 1.0
        self._good_pages += goodness
        self._goodness.grow(oid + 1, np.nan)
        self._goodness.values[oid] = goodness
        home = self._home.pop(oid, None)
        if home is not None:
            self._hosts.add(home[0], goodness)
            self._folders.add(home[1], goodness)
        found = self._links_to.pop(oid, None)
        if found is None:
            return
        if len(found) == 1:  # as most have
            self._settle_link(found[0] - self._first, goodness)
            return
        links = np.frombuffer(found, np.int64) - self._first
        self._fate.values[links] = goodness
        self._children.add(np.unique(self._parent.values[links]), goodness)
        counts = self._words_in.values[links] + self._words_around.values[links]
        words, _, _ = self._words_of(self._words_start.values[links], counts)
        if len(words):
            self._link_words.learn(words, goodness)

    def _settle_link(self, link: int, goodness: float) -> None:
        """The same for the only link to a URL, without arrays of one."""
        self._fate.values[link] = goodness
        self._children.add(int(self._parent.values[link]), goodness)
        start = int(self._words_start.values[link]) - self._forgotten_words
        count = int(self._words_in.values[link]) + int(self._words_around.values[link])
        if count:
            self._link_words.learn(self._words.values[start : start + count], goodness)

    def forget(self, oid: int) -> None:
        """A URL will not be asked for, which says nothing about its page."""
        self._links_to.pop(oid, None)
        self._home.pop(oid, None)

    # -- what it amounts to

    def knows(self, oid: int) -> bool:
        """Whether a link to a URL that is not known yet is remembered."""
        return oid in self._links_to

    def refresh(self) -> None:
        """Weigh all words anew."""
        self.page_words.refresh()
        self._link_words.refresh()

    def features(self, oids: Sequence[int], *, anew: bool = True) -> Values:
        """One row of numbers, by `FEATURES`, for each of some URLs that there are links to.

        With `anew`, every link to them is looked at again, else only what changes with each page.
        """
        if not oids:
            return np.zeros((0, len(FEATURES)))
        found = [self._links_to[oid] for oid in oids]
        sizes = np.fromiter(map(len, found), np.int64, len(found))
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
        links = np.frombuffer(b"".join(found), np.int64) - self._first
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
        for at in range(0, len(links) if anew else 0, _PIECE_LINKS):
            piece = links[at : at + _PIECE_LINKS]
            for column, values in zip(self._views, self._look_at(piece), strict=True):
                column.values[piece] = values
        beside_known, beside_good, words, around, keywords, learned = (
            column.values[links].astype(np.float64) for column in self._views
        )
        homes = self._homes(oids)
        table = [
            most(relevance),
            total(relevance) / sizes,
            -total(np.log1p(-0.95 * relevance)),
            np.log(sizes),
            total((relevance >= RELEVANT).astype(np.float64)) / sizes,
            total(relevance / np.sqrt(self._links.values[parents])),
            total(words) / sizes,
            most(words),
            total(around) / sizes,
            most(keywords),
            total(learned) / sizes,
            most(learned),
            (children_good + PATIENCE * usual) / (children_known + PATIENCE),
            (total(beside_good) + PATIENCE * usual) / (total(beside_known) + PATIENCE),
            self._record(self._hosts, homes[:, 0], usual),
            self._record(self._folders, homes[:, 1], usual),
            -most(-self._steps.values[parents]),
        ]  # fmt: skip
        return np.stack(table, axis=1)

    def known_nearby(self, oids: Sequence[int]) -> Values:
        """How many pages are known of the host and of the folder of each of some URLs that there are links to."""
        homes = self._homes(oids)
        return self._hosts.known.values[homes[:, 0]] + self._folders.known.values[homes[:, 1]]

    def _homes(self, oids: Sequence[int]) -> Rows:
        """Host and folder of each URL."""
        home = self._home
        return np.fromiter(chain.from_iterable(home[oid] for oid in oids), np.int64, 2 * len(oids)).reshape(-1, 2)

    @staticmethod
    def _record(records: _Records, rows: Rows, usual: float) -> Values:
        return (records.good.values[rows] + PATIENCE * usual) / (records.known.values[rows] + PATIENCE)

    def _look_at(self, links: Rows) -> tuple[Values, ...]:
        """What can be seen of links: those beside them, their words."""
        return (*self._beside(links), *self._word_scores(links))

    def _beside(self, links: Rows) -> tuple[Values, Values]:
        """Of the links beside each link: how many were followed, the nearer the more they count, and how good."""
        near = links + _NEAR
        inside = np.minimum(np.maximum(near, 0), len(self._parent) - 1)
        fates = self._fate.values[inside]
        parents = self._parent.values
        counts = (inside == near) & ~np.isnan(fates) & (parents[inside] == parents[links])
        weights = counts * _NEARNESS
        return weights.sum(axis=0), (weights * np.where(counts, fates, 0.0)).sum(axis=0)

    def _word_scores(self, links: Rows) -> tuple[Values, Values, Values, Values]:
        """Of each link: what its words and those around it say, how many keywords it has, what was learned of such."""
        size = len(links)
        starts, inner, outer = (c.values[links] for c in (self._words_start, self._words_in, self._words_around))
        words, of, _ = self._words_of(starts, inner + outer)
        # Twice as many places as links: at the even ones are words in links, at the odd ones those around them.
        place = np.repeat(np.arange(2 * size), np.stack((inner, outer), axis=1).ravel())
        spoken = self.page_words.odds(np.where(place % 2 == 0, words, words * _CONTEXT_BACK))
        said = np.bincount(place, spoken, 2 * size)
        keywords = np.bincount(place, self._is_keyword(words), 2 * size)
        return (
            said[::2] / np.sqrt(1.0 + inner),
            said[1::2] / np.sqrt(1.0 + outer),
            keywords[::2] / np.sqrt(1.0 + inner),
            np.bincount(of, self._link_words.odds(words), size) / np.sqrt(1.0 + inner + outer),
        )

    def _is_keyword(self, words: Words) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self._may_be_keyword[words % SLOTS]
        candidates = words[found]
        if len(candidates):
            at = np.searchsorted(self._keywords, candidates)
            at[at == len(self._keywords)] = 0
            found[found] = self._keywords[at] == candidates
        return found

    def _words_of(self, starts: Rows, counts: Rows) -> tuple[Words, Rows, Rows]:
        """Words of links in one line; the number of the link that each belongs to, and its place in it."""
        of = np.repeat(np.arange(len(starts)), counts)
        places = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._words.values[places + np.repeat(starts - self._forgotten_words, counts)], of, places

    # -- storage

    def _add_words(self, document: Document, count: int) -> None:
        inner = np.frombuffer(document.link_words_in, np.uint8).astype(np.int64)
        outer = np.frombuffer(document.link_words_around, np.uint8).astype(np.int64)
        words = np.frombuffer(document.link_words, "<u4").copy()
        if len(inner) != count:  # nobody made them
            inner = outer = np.zeros(count, np.int64)
            words = words[:0]
        both = inner + outer
        starts = np.cumsum(both) - both
        at = np.arange(len(words)) - np.repeat(starts, both)
        is_outer = at >= np.repeat(inner, both)
        words[is_outer] *= _CONTEXT
        self._words_start.extend(starts + self._forgotten_words + len(self._words))
        self._words_in.extend(inner)
        self._words_around.extend(outer)
        self._words.extend(words)

    def _folder(self, url: str) -> int:
        folder = url[: url.rfind("/")]
        row = self._folder_rows.get(folder)
        if row is None:
            if len(self._folder_rows) >= MAX_FOLDERS:
                self._folder_rows.clear()
            row = len(self._folders.known)
            self._folder_rows[folder] = row
            self._folders.grow(row + 1)
        return row

    def _forget(self) -> None:
        """Forget the older half of the links; a URL without any left keeps the priority it has."""
        count = len(self._parent) // 2
        words = int(self._words_start.values[count]) - self._forgotten_words
        self._fate.cut(count)
        for view in self._views:
            view.cut(count)
        for column in (self._parent, self._words_start, self._words_in, self._words_around):
            column.cut(count)
        self._words.cut(words)
        self._forgotten_words += words
        self._first += count
        first = self._first
        kept = {oid: array("q", (n for n in links if n >= first)) for oid, links in self._links_to.items()}
        self._links_to = {oid: links for oid, links in kept.items() if links}
        self._home = {oid: self._home[oid] for oid in self._links_to}
