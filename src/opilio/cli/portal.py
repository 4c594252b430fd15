"""`opilio serve` and `opilio publish`: the portal, served or written as files.

During a crawl (`opilio crawl --portal`) the portal runs in a process of its own, so that it takes no time from the
loop of the crawl.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote

import click

from opilio.cli.log import LogFormat, choose_format, log_format_option, logs_json, tell, use_json_for_logging
from opilio.errors import InputError, OpilioError
from opilio.process import Channel, Process, collect_rarely, end_with_parent, start

PORT = 8765
TOKEN_VARIABLE = "OPILIO_TOKEN"
STOP_S = 5.0
TOLD_EVERY_S = 2.0


@click.command()
@click.argument("place", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option("--host", default="127.0.0.1", show_default=True, help="Name or address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on; 0: any free port.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print the address only.")
@log_format_option
def serve(place: Path, host: str, port: int, quiet: bool) -> None:
    """Serve the portal of PLACE: a collection, or a folder with several (default: this folder).

    Browse, search, train, review, watch crawls and start new ones in a browser; see docs/guides/portal.md. Everyone who
    can reach the address can read. Changes need the token: the printed address signs your browser in, and programs send
    it as `Authorization: Bearer TOKEN` to the REST API (/api/openapi.json). Set OPILIO_TOKEN to choose the token;
    otherwise each start makes a new one.

    \b
    opilio serve birds
    opilio serve --port 9000 ~/collections
    """
    serve_place(place, host, port, quiet=quiet)


def serve_place(
    place: Path,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    quiet: bool,
    echo: Callable[[str], object] = click.echo,
) -> None:
    """Serve until Ctrl-C."""
    from opilio.web.app import serve_forever  # noqa: PLC0415

    if logs_json():
        use_json_for_logging()
    if not place.is_dir():
        raise InputError(f"{place}: no such folder", "Name a collection, or a folder with several.")
    token = os.environ.get(TOKEN_VARIABLE, "")
    serve_forever(place, listen(host, port), host, token, quiet=quiet, echo=echo, sets_logging=not logs_json())


def listen(host: str, port: int, risk: str = "everyone who reaches it can read") -> socket.socket:
    """A socket that listens, so that a port in use is an error at once. Off loopback, the user is told the `risk`."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(found[0], socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(found[4])
        listener.listen(128)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}",
            "Choose another port; --port 0 takes a free one.",
        ) from None
    if not ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback:
        tell("warning", f"{host} can be reached from other machines: {risk}")
    return listener


@contextlib.contextmanager
def portal_alongside(folder: Path, port: int) -> Iterator[Process]:
    """Serve the portal of a collection while a crawl runs in it; the address is printed. It ends with this process."""
    child = start("opilio.cli.portal:run_portal", str(folder), str(port), *(["json"] if logs_json() else []))
    try:
        address = child.channel.receive().decode()
        if not address:
            raise OpilioError(
                "the portal did not start",
                f"Take a free port: --portal 0. Or start it separately: opilio serve {quote(str(folder))}",
            )
        tell("portal", address)
        yield child.process
    finally:
        child.close(STOP_S)


def run_portal(channel: Channel, folder: str, port: str, log_format: str = LogFormat.TEXT) -> None:
    """The work of the portal's process: sends the address, then serves until the channel closes."""
    choose_format(log_format)
    end_with_parent(channel)
    try:
        serve_place(Path(folder), port=int(port), quiet=True, echo=lambda text: channel.send(text.encode()))
    except OpilioError as error:
        tell("error", error.message)
        tell("hint", error.hint)


def stay(process: Process) -> None:
    """Keep the portal after the crawl until Ctrl-C."""
    tell("notice", "the portal runs until Ctrl-C")
    with contextlib.suppress(KeyboardInterrupt):
        process.wait()


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--pages-per-topic", type=click.IntRange(1, 1000), default=100, show_default=True,
              help="Publish at most this many pages of each topic, the best first.")  # fmt: skip
@click.option("--name", default="", help="Title of the site; by default the name of FOLDER.")
@click.option("--base-url", default="", help="Address at which the site will be: adds a sitemap and complete links.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as one JSON object.")
def publish(folder: Path, target: Path, pages_per_topic: int, name: str, base_url: str, as_json: bool) -> None:
    """Write the portal of FOLDER to the new folder TARGET, as a static site.

    The site has the topics, their best pages with text and the reasons for their judgement, hubs and authorities, a
    full-text search that runs in the browser, and feeds (rss.xml, atom.xml) of the newest pages. Open
    TARGET/index.html, or copy TARGET to any web host. A site from an earlier call is replaced in one step; a folder
    that was not made by this command is never touched. The texts of pages belong to their authors: publish only what
    you may.

    \b
    opilio publish birds site
    opilio publish birds site --pages-per-topic 20 --name "Birds of the north"
    opilio publish birds site --base-url https://example.org/birds/
    """
    from opilio.crawl import Collection  # noqa: PLC0415  (`opilio crawl` needs this module before it)
    from opilio.web.publishing import publish as write_site  # noqa: PLC0415

    shown_name = name or folder.absolute().name
    collect_rarely()
    progress = _Progress()
    written = write_site(
        Collection(folder), target, name=shown_name, pages_per_topic=pages_per_topic, base_url=base_url,
        progress=progress.tell,
    )  # fmt: skip
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
