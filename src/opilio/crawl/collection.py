"""A collection: a folder with its settings, its database and its WARC files. Python users start here.

from opilio import Collection

birds = Collection.create("birds", bookmarks="bookmarks.html", settings={"limits.max_pages": 500})
report = birds.crawl()
print(report.reason, birds.sql("SELECT url, title FROM collection ORDER BY relevance DESC LIMIT 10").rows)
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import inspect
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import uvloop

import opilio
from opilio import learn
from opilio.analyze.files import read_file
from opilio.analyze.sketch import bands
from opilio.crawl.absorb import Absorber
from opilio.crawl.asker import Answerer, Labeller
from opilio.crawl.control import ControlServer
from opilio.crawl.engine import Engine
from opilio.crawl.ledger import Ledger
from opilio.crawl.messages import WorkerSetup
from opilio.crawl.operations import (
    Operation,
    asking,
    browse,
    crawling,
    database,
    federation,
    removal,
    reviewing,
    seeding,
    training,
)
from opilio.crawl.operations.client import OperationClient, is_running
from opilio.crawl.phases import phase_at_start, strategy_in
from opilio.crawl.restore import OnProgress, Recovery, reopen, restore
from opilio.crawl.shipping import check_url
from opilio.crawl.status import Counters, Status
from opilio.crawl.worker_pool import InlineWorkers, ProcessWorkers, Workers, started_early
from opilio.errors import CollectionBusy, CollectionError, InputError, OpilioError, SettingsError
from opilio.features.encoder import find_encoder
from opilio.features.word_vectors import INSTALLED, check_vectors
from opilio.federation.offers import admit_pending
from opilio.fetch.certificates import ca_certificates
from opilio.frontier import DatabaseStrategy, Duplicates, Frontier, LinkTextStrategy, ScopeFilter, make_strategy
from opilio.learn import training_data
from opilio.learn.labeller import check_labeller
from opilio.learn.training_state import KEYWORDS
from opilio.model import host_of, registered_domain
from opilio.process import collect_rarely, share_one_heap
from opilio.render import check_browser
from opilio.settings import FILE_NAME, Settings, load, override, to_toml
from opilio.settings.files import changing, without_secrets, write_settings
from opilio.store import Store, urls
from opilio.store.census import count_queued
from opilio.store.connection import FILE_NAME as DATABASE_NAME
from opilio.store.loader import SeedRecord
from opilio.store.warc import warc_elsewhere
from opilio.topics.hierarchy import ROOT
from opilio.topics.inputs import read_inputs
from opilio.topics.tree import TopicTree

if TYPE_CHECKING:  # it takes a while to import
    from opilio.fetch import Transport
    from opilio.seeds import ProviderAnswer

WARC_FOLDER = "warc"
_NOTHING = "nothing to start from", "Give --bookmarks, --seeds, --examples or --topics a FILE with URLs."
_NO_SEEDS = (
    "nothing to start from: words say what is wanted, but not where",
    "Name a service that finds pages for your words: --seed-provider searxng=ADDRESS (or opensearch=, mediawiki=, "
    "opilio=). Or give --seeds FILE: a list of URLs, one on each line, or the results of a search engine, saved as "
    'HTML; or --bookmarks FILE. From another collection: opilio sql OTHER "SELECT url FROM collection WHERE relevance '
    '>= 0.5" --format csv > seeds.txt',
)
MakeWorkers = Callable[[WorkerSetup], Workers]
AUTO = "auto"  # the strategy that is chosen when a crawl begins


P = ParamSpec("P")
R = TypeVar("R")


def method(operation: Operation[P, R]) -> Callable[Concatenate[Collection, P], R]:
    """A method of `Collection` that calls an operation: same arguments, result and docstring."""

    def call(self: Collection, /, *args: P.args, **kwargs: P.kwargs) -> R:
        for old, new in operation.renamed.items():
            if old in kwargs:
                warnings.warn(f"{operation.name}({old}=) is called {new} now", FutureWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
        return self._client.call(operation, *args, **kwargs)

    first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.signature(operation.function)
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]  # what help() and inspect look for
        parameters=[first, *operation.parameters.values()]
    )
    call.__name__, call.__doc__, call.__module__ = operation.name, operation.function.__doc__, __name__
    call.__qualname__ = f"Collection.{operation.name}"
    return call


def warn_of_trouble(answer: ProviderAnswer) -> None:
    """Give a warning when a seed provider could not answer."""
    if answer.trouble:
        warnings.warn(f"seed provider {answer.said}. {answer.hint}", UserWarning, stacklevel=2)


class Collection:
    """One collection. While a crawl runs in it, you can read, steer and export; not add inputs or change settings."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        if not (self.folder / DATABASE_NAME).is_file():
            raise CollectionError(
                f"{self.folder}: no collection there",
                f"Make one: opilio crawl {quote(str(self.folder))} --bookmarks FILE (or --seeds FILE)",
            )
        self._client = OperationClient(self.folder, load(self.folder / FILE_NAME))

    @property
    def settings(self) -> Settings:
        """The settings that the collection has."""
        return self._client.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self._client.settings = settings

    def __repr__(self) -> str:
        return f"Collection({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        """A card, for notebooks; never an error, for it may be shown while something else has the database."""
        from opilio.search.cards import collection_card, plain_card  # noqa: PLC0415

        try:
            return collection_card(self.folder.name, self.portal())
        except OpilioError as error:
            return plain_card(self.folder.name, error.message)

    # -- creating

    @classmethod
    def create(
        cls,
        folder: Path | str,
        *,
        bookmarks: Path | str | None = None,
        seeds: Path | str | None = None,
        query: str = "",
        description: str = "",
        examples: Path | str | None = None,
        topics: Path | str | None = None,
        system: str = "",
        settings: Settings | Mapping[str, Any] | None = None,
        folders: Iterable[str] | None = None,
        on_answer: Callable[[ProviderAnswer], object] = warn_of_trouble,
        needs_seeds: bool = True,
    ) -> Collection:
        """Make a collection from bookmarks, seeds, a query, examples, a taxonomy (`topics`), or several of them.

        Seed providers that the settings name (`seeds.providers`) are asked for pages to start from; `on_answer` is
        called with each answer. By default a provider that fails while others answer gives a UserWarning.

        `description` is a text of one or more sentences; from 30 words on it is a document to learn from.
        `system` names the system of a paper (`run.system`); `settings` count more. `folders` are the bookmark folders
        to take, by their paths; None takes all but those that a browser filled itself. Without `needs_seeds` there may
        be nothing to fetch, for a collection whose pages come out of archives.
        """
        check_new(folder)
        tree = read_inputs(bookmarks, seeds, query, examples, topics, description, folders)
        return cls.from_topics(
            folder,
            tree,
            system=system,
            settings=settings,
            question=query or description,
            on_answer=on_answer,
            needs_seeds=needs_seeds,
        )

    @classmethod
    def from_topics(
        cls,
        folder: Path | str,
        tree: TopicTree,
        *,
        system: str = "",
        settings: Settings | Mapping[str, Any] | None = None,
        question: str = "",
        on_answer: Callable[[ProviderAnswer], object] = warn_of_trouble,
        needs_seeds: bool = True,
    ) -> Collection:
        """Make a collection from a tree of topics, with their seeds and examples, that a program has built.

        `question` is what seed providers are asked for, if the settings name any.
        """
        check_new(folder)
        folder = Path(folder)
        tree.name_after(folder.resolve().name)
        of_system = {"run.system": system} if system else {}
        if isinstance(settings, Settings):
            chosen = override(settings, of_system, "system")
        else:
            chosen = override(Settings(), of_system | dict(settings or {}), "settings")
        chosen = _with_full_paths(chosen)
        _check_names(chosen, folder)
        if chosen.seeds.providers:
            from opilio.seeds import find_seeds, seeds_of  # noqa: PLC0415

            words = chosen.seeds.query or question
            answers = find_seeds(words, chosen)
            for answer in answers:
                on_answer(answer)
            for seed in seeds_of(answers, ROOT):
                tree.add_found(seed)
            chosen = override(chosen, {"seeds.query": words} if words else {}, "settings")
        if needs_seeds and not tree.seeds:
            raise InputError(*(_NO_SEEDS if question or tree.topics[ROOT].keywords else _NOTHING))
        try:
            (folder / WARC_FOLDER).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CollectionError(f"{folder}: cannot make the folder: {error.strerror}", "Choose another.") from None
        write_settings(folder, chosen)
        try:
            with Store.create(folder, memory_bytes=chosen.store.memory_bytes) as store:
                training_data.add_inputs(store, tree, "given", read_file)
        except BaseException:  # half a collection would get in the way of the next try
            for file in folder.glob(f"{DATABASE_NAME}*"):
                file.unlink()
            raise
        return cls(folder)

    def add(
        self,
        *,
        bookmarks: Path | str | None = None,
        seeds: Path | str | None = None,
        examples: Path | str | None = None,
        topics: Path | str | None = None,
        folders: Iterable[str] | None = None,
    ) -> int:
        """Add seeds, topics and examples to a collection that is not being crawled. Returns how many seeds were new."""
        tree = read_inputs(bookmarks, seeds, "", examples, topics, folders=folders)
        with self._client.opened_soon() as store:
            added = training_data.add_inputs(store, tree, "added", read_file)
            named = [*(seed.url for seed in tree.seeds), *(example.value for example in tree.training())]
            urls.claim(store, named)
        return added

    # -- crawling

    def crawl(
        self,
        *,
        settings: Mapping[str, Any] | None = None,
        on_tick: Callable[[Status], object] = lambda status: None,
        retry_failed: bool = False,
        recrawl: bool = False,
        transport: Transport | None = None,
        workers: MakeWorkers | None = None,
        answerer: Answerer | None = None,
        at_end: Callable[[], object] | None = None,
    ) -> Status:
        """Crawl until a limit is reached or nothing is left; continues where the last crawl stopped.

        `settings` changes settings permanently, by dotted name. `retry_failed` fetches failed URLs again, `recrawl` the
        pages that are stored; pages that were empty without JavaScript are fetched again once `render.mode` allows
        them to be rendered. `workers` makes workers that run elsewhere (`opilio.cluster`). `on_tick` is called a
        few times a second; when it returns False, the crawl ends. `answerer` answers the crawl's questions in place of
        the user: it is called with each as `questions` returns it, and returns True, False or None. `at_end` is called
        when the crawl has ended, while the database is still open: what it reads of this collection takes less time
        than later. Ctrl-C ends the crawl cleanly; a second Ctrl-C ends it at once.
        """
        share_one_heap()
        if settings:
            self.change_settings(settings)
        _check_names(self.settings, self.folder)  # the file may have been edited by hand
        if self.settings.render.is_on and transport is None and workers is None:
            check_browser(self.settings)
        if recrawl:
            self._check_recrawl()
        if self.settings.revisit.keep_fresh:
            self._check_keep_fresh()
        if self.settings.frontier.forget_after and self.settings.limits.max_pages_per_host:
            raise SettingsError(
                "forgotten pages of a host that has as many as it may have would be dropped",
                "Set [frontier] forget_after = 0, or [limits] max_pages_per_host = 0.",
            )
        with (
            _noted_signals() as interrupts,
            self._worker_maker(transport, workers) as make_workers,
            self._client.opened_soon(threads=1) as store,
        ):
            max_pages = self.settings.limits.max_pages
            if self.settings.revisit.keep_fresh and 0 < max_pages <= store.load_counters().get("pages", 0):
                raise SettingsError(
                    f"the collection has as many pages as limits.max_pages allows ({max_pages:,}), at which a crawl "
                    "ends, also one that keeps it fresh",
                    "Raise or remove the limit: --max-pages 0",
                )
            if retry_failed:
                urls.retry_failed(store)
            urls.retry_given_up(store, self.settings.fetch.host_tries)
            rendering = self.settings.render
            if shells := [host for host in urls.shells_by_host(store) if rendering.mode_of(host) != "never"]:
                urls.requeue_shells(store, shells)
            if recrawl:
                urls.recrawl(store)
            status = uvloop.run(self._run(store, on_tick, make_workers, answerer, interrupts))
            if at_end is not None:
                with self._client.reading_from(store):
                    at_end()
        return status

    @contextlib.contextmanager
    def _worker_maker(self, transport: Transport | None, elsewhere: MakeWorkers | None) -> Iterator[MakeWorkers]:
        """What makes the workers: `elsewhere`, or in the engine with a transport, or in processes that start now."""
        count = self.settings.run.workers
        if elsewhere is not None:
            yield elsewhere
        elif transport is not None or count < 0:
            yield lambda setup: InlineWorkers(setup, transport)
        else:
            with started_early(count) as started:
                yield lambda setup: ProcessWorkers(setup, count, started=started)

    def _check_recrawl(self) -> None:
        """Refuse limits that count stored pages: they would end a recrawl before it began."""
        limits = self.settings.limits
        if limits.max_pages or limits.max_pages_per_host:
            raise SettingsError(
                "a recrawl fetches pages that are stored, and the page limits count these",
                "Remove them for it: --max-pages 0 --max-pages-per-host 0; --max-time and --max-bytes may stay.",
            )

    def _check_keep_fresh(self) -> None:
        """Refuse what would keep pages from being visited again."""
        limits, revisit = self.settings.limits, self.settings.revisit
        if limits.max_pages_per_host:
            raise SettingsError(
                "a host with as many pages as limits.max_pages_per_host allows gets no requests, so its pages cannot "
                "be kept fresh",
                "Remove the limit, --max-pages-per-host 0, or do without --keep-fresh: --no-keep-fresh",
            )
        if not 0 < revisit.min_s <= revisit.max_s or not 0 <= revisit.share <= 1:
            raise SettingsError(
                f"revisit.min_s = {revisit.min_s:g}, revisit.max_s = {revisit.max_s:g}, revisit.share = "
                f"{revisit.share:g}: no order of visits follows from these",
                "Set 0 < revisit.min_s <= revisit.max_s, and a share between 0 and 1.",
            )

    def change_settings(self, changes: Mapping[str, Any]) -> None:
        """Change settings permanently, by dotted name: {"limits.max_pages": 1000}. Not while a crawl runs."""
        if is_running(self.folder):
            raise CollectionBusy(
                f"{self.folder}: a crawl runs here, and its settings cannot be changed meanwhile",
                f"Stop it first: opilio stop {quote(str(self.folder))}. "
                "Only the order can be changed now: opilio policy",
            )
        with changing(self.folder) as now:
            settings = _with_full_paths(override(now, dict(changes)))
            _check_names(settings, self.folder)
            self.settings = settings
            write_settings(self.folder, settings)

    async def _run(
        self,
        store: Store,
        on_tick: Callable[[Status], object],
        make_workers: MakeWorkers,
        answerer: Answerer | None,
        interrupts: _Interrupts,
    ) -> Status:
        with _signals_in_loop(interrupts):
            return await self._prepare_and_run(store, on_tick, make_workers, answerer, interrupts)

    async def _prepare_and_run(
        self,
        store: Store,
        on_tick: Callable[[Status], object],
        make_workers: MakeWorkers,
        answerer: Answerer | None,
        interrupts: _Interrupts,
    ) -> Status:
        if self.settings.learn.phases and not training_data.has_documents(store):
            raise InputError(
                "a phase of learning needs examples to learn from",
                "Give --bookmarks, --examples or --topics, or turn it off: --set learn.phases=false",
            )
        settings = self._settings_for(store)
        setup = self._worker_setup(store, settings)
        scope = ScopeFilter(self.settings.scope, frozenset(map(_domain_of, store.load_seeds())))
        reopened = reopen(store, self.settings.limits, scope)
        absorber = self._absorber(store, scope, settings)
        restore(store, absorber, self.folder / WARC_FOLDER)
        learner = absorber.frontier.learner
        if learner is not None:
            learn.prepare_from(store, settings, learner)
            if absorber.counters.pages:
                learn.replay_pages(store, learner)
        if reopened:
            absorber.counters.add("URLs taken up again after a limit was raised", reopened)
        self._offer_seeds(store, absorber)
        admit_pending(store, absorber)
        absorber.load_back_links()
        if self.settings.store.warc:
            self._recover(store, absorber, setup)
        collect_rarely()
        workers = make_workers(setup)
        names = {topic.kcid: topic.path or topic.name for topic in store.load_topics()}
        engine = Engine(settings, store, absorber, workers, names, answerer, self._labeller())
        pages_before = absorber.counters.pages
        run = store.start_run(time.time(), opilio.__version__, to_toml(without_secrets(self.settings)))
        interrupts.pass_to(engine)
        async with ControlServer(engine, self.folder):
            reason = await engine.run(on_tick)
        store.finish_run(run, time.time(), reason, absorber.counters.pages - pages_before)
        return dataclasses.replace(engine.status(), recall=learn.estimate_recall(store))

    def _labeller(self) -> Labeller | None:
        """What answers the crawl's questions in the user's place, by requests to the crawl as any other process; None
        when the user wants none."""
        return functools.partial(asking.label_questions, self._client) if self.settings.labeller.url else None

    def _settings_for(self, store: Store) -> Settings:
        """The settings with `auto` resolved: without topics or examples there is no evidence to weigh."""
        if self.settings.frontier.strategy != AUTO:
            return self.settings
        is_trained = self._has_model(store) or training_data.has_documents(store)
        return override(self.settings, {"frontier.strategy": "evidence" if is_trained else "best-first"})

    def _worker_setup(self, store: Store, settings: Settings) -> WorkerSetup:
        folder = self.folder / WARC_FOLDER
        folder.mkdir(exist_ok=True)
        words = isinstance(make_strategy(settings.frontier), LinkTextStrategy)
        return WorkerSetup(dataclasses.asdict(settings), self._model(store), str(folder), "w0", words)

    def _has_model(self, store: Store) -> bool:
        """Whether there is a model, or one of keywords could be made."""
        is_learned = self.settings.classify.classifier != KEYWORDS and bool(store.load_models())
        return is_learned or any(topic.keywords for topic in store.load_topics())

    def _model(self, store: Store) -> bytes:
        """The newest model, or a model of the keywords while there is none."""
        learned = store.load_model() if self.settings.classify.classifier != KEYWORDS else b""
        if learned:
            return learned
        topics = store.load_topics()
        if not any(topic.keywords for topic in topics):
            return b""
        return learn.words_model(store, self.settings.classify.classifier).to_bytes()

    @staticmethod
    def _absorber(store: Store, scope: ScopeFilter, settings: Settings) -> Absorber:
        counters = Counters(store.load_counters(), store.load_progress())
        phase = phase_at_start(settings, counters.progress.phase)
        ledger = Ledger(Duplicates(settings.duplicates, bands), counters)
        strategy = strategy_in(phase, settings, map(_domain_of, store.load_seeds()))
        topics = [topic.kcid for topic in store.load_topics()]
        ordered = make_strategy(settings.frontier)  # a phase may begin with another order
        if isinstance(ordered, DatabaseStrategy):
            store.check_order_by(ordered.order_by)
        return Absorber(settings, Frontier(settings, strategy, scope, ledger, topics), ledger)

    def _recover(self, store: Store, absorber: Absorber, setup: WorkerSetup) -> None:
        count = Recovery(store, absorber, setup, self.folder / WARC_FOLDER).run()
        if count:
            absorber.counters.add("pages recovered from WARC files", count)

    def opened_store(self) -> AbstractContextManager[Store]:
        """The database, to change it, while no crawl runs."""
        return self._client.opened_soon()

    def absorber_of_files(self, store: Store) -> tuple[Absorber, WorkerSetup]:
        """What takes in responses that come from files, without a crawl. All queued URLs are cold."""
        settings = override(self.settings, {"frontier.strategy": "best-first"})  # which needs nothing but the pages
        scope = ScopeFilter(settings.scope, frozenset(map(_domain_of, store.load_seeds())))
        absorber = self._absorber(store, scope, settings)
        restore(store, absorber, self.folder / WARC_FOLDER)
        tiers = absorber.frontier.tiers
        tiers.set_cold_counts(dict.fromkeys(tiers.queues, 0) | count_queued(store))
        self._offer_seeds(store, absorber)
        return absorber, self._worker_setup(store, settings)

    def read_archive(self, store: Store, on_progress: OnProgress) -> int:
        """Take in all responses that only WARC files have, without a crawl; how many visits to pages there were."""
        absorber, setup = self.absorber_of_files(store)
        folders = [self.folder / WARC_FOLDER, warc_elsewhere(self.settings.store)]
        count = Recovery(store, absorber, setup, *(one for one in folders if one is not None)).run(on_progress)
        absorber.counters.add("pages recovered from WARC files", count)
        store.write(absorber.swap_batch())
        return count

    @staticmethod
    def _offer_seeds(store: Store, absorber: Absorber) -> None:
        now_s = time.time()
        for seed in store.load_seeds():
            absorber.offer(seed.url, parent=-1, depth=0, relevance=1.0, topic=seed.kcid, now_s=now_s)

    # -- operations: each is declared once, in `opilio.crawl.operations`

    search = method(browse.search)
    similar = method(browse.similar)
    update_index = method(browse.update_index)
    portal = method(browse.portal)
    topic_pages = method(browse.topic_pages)
    page = method(browse.page)
    pages = method(browse.pages)
    pictures = method(browse.pictures)
    illustrations = method(browse.illustrations)
    markdown = method(browse.markdown)
    neighbours = method(browse.neighbours)
    finds = method(browse.finds)
    changes = method(browse.changes)
    distill = method(browse.distill)
    analyse_links = method(browse.analyse_links)

    sql = method(database.sql)
    query = method(database.query)
    tables = method(database.tables)
    export = method(database.export)
    feed = method(database.feed)
    forget = method(removal.forget)

    topics = method(training.topics)
    mark = method(training.mark)
    examples = method(training.examples)
    add_example = method(training.add_example)
    drop_example = method(training.drop_example)
    trim_example = method(training.trim_example)
    page_text = method(training.page_text)
    propose = method(training.propose)
    archetypes = method(training.archetypes)
    confirm_archetype = method(training.confirm_archetype)
    reject_archetype = method(training.reject_archetype)
    classify = method(training.classify)
    classify_page = method(training.classify_page)
    train = method(training.train)
    models = method(training.models)
    refused_models = method(training.refused_models)
    compare_models = method(training.compare_models)
    compare_topics = method(training.compare_topics)
    model_effect = method(training.model_effect)
    use_model = method(training.use_model)
    explain = method(training.explain)
    explain_link = method(training.explain_link)

    questions = method(asking.questions)
    hits = method(asking.hits)
    answers = method(asking.answers)
    answer = method(asking.answer)
    undo_answer = method(asking.undo_answer)
    label = method(asking.label)
    labels = method(asking.labels)

    feedback = method(reviewing.feedback)
    feedback_on_pages = method(reviewing.feedback_on_pages)
    undo_feedback = method(reviewing.undo_feedback)
    feedback_given = method(reviewing.feedback_given)
    pending = method(reviewing.pending)
    forget_changes = method(reviewing.forget_changes)
    clusters = method(reviewing.clusters)
    split_topic = method(reviewing.split_topic)
    review = method(reviewing.review)
    judge = method(reviewing.judge)
    take_back = method(reviewing.take_back)
    verdicts = method(reviewing.verdicts)
    learn_review = method(reviewing.learn_review)
    decide_group = method(reviewing.decide_group)
    export_review = method(reviewing.export_review)
    restart_review = method(reviewing.restart_review)

    status = method(crawling.status)
    series = method(crawling.series)
    hosts = method(crawling.hosts)
    census = method(crawling.census)
    pause = method(crawling.pause)
    resume = method(crawling.resume)
    stop = method(crawling.stop)
    policy = method(crawling.policy)
    change_limits = method(crawling.change_limits)
    lock_host = method(crawling.lock_host)
    unlock_host = method(crawling.unlock_host)
    boost_host = method(crawling.boost_host)
    dead_seeds = method(crawling.dead_seeds)

    find_seeds = method(seeding.find_seeds)

    peer_topics = method(federation.peer_topics)
    take_offers = method(federation.take_offers)
    offer_to_peers = method(federation.offer_to_peers)

    # -- former names

    def review_anew(self, topic: str) -> int:
        """The former name of `restart_review`."""
        _warn_of_name("review_anew", "restart_review")
        return self.restart_review(topic)

    def forget_lessons(self, version: int) -> int:
        """The former name of `forget_changes`."""
        _warn_of_name("forget_lessons", "forget_changes")
        return self.forget_changes(version)


def _warn_of_name(old: str, new: str) -> None:
    warnings.warn(f"{old} is called {new} now", FutureWarning, stacklevel=3)


def check_new(folder: Path | str) -> None:
    """Refuse a folder that has a collection."""
    if (Path(folder) / DATABASE_NAME).exists():
        raise CollectionError(f"{folder}: holds a collection already", "Continue its crawl, or choose another folder.")


def _check_names(settings: Settings, folder: Path) -> None:
    """Refuse settings that cannot work, such as unknown plug-ins, before anything is fetched."""
    make_strategy(settings.frontier)
    if settings.seeds.providers:
        from opilio.seeds import make_provider  # noqa: PLC0415

        for provider in settings.seeds.providers:
            make_provider(provider)
    check_url(settings.store.warc_url)
    ca_certificates(settings.fetch.ca_file)
    check_vectors(settings.frontier.word_vectors)
    check_labeller(settings.labeller)
    if settings.frontier.encoder:
        find_encoder(settings.frontier.encoder)
    if settings.classify.classifier != KEYWORDS:  # a classifier that learns nothing need not be loaded
        learn.check_settings(settings)
    elif settings.learn.phases:
        raise SettingsError("a phase of learning needs a classifier that learns", "Set [classify] classifier = svm.")
    if settings.frontier.back_links and Path(settings.frontier.back_links).absolute() == folder.absolute():
        raise SettingsError(
            f"{folder}: a crawl cannot read back-links from the collection it writes to",
            "Name another collection or a file in [frontier] back_links, or set it to ''.",
        )
    if settings.learn.phases and settings.frontier.max_queued:
        raise SettingsError(
            "a limit of queued URLs (max_queued) would drop URLs near the seeds in favour of those for the harvest",
            "Set [frontier] max_queued = 0, or [learn] phases = false.",
        )


def _with_full_paths(settings: Settings) -> Settings:
    """Settings that name files by their full paths: a later crawl may start in another folder."""
    paths = {
        "classify.others": settings.classify.others,
        "classify.embedding_model": settings.classify.embedding_model,
        "classify.encoder": "" if settings.classify.encoder == INSTALLED else settings.classify.encoder,
        "oasis.filter": settings.oasis.filter,
        "frontier.encoder": "" if settings.frontier.encoder == INSTALLED else settings.frontier.encoder,
        "frontier.back_links": settings.frontier.back_links,
        "frontier.word_vectors": "" if settings.frontier.word_vectors == INSTALLED else settings.frontier.word_vectors,
        "federation.peers": settings.federation.peers,
        "fetch.ca_file": settings.fetch.ca_file,
        "store.warc_url": "" if "://" in settings.store.warc_url else settings.store.warc_url,
    }
    return override(settings, {name: str(Path(path).absolute()) for name, path in paths.items() if path})


def _domain_of(seed: SeedRecord) -> str:
    return registered_domain(host_of(seed.url))


class _Interrupts:
    """Ctrl-C and SIGTERM stop the engine, also those that come while it is being prepared."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._names: list[str] = []

    @property
    def is_noted(self) -> bool:
        """Whether a signal came before there was an engine."""
        return bool(self._names)

    def pass_to(self, engine: Engine) -> None:
        """There is an engine to stop."""
        self._engine = engine
        for name in self._names:
            engine.interrupt(name)

    def note(self, name: str) -> None:
        """A signal came."""
        if self._engine is None:
            self._names.append(name)
        else:
            self._engine.interrupt(name)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def _noted_signals() -> Iterator[_Interrupts]:
    """Note signals while a crawl is prepared; a second one raises KeyboardInterrupt. Only the main thread gets signals.

    Raised at once, Ctrl-C would be lost in libraries that catch every error, such as DuckDB and pyarrow.
    """
    interrupts = _Interrupts()

    def note(number: int, _: object) -> None:
        if interrupts.is_noted:
            raise KeyboardInterrupt
        interrupts.note(signal.Signals(number).name)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _signals_in_loop(interrupts: _Interrupts) -> Iterator[None]:
    """Let the event loop pass on signals, which wakes it up; only in the main thread can they be caught."""
    loop, caught = asyncio.get_running_loop(), []
    for number in _SIGNALS:
        with contextlib.suppress(ValueError, RuntimeError):
            loop.add_signal_handler(number, interrupts.note, signal.Signals(number).name)
            caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
