"""What an experiment has to run: every web, topic, task, strategy and repeat, and the key of each run."""

from __future__ import annotations

import dataclasses
import fnmatch
import functools
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

import opilio
from opilio.errors import InputError, SettingsError
from opilio.lab.experiments.analysed import digest_of_code, key_of
from opilio.lab.experiments.experiment import Experiment, Topics, Web
from opilio.lab.experiments.records import RunPlace, RunRecord
from opilio.lab.experiments.tasks import TaskMaker
from opilio.lab.webs.recorded import RecordedWeb
from opilio.settings import Settings

SIMULATION_CODE = (
    "model", "topics", "frontier", "fetch", "analyze", "features", "classify", "learn/strategy_history.py",
    "crawl/absorb.py", "crawl/discovery.py", "crawl/extra_urls.py", "crawl/ledger.py", "crawl/rows.py",
    "crawl/status.py", "crawl/worker.py",
    "lab/experiments/analysed.py", "lab/experiments/simulate.py", "lab/experiments/crawls.py",
    "lab/experiments/graph.py", "lab/experiments/bounds.py", "lab/experiments/tasks.py",
    "lab/experiments/learning.py", "learn/mined_negatives.py", "learn/directories.py", "crawl/teacher.py",
)  # fmt: skip
"""Packages and modules that make a run. A test compares them with what the simulator imports."""
CRAWL_CODE = ("store", "distill", "learn", "crawl", "lab/webs/transport.py")
"""Those that make a real crawl, in addition."""
KINDS = ("web", "topic", "task", "strategy")


class Job(msgspec.Struct, frozen=True, array_like=True):
    """The runs of one topic with one seed set: what they share is made once."""

    web: str
    topic: str
    repeat: int
    wanted: tuple[tuple[RunPlace, str], ...]
    """Runs with their keys."""


@dataclasses.dataclass(frozen=True)
class Selection:
    """A part of an experiment: patterns by kind (`web`, `topic`, `task`, `strategy`); none of a kind: all."""

    patterns: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Iterable[str], option: str = "--only", kinds: Sequence[str] = KINDS) -> Selection:
        """From texts such as `topic=Science*`; several of a kind are alternatives. `option` is named in errors."""
        found: dict[str, tuple[str, ...]] = {}
        for text in texts:
            kind, equals, pattern = text.partition("=")
            if not equals or kind not in kinds or not pattern:
                raise InputError(
                    f"{option} {text}: not of the form KIND=PATTERN", f"KIND is one of {', '.join(kinds)}."
                )
            found[kind] = (*found.get(kind, ()), pattern)
        return cls(found)

    def __call__(self, kind: str, name: str) -> bool:
        """Whether something of a kind is selected by its name."""
        patterns = self.patterns.get(kind)
        return patterns is None or any(name == one or fnmatch.fnmatchcase(name, one) for one in patterns)


