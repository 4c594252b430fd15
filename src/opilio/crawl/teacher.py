"""The teacher: has models trained beside the crawl, and hands each new one to the workers.

The first model is trained as soon as the examples have been fetched. Until then the links found on them wait: what is
fetched before there is a judge is fetched blindly. Examples that do not come in time are not waited for.

A new model reaches the workers at once. Then the pages that older models judged are judged anew, and what waits because
of them gets its new place in the frontier. Pages that were under way meanwhile follow when they have come.

When much was found since, the crawl learns from that too (`self_teaching.py`): a model is tried with archetypes, and
takes the place of the one there is unless the guard refuses it. And early on it learns from pages that are surely about
nothing wanted (`strangers.py`).
"""

from __future__ import annotations

import asyncio
import copy
import functools
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

from opilio import learn
from opilio.crawl.absorb import OPEN, STORED, Absorber
from opilio.crawl.background import finish
from opilio.crawl.status import FOUND
from opilio.crawl.taught import (
    KEYWORDS,
    again,
    describe,
    examples_in,
    examples_to_fetch,
    has_older_judgements,
    note,
    wanted_topics,
    why_nothing_is_learned,
)
from opilio.crawl.training_rounds import MET, Meetings, Rounds
from opilio.crawl.worker_pool import Workers
from opilio.errors import InputError, told
from opilio.frontier import ABSENT
from opilio.learn.training_data import fingerprint, has_documents
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.loading import ExampleRecord
from opilio.topics import TopicRecord

OASIS = "oasis"  # the classifier with a variable part
REDRAWN = "variable part drawn anew"  # why a model was made that judges nothing anew
_HURRY = "UPDATE crawl SET relevance = 1.0, depth = 0 WHERE oid IN (SELECT unnest(?)) AND state = 'waiting'"
_ENDS = ("the crawl ends, and trains nothing any more", "Try again when it has ended.")
NOT_A_TOPIC = -2  # of a document that is an example of what is not wanted


