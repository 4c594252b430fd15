"""Pages are judged anew: what was learned from the old judgements is put right, without being told all again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from opilio.frontier.columns import once
from opilio.frontier.keymap import ABSENT
from opilio.frontier.link_memory import HALF_BITS, LOWER_HALF, LinkMemory
from opilio.frontier.link_words import WordOdds
from opilio.frontier.strategies import Taught

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
    documents: Sequence[Taught] = ()
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
