"""One run of an experiment: a crawl, simulated or real, and the record of it.

Both kinds get the same pages to start from and the same documents to learn from, and leave the same record.

In a simulation a judge made from the examples of a task judges pages by their own words alone: what links say of a page
differs from crawl to crawl, so such a judgement could not be shared. It is made when a crawl first fetches the page,
and kept for all crawls of the same topic. A judge that learns from the pages met (`learning.py`) serves one crawl.

A simulation cannot look for archetypes, ask questions or go through phases; a real crawl can. A collection is
made in a temporary folder, crawled with the recorded web as its transport, and read back as if it had been simulated.
One request is made at a time and nothing is fetched while a model is trained (`learn.synchronous`), so that the same
crawl comes out on any machine.

A real crawl learns from what a simulated judge learns from. When it starts at the examples, they are given as URLs: it
fetches them, learns from them and goes on. When it starts elsewhere it must not know where they are, and is given their
texts. Pages that are not about the topic are given as OTHERS; when an experiment has none (`negatives = 0`), a crawl
has what a user has who gives no texts of OTHERS, and may mine negatives. The labels answer the questions of a crawl
(`answers`), each round at once and before the next page is fetched.

From a question, a crawl is given the words as `opilio crawl --query` gives them, and its seeds. It may end without a
model: then the words have judged its pages.
"""

from __future__ import annotations

import functools
import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from opilio.classify import CLASSIFIERS, Example, Model, TrainingSet
from opilio.crawl import Collection
from opilio.errors import InputError
from opilio.features.classifier_input import ClassifierInput, TextReader
from opilio.frontier import LinkTextStrategy, QueuedUrl, Strategy
from opilio.lab.experiments.analysed import Analysed
from opilio.lab.experiments.bounds import Foresight, Oracle, foreseen, make_plan, places_of, planned_web
from opilio.lab.experiments.experiment import TRUTH, Contestant, Experiment, JudgeChoice
from opilio.lab.experiments.graph import LinkGraph
from opilio.lab.experiments.learning import LearningJudge
from opilio.lab.experiments.measures import AREA_SHARE
from opilio.lab.experiments.records import UNDOUBTED, ModelRun, RunPlace, RunRecord
from opilio.lab.experiments.simulate import Answers, Crawl, Simulation
from opilio.lab.experiments.tasks import TaskTopic
from opilio.lab.webs.transport import RecordedTransport
from opilio.learn import keyword_model, link_context, prepare_strategy
from opilio.learn.rejudging import NO_CONTEXT
from opilio.learn.training_state import KEYWORDS
from opilio.learn.words import QUERY
from opilio.model import Document, Judgement, Outcome, TrainingReason
from opilio.settings import Settings, override
from opilio.store import Batch, Store
from opilio.store.loader import ModelRecord
from opilio.topics import ExampleKind, default_others
from opilio.topics.hierarchy import ABOVE_ROOT, ROOT, Hierarchy, Mark, Node
from opilio.topics.others import OthersDocument

Judging = Callable[[int], Judgement]
_DOCUMENTS_PER_FILE = 20  # of OTHERS: a file has an end at 4 MiB
_NAME = "UPDATE topics SET name = $1, keywords = $2 WHERE kcid = $3"
_VISITS = """
    SELECT v.oid, c.url, c.depth, coalesce(c.parent, -1), c.priority, v.outcome, epoch(v.visited)
    FROM visits v JOIN crawl c USING (oid) WHERE v.kind = 'page' ORDER BY v.rowid
"""
_STARTED = "SELECT epoch(started) FROM runs"
_JUDGEMENTS = """
    SELECT oid, kcid, accepted, relevance, confidence, agreed, undoubted, model_version FROM judgements
    WHERE oid IN (SELECT oid FROM pages) QUALIFY row_number() OVER (PARTITION BY oid ORDER BY rowid DESC) = 1
"""


