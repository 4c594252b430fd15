"""An experiment as a file: which webs, topics, tasks, strategies and measures (TOML, docs/guides/evaluating.md).

Strict like the settings of a crawl: an unknown key is an error that names the nearest one.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from opilio.classify import CLASSIFIERS
from opilio.errors import SettingsError
from opilio.frontier import DatabaseStrategy, make_strategy
from opilio.lab.experiments.bounds import KNOWING
from opilio.lab.experiments.scores import check_column, column_parts
from opilio.lab.experiments.tasks import EXAMPLES, Start
from opilio.learn.mined_negatives import calibrates
from opilio.settings import Settings, current_names, override

TRUTH = "truth"
GUIDE = "docs/guides/evaluating.md describes experiment files."
_DEFAULT_COLUMNS = ("recall", "auc", "harvest", "harvest per request", "harvest per second")
_REAL: dict[str, Any] = {
    "fetch.host_delay_s": 0.0, "fetch.backoff_s": 0.0, "fetch.in_flight": 1, "run.workers": -1,
    "learn.synchronous": True, "duplicates.ip_path": "off", "duplicates.ip_size": "off", "store.warc": False,
    "frontier.hot_urls": 2**31, "fetch.pictures_per_host": 0,
}  # fmt: skip
"""Settings of real crawls, unless an experiment has others: no waiting, and one thing after the other, so that what is
found depends neither on the machine nor on how long training takes. A recorded web has no addresses to compare."""


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of an experiment file."""


class Topics(_Table, frozen=True, forbid_unknown_fields=True):
    """Which labels of a web are topics."""

    labels: tuple[str, ...] = ()
    """By name; none: all that have enough pages."""
    split: Literal["development", "final", "all"] = "final"
    count: int = 0
    """At most this many, drawn by lot; 0: all."""
    min_pages: int = 20
    max_share: float = 0.5
    """Of the web: a label on more of its pages is no topic."""
    exclude: tuple[str, ...] = ()


class Web(_Table, frozen=True, forbid_unknown_fields=True):
    """A recorded web."""

    path: str
    """From the folder of the experiment file."""
    topics: Topics | None = None
    """In place of the experiment's."""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return Path(self.path).name


class JudgeChoice(_Table, frozen=True, forbid_unknown_fields=True):
    """Who judges pages while they are crawled."""

    kind: str = "keywords"
    """The name of a classifier, or `truth`: the labels themselves."""
    negatives: int = 0
    """Pages of other labels or none, drawn by lot, that a classifier learns as OTHERS. Users give none."""
    others: bool = True
    """Whether it learns the common-sense documents that come with Opilio too."""
    learns: bool = False
    """Whether the judge of a simulated crawl is trained again with the pages met, as that of a real crawl is."""
    settings: dict[str, Any] = {}
    """Of classifiers, by dotted names."""


class CrawlBudget(_Table, frozen=True, forbid_unknown_fields=True):
    """How much of a web a crawl may fetch."""

    pages: int = 0
    share: float = 0.0
    """Of the pages of the web; the smaller of the two counts."""

    def of(self, web_pages: int) -> int:
        """In pages."""
        limits = [self.pages or web_pages, round(self.share * web_pages) or web_pages]
        return max(1, min(limits))


class Contestant(_Table, frozen=True, forbid_unknown_fields=True):
    """One strategy of the comparison."""

    strategy: str = ""
    """The crawl order; empty: that of the system."""
    system: str = ""
    """The whole system of a paper, which only real crawls can run: its own judge, order and way to learn."""
    label: str = ""
    """What it is called in tables; its name, when empty."""
    judge: JudgeChoice | None = None
    """In place of the experiment's."""
    settings: dict[str, Any] = {}
    """In place of the experiment's, by dotted names."""
    real: bool = False
    """Not simulated: engine, worker, database and all that learns during a crawl are at work."""
    answers: int = 0
    """Of real crawls: so many of the crawl's questions are answered, by the labels."""

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return self.label or self.strategy or self.system


class MeasureChoice(_Table, frozen=True, forbid_unknown_fields=True):
    """What is measured and shown."""

    curves: tuple[str, ...] = ("recall", "harvest")
    """In the plots."""
    table: tuple[str, ...] = _DEFAULT_COLUMNS
    """In the tables: a measure alone, or `measure@100`: after 100 pages (for static ones, of the best 100 pages)."""
    points: int = 20
    """So many, evenly over the budget, have curves over pages."""
    top: tuple[int, ...] = (10, 25, 50, 100, 200, 400)
    """Of how many of the best pages static measures are taken."""
    window_pages: int = 100
    """Of the moving average of the harvest rate."""
    models: int = 6
    """So many models of a crawl, the first of them first, have measures of models."""
    distances: int = 10
    """Links from the start set, up to which authorities are counted apart; those farther away count as one more."""
    baseline: str = ""
    """The label that the others are compared with; empty: the first."""


