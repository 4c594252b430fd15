"""The links of the pages that were fetched, and how relevant the pages turned out that they lead to.

Every link of every page is remembered, up to the latest `MAX_LINKS`. Events are noted when they happen and processed
later, many pages at a time (`process_events`): one array operation for the links of sixty pages takes little longer
than one for those of a single page.

Links and pages are rows of tables, one column of numbers for each attribute (`LinkTable`, `PageTable`). `Chains` finds
the links to a URL. `Records` counts, for pages, hosts and folders, how many of their pages are known and how
relevant those are. When pages are re-judged, `rejudge` corrects all that depends on the old judgements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
import numpy as np

from opilio.frontier.arrays import ABSENT, Column, once
from opilio.frontier.link_words import EmbeddingSimilarity, WordOdds
from opilio.frontier.queue import QueuedUrl
from opilio.frontier.strategies import RejudgedPages
from opilio.frontier.url_forms import url_form
from opilio.model import Document

if TYPE_CHECKING:
    import numpy.typing as npt

    from opilio.frontier.link_words import Words, WordVectors

    Rows: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]

MAX_LINKS = 1_000_000
MAX_FOLDERS = 200_000
"""Folders, and forms of URLs, that are told apart at a time."""
MAX_SAMPLES = 4_000_000
"""Words of links that were learned from and can be corrected later."""
MAX_NOTED_PAGES = 256
"""Pages that are noted and not processed: more would only take memory."""
WEIGH_AGAIN = 8
"""A URL gets a new priority when one in this many of the links to it is new: the hundredth link changes nothing."""
MAX_PENDING_SAMPLES, KNOWN_PER_PENDING = 16, 64
"""The outcomes of this many URLs at most, and of one for each 64 that are known, may be pending before they are learned
from: learning from many at a time takes a quarter of the time, and in the beginning each one counts."""
HALF_BITS, LOWER_HALF = 32, 2**32 - 1
CONTEXT = np.uint32(0x9E3779B1)
"""Words around a link are multiplied by this, which makes them different words from those in it."""
_FEW_CHAINS = 8
"""This many chains are followed one by one: an array operation for each step would take longer."""


class NotedPage(NamedTuple):
    """A page that was fetched, with the URLs and hosts that its links lead to."""

    oid: int
    relevance: float
    steps: int
    document: Document
    oids: Sequence[int]
    sids: Sequence[int]
    settled_before: int
    """How many of the noted outcomes of URLs came before it."""


class LinkMemory:
    """Links, pages, and the records of pages, hosts and folders.

    `note_page`, `note_words`, `settle` and `forget` only note an event; it counts after the next `process_events`.
    """

    def __init__(self) -> None:
        self.links = LinkTable()
        self.pages = PageTable()
        self.page_words = WordOdds()
        self.link_words = WordOdds()
        self.similarity: EmbeddingSimilarity | None = None
        """Scores of words by their vectors; None without word vectors."""
        self.chains = Chains()
        """The links to URLs whose relevance is not known yet."""
        self.relevance: Column[np.float32] = Column(np.float32)
        """By oid: how relevant the page is; not a number while that is not known."""
        self.hosts = Records()
        self.folders = Records()
        self._folder_rows: dict[str, int] = {}
        self._is_dead: Column[np.float64] = Column(np.float64)
        """By oid: 1 when the server said that there is no page, else 0."""
        self.forms = Records()
        """How many URLs of each form (`url_form`) are dead."""
        self.host_forms = Records()
        """The same by form and host."""
        self._form_rows: dict[str, int] = {}
        self._host_form_rows: dict[tuple[int, int], int] = {}
        self._form_of: Column[np.int64] = Column(np.int64)
        """By row of `host_forms`: the row of the form."""
        self._host_form: Column[np.int64] = Column(np.int64)
        """By oid: its row in `host_forms`; ABSENT as in `_home`."""
        self._home: Column[np.int64] = Column(np.int64)
        """By oid: its host and, in the lower half, its folder; ABSENT when no link led to it before it was known."""
        self._in_links: Column[np.int32] = Column(np.int32)
        self._weighed_links: Column[np.int32] = Column(np.int32)
        """By oid: the links found to a URL while it was not known, and how many they were when it was last weighed."""
        self._known_pages, self._good_pages, self._dead_urls = 2.0, 1.0, 1.0
        self._sample_slot: Column[np.int64] = Column(np.int64)
        self._sample_oid: Column[np.int64] = Column(np.int64)
        self._linked = [np.zeros(0, np.int64)]
        """Targets of the links that were found since `grown` was called last."""
        self._noted_pages: list[NotedPage] = []
        self._noted_words: list[tuple[Words, float]] = []
        self._noted_settled: list[tuple[int, float, bool]] = []
        self._noted_gone: list[int] = []
        self._pending: dict[int, float] = {}
        """The relevance of URLs that was not learned from yet."""

    def use_vectors(self, vectors: WordVectors) -> None:
        """Score words by their vectors too, from now on."""
        self.similarity = EmbeddingSimilarity(vectors)

    # -- events

    def note_page(
        self, oid: int, relevance: float, steps: int, document: Document, oids: Sequence[int], sids: Sequence[int]
    ) -> bool:
        """A page was fetched, with links to `oids`, ABSENT for those that are not followed, on hosts `sids`.

        `steps` is the number of links followed since the last relevant page. Returns whether so many pages are noted
        that it is time to catch up.
        """
        self._noted_pages.append(NotedPage(oid, relevance, steps, document, oids, sids, len(self._noted_settled)))
        return len(self._noted_pages) >= MAX_NOTED_PAGES

    def note_words(self, words: Words, relevance: float) -> None:
        """The words of a page of this relevance: links to pages like it will have the same words."""
        self._noted_words.append((words, relevance))

    def settle(self, oid: int, relevance: float, *, is_dead: bool = False) -> None:
        """The relevance of a URL's page is known: 0 for a page that could not be had, such as that of a dead URL."""
        self._noted_settled.append((oid, relevance, is_dead))

    def forget(self, oid: int) -> None:
        """A URL will not be fetched, which says nothing about its page."""
        self._noted_gone.append(oid)

    def hand_over(self, oid: int, target: int, url: QueuedUrl | None) -> None:
        """A URL leads to `target`: the remembered links to it become links to that URL, and learn from its page."""
        self.process_events()
        self._grow_oids(max(oid, target) + 1)
        links, _ = self.chains.follow(np.array([oid]))
        if not len(links):
            return
        self.links.target.values[links] = target
        self.chains.drop(np.array([oid]))
        relevance = float(self.relevance.values[target])
        if not np.isnan(relevance):
            self._settle_links(links, np.zeros(len(links), np.int64), np.array([relevance]))
            return
        self.chains.join(target, links)
        self._in_links.values[target] += self._in_links.values[oid]
        self._linked.append(np.array([target]))
        if self._home.values[target] == ABSENT:
            if url is not None:
                self._place(target, url.url, url.host.sid)
            else:
                self._home.values[target] = self._home.values[oid]
                self._host_form.values[target] = self._host_form.values[oid]

    # -- what is known

    @property
    def usual(self) -> float:
        """The mean relevance of the known pages."""
        return self._good_pages / self._known_pages

    @property
    def usually_dead(self) -> float:
        """The share of the known URLs that are dead."""
        return self._dead_urls / self._known_pages

    def known_among(self, oids: Sequence[int]) -> Rows:
        """Those of some URLs that have a remembered link to them, and whose relevance is not known yet."""
        known = np.array(oids, np.int64)
        known = known[known < len(self.relevance)]
        return known[self.chains.has(known)]

    def homes(self, oids: Sequence[int] | Rows) -> tuple[Rows, Rows]:
        """The rows of the host and of the folder of each URL."""
        homes = self._home.values[np.array(oids, np.int64)]
        return homes >> HALF_BITS, homes & LOWER_HALF

    def forms_of(self, oids: Sequence[int] | Rows) -> tuple[Rows, Rows]:
        """The rows in `forms` and in `host_forms` of each URL."""
        rows = self._host_form.values[np.array(oids, np.int64)]
        return self._form_of.values[rows], rows

    def grown(self) -> list[int]:
        """The URLs to which many of the links are new: links found since the last call count as new."""
        linked = once(np.concatenate(self._linked))
        self._linked = [linked[:0]]
        found, before = self._in_links.values[linked], self._weighed_links.values[linked]
        is_grown = (found - before) * WEIGH_AGAIN >= found
        self._weighed_links.values[linked[is_grown]] = found[is_grown]
        return list(linked[is_grown].tolist())

    # -- processing of what was noted

    def process_events(self, *, may_wait: bool = False) -> None:
        """Process all that was noted. With `may_wait`, learn from it only when much is pending."""
        self._process_noted()
        if not may_wait or len(self._pending) >= min(MAX_PENDING_SAMPLES, 1 + self._known_pages // KNOWN_PER_PENDING):
            self._learn()

    def _process_noted(self) -> None:
        pages, self._noted_pages = self._noted_pages, []
        settled, self._noted_settled = self._noted_settled, []
        gone, self._noted_gone = self._noted_gone, []
        if settled:
            latest = {oid: value for oid, value, _ in settled}
            oids, relevance = np.array(list(latest), np.int64), np.array(list(latest.values()))
            self._grow_oids(int(oids.max()) + 1)
            is_new = np.isnan(self.relevance.values[oids])  # not a page that is fetched again
            self.relevance.values[oids] = relevance
            for oid, _, is_dead in settled:
                self._is_dead.values[oid] = is_dead
        if pages:
            self._add_pages(pages, {oid: at for at, (oid, _, _) in enumerate(settled)})
        if settled:
            self._record_pages(oids[is_new], relevance[is_new])
            self._pending.update(latest)
        if gone:
            self._grow_oids(max(gone) + 1)
            self.chains.drop(np.array(gone))
        while len(self.links) > MAX_LINKS:  # a URL without any link left keeps the priority it has
            count = len(self.links) // 2
            self.links.cut(count)
            self.chains.cut(count)

    def _learn(self) -> None:
        """Learn from the outcomes of URLs, and from the words of pages."""
        pending, self._pending = self._pending, {}
        words, self._noted_words = self._noted_words, []
        if pending:
            oids, relevance = np.array(list(pending), np.int64), np.array(list(pending.values()))
            links, which = self.chains.follow(oids)
            self.chains.drop(oids)
            if len(links):
                self._settle_links(links, which, relevance)
        if words:
            self._learn_words(words)

    def _grow_oids(self, size: int) -> None:
        self.relevance.grow(size, np.nan)
        self._is_dead.grow(size)
        self._home.grow(size, ABSENT)
        self._host_form.grow(size, ABSENT)
        self.chains.grow(size)
        self._in_links.grow(size)
        self._weighed_links.grow(size)

    def _learn_words(self, noted: Sequence[tuple[Words, float]]) -> None:
        sizes = np.fromiter((len(words) for words, _ in noted), np.int64, len(noted))
        relevance = np.array([relevance for _, relevance in noted])
        words = np.concatenate([words for words, _ in noted])
        self.page_words.learn(words, np.arange(len(noted)).repeat(sizes), relevance, are_once=True)

    def _record_pages(self, oids: Rows, relevance: Values) -> None:
        self._known_pages += len(oids)
        self._good_pages += float(relevance.sum())
        is_dead = self._is_dead.values[oids]
        self._dead_urls += float(is_dead.sum())
        homes = self._home.values[oids]
        has_home = homes != ABSENT
        known, values = homes[has_home], relevance[has_home]
        self.hosts.add(known >> HALF_BITS, values)
        self.folders.add(known & LOWER_HALF, values)
        forms, host_forms = self.forms_of(oids[has_home])
        self.forms.add(forms, is_dead[has_home])
        self.host_forms.add(host_forms, is_dead[has_home])

    def _settle_links(self, links: Rows, which: Rows, relevance: Values) -> None:
        """The targets of some links are known: `which`, in ascending order, is the index in `relevance` of each."""
        table = self.links
        table.relevance.values[links] = relevance[which]
        children = once(which << HALF_BITS | table.parent.values[links])  # two links of a page to one URL: one child
        target = np.zeros(len(relevance), np.int64)
        target[which] = table.target.values[links]
        self.pages.children.add(children & LOWER_HALF, relevance[children >> HALF_BITS])
        self.pages.dead.add(children & LOWER_HALF, self._is_dead.values[target[children >> HALF_BITS]])
        inner = table.words_in.values[links]
        words, of, places = table.words_of(table.words_start.values[links], inner + table.words_around.values[links])
        if len(words):
            slots, learned_of = self.link_words.learn(words, which[of], relevance)
            if self.similarity is not None:
                is_inside = places < inner[of]
                self.similarity.learn(words[is_inside], which[of[is_inside]], target)
            self._sample_slot.extend(slots)
            self._sample_oid.extend(target[learned_of])
            if len(self._sample_slot) > MAX_SAMPLES:
                self._sample_slot.cut(MAX_SAMPLES // 2)
                self._sample_oid.cut(MAX_SAMPLES // 2)

    # -- new links

    def _add_pages(self, pages: Sequence[NotedPage], settled: Mapping[int, int]) -> None:
        """Add pages with their links.

        `settled` numbers the noted outcomes by oid. One that was noted after a page does not count for its links yet.
        """
        sizes = np.fromiter((len(page.document.links) for page in pages), np.int64, len(pages))
        oids = [oid for page in pages for oid in page.oids]
        parent = len(self.pages)
        self.pages.add(
            [page.oid for page in pages], [page.relevance for page in pages], [page.steps for page in pages], sizes
        )
        of = np.arange(parent, parent + len(pages)).repeat(sizes)
        self.links.parent.extend(of)
        self._grow_oids(max(*oids, *(page.oid for page in pages), 0) + 1)
        targets = np.array(oids, np.int64)
        self.links.target.extend(targets)
        relevance = self.relevance.values[targets]
        if settled:
            befores = [page.settled_before for page in pages for _ in page.oids]
            relevance[[at for at, oid in enumerate(oids) if settled.get(oid, -1) >= befores[at]]] = np.nan
        relevance[targets == ABSENT] = np.nan
        known = ~np.isnan(relevance)
        self.links.relevance.extend(relevance)
        is_open = ~known & (targets != ABSENT)
        self._linked.append(targets[is_open])
        np.add.at(self._in_links.values, self._linked[-1], 1)
        children = once(of[known] << HALF_BITS | targets[known])
        self.pages.children.add(children >> HALF_BITS, self.relevance.values[children & LOWER_HALF].astype(np.float64))
        self.pages.dead.add(children >> HALF_BITS, self._is_dead.values[children & LOWER_HALF])
        self._add_link_words(pages)
        self._find_homes(pages, sizes, (is_open & (self._home.values[targets] == ABSENT)).nonzero()[0])
        self.chains.add(targets, is_open.nonzero()[0])

    def _find_homes(self, pages: Sequence[NotedPage], sizes: Rows, places: Rows) -> None:
        """Note host and folder of new URLs, which the links of some pages at `places` lead to."""
        starts = sizes.cumsum() - sizes
        rows = starts.searchsorted(places, side="right") - 1
        latest, urls = -1, list[str]()
        for at, row in zip((places - starts[rows]).tolist(), rows.tolist(), strict=True):
            page = pages[row]
            if row != latest:
                latest, urls = row, page.document.links.url_list()
            self._place(page.oids[at], urls[at], page.sids[at])

    def _place(self, oid: int, url: str, sid: int) -> None:
        """Note host, folder and form of a URL."""
        self.hosts.grow(sid + 1)
        self._home.values[oid] = sid << HALF_BITS | self._folder(url)
        self._host_form.values[oid] = self._form(url, sid)

    def _add_link_words(self, pages: Sequence[NotedPage]) -> None:
        documents = [page.document for page in pages]
        if any(len(d.link_words_in) != len(d.links) for d in documents):  # some came without the words of their links
            documents = [d if len(d.link_words_in) == len(d.links) else _without_words(d) for d in documents]
        inner = np.frombuffer(b"".join([d.link_words_in for d in documents]), np.uint8).astype(np.int64)
        outer = np.frombuffer(b"".join([d.link_words_around for d in documents]), np.uint8).astype(np.int64)
        words = np.frombuffer(b"".join([d.link_words for d in documents]), "<u4").copy()
        both = inner + outer
        is_inside = np.arange(len(words)) < (both.cumsum() - outer).repeat(both)
        if self.similarity is not None:
            self.similarity.add_words(words[is_inside])
        words[~is_inside] *= CONTEXT
        self.links.add_words(words, inner, outer)

    def _folder(self, url: str) -> int:
        folder = url[: url.rfind("/")]
        row = self._folder_rows.get(folder)
        if row is None:
            if len(self._folder_rows) >= MAX_FOLDERS:
                self._folder_rows.clear()
            row = len(self.folders.known)
            self._folder_rows[folder] = row
            self.folders.grow(row + 1)
        return row

    def _form(self, url: str, sid: int) -> int:
        name = url_form(url)
        form = self._form_rows.get(name)
        if form is None:
            if len(self._form_rows) >= MAX_FOLDERS:
                self._form_rows.clear()
            form = self._form_rows[name] = len(self.forms.known)
            self.forms.grow(form + 1)
        row = self._host_form_rows.get((sid, form))
        if row is None:
            if len(self._host_form_rows) >= MAX_FOLDERS:
                self._host_form_rows.clear()
            row = self._host_form_rows[sid, form] = len(self._form_of)
            self._form_of.extend([form])
            self.host_forms.grow(row + 1)
        return row

    # -- pages are re-judged

    def rejudge(self, rejudged: RejudgedPages, words_since: Sequence[tuple[Words, float]]) -> None:
        """Correct all that depends on the relevance of pages. Everything noted has been processed before.

        `words_since` are words of pages that were noted since the new judgements were read.
        """
        oids, relevance = rejudged.oids, rejudged.relevance
        self._grow_oids(int(oids.max(initial=-1)) + 1)
        before = self.relevance.values.astype(np.float64)
        self.relevance.values[oids] = relevance
        gained = self.relevance.values - before
        is_new = np.isnan(before[oids])
        gained[np.isnan(gained)] = 0.0
        self._correct_pages(rejudged)
        self._correct_records(gained)
        self._correct_links(gained)
        self._settle_unjudged(oids[is_new], relevance[is_new])
        self.page_words = rejudged.page_words
        if words_since:
            self._learn_words(words_since)

    def _correct_pages(self, rejudged: RejudgedPages) -> None:
        oids = self.pages.oid.values
        self.pages.relevance.values[:] = np.nan_to_num(self.relevance.values[oids])
        steps = np.full(len(self.relevance), np.nan)
        steps[rejudged.oids] = rejudged.steps
        steps = steps[oids]
        known = ~np.isnan(steps)
        self.pages.steps.values[known] = steps[known]

    def _correct_records(self, gained: Values) -> None:
        self._good_pages += float(gained.sum())
        changed = np.flatnonzero((gained != 0.0) & (self._home.values != ABSENT))
        homes = self._home.values[changed]
        np.add.at(self.hosts.good.values, homes >> HALF_BITS, gained[changed])
        np.add.at(self.folders.good.values, homes & LOWER_HALF, gained[changed])

    def _correct_links(self, gained: Values) -> None:
        table = self.links
        known = np.flatnonzero(~np.isnan(table.relevance.values))
        targets = table.target.values[known]
        table.relevance.values[known] = self.relevance.values[targets]
        children = once(table.parent.values[known] << HALF_BITS | targets)
        np.add.at(self.pages.children.good.values, children >> HALF_BITS, gained[children & LOWER_HALF])
        self.link_words.correct((self._sample_slot.values, self._sample_oid.values), gained)

    def _settle_unjudged(self, oids: Rows, relevance: Values) -> None:
        """Pages that had no judgement are known now."""
        order = np.argsort(oids)
        oids, relevance = oids[order], relevance[order]
        self._record_pages(oids, relevance)
        if not len(oids):
            return
        table = self.links
        which = np.minimum(np.searchsorted(oids, table.target.values), len(oids) - 1)
        links = np.flatnonzero((oids[which] == table.target.values) & np.isnan(table.relevance.values))
        links = links[np.argsort(which[links], kind="stable")]
        self.chains.drop(oids)
        if len(links):
            self._settle_links(links, which[links], relevance)


def _without_words(document: Document) -> Document:
    nothing = bytes(len(document.links))
    return msgspec.structs.replace(document, link_words=b"", link_words_in=nothing, link_words_around=nothing)


class Chains:
    """The links to each URL: by oid the last one found, and by link the one before it to the same URL.

    Links are numbered from the first ever; a link that was forgotten ends its chain.
    """

    def __init__(self) -> None:
        self._first = 0
        self._last: Column[np.int64] = Column(np.int64)
        self._previous: Column[np.int64] = Column(np.int64)

    def grow(self, oids: int) -> None:
        """Make room for this many URLs."""
        self._last.grow(oids, ABSENT)

    def has(self, oids: Rows) -> npt.NDArray[np.bool_]:
        """Which of some URLs have a remembered link to them."""
        found: npt.NDArray[np.bool_] = self._last.values[oids] >= self._first
        return found

    def drop(self, oids: Rows) -> None:
        """The links to some URLs are not needed any more."""
        self._last.values[oids] = ABSENT

    def add(self, targets: Rows, places: Rows) -> None:
        """Add links to `targets`; those at `places` join the chains of their URLs."""
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

    def join(self, oid: int, places: Rows) -> None:
        """Links at `places`, which are in no chain, join the chain of a URL; the latest stays the last."""
        places = np.sort(np.concatenate((places, self._one(int(self._last.values[oid])))))
        numbers = places + self._first
        self._previous.values[places] = np.concatenate(([ABSENT], numbers[:-1]))
        self._last.values[oid] = numbers[-1]

    def follow(self, oids: Rows) -> tuple[Rows, Rows]:
        """The links to some URLs, as rows among those remembered, and for each the index of its URL in `oids`.

        The indexes are in ascending order.
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


class Records:
    """How many URLs of something are known, and the sum of a number that each has, such as its relevance."""

    def __init__(self) -> None:
        self.known: Column[np.float64] = Column(np.float64)
        self.good: Column[np.float64] = Column(np.float64)

    def grow(self, size: int) -> None:
        """Make room for this many rows."""
        self.known.grow(size)
        self.good.grow(size)

    def add(self, rows: Rows, values: Values) -> None:
        """One more URL is known in each of some rows; a row may be given more than once."""
        np.add.at(self.known.values, rows, 1.0)
        np.add.at(self.good.values, rows, values)


class LinkTable:
    """The remembered links, in the order in which they were found."""

    def __init__(self) -> None:
        self.parent: Column[np.int64] = Column(np.int64)
        """The row, in `PageTable`, of the page that has the link."""
        self.target: Column[np.int64] = Column(np.int64)
        """The oid that it leads to."""
        self.relevance: Column[np.float32] = Column(np.float32)
        """How relevant the target is; not a number while that is not known."""
        self.words_in: Column[np.int64] = Column(np.int64)
        self.words_around: Column[np.int64] = Column(np.int64)
        self.words_start: Column[np.int64] = Column(np.int64)
        self._words: Column[np.uint32] = Column(np.uint32)
        self._forgotten_words = 0
        self.forgotten = 0
        """Links that were forgotten so far."""

    def __len__(self) -> int:
        return len(self.parent)

    def add_words(self, words: Words, inner: Rows, outer: Rows) -> None:
        """Add the words of links in one line; `inner` and `outer` are the numbers of words in and around each link."""
        both = inner + outer
        self.words_start.extend(both.cumsum() - both + self._forgotten_words + len(self._words))
        self.words_in.extend(inner)
        self.words_around.extend(outer)
        self._words.extend(words)

    def words_of(self, starts: Rows, counts: Rows) -> tuple[Words, Rows, Rows]:
        """Words of links in one line; the index of the link that each belongs to, and its place in it."""
        of = np.arange(len(starts)).repeat(counts)
        places = np.arange(len(of)) - (counts.cumsum() - counts).repeat(counts)
        return self._words.values[places + (starts - self._forgotten_words).repeat(counts)], of, places

    def cut(self, count: int) -> None:
        """Forget the first `count` links."""
        words = int(self.words_start.values[count]) - self._forgotten_words
        self.relevance.cut(count)
        for column in (self.parent, self.target, self.words_start, self.words_in, self.words_around):
            column.cut(count)
        self._words.cut(words)
        self._forgotten_words += words
        self.forgotten += count


class PageTable:
    """The pages that were fetched, and the records of the pages that they link to."""

    def __init__(self) -> None:
        self.oid: Column[np.int64] = Column(np.int64)
        self.relevance: Column[np.float64] = Column(np.float64)
        self.links: Column[np.float64] = Column(np.float64)
        self.steps: Column[np.float64] = Column(np.float64)
        """Links followed since the last relevant page."""
        self.children = Records()
        """The relevance of the pages that each page links to."""
        self.dead = Records()
        """How many of the URLs that each page links to are dead."""

    def __len__(self) -> int:
        return len(self.relevance)

    def add(self, oids: Sequence[int], relevance: Sequence[float], steps: Sequence[int], links: Rows) -> None:
        """Add pages; `links` is the number of links of each."""
        self.oid.extend(oids)
        self.relevance.extend(relevance)
        self.steps.extend(steps)
        self.links.extend(links)
        self.children.grow(len(self.relevance))
        self.dead.grow(len(self.relevance))
