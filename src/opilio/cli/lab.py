"""`opilio record`, `opilio replay` and `opilio evaluate`: recorded webs, and experiments on them."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from opilio.cli import one_line
from opilio.cli.display import DURATION, show_bytes, show_duration
from opilio.errors import InputError, install_command
from opilio.lab.experiments.experiment import load
from opilio.lab.experiments.listing import RunListing, list_run
from opilio.lab.experiments.plan import Selection
from opilio.lab.experiments.plots import can_plot
from opilio.lab.experiments.report import write_report
from opilio.lab.experiments.results import read
from opilio.lab.experiments.runner import Progress, run_experiment
from opilio.lab.experiments.scores import column_parts
from opilio.lab.experiments.summary import ExperimentSummary, Finding
from opilio.lab.webs import RecordedWeb, Serving
from opilio.lab.webs.sources import FOLDERS, JUDGED
from opilio.lab.webs.sources import record as record_web

LOG_EVERY_S = 5.0
FOLDER = click.Path(path_type=Path, file_okay=False)
_SIGNS = {Finding.BETTER: " ▲", Finding.WORSE: " ▼", Finding.NOT_SHOWN: "  ", Finding.TOO_FEW: "  "}


class _Progress:
    """Progress on standard error: one line that is overwritten on a terminal, otherwise a line every few seconds."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._last_s = time.monotonic()

    def __call__(self, urls: int) -> None:
        if self._is_terminal:
            click.echo(f"\r{urls:,} URLs", nl=False, err=True)
        elif time.monotonic() - self._last_s >= LOG_EVERY_S:
            self._last_s = time.monotonic()
            click.echo(f"{urls:,} URLs", err=True)

    def end(self) -> None:
        """Take the line away."""
        if self._is_terminal:
            click.echo("\r" + " " * 30 + "\r", nl=False, err=True)


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "sources",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    metavar="SOURCE",
    help="A collection, WARC files, JSON lines, a folder of these or of HTML files, a recorded web; may be repeated.",
)
@click.option("--base-url", default="", help="URL of a folder of files that has no urls.tsv.")
@click.option(
    "--labels",
    type=click.Choice([JUDGED, FOLDERS]),
    help="Label pages of a collection by the topics they were assigned to, or HTML files by their folders.",
)
@click.option("--spread-hosts", type=click.IntRange(2), help="Spread the pages of the first host over this many hosts.")
@click.option(
    "--drop", multiple=True, metavar="PATTERN", help="Leave out URLs that match this: */wp/index/*; may be repeated."
)
def record(
    target: Path, sources: tuple[Path, ...], base_url: str, labels: str | None, spread_hosts: int | None,
    drop: tuple[str, ...],
) -> None:  # fmt: skip
    """Make a recorded web in the folder TARGET, on which crawls can be repeated and compared.

    \b
    opilio record web --from birds
    opilio record web --from archive.warc.gz --from more.warc
    opilio record web --from pages/ --base-url http://example.org/
    """
    progress = _Progress()
    try:
        report = record_web(
            target,
            sources,
            base_url=base_url,
            labels=labels or "",
            spread_hosts=spread_hosts or 0,
            drop=drop,
            on_progress=progress,
        )
    finally:
        progress.end()
    for path in report.damaged:
        click.echo(f"warning: {path} is damaged; only the records before the damage were read", err=True)
    for count, what in (
        (report.lost_revisits, "records repeat an answer that is in none of the files"),
        (report.skipped, "answers cannot be replayed (no http URL, no status, or not modified)"),
        (report.dropped, "answers were left out by --drop"),
    ):
        if count:
            click.echo(f"{count:,} {what}", err=True)
    click.echo(_description(report.web))
    click.echo(f"\nServe it:  opilio replay {quote(str(target))}")


def _description(web: RecordedWeb) -> str:
    info = web.info
    return (
        f"{web.folder}: {info.pages:,} pages, {info.redirects:,} redirects and "
        f"{info.urls - info.pages - info.redirects:,} errors on {info.hosts:,} hosts, {info.labels:,} labels, "
        f"{show_bytes(info.body_bytes)} ({show_bytes(info.packed_bytes)} on disk)\n  digest {info.digest}"
    )