def make_judge(experiment: Experiment, judge: JudgeChoice, analysed: Analysed, topic: TaskTopic) -> Judging:
    """A judge of pages by their numbers, for one topic. Raises InputError when the examples do not suffice.

    One that learns is for a single crawl; any other one can serve all crawls of the topic.
    """
    if judge.kind == TRUTH:
        about = {*topic.examples, *topic.targets}
        yes, no = Judgement(ROOT, True, 1.0, 1.0), Judgement()
        return lambda page: yes if page in about else no
    training = training_of(judge, analysed, topic, experiment.seed)
    settings = experiment.judge_settings(judge)

    def read(page: int) -> ClassifierInput | None:
        document = analysed.documents[page]
        return None if document is None else _input(document)

    if judge.learns:
        return LearningJudge(training, settings, read)
    trained = CLASSIFIERS.get(judge.kind).train(training, settings)
    known: dict[int, Judgement] = {}

    def judge_page(page: int) -> Judgement:
        found = known.get(page)
        if found is None:
            item = read(page)
            found = known[page] = trained.judge(item) if item is not None else Judgement()
        return found

    return judge_page


def training_of(judge: JudgeChoice, analysed: Analysed, topic: TaskTopic, seed: int) -> TrainingSet:
    """The examples of the topic against OTHERS."""
    node = Node(ROOT, ABOVE_ROOT, topic.label, "", Mark.GOOD)
    negatives = _examples(analysed, negatives_of(judge, analysed, topic, seed), positive=False)
    return TrainingSet(
        hierarchy=Hierarchy([node]),
        examples=tuple(_examples(analysed, topic.examples, positive=True)),
        others=(*(_common_sense() if judge.others else ()), *negatives),
        terms=analysed.terms,
        keywords={ROOT: topic.keywords},
    )


def _examples(analysed: Analysed, pages: tuple[int, ...], *, positive: bool) -> Iterator[Example]:
    for page in pages:
        document = analysed.documents[page]
        if document is not None:
            yield Example(ROOT if positive else ABOVE_ROOT, _input(document), positive, analysed.web.urls[page])


def negatives_of(judge: JudgeChoice, analysed: Analysed, topic: TaskTopic, seed: int) -> tuple[int, ...]:
    """Pages that do not have the label, drawn by lot: the same for each seed set, strategy and machine."""
    if not judge.negatives:
        return ()
    about = {*topic.examples, *topic.targets}
    urls = analysed.web.urls
    pages = [page for page in np.flatnonzero(analysed.readable).tolist() if page not in about]
    pages.sort(key=lambda page: hashlib.sha256(f"{seed}\0{topic.label}\0negative\0{urls[page]}".encode()).digest())
    return tuple(pages[: judge.negatives])


def _input(document: Document) -> ClassifierInput:
    # No address either: on a web of few hosts, folders would tell what words should.
    return ClassifierInput.of(document, "")


_common: list[Example] = []


def _common_sense() -> list[Example]:
    """The documents of OTHERS that come with Opilio, read once in a process."""
    if not _common:
        reader = TextReader()
        for document in default_others():
            item = reader.read(document.title, document.text, document.language or None)
            _common.append(Example(ABOVE_ROOT, item, positive=False, name=document.title))
    return _common


@dataclass(frozen=True)
class CrawlResult:
    """What a real crawl leaves."""

    crawl: Crawl
    judgements: list[Judgement]
    """Of each page fetched, the latest."""
    models: list[ModelRun]
    """Those that were trained; not those of OASIS of which only the variable part was redrawn."""
    answered: tuple[int, ...] = ()
    """The pages about which the crawl asked and the labels answered."""


