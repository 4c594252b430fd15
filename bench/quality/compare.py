"""Opilio and other crawlers in one table: the same recorded webs over HTTP, start pages, keywords and page budget.

    python -m bench.quality.compare [experiments/peers.toml] [--webs FOLDER] [--folder OUT] [--quick]

The experiment file names webs, topics, tasks, budget, measures and Opilio's strategies, as for `opilio evaluate`; this
program runs them as `opilio crawl` over HTTP, and adds the peers that are installed. What a crawler fetched, and in
which order, is what the server of the recorded web noted: a page counts when it was answered with 200, once, and the
first ones up to the budget count. Measures and statistics are those of `opilio evaluate`, whose report is written too;
`pages/s` is by the clock and includes start-up, training and storing, `pages/CPU-s` is that of the whole process tree.

All crawlers of a topic run one after the other, in an order that changes from topic to topic. One that needs more than
300 s is ended, and what it fetched by then counts. Runs that are in OUT are not made again. --quick: two topics, 100
pages, one web. The last line is JSON.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np

import opilio
from bench.peers.contestants import ALL_PEERS, Assignment, Own, Peer
from opilio.errors import OpilioError
from opilio.lab.experiments.experiment import Experiment, load
from opilio.lab.experiments.plan import Selection, choose_topics
from opilio.lab.experiments.records import RunLog, RunPlace, RunRecord
from opilio.lab.experiments.report import markdown, write_report
from opilio.lab.experiments.results import ExperimentFacts, Results, ScoreRow, WebFacts, commit, write
from opilio.lab.experiments.runner import Loaded
from opilio.lab.experiments.scores import LAST, MEASURES, Axis, Measure
from opilio.lab.experiments.scoring import RunGroup
from opilio.lab.experiments.summary import ExperimentSummary
from opilio.lab.experiments.tasks import Start, TaskTopic
from opilio.lab.webs import RecordedWeb, Serving
from opilio.lab.webs.recorded import is_web
from opilio.lab.webs.server import Request
from opilio.model import normalize

LIMIT_S = 300
ROOT = Path(__file__).parents[2]
SPEEDS = {
    "pages/s": "pages fetched a second, by the clock, from start to end of the program",
    "pages/CPU-s": "pages fetched in a second of processor time of all its processes",
}
Crawler = Own | Peer


def fetched_pages(web: RecordedWeb, requests: list[Request]) -> tuple[list[int], int]:
    """The pages of the web that were answered with 200, in the order in which they were asked for, each once; and how
    many answers came again."""
    pages: dict[int, None] = {}
    answers = 0
    for request in requests:
        if request.method == "GET" and request.status == 200:
            number = web.number(request.url)
            number = number if number >= 0 else web.number(normalize(request.url) or "")
            pages[number] = None
            answers += 1
    pages.pop(-1, None)
    return list(pages), answers - len(pages)


def run(
    crawler: Crawler, topic: TaskTopic, place: RunPlace, key: str, serving: Serving, budget_pages: int
) -> RunRecord:
    """One crawl by another program, told by the server's log."""
    starts = topic.starts(Start(place.task))
    if not starts:
        return RunRecord(place, key, skipped="no page leads to the targets by two links")
    serving.clear_log()
    with tempfile.TemporaryDirectory(prefix="opilio-compare-") as name:
        command = crawler.command(Assignment(topic, starts, budget_pages, serving, Path(name)))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        started_s = time.monotonic()
        said = execute(command, serving, Path(name))
        took_s = time.monotonic() - started_s
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    requests = serving.requests()
    pages, again = fetched_pages(serving.web, requests)
    if len(pages) < budget_pages / 2:
        sys.stderr.write(f"{place.strategy}, {place.topic}: only {len(pages)} pages; it said: {said[-600:]}\n")
    counted = np.array(pages[:budget_pages], "<u4")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    outcomes = {"requests": len(requests), "again": again, "pages": len(pages), "cpu_ms": round(1000 * cpu_s)}
    unjudged = np.zeros(len(counted), "<f4").tobytes()
    return RunRecord(place, key, counted.tobytes(), unjudged, outcomes=outcomes, took_s=took_s, starts=starts)


