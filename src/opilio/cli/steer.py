"""Commands that steer a crawl while it runs."""

from __future__ import annotations

from pathlib import Path

import click

from opilio.cli import one_line
from opilio.crawl import Collection

FOLDER = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
HOST = click.argument("name", metavar="HOST")


@click.command()
@FOLDER
def pause(folder: Path) -> None:
    """Let the crawl in FOLDER ask for nothing new, until `opilio resume` or its end.

    Requests under way are finished; learning and link analysis go on; the clock of a time limit stands. A crawl that is
    stopped and started again is not paused.

    \b
    opilio pause birds
    opilio status birds
    opilio resume birds
    """
    paused = Collection(folder).pause()
    click.echo("paused: requests under way are finished" if paused else f"no crawl runs in {folder}")


@click.command()
@FOLDER
def resume(folder: Path) -> None:
    """Let the paused crawl in FOLDER go on.

    \b
    opilio resume birds
    """
    click.echo("the crawl goes on" if Collection(folder).resume() else f"no crawl runs in {folder}")


@click.group()
def host() -> None:
    """Lock a host, unlock it, or let it come sooner. A name covers all names below it.

    \b
    opilio host lock birds ads.example.org
    opilio host unlock birds ads.example.org
    opilio host boost birds owls.example.org 10
    """


@host.command()
@FOLDER
@HOST
def lock(folder: Path, name: str) -> None:
    """Never ask HOST again, in this crawl and later ones; its waiting URLs are dropped.

    It is kept in the settings (scope.locked_domains). The address of a page will do for HOST.

    \b
    opilio host lock birds ads.example.org
    """
    urls = Collection(folder).lock_host(name)
    click.echo(f"{one_line(name)} is locked; {urls:,} of its URLs no longer wait")


@host.command()
@FOLDER
@HOST
def unlock(folder: Path, name: str) -> None:
    """Let HOST be asked again; URLs that its lock dropped wait again.

    \b
    opilio host unlock birds ads.example.org
    """
    urls = Collection(folder).unlock_host(name)
    click.echo(f"{one_line(name)} is unlocked; {urls:,} URLs wait again")


@host.command()
@FOLDER
@HOST
@click.argument("factor", type=click.FloatRange(1, 1000), default=10.0)
def boost(folder: Path, name: str, factor: float) -> None:
    """Let HOST have its turn sooner while the crawl runs: its URLs count for FACTOR times their priority.

    FACTOR is 10 unless given; 1 takes the boost back. Delays between two requests to a host are kept as ever.

    \b
    opilio host boost birds owls.example.org
    opilio host boost birds owls.example.org 1
    """
    urls = Collection(folder).boost_host(name, factor)
    how = f"comes sooner, {factor:g} times" if factor > 1 else "comes in its own turn again"
    click.echo(f"{one_line(name)} {how}; {urls:,} of its URLs wait")
