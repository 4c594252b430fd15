"""Commands that query a collection or steer its crawl, whether a crawl runs in it or not."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from shlex import quote
from typing import Any

import click

from opilio.cli import one_line
from opilio.cli.display import DURATION, dead_seed_lines, summary
from opilio.cli.operations import Called, operation_command
from opilio.cli.tables import fitted, print_table
from opilio.crawl import Collection, Status
from opilio.crawl.operations import crawling
from opilio.errors import InputError
from opilio.settings import SYSTEMS, Settings, defaults_of, differences, own_settings, to_toml
from opilio.settings.files import without_secrets
from opilio.store import Result
from opilio.store.questions import QUESTIONS
from opilio.store.questions import question as find_question

FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))


@operation_command(crawling.status)
def status(called: Called, now: Status) -> None:
    """Show the figures of the crawl in FOLDER: the running crawl, or the last one."""
    click.echo(summary(now))
    if now.paused:
        click.echo(f"  paused; continue with: opilio resume {quote(str(called.folder))}")
    if now.running:
        requests = f"{now.in_flight:,} request{'' if now.in_flight == 1 else 's'} under way"
        order = now.order_by or now.strategy
        click.echo(f"  now: {now.pages_per_s:.1f} pages/s, {requests}, order: {order}")
    if len(now.topics) > 1:
        waiting = ", ".join(f"{one_line(name)} {n:,}" for name, n in now.topics.items())
        click.echo(fitted(f"  waiting by topic: {waiting}"))
    for line in dead_seed_lines(str(called.folder), Collection(called.folder).dead_seeds()):
        click.echo(line)


@click.command()
@FOLDER
@click.argument("statement", required=False)
@click.option("--write", is_flag=True, help="Allow statements that change rows, such as UPDATE.")
@click.option("--format", "form", type=click.Choice(["table", "csv", "json", "jsonl"]), default="table")
@click.option("--question", help="Run one of the ready-made queries, by its name.")
@click.option("--questions", is_flag=True, help="List the ready-made queries.")
def sql(folder: Path, statement: str | None, write: bool, form: str, question: str | None, questions: bool) -> None:
    """Run one SQL STATEMENT (DuckDB's dialect) on the database of FOLDER, also while a crawl runs.

    docs/sql.md describes the tables and the ready-made queries, which come from the papers. STATEMENT - reads from
    standard input.

    \b
    opilio sql birds --questions
    opilio sql birds --question citation-sociology
    opilio sql birds "SELECT * FROM harvest"
    opilio sql birds "SELECT outcome, count(*) FROM crawl GROUP BY ALL ORDER BY 2 DESC"
    opilio sql birds "SHOW TABLES"
    """
    if questions:
        _list_questions()
        return
    if (statement is None) == (question is None):
        raise click.UsageError("give either a STATEMENT or --question")
    if statement is None:
        statement = _statement_of(str(question))
    elif statement == "-":
        statement = sys.stdin.read()
    result = Collection(folder).sql(statement, write=write)
    _show(result, form)
    if result.truncated:
        click.echo(f"(only the first {len(result.rows):,} rows; use LIMIT, or opilio export)", err=True)


def _statement_of(name: str) -> str:
    """The statement of a ready-made question; an error lists the known ones."""
    found = find_question(name)
    if found is None:
        raise InputError(f"no question {name!r}", f"Known questions: {', '.join(one.name for one in QUESTIONS)}.")
    return found.sql


def _list_questions() -> None:
    for one in QUESTIONS:
        source = f" ({one.source})" if one.source else ""
        click.echo(f"{one.name}{', with --write' if one.writes else ''}{source}\n    {one.shows}")


def _show(result: Result, form: str) -> None:
    if form == "table":
        show_table(result)
    elif form == "csv":
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(result.columns)
        writer.writerows(result.rows)
        click.echo(text.getvalue(), nl=False)
    else:
        objects = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
        lines = [json.dumps(o, default=str) for o in objects] if form == "jsonl" else [json.dumps(objects, default=str)]
        click.echo("\n".join(lines))


def show_table(result: Result) -> None:
    """Print rows as a table, as wide as the terminal."""
    print_table([_cell(name) for name in result.columns], [[_cell(value) for value in row] for row in result.rows])


def _cell(value: Any) -> str:
    """A value as text; control characters of fetched pages never reach the terminal."""
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return "".join(c if c.isprintable() else " " for c in text[:2000])


@click.command()
@FOLDER
@click.argument("order", required=False)
@click.option("--strategy", help="A named strategy instead of an SQL order: evidence, breadth-first, bfs16 ...")
@click.option("--n", type=click.IntRange(1), default=None, help="N of best-n-first.")
def policy(folder: Path, order: str | None, strategy: str | None, n: int | None) -> None:
    """Change the order in which queued URLs are fetched, at once when a crawl runs.

    ORDER is what follows ORDER BY in SQL, over the view `frontier`. Without arguments, the current order is shown.

    \b
    opilio policy birds "numtries, relevance DESC, serverload"     (discovery: Focus 3.2)
    opilio policy birds "lastvisited, hub_score DESC"              (maintenance)
    opilio policy birds --strategy breadth-first
    """
    collection = Collection(folder)
    if order and strategy:
        raise InputError("give an ORDER or --strategy, not both")
    if not order and not strategy and not n:
        now = collection.status()
        click.echo(f"{now.strategy}: {now.order_by}" if now.order_by else now.strategy)
        return
    chosen = "sql" if order else strategy or "best-n-first"
    running = collection.policy(chosen, order or "", n or 0)
    click.echo("changed; the running crawl follows it now" if running else "changed; the next crawl follows it")


@click.command()
@FOLDER
@click.option("--max-pages", type=click.IntRange(0), help="Pages to store, with those there are; 0: no limit.")
@click.option("--more-pages", type=click.IntRange(1), help="So many pages more than there are now.")
@click.option("--max-time", type=DURATION, help="Crawling time, earlier runs included: 90s, 15m, 8h; 0: no limit.")
def limits(folder: Path, max_pages: int | None, more_pages: int | None, max_time: float | None) -> None:
    """Change when the crawl ends, at once when one runs. Without options, the limits are shown.

    \b
    opilio limits birds --more-pages 1000
    opilio limits birds --max-pages 0 --max-time 2h
    """
    collection = Collection(folder)
    if max_pages is not None and more_pages is not None:
        raise InputError("give --max-pages or --more-pages, not both")
    if more_pages is not None:
        max_pages = collection.status().pages + more_pages
    if max_pages is None and max_time is None:
        now = collection.settings.limits
        click.echo(f"pages: {f'{now.max_pages:,}' if now.max_pages else 'no limit'}")
        click.echo(f"time: {f'{now.max_time_s:g} s' if now.max_time_s else 'no limit'}")
        return
    running = collection.change_limits(max_pages, max_time)
    click.echo("changed; the running crawl follows it now" if running else "changed; the next crawl follows it")


@click.command()
@FOLDER
@click.argument("targets", nargs=-1, metavar="[HOST|URL]...")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; needs --yes.")
def forget(folder: Path, targets: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Remove pages from FOLDER for good, because somebody asked you to.

    HOST is a name, which covers all names below it; it is locked too. Pages go from the database, the search index, the
    examples and the WARC files, where a tombstone takes the place of each record. Models that learned from one of them
    go as well; the next crawl trains a new one. The URLs stay known, so that they are not fetched again. This cannot be
    undone. Stop the crawl first. Without HOST or URL, a removal that was interrupted is finished.

    \b
    opilio forget birds https://example.org/jane.html
    opilio forget birds example.org --yes
    """
    collection = Collection(folder)
    if targets and not yes:
        counted = collection.forget(targets, dry_run=True)
        click.confirm(
            f"{counted['pages']:,} pages ({counted['urls']:,} URLs, {counted['examples']:,} examples) will be removed "
            f"from {folder}, and cannot be brought back. Go on?",
            abort=True,
        )
    removed = collection.forget(targets)
    if as_json:
        click.echo(json.dumps(removed))
        return
    click.echo(f"{removed['pages']:,} pages, {removed['urls']:,} URLs and {removed['records']:,} WARC records removed")
    for place in removed["kept"]:
        click.echo(f"hint: {place} may hold copies: delete them yourself")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), required=False)
