"""The links to each URL: a chain from the last that was found to the first.

The links of the pages that were fetched, and what became of the URLs that they lead to.

Every link of every page is remembered, the last `MAX_LINKS` of them. What happens is noted when it happens and worked
in when somebody looks, many pages at a time: one array operation for the links of sixty pages takes little longer than
one for those of a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
import numpy as np

from opilio.frontier.arrays import ABSENT, Column, once
from opilio.frontier.link_words import KindredWords, WordOdds
from opilio.model import Document

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.frontier.link_words import Words

    Rows: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]

_FEW_CHAINS = 8
"""So many chains are followed one by one: an array operation for each step would take longer."""


class Chains:
    """By oid the last link to a URL, and by link the one before it to the same URL.

    Links are numbered from the first ever; those that are forgotten end a chain.
    """

    def __init__(self) -> None:
        self._first = 0
        self._last: Column[np.int64] = Column(np.int64)
        self._previous: Column[np.int64] = Column(np.int64)

    def grow(self, oids: int) -> None:
        """See to it that there is room for so many URLs."""
        self._last.grow(oids, ABSENT)

    def has(self, oids: Rows) -> npt.NDArray[np.bool_]:
        """Which of some URLs a link is remembered to."""
        found: npt.NDArray[np.bool_] = self._last.values[oids] >= self._first
        return found

    def drop(self, oids: Rows) -> None:
        """Nobody will ask for the links to some URLs any more."""
        self._last.values[oids] = ABSENT

    def add(self, targets: Rows, places: Rows) -> None:
        """More links, to `targets`; those at some places are hung behind the last to the same URL."""
        number = self._first + len(self._previous)
        self._previous.grow(len(self._previous) + len(targets), ABSENT)
        if not len(places):
            return
        places = places[targets[places].argsort(kind="stable")]
        oids, links = targets[places], places + number
        goes_on = oids[1:] == oids[:-1]
        before = self._last.values[oids]
        before[1:][goes_on] = links[:-1][goes_on]
        self._previous.values[links - self._first] = before
        is_last = np.append(~goes_on, True)
        self._last.values[oids[is_last]] = links[is_last]

    def follow(self, oids: Rows) -> tuple[Rows, Rows]:
        """The links to some URLs, by their places among those remembered, and which of the URLs each leads to.

        The latter is in ascending order.
        """
        last, which = self._last.values[oids], np.arange(len(oids))
        previous, found, of = self._previous.values, [last[:0]], [which[:0]]
        while len(last) > _FEW_CHAINS:
            remembered = last >= self._first
            last, which = last[remembered] - self._first, which[remembered]
            found.append(last)
            of.append(which)
            last = previous[last]
        for number, one in zip(last.tolist(), which.tolist(), strict=True):
            rest = self._one(number)
            found.append(rest)
            of.append(np.full(len(rest), one))
        links, whose = np.concatenate(found), np.concatenate(of)
        order = whose.argsort(kind="stable")
        return links[order], whose[order]

    def _one(self, number: int) -> Rows:
        places = []
        while number >= self._first:
            places.append(number - self._first)
            number = int(self._previous.values[places[-1]])
        return np.array(places, np.int64)

    def cut(self, count: int) -> None:
        """Forget the first `count` links."""
        self._previous.cut(count)
        self._first += count


MAX_LINKS = 1_000_000
MAX_FOLDERS = 200_000
MAX_LESSONS = 4_000_000
"""Words that were learned from links: so many can be corrected later."""
MAX_NOTED_PAGES = 256
"""Pages that are noted and not worked in: more would only take memory."""
WEIGHED_AGAIN = 8
"""A URL is weighed again when one of so many of the links to it is new: for the hundredth link nothing changes."""
MOST_LESSONS_WAITING, LESSONS_KNOWN = 16, 64
"""What became of so many URLs may wait to be learned from, and of one for each so many that are known: learning from
many at a time takes a quarter of what it takes one by one, and in the beginning each counts."""
HALF_BITS, LOWER_HALF = 32, 2**32 - 1
CONTEXT = np.uint32(0x9E3779B1)
"""Times this, words around a link are other words than those in it."""


class Seen(NamedTuple):
    """A page that was fetched, with the places that its links lead to."""

    oid: int
    relevance: float
    steps: int
    document: Document
    oids: Sequence[int]
    sids: Sequence[int]
    ends: int
    """How many of the ends that are noted came before it."""


class RelevanceRecords:
    """How many pages of something are known, and how good they are together."""

    def __init__(self) -> None:
        self.known: Column[np.float64] = Column(np.float64)
        self.good: Column[np.float64] = Column(np.float64)

    def grow(self, size: int) -> None:
        """See to it that there are so many rows."""
        self.known.grow(size)
        self.good.grow(size)

    def add(self, rows: Rows, goodness: Values) -> None:
        """One more page is known in each of some rows, which may be named more than once."""
        np.add.at(self.known.values, rows, 1.0)
        np.add.at(self.good.values, rows, goodness)


class LinkMemory:
    """The links of pages, and the records of pages, hosts and folders."""

    def __init__(self) -> None:
        self.page_words = WordOdds()
        self._link_words = WordOdds()
        self.kindred: KindredWords | None = None
        """What words say that no link had; nothing is known without word vectors."""
        self._goodness: Column[np.float32] = Column(np.float32)
        """By oid: how relevant its page is; not a number while that is not known."""
        self._chains = Chains()
        """The links to URLs that are not known yet."""
        self._in_links: Column[np.int32] = Column(np.int32)
        self._weighed_links: Column[np.int32] = Column(np.int32)
        """By oid of a URL: how many links to it were found while it was not known, and when it was last weighed."""
        self._parent: Column[np.int64] = Column(np.int64)
        self._target: Column[np.int64] = Column(np.int64)
        """By link: the oid that it leads to."""
        self._fate: Column[np.float32] = Column(np.float32)
        self._words: Column[np.uint32] = Column(np.uint32)
        self._words_start: Column[np.int64] = Column(np.int64)
        self._words_in: Column[np.int64] = Column(np.int64)
        self._words_around: Column[np.int64] = Column(np.int64)
        self._forgotten_words = 0
        self._page_oid: Column[np.int64] = Column(np.int64)
        self._relevance: Column[np.float64] = Column(np.float64)
        self._links: Column[np.float64] = Column(np.float64)
        self._steps: Column[np.float64] = Column(np.float64)
        self._children = RelevanceRecords()
        self._hosts = RelevanceRecords()
        self._folders = RelevanceRecords()
        self._folder_rows: dict[str, int] = {}
        self._lesson_slot: Column[np.int64] = Column(np.int64)
        self._lesson_oid: Column[np.int64] = Column(np.int64)
        self._home: Column[np.int64] = Column(np.int64)
        """By oid: its host, and in the lower half its folder; ABSENT when no link led to it before it was known."""
        self._known_pages, self._good_pages = 2.0, 1.0
        self._linked = [np.zeros(0, np.int64)]
        """Where links lead that were found since `grown` was asked last."""
        self._ends: list[tuple[int, float]] = []
        self._texts: list[tuple[Words, float]] = []
        self._seen: list[Seen] = []
        self._gone: list[int] = []
        self._lessons: dict[int, float] = {}
        """What became of URLs, and is not learned from yet."""

    # -- what happens

    def add_page(
        self, oid: int, relevance: float, steps: int, document: Document, oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        """A page was fetched, with links to `oids`, ABSENT for those that are not followed, on hosts `sids`.

        `steps` says how many links ago the last relevant page was.
        """
        self._seen.append(Seen(oid, relevance, steps, document, oids, sids, len(self._ends)))
        if len(self._seen) >= MAX_NOTED_PAGES:
            self.catch_up()

    def add_words(self, words: Words, relevance: float) -> None:
        """Learn from the words of a page: what the pages of the topic speak of, links to them will speak of too."""
        self._texts.append((words, relevance))

    def settle(self, oid: int, goodness: float) -> None:
        """A URL is known by now: how relevant its page is, 0 for one that could not be had."""
        self._ends.append((oid, goodness))

    def forget(self, oid: int) -> None:
        """A URL will not be asked for, which says nothing about its page."""
        self._gone.append(oid)

    def knows(self, oid: int) -> bool:
        """Whether a link to a URL that is not known yet is remembered."""
        return len(self.known_among([oid])) > 0

    def known_among(self, oids: Sequence[int]) -> Rows:
        """Those of some URLs that a link is remembered to."""
        self.catch_up(may_wait=True)
        known = np.array(oids, np.int64)
        known = known[known < len(self._goodness)]
        return known[self._chains.has(known)]

    def grown(self) -> list[int]:
        """Those of the URLs that links were found to since this was asked last which should be weighed again: so many
        more links lead to them by now."""
        self.catch_up(may_wait=True)
        linked = once(np.concatenate(self._linked))
        self._linked = [linked[:0]]
        found, before = self._in_links.values[linked], self._weighed_links.values[linked]
        is_grown = (found - before) * WEIGHED_AGAIN >= found
        self._weighed_links.values[linked[is_grown]] = found[is_grown]
        return list(linked[is_grown].tolist())

    def catch_up(self, *, may_wait: bool = False) -> None:
        """Work in all that was noted, as if it had been at once; lessons that `may_wait` only when there are many."""
        self._work_in()
        if not may_wait or len(self._lessons) >= min(MOST_LESSONS_WAITING, 1 + self._known_pages // LESSONS_KNOWN):
            self._learn()

    def _work_in(self) -> None:
        seen, self._seen = self._seen, []
        ends, self._ends = self._ends, []
        gone, self._gone = self._gone, []
        if ends:
            latest = dict(ends)
            oids, goodness = np.array(list(latest), np.int64), np.array(list(latest.values()))
            self._grow_oids(int(oids.max()) + 1)
            is_new = np.isnan(self._goodness.values[oids])  # not of a page that is fetched again
            self._goodness.values[oids] = goodness
        if seen:
            self._add_pages(seen, {oid: at for at, (oid, _) in enumerate(ends)})
        if ends:
            self._record_pages(oids[is_new], goodness[is_new])
            self._lessons.update(latest)
        if gone:
            self._grow_oids(max(gone) + 1)
            self._chains.drop(np.array(gone))
        while len(self._parent) > MAX_LINKS:
            self._forget()

    def _learn(self) -> None:
        """Learn from what became of URLs, and from the words of pages."""
        lessons, self._lessons = self._lessons, {}
        texts, self._texts = self._texts, []
        if lessons:
            self._settle_all(np.array(list(lessons), np.int64), np.array(list(lessons.values())))
        if texts:
            self._learn_words(texts)

    def _grow_oids(self, size: int) -> None:
        self._goodness.grow(size, np.nan)
        self._home.grow(size, ABSENT)
        self._chains.grow(size)
        self._in_links.grow(size)
        self._weighed_links.grow(size)

    def _learn_words(self, texts: Sequence[tuple[Words, float]]) -> None:
        sizes = np.fromiter((len(words) for words, _ in texts), np.int64, len(texts))
        goodness = np.array([relevance for _, relevance in texts])
        words = np.concatenate([words for words, _ in texts])
        self.page_words.learn(words, np.arange(len(texts)).repeat(sizes), goodness, are_once=True)

    # -- what became of URLs

    def _settle_all(self, oids: Rows, goodness: Values) -> None:
        links, which = self._chains.follow(oids)
        self._chains.drop(oids)
        if len(links):
            self._settle_links(links, which, goodness)

    def _record_pages(self, oids: Rows, goodness: Values) -> None:
        self._known_pages += len(oids)
        self._good_pages += float(goodness.sum())
        homes = self._home.values[oids]
        known, goods = homes[homes != ABSENT], goodness[homes != ABSENT]
        self._hosts.add(known >> HALF_BITS, goods)
        self._folders.add(known & LOWER_HALF, goods)

    def _settle_links(self, links: Rows, which: Rows, goodness: Values) -> None:
        """The links to some URLs led to this: `which`, in ascending order, says which of `goodness` is a link's."""
        self._fate.values[links] = goodness[which]
        children = once(which << HALF_BITS | self._parent.values[links])  # two links of a page to one URL are one child
        self._children.add(children & LOWER_HALF, goodness[children >> HALF_BITS])
        inner = self._words_in.values[links]
        words, of, places = self._words_of(self._words_start.values[links], inner + self._words_around.values[links])
        if len(words):
            slots, learned_of = self._link_words.learn(words, which[of], goodness)
            target = np.zeros(len(goodness), np.int64)
            target[which] = self._target.values[links]
            if self.kindred is not None:
                is_inside = places < inner[of]
                self.kindred.learn(words[is_inside], which[of[is_inside]], target)
            self._lesson_slot.extend(slots)
            self._lesson_oid.extend(target[learned_of])
            if len(self._lesson_slot) > MAX_LESSONS:
                self._lesson_slot.cut(MAX_LESSONS // 2)
                self._lesson_oid.cut(MAX_LESSONS // 2)

    def _words_of(self, starts: Rows, counts: Rows) -> tuple[Words, Rows, Rows]:
        """Words of links in one line; the number of the link that each belongs to, and its place in it."""
        of = np.arange(len(starts)).repeat(counts)
        places = np.arange(len(of)) - (counts.cumsum() - counts).repeat(counts)
        return self._words.values[places + (starts - self._forgotten_words).repeat(counts)], of, places

    # -- links

    def _add_pages(self, seen: Sequence[Seen], ended: Mapping[int, int]) -> None:
        """Pages with their links; `ended` numbers the URLs whose end is noted, and may have come after a page."""
        sizes = np.fromiter((len(page.document.links) for page in seen), np.int64, len(seen))
        oids = [oid for page in seen for oid in page.oids]
        parent = len(self._relevance)
        self._page_oid.extend([page.oid for page in seen])
        self._relevance.extend([page.relevance for page in seen])
        self._links.extend(sizes)
        self._steps.extend([page.steps for page in seen])
        of = np.arange(parent, parent + len(seen)).repeat(sizes)
        self._parent.extend(of)
        self._grow_oids(max(*oids, *(page.oid for page in seen), 0) + 1)
        targets = np.array(oids, np.int64)
        self._target.extend(targets)
        fates = self._goodness.values[targets]
        if ended:
            befores = [page.ends for page in seen for _ in page.oids]
            fates[[at for at, oid in enumerate(oids) if ended.get(oid, -1) >= befores[at]]] = np.nan
        fates[targets == ABSENT] = np.nan
        known = ~np.isnan(fates)
        self._fate.extend(fates)
        self._children.grow(parent + len(seen))
        leads_on = ~known & (targets != ABSENT)
        self._linked.append(targets[leads_on])
        np.add.at(self._in_links.values, self._linked[-1], 1)
        children = once(of[known] << HALF_BITS | targets[known])
        self._children.add(children >> HALF_BITS, self._goodness.values[children & LOWER_HALF].astype(np.float64))
        self._add_words(seen, sizes)
        self._find_homes(seen, sizes, (leads_on & (self._home.values[targets] == ABSENT)).nonzero()[0])
        self._chains.add(targets, leads_on.nonzero()[0])

    def _find_homes(self, seen: Sequence[Seen], sizes: Rows, places: Rows) -> None:
        """Note host and folder of URLs that are met for the first time, at some of the links of some pages."""
        starts = sizes.cumsum() - sizes
        pages = starts.searchsorted(places, side="right") - 1
        home, most = self._home.values, 0
        for at, page in zip((places - starts[pages]).tolist(), pages.tolist(), strict=True):
            sid = seen[page].sids[at]
            home[seen[page].oids[at]] = sid << HALF_BITS | self._folder(seen[page].document.links[at].url)
            most = max(most, sid)
        self._hosts.grow(most + 1)

    def _add_words(self, seen: Sequence[Seen], sizes: Rows) -> None:
        documents = [page.document for page in seen]
        if any(len(d.link_words_in) != len(d.links) for d in documents):  # nobody made the words of some
            documents = [d if len(d.link_words_in) == len(d.links) else _without_words(d) for d in documents]
        inner = np.frombuffer(b"".join([d.link_words_in for d in documents]), np.uint8).astype(np.int64)
        outer = np.frombuffer(b"".join([d.link_words_around for d in documents]), np.uint8).astype(np.int64)
        words = np.frombuffer(b"".join([d.link_words for d in documents]), "<u4").copy()
        both = inner + outer
        starts = both.cumsum() - both
        is_inside = np.arange(len(words)) < (starts + inner).repeat(both)
        if self.kindred is not None:
            self.kindred.meet(words[is_inside])
        words[~is_inside] *= CONTEXT
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
        for column in (self._parent, self._target, self._words_start, self._words_in, self._words_around):
            column.cut(count)
        self._words.cut(words)
        self._forgotten_words += words
        self._chains.cut(count)


def _without_words(document: Document) -> Document:
    nothing = bytes(len(document.links))
    return msgspec.structs.replace(document, link_words=b"", link_words_in=nothing, link_words_around=nothing)
