"""A process that runs crawls and scores them: requests on standard input, answers on standard output, in frames.

A request is a kind and its argument. Each run is answered when it is finished, then the request itself. One web is held
at a time; requests come web by web. When the one who asks is gone, so is this.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import msgspec

from opilio.errors import OpilioError
from opilio.lab.experiments.analysed import Analysed, analyse
from opilio.lab.experiments.crawls import Errand, Judging, crawl, make_judge, simulate
from opilio.lab.experiments.experiment import Experiment
from opilio.lab.experiments.plan import Job, choose_topics, reading_settings
from opilio.lab.experiments.records import RunPlace, RunRecord
from opilio.lab.experiments.scoring import RunGroup, RunScorer
from opilio.lab.experiments.simulate import Answers
from opilio.lab.experiments.tasks import Start, TaskMaker, TaskTopic
from opilio.lab.webs.recorded import RecordedWeb
from opilio.process import collect_rarely, end_with_parent

_LENGTH = struct.Struct("<I")


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
        """Do what is asked; the argument as it is, or as it comes out of a message."""
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

    def score(self, group: RunGroup) -> list[tuple[str, str, int, float]]:
        """The values of a group of runs: strategy, measure, point, value."""
        loaded = self._web(group.web)
        return loaded.scorer.score(group, loaded.maker.topic(group.topic, group.repeat))

    def _run(
        self, loaded: Loaded, topic: TaskTopic, place: RunPlace, key: str, judges: dict[bytes, Judging]
    ) -> RunRecord:
        experiment = self.experiment
        contestant = next(c for c in experiment.strategies if c.name == place.strategy)
        starts = topic.starts(Start(place.task))
        if not starts:
            return RunRecord(place, key, skipped="no page leads to the targets by two links")
        errand = Errand(
            experiment, contestant, loaded.analysed, loaded.answers, loaded.maker.graph, topic, starts, place, key
        )
        if contestant.real:
            return crawl(errand)
        wanted = experiment.judge_of(contestant)
        judge_key = msgspec.json.encode(wanted)
        if judge_key not in judges:
            judges[judge_key] = make_judge(experiment, wanted, loaded.analysed, topic)
        return simulate(errand, judges[judge_key])

    def _web(self, name: str) -> Loaded:
        if self._loaded is None or self._loaded.name != name:
            self._loaded = None  # room for the next
            self._loaded = Loaded(self.experiment, name)
        return self._loaded


def send(file: IO[bytes], message: Any) -> None:
    """Write one frame."""
    data = msgspec.msgpack.encode(message)
    file.write(_LENGTH.pack(len(data)) + data)
    file.flush()


def receive(file: IO[bytes]) -> bytes | None:
    """Read one frame; None at the end, also of a writer that ended within one."""
    header = file.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(header)
    data = file.read(length)
    return data if len(data) == length else None


def main() -> None:
    """Entry point of the process. The first frame is the experiment."""
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    first = receive(requests)
    if first is None:
        return
    collect_rarely()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a crawl's folder does not stay behind
    end_with_parent()
    worker = RunWorker(
        msgspec.msgpack.decode(first, type=Experiment), lambda run: send(answers, ("run", msgspec.to_builtins(run)))
    )
    while (data := receive(requests)) is not None:
        kind, argument = msgspec.msgpack.decode(data)
        try:
            send(answers, ("done", worker.answer(kind, argument)))
        except OpilioError as error:
            send(answers, ("failed", (error.message, error.hint)))
        except (BrokenPipeError, KeyboardInterrupt):  # nobody waits for answers any more
            return