def crawl_for_real(
    analysed: Analysed,
    topic: TaskTopic,
    starts: Sequence[int],
    judge: JudgeChoice,
    settings: Settings,
    *,
    max_pages: int,
    seed: int,
) -> CrawlResult:
    """Crawl in a folder that is gone afterwards; as many pages as the budget allows, in the order they were fetched."""
    with tempfile.TemporaryDirectory(prefix="opilio-evaluate-") as name:
        folder = Path(name)
        (folder / "seeds.txt").write_text("\n".join(analysed.web.urls[page] for page in starts), "utf-8")
        changes: dict[str, Any] = {"limits.max_pages": max_pages, "search.index": False}
        if judge.negatives or not judge.others:
            _write_others(folder / "others", judge, analysed, topic, seed)
            changes["classify.others"] = str(folder / "others")
        chosen = override(settings, changes)
        query = topic.keywords if topic.is_question else ""
        collection = Collection.create(folder / "collection", seeds=folder / "seeds.txt", query=query, settings=chosen)
        if not topic.is_question:
            fetched = [page for page in starts if not (chosen.robots.obey_meta and _is_noindex(analysed, page))]
            _teach(collection, analysed, topic, fetched)
        about, answered = {*topic.examples, *topic.targets}, []

        def answer(question: dict[str, Any]) -> bool:
            page = analysed.web.number(question["url"])
            answered.append(page)
            return page in about

        transport = RecordedTransport(analysed.web, collection.settings)
        status = collection.crawl(transport=transport, answerer=answer)
        if status.interrupted:
            raise KeyboardInterrupt  # a crawl ends at Ctrl-C as if nothing had happened; an experiment must not
        with Store.open(collection.folder, read_only=True) as store:
            reader = _Reader(store, analysed, chosen, max_pages)
            if chosen.classify.classifier != KEYWORDS and not reader.models and not topic.is_question:
                raise InputError(f"no model could be trained: {status.model}", "Give more examples, or longer ones.")
            return replace(reader.read(status.outcomes), answered=tuple(answered))


def _write_others(folder: Path, judge: JudgeChoice, analysed: Analysed, topic: TaskTopic, seed: int) -> None:
    """The documents of OTHERS as a simulated judge has them, in files that a crawl reads."""
    documents = [*(default_others() if judge.others else ()), *_negatives(judge, analysed, topic, seed)]
    folder.mkdir()
    for start in range(0, len(documents), _DOCUMENTS_PER_FILE):
        texts = [
            f"=== {' '.join(document.title.split())} [{document.language or 'und'}]\n{document.text}\n"
            for document in documents[start : start + _DOCUMENTS_PER_FILE]
        ]
        (folder / f"{start:06}.txt").write_text("\n".join(texts), "utf-8")


def _negatives(judge: JudgeChoice, analysed: Analysed, topic: TaskTopic, seed: int) -> Iterator[OthersDocument]:
    for page in negatives_of(judge, analysed, topic, seed):
        document = analysed.documents[page]
        if document is not None:
            text = "\n".join(line.lstrip("=") for line in document.text.splitlines())  # `===` begins the next one
            yield OthersDocument(document.title, text, document.language)


def _is_noindex(analysed: Analysed, page: int) -> bool:
    document = analysed.documents[page]
    return document is not None and document.noindex


def _teach(collection: Collection, analysed: Analysed, topic: TaskTopic, fetched: Sequence[int]) -> None:
    """Tell a collection what its topic is: the keywords, and the examples, by their URLs when it will keep them."""
    batch = Batch()
    for page in topic.examples:
        document = analysed.documents[page]
        assert document is not None, "examples are pages with a document"
        url, now_s = analysed.web.urls[page], time.time()
        if page in fetched:
            batch.training.add(url, ExampleKind.URL, ROOT, True, "given", "", None, now_s)
        else:
            batch.training.add(url, ExampleKind.TEXT, ROOT, True, "given", document.title, document.text, now_s)
    with Store.open(collection.folder) as store:
        store.query(_NAME, [topic.label, topic.keywords.split(), ROOT], write=True)
        store.write(batch)