def execute(command: list[str], serving: Serving, folder: Path) -> str:
    """Run a program to its end, or to the limit; what it complained of."""
    proxy = f"http://{serving.address}"
    path = os.pathsep.join([str(Path(opilio.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "http_proxy": proxy, "PYTHONPATH": path.rstrip(os.pathsep)}
    with (folder / "errors.txt").open("w+b") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True, env=environment, cwd=folder
        )
        ended = ""
        try:
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            ended = f"\nended after {LIMIT_S} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait()
        errors.seek(0)
        return errors.read().decode(errors="replace") + ended


class Comparison:
    """All crawlers on all tasks of the webs that are there."""

    def __init__(self, experiment: Experiment, folder: Path, selection: Selection) -> None:
        self.experiment = experiment
        self.selection = selection
        everyone: list[Crawler] = [*(Own(experiment, one) for one in experiment.strategies), *ALL_PEERS]
        self.missing = sorted({peer.library for peer in ALL_PEERS if not peer.version()})
        self.crawlers = [
            one
            for one in everyone
            if selection("strategy", one.name) and not (isinstance(one, Peer) and one.library in self.missing)
        ]
        folder.mkdir(parents=True, exist_ok=True)
        self.log = RunLog(folder)
        self.webs: list[WebFacts] = []
        self.runs: list[RunRecord] = []
        self.scores: list[ScoreRow] = []

    def add_web(self, name: str) -> None:
        """Make and score all runs of a web."""
        experiment = self.experiment
        loaded = Loaded(experiment, name)
        web = loaded.web
        topics = next(one.topics for one in experiment.webs if one.name == name) or experiment.topics
        labels = [x for x in choose_topics(loaded.maker, topics, experiment.seed) if self.selection("topic", x)]
        budget_pages = experiment.budget.of(web.info.pages)
        self.webs.append(WebFacts(name, web.digest, web.info.pages, web.info.hosts, budget_pages, labels))
        with Serving(web) as serving:
            turn = 0
            for label in labels:
                for repeat in range(experiment.repeats):
                    topic = loaded.maker.topic(label, repeat)
                    for task in filter(lambda one: self.selection("task", one), experiment.tasks):
                        place = RunPlace(name, str(task), label, repeat, "")
                        runs = self._group(topic, place, serving, budget_pages, turn)
                        turn += 1
                        if not any(one.skipped for one in runs):
                            self.runs += runs
                            self.scores += self._scored(loaded, topic, runs)

    def _group(
        self, topic: TaskTopic, place: RunPlace, serving: Serving, budget_pages: int, turn: int
    ) -> list[RunRecord]:
        """The runs of all crawlers for one topic and task; another one begins each time."""
        found: dict[str, RunRecord] = {}
        first = turn % len(self.crawlers)
        for crawler in self.crawlers[first:] + self.crawlers[:first]:
            key = self._key(crawler, place, serving.web, budget_pages)
            if key not in self.log.runs:
                at = msgspec.structs.replace(place, strategy=crawler.name)
                self.log.append(run(crawler, topic, at, key, serving, budget_pages))
            made = found[crawler.name] = self.log.runs[key]
            print(f"{place.web}, {place.task}, {place.topic}: {crawler.name}: {told(made)}", flush=True)
        return [found[crawler.name] for crawler in self.crawlers]

    def _key(self, crawler: Crawler, place: RunPlace, web: RecordedWeb, budget_pages: int) -> str:
        seeds = self.experiment.seed, self.experiment.examples
        matters = (package_digest(), web.digest, budget_pages, seeds, crawler.name, crawler.identity(), place)
        return hashlib.sha256(msgspec.json.encode(matters)).hexdigest()[:32]

    def _scored(self, loaded: Loaded, topic: TaskTopic, runs: list[RunRecord]) -> Iterator[ScoreRow]:
        place = runs[0].place
        where = (place.web, place.task, place.topic, place.repeat)
        everything = np.unique(np.concatenate([one.crawled for one in runs])).astype("<u4").tobytes()
        group = RunGroup(place.web, place.topic, place.repeat, tuple(runs), everything)
        for strategy, measure, point, value in loaded.scorer.score(group, topic):
            yield ScoreRow(*where, strategy, measure, point, value)
        for one in runs:
            pages, cpu_s = one.outcomes["pages"], one.outcomes["cpu_ms"] / 1000
            yield ScoreRow(*where, one.place.strategy, "pages/s", LAST, pages / max(one.took_s, 1e-9))
            yield ScoreRow(*where, one.place.strategy, "pages/CPU-s", LAST, pages / max(cpu_s, 1e-9))

    def results(self, baseline: str = "") -> Results:
        """As `opilio evaluate` has them, with speed as two more columns."""
        experiment = self.experiment
        for name, says in SPEEDS.items():  # known in this program only: an experiment in process has no speed
            MEASURES[name] = Measure(name, Axis.NONE, says, lambda facts: np.zeros(0), decimals=0)
        columns = (*experiment.measures.table, *SPEEDS)
        shown = msgspec.structs.replace(
            experiment,
            webs=tuple(msgspec.structs.replace(web, path=web.name) for web in experiment.webs),
            measures=msgspec.structs.replace(experiment.measures, table=columns),
        )
        names = [one.name for one in self.crawlers]
        wanted = baseline or experiment.baseline
        if baseline and baseline not in names:
            sys.exit(f"--baseline {baseline}: there is no such crawler here; there are: {'; '.join(names)}")
        settings = {one.name: one.identity() if isinstance(one, Own) else one.version() for one in self.crawlers}
        facts = ExperimentFacts(
            shown,
            opilio.__version__,
            commit(),
            wanted if wanted in names else names[0],
            names,
            settings,
            self.webs,
            [str(task) for task in experiment.tasks],
            len(self.runs),
            [],
        )
        return Results(facts, self.runs, self.scores)


@functools.cache
def package_digest() -> str:
    """A digest over all of Opilio's code: over HTTP a run is made by nearly all of it."""
    digest = hashlib.sha256()
    for file in sorted(Path(opilio.__file__).parent.rglob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def told(made: RunRecord) -> str:
    """A run in a few words."""
    return made.skipped or f"{made.outcomes['pages']} pages in {made.took_s:.1f} s, {made.outcomes}"


def figures(summary: ExperimentSummary, missing: list[str]) -> dict[str, object]:
    """The means, for programs."""
    facts = summary.facts
    found: dict[str, object] = {"bench": "compare", "missing": missing, "load": round(os.getloadavg()[1], 2)}
    for web, task in summary.sections:
        for name in facts.strategies:
            means = {column: summary.mean(web, task, name, column) for column in facts.experiment.measures.table}
            found[f"{web}, {task}, {name}"] = {
                column: round(mean.interval.value, 3) for column, mean in means.items() if mean is not None
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", type=Path, nargs="?", default=ROOT / "experiments" / "peers.toml")
    parser.add_argument("--webs", type=Path, help="folder in which the recorded webs are")
    parser.add_argument("--folder", type=Path, default=Path("compared"), help="for the results")
    parser.add_argument("--only", action="append", default=[], metavar="KIND=PATTERN")
    parser.add_argument("--baseline", default="", help="whom the others are compared with; any crawler of the table")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    try:
        experiment = load(options.experiment, options.webs)
        there = [web.name for web in experiment.webs if is_web(Path(web.path))]
        for web in experiment.webs:
            if web.name not in there:
                print(f"{web.name}: no recorded web at {web.path}, left out")
        if options.quick:
            few = msgspec.structs.replace(experiment.topics, count=2)
            budget = msgspec.structs.replace(experiment.budget, pages=100)
            experiment = msgspec.structs.replace(experiment, topics=few, budget=budget, tasks=experiment.tasks[:1])
            there = there[:1]
        selection = Selection.parse(options.only)
        comparison = Comparison(experiment, options.folder, selection)
        for library in comparison.missing:
            print(f"{library}: not installed, left out")
        for name in (name for name in there if selection("web", name)):
            comparison.add_web(name)
        if not comparison.runs:
            sys.exit("nothing was run: no recorded web is there, or no topic is left")
        results = comparison.results(options.baseline)
    except OpilioError as error:
        sys.exit(f"{error.message}\nhint: {error.hint}")
    write(results, options.folder)
    summary = ExperimentSummary(results)
    report = write_report(summary, options.folder)
    print(markdown(summary), f"\n{report}")
    print(json.dumps(figures(summary, comparison.missing)))


if __name__ == "__main__":
    main()
