"""`opilio sift`: judge archives of other crawls, and keep the pages on topic."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path
from shlex import quote
from typing import Any

import click

from opilio.cli import one_line
from opilio.cluster.sifting import sift_on_ray
from opilio.cluster.workers import check_ray
from opilio.crawl import Collection
from opilio.errors import CollectionError, InputError
from opilio.parts.beginning import begin_like
from opilio.process import INTERRUPTED
from opilio.sift import SiftReport
from opilio.sift.pool import LOCAL
from opilio.store.connection import FILE_NAME as DATABASE_NAME

TOLD_S = 10.0
"""Between two lines when output is not a terminal."""
SHOWN_PROBLEMS = 10


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--model", type=click.IntRange(1), help="Judge by this version of the model; the newest by default.")
@click.option(
    "--model-from", type=click.Path(path_type=Path, file_okay=False), metavar="FOLDER",
    help="Make FOLDER, which must not exist yet, with the topics, examples and models of another collection.",
)  # fmt: skip
@click.option("--examples", type=click.Path(path_type=Path), help="For a new collection: files or URLs to learn from.")
@click.option("--topics", type=click.Path(path_type=Path), help="For a new collection: a taxonomy (YAML or TOML).")
@click.option("--query", default="", help="For a new collection: words that describe the pages you want.")
@click.option("--keep-off-topic", is_flag=True, help="Store the pages off topic as well; by default they are counted.")
@click.option("--max-pages", type=click.IntRange(0), default=0, help="Stop when so many pages were stored.")
@click.option("--workers", type=click.IntRange(0), default=0, help="Worker processes; 0: one for each CPU.")
@click.option(
    "--ray", "ray_address", metavar="ADDRESS",
    help="Run the workers on a Ray cluster: HOST:PORT of its head, or auto for the one this machine belongs to.",
)  # fmt: skip
@click.option("--quiet", "-q", is_flag=True, help="Print only the summary.")
@click.option("--json", "as_json", is_flag=True, help="Print progress and the summary as JSON lines.")
def sift(
    folder: Path, sources: tuple[str, ...], model: int | None, model_from: Path | None, examples: Path | None,
    topics: Path | None, query: str, keep_off_topic: bool, max_pages: int, workers: int, ray_address: str | None,
    quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Judge the pages of archives that others crawled, and store those on topic in the collection FOLDER.

    A SOURCE is a WARC, WET or WACZ file, a folder of them, a pattern, or an address that fsspec knows (s3://...). It
    may also be a text file with a URL on each line: these are fetched by a polite crawl first. Nothing else is fetched.

    Pages are judged by the collection's model; when it has none, one is trained from its examples. A page on topic is
    stored as if it had been crawled: text, links, judgement, and a copy of its WARC record. `opilio explain` says which
    archive it came from. Run the same command again after Ctrl-C, a crash or kill -9: it goes on where it stopped.

    \b
    opilio sift birds crawl-00001.warc.gz
    opilio sift birds archives/ 'more/*.wacz' urls.txt
    opilio sift owls --model-from birds s3://bucket/path/segment.warc.gz
    opilio sift owls --examples owls.txt --workers 8 wet/*.wet.gz
    opilio sift birds archives/ --ray 127.0.0.1:6379
    """
    from opilio.sift import sift as run  # noqa: PLC0415  (it takes a while to import)

    if ray_address is not None:
        check_ray("sifting")
    collection = _open_or_create(folder, {"examples": examples, "topics": topics}, query, model_from)
    program = sift_on_ray(ray_address, workers) if ray_address is not None else LOCAL
    progress = SiftProgressLine(quiet=quiet, as_json=as_json)
    report = run(
        collection, sources, model=model or 0, keep_off_topic=keep_off_topic, max_pages=max_pages, workers=workers,
        program=program, on_tick=progress.tick,
    )  # fmt: skip
    progress.end()
    if as_json:
        click.echo(json.dumps({"event": "end", **dataclasses.asdict(report)}))
    else:
        _show(folder, report)
    if report.reason.startswith("interrupted"):
        sys.exit(INTERRUPTED)


