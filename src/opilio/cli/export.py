"""Export: a collection in the form that other programs read."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from opilio.cli.operations import type_of
from opilio.crawl import Collection
from opilio.crawl.operations import database
from opilio.errors import CollectionBusy
from opilio.export import FOLDERS, FORMATS
from opilio.store.export import STDOUT

_ABOUT = database.export.about
TOLD_EVERY_S = 2.0


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("target", type=str)
@click.option("--format", "form", type=click.Choice(FORMATS), help="By default as the ending of TARGET says.")
@click.option("--where", help=_ABOUT["where"].description)
@click.option("--keep", default="", metavar="CONDITION", help=_ABOUT["keep"].description)
@click.option("--respect-rights/--ignore-rights", default=None, help=_ABOUT["respect_rights"].description)
@click.option("--columns", default="", metavar="NAME,...", help=_ABOUT["columns"].description)
@click.option("--split", default="", metavar="SHARES", help=_ABOUT["split"].description)
@click.option(
    "--chunk-words", type=type_of(int, _ABOUT["chunk_words"]), default=0, help=_ABOUT["chunk_words"].description
)
@click.option(
    "--overlap-words", type=click.IntRange(0), default=None,
    help=_ABOUT["overlap_words"].description,
)  # fmt: skip
def export(folder: Path, target: str, form: str | None, columns: str, **options: Any) -> None:
    """Write the pages of FOLDER to TARGET, in the format that its ending or --format says.

    \b
    a table          pages.jsonl  pages.csv  pages.parquet       all pages
    to train         --format dataset: a folder of Parquet       relevant pages
    to retrieve      --format rag: JSON Lines, with --chunk-words
    to read          --format markdown: a folder of .md files
    feed readers     topics.opml  new.rss  new.atom
    browsers         pages.html: a bookmark file
    link analysis    links.graphml  --format graph: Parquet      all pages
    web archives     birds.wacz: all responses                   everything

    `-` writes to standard output. Nothing appears at TARGET until all is written. docs/guides/exporting.md has the
    columns and what they mean.

    \b
    opilio export birds pages.parquet --where "relevance > 0.2 AND language = 'en'"
    opilio export birds corpus --format dataset --keep usual
    opilio export birds chunks.jsonl --format rag --chunk-words 300
    opilio export birds notes --format markdown
    """
    named = [name.strip() for name in columns.split(",") if name.strip()]
    form = form or ("jsonl" if target == STDOUT else "")
    collection = Collection(folder)

    def write(place: str | Path) -> int:
        return collection.export(place, form, columns=named, **options)

    from opilio.export.formats import watching  # noqa: PLC0415  # it takes a while to import

    progress = _Progress()
    with watching(progress.tell):
        try:
            count = write(target)
        except CollectionBusy:
            if target != STDOUT or form in FOLDERS:
                raise
            count = _through_a_file(write)
    progress.end()
    if progress.left_out:
        click.echo(
            f"{progress.left_out:,} pages left out: they reserve their use (--ignore-rights takes them)", err=True
        )
    click.echo(f"{count:,} pages written to {target}", err=True)


def _through_a_file(write: Callable[[Path], int]) -> int:
    """To standard output, while a crawl runs: its process cannot write to ours."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pages"
        count = write(file)
        with file.open("rb") as pages:
            shutil.copyfileobj(pages, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    return count


class _Progress:
    """A line on standard error every few seconds, in place on a terminal."""

    def __init__(self) -> None:
        self._told_s = time.monotonic()
        self._on_terminal = sys.stderr.isatty()
        self._open = False
        self.left_out = 0

    def tell(self, done: int, total: int, left_out: int) -> None:
        """Say how far it is, when the last time is long enough ago."""
        self.left_out = left_out
        if time.monotonic() - self._told_s >= TOLD_EVERY_S:
            self._told_s = time.monotonic()
            start = "\r" if self._on_terminal else ""
            click.echo(f"{start}{done:,} of {total:,} pages", err=True, nl=not self._on_terminal)
            self._open = self._on_terminal

    def end(self) -> None:
        """Leave the line that was written in place."""
        if self._open:
            click.echo("\r\033[K", err=True, nl=False)
