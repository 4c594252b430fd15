"""The teacher: has models trained beside the crawl, and hands each new one to the workers.

The first model is trained as soon as the examples have been fetched. Until then the links found on them wait: what is
fetched before there is a judge is fetched blindly. Examples that do not come in time are not waited for.

A new model reaches the workers at once. Then the pages that older models judged are judged anew, and what waits because
of them gets its new place in the frontier. Pages that were under way meanwhile follow when they have come.
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
from opilio.crawl.counters import FOUND
from opilio.crawl.pool import Workers
from opilio.errors import InputError, OpilioError
from opilio.frontier import ABSENT
from opilio.learn.lessons import fingerprint, has_documents
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.loading import ExampleRecord, ModelRecord
from opilio.topics import TopicRecord, hierarchy_of

OASIS = "oasis"  # the classifier with a variable part
KEYWORDS = "keywords"  # the classifier that learns nothing
REDRAWN = "variable part drawn anew"  # why a model was made that judges nothing anew
_HURRY = "UPDATE crawl SET relevance = 1.0, depth = 0 WHERE oid IN (SELECT unnest(?)) AND state = 'waiting'"
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
    ) -> None:
        """`commit` writes all that was absorbed, so that a training set can be read."""
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._workers = workers
        self._commit = commit
        self._wait_until_s = time.monotonic() + settings.classify.examples_wait_s
        self._reason = ""
        self._training: asyncio.Task[None] | None = None
        self._processes: list[subprocess.Popen[bytes]] = []
        self._listeners: list[asyncio.Future[int]] = []
        self._drawn = self._found
        self._late: set[int] = set()
        self._judges_anew = True
        self._hurries = False
        models = store.load_models()
        self.version = models[0].version if models else 0
        self.note = describe(models, settings)
        """What pages are judged by, in words."""
        self._adopt(store.load_topics(), store.load_examples())
        if self._learns:
            if not models and has_documents(store):
                self._reason = "first model"
                absorber.frontier.holds_back = not absorber.counters.pages  # else examples may wait in the database too
            elif models and models[0].taught != fingerprint(store, settings):
                self._reason = "topics, examples or settings were changed"
            elif models and models[0].reason != REDRAWN and _has_older_judgements(store, self.version):
                self._begin(self._judge_anew(store.load_model()))  # the last crawl ended in the middle of it

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
        return self._settings.learn.wait and self._training is not None

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
            self._begin(self._judge_anew(self._store.load_model()))
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
        if not self._learns:
            raise InputError(*why_nothing_is_learned(self._settings))
        self._reason = reason
        self._judges_anew = judge_anew
        heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._listeners.append(heard)
        self.look()
        return await heard

    async def use_model(self, version: int) -> int:
        """Judge by an older model from now on, under a new version, which is returned."""
        if self._training is not None:
            raise InputError("a model is being trained", "Try again when it is there.")
        await self._commit()
        taught = await asyncio.to_thread(fingerprint, self._store, self._settings)
        renewed = await asyncio.to_thread(learn.renew, self._store, version)
        await self._hand_out(renewed, f"model {version} again", taught)
        self._begin(self._judge_anew(renewed.model))
        return renewed.version

    async def learn_soon(self, reason: str) -> None:
        """Take over topics, marks and examples that were changed, and train anew once the examples are there."""
        topics = await asyncio.to_thread(self._store.load_topics)
        examples = await asyncio.to_thread(self._store.load_examples)
        self._adopt(topics, examples)
        await self._hurry()
        self._wait_until_s = time.monotonic() + self._settings.classify.examples_wait_s
        if self._learns and await asyncio.to_thread(has_documents, self._store):
            self._reason = reason
        elif self._settings.store.terms and any(topic.keywords for topic in topics):
            self._workers.learn(learn.keyword_model(topics).to_bytes())

    async def _hurry(self) -> None:
        """Have examples asked for next that have been waiting as mere links."""
        absorber = self._absorber
        waiting = [oid for oid in absorber.examples if absorber.settled[oid] == OPEN]
        if waiting:
            await self._commit()
            await asyncio.to_thread(self._store.query, _HURRY, [waiting], write=True)
            self._order_anew()

    def _order_anew(self) -> None:
        """Have all that waits taken from the database again, with its new relevance."""
        frontier = self._absorber.frontier
        frontier.change_strategy(copy.copy(frontier.strategy))  # another one: a refill under way is out of date

    async def notice(self) -> None:
        """Look whether the user changed by SQL what is wanted."""
        topics = await asyncio.to_thread(self._store.load_topics)
        if _wanted(topics) != self._absorber.wanted:
            await self.learn_soon("the marks of topics were changed")

    async def close(self, at_once: asyncio.Event) -> None:
        """Wait for a training under way, seconds that a later crawl would have to spend again; but not `at_once`."""
        self._reason = ""
        await self._finish(at_once)
        if self._absorber.judged_before and not self._hurries:  # the last pages, under way when the model came
            self._begin(self._judge_anew(self._store.load_model()))
            await self._finish(at_once)

    async def _finish(self, at_once: asyncio.Event) -> None:
        """Wait for what is under way."""
        training = self._training
        if training is None:
            return
        hurry = asyncio.create_task(at_once.wait())
        await asyncio.wait({training, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        self._hurries = not training.done()
        for process in self._processes:
            process.kill()
        await asyncio.gather(training, return_exceptions=True)

    def _awaited(self) -> list[int]:
        """Examples that may still come."""
        if time.monotonic() > self._wait_until_s:
            return []
        settled = self._absorber.settled
        return [oid for oid in self._absorber.examples if settled[oid] == OPEN]

    async def _teach(self, reason: str) -> None:
        await self._commit()
        taught = await asyncio.to_thread(fingerprint, self._store, self._settings)
        training = await asyncio.to_thread(learn.gather, self._store, self._settings)
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

    def _has_started(self, process: subprocess.Popen[bytes]) -> None:
        self._processes.append(process)
        if self._hurries:
            process.kill()

    async def _hand_out(self, trained: learn.Trained, reason: str, taught: str) -> None:
        await asyncio.to_thread(learn.store_model, self._store, trained, reason, self._settings, taught)
        self.version = trained.version
        self.note = _note(trained.version, trained.classifier, trained.documents)
        self._workers.learn(trained.model)
        self._absorber.frontier.holds_back = False
        self._absorber.counters.add("models trained")

    async def _redraw(self) -> None:
        await self._commit()
        taught = self._store.load_models()[0].taught
        drawn = await asyncio.to_thread(learn.redraw, self._store, self.version)
        if drawn is not None:
            await self._hand_out(drawn, REDRAWN, taught)

    async def _judge_anew(self, model: bytes) -> None:
        self._absorber.judged_from = self.version
        self._absorber.judged_before = 0
        await self._commit()
        examples = await asyncio.to_thread(examples_in, self._store)
        rejudge = functools.partial(learn.rejudge, on_progress=lambda _: not self._hurries)
        judged = await asyncio.to_thread(rejudge, self._store, model, examples, self._settings.classify)
        self._absorber.counters.add("pages judged anew", judged.pages)
        self._order_anew()

    def _adopt(self, topics: Sequence[TopicRecord], examples: Iterable[ExampleRecord]) -> None:
        """Take over what is wanted, and have the examples fetched."""
        absorber, now_s = self._absorber, time.time()
        absorber.wanted = _wanted(topics)
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
        said = error.message if isinstance(error, OpilioError) else f"{type(error).__name__}: {error}"
        if not self._hurries:
            self.note = f"{self.note} (training failed: {said})"
            self._absorber.counters.add("trainings that failed")
        for heard in self._listeners:
            if not heard.done():
                heard.set_exception(error)
        self._listeners.clear()


def why_nothing_is_learned(settings: Settings) -> tuple[str, str]:
    """Why no model can be trained under these settings, and what to do."""
    if settings.classify.classifier == KEYWORDS:
        return "the classifier 'keywords' learns nothing", "Choose another: opilio crawl FOLDER --classifier svm"
    return "no terms are kept of pages, so that nothing can be learned", "Set store.terms = true before you crawl."


def _wanted(topics: Sequence[TopicRecord]) -> frozenset[int]:
    hierarchy = hierarchy_of(topics)
    return frozenset(kcid for kcid in hierarchy.nodes if hierarchy.is_wanted(kcid))


def examples_in(store: Store) -> dict[int, int]:
    """The stored pages that are examples of topics that are wanted, by oid, with their topics."""
    hierarchy = hierarchy_of(store.load_topics())
    return {
        record.oid: record.kcid
        for record in store.load_training()
        if record.oid is not None and record.positive and hierarchy.is_wanted(record.kcid)
    }


def describe(models: Sequence[ModelRecord], settings: Settings) -> str:
    """What pages are judged by, in words; the newest model comes first."""
    if not models or settings.classify.classifier == KEYWORDS:
        return KEYWORDS
    return _note(models[0].version, models[0].classifier, models[0].documents)


def _has_older_judgements(store: Store, version: int) -> bool:
    sql = "SELECT count(*) FROM pages WHERE text IS NOT NULL AND coalesce(model_version, 0) < ?"
    return bool(store.query(sql, [version]).rows[0][0])


def _note(version: int, classifier: str, documents: int) -> str:
    return f"model {version} ({classifier}, {documents} example{'s' if documents != 1 else ''})"