@click.command()
@click.argument("web", type=click.Path(path_type=Path))
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8801, help="Port on 127.0.0.1; 0: any free port (default: 8801)."
)
@click.option("--latency", type=DURATION, default=0.0, help="Delay of each response, in seconds.")
@click.option(
    "--latency-spread", type=DURATION, default=0.0, help="Vary the delay by up to this much, depending on the URL."
)
@click.option("--verify", is_flag=True, help="Check the recording against its digest first.")
def replay(web: Path, port: int, latency: float, latency_spread: float, verify: bool) -> None:
    """Serve the recorded web in the folder WEB on loopback, until Ctrl-C."""
    recorded = RecordedWeb.open(web)
    if verify:
        recorded.verify()
    # From here on we wait for Ctrl-C instead of having it raised: the server is always shut down in order.
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with Serving(recorded, port=port, latency_s=latency, latency_spread_s=latency_spread, log=False) as serving:
        click.echo(_description(recorded))
        click.echo(f"Serving at http://{serving.address}/ (Ctrl-C ends). Crawl it with these settings:")
        click.echo(f'  [fetch]\n  connect_to = {{ "*" = "{serving.address}" }}\n  verify_tls = false')
        click.echo("or with any other program through it as a proxy, for example:")
        first = next((n for n in range(len(recorded)) if 200 <= recorded.status(n) < 300), 0)
        click.echo(f"  http_proxy=http://{serving.address}/ wget -O - {recorded.urls[first]}")
        sys.stdout.flush()
        signal.sigwait(signals)
    click.echo("\nThe server has ended.")


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option("--folder", type=FOLDER, help="Folder for runs, results and the report (default: NAME-results).")
@click.option("--webs", type=FOLDER, help="Folder of the recorded webs, if not the one in the file.")
@click.option("--workers", type=click.IntRange(0), default=0, help="Processes (default: one for each core).")
@click.option(
    "--only",
    multiple=True,
    metavar="KIND=PATTERN",
    help="Run only a part: web=, topic=, task= or strategy= with a pattern such as Science*. May be repeated.",
)
@click.option(
    "--show",
    multiple=True,
    metavar="KIND=PATTERN",
    help="Run nothing: list the pages of one run, named by web=, topic=, task=, strategy=, repeat=. May be repeated.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the pages of --show as one JSON object.")
@click.option("--report", type=FOLDER, help="Run nothing: rebuild the report from the results in this folder.")
@click.option("--quiet", "-q", is_flag=True, help="Print only where the report is.")
def evaluate(
    file: Path | None,
    folder: Path | None,
    webs: Path | None,
    workers: int,
    only: tuple[str, ...],
    show: tuple[str, ...],
    as_json: bool,
    report: Path | None,
    quiet: bool,
) -> None:
    """Run the experiment in FILE: compare strategies on recorded webs under equal conditions.

    Every finished run is saved at once. After an interruption, the same command continues where it stopped.

    \b
    opilio evaluate experiments/best-n-first.toml --webs webs --folder out
    opilio evaluate experiments/best-n-first.toml --webs webs --folder out --show strategy=bfs1 --show topic=Birds
    opilio evaluate --report out
    """
    if (file is None) == (report is None):
        raise click.UsageError("give an experiment file, or --report with a folder of results")
    if (show and (only or report is not None)) or (as_json and not show):
        raise click.UsageError("--show goes without --only and --report, and --json only with --show")
    if show and file is not None:
        experiment = load(file, webs)
        listing = list_run(experiment, folder or Path(f"{experiment.name}-results"), show)
        click.echo(
            msgspec.json.format(msgspec.json.encode(listing)).decode() if as_json else "\n".join(_lines(listing))
        )
        return
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
    summary = ExperimentSummary(results)
    path = write_report(summary, folder)
    if not quiet:
        _print_tables(summary)
    if not can_plot():
        click.echo(f"hint: no figures were drawn: {install_command('evaluate')}, then --report", err=True)
    click.echo(path)


def _lines(listing: RunListing) -> Iterator[str]:
    """A run for a terminal: a line for each page, with its reasons and what else was queued below it."""
    found = sum(page.truth == "target" for page in listing.pages)
    yield one_line(f"{listing.web}, {listing.task}, {listing.topic}, repeat {listing.repeat}: {listing.strategy}")
    yield f"{len(listing.pages):,} pages, {found:,} of {listing.targets:,} targets. " + (
        "A real crawl: its record has no priorities."
        if listing.real
        else "Simulated again: the same pages as in the folder."
        if listing.recorded
        else "The folder does not hold this run by this code: simulated for this list only."
    )
    yield ""
    yield f"{'page':>5}  {'truth':7}  {'relevance':>9}  {'priority':>9}  title, host"
    for page in listing.pages:
        priority = f"{page.priority:9.3f}" if page.priority is not None else f"{'-':>9}"
        name = one_line(page.title) or page.url
        yield f"{page.place:5}  {page.truth:7}  {page.relevance:9.2f}  {priority}  {name[:70]}, {page.host}"
        if page.parts:
            yield " " * 10 + "made of: " + ", ".join(f"{name} {value:+.2f}" for name, value in page.parts.items())
        for other in page.queued:
            truth, title = other.truth or "not a target", one_line(other.title)[:50] or "no page"
            yield f"{'':10}queued: {other.priority:.3f}, {truth}: {title} <{other.url}>"


class _Display:
    """Progress: bars on a terminal, otherwise a line every few seconds."""

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
    """The estimated time for the rest of a stage; '' when it is unknown."""
    made, missing = progress.done - progress.already, progress.of - progress.done
    return f"{show_duration(elapsed_s / made * missing)} left" if made > 0 and missing else ""


def _print_tables(summary: ExperimentSummary) -> None:
    """The means, with signs for significant differences."""
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
        Text(f"▲ better, ▼ worse than {one_line(summary.facts.baseline)}, if significant; the report has intervals.")
    )
    for one in summary.facts.skipped:
        console.print(Text(one_line(f"left out: {one.web}, {one.task}, {one.topic}: {one.why}")), style="dim")
