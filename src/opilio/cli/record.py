"""`opilio record` and `opilio replay`: webs that answer the same every time, for experiments."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import click

from opilio.cli.units import DURATION, show_bytes
from opilio.evaluate import RecordedWeb, Serving
from opilio.evaluate.sources import FOLDERS, JUDGED
from opilio.evaluate.sources import record as record_web

LOG_EVERY_S = 5.0


class _Progress:
    """One line that is written over on a terminal, else a line every few seconds; on standard error."""

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
@click.option("--base-url", default="", help="Where the files of a folder stand that has no urls.tsv.")
@click.option(
    "--labels",
    type=click.Choice([JUDGED, FOLDERS]),
    help="Label pages of a collection by the topics they were judged to be of, or HTML files by their folders.",
)
@click.option("--spread-hosts", type=click.IntRange(2), help="Spread the pages of the first host over so many hosts.")
@click.option(
    "--drop", multiple=True, metavar="PATTERN", help="Leave out URLs like this: */wp/index/*; may be repeated."
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
        click.echo(f"warning: {path} is damaged; what stands before the damage was taken", err=True)
    for count, what in (
        (report.lost_revisits, "records repeat an answer that is in none of the files"),
        (report.skipped, "answers cannot be replayed (no http URL, no status, or not modified)"),
        (report.dropped, "answers were left out by --drop"),
    ):
        if count:
            click.echo(f"{count:,} {what}", err=True)
    click.echo(_description(report.web))
    click.echo(f"\nServe it:  opilio replay {target}")


def _description(web: RecordedWeb) -> str:
    info = web.info
    return (
        f"{web.folder}: {info.pages:,} pages, {info.redirects:,} redirects and "
        f"{info.urls - info.pages - info.redirects:,} errors on {info.hosts:,} hosts, {info.labels:,} labels, "
        f"{show_bytes(info.body_bytes)} ({show_bytes(info.packed_bytes)} on disk)\n  digest {info.digest}"
    )


@click.command()
@click.argument("web", type=click.Path(path_type=Path))
@click.option("--port", type=click.IntRange(0, 65_535), default=8801, help="On 127.0.0.1; 0: any free one (8801).")
@click.option("--latency", type=DURATION, default=0.0, help="Seconds that each answer takes.")
@click.option("--latency-spread", type=DURATION, default=0.0, help="Give or take up to so much, by URL.")
@click.option("--verify", is_flag=True, help="Read all of it first, and compare it with its digest.")
def replay(web: Path, port: int, latency: float, latency_spread: float, verify: bool) -> None:
    """Serve the recorded web in the folder WEB on loopback, until Ctrl-C."""
    recorded = RecordedWeb.open(web)
    if verify:
        recorded.verify()
    # From here on Ctrl-C is waited for, not raised: the server is always shut down in order.
    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with Serving(recorded, port=port, latency_s=latency, latency_spread_s=latency_spread, log=False) as serving:
        click.echo(_description(recorded))
        click.echo(f"Serving at http://{serving.address}/ (Ctrl-C ends). Crawl it by these settings:")
        click.echo(f'  [fetch]\n  connect_to = {{ "*" = "{serving.address}" }}\n  verify_tls = false')
        click.echo("or with any other program through it as a proxy, for example:")
        first = next((n for n in range(len(recorded)) if 200 <= recorded.status(n) < 300), 0)
        click.echo(f"  http_proxy=http://{serving.address}/ wget -O - {recorded.urls[first]}")
        sys.stdout.flush()
        signal.sigwait(signals)
    click.echo("\nThe recorded web is gone.")