class Plan:
    """All runs of an experiment, in the order of its file."""

    def __init__(self, experiment: Experiment, webs: Mapping[str, RecordedWeb], selection: Selection) -> None:
        self.experiment = experiment
        self.webs = {name: web for name, web in webs.items() if selection("web", name)}
        self.tasks = [str(task) for task in experiment.tasks if selection("task", task)]
        self.strategies = [c for c in experiment.strategies if selection("strategy", c.name)]
        self.selection = selection
        self._topics: dict[str, list[str]] = {}
        for web in self.webs.values():
            keys = {key_of(web, experiment.settings_of(c)) for c in experiment.strategies}
            if len(keys) > 1:
                raise SettingsError(
                    f"{experiment.name}: strategies differ in settings by which pages are read",
                    "Put those into the experiment's [settings]: they hold for all.",
                )

    @property
    def topics(self) -> dict[str, list[str]]:
        """By web."""
        return self._topics

    def set_topics(self, web: str, labels: Sequence[str]) -> None:
        """The topics of a web, once they are known."""
        self._topics[web] = [label for label in labels if self.selection("topic", label)]

    def check(self) -> None:
        """Fail when nothing is left to run."""
        if not (self.webs and self.tasks and self.strategies and any(self._topics.values())):
            raise InputError(
                f"{self.experiment.name}: nothing to run: no web, topic, task or strategy is left",
                "Look at --only, and at [topics]: `split`, `min_pages` and `labels`.",
            )

    @property
    def baseline(self) -> str:
        """The label that the others are compared with; the first that was selected, when it was not."""
        names = [contestant.name for contestant in self.strategies]
        return self.experiment.baseline if self.experiment.baseline in names else names[0]

    def jobs(self, done: Mapping[str, RunRecord]) -> Iterator[Job]:
        """What is still to do, web by web."""
        for web, topic, repeat in self._seed_sets():
            places = [
                (place, key)
                for task in self.tasks
                for place, key in self._keyed(web, task, topic, repeat)
                if key not in done
            ]
            if places:
                yield Job(web, topic, repeat, tuple(places))

    def groups(self, done: Mapping[str, RunRecord]) -> Iterator[list[RunRecord]]:
        """Runs that differ in their strategy only, as far as they are there, in the order of the plan."""
        for web, topic, repeat in self._seed_sets():
            for task in self.tasks:
                yield [done[key] for _, key in self._keyed(web, task, topic, repeat) if key in done]

    def _seed_sets(self) -> Iterator[tuple[str, str, int]]:
        for web in self.webs:
            for topic in self._topics[web]:
                for repeat in range(self.experiment.repeats):
                    yield web, topic, repeat

    def _keyed(self, web: str, task: str, topic: str, repeat: int) -> Iterator[tuple[RunPlace, str]]:
        for at, contestant in enumerate(self.strategies):
            place = RunPlace(web, task, topic, repeat, contestant.name)
            shared = self._shared_key(web, at, repeat)
            yield place, hashlib.sha256(f"{shared}\0{task}\0{topic}\0{repeat}".encode()).hexdigest()[:32]

    @functools.cache  # noqa: B019  (a plan lives as long as its experiment)
    def _shared_key(self, web: str, strategy: int, repeat: int) -> str:
        """Of all that a run depends on but its topic and task; what a strategy is called is not of it."""
        experiment, contestant = self.experiment, self.strategies[strategy]
        recorded = self.webs[web]
        matters = (
            opilio.__version__, _code_digest(real=contestant.real), contestant.real, recorded.digest,
            experiment.budget.of(recorded.info.pages), experiment.examples, experiment.seed,
            experiment.judge_of(contestant), dataclasses.asdict(experiment.settings_of(contestant, repeat)),
        )  # fmt: skip
        return hashlib.sha256(msgspec.json.encode(matters)).hexdigest()


def open_webs(webs: Iterable[Web]) -> dict[str, RecordedWeb]:
    """The recorded webs of an experiment, by name."""
    return {web.name: RecordedWeb.open(Path(web.path)) for web in webs}


def choose_topics(maker: TaskMaker, topics: Topics, seed: int) -> list[str]:
    """The labels that an experiment uses as topics, sorted."""
    development = {"development": True, "final": False, "all": None}[topics.split]
    found = maker.labels(topics.min_pages, max_share=topics.max_share, development=development)
    if topics.labels:
        missing = sorted(set(topics.labels) - set(found))
        if missing:
            raise InputError(
                f"no topic {missing[0]!r} on this web, or too small, too large, or of the other split",
                f"There are: {', '.join(found[:20])}{' ...' if len(found) > 20 else ''}",
            )
        found = [label for label in found if label in topics.labels]
    found = [label for label in found if label not in topics.exclude]
    if topics.count:
        found.sort(key=lambda label: hashlib.sha256(f"{seed}\0topic\0{label}".encode()).digest())
    return sorted(found[: topics.count or None])


def reading_settings(experiment: Experiment) -> Settings:
    """The settings by which the pages of all webs are read."""
    return experiment.settings_of(experiment.strategies[0])


def _code_digest(*, real: bool) -> str:
    """A digest over the code that makes runs."""
    return digest_of_code(SIMULATION_CODE + (CRAWL_CODE if real else ()))
