"""The server around the application."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from opilio.web.app import create_app
from opilio.web.security import LOOPBACK, Security
from opilio.web.shelf import Shelf

ENDS_IN_S = 2  # a browser that listens for events does not keep the server from ending


def serve_forever(
    place: Path, listener: socket.socket, host: str, token: str, *, quiet: bool, echo: Callable[[str], object]
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    port = listener.getsockname()[1]
    named = f"[{host}]" if ":" in host else host.lower()
    security = Security(token, LOOPBACK | {named})
    app = create_app(Shelf(place), security)
    shown = "127.0.0.1" if host in {"0.0.0.0", "::"} else named
    echo(f"http://{shown}:{port}/login#{security.token}")
    if not quiet:
        echo("Open that address to look around and to make changes. Ctrl-C ends the server; crawls go on.")
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=ENDS_IN_S)
    server = uvicorn.Server(config)
    app.state.is_ending = lambda: server.should_exit  # who sends events ends then
    server.run(sockets=[listener])
