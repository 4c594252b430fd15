"""`opilio publish`: the portal as files."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click

from opilio.crawl import Collection

TOLD_EVERY_S = 2.0


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--pages-per-topic", type=click.IntRange(1, 1000), default=100, show_default=True,
              help="How many pages of each topic, the best first.")  # fmt: skip
@click.option("--name", default="", help="What the site is called; by default as FOLDER is.")
@click.option("--json", "as_json", is_flag=True, help="Tell what was written as one JSON object.")
def publish(folder: Path, target: Path, pages_per_topic: int, name: str, as_json: bool) -> None:
    """Write the portal of FOLDER to the new folder TARGET, as a site that needs no server.

    It has the topics, their best pages with text and the reasons for their judgement, hubs and authorities, and a
    search over titles, addresses and topics. Open TARGET/index.html, or copy TARGET to any web host. What TARGET holds
    from the last time is replaced in one step; a folder that was not made by this command is never touched. The texts
    of pages belong to their authors: publish for others only what you may.

    \b
    opilio publish birds site
    opilio publish birds site --pages-per-topic 20 --name "Birds of the north"
    """
    from opilio.web.publishing import publish as write_site  # noqa: PLC0415

    shown_name = name or folder.absolute().name
    progress = _Progress()
    written = write_site(
        Collection(folder), target, name=shown_name, pages_per_topic=pages_per_topic, progress=progress.tell
    )
    if as_json:
        click.echo(json.dumps({"index": str(target.absolute() / "index.html"), **written}))
    else:
        click.echo(f"{written['topics']:,} topics and {written['pages']:,} pages: {target / 'index.html'}")


class _Progress:
    """A line on standard error every few seconds, in place on a terminal."""

    def __init__(self) -> None:
        self._told_s = time.monotonic()
        self._on_terminal = sys.stderr.isatty()

    def tell(self, done: int, total: int) -> None:
        """Say how far it is, when the last time is long enough ago."""
        if time.monotonic() - self._told_s >= TOLD_EVERY_S or (done == total and self._on_terminal):
            self._told_s = time.monotonic()
            click.echo(f"{done:,} of {total:,} written", err=True, nl=not self._on_terminal or done == total)
            if self._on_terminal and done < total:
                click.echo("\r", err=True, nl=False)
