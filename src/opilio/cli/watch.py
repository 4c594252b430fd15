"""`opilio watch` and `opilio changes`: standing collections, and what has changed in them."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from pathlib import Path
from typing import Any

import click

from opilio.cli import one_line
from opilio.cli.display import DURATION, show_duration
from opilio.cli.operations import Called, operation_command
from opilio.crawl.operations import browse


@operation_command(browse.changes, options={"all_pages": "all"})
def changes(called: Called, report: dict[str, Any]) -> None:
    """Show which pages of FOLDER are new, changed and gone since a time, the best first.

    New pages were stored since then. Changed ones were known before, and a later visit found another text. Gone ones
    were moved, removed or closed when they were visited last; one that could not be reached is not gone. Pages are
    visited again by `opilio watch`, `opilio crawl --keep-fresh` and `opilio crawl --recrawl`.

    \b
    opilio changes birds
    opilio changes birds --since 7d --limit 20
    opilio changes birds --since 2026-11-18T06:00:00Z --all --json
    """
    from opilio.standing.reports import digest_text  # noqa: PLC0415

    click.echo(digest_text(called.folder.resolve().name, report), nl=False)


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...",
                type=click.Path(path_type=Path, file_okay=False))  # fmt: skip
@click.option("--every", type=DURATION, default=None, help="Time from one round to the next: 6h, 1d. "
              "By default when the next page is due, between 10 minutes and a day.")  # fmt: skip
@click.option("--once", is_flag=True, help="One round, then end: for cron and systemd timers.")
@click.option("--max-time", type=DURATION, default=900.0, help="Longest time of a round in a collection: 15m.")
@click.option(
    "--new-pages", type=click.IntRange(1), default=100, show_default=True,
    help="Fetch at most so many pages in a round that were not stored before.",
)  # fmt: skip
@click.option("--feed", default="", metavar="FILE", help="Write a feed of 30 days: .rss, .xml (RSS) or .atom.")
@click.option("--digest", default="", metavar="FILE", help="Write what changed: .txt, .html or .eml; - prints it.")
@click.option(
    "--digest-command", default="", metavar="COMMAND",
    help='Give what changed to a command, as an e-mail: "sendmail -t". No shell is used.',
)  # fmt: skip
@click.option("--mail-to", default="", metavar="ADDRESS", help="To whom the e-mail goes.")
@click.option("--mail-from", default="", metavar="ADDRESS", help="From whom it comes.")
@click.option(
    "--webhook", "webhooks", multiple=True, metavar="URL",
    help="POST what changed as JSON, signed with the secret in OPILIO_WEBHOOK_SECRET; may be repeated.",
)  # fmt: skip
@click.option("--allow-private", is_flag=True, help="Webhooks may be at private addresses, such as 127.0.0.1.")
@click.option("--json", "as_json", is_flag=True, help="Print what came of each round as a line of JSON.")
def watch(
    folders: tuple[Path, ...], every: float | None, once: bool, max_time: float, new_pages: int, feed: str, digest: str,
    digest_command: str, mail_to: str, mail_from: str, webhooks: tuple[str, ...], allow_private: bool, as_json: bool,
) -> None:  # fmt: skip
    """Keep the collections FOLDER... fresh, one after the other, and report what is new, changed and gone.

    A round visits the stored pages that are due: those that change often are due sooner, good hubs come first
    (settings revisit.*). Then it follows new links, up to --new-pages. A feed, a digest and webhooks report what has
    changed since the report before. A report that cannot be delivered becomes part of the next.

    It runs until Ctrl-C or SIGTERM, and ends with exit code 0; with --once after one round, with exit code 1 if
    something went wrong. No two watch the same collection at once. {name} in a file name stands for the collection.

    \b
    opilio watch birds --feed public/birds.atom
    opilio watch birds owls --every 1d --digest '{name}.html'
    opilio watch birds --once --digest-command "sendmail -t" --mail-to me@example.org
    OPILIO_WEBHOOK_SECRET=... opilio watch birds --webhook https://example.org/hook
    """
    from opilio.standing import Channels, RoundReport, StandingWatch  # noqa: PLC0415  (it takes a while to import)
    from opilio.standing.reports import headline  # noqa: PLC0415

    def tell(report: RoundReport) -> None:
        if as_json:
            click.echo(json.dumps(dataclasses.asdict(report)))
            return
        to_error = digest == "-"
        if report.changes:
            until = ""
            if report.next_due_s is not None and not once:
                until = f"; next page due in {show_duration(max(0.0, report.next_due_s - time.time()))}"
            click.echo(one_line(f"{headline(report.name, report.changes)} ({report.reason}){until}"), err=to_error)
        for problem in report.problems:
            click.echo(f"warning: {one_line(report.name)}: {one_line(problem)}", err=True)

    channels = Channels(feed, digest, digest_command, mail_to, mail_from, webhooks, allow_private)
    standing = StandingWatch(
        folders, channels, every_s=every or 0.0, max_time_s=max_time, new_pages=new_pages, on_round=tell
    )  # fmt: skip
    if not once:
        standing.keep_on()
        return
    found = standing.once()
    if any(report.problems for report in found):
        sys.exit(1)
