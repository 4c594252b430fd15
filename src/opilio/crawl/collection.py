"""A collection: a folder with its settings, its database and its WARC files. This is the way in for Python users.

from opilio import Collection

birds = Collection.create("birds", bookmarks="bookmarks.html", settings={"limits.max_pages": 500})
report = birds.crawl()
print(report.reason, birds.sql("SELECT url, title FROM collection ORDER BY relevance DESC LIMIT 10").rows)
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvloop

import opilio
from opilio import learn
from opilio.analyze.files import read_file
from opilio.analyze.sketch import bands
from opilio.crawl.absorb import Absorber
from opilio.crawl.browsable import Browsable
from opilio.crawl.control import ASK_TIMEOUT_S, ControlServer, ask, is_running
from opilio.crawl.engine import Engine
from opilio.crawl.findable import Findable
from opilio.crawl.messages import WorkerSetup
from opilio.crawl.offerable import Offerable
from opilio.crawl.phases import phase_at_start, strategy_in
from opilio.crawl.receiving import take_up
from opilio.crawl.restore import recover_pages, reopen, restore
from opilio.crawl.reviewable import Reviewable
from opilio.crawl.status import PHASE, Counters, Status
from opilio.crawl.steerable import Steerable
from opilio.crawl.steering import claim
from opilio.crawl.stored import stored_status
from opilio.crawl.taught import KEYWORDS
from opilio.crawl.teachable import Teachable
from opilio.crawl.worker_pool import InlineWorkers, ProcessWorkers, Workers
from opilio.errors import CollectionBusy, CollectionError, InputError, SettingsError
from opilio.features.word_vectors import INSTALLED, check_vectors
from opilio.fetch.transport import Transport
from opilio.frontier import Duplicates, Frontier, ScopeFilter, make_strategy
from opilio.learn import training_data
from opilio.model import host_of, registered_domain
from opilio.process import collect_rarely
from opilio.settings import FILE_NAME, Settings, load, override, to_toml
from opilio.settings.files import changing, write_settings
from opilio.store import Result, Store, export_pages
from opilio.store.connection import FILE_NAME as DATABASE_NAME
from opilio.store.export import DEFAULT_COLUMNS, STDOUT
from opilio.store.loading import SeedRecord
from opilio.store.storage import check_url
from opilio.topics.inputs import read_inputs

WARC_FOLDER = "warc"
MakeWorkers = Callable[[WorkerSetup], Workers]
AUTO = "auto"  # the strategy that is chosen when a crawl begins
_RETRY_URLS = """
    UPDATE crawl SET state = 'waiting', numtries = 0, not_before = NULL
    WHERE state = 'failed' OR (state = 'dropped' AND outcome = 'bad-host')
