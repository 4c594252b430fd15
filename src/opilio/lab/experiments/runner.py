"""Runs an experiment on all cores: crawls, then scores, then results in the folder.

Child processes do the work; this one hands it out and keeps what comes back. Each run is on disk when it is counted
(`records.py`). So a stop, even by kill -9, loses only the runs that were under way; called again, an experiment goes on
where it was. A run is identified by all that it depends on: when a strategy is added to the file, only that one is run;
when a measure is added, nothing is run.

A request to a process is a kind and its argument, in msgpack. The process answers each run when it is finished, then
the request itself. It loads one web at a time; requests come web by web.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from opilio.errors import InputError, OpilioError
from opilio.lab.experiments.analysed import Analysed, analyse
from opilio.lab.experiments.crawls import Judging, RunSpec, crawl, make_judge, simulate
from opilio.lab.experiments.experiment import Experiment
from opilio.lab.experiments.plan import Job, Plan, Selection, choose_topics, open_webs, reading_settings
from opilio.lab.experiments.records import RunLog, RunPlace, RunRecord
from opilio.lab.experiments.results import Results, ScoreRow, gather, write
from opilio.lab.experiments.scoring import RunGroup, RunScorer, wanted_measures
from opilio.lab.experiments.simulate import Answers
from opilio.lab.experiments.tasks import Start, TaskMaker, TaskTopic
from opilio.lab.webs.recorded import RecordedWeb
from opilio.process import Channel, Child, collect_rarely, end_with_parent, start

_POLL_S = 0.2


@dataclass(frozen=True)
class Progress:
    """How far an experiment is."""

    stage: str
    """`reading` webs, `crawling`, `scoring`."""
    done: int
    of: int
    already: int = 0
    """Of those done, how many were found in the folder."""


OnProgress = Callable[[Progress], object]


class Pool(Protocol):
    """Who answers requests."""

    def ask(
        self, requests: Sequence[tuple[str, Any]], on_run: Callable[[RunRecord], object] = lambda run: None
    ) -> Iterator[Any]:
        """The answers to the requests, in their order, as they come; `on_run` receives each finished run."""
        ...  # pragma: no cover


def run_experiment(
    experiment: Experiment,
    folder: Path,
    *,
    workers: int = 0,
    selection: Selection | None = None,
    on_progress: OnProgress = lambda progress: None,
) -> Results:
    """Run what is not in `folder` yet, score everything and write the results there.

    0 workers: one for each core; 1: this process does it all.
    """
    count = workers or len(os.sched_getaffinity(0))
    plan = Plan(experiment, open_webs(experiment.webs), selection or Selection())
    _make_folder(folder)
    with RunLog(folder) as log:
        for web in plan.webs.values():
            settings = reading_settings(experiment)
            analyse(web, settings, count, lambda done, of: on_progress(Progress("reading", done, of)))
        with RunWorkers(experiment, count) if count > 1 else InlineRunWorkers(experiment) as pool:
            for name, labels in zip(plan.webs, pool.ask([("topics", name) for name in plan.webs]), strict=True):
                plan.set_topics(name, labels)
            plan.check()
            _crawl(plan, log, pool, on_progress)
            results = gather(plan, log.runs, _score(plan, log, pool, on_progress))
        write(results, folder)
    return results


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}", "Name another folder: --folder OUT") from None


def _crawl(plan: Plan, log: RunLog, pool: Pool, on_progress: OnProgress) -> None:
    jobs = list(plan.jobs(log.runs))
    already = sum(len(group) for group in plan.groups(log.runs))
    total = already + sum(len(job.wanted) for job in jobs)
    done = already
    on_progress(Progress("crawling", done, total, already))

    def keep(run: RunRecord) -> None:
        nonlocal done
        log.append(run)
        done += 1
        on_progress(Progress("crawling", done, total, already))

    for _ in pool.ask([("crawl", job) for job in jobs], keep):
        pass


def _score(plan: Plan, log: RunLog, pool: Pool, on_progress: OnProgress) -> Iterator[ScoreRow]:
    """The values of all groups that every strategy could run, in the order of the plan."""
    groups = [runs for runs in plan.groups(log.runs) if runs and not any(run.skipped for run in runs)]
    everything: dict[tuple[str, str], list[Any]] = {}
    for runs in groups:
        found = everything.setdefault((runs[0].place.web, runs[0].place.task), [])
        found += [run.crawled for run in runs]
    pools = {key: np.unique(np.concatenate(found)).astype("<u4").tobytes() for key, found in everything.items()}
    requests = []
    references = _references(plan, groups)
    for runs in groups:
        place = runs[0].place
        fetched, others = pools[place.web, place.task], references.get(place, ())
        requests.append(("score", RunGroup(place.web, place.topic, place.repeat, tuple(runs), fetched, others)))
    for done, (runs, scores) in enumerate(zip(groups, pool.ask(requests), strict=True), 1):
        place = runs[0].place
        on_progress(Progress("scoring", done, len(groups)))
        for strategy, measure, point, value in scores:
            yield ScoreRow(place.web, place.task, place.topic, place.repeat, strategy, measure, point, value)


def _references(plan: Plan, groups: Sequence[Sequence[RunRecord]]) -> dict[RunPlace, tuple[RunRecord, ...]]:
    """For each group, by its first place, the group of the next repeat; the last is followed by the first.

    Start sets of repeats are disjoint: such runs are two crawls of a topic from different pages.
    """
    if not any(measure.needs_reference for measure in wanted_measures(plan.experiment)):
        return {}
    by_topic: dict[tuple[str, str, str], list[Sequence[RunRecord]]] = {}
    for runs in groups:
        place = runs[0].place
        by_topic.setdefault((place.web, place.task, place.topic), []).append(runs)
    return {
        runs[0].place: tuple(msgspec.structs.replace(run, models=()) for run in following)
        for found in by_topic.values()
        if len(found) > 1
        for runs, following in zip(found, [*found[1:], found[0]], strict=True)
    }


class InlineRunWorkers:
    """Answers requests in this process."""

    def __init__(self, experiment: Experiment) -> None:
        self._worker = RunWorker(experiment, lambda run: None)

    def __enter__(self) -> InlineRunWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def ask(
        self, requests: Sequence[tuple[str, Any]], on_run: Callable[[RunRecord], object] = lambda run: None
    ) -> Iterator[Any]:
        """The answers to the requests, in their order; `on_run` receives each finished run."""
        self._worker.on_run = on_run
        for kind, argument in requests:
            yield self._worker.answer(kind, argument)


class RunWorkers:
    """Processes that answer requests, each request by one of them. Whatever happens, none is left behind."""

    def __init__(self, experiment: Experiment, count: int) -> None:
        self._experiment = experiment
        self._count = count
        self._children: list[Child] = []

    def __enter__(self) -> RunWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        for child in self._children:
            child.kill()
        for child in self._children:
            child.close()

    def ask(
        self, requests: Sequence[tuple[str, Any]], on_run: Callable[[RunRecord], object] = lambda run: None
    ) -> Iterator[Any]:
        """The answers to the requests, in their order, as they come; `on_run` receives each finished run."""
        self._start(min(self._count, len(requests)))
        waiting = iter(enumerate(requests))
        lock = threading.Lock()
        arrived: queue.SimpleQueue[tuple[int, str, Any]] = queue.SimpleQueue()
        for child in self._children:
            threading.Thread(target=_hand_out, args=(child, waiting, lock, arrived), daemon=True).start()
        answers: dict[int, Any] = {}
        for number in range(len(requests)):
            while number not in answers:
                try:
                    place, kind, answer = arrived.get(timeout=_POLL_S)  # so that Ctrl-C is heard
                except queue.Empty:
                    continue
                if kind == "run":
                    on_run(msgspec.convert(answer, RunRecord))
                elif kind == "failed":
                    raise InputError(*answer)
                elif kind == "died":
                    raise OpilioError(
                        f"a process that ran crawls ended with code {answer}",
                        "Finished runs are kept: call it again, with fewer --workers if memory was short.",
                    )
                else:
                    answers[place] = answer
            yield answers.pop(number)

    def _start(self, count: int) -> None:
        while len(self._children) < count:
            child = start("opilio.lab.experiments.runner:answer_requests")
            self._children.append(child)
            child.channel.send(msgspec.msgpack.encode(self._experiment))


def _hand_out(
    child: Child,
    waiting: Iterable[tuple[int, tuple[str, Any]]],
    lock: threading.Lock,
    arrived: queue.SimpleQueue[tuple[int, str, Any]],
) -> None:
    """Send one process a request after the other, and pass on what it answers."""
    requests = iter(waiting)
    while True:
        with lock:
            request = next(requests, None)
        if request is None:
            return
        place, asked = request
        try:
            child.channel.send(msgspec.msgpack.encode(asked))
            while data := child.channel.receive():
                said, answer = msgspec.msgpack.decode(data)
                arrived.put((place, said, answer))
                if said != "run":
                    break
            else:
                arrived.put((place, "died", child.process.wait()))
                return
        except (OSError, ValueError):  # it ended, or we are ending it
            arrived.put((place, "died", child.process.poll()))
            return


# -- what a process does


class Loaded:
    """A web with all that crawls of it share."""

    def __init__(self, experiment: Experiment, name: str) -> None:
        folder = next(web.path for web in experiment.webs if web.name == name)
        self.name = name
        self.web = RecordedWeb.open(Path(folder))
        self.analysed: Analysed = analyse(self.web, reading_settings(experiment), workers=1)
        self.maker = TaskMaker(self.analysed, examples=experiment.examples, seed=experiment.seed)
        self.answers = Answers(self.analysed)
        self.scorer = RunScorer(experiment, self.analysed, self.maker.graph)


class RunWorker:
    """Answers requests."""

    def __init__(self, experiment: Experiment, on_run: Callable[[RunRecord], object]) -> None:
        self.experiment = experiment
        self.on_run = on_run
        self._loaded: Loaded | None = None

    def answer(self, kind: str, argument: Any) -> Any:
        """Answer a request; its argument is as it was made, or as it comes out of a message."""
        handlers: dict[str, tuple[Callable[[Any], Any], type]] = {
            "topics": (self.topics, str),
            "crawl": (self.crawl, Job),
            "score": (self.score, RunGroup),
        }
        handle, wanted = handlers[kind]
        return handle(argument if isinstance(argument, wanted) else msgspec.convert(argument, wanted))

    def topics(self, web: str) -> list[str]:
        """The topics of a web."""
        of_web = next(found.topics for found in self.experiment.webs if found.name == web)
        return choose_topics(self._web(web).maker, of_web or self.experiment.topics, self.experiment.seed)

    def crawl(self, job: Job) -> None:
        """Make all runs of a job."""
        loaded = self._web(job.web)
        judges: dict[bytes, Judging] = {}
        try:
            topic = loaded.maker.topic(job.topic, job.repeat)
        except OpilioError as error:
            for place, key in job.wanted:
                self.on_run(RunRecord(place, key, skipped=error.message))
            return
        for place, key in job.wanted:
            started_s = time.perf_counter()
            try:
                run = self._run(loaded, topic, place, key, judges)
            except OpilioError as error:
                run = RunRecord(place, key, skipped=error.message)
            self.on_run(msgspec.structs.replace(run, took_s=time.perf_counter() - started_s))

    def spec(self, place: RunPlace, key: str) -> RunSpec:
        """All that one run needs. Raises InputError when it cannot be run."""
        loaded = self._web(place.web)
        return self._spec(loaded, loaded.maker.topic(place.topic, place.repeat), place, key)

    def score(self, group: RunGroup) -> list[tuple[str, str, int, float]]:
        """The values of a group of runs: strategy, measure, point, value."""
        loaded = self._web(group.web)
        topic = loaded.maker.topic(group.topic, group.repeat)
        return loaded.scorer.score(group, loaded.maker.task(topic, Start(group.runs[0].place.task)))

    def _run(
        self, loaded: Loaded, topic: TaskTopic, place: RunPlace, key: str, judges: dict[bytes, Judging]
    ) -> RunRecord:
        spec = self._spec(loaded, topic, place, key)
        if spec.contestant.real:
            return crawl(spec)
        judge_key = msgspec.json.encode((spec.judge, spec.topic.is_question))
        if judge_key not in judges or spec.judge.learns:
            judges[judge_key] = make_judge(self.experiment, spec.judge, loaded.analysed, spec.topic)
        return simulate(spec, judges[judge_key])

    def _spec(self, loaded: Loaded, topic: TaskTopic, place: RunPlace, key: str) -> RunSpec:
        experiment = self.experiment
        contestant = next(c for c in experiment.strategies if c.name == place.strategy)
        task = Start(place.task)
        topic = loaded.maker.task(topic, task)
        starts = topic.starts(task)
        if not starts:
            why = "no page has a word of it" if topic.is_question else "no page leads to the targets by two links"
            raise InputError(why, "Choose another topic or task.")
        return RunSpec(
            experiment, contestant, loaded.analysed, loaded.answers, loaded.maker.graph, topic, starts, place, key
        )

    def _web(self, name: str) -> Loaded:
        if self._loaded is None or self._loaded.name != name:
            self._loaded = None  # room for the next
            self._loaded = Loaded(self.experiment, name)
        return self._loaded


def answer_requests(channel: Channel) -> None:
    """The work of a process. The first message is the experiment."""
    first = channel.receive()
    if not first:
        return
    collect_rarely()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a crawl's folder does not stay behind
    end_with_parent(channel)

    def send(kind: str, answer: Any) -> None:
        channel.send(msgspec.msgpack.encode((kind, answer)))

    worker = RunWorker(
        msgspec.msgpack.decode(first, type=Experiment), lambda run: send("run", msgspec.to_builtins(run))
    )
    try:
        while data := channel.receive():
            kind, argument = msgspec.msgpack.decode(data)
            try:
                send("done", worker.answer(kind, argument))
            except OpilioError as error:
                send("failed", (error.message, error.hint))
    except (ConnectionError, KeyboardInterrupt):  # nobody waits for answers any more
        return
