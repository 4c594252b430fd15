"""`opilio split`, `opilio merge` and `opilio shared`."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click

from opilio.cli import one_line
from opilio.cli.tables import print_table
from opilio.parts.shared import SharedReport
from opilio.parts.split import PartReport

TOLD_EVERY_S = 2.0
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the counts of each collection as JSON.")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC",
    help="Make a part of this topic and all below it; may be repeated. Default: the wanted topics below the root.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show the counts of each part; write nothing.")
@AS_JSON
def split(folder: Path, target: Path, topics: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Split the collection FOLDER by topic: one new collection for each topic, in the new folder TARGET.

    A part has the pages and queued URLs of its topic with everything known about them, and the topics, examples and
    models of the whole; only its own topic is wanted there. Everything else goes to the part `rest`. FOLDER does not
    change. WARC files are linked, not copied, if TARGET is on the same disk.

    \b
    opilio split birds parts --dry-run
    opilio split birds parts
    opilio split birds parts --topic "Birds / Owls" --topic "Birds / Ducks"
    opilio serve parts
    opilio crawl parts/Birds-Owls
    """
    from opilio.parts.split import split as divide  # noqa: PLC0415

    reports = divide(folder, target, topics, dry_run=dry_run, on_progress=ProgressLine().tell)
    if as_json:
        click.echo(json.dumps({"dry_run": dry_run, "parts": [dataclasses.asdict(report) for report in reports]}))
        return
    _show(reports, all_figures=not dry_run)
    if dry_run:
        click.echo("nothing was written (--dry-run)")
    else:
        place = shlex.quote(str(target))
        click.echo(f"browse all of them: opilio serve {place}; merge them again: opilio merge TARGET {place}/*")


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...",
                type=click.Path(path_type=Path, file_okay=False))  # fmt: skip
@click.option("--train", is_flag=True, help="Train a model at once; otherwise the next crawl does if needed.")
@AS_JSON
def merge(target: Path, folders: tuple[Path, ...], train: bool, as_json: bool) -> None:
    """Merge two or more collections into the new folder TARGET: parts of one, or any others.

    If several collections have the same URL, fetched takes precedence over failed, queued and dropped; of a page, the
    latest version is taken. Topics with the same path become one, which is wanted if one of the collections wants
    it. The settings are those of the first collection. The collections themselves do not change.

    \b
    opilio merge birds-again parts/Owls parts/Ducks parts/rest
    opilio merge animals birds insects --train
    """
    from opilio.parts.merge import merge as join  # noqa: PLC0415

    report = join(target, folders, train=train, on_progress=ProgressLine().tell)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(report)))
        return
    _show([*report.sources, report.made], all_figures=True)
    for note in report.notes:
        click.echo(f"note: {one_line(note)}")
    if report.trained:
        click.echo(f"model {report.trained} trained")
    click.echo(f"made: {target}")


def _show(reports: Sequence[PartReport], *, all_figures: bool) -> None:
    figures = ["pages", "urls", "waiting"] + (["elsewhere", "links", "warc_files"] if all_figures else [])
    has_topics = any(report.topic for report in reports)
    right = [name.replace("_", " ") for name in figures]
    rows = []
    for report in reports:
        topic = [one_line(report.topic) or "(all others)"] if has_topics else []
        rows.append([one_line(report.name), *topic, *(f"{getattr(report, name):,}" for name in figures)])
    print_table(["collection", *(["topic"] if has_topics else []), *right], rows, right=right)


@click.command()
@click.argument("first", type=click.Path(path_type=Path, file_okay=False))
@click.argument("second", type=click.Path(path_type=Path, file_okay=False))
@click.option("--relevant", is_flag=True, help="Only pages that are relevant in both.")
@click.option(
    "--limit", type=click.IntRange(0), default=20, show_default=True, help="How many pages are listed; 0: all."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all pages.")
def shared(first: Path, second: Path, relevant: bool, limit: int, as_json: bool) -> None:
    """List the pages that the collections FIRST and SECOND share: the same address, or the same text.

    \b
    opilio shared algorithms languages
    opilio shared algorithms languages --relevant --limit 0
    opilio shared algorithms languages --json
    """
    from opilio.parts.shared import shared_pages  # noqa: PLC0415

    report = shared_pages(first, second)
    pages = report.shared_relevant if relevant else report.shared
    if as_json:
        figures = {
            "pages": report.pages, "relevant": report.relevant, "shared": len(report.shared),
            "shared_relevant": len(report.shared_relevant), "same_text": report.same_text, "hosts": report.hosts,
        }  # fmt: skip
        click.echo(json.dumps({**figures, "list": [page._asdict() for page in pages]}))
        return
    for folder, count, found in zip((first, second), report.pages, report.relevant, strict=True):
        click.echo(f"{folder}: {count:,} pages, {found:,} of them relevant")
    both = f"{len(report.shared_relevant):,} relevant in both ({_share(report)})"
    click.echo(f"shared: {len(report.shared):,} pages, {both}, {report.same_text:,} by their text alone")
    click.echo(f"hosts with pages in both: {len(report.hosts):,}")
    for page in pages[: limit or None]:
        mark = "relevant in both" if page.relevant and page.other_relevant else "shared"
        other = f" = {one_line(page.other_url)}" if page.other_url != page.url else ""
        click.echo(f"  {mark}: {one_line(page.title) or '(no title)'}\n    {one_line(page.url)}{other}")
    if 0 < limit < len(pages):
        click.echo(f"  and {len(pages) - limit:,} more: --limit 0 lists all")


def _share(report: SharedReport) -> str:
    """The share of relevant pages of each collection that the other has."""
    shares = [len(report.shared_relevant) / max(1, relevant) for relevant in report.relevant]
    return " and ".join(f"{share:.1%}" for share in shares) + " of the relevant ones"


class ProgressLine:
    """A line on standard error every few seconds, in place on a terminal."""

    def __init__(self) -> None:
        self._told_s = time.monotonic()
        self._on_terminal = sys.stderr.isatty()
        self._has_told = False

    def tell(self, doing: str, done: int, steps: int) -> None:
        """Say how far it is, when the last time is long enough ago."""
        is_last = done >= steps and self._has_told and self._on_terminal
        if time.monotonic() - self._told_s < TOLD_EVERY_S and not is_last:
            return
        self._told_s, self._has_told = time.monotonic(), True
        said = f"{100 * done // max(steps, 1):3} % {one_line(doing)}"
        click.echo(f"\r{said:70}" if self._on_terminal else said, err=True, nl=not self._on_terminal or is_last)