@click.option("--system", type=click.Choice(list(SYSTEMS)), help="Without FOLDER: those of a paper's system.")
@click.option("--diff", is_flag=True, help="A table of what was set or differs from the defaults, and by whom.")
def settings(folder: Path | None, system: str | None, diff: bool) -> None:
    """Show what you have set in FOLDER; without FOLDER, all defaults.

    \b
    opilio settings birds
    opilio settings birds --diff
    opilio settings --system bingo --diff
    """
    if folder is not None and system is not None:
        raise InputError(
            "give a FOLDER or --system, not both", f"To change it: opilio crawl {quote(str(folder))} --system {system}"
        )
    if diff:
        if folder is None and system is None:
            raise InputError("nothing to compare with the defaults", "Give a FOLDER, or --system NAME.")
        chosen = Collection(folder).settings if folder is not None else defaults_of(system or "")
        _show_differences(without_secrets(chosen))
    elif folder is None:
        click.echo(to_toml(defaults_of(system or ""), everything=True), nl=False)
    else:
        click.echo(
            to_toml(without_secrets(Collection(folder).settings)) or "# all settings have their defaults\n", nl=False
        )


def _show_differences(chosen: Settings) -> None:
    """What was set or differs from Opilio's defaults, the default of each, and whether a system or the user set it."""
    default, own = Settings(), own_settings(chosen)
    rows = []
    for name, value in (differences(chosen, default) | own).items():
        section, _, key = name.partition(".")
        by = "you" if name in own else f"system {chosen.run.system}"
        rows.append((name, value, getattr(getattr(default, section), key), by))
    if rows:
        show_table(Result(("setting", "here", "default", "set by"), rows))
    else:
        click.echo("all settings have their defaults")


