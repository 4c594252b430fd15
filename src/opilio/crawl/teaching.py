"""The teacher: has models trained beside the crawl, and hands each new one to the workers.

The first model is trained as soon as the examples have been fetched. Until then the links found on them wait: what is
fetched before there is a judge is fetched blindly. Examples that do not come in time are not waited for.

A new model reaches the workers at once. Then the pages that older models judged are judged anew, and what waits because
of them gets its new place in the frontier.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

from opilio import learn
from opilio.crawl.absorb import OPEN, Absorber
from opilio.crawl.counters import FOUND
from opilio.crawl.pool import Workers
from opilio.errors import OpilioError
from opilio.frontier import ABSENT
from opilio.learn.lessons import fingerprint, has_documents
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.loading import ExampleRecord, ModelRecord
from opilio.topics import TopicRecord, hierarchy_of

OASIS = "oasis"  # the classifier with a variable part
KEYWORDS = "keywords"  # the classifier that learns nothing
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
        models = store.load_models()
        self.version = models[0].version if models else 0
        self.note = describe(models)
        """What pages are judged by, in words."""
        self._adopt(store.load_topics(), store.load_examples())
        if settings.classify.classifier != KEYWORDS and settings.store.terms:
            if not models and has_documents(store):
                self._reason = "first model"
                absorber.frontier.holds_back = not absorber.counters.pages  # else examples may wait in the database too
            elif models and models[0].taught != fingerprint(store, settings):
                self._reason = "topics, examples or settings were changed"

    @property
    def is_busy(self) -> bool:
        """Whether a model is on its way."""
        return self._training is not None or bool(self._reason)

    def look(self) -> None:
        """Begin to train when it is time. Called often."""
        if self._training is None and self._reason and not self._awaited():
            reason, self._reason = self._reason, ""
            self._begin(self._teach(reason))
        elif self._training is None and self._found - self._drawn >= self._settings.oasis.redraw_after:
            self._drawn = self._found
            if self.version and self._settings.classify.classifier == OASIS:
                self._begin(self._redraw())

    @property
    def _found(self) -> int:
        return self._absorber.counters.counts[FOUND]

    def _begin(self, training: Coroutine[None, None, None]) -> None:
        self._training = asyncio.create_task(training)
        self._training.add_done_callback(self._end)

    async def retrain(self, reason: str) -> int:
        """Train anew as soon as possible; the version that came of it. Raises what training raises."""
        self._reason = reason
        heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._listeners.append(heard)
        self.look()
        return await heard

    async def learn_soon(self, reason: str) -> None:
        """Take over topics, marks and examples that were changed, and train anew once the examples are there."""
        topics = await asyncio.to_thread(self._store.load_topics)
        examples = await asyncio.to_thread(self._store.load_examples)
        self._adopt(topics, examples)
        self._wait_until_s = time.monotonic() + self._settings.classify.examples_wait_s
        learns = self._settings.classify.classifier != KEYWORDS and await asyncio.to_thread(has_documents, self._store)
        if learns:
            self._reason = reason
        elif any(topic.keywords for topic in topics):
            self._workers.learn(learn.keyword_model(topics).to_bytes())

    async def notice(self) -> None:
        """Look whether the user changed by SQL what is wanted."""
        topics = await asyncio.to_thread(self._store.load_topics)
        if _wanted(topics) != self._absorber.wanted:
            await self.learn_soon("the marks of topics were changed")

    async def close(self, at_once: asyncio.Event) -> None:
        """Wait for a training under way, seconds that a later crawl would have to spend again; but not `at_once`."""
        self._reason = ""
        training = self._training
        if training is None:
            return
        hurry = asyncio.create_task(at_once.wait())
        await asyncio.wait({training, hurry}, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
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
        training = await asyncio.to_thread(learn.gather, self._store, self._settings)
        trained = await asyncio.to_thread(
            learn.train_beside, training, self._settings, self.version + 1, self._processes.append
        )
        self._processes.clear()
        await self._hand_out(trained, reason)
        for heard in self._listeners:
            if not heard.done():
                heard.set_result(trained.version)
        self._listeners.clear()
        await self._judge_anew(trained.model)

    async def _hand_out(self, trained: learn.Trained, reason: str) -> None:
        await asyncio.to_thread(learn.store_model, self._store, trained, reason, self._settings)
        self.version = trained.version
        self.note = _note(trained.version, trained.classifier, trained.documents)
        self._workers.learn(trained.model)
        self._absorber.frontier.holds_back = False
        self._absorber.counters.add("models trained")

    async def _redraw(self) -> None:
        await self._commit()
        drawn = await asyncio.to_thread(learn.redraw, self._store, self.version)
        if drawn is not None:
            await self._hand_out(drawn, "variable part drawn anew")

    async def _judge_anew(self, model: bytes) -> None:
        await self._commit()
        examples = await asyncio.to_thread(examples_in, self._store)
        judged = await asyncio.to_thread(learn.rejudge, self._store, model, examples, self._settings.classify)
        self._absorber.counters.add("pages judged anew", judged.pages)
        frontier = self._absorber.frontier
        frontier.change_strategy(frontier.strategy)  # all that waits is taken from the database, with its new relevance

    def _adopt(self, topics: Sequence[TopicRecord], examples: Iterable[ExampleRecord]) -> None:
        """Take over what is wanted, and have the examples fetched."""
        absorber, now_s = self._absorber, time.time()
        absorber.wanted = _wanted(topics)
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
        self.note = f"{self.note} (training failed: {said})"
        self._absorber.counters.add("trainings that failed")
        for heard in self._listeners:
            if not heard.done():
                heard.set_exception(error)
        self._listeners.clear()


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


def describe(models: Sequence[ModelRecord]) -> str:
    """What pages are judged by, in words; the newest model comes first."""
    return _note(models[0].version, models[0].classifier, models[0].documents) if models else KEYWORDS


def _note(version: int, classifier: str, documents: int) -> str:
    return f"model {version} ({classifier}, {documents} example{'s' if documents != 1 else ''})"
