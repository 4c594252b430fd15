"""Simulated crawls of a recorded web in one process: no sockets, no database, no analysis, and a virtual clock.

Frontier, strategy, duplicates and absorber are those of a real crawl; only the workers are missing. A lease gets at
once what was recorded for its URL: a document, a redirect, an error status; 404 for a URL that was not recorded. Hosts
need no delay between requests here: waiting does not change what a crawl finds. `Answers` is prepared once for a web
and shared by all simulations of it.

The same web, settings, seeds and judgements give the same crawl, bit for bit, in any process.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

import msgspec
import numpy as np

from opilio.analyze.sketch import bands
from opilio.analyze.terms import LinkWords, Vocabulary, link_words
from opilio.crawl.absorb import VISIT_SPACING_S, Absorber
from opilio.crawl.ledger import Ledger
from opilio.crawl.status import Counters
from opilio.crawl.worker import PageJudge
from opilio.errors import InputError
from opilio.fetch.transport import outcome_of_status, replay
from opilio.frontier import (
    DatabaseStrategy,
    Duplicates,
    Frontier,
    Host,
    LearningStrategy,
    LinkTextStrategy,
    QueuedUrl,
    ScopeFilter,
    Strategy,
    make_strategy,
)
from opilio.frontier.arrays import ABSENT
from opilio.lab.experiments.analysed import Analysed
from opilio.model import (
    RELEVANT,
    Document,
    Fetch,
    HostReport,
    Judgement,
    Lease,
    LeaseKind,
    Links,
    Outcome,
    OutcomeKind,
    UrlState,
    Visit,
)
from opilio.model.url import host_of, registered_domain, url_key
from opilio.process import collect_rarely
from opilio.settings import Settings, StoreSettings, override
from opilio.store import Batch

if TYPE_CHECKING:
    import numpy.typing as npt

    Numbers: TypeAlias = npt.NDArray[np.int64]
    Values: TypeAlias = npt.NDArray[np.float64]
    _ByNumber: TypeAlias = Callable[[int], Judgement]
    Judging: TypeAlias = Callable[[int], Judgement] | npt.NDArray[np.floating] | Sequence[Judgement] | PageJudge
    """Who judges: the relevance or the judgement of each page by its number, a function of it, or a model at work."""

_MISSING = Fetch(Outcome.CLIENT_ERROR, 404)
_NO_ROBOTS = HostReport(404)
_WITH_LINKS = (Outcome.OK, Outcome.DUP_NEAR, Outcome.NOINDEX)  # pages whose links are followed
KEPT_WORDS_BYTES = 64 * 2**20
"""Of the words of links that are kept: to find those of a page again takes 0.1 ms."""
START_S = 1.0  # of the virtual clock; 0 means never
_WITHOUT_TIME_AND_ADDRESSES = {
    "fetch.host_delay_s": 0.0,
    "fetch.pictures_per_host": 0,
    "duplicates.ip_path": "off",
    "duplicates.ip_size": "off",
    "frontier.hot_urls": 2**31,  # there is no database for the others
}

Result = TypeVar("Result")
_jobs: Sequence[Callable[[], object]] = ()  # of a forked process: see `run_all`


class Answers:
    """The response to each URL of a web. It never changes: simulations share it."""

    def __init__(self, analysed: Analysed) -> None:
        self.urls = analysed.web.urls
        self.documents = analysed.documents
        self._web = analysed.web
        self._numbers = {url: number for number, url in enumerate(self.urls)}
        self._fetches = [self._fetch(number) for number in range(len(self.urls))]
        self._bands: dict[bytes, list[int]] = {}
        self._vocabulary = Vocabulary()
        self._words: dict[int, LinkWords] = {}
        self._words_bytes = 0

    def number(self, url: str) -> int:
        """The page number of a URL, -1 when it was not recorded."""
        number = self._numbers.get(url)
        return self._web.number(url) if number is None else number

    def page(self, number: int) -> tuple[Fetch, Document | None]:
        """The outcome of fetching a page, with its document if it has one; 404 for -1."""
        if number < 0:
            return _MISSING, None
        fetch = self._fetches[number]
        if fetch.outcome is not Outcome.OK:
            return fetch, None
        document = self.documents[number]
        if document is None:
            return msgspec.structs.replace(fetch, outcome=Outcome.UNREADABLE), None
        return fetch, document

    def document(self, number: int) -> Document | None:
        """The document of a page with the words of its links, for strategies that read them."""
        document = self.documents[number]
        if document is None:
            return None
        words = self._words.get(number) or self._read_words(number, document)
        return msgspec.structs.replace(
            document, link_words=words.stems, link_words_in=words.inside, link_words_around=words.around
        )

    def _read_words(self, number: int, document: Document) -> LinkWords:
        if self._words_bytes > KEPT_WORDS_BYTES:
            self._words.clear()
            self._words_bytes = 0
        words = self._words[number] = link_words(document.links, document.language, self._vocabulary)
        self._words_bytes += len(words.stems)
        return words

    def robots(self, url: str) -> HostReport:
        """What the robots.txt at `url` says: nothing, when none was recorded.

        Delays are left out, for there is no time here; so are sitemaps, and redirects of the file.
        """
        number = self.number(url)
        fetch, _ = self.page(number)
        if fetch.outcome is Outcome.REDIRECT:
            return _NO_ROBOTS
        if not 200 <= fetch.status < 300:
            return HostReport(fetch.status)
        answer = replay(Lease(number, url), "", 0.0, self._web.head(number), self._web.body(number), Settings())
        return HostReport(fetch.status, answer.body.decode("utf-8", "replace"))

    def bands(self, sketch: bytes) -> list[int]:
        """The bands of a sketch, remembered: every simulation needs the same ones."""
        known = self._bands.get(sketch)
        if known is None:
            known = self._bands[sketch] = bands(sketch)
        return known

    def _fetch(self, number: int) -> Fetch:
        status, location = self._web.status(number), self._web.redirect(number)
        outcome, detail, target = outcome_of_status(status, location, self.urls[number])
        return Fetch(outcome, status, detail=detail, redirect_url=target)


@dataclass(frozen=True, eq=False)
class Crawl:
    """The pages that a crawl fetched, in its order: all arrays are parallel. Each page stands in it once."""

    pages: Numbers
    """Page numbers."""
    depths: Numbers
    """Links followed from the nearest seed, as the crawl knew it."""
    parents: Numbers
    """The page number of the URL it was found on, or that was redirected to it; -1 for a seed."""
    scores: Values
    """The priority it had when its turn came."""
    requests: Numbers
    """Requests for pages made until then, this one included: those that failed or were redirected count here."""
    outcomes: dict[str, int]
    """The outcomes of URLs, as in a real crawl."""
    seconds: Values = field(default_factory=lambda: np.zeros(0))
    """Seconds of crawling until then. None in a simulation: its clock does not know how long anything takes."""

    def __len__(self) -> int:
        return len(self.pages)

    def to_bytes(self) -> bytes:
        """All of it but the seconds, to compare two crawls bit for bit."""
        arrays = (self.pages, self.depths, self.parents, self.scores, self.requests)
        return b"".join(array.tobytes() for array in arrays) + repr(self.outcomes).encode()


class Simulation:
    """One crawl of a recorded web."""

    def __init__(
        self,
        answers: Answers,
        settings: Settings,
        seeds: Iterable[int],
        judge: Judging | None = None,
        *,
        max_pages: int = 0,
        in_flight: int = 1,
        topics: Sequence[int] = (0,),
        examples: Iterable[int] = (),
        prepare: Callable[[Strategy], object] = lambda strategy: None,
        on_take: Callable[[QueuedUrl], object] = lambda url: None,
        on_page: Callable[[int, Judgement | None], object] = lambda number, judgement: None,
    ) -> None:
        """`seeds` are page numbers; 0 for `max_pages` means all that can be reached.

        `in_flight` leases are taken before the first visit comes, and all visits come together: with 1, every
        choice knows all links found so far. `topics` are those that the judge may name; seeds belong to the first.
        `examples` are seeds that count as relevant whatever the judge says, as examples that a user gave do. `prepare`
        gets the strategy before the seeds are queued. `on_take` is called for each URL that is about to be fetched and
        has left its queue. `on_page` is called for each page fetched, after its links were absorbed; a learner changes
        `judge` from there.
        """
        self.answers = answers
        self.settings = override(settings, _WITHOUT_TIME_AND_ADDRESSES)
        self.max_pages = max_pages or len(answers.urls)
        self.in_flight = in_flight
        self.judge = judge
        self.on_take = on_take
        self.on_page = on_page
        self._prepare = prepare
        strategy = self._new_strategy()
        self.absorber = self._absorber([answers.urls[seed] for seed in seeds], topics, strategy)
        for page in examples:
            self.absorber.examples[self.absorber.frontier.known.get(url_key(answers.urls[page]))] = topics[0]
        self.absorber.wanted = frozenset(topics[:1])
        self.now_s = START_S
        self._trace = _Trace()

    @property
    def judge(self) -> Judging | None:
        """Who judges the pages from now on."""
        return self._judge

    @judge.setter
    def judge(self, judge: Judging | None) -> None:
        self._judge = judge
        self._by_number = _by_number(judge) if judge is not None and not isinstance(judge, PageJudge) else None

    def rejudge(self, judge: Judging) -> None:
        """Judge by another model from now on, the pages fetched so far too; the order follows the new judgements.

        A strategy that learns is made again and learns everything from them; for any other one, a queued URL gets the
        new relevance of the page that it was found on. A real crawl does so when a model was trained.
        """
        self.judge = judge
        if self._by_number is None:
            raise TypeError("pages can only be re-judged by their numbers")
        tiers = self.absorber.frontier.tiers
        strategy = self._new_strategy()
        if isinstance(strategy, LearningStrategy):
            self._replay(strategy, self._by_number)
        queued = list(tiers.hot_queued)
        for url in queued:
            parent = self._trace.by_oid.get(self._log.parents[url.oid], -1) if url.depth else -1
            if parent >= 0:
                url.relevance = self._by_number(parent).relevance
        tiers.change_strategy(strategy)
        for topic in tiers.queues:
            of_topic = [url for url in queued if url.topic == topic]
            tiers.refill(topic, of_topic, len(of_topic))
        tiers.reprioritise()

    def _new_strategy(self) -> Strategy:
        strategy = make_strategy(self.settings.frontier)
        self._prepare(strategy)
        return strategy

    def _replay(self, strategy: LearningStrategy, judge: _ByNumber) -> None:
        """Show a strategy all that happened so far, as if it happened now."""
        absorber, steps = self.absorber, dict[int, int]()
        known, ledger = absorber.frontier.known, absorber.ledger
        for url, outcome in self._log.settled:
            number = self._trace.by_oid.get(url.oid, -1)
            _, document = self.answers.page(number)
            if document is None:
                if outcome.is_dead:
                    strategy.settle_dead(url.oid)
                else:
                    strategy.settle(url.oid, 0.0 if outcome.kind is OutcomeKind.FAILED else None)
                continue
            judgement = absorber.judgement_of(url, judge(number)) or Judgement()
            strategy.settle(url.oid, None if outcome is Outcome.NOINDEX else judgement.relevance)
            if outcome not in _WITH_LINKS:
                continue
            url.steps = steps.get(self._log.parents[url.oid], 0)
            url.steps = steps[url.oid] = strategy.steps_at(url, judgement)
            if not strategy.follows(url, judgement):
                continue
            if isinstance(strategy, LinkTextStrategy):
                document = self.answers.document(number) or document
            oids = ledger.aliases.final_all(known.get_list(document.links.key_list()))
            sids = [ledger.sids[oid] if oid != ABSENT else ABSENT for oid in oids]
            strategy.observe(url, judgement, document, oids, sids)

    def _absorber(self, seeds: Sequence[str], topics: Sequence[int], strategy: Strategy) -> Absorber:
        if isinstance(strategy, DatabaseStrategy):
            raise InputError(
                "an order in SQL cannot be simulated: there is no database",
                "Crawl the recorded web through its server instead, or write the order as a strategy.",
            )
        scope = ScopeFilter(self.settings.scope, frozenset(registered_domain(host_of(url)) for url in seeds))
        duplicates = Duplicates(self.settings.duplicates, self.answers.bands)
        self._log = _Log()
        ledger = Ledger(duplicates, Counters(), self._log)
        absorber = Absorber(self.settings, Frontier(self.settings, strategy, scope, ledger, topics), ledger)
        for url in seeds:
            absorber.offer(url, parent=-1, depth=0, relevance=1.0, topic=topics[0], now_s=START_S)
        return absorber

    def run(self) -> Crawl:
        """Crawl until the budget is spent or nothing is left."""
        frontier, absorber, trace = self.absorber.frontier, self.absorber, self._trace
        while len(trace.pages) < self.max_pages:
            leases = frontier.take(self.now_s, min(self.in_flight, self.max_pages - len(trace.pages)))
            if leases:
                visits = [self._visit(lease) for lease in leases]
                absorber.absorb_all(visits, self.now_s)
                self.now_s += (len(visits) - 1) * VISIT_SPACING_S  # when the last of them came
                for visit in visits:
                    if visit.document is not None:
                        self.on_page(trace.by_oid[visit.lease.oid], visit.judgement)
            else:
                event_s = frontier.next_event_s()  # the next try of a page whose server failed
                if event_s is None:
                    break
                self.now_s = event_s
        return trace.crawl(self._log.parents, absorber.counters.outcomes())

    def _visit(self, lease: Lease) -> Visit:
        """The visit that a worker would have made."""
        if lease.kind is LeaseKind.HOST:
            return Visit(lease, Fetch(Outcome.OK), host=self.answers.robots(lease.url))
        if lease.kind in (LeaseKind.SITEMAP, LeaseKind.MISSING):
            return Visit(lease, Fetch(Outcome.CLIENT_ERROR, 404))
        number = self.answers.number(lease.url)
        fetch, document = self.answers.page(number)
        self.on_take(self.absorber.frontier.leased[lease.oid])
        self._trace.requests += 1
        self._trace.by_oid[lease.oid] = number
        if document is None:
            return Visit(lease, fetch)
        if isinstance(self.absorber.frontier.strategy, LinkTextStrategy):
            document = self.answers.document(number) or document
        self._trace.add(number, self.absorber.frontier.leased[lease.oid])
        if self._by_number is not None:
            return Visit(lease, fetch, document, None, self._by_number(number))
        if isinstance(self._judge, PageJudge):
            sent = msgspec.structs.replace(document, significant=self._judge.significant(document))
            return Visit(lease, fetch, sent, None, self._judge.judge(document, lease))
        return Visit(lease, fetch, document)


def _by_number(judge: Callable[[int], Judgement] | npt.NDArray[np.floating] | Sequence[Judgement]) -> _ByNumber:
    """A judge that needs the number of a page only, as a function."""
    if isinstance(judge, np.ndarray):
        return [Judgement(0, value >= RELEVANT, value, value) for value in judge.tolist()].__getitem__
    return judge if callable(judge) else judge.__getitem__


class _Trace:
    """What is noted while a crawl runs."""

    def __init__(self) -> None:
        self.requests = 0
        self.by_oid: dict[int, int] = {}
        """The page number of each URL fetched; -1 for one that was not recorded."""
        self.pages: dict[int, tuple[int, int, float, int]] = {}
        """By page number: oid, depth, score and requests so far."""

    def add(self, number: int, url: QueuedUrl) -> None:
        self.pages.setdefault(number, (url.oid, url.depth, url.priority, self.requests))

    def crawl(self, parents: Sequence[int], outcomes: dict[str, int]) -> Crawl:
        oids, depths, scores, requests = zip(*self.pages.values(), strict=True) if self.pages else ((), (), (), ())
        return Crawl(
            pages=np.fromiter(self.pages, np.int64, len(self.pages)),
            depths=np.array(depths, np.int64),
            parents=np.array([self.by_oid.get(parents[oid], -1) for oid in oids], np.int64),
            scores=np.array(scores, np.float64),
            requests=np.array(requests, np.int64),
            outcomes=outcomes,
        )


class _Log:
    """A recorder (`opilio.crawl.rows`) that keeps nothing but which URL led to which, and how URLs ended."""

    def __init__(self) -> None:
        self.parents: list[int] = []
        """By oid: the URL that led to it; -1 for a seed."""
        self.settled: list[tuple[QueuedUrl, Outcome]] = []
        """URLs in the order in which they got their final outcomes."""

    def add_url(
        self, batch: Batch, url: QueuedUrl, key: int, parent: int, found_s: float, rejection: Outcome | None
    ) -> None:
        self.parents.append(parent)

    def change_url(
        self,
        batch: Batch,
        url: QueuedUrl,
        state: UrlState,
        outcome: Outcome | None,
        visited_s: float,
        not_before_s: float,
    ) -> None:
        if outcome is not None and state is not UrlState.WAITING:
            self.settled.append((url, outcome))

    def add_visit(self, batch: Batch, lease: Lease, fetch: Fetch) -> None:
        pass

    def add_page(
        self, batch: Batch, visit: Visit, document: Document, judgement: Judgement | None, storage: StoreSettings
    ) -> None:
        pass

    def add_words(self, batch: Batch, document: Document) -> None:
        pass

    def add_links(
        self, batch: Batch, source: QueuedUrl, links: Links, oids: Sequence[int], sids: Sequence[int]
    ) -> None:
        pass

    def add_host(self, batch: Batch, host: Host) -> None:
        pass


# -- many simulations


def run_all(jobs: Sequence[Callable[[], Result]], processes: int = 0) -> Iterator[Result]:
    """The results of many jobs on all cores, in their order, as they come.

    Processes are forked, so that they share the web in memory instead of reading it. So a job may be a closure; its
    result must be picklable.
    `processes` 0 means one for each core; with 1, all is done in this process. What a job raises is raised here.
    """
    count = min(processes or len(os.sched_getaffinity(0)), len(jobs))
    if count <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        yield from (job() for job in jobs)
        return
    gc.freeze()  # or the garbage collector of each process would copy what they share
    forked = multiprocessing.get_context("fork")
    executor = ProcessPoolExecutor(count, forked, initializer=_take, initargs=(jobs,))
    try:
        yield from cast(Iterator[Result], executor.map(_run, range(len(jobs))))
    finally:
        executor.shutdown(cancel_futures=True)
        gc.unfreeze()


def _take(jobs: Sequence[Callable[[], object]]) -> None:
    """Receive the jobs: a fork hands them over as they are."""
    global _jobs  # noqa: PLW0603  (the one way to hand a forked process what cannot be pickled)
    _jobs = jobs
    collect_rarely()


def _run(number: int) -> object:
    return _jobs[number]()