class Teacher:
    """Trains when there is reason to, one model at a time."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        absorber: Absorber,
        workers: Workers,
        commit: Callable[[], Awaitable[None]],
        order_anew: Callable[[], Awaitable[None]],
    ) -> None:
        """`commit` writes all that was absorbed, so that a training set can be read; `order_anew` has all that waits
        taken from the database again, with its new relevance."""
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._workers = workers
        self._commit = commit
        self._order_anew = order_anew
        self._wait_until_s = time.monotonic() + settings.classify.examples_timeout_s
        self._reason = ""
        self._training: asyncio.Task[None] | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self._listeners: list[asyncio.Future[int]] = []
        self._drawn = self._found
        self._rounds = Rounds(settings, store, absorber)
        self._meetings = Meetings(settings, store, absorber)
        self._late: set[int] = set()
        self._judges_anew = True
        self._hurries = False
        self._has_ended = False
        models = store.load_models()
        self.version = models[0].version if models else 0
        self.note = describe(models, settings)
        """What pages are judged by, in words."""
        self._adopt(store.load_topics(), examples_to_fetch(store))
        if self._learns:
            if not models and has_documents(store):
                self._reason = "first model"
                absorber.frontier.holds_back = not absorber.counters.pages  # else examples may wait in the database too
            elif models and models[0].taught != fingerprint(store, settings):
                self._reason = "topics, examples or settings were changed"
            elif models and models[0].reason != REDRAWN and has_older_judgements(store, self.version):
                self._begin(self._judge_by_latest())  # the last crawl ended in the middle of it

    @property
    def _learns(self) -> bool:
        return self._settings.classify.classifier != KEYWORDS and self._settings.store.terms

    @property
    def is_busy(self) -> bool:
        """Whether a model is on its way."""
        return self._training is not None or bool(self._reason)

    @property
    def holds(self) -> bool:
        """Whether nothing should be fetched for now."""
        return self._settings.learn.synchronous and self._training is not None

    @property
    def awaits(self) -> bool:
        """Whether examples are still to be fetched before it can train."""
        return bool(self._reason) and bool(self._awaited())

    def change_settings(self, settings: Settings) -> None:
        """Train by other settings from now on."""
        self._settings = settings
        self._rounds.change_settings(settings)
        self._meetings.change_settings(settings)

    def look(self) -> None:
        """Begin to train when it is time. Called often."""
        self._let_go()
        if self._training is None and not self._reason and self._late and self._came_late():
            self._reason = "examples came late"
        if self._training is None and self._reason and not self._awaited():
            reason, self._reason = self._reason, ""
            self._late = {oid for oid in self._absorber.examples if self._absorber.settled[oid] == OPEN}
            self._begin(self._teach(reason))
        elif self._training is None and self._absorber.judged_before:
            self._begin(self._judge_by_latest(late=True))
        elif self._training is None and self.version and self._learns and self._rounds.is_due:
            self._begin(self._learn_by_itself(""))
        elif self._training is None and self.version and self._learns and self._meetings.is_due:
            self._begin(self._meet())
        elif self._training is None and self._found - self._drawn >= self._settings.oasis.redraw_after:
            self._drawn = self._found
            if self.version and self._settings.classify.classifier == OASIS:
                self._begin(self._redraw())

    def _let_go(self) -> None:
        """Hold links back no longer when the examples still to come wait in the database, with them."""
        frontier = self._absorber.frontier
        if frontier.holds_back and not frontier.in_flight and not frontier.hot and self._awaited():
            frontier.holds_back = False

    @property
    def _found(self) -> int:
        return self._absorber.counters.counts[FOUND]

    def _begin(self, training: Coroutine[None, None, None]) -> None:
        self._training = asyncio.create_task(training)
        self._training.add_done_callback(self._end)

    def _came_late(self) -> bool:
        """Whether all examples that a training did not wait for have come to their end, and some have come."""
        settled = self._absorber.settled
        if any(settled[oid] == OPEN for oid in self._late):
            return False
        came = any(settled[oid] == STORED for oid in self._late)
        self._late.clear()
        return came

    def ways_to(self, oids: list[int]) -> dict[int, tuple[str, bytes]]:
        """What the pages that led to URLs tell of them, when the judge looks at that; from any thread."""
        return learn.ways_to(self._store, oids, self._settings.classify) if self.version and self._learns else {}

    async def retrain(self, reason: str, *, judge_anew: bool = True) -> int:
        """Train anew as soon as possible; the version that came of it. Raises what training raises."""
        self._check_open()
        self._reason = reason
        self._judges_anew = judge_anew
        heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._listeners.append(heard)
        self.look()
        return await heard

    async def teach_itself(self, reason: str) -> learn.Round:
        """Look for archetypes as soon as nothing else is under way, and learn from them; what came of it.

        Returns when pages are judged anew by the model that was made, or when there is none. Raises what training does.
        """
        self._check_open()
        while self._training is not None:
            await asyncio.wait({self._training})
        self._check_open()
        heard: asyncio.Future[learn.Round] = asyncio.get_running_loop().create_future()
        self._begin(self._learn_by_itself(reason, heard))
        return await heard

    async def use_model(self, version: int) -> int:
        """Judge by an older model from now on, under a new version, which is returned."""
        if self._has_ended:
            raise InputError(*_ENDS)
        if self._training is not None:
            raise InputError("a model is being trained", "Try again when it is there.")
        heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._begin(self._renew(version, heard))
        return await heard

    async def _renew(self, version: int, heard: asyncio.Future[int]) -> None:
        try:
            await self._commit()
            taught = await asyncio.to_thread(fingerprint, self._store, self._settings)
            renewed = await asyncio.to_thread(learn.renew, self._store, version)
            await self._hand_out(renewed, again(version), taught)
        except Exception as error:  # no training has failed: it is the asker's to hear of
            if not heard.done():
                heard.set_exception(error)
            return
        if not heard.done():
            heard.set_result(renewed.version)
        await self._judge_anew(renewed.model)

    def _check_open(self) -> None:
        """Refuse to train where nothing is learned, and once the crawl ends: nobody would begin it any more."""
        if not self._learns:
            raise InputError(*why_nothing_is_learned(self._settings))
        if self._has_ended:
            raise InputError(*_ENDS)

    async def learn_soon(self, reason: str) -> None:
        """Take over topics, marks and examples that were changed, and train anew once the examples are there."""
        topics = await asyncio.to_thread(self._store.load_topics)
        examples = await asyncio.to_thread(examples_to_fetch, self._store)
        self._adopt(topics, examples)
        await self._hurry()
        self._wait_until_s = time.monotonic() + self._settings.classify.examples_timeout_s
        if self._learns and await asyncio.to_thread(has_documents, self._store):
            if self._training is not None or await asyncio.to_thread(self._is_news):
                self._reason = reason
        elif self._settings.store.terms and any(topic.keywords for topic in topics):
            self._workers.learn(learn.keyword_model(topics).to_bytes())

    def _is_news(self) -> bool:
        """Whether another model would come of what is taught: not when the user vouches for what was learned anyway."""
        models = self._store.load_models()
        return not models or models[0].taught != fingerprint(self._store, self._settings)

    async def _hurry(self) -> None:
        """Have examples asked for next that have been waiting as mere links."""
        absorber = self._absorber
        waiting = [oid for oid in absorber.examples if absorber.settled[oid] == OPEN]
        if waiting:
            await self._commit()
            await asyncio.to_thread(self._store.query, _HURRY, [waiting], write=True)
            frontier = absorber.frontier
            frontier.change_strategy(copy.copy(frontier.strategy))  # another one: a refill under way is out of date

    async def notice(self) -> None:
        """Look whether the user changed by SQL what is wanted."""
        topics = await asyncio.to_thread(self._store.load_topics)
        if wanted_topics(topics) != self._absorber.wanted:
            await self.learn_soon("the marks of topics were changed")

    async def close(self, at_once: asyncio.Event) -> None:
        """Wait for a training under way, seconds that a later crawl would have to spend again; but not `at_once`."""
        self._reason, self._has_ended = "", True
        await finish(self._training, at_once, self._give_up)
        if self._absorber.judged_before and not self._hurries:  # the last pages, under way when the model came
            self._begin(self._judge_by_latest(late=True))
            await finish(self._training, at_once, self._give_up)
        self._tell_listeners(InputError(*_ENDS))

    def _give_up(self) -> None:
        self._hurries = True
        for process in self._processes:
            process.kill()

    def _awaited(self) -> list[int]:
        """Examples that may still come."""
        if time.monotonic() > self._wait_until_s:
            return []
        settled = self._absorber.settled
        return [oid for oid in self._absorber.examples if settled[oid] == OPEN]

    async def _teach(self, reason: str) -> None:
        await self._commit()
        taught = await asyncio.to_thread(fingerprint, self._store, self._settings)
        known = await asyncio.to_thread(learn.gather, self._store, self._settings)
        training = await asyncio.to_thread(learn.with_strangers, self._store, self._settings, known, self._has_started)
        trained = await asyncio.to_thread(
            learn.train_beside, training, self._settings, self.version + 1, self._has_started
        )
        self._processes.clear()
        await self._hand_out(trained, reason, taught)
        for heard in self._listeners:
            if not heard.done():
                heard.set_result(trained.version)
        self._listeners.clear()
        if self._judges_anew:
            await self._judge_anew(trained.model)
        self._judges_anew = True

    async def _meet(self) -> None:
        """Learn from pages that are about nothing wanted, if there are any."""
        await self._commit()
        trained, taught = await self._meetings.run(self.version + 1, self._has_started)
        self._processes.clear()
        if trained is not None:
            await self._hand_out(trained, MET, taught)
            await self._judge_anew(trained.model)

    async def _learn_by_itself(self, reason: str, heard: asyncio.Future[learn.Round] | None = None) -> None:
        try:
            changes = await self._round(reason)
        except Exception as error:
            if heard is not None and not heard.done():
                heard.set_exception(error)
            raise
        if heard is not None and not heard.done():
            heard.set_result(changes)

    async def _round(self, reason: str) -> learn.Round:
        """Look for archetypes; hand the model out that was made of them, unless it is refused."""
        self._rounds.begin()
        await self._commit()
        changes, trained, taught = await self._rounds.run(self.version + 1, self._has_started)
        self._processes.clear()
        if trained is not None:
            await self._hand_out(trained, f"{changes} ({reason})" if reason else str(changes), taught)
            await self._judge_anew(trained.model)
        return changes

    def _has_started(self, process: subprocess.Popen[bytes]) -> None:
        self._processes.append(process)
        if self._hurries:
            process.kill()

    async def _hand_out(self, trained: learn.Trained, reason: str, taught: str) -> None:
        await asyncio.to_thread(learn.store_model, self._store, trained, reason, self._settings, taught)
        self.version = trained.version
        self.note = note(trained.version, trained.classifier, trained.documents)
        self._workers.learn(trained.model)
        self._absorber.frontier.holds_back = False
        self._absorber.counters.add("models trained")

    async def _redraw(self) -> None:
        await self._commit()
        [latest, *_] = await asyncio.to_thread(self._store.load_models)
        drawn = await asyncio.to_thread(learn.redraw, self._store, self.version)
        if drawn is not None:
            await self._hand_out(drawn, REDRAWN, latest.taught)

    async def _judge_by_latest(self, *, late: bool = False) -> None:
        await self._judge_anew(await asyncio.to_thread(self._store.load_model), late=late)

    async def _judge_anew(self, model: bytes, *, late: bool = False) -> None:
        """Judge what older models judged, then order anew; a strategy that learns is not told all again for `late`
        pages, those few that were under way when the model came."""
        self._absorber.judged_from = self.version
        self._absorber.judged_before = 0
        await self._commit()
        examples = await asyncio.to_thread(examples_in, self._store)
        rejudge = functools.partial(learn.rejudge, on_progress=lambda _: not self._hurries, beside=self._has_started)
        judged = await asyncio.to_thread(rejudge, self._store, model, examples, self._settings.classify)
        self._processes.clear()
        self._absorber.counters.add("pages judged anew", judged.pages)
        if not (late and self._absorber.frontier.strategy.learns):
            await self._order_anew()

    def _adopt(self, topics: Sequence[TopicRecord], examples: Iterable[ExampleRecord]) -> None:
        """Take over what is wanted, and have the examples fetched."""
        absorber, now_s = self._absorber, time.time()
        absorber.wanted = wanted_topics(topics)
        absorber.examples.clear()  # some may have been dropped
        for topic in topics:
            absorber.frontier.add_topic(topic.kcid)
        for example in examples:
            oid = absorber.offer(example.url, parent=-1, depth=0, relevance=1.0, topic=example.kcid, now_s=now_s)
            if oid != ABSENT:
                absorber.examples[oid] = example.kcid if example.positive else NOT_A_TOPIC

    def _end(self, training: asyncio.Task[None]) -> None:
        self._training = None
        self._absorber.frontier.holds_back = False
        error = None if training.cancelled() else training.exception()
        if error is None:
            return
        said = told(error)
        if not self._hurries:
            self.note = f"{self.note} (training failed: {said})"
            self._absorber.counters.add("trainings that failed")
        self._tell_listeners(error)

    def _tell_listeners(self, error: BaseException) -> None:
        for heard in self._listeners:
            if not heard.done():
                heard.set_exception(error)
        self._listeners.clear()
