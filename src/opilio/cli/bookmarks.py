"""`opilio bookmarks`: what is in a bookmark file, before a crawl starts from it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import click

from opilio.cli.display import DURATION
from opilio.cli.steer import show_table
from opilio.crawl.bookmark_check import MAX_TIME_S, BookmarkReport, CheckedBookmark, check_bookmarks
from opilio.errors import InputError
from opilio.settings import Settings, load, override
from opilio.store import Result
from opilio.topics.inputs import BookmarkFolder, bookmark_folders, bookmark_text, chosen_folders, parse_bookmarks


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--folder", "names", multiple=True, metavar="NAME", help="Only this folder, with all in it. Repeatable.")
@click.option("--check", is_flag=True, help="Fetch each bookmark once, politely, and list those that are dead.")
@click.option("--max-time", type=DURATION, default=MAX_TIME_S, help="With --check: stop after this time (default: 2m).")
@click.option("--contact", default="", help="With --check: URL in the User-Agent where site owners can reach you.")
@click.option("--config", type=click.Path(path_type=Path), help="With --check: settings file (TOML).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def bookmarks(
    file: Path, names: tuple[str, ...], check: bool, max_time: float, contact: str, config: Path | None, as_json: bool
) -> None:
    """Show the folders of the bookmark file FILE, as topics of a crawl.

    Folders that a browser filled itself, such as "Mozilla Firefox", are left out by `opilio crawl` unless you name
    them.

    \b
    opilio bookmarks bookmarks.html
    opilio bookmarks bookmarks.html --check
    opilio crawl birds --bookmarks bookmarks.html --bookmark-folder Birds
    """
    text = bookmark_text(file)
    folders = bookmark_folders(text)
    if not folders:
        raise InputError(f"{file}: no bookmark with an http(s) address found", "Export the bookmarks as HTML.")
    if names:
        chosen = chosen_folders(text, names)
        folders = [folder for folder in folders if folder.path in chosen]
    report: BookmarkReport | None = None
    if check:
        seeds = parse_bookmarks(text, [folder.path for folder in folders]).seeds
        settings = load(config) if config else Settings()
        if contact:
            settings = override(settings, {"fetch.contact_url": contact})
        report = check_bookmarks(
            [seed.url for seed in seeds], settings, max_time_s=max_time, on_checked=_progress(len(seeds))
        )
    if as_json:
        click.echo(
            json.dumps({"folders": [asdict(folder) for folder in folders], "check": asdict(report) if report else None})
        )
    else:
        _show(file, folders, report)


def _progress(total: int) -> Callable[[CheckedBookmark], None]:
    done = 0

    def show(_: CheckedBookmark) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            click.echo(f"\r{done} of {total}", nl=done == total, err=True)

    return show


def _show(file: Path, folders: list[BookmarkFolder], report: BookmarkReport | None) -> None:
    """The folders as a table, what the check found, and the next step."""
    rows = [
        (
            folder.path or "(in no folder)",
            folder.bookmarks,
            "made by the browser: left out" if folder.by_browser else ", ".join(folder.titles),
        )
        for folder in folders
    ]
    show_table(Result(("folder", "bookmarks", "for example"), rows))
    if report is not None:
        _show_report(report)
    click.echo(f"\nCrawl:  opilio crawl NAME --bookmarks {shlex.quote(str(file))}")


def _show_report(report: BookmarkReport) -> None:
    """What is dead, what else went wrong, and the languages."""
    click.echo(f"\n{report.checked} checked, {len(report.dead)} dead, {len(report.trouble)} with other trouble")
    for one in [*report.dead, *report.trouble]:
        click.echo(f"  {one.outcome:<15} {one.url}")
    if report.unchecked:
        click.echo(f"{report.unchecked} not checked for lack of time; --max-time 10m gives more")
    languages = ", ".join(f"{code} {count}" for code, count in report.languages.items())
    click.echo(f"languages: {languages or 'not known'}")
