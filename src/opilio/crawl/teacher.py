"""The teacher: has models trained in the background, and sends each new one to the workers.

The first model is trained as soon as the examples have been fetched. Until then the links found on them are held back:
without a model, nobody knows which of them are worth fetching. Examples that do not arrive in time are not waited for.

A new model reaches the workers at once. Then the pages that older models judged are re-judged, and the queued URLs that
these pages led to get their new places in the frontier. Pages that were under way meanwhile follow when they arrive.

When much was found, the crawl learns from that, too. A *round of archetypes* is due when `learn.retrain_after` more
pages were judged relevant since the last one; each round doubles that number for the next. A model is tried with
archetypes, and replaces the present one unless the guard refuses it. The more has been learned, the less another page
adds, and a crawl of any length has only a few dozen trainings.

*Negatives* (`learn/mined_negatives.py`) are mined early, when there is most to gain, and again whenever there are twice
as many pages to choose from, until there are enough. When the user went back to an older model, that model stays. How
often a crawl has done either survives a restart (table `progress`).
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence

from opilio import learn
from opilio.crawl.absorb import Absorber
from opilio.crawl.background import BackgroundTask, TaskSlot
from opilio.crawl.status import FOUND
from opilio.crawl.worker_pool import Workers
from opilio.errors import InputError, describe_error
from opilio.frontier import ABSENT
from opilio.learn.directories import DIRECTORY, OASIS, RelevantDirectories, uses_directories
from opilio.learn.training_data import fingerprint, has_documents, words_suffice
from opilio.learn.training_state import (
    KEYWORDS,
    describe,
    examples_in,
    examples_to_fetch,
    has_older_judgements,
    note,
    wanted_topics,
    why_nothing_is_learned,
)
from opilio.model import TrainingCause, TrainingReason, Visit
from opilio.process import Child, OnStart, Process
from opilio.settings import Settings
from opilio.store import Store
from opilio.store.judgements import relevant_directories
from opilio.store.loader import ExampleRecord, ModelRecord
from opilio.store.urls import make_first
from opilio.topics import TopicRecord
from opilio.topics.hierarchy import Hierarchy

REFUSED = "models refused"
MAX_DOUBLINGS = 30
LEARNED_AT_PAGES = (10, *(25 << doubling for doubling in range(20)))
"""Stored pages at which the crawl learns from them (docs/results/log.md, 2026-11-16)."""
_LOOK_AT_THEM = "Look at them, and confirm or reject: opilio archetypes list FOLDER"
REMEMBERED_PAGES = 1000
"""More than these are re-judged in a process of its own, and their words would not be held."""
MIN_NEW_PAGES = 25
"""New pages after which pages of directories that became relevant are re-judged; later, a tenth of all pages."""
QUIET_S = 1.5
"""A training waits until the user has changed nothing for so long."""
ROUND_REST = 2.0
"""After a round of mined negatives none begins for this many times as long as it took: in a crawl of hundreds of pages
a second the next one would come before this one has led anywhere."""
LATE_S = 5.0
"""After a model, pages that were under way when it came are re-judged this much later."""
_ENDS = ("the crawl ends, and trains nothing any more", "Try again when it has ended.")
NOT_A_TOPIC = -2  # of a document that is an example of what is not wanted


class Teacher(BackgroundTask):
    """Trains when there is a reason to, one model at a time."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        absorber: Absorber,
        workers: Workers,
        commit: Callable[[], Awaitable[None]],
        reprioritise: Callable[[], Awaitable[None]],
    ) -> None:
        """`commit` writes all that was absorbed, so that a training set can be read; `reprioritise` gives
        all queued URLs their places again, by their new relevance."""
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._workers = workers
        self._commit = commit
        self._reprioritise = reprioritise
        self._wait_until_s = time.monotonic() + settings.classify.examples_timeout_s
        self._quiet_until_s = 0.0
        self._handed_out_s = 0.0
        self._cause: TrainingCause | None = None
        self._slot = TaskSlot(self._end)
        self._processes: list[Process] = []
        self._is_prepared = False
        self._prepared: Child | None = None
        """The process of the first training, if it needs one: started while its examples are fetched."""
        self._listeners: list[asyncio.Future[int]] = []
        self._drawn = self._found
        self._directories_due_pages = 0
        self._archetypes = ArchetypeRounds(settings, store, absorber)
        self._negatives = NegativeMining(settings, store, absorber)
        self._late: set[int] = set()
        self._rejudges = True
        self._has_ended = False
        models = store.load_models()
        self.version = models[0].version if models else 0
        self.note = describe(models, settings)
        """The model that judges, in words."""
        self._adopt(store.load_topics(), examples_to_fetch(store))
        self._use_directories()
        if self._learns:
            if not models and self._can_train():
                self._cause = TrainingCause(TrainingReason.FIRST)
                # Not in a crawl that has pages: then examples may be queued in the database, too.
                absorber.frontier.tiers.holds_back = not absorber.counters.pages
            elif models and models[0].taught != fingerprint(store, settings):
                self._cause = TrainingCause(TrainingReason.CHANGED)
            elif models and self._has_old_judgements(models[0]):
                self._slot.start(self._judge_by_latest())  # the last crawl ended in the middle of it

    def _has_old_judgements(self, latest: ModelRecord) -> bool:
        """Whether pages are stored that a model before the latest judged. A redrawn filter re-judges none."""
        redrawn = latest.cause.reason is TrainingReason.REDRAWN
        return not redrawn and has_older_judgements(self._store, latest.version)

    @property
    def _learns(self) -> bool:
        return self._settings.classify.classifier != KEYWORDS and self._settings.store.terms

    @property
    def is_busy(self) -> bool:
        """Whether a model is being trained, or will be."""
        return self._slot.is_busy or self._cause is not None

    @property
    def pauses_fetching(self) -> bool:
        """While a model is trained, but only when the crawl must be the same each time (`learn.synchronous`)."""
        return self._settings.learn.synchronous and self._slot.is_busy

    @property
    def awaits(self) -> bool:
        """Whether examples are still to be fetched before it can train."""
        return self._cause is not None and bool(self._awaited())

    def change_settings(self, settings: Settings) -> None:
        """Train with other settings from now on."""
        had_directories = uses_directories(self._settings)
        self._settings = settings
        self._archetypes.change_settings(settings)
        self._negatives.change_settings(settings)
        if uses_directories(settings) != had_directories:
            self._use_directories()

    def look(self) -> None:
        """Start to train when it is time."""
        self._release_links()
        if self._slot.is_busy:
            return
        if self._cause is not None and not self.version and not self._is_prepared:
            self._is_prepared = True
            self._prepared = learn.prepare_training(self._settings, len(self._absorber.examples))
        if self._cause is None and self._late and self._came_late():
            self._cause = TrainingCause(TrainingReason.EXAMPLES)
        if self._cause is not None and time.monotonic() < self._quiet_until_s:
            return
        if self._cause is not None and not self._awaited():
            cause, self._cause = self._cause, None
            self._late = {oid for oid in self._absorber.examples if self._absorber.ledger.is_open(oid)}
            self._slot.start(self._teach(cause))
        elif self._absorber.pages_of_older_models_seen and self._may_judge_late:
            self._slot.start(self._judge_by_latest(late=True))
        elif self.version and self._learns and self._archetypes.is_due:
            self._slot.start(self._learn_by_itself(""))
        elif self.version and self._learns and self._negatives.is_due:
            self._slot.start(self._mine_negatives())
        elif self._has_new_directories and self._absorber.counters.pages >= self._directories_due_pages:
            self._slot.start(self._rejudge_directories())
        elif self._found - self._drawn >= self._settings.oasis.redraw_after:
            self._drawn = self._found
            if self.version and self._settings.classify.classifier == OASIS:
                self._slot.start(self._redraw())

    @property
    def _may_judge_late(self) -> bool:
        """Whether to re-judge now the pages that were under way when the model came.

        Where that changes no order, all of them are waited for: the next model, which may come first, re-judges them
        too.
        """
        changes_order = self._absorber.frontier.learner is None or self._settings.learn.synchronous
        return changes_order or time.monotonic() >= self._handed_out_s + LATE_S

    def _release_links(self) -> None:
        """Hold links back no longer when the examples still to come are queued in the database, along with them."""
        frontier = self._absorber.frontier
        if frontier.tiers.holds_back and not frontier.in_flight and not frontier.hot and self._awaited():
            frontier.tiers.holds_back = False

    def _use_directories(self) -> None:
        """Give the absorber the directories of stored relevant pages, or none when that metric is not in use."""
        is_used = uses_directories(self._settings)
        known = relevant_directories(self._store, DIRECTORY) if is_used else {}
        self._absorber.directories = RelevantDirectories(known) if is_used else None

    @property
    def _has_new_directories(self) -> bool:
        return self._absorber.directories is not None and self._absorber.directories.has_new

    @property
    def _found(self) -> int:
        return self._absorber.counters.counts[FOUND]

    def _came_late(self) -> bool:
        """Whether all examples that a training did not wait for are settled, and some were fetched."""
        ledger = self._absorber.ledger
        if any(ledger.is_open(oid) for oid in self._late):
            return False
        came = any(ledger.is_stored(oid) for oid in self._late)
        self._late.clear()
        return came

    def remember(self, visits: Iterable[Visit]) -> None:
        """Remember how workers have split the first pages into words: each is learned from and re-judged here."""
        if self._learns and self._absorber.counters.pages < REMEMBERED_PAGES:
            learn.remember_pages(visit.document for visit in visits if visit.document is not None)

    def link_contexts(self, oids: list[int]) -> dict[int, tuple[str, bytes]]:
        """The link contexts of URLs, when the classifier uses them; from any thread."""
        return learn.link_context(self._store, oids, self._settings.classify) if self.version and self._learns else {}

    async def retrain(self, cause: TrainingCause, *, rejudge: bool = True) -> int:
        """Train again as soon as possible; return the new version. Raises what training raises."""
        self._check_open()
        self._cause, self._quiet_until_s = cause, 0.0
        self._rejudges = rejudge
        heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._listeners.append(heard)
        self.look()
        return await heard

    async def teach_itself(self, occasion: str) -> learn.Round:
        """Look for archetypes as soon as nothing else is under way, and learn from them; return what changed.

        Returns when pages were re-judged by the new model, or when there is none. Raises what training raises.
        """
        self._check_open()
        await self._slot.wait()
        self._check_open()
        heard: asyncio.Future[learn.Round] = asyncio.get_running_loop().create_future()
        self._slot.start(self._learn_by_itself(occasion, heard))
        return await heard

    async def use_model(self, version: int) -> int:
        """Go back to an older model, under a new version, which is returned."""
        if self._has_ended:
            raise InputError(*_ENDS)
        if self._slot.is_busy:
            raise InputError("a model is being trained", "Try again when it is there.")
        heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._slot.start(self._renew(version, heard))
        return await heard

    async def _renew(self, version: int, heard: asyncio.Future[int]) -> None:
        try:
            await self._commit()
            taught = await asyncio.to_thread(fingerprint, self._store, self._settings)
            renewed = await asyncio.to_thread(learn.reuse_model, self._store, version)
            await self._hand_out(renewed, TrainingCause(TrainingReason.REUSED, repeats=version), taught)
        except Exception as error:  # no training has failed: only the caller needs to know
            if not heard.done():
                heard.set_exception(error)
            return
        if not heard.done():
            heard.set_result(renewed.version)
        await self._rejudge(renewed.model)

    def _check_open(self) -> None:
        """Refuse to train where nothing is learned, and once the crawl ends: nothing is started any more."""
        if not self._learns:
            raise InputError(*why_nothing_is_learned(self._settings))
        if self._has_ended:
            raise InputError(*_ENDS)

    async def learn_soon(self, cause: TrainingCause, *, more_may_follow: bool = True) -> None:
        """Adopt topics, marks and examples that were changed, and train again once the examples are there.

        Changes that follow each other within `QUIET_S`, such as answers to questions, are learned in one training.
        """
        if more_may_follow and not self._settings.learn.synchronous:
            self._quiet_until_s = time.monotonic() + QUIET_S
        topics = await asyncio.to_thread(self._store.load_topics)
        examples = await asyncio.to_thread(examples_to_fetch, self._store)
        self._adopt(topics, examples)
        await self._fetch_examples_next()
        self._wait_until_s = time.monotonic() + self._settings.classify.examples_timeout_s
        if self._learns and await asyncio.to_thread(self._can_train):
            if self._slot.is_busy or await asyncio.to_thread(self._is_news):
                self._cause = cause
        elif self._settings.store.terms and any(topic.keywords for topic in topics):
            classifier = self._settings.classify.classifier
            model = await asyncio.to_thread(learn.words_model, self._store, classifier)
            self._workers.use_model(model.to_bytes())

    def _can_train(self) -> bool:
        """Whether there is enough to learn from; the first model must also be better than the words it replaces."""
        return has_documents(self._store) and bool(self.version or not words_suffice(self._store))

    def _is_news(self) -> bool:
        """Whether training would give another model: not when the user confirms what was learned anyway."""
        models = self._store.load_models()
        return not models or models[0].taught != fingerprint(self._store, self._settings)

    async def _fetch_examples_next(self) -> None:
        """Have examples fetched next that were queued as mere links."""
        absorber = self._absorber
        waiting = [oid for oid in absorber.examples if absorber.ledger.is_open(oid)]
        if waiting:
            await self._commit()
            await asyncio.to_thread(make_first, self._store, waiting)
            frontier = absorber.frontier
            frontier.change_strategy(copy.copy(frontier.strategy))  # another one: a refill under way is out of date

    async def notice(self) -> None:
        """See whether the user changed by SQL which topics are wanted."""
        topics = await asyncio.to_thread(self._store.load_topics)
        if wanted_topics(topics) != self._absorber.wanted:
            await self.learn_soon(TrainingCause(TrainingReason.FEEDBACK, "the marks of topics were changed"))

    def begin_first_model(self) -> None:
        """At the end of a crawl: start to train the first model if that waits for nothing but time. `close` waits."""
        if self._cause is not None and not self.version and not self._slot.is_busy and not self._awaited():
            cause, self._cause = self._cause, None
            self._slot.start(self._teach(cause))

    async def close(self, at_once: asyncio.Event) -> None:
        """Wait for a training under way, seconds that a later crawl would have to spend again; cancel it once `at_once`
        is set."""
        self._cause, self._has_ended = None, True
        await self._slot.finish(at_once, self._cancel)
        if self._prepared is not None:
            self._prepared.close()
        if (
            self._absorber.pages_of_older_models_seen and not self._slot.is_cancelled
        ):  # the last pages, under way when the model came
            self._slot.start(self._judge_by_latest(late=True))
            await self._slot.finish(at_once, self._cancel)
        if self._has_new_directories and not self._slot.is_cancelled:
            self._slot.start(self._rejudge_directories())
            await self._slot.finish(at_once, self._cancel)
        self._tell_listeners(InputError(*_ENDS))

    def _cancel(self) -> None:
        self._slot.is_cancelled = True
        for process in self._processes:
            process.kill()

    def _awaited(self) -> list[int]:
        """Examples that may still arrive."""
        if time.monotonic() > self._wait_until_s:
            return []
        ledger = self._absorber.ledger
        return [oid for oid in self._absorber.examples if ledger.is_open(oid)]

    async def _teach(self, cause: TrainingCause) -> None:
        await self._commit()
        is_checked = cause.reason is TrainingReason.FEEDBACK and not self._listeners
        if is_checked and not await asyncio.to_thread(self._is_news):  # the training before has learned it
            return
        taught = await asyncio.to_thread(fingerprint, self._store, self._settings)
        known = await asyncio.to_thread(learn.gather, self._store, self._settings)
        training = await asyncio.to_thread(
            learn.with_crawled_pages, self._store, self._settings, known, self._has_started
        )
        prepared, self._prepared = self._prepared, None
        trained = await asyncio.to_thread(
            learn.train_off_loop, training, self._settings, self.version + 1, self._has_started, prepared
        )
        self._processes.clear()
        await self._hand_out(trained, cause, taught)
        for heard in self._listeners:
            if not heard.done():
                heard.set_result(trained.version)
        self._listeners.clear()
        if self._rejudges:
            await self._rejudge(trained.model)
        self._rejudges = True

    async def _mine_negatives(self) -> None:
        """Mine negatives, and train with them if there are any."""
        if not await self._negatives.has_enough_pages():
            return
        self._negatives.begin()
        await self._commit()
        trained, taught = await self._negatives.run(self.version + 1, self._has_started)
        self._processes.clear()
        if trained is not None:
            await self._hand_out(trained, TrainingCause(TrainingReason.NEGATIVES), taught)
            await self._rejudge(trained.model)
        self._negatives.end()

    async def _learn_by_itself(self, occasion: str, heard: asyncio.Future[learn.Round] | None = None) -> None:
        try:
            changes = await self._round(occasion)
        except Exception as error:
            if heard is not None and not heard.done():
                heard.set_exception(error)
            raise
        if heard is not None and not heard.done():
            heard.set_result(changes)

    async def _round(self, occasion: str) -> learn.Round:
        """Look for archetypes, and hand out the model trained with them unless the guard refuses it."""
        self._archetypes.begin()
        await self._commit()
        changes, trained, taught = await self._archetypes.run(self.version + 1, self._has_started)
        self._processes.clear()
        if trained is not None:
            detail = f"{changes} ({occasion})" if occasion else str(changes)
            await self._hand_out(trained, TrainingCause(TrainingReason.ARCHETYPES, detail), taught)
            await self._rejudge(trained.model)
        return changes

    def _has_started(self, process: Process) -> None:
        self._processes.append(process)
        if self._slot.is_cancelled:
            process.kill()

    async def _hand_out(self, trained: learn.TrainedModel, cause: TrainingCause, taught: str) -> None:
        await asyncio.to_thread(learn.store_model, self._store, trained, cause, self._settings, taught)
        self.version, self._handed_out_s = trained.version, time.monotonic()
        self.note = note(trained.version, trained.classifier, trained.documents, trained.estimates)
        self._workers.use_model(trained.model)
        self._absorber.frontier.tiers.holds_back = False
        self._absorber.counters.add("models trained")

    async def _redraw(self) -> None:
        await self._commit()
        [latest, *_] = await asyncio.to_thread(self._store.load_models)
        drawn = await asyncio.to_thread(learn.redraw, self._store, self._settings, self.version)
        if drawn is not None:
            await self._hand_out(drawn, TrainingCause(TrainingReason.REDRAWN), latest.taught)

    async def _judge_by_latest(self, *, late: bool = False) -> None:
        await self._rejudge(await asyncio.to_thread(self._store.load_model), late=late)

    async def _rejudge(self, model: bytes, *, late: bool = False) -> None:
        """Re-judge what older models judged, then reprioritise. For `late` pages, the few that were under way when the
        model came, a strategy that learns is not given everything again."""
        self._absorber.min_model_version = self.version
        self._absorber.pages_of_older_models_seen = 0
        await self._commit()
        examples = await asyncio.to_thread(examples_in, self._store)
        rejudge = functools.partial(
            learn.rejudge, on_progress=lambda _: not self._slot.is_cancelled, on_start=self._has_started
        )
        judged = await asyncio.to_thread(rejudge, self._store, model, examples, self._settings.classify)
        self._processes.clear()
        self._absorber.counters.add("pages re-judged", judged.pages)
        if self._absorber.directories is not None:
            await self._commit()
            # The new model may find pages of other directories relevant.
            known = await asyncio.to_thread(relevant_directories, self._store, DIRECTORY)
            self._absorber.directories = RelevantDirectories(known)
            await self._accept_by_directory(examples)
        if not (late and self._absorber.frontier.learner):
            await self._reprioritise()

    async def _rejudge_directories(self) -> None:
        """Re-judge stored pages of directories that became known since. Due again when there are a tenth more pages."""
        pages = self._absorber.counters.pages
        self._directories_due_pages = pages + max(MIN_NEW_PAGES, pages // 10)
        await self._commit()
        examples = await asyncio.to_thread(examples_in, self._store)
        if await self._accept_by_directory(examples):
            await self._reprioritise()

    async def _accept_by_directory(self, examples: Collection[int]) -> int:
        directories = self._absorber.directories
        if directories is None:
            return 0
        judged = await asyncio.to_thread(learn.rejudge_directories, self._store, directories.take_new(), examples)
        self._absorber.counters.add("pages re-judged", judged)
        return judged

    def _adopt(self, topics: Sequence[TopicRecord], examples: Iterable[ExampleRecord]) -> None:
        """Adopt which topics are wanted, and have the examples fetched."""
        absorber, now_s = self._absorber, time.time()
        absorber.wanted = wanted_topics(topics)
        absorber.examples.clear()  # some may have been dropped
        for topic in topics:
            absorber.frontier.add_topic(topic.kcid)
        for example in examples:
            oid = absorber.offer(example.url, parent=-1, depth=0, relevance=1.0, topic=example.kcid, now_s=now_s)
            if oid != ABSENT:
                absorber.examples[oid] = example.kcid if example.positive else NOT_A_TOPIC

    def _end(self, error: BaseException | None) -> None:
        self._absorber.frontier.tiers.holds_back = False
        if error is None:
            return
        if not self._slot.is_cancelled:
            self.note = f"{self.note} (training failed: {describe_error(error)})"
            self._absorber.counters.add("trainings that failed")
        self._tell_listeners(error)

    def _tell_listeners(self, error: BaseException) -> None:
        for heard in self._listeners:
            if not heard.done():
                heard.set_exception(error)
        self._listeners.clear()


class ArchetypeRounds:
    """Decides when a round is due, runs it, and remembers what the guard refused."""

    def __init__(self, settings: Settings, store: Store, absorber: Absorber) -> None:
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._refused: set[str] = set()
        if settings.learn.retrain_after or settings.learn.phases:
            learn.check_guard(settings)

    def change_settings(self, settings: Settings) -> None:
        """Use other settings from now on."""
        self._settings = settings

    @property
    def is_due(self) -> bool:
        """Whether enough relevant pages were found since the last round."""
        after, counters = self._settings.learn.retrain_after, self._absorber.counters
        found = counters.counts[FOUND] - counters.progress.relevant_at_round
        return after > 0 and found >= after << min(counters.progress.archetype_rounds, MAX_DOUBLINGS)

    def begin(self) -> None:
        """Count a round."""
        counters = self._absorber.counters
        rounds = counters.progress.archetype_rounds + 1
        counters.advance(archetype_rounds=rounds, relevant_at_round=counters.counts[FOUND])

    async def run(self, version: int, on_start: OnStart) -> tuple[learn.Round, learn.TrainedModel | None, str]:
        """What the round changes, the model trained with it, and the fingerprint of its training data.

        There is no model when nothing changes, when the same change was refused before, or when it is refused now.
        """
        surveyed, changes, trial = await asyncio.to_thread(self._find, on_start)
        if trial is None:
            return changes, None, ""
        verdict, trained = await asyncio.to_thread(learn.try_in_process, trial, self._settings, version, on_start)
        changes = dataclasses.replace(changes, verdict=verdict)
        if trained is None:
            self._refuse(surveyed.fingerprint(changes, self._settings), changes)
            return changes, None, ""
        changes = changes.without(verdict.left_out)
        await asyncio.to_thread(learn.write_round, self._store, changes)
        self._accept(changes, verdict, surveyed.training.hierarchy)
        return changes, trained, surveyed.fingerprint(changes, self._settings)

    def _find(self, on_start: OnStart) -> tuple[learn.Survey, learn.Round, learn.Trial | None]:
        surveyed = learn.survey(self._store, self._settings, on_start)
        changes = surveyed.choose(self._settings.learn)
        if changes.is_empty or surveyed.fingerprint(changes, self._settings) in self._refused:
            return surveyed, changes, None
        return surveyed, changes, learn.trial_of(self._store, self._settings, surveyed, changes)

    def _refuse(self, fingerprint: str, changes: learn.Round) -> None:
        self._refused.add(fingerprint)
        self._absorber.counters.add(REFUSED)
        self._absorber.notice("model", f"a model was refused ({changes}): {changes.verdict}", _LOOK_AT_THEM)

    def _accept(self, changes: learn.Round, verdict: learn.GuardVerdict, hierarchy: Hierarchy) -> None:
        self._absorber.notice("archetypes", f"{changes}; {verdict}", _LOOK_AT_THEM)
        for kcid, (before, after) in verdict.left_out.items():
            node = hierarchy.nodes[kcid]
            said = f"archetypes of {node.path or node.name!r} were refused: {before:.3f} before, {after:.3f} with them"
            self._absorber.notice("model", said, _LOOK_AT_THEM, kcid)


class NegativeMining:
    """Decides when negatives are mined, and trains a model with them."""

    def __init__(self, settings: Settings, store: Store, absorber: Absorber) -> None:
        self._settings = settings
        self._store = store
        self._absorber = absorber
        self._began_s = self._rests_until_s = 0.0

    def change_settings(self, settings: Settings) -> None:
        """Use other settings from now on."""
        self._settings = settings

    @property
    def is_due(self) -> bool:
        """Whether enough pages were stored for the next time."""
        rounds = self._absorber.counters.progress.negative_rounds
        if self._passed <= rounds or not learn.learns_from_crawled(self._settings):
            return False
        return self._settings.learn.synchronous or time.monotonic() >= self._rests_until_s

    def begin(self) -> None:
        """A round begins."""
        self._began_s = time.monotonic()

    def end(self) -> None:
        """A round has ended, and its model has judged the pages again."""
        now_s = time.monotonic()
        self._rests_until_s = now_s + ROUND_REST * (now_s - self._began_s)

    @property
    def _passed(self) -> int:
        return sum(self._absorber.counters.pages >= pages for pages in LEARNED_AT_PAGES)

    async def has_enough_pages(self) -> bool:
        """Whether there may be pages enough to learn from. The examples are none of them, so a round of the first few
        pages may be over before it has begun."""
        ledger, counters = self._absorber.ledger, self._absorber.counters
        unlabelled = counters.pages - sum(map(ledger.is_stored, self._absorber.examples))
        if await asyncio.to_thread(learn.has_enough_pages, self._store, self._settings, unlabelled):
            return True
        counters.advance(negative_rounds=self._passed)
        return False

    async def run(self, version: int, on_start: OnStart) -> tuple[learn.TrainedModel | None, str]:
        """The model trained with mined negatives, or None when there are none; and the fingerprint of its training
        data.

        The fingerprint leaves the negatives out: a crawl that goes on later need not train again.
        """
        self._absorber.counters.advance(negative_rounds=self._passed)
        return await asyncio.to_thread(self._train, version, on_start)

    def _train(self, version: int, on_start: OnStart) -> tuple[learn.TrainedModel | None, str]:
        taught = fingerprint(self._store, self._settings)
        if self._store.load_models()[0].cause.reason is TrainingReason.REUSED:
            return None, taught
        known = learn.gather(self._store, self._settings)
        training = learn.with_crawled_pages(self._store, self._settings, known, on_start)
        if training is known:
            return None, taught
        return learn.train_off_loop(training, self._settings, version, on_start), taught