class Experiment(_Table, frozen=True, forbid_unknown_fields=True):
    """An experiment file."""

    name: str
    webs: tuple[Web, ...]
    strategies: tuple[Contestant, ...]
    title: str = ""
    question: str = ""
    topics: Topics = Topics()
    tasks: tuple[Start, ...] = (Start.EXAMPLES,)
    examples: int = EXAMPLES
    """Pages of a topic that a crawler is shown."""
    repeats: int = 1
    """Of each topic, with other examples each time."""
    seed: int = 0
    judge: JudgeChoice = JudgeChoice()
    budget: CrawlBudget = CrawlBudget(pages=500)
    measures: MeasureChoice = MeasureChoice()
    settings: dict[str, Any] = {}
    """Of all crawls, by dotted names."""

    @property
    def baseline(self) -> str:
        """The label that others are compared with."""
        return self.measures.baseline or self.strategies[0].name

    def judge_of(self, contestant: Contestant) -> JudgeChoice:
        """Who judges for a strategy."""
        return contestant.judge or self.judge

    def settings_of(self, contestant: Contestant, repeat: int = 0) -> Settings:
        """The settings of a strategy's crawls."""
        where = f"{self.name}, strategy {contestant.name!r}"
        changes = current_names(self.settings) | current_names(contestant.settings)
        if contestant.strategy:
            changes["frontier.strategy"] = contestant.strategy
        if contestant.system:
            changes = {**_REAL, **changes, "run.system": contestant.system}
        elif contestant.real:
            judge = self.judge_of(contestant)
            changes = {**_REAL, **current_names(judge.settings), **changes, "classify.classifier": judge.kind}
        if contestant.real:
            changes["learn.questions"] = contestant.answers  # nobody else would answer
        return override(Settings(), {"run.seed": self.seed + repeat, **changes}, where)

    def judge_settings(self, judge: JudgeChoice) -> Settings:
        """The settings of a classifier's training."""
        changes = {"run.seed": self.seed, **judge.settings, "classify.classifier": judge.kind}
        return override(Settings(), changes, f"{self.name}, judge {judge.kind!r}")


