"""The server around a federation."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from opilio.federation.peers import Peer
from opilio.web.federated import Federation
from opilio.web.federating import create_federation_app
from opilio.web.security import LOOPBACK, Security
from opilio.web.serving import ENDS_IN_S

FIRST_LOOK_S = 10.0
"""The server starts after this, whoever has not answered by then."""


def serve_federation(
    peers: Sequence[Peer],
    state: Path,
    listener: socket.socket,
    host: str,
    token: str,
    *,
    quiet: bool,
    echo: Callable[[str], object],
    warn: Callable[[str], object],
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    port = listener.getsockname()[1]
    named = f"[{host}]" if ":" in host else host.lower()
    security = Security(token, LOOPBACK | {named})
    federation = Federation(peers, state)
    federation.start(FIRST_LOOK_S)
    for one in federation.collections():
        if not one["known"]:
            trouble = one["trouble"] or f"{one['name']} has not answered yet"
            warn(f"warning: {trouble}; it is asked again in a minute, then later and later")
        elif not quiet:
            echo(f"{one['name']}: {one['pages']:,} pages, {len(one['topics']):,} topics")
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else named
    echo(f"http://{shown}:{port}/login#{security.token}")
    if not quiet:
        echo("Open that address to search, and to say what is relevant. Ctrl-C ends the server.")
    config = uvicorn.Config(
        create_federation_app(federation, security),
        log_level="warning", access_log=False, timeout_graceful_shutdown=ENDS_IN_S,
    )  # fmt: skip
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        federation.close()