class _Reader:
    """Reads back what a crawl did."""

    def __init__(self, store: Store, analysed: Analysed, settings: Settings, max_pages: int) -> None:
        self._store = store
        self._analysed = analysed
        self._settings = settings
        self.models = sorted(store.load_models(), key=lambda model: model.version)
        self._visits = store.query(_VISITS, max_rows=2**31).rows
        self._numbers = {oid: analysed.web.number(url) for oid, url, *_ in self._visits}
        self._pages: dict[int, int] = {}
        """By oid, in the order they were fetched: how many requests that had taken."""
        seen: set[int] = set()
        for requests, (oid, _, _, _, _, outcome, _) in enumerate(self._visits, 1):
            number = self._numbers[oid]
            if outcome == Outcome.OK and number not in seen and len(seen) < max_pages:
                seen.add(number)
                self._pages[oid] = requests

    def read(self, outcomes: dict[str, int]) -> CrawlResult:
        """All of it."""
        rows = [self._visits[requests - 1] for requests in self._pages.values()]
        crawl = Crawl(
            pages=np.array([self._numbers[oid] for oid in self._pages], np.int64),
            depths=np.array([row[2] for row in rows], np.int64),
            parents=np.array([self._numbers.get(row[3], -1) for row in rows], np.int64),
            scores=np.array([row[4] for row in rows], np.float64),
            requests=np.array(list(self._pages.values()), np.int64),
            outcomes=outcomes,
            seconds=np.array([row[6] for row in rows], np.float64) - self._store.query(_STARTED).rows[0][0],
        )
        stored = {
            oid: Judgement(kcid, accepted, relevance, confidence, {}, agreed or [], undoubted, version)
            for oid, kcid, accepted, relevance, confidence, agreed, undoubted, version in self._store.query(
                _JUDGEMENTS, max_rows=2**31
            ).rows
        }
        others = [oid for oid in self._pages if oid not in stored]  # copies, and pages that ask not to be kept
        newest = (
            self._load(self.models[-1].version)
            if self.models
            else keyword_model(self._store.load_topics(), self._settings.classify.classifier)
        )
        stored.update(zip(others, self._judgements(newest, others), strict=True))
        judgements = [stored[oid] for oid in self._pages]
        trained = [model for model in self.models if model.cause.reason is not TrainingReason.REDRAWN]
        return CrawlResult(crawl, judgements, [self._model(model) for model in trained])

    def _load(self, version: int) -> Model:
        return Model.from_bytes(self._store.load_model(version))

    def _judgements(self, model: Model, oids: Iterable[int]) -> Iterator[Judgement]:
        """What a model says of pages, those that came after its time included."""
        for oid in oids:
            number = self._numbers[oid]
            document = self._analysed.documents[number]
            anchor, report = self._ways.get(oid, NO_CONTEXT)
            url = self._analysed.web.urls[number]
            yield model.judge(ClassifierInput.of(document, url, anchor, report)) if document else Judgement()

    @functools.cached_property
    def _ways(self) -> dict[int, tuple[str, bytes]]:
        return link_context(self._store, list(self._pages), self._settings.classify)

    def _model(self, record: ModelRecord) -> ModelRun:
        before = sum(self._visits[requests - 1][6] <= record.created_s for requests in self._pages.values())
        said = self._judgements(self._load(record.version), self._pages)
        judged = np.array([judgement.relevance for judgement in said], "<f4").tobytes()
        return ModelRun(record.version, before, record.documents, record.cause.reason, judged)


@dataclass(frozen=True)
class RunSpec:
    """All that a run of an experiment needs."""

    experiment: Experiment
    contestant: Contestant
    analysed: Analysed
    answers: Answers
    graph: LinkGraph
    topic: TaskTopic
    starts: tuple[int, ...]
    place: RunPlace
    key: str

    @property
    def judge(self) -> JudgeChoice:
        """Who judges. A simulated crawl from a question has what judges until there is a model: nothing is trained."""
        chosen = self.experiment.judge_of(self.contestant)
        is_by_words = self.topic.is_question and not self.contestant.real and chosen.kind != TRUTH
        return JudgeChoice(QUERY) if is_by_words else chosen

    @functools.cached_property
    def target_set(self) -> frozenset[int]:
        """The pages to find."""
        return frozenset(self.topic.targets)

    @property
    def budget_pages(self) -> int:
        """Pages it may fetch: as many as all, unless its own settings say fewer."""
        budget_pages = self.experiment.budget.of(self.analysed.web.info.pages)
        own = self.experiment.settings_of(self.contestant).limits.max_pages
        return min(own or budget_pages, budget_pages)


