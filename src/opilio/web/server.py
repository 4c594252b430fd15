"""The server around an application: uvicorn, with limits on what one client can take from the others.

A client has a few seconds for the head of a request and two minutes for its body, and must read the answer at a certain
rate; otherwise its connection is closed. The size of a head and the number of connections are limited, too. uvicorn
itself closes idle connections only, so each connection looks at itself every few seconds.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 256
MAX_HEAD_BYTES = 2**16
LOOK_S = 5.0  # how often a connection looks at itself
HEAD_TIMEOUT_S = 10.0
BODY_TIMEOUT_S = 120.0
MIN_READ_BYTES_PER_S = 4096  # a client that reads an answer more slowly is not waited for
ENDS_IN_S = 2  # a browser that listens for events does not keep the server from ending
_FULL = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class LimitedProtocol(H11Protocol):
    """One connection, which is closed when its client is too slow."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._looking: asyncio.TimerHandle | None = None
        self._doing: object = None
        self._since_s = 0.0
        self._unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.write(_FULL)
            transport.close()
            return
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._looking is not None:
            self._looking.cancel()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Close the connection when the client is too slow; else look again later."""
        now_s, state = self.loop.time(), self.conn.their_state
        doing = (state, self.cycle)  # every request has a cycle of its own
        if doing != self._doing:
            self._doing, self._since_s = doing, now_s
        most_s = {h11.IDLE: HEAD_TIMEOUT_S, h11.SEND_BODY: BODY_TIMEOUT_S}.get(state)
        unread_bytes = self.transport.get_write_buffer_size()
        least_bytes = min(self._unread_bytes, MIN_READ_BYTES_PER_S * LOOK_S)
        is_stuck = unread_bytes > 0 and self._unread_bytes > 0 and self._unread_bytes - unread_bytes < least_bytes
        if is_stuck or (most_s is not None and now_s - self._since_s >= most_s):
            self.transport.abort()
            return
        self._unread_bytes = unread_bytes
        self._looking = self.loop.call_later(LOOK_S, self._look)


def make_server(app: ASGIApp, ends_in_s: int = ENDS_IN_S, *, sets_logging: bool = True) -> uvicorn.Server:
    """A server for an application, with these limits; it sets how it logs unless the caller has done so."""
    config = uvicorn.Config(
        app, http=LimitedProtocol, ws="none", h11_max_incomplete_event_size=MAX_HEAD_BYTES, log_level="warning",
        access_log=False, server_header=False, timeout_graceful_shutdown=ends_in_s,
        log_config=uvicorn.config.LOGGING_CONFIG if sets_logging else None,
    )  # fmt: skip
    return uvicorn.Server(config)
