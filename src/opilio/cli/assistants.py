"""`opilio mcp`: collections as tools of an assistant."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import click

from opilio.cli.portal import TOKEN_VARIABLE, listen
from opilio.errors import InputError, not_installed
from opilio.settings import Settings, override, parse_assignment

PORT = 8766


@click.command()
@click.argument("places", type=click.Path(path_type=Path, file_okay=False), nargs=-1)
@click.option("--http", is_flag=True, help="Serve over HTTP instead of standard input and output.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: name or address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True,
              help="With --http: port to listen on; 0: any free port.")  # fmt: skip
@click.option("--read-only", is_flag=True, help="Leave out the tools that start or stop crawls and answer questions.")
@click.option("--folder", "new_in", type=click.Path(path_type=Path, file_okay=False),
              help="Where the assistant may make new collections; by default in the first of PLACES that is no "
                   "collection itself.")  # fmt: skip
@click.option("--max-pages", type=click.IntRange(1), default=500, show_default=True,
              help="Pages that one crawl may add.")  # fmt: skip
@click.option("--total-pages", type=click.IntRange(1), default=5000, show_default=True,
              help="Pages that all crawls together may add while this server runs.")  # fmt: skip
@click.option("--max-crawls", type=click.IntRange(1), default=1, show_default=True, help="Crawls at a time.")
@click.option("--max-minutes", type=click.FloatRange(0.1), default=60.0, show_default=True,
              help="Time that one crawl may take.")  # fmt: skip
@click.option("--allow-host", "allow_hosts", multiple=True, metavar="HOST",
              help="Crawl only this host and those below it. May be repeated.")  # fmt: skip
@click.option("--set", "assignments", multiple=True, metavar="SECTION.KEY=VALUE",
              help="A setting of the collections that the assistant makes. May be repeated.")  # fmt: skip
def mcp(
    places: tuple[Path, ...], http: bool, host: str, port: int, read_only: bool, new_in: Path | None, max_pages: int,
    total_pages: int, max_crawls: int, max_minutes: float, allow_hosts: tuple[str, ...], assignments: tuple[str, ...],
) -> None:  # fmt: skip
    """Let an assistant use PLACES as tools: collections, or folders with several (default: this folder).

    It speaks the Model Context Protocol on standard input and output: the assistant's program starts this command
    itself. With --http it listens on loopback, and needs a token (`Authorization: Bearer`): set OPILIO_TOKEN to choose
    it, otherwise each start makes a new one. An assistant can search, read and explain pages, query with read-only
    SQL, answer the crawl's questions, and start crawls within the limits below. See docs/guides/assistants.md.

    \b
    opilio mcp ~/collections
    opilio mcp birds --read-only
    opilio mcp ~/collections --max-pages 200 --allow-host example.org --set fetch.contact_url=https://example.org/me
    opilio mcp ~/collections --http --port 8766
    """
    if importlib.util.find_spec("mcp") is None:
        raise not_installed("mcp", "`opilio mcp`", "mcp")
    from opilio.assistants.desk import Desk  # noqa: PLC0415
    from opilio.assistants.limits import MINUTE_S, AssistantLimits  # noqa: PLC0415
    from opilio.assistants.server import serve_http, serve_stdio  # noqa: PLC0415
    from opilio.crawl.steering import name_of_host  # noqa: PLC0415
    from opilio.web.shelf import is_collection  # noqa: PLC0415

    places = places or (Path(),)
    for place in (*places, *([new_in] if new_in is not None else [])):
        if not place.is_dir():
            raise InputError(f"{place}: no such folder", "Name a collection, or a folder with several.")
    override(Settings(), dict(map(parse_assignment, assignments)), "--set")  # a wrong one is an error now
    if new_in is None:
        new_in = next((place for place in places if not is_collection(place)), None)
    elif is_collection(new_in):
        raise InputError(f"{new_in}: is a collection itself", "Name a folder in which collections can be made.")
    limits = AssistantLimits(
        max_pages, total_pages, max_crawls, max_minutes * MINUTE_S, tuple(map(name_of_host, allow_hosts)),
        None if new_in is None else new_in.absolute(), read_only, assignments,
    )  # fmt: skip
    desk = Desk(places, limits)
    if http:
        listener = listen(host, port, "the token goes over the network unencrypted")
        token = os.environ.get(TOKEN_VARIABLE, "")
        serve_http(desk, listener, host, token, echo=lambda text: click.echo(text, err=True))
    else:
        if sys.stdin.isatty():
            click.echo("This is for programs: it waits for an assistant on standard input. Ctrl-C ends it.", err=True)
        serve_stdio(desk)
