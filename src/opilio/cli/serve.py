"""`opilio serve`: the portal."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path

import click

from opilio.errors import InputError
from opilio.threads import end_with_parent

PORT = 8765
TOKEN_VARIABLE = "OPILIO_TOKEN"


@click.command()
@click.argument("place", type=click.Path(path_type=Path, file_okay=False), default=Path())
@click.option("--host", default="127.0.0.1", show_default=True, help="Name or address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0: any that is free.")
@click.option("--quiet", "-q", is_flag=True, help="Print the address only.")
@click.option("--with-parent", is_flag=True, hidden=True, help="End when the process that began this one does.")
def serve(place: Path, host: str, port: int, quiet: bool, with_parent: bool) -> None:
    """Show the portal of PLACE: a collection, or a folder with several (default: here).

    Browse, search, teach, review, watch crawls and begin new ones in a browser; docs/guides/portal.md shows how. Who
    reaches the address may read. Changing anything needs the token: the address printed first signs a browser in, and
    programs send it as `Authorization: Bearer TOKEN` to the REST API (/api/openapi.json). Set OPILIO_TOKEN for one of
    your own; otherwise each start has a new one.

    \b
    opilio serve birds
    opilio serve --port 9000 ~/collections
    """
    if with_parent:
        end_with_parent()
    serve_place(place, host, port, quiet=quiet)


def serve_place(place: Path, host: str = "127.0.0.1", port: int = 0, *, quiet: bool) -> None:
    """Serve until Ctrl-C."""
    from opilio.web.serving import serve_forever  # noqa: PLC0415

    if not place.is_dir():
        raise InputError(f"{place}: no such folder", "Name a collection, or a folder for several.")
    serve_forever(place, listen(host, port), host, os.environ.get(TOKEN_VARIABLE, ""), quiet=quiet, echo=click.echo)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, so that a port in use is an error at once."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(found[0], socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(found[4])
        listener.listen(128)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}",
            "Give another: --port 0 takes a free one.",
        ) from None
    if not ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback:
        click.echo(f"warning: {host} can be reached from other machines: whoever reaches it may read", err=True)
    return listener