def _open_or_create(folder: Path, inputs: dict[str, Path | None], query: str, model_from: Path | None) -> Collection:
    given: dict[str, Any] = {name: path for name, path in inputs.items() if path is not None}
    if (folder / DATABASE_NAME).exists():
        if given or query or model_from is not None:
            raise InputError(
                f"{folder}: --examples, --topics, --query and --model-from are for a new collection",
                f"Leave them out, or add examples: opilio topics add {quote(str(folder))} TOPIC FILE.",
            )
        return Collection(folder)
    if model_from is not None:
        if given or query:
            raise InputError(
                "--model-from brings topics and examples with it", "Leave out --examples, --topics and --query."
            )
        return begin_like(folder, model_from)
    if not given and not query:
        raise CollectionError(
            f"{folder}: no collection there, and nothing to judge by",
            "Give --model-from COLLECTION, --examples FILE, --topics FILE or --query WORDS; or crawl first.",
        )
    return Collection.create(folder, **given, query=query, needs_seeds=False)


class SiftProgressLine:
    """How far it is: a line in place on a terminal, a line now and then elsewhere."""

    def __init__(self, *, quiet: bool, as_json: bool) -> None:
        self._quiet, self._as_json = quiet, as_json
        self._on_terminal = sys.stderr.isatty()
        self._told_s = 0.0 if self._on_terminal else time.monotonic()
        self._has_line = False

    def tick(self, report: SiftReport) -> None:
        """Say how far it is."""
        now_s = time.monotonic()
        if self._quiet or (not self._on_terminal and now_s - self._told_s < TOLD_S):
            return
        self._told_s = now_s
        if self._as_json:
            click.echo(json.dumps({"event": "progress", **dataclasses.asdict(report)}))
            return
        share = f"{report.share:.1%}" if report.share is not None else "-"
        line = (
            f"{report.done:,} of {report.archives:,} archives  {report.judged:,} pages judged  "
            f"{report.pages_per_s:,.0f}/s  on topic {report.on_topic:,} ({share})  stored {report.stored:,}"
        )
        self._has_line = self._on_terminal
        click.echo(f"\r{line:<100}" if self._on_terminal else line, err=True, nl=not self._on_terminal)

    def end(self) -> None:
        """Leave the line."""
        if self._has_line:
            click.echo(err=True)


def _show(folder: Path, report: SiftReport) -> None:
    share = f" ({report.share:.1%})" if report.share is not None else ""
    click.echo(f"{report.reason}: {report.done:,} of {report.archives:,} archives")
    click.echo(
        f"judged {report.judged:,} pages in {report.elapsed_s:,.1f} s ({report.pages_per_s:,.0f}/s), by model "
        f"{report.model_version or '0 (the words of the topics)'}"
    )
    click.echo(f"on topic {report.on_topic:,}{share}: stored {report.stored:,}")
    for count, text in (
        (report.there_already, "of them were there already"),
        (report.duplicates, "repeat a page under another address"),
        (report.rejected, "are rejected by a filter of the collection"),
    ):
        if count:
            click.echo(f"  {count:,} {text}")
    if report.left_out:
        click.echo("left out: " + ", ".join(f"{name} {count:,}" for name, count in report.left_out.items()))
    if report.damaged:
        click.echo(f"damaged places: {report.damaged:,}")
    for problem in report.problems[:SHOWN_PROBLEMS]:
        click.echo(f"  {one_line(problem)}")
    if len(report.problems) > SHOWN_PROBLEMS:
        click.echo(f"  and more: --json lists {len(report.problems):,}")
    if report.stored:
        place = quote(str(folder))
        click.echo(f"\nLook:  opilio serve {place}    (the portal, in a browser)\n       opilio search {place} WORDS")
