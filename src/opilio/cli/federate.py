"""The commands of a federation: one search over several collections, and forwarding URLs by hand."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click

from opilio.cli import one_line
from opilio.cli.portal import TOKEN_VARIABLE, listen
from opilio.errors import InputError
from opilio.federation.peers import PeerEntry, PeerError, check_address, check_token, read_peers

PORT = 8766
"""Next to that of the portal, 8765."""


@click.command()
@click.argument("places", metavar="PLACE...", nargs=-1)
@click.option(
    "--peers", "file", type=click.Path(path_type=Path, dir_okay=False), help="File that names collections (TOML)."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Name or address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on; 0: any free port.",
)
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for feedback that cannot be delivered yet.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print the address only.")
def federate(places: tuple[str, ...], file: Path | None, host: str, port: int, state: Path | None, quiet: bool) -> None:
    """Search several collections as one. PLACE is a folder, a folder with several, or the address of a served one.

    A query goes to the collections that are likely to have some of the best pages; their results are merged into one
    list, each page with the collections that returned it. Your feedback on a page goes back to all of these. A
    collection that does not answer is left out, and tried again after a minute, then at growing intervals. See
    docs/guides/federation.md.

    A collection on another server needs the token of that server: in the variable OPILIO_TOKEN_NAME, with the name of
    the collection in capitals, or in a file of peers. Set OPILIO_TOKEN to choose the token of this server; otherwise
    each start makes a new one.

    \b
    opilio federate birds bees
    opilio federate ~/collections --port 9000
    OPILIO_TOKEN_SHIPS=... opilio federate birds https://ships.example/c/ships
    opilio federate --peers peers.toml --state ~/federation
    """
    from opilio.crawl.peer import open_peer  # noqa: PLC0415
    from opilio.web.federation_pages import serve_federation  # noqa: PLC0415

    entries = [] if file is None else read_peers(file, _warn)
    entries += [entry for place in places for entry in entries_at(place)]
    if not entries:
        raise InputError("no collection to search", "Name folders, addresses, or a file: --peers FILE")
    _check_names(entries)
    serve_federation(
        [open_peer(entry) for entry in entries], state or default_state(), listen(host, port), host,
        os.environ.get(TOKEN_VARIABLE, ""), quiet=quiet, echo=lambda text: click.echo(one_line(text)), warn=_warn,
    )  # fmt: skip


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--peers", "file", type=click.Path(path_type=Path, dir_okay=False),
    help="File that names other collections (default: the setting federation.peers).",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only show which URLs would be forwarded.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def offer(folder: Path, file: Path | None, dry_run: bool, as_json: bool) -> None:
    """Forward the URLs of pages in FOLDER to other collections whose topics they suit better.

    Each URL goes to a collection once. A running crawl does this by itself if its settings name a file of peers: --set
    federation.peers=FILE. The others fetch URLs that are new to them in their next crawl, or at once if a crawl runs;
    see docs/guides/federation.md. Collections that do not answer or refuse are reported on standard error; if all do,
    the command fails.

    \b
    opilio offer birds --peers peers.toml --dry-run
    opilio offer birds --peers peers.toml
    """
    from opilio.crawl import Collection  # noqa: PLC0415

    report = Collection(folder).offer_to_peers(file, dry_run=dry_run)
    for warning in report["warnings"]:
        _warn(f"warning: {warning}")
    if as_json:
        click.echo(json.dumps(report))
    else:
        _show_offered(report["peers"], dry_run=dry_run)
    for one in report["peers"]:
        if one["trouble"]:
            _warn(f"warning: {one['trouble']}")
    if report["peers"] and not any(one["count"] or not one["trouble"] for one in report["peers"]):
        names = ", ".join(one["name"] for one in report["peers"])
        raise PeerError(
            f"{'nothing can be compared with' if dry_run else 'nothing could be handed over to'} {names}",
            "Look at their addresses and tokens in the file of peers, and whether they are served; then call it again.",
        )


def _show_offered(peers: list[dict[str, Any]], *, dry_run: bool) -> None:
    """A line for each collection that answered; with `dry_run`, also the URLs."""
    if not peers:
        click.echo("no other collection is named there")
    for one in peers:
        if one["trouble"] and not one["count"]:
            continue
        if dry_run:
            said = f"{one['count']:,} URLs{'' if one['is_all'] else ' or more'} suit it"
        else:
            said = f"{one['count']:,} URLs forwarded, {one['new']:,} of them new to it"
        click.echo(f"{one_line(one['name'])}: {said}")
        for url in one["urls"]:
            click.echo(f"  {url['relevance']:.2f}  {one_line(url['url'])}  ({one_line(url['topic'])})")


def entries_at(place: str) -> list[PeerEntry]:
    """The collections at a place: a folder, a folder with several, or the address of one that is served."""
    if place.startswith(("http://", "https://")):
        return [_served(place)]
    from opilio.web.shelf import Shelf  # noqa: PLC0415

    folder = Path(place)
    if not folder.is_dir():
        raise InputError(f"{place}: no such folder", "Name a collection, a folder with several, or an address.")
    shelf = Shelf(folder)
    if not shelf.names():
        raise InputError(f"{place}: no collection there", "`opilio crawl FOLDER` makes one.")
    return [PeerEntry(name, str(shelf.path(name))) for name in shelf.names()]


def _served(address: str) -> PeerEntry:
    address = check_address(address)
    name = unquote(address.rpartition("/")[2])
    variable = f"{TOKEN_VARIABLE}_{re.sub(r'[^A-Z0-9]', '_', name.upper())}"
    token = os.environ.get(variable, "").strip()
    if not token:
        raise InputError(f"{address}: its token is unknown", f"export {variable}=TOKEN; `opilio serve` prints it.")
    return PeerEntry(name, address, check_token(variable, token))


def _check_names(entries: list[PeerEntry]) -> None:
    names = [entry.name for entry in entries]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two collections are called {twice!r}", "Give them different names in a file: --peers FILE")


def default_state() -> Path:
    """The folder for state that must survive the program."""
    base = os.environ.get("XDG_STATE_HOME", "")
    return (Path(base) if base else Path.home() / ".local" / "state") / "opilio" / "federation"


def _warn(text: str) -> None:
    click.echo(one_line(text), err=True)