@operation_command(crawling.pause)
def pause(called: Called, paused: bool) -> None:
    """Pause the running crawl in FOLDER until `opilio resume`.

    Requests under way are finished; training and link analysis continue; the clock of a time limit stops. A crawl that
    is stopped and started again is not paused.

    \b
    opilio pause birds
    opilio status birds
    opilio resume birds
    """
    click.echo("paused: requests under way are finished" if paused else f"no crawl runs in {called.folder}")


@operation_command(crawling.resume)
def resume(called: Called, resumed: bool) -> None:
    """Resume the paused crawl in FOLDER.

    \b
    opilio resume birds
    """
    click.echo("the crawl goes on" if resumed else f"no crawl runs in {called.folder}")


@operation_command(crawling.stop)
def stop(called: Called, stopping: bool) -> None:
    """Stop the running crawl in FOLDER cleanly. `opilio crawl FOLDER` continues it later.

    \b
    opilio stop birds
    """
    click.echo("stopping: requests under way are finished first" if stopping else f"no crawl runs in {called.folder}")


@click.group()
def host() -> None:
    """Lock a host, unlock it, or boost it. A name covers all names below it.

    \b
    opilio host lock birds ads.example.org
    opilio host unlock birds ads.example.org
    opilio host boost birds owls.example.org 10
    """


@host.command()
@FOLDER
@click.argument("hosts", nargs=-1, metavar="[HOST|URL]...")
@click.option("--file", type=click.File("r", encoding="utf-8"), help="A list of hosts and URLs, one on each line.")
def lock(folder: Path, hosts: tuple[str, ...], file: io.TextIOBase | None) -> None:
    """Never fetch from HOST again, in this crawl and later ones; its queued URLs are dropped.

    A URL with a path locks all URLs that begin with it. A running crawl obeys at once; requests under way are finished.
    Locks are kept in the settings (scope.locked_domains, scope.locked_urls). Without HOST, they are listed.

    \b
    opilio host lock birds ads.example.org https://example.org/private/
    opilio host lock birds --file blocklist.txt
    opilio host lock birds
    """
    collection, named = Collection(folder), _named_hosts(hosts, file)
    if not named:
        scope = collection.settings.scope
        for one in (*scope.locked_domains, *scope.locked_urls):
            click.echo(one_line(one))
        return
    urls = collection.lock_host(named)
    click.echo(f"{_counted(named)} locked; {urls:,} queued URLs were dropped")


@host.command()
@FOLDER
@click.argument("hosts", nargs=-1, metavar="[HOST|URL]...")
@click.option("--file", type=click.File("r", encoding="utf-8"), help="A list of hosts and URLs, one on each line.")
def unlock(folder: Path, hosts: tuple[str, ...], file: io.TextIOBase | None) -> None:
    """Allow fetching from HOST again; URLs that its lock dropped are queued again.

    \b
    opilio host unlock birds ads.example.org
    """
    named = _named_hosts(hosts, file)
    if not named:
        raise InputError("nothing to unlock", "`opilio host lock FOLDER` lists what is locked.")
    urls = Collection(folder).unlock_host(named)
    click.echo(f"{_counted(named)} unlocked; {urls:,} URLs are queued again")


def _named_hosts(hosts: tuple[str, ...], file: io.TextIOBase | None) -> list[str]:
    """Hosts of the command line and of a file, in which `#` begins a comment."""
    lines = [line.partition("#")[0].strip() for line in file or ()]
    return [*hosts, *filter(None, lines)]


def _counted(named: list[str]) -> str:
    return f"{one_line(named[0])} is" if len(named) == 1 else f"{len(named):,} hosts and URLs are"


@host.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("name", metavar="HOST")
@click.argument("factor", type=click.FloatRange(1, 1000), default=10.0)
def boost(folder: Path, name: str, factor: float) -> None:
    """Fetch from HOST sooner while the crawl runs: multiply the priority of its URLs by FACTOR.

    FACTOR is 10 by default; 1 removes the boost. The delay between two requests to a host does not change.

    \b
    opilio host boost birds owls.example.org
    opilio host boost birds owls.example.org 1
    """
    urls = Collection(folder).boost_host(name, factor)
    how = f"is boosted {factor:g} times" if factor > 1 else "is no longer boosted"
    click.echo(f"{one_line(name)} {how}; {urls:,} of its URLs are queued")