def load(path: Path, webs_folder: Path | None = None) -> Experiment:
    """Read an experiment file. Webs are looked for from its folder, or by their names in `webs_folder`."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {(error.strerror or str(error)).lower()}", GUIDE) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not valid TOML: {error}", "Correct the line it names.") from None
    experiment = from_table(table, str(path))
    found = [
        msgspec.structs.replace(web, path=str(webs_folder / web.name if webs_folder else path.parent / web.path))
        for web in experiment.webs
    ]
    return msgspec.structs.replace(experiment, webs=tuple(found))


def from_table(table: dict[str, Any], where: str = "experiment") -> Experiment:
    """An experiment from nested tables as TOML gives them; `where` names the source in errors."""
    table = _in_full(table)
    _check_keys(table, Experiment, where)
    try:
        experiment = msgspec.convert(table, Experiment)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where}: {error}", GUIDE) from None
    _check(experiment, where)
    return experiment


def _in_full(table: dict[str, Any]) -> dict[str, Any]:
    """Short forms written out: a web as its path, a strategy as its name, a judge as its kind."""

    def full(value: Any, key: str) -> Any:
        return {key: value} if isinstance(value, str) else dict(value) if isinstance(value, dict) else value

    table = dict(table)
    for name, key in (("webs", "path"), ("strategies", "strategy")):
        if isinstance(table.get(name), list):
            table[name] = [full(item, key) for item in table[name]]
    for owner in (table, *(item for item in table.get("strategies") or () if isinstance(item, dict))):
        if "judge" in owner:
            owner["judge"] = full(owner["judge"], "kind")
    return table


_TABLES: dict[type[_Table], dict[str, type[_Table]]] = {
    Experiment: {
        "topics": Topics, "webs": Web, "strategies": Contestant, "judge": JudgeChoice,
        "budget": CrawlBudget, "measures": MeasureChoice,
    },
    Web: {"topics": Topics},
    Contestant: {"judge": JudgeChoice},
}  # fmt: skip


def _check_keys(table: dict[str, Any], kind: type[_Table], where: str) -> None:
    """Fail on a key that does not exist, and name the nearest."""
    names = [field.name for field in msgspec.structs.fields(kind)]
    for name, value in table.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
            did_you_mean = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names)}."
            raise SettingsError(f"{where}: unknown key {name!r}. {did_you_mean}", GUIDE)
        below = _TABLES.get(kind, {}).get(name)
        for place, item in enumerate(value if isinstance(value, list) else [value]):
            if below is not None and isinstance(item, dict):
                number = f" {place + 1}" if isinstance(value, list) else ""
                _check_keys(item, below, f"{where}, [{name}]{number}")


def _check(experiment: Experiment, where: str) -> None:
    """Everything that would fail after minutes fails now."""
    labels = [contestant.name for contestant in experiment.strategies]
    names = [web.name for web in experiment.webs]
    numbers = {
        "examples": experiment.examples, "repeats": experiment.repeats, "points": experiment.measures.points,
        "window_pages": experiment.measures.window_pages, "webs": len(names), "strategies": len(labels),
        "tasks": len(experiment.tasks), "models": experiment.measures.models,
        "distances": experiment.measures.distances,
    }  # fmt: skip
    wrong = {
        **{f"{key!r} must be at least 1": number < 1 for key, number in numbers.items()},
        "two strategies have the same label": len(set(labels)) < len(labels),
        "two webs have the same name": len(set(names)) < len(names),
        f"no strategy has the label of the baseline, {experiment.baseline!r}": experiment.baseline not in labels,
        "a budget must not be negative": experiment.budget.pages < 0 or experiment.budget.share < 0,
        "'name' must be letters, digits, - and _": not experiment.name.replace("-", "").replace("_", "").isalnum(),
    } if labels else {"no strategies": True}  # fmt: skip
    for what, is_wrong in wrong.items():
        if is_wrong:
            raise SettingsError(f"{where}: {what}", GUIDE)
    for column in (*experiment.measures.curves, *experiment.measures.table):
        check_column(column, where)
        if column_parts(column)[0].needs_reference and experiment.repeats < 2:
            raise SettingsError(f"{where}: {column!r} compares two crawls of a topic", "Set `repeats = 2`.")
    for contestant in experiment.strategies:
        _check_contestant(experiment, contestant, where)


def _check_contestant(experiment: Experiment, contestant: Contestant, where: str) -> None:
    if not contestant.strategy and not contestant.system:
        raise SettingsError(f"{where}: a contestant has neither a strategy nor a system", GUIDE)
    if contestant.system and not contestant.real:
        raise SettingsError(
            f"{where}: a whole system, such as {contestant.system!r}, cannot be simulated",
            "Set `real = true` for it, or compare its `strategy` alone.",
        )
    judge = experiment.judge_of(contestant)
    if judge.kind != TRUTH:
        CLASSIFIERS.get(judge.kind)
        experiment.judge_settings(judge)
    elif contestant.real:
        raise SettingsError(
            f"{where}: strategy {contestant.name!r} is real, and no real crawl can look at the labels",
            "Choose another judge, or leave out `real = true`.",
        )
    if judge.learns and not calibrates(experiment.judge_settings(judge)):
        raise SettingsError(
            f"{where}: judge {judge.kind!r} cannot learn from the pages met",
            "Use the classifier svm with classify.calibrate = true, or leave out `learns = true`.",
        )
    if contestant.real and not judge.others and not judge.negatives:
        raise SettingsError(
            f"{where}: strategy {contestant.name!r} is real, and has no documents of OTHERS", "Set `negatives`."
        )
    if contestant.answers < 0 or (contestant.answers and not contestant.real):
        raise SettingsError(
            f"{where}: strategy {contestant.name!r} has answers = {contestant.answers}: only real crawls ask questions",
            "Set `real = true` for it, and a number of answers from 0 on.",
        )
    strategy = make_strategy(experiment.settings_of(contestant).frontier)
    if contestant.real and isinstance(strategy, KNOWING):
        raise SettingsError(
            f"{where}: strategy {contestant.name!r} knows what only simulated crawls can know",
            "Leave out `real = true`.",
        )
    if isinstance(strategy, DatabaseStrategy) and not contestant.real:
        raise SettingsError(
            f"{where}: strategy {contestant.name!r} orders by SQL, which cannot be simulated",
            "Set `real = true` for it: then it has a database to ask.",
        )
