"""Runs an experiment on all cores: crawls, then scores, then results in the folder.

Processes of their own (`run_process.py`) do the work, this one hands it out and keeps what comes back. Each run is on
disk when it is counted (`records.py`). So a stop, even by kill -9, loses only the runs that were under way; called
again, an experiment goes on where it was. Runs are told apart by all that they depend on: a strategy that is added to
the file is the only one that is run, a measure that is added needs no run at all.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from opilio.errors import InputError, OpilioError
from opilio.lab.experiments.analysed import analyse
from opilio.lab.experiments.experiment import Experiment
from opilio.lab.experiments.plan import Plan, Selection, open_webs, reading_settings
from opilio.lab.experiments.records import RunLog, RunPlace, RunRecord
from opilio.lab.experiments.results import Results, ScoreRow, gather, write
from opilio.lab.experiments.run_process import RunWorker, receive, send
from opilio.lab.experiments.scoring import RunGroup, wanted_measures
from opilio.process import single_threaded

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
        """The answers to the requests, in their order, as they come; `on_run` is told of each run that is finished."""
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
        with RunWorkers(experiment, count) if count > 1 else Here(experiment) as pool:
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


class Here:
    """Answers requests in this process."""

    def __init__(self, experiment: Experiment) -> None:
        self._worker = RunWorker(experiment, lambda run: None)

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to end."""

    def ask(
        self, requests: Sequence[tuple[str, Any]], on_run: Callable[[RunRecord], object] = lambda run: None
    ) -> Iterator[Any]:
        """The answers to the requests, in their order; `on_run` is told of each run that is finished."""
        self._worker.on_run = on_run
        for kind, argument in requests:
            yield self._worker.answer(kind, argument)


class RunWorkers:
    """Processes that answer requests, each request by one of them. Whatever happens, none is left behind."""

    def __init__(self, experiment: Experiment, count: int) -> None:
        self._experiment = experiment
        self._count = count
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> RunWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        """End them."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def ask(
        self, requests: Sequence[tuple[str, Any]], on_run: Callable[[RunRecord], object] = lambda run: None
    ) -> Iterator[Any]:
        """The answers to the requests, in their order, as they come; `on_run` is told of each run that is finished."""
        self._start(min(self._count, len(requests)))
        waiting = iter(enumerate(requests))
        lock = threading.Lock()
        arrived: queue.SimpleQueue[tuple[int, str, Any]] = queue.SimpleQueue()
        for process in self._processes:
            threading.Thread(target=_serve, args=(process, waiting, lock, arrived), daemon=True).start()
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
        # The same import path as ours, and none of our working folder's modules.
        program = f"import sys; sys.path[:] = {sys.path!r}; from opilio.lab.experiments.run_process import main; main()"
        while len(self._processes) < count:
            process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=single_threaded(),
                process_group=0,  # Ctrl-C is ours to handle
            )
            self._processes.append(process)
            assert process.stdin is not None
            send(process.stdin, self._experiment)


def _serve(
    process: subprocess.Popen[bytes],
    waiting: Iterable[tuple[int, tuple[str, Any]]],
    lock: threading.Lock,
    arrived: queue.SimpleQueue[tuple[int, str, Any]],
) -> None:
    """Hand one process a request after the other, and pass on what it answers."""
    assert process.stdin is not None
    assert process.stdout is not None
    requests = iter(waiting)
    while True:
        with lock:
            request = next(requests, None)
        if request is None:
            return
        place, (kind, argument) = request
        try:
            send(process.stdin, (kind, argument))
            while (data := receive(process.stdout)) is not None:
                said, answer = msgspec.msgpack.decode(data)
                arrived.put((place, said, answer))
                if said != "run":
                    break
            else:
                arrived.put((place, "died", process.wait()))
                return
        except (OSError, ValueError):  # it ended, or we are ending it
            arrived.put((place, "died", process.poll()))
            return
