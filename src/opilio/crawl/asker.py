"""The asker: chooses questions to the user while a crawl runs (`learn/questions.py`).

Questions wait, and the crawl goes on. A round is due when a number of pages is passed (`ASK_AT_PAGES`) and when the
harvest has fallen: it replaces the questions that nobody has answered, but not those that a user has only just been
shown. When all questions are answered before, the next round is due as long as fewer answers came in than the rounds so
far asked for: who comes late can catch up.

A round is chosen when no model is being trained, so that it shows what the crawl believes now. A crawl that has only a
question to go by asks about its best hits, as soon as there are some, until it has examples enough for a model. With
`learn.hits` it takes the best of them as examples without asking (`learn/hits.py`).

A program can answer in the user's place (`answerer`): its answers to a round are learned in one training. So can a
language model (`labeller`): the crawl does not wait for it, and it answers as a user does, by requests from outside.
Whatever goes wrong with it is said in a notice, and its questions stay open.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from opilio.crawl.absorb import Absorber
from opilio.crawl.background import BackgroundTask, TaskSlot
from opilio.crawl.teacher import Teacher
from opilio.crawl.watcher import Watcher
from opilio.errors import describe_error
from opilio.learn.asking import answer_question, answers_left, ask_round, learns, list_questions, open_count
from opilio.learn.hits import take_best_hits
from opilio.learn.questions import round_size
from opilio.model import TrainingCause, TrainingReason
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.user_questions import count_questions

ASK_AT_PAGES = (25, 50, 100, 200, 400)
"""Stored pages at which the crawl asks. Early answers serve the whole crawl, but at 10 pages there is no choice: a
round was about the first five pages, whatever they were (docs/results/log.md)."""
ASK_HITS_AT_PAGES = 10
"""Stored pages at which a crawl without a model asks: the seeds are the best hits of a search."""
TAKE_HITS_AT_PAGES = 25
"""Stored pages from which a crawl takes examples by itself: there must be some to choose from."""
RETRY_PAGES = 10
"""After a round, at least so many more pages are fetched before the next try, and half as many as there are: a crawl
that has nothing to ask about would read all its pages again and again."""
REST_S = 10.0
"""Open questions are not replaced before a user could have read them. A round that is put off like that comes at the
end of the crawl at the latest."""

_LOOK_AT_THEM = (
    """Look at them: opilio sql FOLDER "FROM training WHERE source = 'hit'"; opilio topics drop removes one"""
)

Answerer = Callable[[dict[str, Any]], bool | None]
"""Answers a question as `Collection.questions` returns it; None: not now."""
Labeller = Callable[[threading.Event], dict[str, Any]]
"""Answers the open questions, as `Collection.label` does, until the event is set."""


class Asker(BackgroundTask):
    """Decides when to ask."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        absorber: Absorber,
        commit: Callable[[], Awaitable[None]],
        teacher: Teacher,
        watcher: Watcher,
        answerer: Answerer | None = None,
        labeller: Labeller | None = None,
    ) -> None:
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._commit = commit
        self._teacher = teacher
        self._watcher = watcher
        self._answerer = answerer
        self._labeller = labeller
        self._labels_end = threading.Event()
        self._trouble = ""
        self._slot = TaskSlot(self._end)
        self._falls_seen = 0
        self._retry_at_pages = 0
        self._rests_until_s = 0.0
        self._is_put_off = False
        self._has_ended = False
        self.counts = count_questions(store)
        """Open questions and answers; whoever changes them updates this."""

    @property
    def is_busy(self) -> bool:
        """While a program answers, or hits are taken: the crawl learns from it."""
        return self._slot.is_busy and (self._answerer is not None or self._takes_hits)

    @property
    def pauses_fetching(self) -> bool:
        """While questions are chosen, but only when the crawl must be the same each time (`learn.synchronous`)."""
        return self._settings.learn.synchronous and self._slot.is_busy

    def look(self) -> None:
        """Start a round when it is time."""
        if self._slot.is_busy or self._has_ended or self._teacher.is_busy:
            return
        counters = self._absorber.counters
        if self._takes_hits and counters.pages >= max(TAKE_HITS_AT_PAGES, self._retry_at_pages):
            self._slot.start(self._take_hits())
            return
        if not answers_left(self._settings, self.counts):
            return
        if not self._teacher.version:
            if not self.open and counters.pages >= max(ASK_HITS_AT_PAGES, self._retry_at_pages):
                self._slot.start(self._ask())
            return
        is_next = self._passed > counters.progress.question_rounds or self._watcher.falls > self._falls_seen
        if is_next or (self._is_behind and counters.pages >= self._retry_at_pages):
            if self._rests:
                self._is_put_off = True
                return
            self._begin_round()

    def _begin_round(self) -> None:
        counters = self._absorber.counters
        self._falls_seen = self._watcher.falls
        if self._passed > counters.progress.question_rounds:
            counters.advance(question_rounds=self._passed)
        self._is_put_off = False
        self._slot.start(self._ask())

    @property
    def _takes_hits(self) -> bool:
        """Whether the crawl may choose its own examples, as long as it has no model."""
        return not self._teacher.version and self._settings.learn.hits > 0 and learns(self._settings)

    @property
    def open(self) -> int:
        """How many questions wait for an answer."""
        return open_count(self._settings, self.counts)

    @property
    def _passed(self) -> int:
        return sum(self._absorber.counters.pages >= pages for pages in ASK_AT_PAGES)

    @property
    def _is_behind(self) -> bool:
        """Whether no question is open, and fewer were answered than the rounds so far could ask."""
        settled = self.counts.answered + self.counts.skipped
        return not self.open and settled < self._passed * round_size(self._settings.learn.questions)

    @property
    def _rests(self) -> bool:
        """Whether a user is reading the open questions."""
        has_reader = self._answerer is None and self._labeller is None and not self._settings.learn.synchronous
        return has_reader and self.open > 0 and time.monotonic() < self._rests_until_s

    def _retry_later(self) -> None:
        pages = self._absorber.counters.pages
        self._retry_at_pages = pages + max(RETRY_PAGES, pages // 2)

    async def _ask(self) -> None:
        await self._commit()
        chosen = await asyncio.to_thread(ask_round, self._store, self._settings)
        if chosen and self._answerer is not None:
            await asyncio.to_thread(self._answer_all, self._answerer)
            await self._teacher.learn_soon(TrainingCause(TrainingReason.FEEDBACK, "questions were answered"))
        elif chosen and self._labeller is not None:
            await self._label(self._labeller)
        self.counts = await asyncio.to_thread(count_questions, self._store)
        self._rests_until_s = time.monotonic() + REST_S
        self._retry_later()

    async def _label(self, labeller: Labeller) -> None:
        """Have the labeller answer, while the crawl goes on; say what went wrong, but the same only once."""
        self.counts = await asyncio.to_thread(count_questions, self._store)  # the user can answer meanwhile
        try:
            report = await asyncio.to_thread(labeller, self._labels_end)
        except Exception as error:  # whatever it is, it must not end the round
            report = {"trouble": describe_error(error), "hint": getattr(error, "hint", "")}
        for name in ("yes", "no", "unsure", "failed"):
            if report.get(name):
                self._absorber.counters.add(f"answers of the labeller: {name}", report[name])
        trouble = report.get("trouble", "")
        if trouble and trouble != self._trouble and not self._labels_end.is_set():
            self._absorber.notice("questions", f"the labeller left questions open: {trouble}", report.get("hint", ""))
        self._trouble = trouble

    async def _take_hits(self) -> None:
        """Take the best hits as examples; ask about them while there are too few."""
        await self._commit()
        taken = await asyncio.to_thread(take_best_hits, self._store, self._settings.learn.hits)
        if taken:
            said = f"{len(taken)} best hits were taken as examples"
            self._absorber.notice("questions", said, _LOOK_AT_THEM)
            await self._teacher.learn_soon(TrainingCause(TrainingReason.FEEDBACK, said), more_may_follow=False)
        elif not self.open and answers_left(self._settings, self.counts):
            await self._ask()
        self._retry_later()

    async def take_last_hits(self, at_once: asyncio.Event) -> None:
        """At the end of a crawl: take hits now, however few pages there are to choose from. Waits for no labeller."""
        self._labels_end.set()
        await self._slot.finish(at_once, self._cancel)
        if self._takes_hits and not self._teacher.is_busy and not self._slot.is_cancelled:
            self._slot.start(self._take_hits())
            await self._slot.finish(at_once, self._cancel)

    def _answer_all(self, answerer: Answerer) -> None:
        for question in list_questions(self._store, self._settings, chooses=False):
            answer = answerer(question)
            if answer is not None:
                answer_question(self._store, self._settings, question["oid"], answer, chooses=False)

    async def close(self, at_once: asyncio.Event) -> None:
        """Wait for a round under way, or cancel it; make one that was put off. The labeller is not waited for."""
        self._has_ended = True
        self._labels_end.set()
        await self._slot.finish(at_once, self._cancel)
        if self._is_put_off and not self._slot.is_cancelled and not at_once.is_set():
            self._begin_round()
            await self._slot.finish(at_once, self._cancel)

    def _cancel(self) -> None:
        self._slot.is_cancelled = True
        self._store.cancel_queries()

    def _end(self, error: BaseException | None) -> None:
        if error is not None and not self._slot.is_cancelled:
            self._retry_later()
            self._absorber.counters.add("rounds of questions that failed")
            self._absorber.notice("questions", f"no questions or hits could be chosen: {describe_error(error)}")