def simulate(spec: RunSpec, judge: Judging) -> RunRecord:
    """The run of a simulated crawl."""
    return record_of(spec, simulation_of(spec, judge).run(), judge)


def record_of(spec: RunSpec, crawl: Crawl, judge: Judging) -> RunRecord:
    """The record of a simulated crawl."""
    return _run(spec, crawl, [judge(page) for page in crawl.pages.tolist()])


def simulation_of(
    spec: RunSpec, judge: Judging, on_take: Callable[[QueuedUrl], object] = lambda url: None
) -> Simulation:
    """The simulated crawl of a run, ready to start; `on_take` is called for each URL that is about to be fetched."""
    experiment, contestant = spec.experiment, spec.contestant
    settings = experiment.settings_of(contestant, spec.place.repeat)

    def prepare(strategy: Strategy) -> None:
        if isinstance(strategy, LinkTextStrategy):
            training = training_of(spec.judge, spec.analysed, spec.topic, experiment.seed)
            prepare_strategy(strategy, training)
        if isinstance(strategy, Oracle):
            strategy.know(_planned(spec, settings))
        if isinstance(strategy, Foresight):
            strategy.know(foreseen(spec.answers, judge))

    simulation = Simulation(
        spec.answers, settings, spec.starts, judge, max_pages=spec.budget_pages, prepare=prepare, on_take=on_take
    )
    if isinstance(judge, LearningJudge):
        judge.attach(simulation, set(spec.topic.examples) & set(spec.starts))
    return simulation


def _planned(spec: RunSpec, settings: Settings) -> Callable[[str], int | None]:
    """The oracle's plan for a run: the place of each URL. It is the best it can find by `auc`."""
    max_pages = min(spec.budget_pages, max(1, round(spec.analysed.web.info.pages * AREA_SHARE)))
    web = planned_web(spec.analysed, spec.graph, spec.topic.targets, spec.starts, settings, max_pages)
    return places_of(make_plan(web), spec.answers, spec.graph, spec.analysed, spec.starts)


def crawl(spec: RunSpec) -> RunRecord:
    """The run of a real crawl."""
    experiment, contestant = spec.experiment, spec.contestant
    found = crawl_for_real(
        spec.analysed,
        spec.topic,
        spec.starts,
        spec.judge,
        experiment.settings_of(contestant, spec.place.repeat),
        max_pages=spec.budget_pages,
        seed=experiment.seed,
    )
    return _run(spec, found.crawl, found.judgements, found.models, found.answered)


def _run(
    spec: RunSpec,
    crawl: Crawl,
    judgements: Sequence[Judgement],
    models: Iterable[ModelRun] = (),
    answered: tuple[int, ...] = (),
) -> RunRecord:
    metrics = sorted({name for judgement in judgements for name in judgement.agreed})
    bits = {name: 1 << at for at, name in enumerate(metrics)}
    agreed = [sum(bits[name] for name in said.agreed) + UNDOUBTED * said.undoubted for said in judgements]
    return RunRecord(
        spec.place,
        spec.key,
        pages=crawl.pages.astype("<u4").tobytes(),
        judged=np.array([said.relevance for said in judgements], "<f4").tobytes(),
        depths=crawl.depths.astype("<u2").tobytes(),
        requests=crawl.requests.astype("<u4").tobytes(),
        outcomes=crawl.outcomes,
        confidence=np.array([said.confidence for said in judgements], "<f4").tobytes(),
        metrics=tuple(metrics),
        agreed=np.array(agreed, "<u2").tobytes(),
        starts=spec.starts,
        models=tuple(models),
        answered=answered,
        seconds=crawl.seconds.astype("<f8").tobytes(),
    )