"""
_RETRY_HOSTS = "UPDATE hosts SET state = 'ok', failures = 0, met = NULL, robots_status = NULL WHERE state <> 'ok'"
_RECRAWL = (
    "UPDATE crawl SET state = 'waiting', numtries = 0 WHERE state = 'fetched' AND outcome IN ('ok', 'not-modified')"
)


class Collection(Teachable, Findable, Browsable, Steerable, Reviewable, Offerable):
    """One collection. While a crawl runs in it, others may ask, steer and export, not add or change settings."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        if not (self.folder / DATABASE_NAME).is_file():
            raise CollectionError(
                f"{self.folder}: no collection there",
                f"Make one: opilio crawl {self.folder} --bookmarks FILE (or --seeds FILE)",
            )
        self.settings = load(self.folder / FILE_NAME)

    # -- making

    @classmethod
    def create(
        cls,
        folder: Path | str,
        *,
        bookmarks: Path | str | None = None,
        seeds: Path | str | None = None,
        query: str = "",
        examples: Path | str | None = None,
        topics: Path | str | None = None,
        settings: Settings | Mapping[str, Any] | None = None,
    ) -> Collection:
        """Make a collection from bookmarks, seeds, a query, examples, a taxonomy (`topics`), or several of them."""
        folder = Path(folder)
        if (folder / DATABASE_NAME).exists():
            raise CollectionError(f"{folder}: holds a collection already", "Crawl on in it, or choose another folder.")
        tree = read_inputs(bookmarks, seeds, query, examples, topics)
        if not tree.seeds:
            raise InputError(
                "nothing to start from", "Give --bookmarks, --seeds, --examples or --topics a FILE with URLs."
            )
        chosen = settings if isinstance(settings, Settings) else override(Settings(), dict(settings or {}), "settings")
        chosen = _with_full_paths(chosen)
        _check_names(chosen, folder)
        try:
            (folder / WARC_FOLDER).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CollectionError(f"{folder}: cannot make the folder: {error.strerror}", "Choose another.") from None
        write_settings(folder, chosen)
        try:
            with Store.create(folder, memory_bytes=chosen.store.memory_bytes) as store:
                training_data.add_inputs(store, tree, "given", read_file)
        except BaseException:  # half a collection would stand in the way of the next try
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
    ) -> int:
        """Add seeds, topics and examples to a collection that is not being crawled. Returns how many seeds were new."""
        tree = read_inputs(bookmarks, seeds, "", examples, topics)
        with self._store() as store:
            added = training_data.add_inputs(store, tree, "added", read_file)
            claim(store, [*(seed.url for seed in tree.seeds), *(example.value for example in tree.training())])
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
    ) -> Status:
        """Crawl until a limit is reached or nothing is left; goes on where the last crawl stopped.

        `settings` changes settings for good, by dotted name. `retry_failed` asks again for what failed, `recrawl` for
        the pages that are stored. `workers` makes workers that run elsewhere (`opilio.cluster`). `on_tick` is
        called a few times a second; when it returns False, the crawl ends. So does Ctrl-C, cleanly; a second one ends
        it at once.
        """
        if settings:
            self.change_settings(settings)
        _check_names(self.settings, self.folder)  # the file may have been edited by hand
        if recrawl:
            self._check_recrawl()
        with self._store(threads=1) as store:
            if retry_failed:
                store.query(_RETRY_URLS, write=True)
                store.query(_RETRY_HOSTS, write=True)
            if recrawl:
                store.query(_RECRAWL, write=True)
            return uvloop.run(self._run(store, on_tick, transport, workers))

    def _check_recrawl(self) -> None:
        """Refuse limits that count pages stored already: they would end a recrawl before it began."""
        limits = self.settings.limits
        if limits.max_pages or limits.max_pages_per_host:
            raise SettingsError(
                "a recrawl asks for pages that are stored, which the limits of pages count",
                "Take them away for it: --max-pages 0 --max-pages-per-host 0; --max-time and --max-bytes may stay.",
            )

    def change_settings(self, changes: Mapping[str, Any]) -> None:
        """Change settings by dotted name, for good: {"limits.max_pages": 1000}. Not while a crawl runs."""
        if is_running(self.folder):
            raise CollectionBusy(
                f"{self.folder}: a crawl runs here, and its settings are not changed under it",
                f"Stop it first: opilio stop {self.folder}. The order alone can be changed: opilio policy",
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
        transport: Transport | None,
        make_workers: MakeWorkers | None,
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
        restore(store, absorber)
        strategy = absorber.frontier.strategy
        if strategy.learns:
            learn.brief_from(store, settings, strategy)
            if absorber.counters.pages:
                learn.remember(store, strategy)
        if reopened:
            absorber.counters.add("URLs taken up again after a limit was raised", reopened)
        self._offer_seeds(store, absorber)
        take_up(store, absorber)
        if self.settings.store.warc:
            self._recover(store, absorber, setup)
        collect_rarely()
        workers: Workers
        if make_workers is not None:
            workers = make_workers(setup)
        elif transport is not None or self.settings.run.workers < 0:
            workers = InlineWorkers(setup, transport)
        else:
            workers = ProcessWorkers(setup, self.settings.run.workers)
        names = {topic.kcid: topic.path or topic.name for topic in store.load_topics()}
        engine = Engine(settings, store, absorber, workers, names)
        pages_before = absorber.counters.pages
        run = store.start_run(time.time(), opilio.__version__, to_toml(self.settings))
        async with ControlServer(engine, self.folder):
            with _signals(engine):
                reason = await engine.run(on_tick)
        store.finish_run(run, time.time(), reason, absorber.counters.pages - pages_before)
        return engine.status()

    def _settings_for(self, store: Store) -> Settings:
        """The settings, `auto` decided: where nothing says what is wanted there is no evidence to weigh."""
        if self.settings.frontier.strategy != AUTO:
            return self.settings
        is_told = bool(self._model(store)) or training_data.has_documents(store)
        return override(self.settings, {"frontier.strategy": "evidence" if is_told else "best-first"})

    def _worker_setup(self, store: Store, settings: Settings) -> WorkerSetup:
        folder = self.folder / WARC_FOLDER
        folder.mkdir(exist_ok=True)
        words = make_strategy(settings.frontier).uses_words
        return WorkerSetup(dataclasses.asdict(settings), self._model(store), str(folder), "w0", words)

    def _model(self, store: Store) -> bytes:
        """What pages are judged by: the newest model, or the keywords while there is none."""
        learned = store.load_model() if self.settings.classify.classifier != KEYWORDS else b""
        if learned:
            return learned
        topics = store.load_topics()
        return learn.keyword_model(topics).to_bytes() if any(topic.keywords for topic in topics) else b""

    @staticmethod
    def _absorber(store: Store, scope: ScopeFilter, settings: Settings) -> Absorber:
        counters = Counters(store.load_counters())
        phase = phase_at_start(settings, counters.counts[PHASE])
        frontier = Frontier(
            settings,
            strategy_in(phase, settings, map(_domain_of, store.load_seeds())),
            scope,
            lambda url, outcome: None,
            [topic.kcid for topic in store.load_topics()],
        )
        ordered = make_strategy(settings.frontier)  # a phase may begin with another order
        if ordered.uses_sql:
            store.check_order_by(ordered.order_by)
        return Absorber(settings, frontier, Duplicates(settings.duplicates, bands), counters)

    def _recover(self, store: Store, absorber: Absorber, setup: WorkerSetup) -> None:
        count = recover_pages(store, absorber, setup, self.folder / WARC_FOLDER, time.time())
        if count:
            absorber.counters.add("pages recovered from WARC files", count)

    @staticmethod
    def _offer_seeds(store: Store, absorber: Absorber) -> None:
        now_s = time.time()
        for seed in store.load_seeds():
            absorber.offer(seed.url, parent=-1, depth=0, relevance=1.0, topic=seed.kcid, now_s=now_s)

    # -- asking

    def sql(self, sql: str, *, write: bool = False) -> Result:
        """Ask the database, or the crawl that runs in it. Read-only unless `write`."""

        def query(store: Store) -> Result:
            return store.query(sql, write=write)

        answer = self._ask_or_open("sql", query, ASK_TIMEOUT_S, read_only=not write, sql=sql, write=write)
        if isinstance(answer, Result):
            return answer
        return Result(tuple(answer["columns"]), [tuple(row) for row in answer["rows"]], answer["truncated"])

    def status(self) -> Status:
        """The figures of the running crawl, or of the last one."""

        def stored(store: Store) -> Status:
            return stored_status(self.folder, self.settings, store)

        answer = self._ask_or_open("status", stored, ASK_TIMEOUT_S, read_only=True)
        return answer if isinstance(answer, Status) else Status(**answer)

    def policy(self, strategy: str, order_by: str = "", n: int = 0) -> bool:
        """Order the frontier another way: at once when a crawl runs (returns True), else from the next crawl on."""
        changes: dict[str, Any] = {"frontier.strategy": strategy, "frontier.order_by": order_by}
        if n:
            changes["frontier.n"] = n
        with changing(self.folder) as now:
            settings = override(now, changes)
            make_strategy(settings.frontier)
            running = ask(self.folder, "policy", strategy=strategy, order_by=order_by, n=n) is not None
            if not running and order_by:
                with self._opened(read_only=True) as store:
                    store.check_order_by(order_by)
            self.settings = settings
            write_settings(self.folder, settings)
        return running

    def stop(self) -> bool:
        """Stop the crawl that runs; False when none does."""
        return ask(self.folder, "stop") is not None

    def export(self, target: Path | str, format_name: str = "", *, columns: Sequence[str] = (), where: str = "") -> int:
        """Write the pages to a file; the form is that of its suffix: .jsonl, .csv or .parquet. Returns how many."""
        wanted = list(columns) or list(DEFAULT_COLUMNS)
        if str(target) != STDOUT:
            path = str(Path(target).absolute())
            answer = ask(self.folder, "export", target=path, format_name=format_name, columns=wanted, where=where)
            if answer is not None:
                return int(answer["pages"])
        with self._opened(read_only=True) as store:
            return export_pages(store, str(target), format_name, columns=wanted, where=where)


def _check_names(settings: Settings, folder: Path) -> None:
    """Find what cannot work, such as wrong names of plug-ins, before anything is fetched."""
    make_strategy(settings.frontier)
    check_url(settings.store.warc_url)
    check_vectors(settings.frontier.word_vectors)
    if settings.classify.classifier != KEYWORDS:  # one that learns nothing need not be loaded
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
            "a limit of waiting URLs (max_queued) would drop what is near the seeds for what waits for the harvest",
            "Set [frontier] max_queued = 0, or [learn] phases = false.",
        )


def _with_full_paths(settings: Settings) -> Settings:
    """Settings that name files by their full paths: a later crawl may be called from another folder."""
    paths = {
        "classify.others": settings.classify.others,
        "classify.embedding_model": settings.classify.embedding_model,
        "oasis.filter": settings.oasis.filter,
        "frontier.back_links": settings.frontier.back_links,
        "frontier.word_vectors": "" if settings.frontier.word_vectors == INSTALLED else settings.frontier.word_vectors,
        "federation.peers": settings.federation.peers,
        "store.warc_url": "" if "://" in settings.store.warc_url else settings.store.warc_url,
    }
    return override(settings, {name: str(Path(path).absolute()) for name, path in paths.items() if path})


def _domain_of(seed: SeedRecord) -> str:
    return registered_domain(host_of(seed.url))


@contextlib.contextmanager
def _signals(engine: Engine) -> Iterator[None]:
    """Ctrl-C and SIGTERM stop the engine; only in the main thread can they be caught."""
    loop = asyncio.get_running_loop()
    caught = []
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError, RuntimeError):
            loop.add_signal_handler(number, engine.stop, f"interrupted ({signal.Signals(number).name})")
            caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
