"""Commands that steer a crawl while it runs."""

from __future__ import annotations

from pathlib import Path

import click

from opilio.cli import one_line
from opilio.cli.operations import Called, operation_command
from opilio.crawl import Collection
from opilio.crawl.operations import crawling


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


@operation_command(crawling.lock_host, name="lock")
def lock(called: Called, urls: int) -> None:
    """Never fetch from HOST again, in this crawl and later ones; its queued URLs are dropped.

    The lock is kept in the settings (scope.locked_domains). HOST can also be the URL of a page.

    \b
    opilio host lock birds ads.example.org
    """
    click.echo(f"{one_line(called.arguments['host'])} is locked; {urls:,} of its queued URLs were dropped")


@operation_command(crawling.unlock_host, name="unlock")
def unlock(called: Called, urls: int) -> None:
    """Allow fetching from HOST again; URLs that its lock dropped are queued again.

    \b
    opilio host unlock birds ads.example.org
    """
    click.echo(f"{one_line(called.arguments['host'])} is unlocked; {urls:,} URLs are queued again")


host.add_command(lock)
host.add_command(unlock)


@host.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("name", metavar="HOST")
@click.argument("factor", type=click.FloatRange(1, 1000), default=10.0)
def boost(folder: Path, name: str, factor: float) -> None:
    """Fetch from HOST sooner while the crawl runs: its URLs count for FACTOR times their priority.

    FACTOR is 10 by default; 1 takes the boost back. The delay between two requests to a host does not change.

    \b
    opilio host boost birds owls.example.org
    opilio host boost birds owls.example.org 1
    """
    urls = Collection(folder).boost_host(name, factor)
    how = f"is boosted {factor:g} times" if factor > 1 else "is no longer boosted"
    click.echo(f"{one_line(name)} {how}; {urls:,} of its URLs are queued")
