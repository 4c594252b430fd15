"""`opilio verify` and `opilio repair`."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from shlex import quote

import click

from opilio.cli import one_line
from opilio.cli.parts import ProgressLine
from opilio.crawl.verification import Verification


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print what was checked as JSON.")
def verify(folder: Path, as_json: bool) -> None:
    """Check whether the files of the collection FOLDER are intact and agree with each other.

    Every block of the database is read, every WARC record is compared with its digest, and every file of the search
    index with its checksum. Rows must refer to rows that exist, counters must equal tables, each page must have its
    WARC record, and the index must have each page. Nothing is changed. While a crawl runs, some of this cannot be
    checked.

    The exit code is 1 if anything is wrong. `opilio repair` mends it.

    \b
    opilio verify birds
    opilio verify birds --json
    """
    from opilio.crawl.verification import verify as check  # noqa: PLC0415  (it takes a while to import)

    report = check(folder, ProgressLine().tell)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(report)))
    else:
        _show(report)
        if report.defects:
            click.echo(f"\nRepair it: opilio repair {quote(str(folder))}")
    if report.defects:
        sys.exit(1)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def repair(folder: Path, as_json: bool) -> None:
    """Make the collection FOLDER sound again, from what its database, its WARC files and its index still have.

    A database that is missing or cannot be read is made again: pages from the WARC files, topics, examples and models
    from what is left of the old database. Nothing is fetched, and nothing is deleted: damaged files are moved to a
    folder `damaged-TIME` in FOLDER. What is lost is listed. No crawl may be running.

    The exit code is 1 if a verification still finds something wrong afterwards.

    \b
    opilio repair birds
    """
    from opilio.crawl.repair import repair as mend  # noqa: PLC0415  (it takes a while to import)

    report = mend(folder, ProgressLine().tell)
    after = report.after
    assert after is not None
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(report)))
    else:
        for line in report.done or ["nothing had to be repaired"]:
            click.echo(f"done: {one_line(line)}")
        for line in report.lost:
            click.echo(f"lost: {one_line(line)}")
        if report.kept:
            click.echo(f"kept: the damaged files are in {report.kept}")
        if any("topics" in line for line in report.lost):
            click.echo(f"next: give your topics again: opilio crawl {quote(str(folder))} --bookmarks FILE")
        if after.defects:
            _show(after)
    if after.defects:
        sys.exit(1)


def _show(report: Verification) -> None:
    """One line for each check, and what it found."""
    for check in report.checks:
        word = "WRONG" if check.count else "not checked" if check.unchecked else "ok"
        why = f" ({check.unchecked})" if check.unchecked else ""
        click.echo(f"{word:11}  {one_line(check.name + why)}")
        for defect in filter(None, check.defects):
            click.echo(f"{'':13}{one_line(defect)}")
        if check.count > len(check.defects) > 1:
            click.echo(f"{'':13}and {check.count - len(check.defects):,} more")
    for note in report.notes:
        click.echo(f"{'note':11}  {one_line(note)}")
