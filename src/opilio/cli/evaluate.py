"""`opilio evaluate`: strategies on recorded webs, from a file to a report."""

from __future__ import annotations

import time
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from opilio.cli import one_line
from opilio.cli.units import show_duration
from opilio.errors import InputError
from opilio.evaluate.experiment import load
from opilio.evaluate.plan import Selection
from opilio.evaluate.plots import can_plot
from opilio.evaluate.report import write_report
from opilio.evaluate.results import read
from opilio.evaluate.runner import Progress, run_experiment
from opilio.evaluate.scores import column_parts
from opilio.evaluate.summary import Finding, Summary

FOLDER = click.Path(path_type=Path, file_okay=False)
LOG_EVERY_S = 5.0
_SIGNS = {Finding.BETTER: " ▲", Finding.WORSE: " ▼", Finding.NOT_SHOWN: "  ", Finding.TOO_FEW: "  "}


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option("--folder", type=FOLDER, help="Where runs, results and the report go (default: NAME-results).")
@click.option("--webs", type=FOLDER, help="Where the recorded webs are, if not where the file says.")
@click.option("--workers", type=click.IntRange(0), default=0, help="Processes (default: one for each core).")
@click.option(
    "--only",
    multiple=True,
    metavar="KIND=PATTERN",
    help="Run a part: web=, topic=, task= or strategy= with a pattern such as Science*. May be repeated.",
)
@click.option("--report", type=FOLDER, help="Run nothing: make the report of this folder's results anew.")
@click.option("--quiet", "-q", is_flag=True, help="Print only where the report is.")
def evaluate(
    file: Path | None,
    folder: Path | None,
    webs: Path | None,
    workers: int,
    only: tuple[str, ...],
    report: Path | None,
    quiet: bool,
) -> None:
    """Run the experiment in FILE: any strategies, on recorded webs, on equal terms.

    Every finished run is kept at once. Stopped, it goes on where it was when it is called again.

    \b
    opilio evaluate experiments/best-n-first.toml --webs webs --folder out
    opilio evaluate --report out
    """
    if (file is None) == (report is None):
        raise click.UsageError("give an experiment file, or --report with a folder of results")
    if report is not None:
        folder, results = report, read(report)
    elif file is not None:
        selection = Selection.parse(only)
        experiment = load(file, webs)
        folder = folder or Path(f"{experiment.name}-results")
        with _Display(quiet=quiet) as display:
            results = run_experiment(experiment, folder, workers=workers, selection=selection, on_progress=display.show)
    assert folder is not None
    if not results.scores:
        raise InputError(
            "no topic could be run by all strategies", f"{folder / 'results.json'} says why, topic by topic."
        )
    summary = Summary(results)
    path = write_report(summary, folder)
    if not quiet:
        _print_tables(summary)
    if not can_plot():
        click.echo("hint: no figures were drawn: pip install 'opilio[evaluate]', then --report", err=True)
    click.echo(path)


class _Display:
    """Progress: bars on a terminal, a line every few seconds elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        console = Console(stderr=True)
        self._quiet = quiet
        self._bars: Bars | None = None
        if console.is_terminal and not quiet:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bars = Bars(*columns, TextColumn("{task.fields[left]}"), console=console, transient=True)
        self._tasks: dict[str, tuple[int, float]] = {}
        self._last_s = 0.0

    def __enter__(self) -> _Display:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bars away."""
        if self._bars is not None:
            self._bars.stop()

    def show(self, progress: Progress) -> None:
        """How far it is, and how long it will take."""
        now_s = time.monotonic()
        if progress.stage not in self._tasks:
            task = self._bars.add_task(progress.stage, left="") if self._bars is not None else 0
            self._tasks[progress.stage] = task, now_s
            self._last_s = now_s
        task, since_s = self._tasks[progress.stage]
        left = time_left(progress, now_s - since_s)
        if self._bars is not None:
            self._bars.update(task, completed=progress.done, total=progress.of, left=left)  # type: ignore[arg-type]
        elif not self._quiet and (now_s - self._last_s >= LOG_EVERY_S or progress.done == progress.of):
            self._last_s = now_s
            found = f" ({progress.already:,} found in the folder)" if progress.already else ""
            click.echo(f"{progress.stage} {progress.done:,} of {progress.of:,}{found}{left and ', ' + left}", err=True)


def time_left(progress: Progress, elapsed_s: float) -> str:
    """How long the rest of a stage will take, by what was done in this call; '' when that is not known."""
    made, missing = progress.done - progress.already, progress.of - progress.done
    return f"{show_duration(elapsed_s / made * missing)} left" if made > 0 and missing else ""


def _print_tables(summary: Summary) -> None:
    """The means, with signs for what was shown."""
    console = Console()
    for web, task in summary.sections:
        table = Table(
            title=Text(one_line(f"{web}, {task}"), style="bold"), box=None, pad_edge=False, title_justify="left"
        )
        table.add_column("strategy")
        columns = summary.facts.experiment.measures.table
        for column in columns:
            table.add_column(column, justify="right")
        for strategy in summary.facts.strategies:
            cells = []
            for column in columns:
                mean, verdict = (
                    summary.mean(web, task, strategy, column),
                    summary.verdicts(web, task, column).get(strategy),
                )
                sign = _SIGNS[verdict.finding] if verdict is not None else "  "
                cells.append(
                    "-" if mean is None else f"{mean.interval.value:.{column_parts(column)[0].decimals}f}{sign}"
                )
            table.add_row(Text(one_line(strategy)), *cells)
        console.print(table)
        console.print()
    console.print(
        Text(f"▲ better, ▼ worse than {one_line(summary.facts.baseline)}, as far as shown; the report has intervals.")
    )
    for one in summary.facts.skipped:
        console.print(Text(one_line(f"left out: {one.web}, {one.task}, {one.topic}: {one.why}")), style="dim")
