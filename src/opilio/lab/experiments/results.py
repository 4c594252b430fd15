"""Results of an experiment as files: `runs.parquet`, `scores.parquet`, `results.json`; of real crawls `models.parquet`.

They hold no times and no paths: the same experiment on the same webs gives the same bytes, whatever the number of
processes and however often it was stopped. A report is made of `scores.parquet` and `results.json` alone.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import opilio
from opilio.errors import InputError
from opilio.lab.experiments.experiment import Experiment
from opilio.lab.experiments.plan import Plan
from opilio.lab.experiments.records import RunRecord
from opilio.settings import to_toml
from opilio.settings.files import without_secrets

RUNS_FILE, SCORES_FILE, RESULTS_FILE = "runs.parquet", "scores.parquet", "results.json"
MODELS_FILE = "models.parquet"


class ScoreRow(NamedTuple):
    """One value."""

    web: str
    task: str
    topic: str
    repeat: int
    strategy: str
    measure: str
    point: int
    """Pages fetched, or best pages; -1 for a measure that is a single number."""
    value: float


class WebFacts(msgspec.Struct, frozen=True):
    """A web that was crawled."""

    name: str
    digest: str
    pages: int
    hosts: int
    budget_pages: int
    topics: list[str]


class Skipped(msgspec.Struct, frozen=True):
    """A topic that could not be run for a task, by any strategy or by some: it counts for none."""

    web: str
    task: str
    topic: str
    repeat: int
    why: str


class ExperimentFacts(msgspec.Struct, frozen=True):
    """What `results.json` says."""

    experiment: Experiment
    opilio_version: str
    commit: str
    """'' when it is not known; ends in `+` when files differ from it."""
    baseline: str
    strategies: list[str]
    settings: dict[str, str]
    """Of each strategy, as far as they differ from the defaults, as TOML."""
    webs: list[WebFacts]
    tasks: list[str]
    runs: int
    skipped: list[Skipped]


@dataclass(frozen=True)
class Results:
    """All that a report is made of."""

    facts: ExperimentFacts
    runs: list[RunRecord]
    """In the order of the plan; empty when read from files."""
    scores: list[ScoreRow]


def gather(plan: Plan, runs: Mapping[str, RunRecord], scores: Iterable[ScoreRow]) -> Results:
    """The results of a plan whose runs are all there."""
    groups = list(plan.groups(runs))
    skipped = []
    for group in groups:
        reasons = [run for run in group if run.skipped]
        if reasons:
            place = reasons[0].place
            skipped.append(Skipped(place.web, place.task, place.topic, place.repeat, reasons[0].skipped))
    experiment = plan.experiment
    webs = []
    for name, web in plan.webs.items():
        pages, topics = web.info.pages, plan.topics[name]
        webs.append(WebFacts(name, web.digest, pages, web.info.hosts, experiment.budget.of(pages), topics))
    named = [msgspec.structs.replace(web, path=web.name) for web in experiment.webs]
    facts = ExperimentFacts(
        msgspec.structs.replace(experiment, webs=tuple(named)),
        opilio.__version__,
        commit(),
        plan.baseline,
        [contestant.name for contestant in plan.strategies],
        {
            contestant.name: to_toml(without_secrets(experiment.settings_of(contestant)))
            for contestant in plan.strategies
        },
        webs,
        plan.tasks,
        sum(len(group) for group in groups),
        skipped,
    )
    return Results(facts, [run for group in groups for run in group if not run.skipped], list(scores))


def write(results: Results, folder: Path) -> None:
    """Write all files; each is replaced in one step."""
    _replace(folder / RUNS_FILE, lambda path: pq.write_table(_runs_table(results.runs), path, compression="zstd"))
    models = _models_table(results.runs)
    if models.num_rows:
        _replace(folder / MODELS_FILE, lambda path: pq.write_table(models, path, compression="zstd"))
    columns = zip(*results.scores, strict=True) if results.scores else [[]] * len(ScoreRow._fields)
    table = pa.table({name: list(column) for name, column in zip(ScoreRow._fields, columns, strict=True)})
    _replace(folder / SCORES_FILE, lambda path: pq.write_table(table, path, compression="zstd"))
    text = json.dumps(msgspec.to_builtins(results.facts), indent=2, ensure_ascii=False) + "\n"
    _replace(folder / RESULTS_FILE, lambda path: path.write_text(text, "utf-8"))


def read(folder: Path) -> Results:
    """The results in a folder, without the runs."""
    try:
        facts = msgspec.json.decode((folder / RESULTS_FILE).read_bytes(), type=ExperimentFacts)
        table = pq.read_table(folder / SCORES_FILE)
    except FileNotFoundError:
        raise InputError(f"{folder}: no results there", "Run one: opilio evaluate FILE --folder OUT") from None
    except (msgspec.DecodeError, pa.ArrowException) as error:
        raise InputError(f"{folder}: results that cannot be read: {error}", "Run the experiment again.") from None
    columns: list[list[Any]] = [table[name].to_pylist() for name in ScoreRow._fields]
    return Results(facts, [], [ScoreRow(*row) for row in zip(*columns, strict=True)])


def commit() -> str:
    """The commit of the code, when it is run from its repository."""
    root = Path(opilio.__file__).parents[2]
    if not (root / ".git").exists():
        return ""
    try:
        name = _git(root, "rev-parse", "--short=12", "HEAD")
        return name + ("+" if name and _git(root, "status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(root: Path, *words: str) -> str:
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()


def _runs_table(runs: list[RunRecord]) -> pa.Table:
    def arrays(name: str, kind: str) -> list[Any]:
        return [np.frombuffer(getattr(run, name), kind) for run in runs]

    places = [msgspec.structs.asdict(run.place) for run in runs]
    return pa.table(
        {
            **{name: [place[name] for place in places] for name in ("web", "task", "topic", "repeat", "strategy")},
            "key": [run.key for run in runs],
            "pages": pa.array(arrays("pages", "<u4"), pa.list_(pa.uint32())),
            "judged": pa.array(arrays("judged", "<f4"), pa.list_(pa.float32())),
            "depths": pa.array(arrays("depths", "<u2"), pa.list_(pa.uint16())),
            "requests": pa.array(arrays("requests", "<u4"), pa.list_(pa.uint32())),
            "seconds": pa.array(arrays("seconds", "<f8"), pa.list_(pa.float64())),
            "outcomes": [json.dumps(run.outcomes, sort_keys=True) for run in runs],
            "starts": pa.array([run.starts for run in runs], pa.list_(pa.uint32())),
            "confidence": pa.array(arrays("confidence", "<f4"), pa.list_(pa.float32())),
            "metrics": pa.array([run.metrics for run in runs], pa.list_(pa.string())),
            "agreed": pa.array(arrays("agreed", "<u2"), pa.list_(pa.uint16())),
        }
    )


def _models_table(runs: list[RunRecord]) -> pa.Table:
    """One row for each model that a real crawl trained."""
    found = [(run, model) for run in runs for model in run.models]
    names = ("web", "task", "topic", "repeat", "strategy")
    return pa.table(
        {
            **{name: [getattr(run.place, name) for run, _ in found] for name in names},
            "version": pa.array([model.version for _, model in found], pa.int32()),
            "trained_after": pa.array([model.pages for _, model in found], pa.int32()),
            "documents": pa.array([model.documents for _, model in found], pa.int32()),
            "reason": pa.array([model.reason for _, model in found], pa.string()),
            "judged": pa.array([np.frombuffer(model.judged, "<f4") for _, model in found], pa.list_(pa.float32())),
        }
    )


def _replace(path: Path, write_to: Any) -> None:
    draft = path.with_name(f".{path.name}.draft")
    write_to(draft)
    draft.replace(path)
