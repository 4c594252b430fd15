"""One request and its answer, as the server's parts speak of them."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

import msgspec

HTML = "text/html; charset=utf-8"


class Request(msgspec.Struct, frozen=True):
    """One line of the server's log. Times are those of `time.time()`."""

    host: str
    path: str
    status: int  # 0: no answer was sent, or one without a status line
    started_s: float
    ended_s: float  # infinite while the answer is under way
    bytes: int
    user_agent: str
    connection: int
    in_flight: int  # requests open on this host when this one arrived, itself included


class Config(msgspec.Struct, frozen=True):
    """What a server process is told when it starts."""

    web_file: str
    listen_fd: int
    worker: int
    latency_s: float
    keep_log: bool
    misbehaving: bool
    gzip: bool


class Exchange:
    """A request that was read and waits for its answer, with its line of the log in the making."""

    __slots__ = (
        "bytes_sent", "connection", "ended_s", "headers", "host", "in_flight", "keep_alive", "method", "path",
        "started_s", "status",
    )  # fmt: skip

    def __init__(self, method: str, host: str, path: str, headers: dict[bytes, bytes], keep_alive: bool) -> None:
        self.method, self.host, self.path, self.headers = method, host, path, headers
        self.keep_alive = keep_alive
        self.started_s = 0.0
        self.ended_s = math.inf
        self.status = self.bytes_sent = self.connection = self.in_flight = 0

    def as_request(self) -> Request:
        """The line of the log as it stands."""
        return Request(
            self.host,
            self.path,
            self.status,
            self.started_s,
            self.ended_s,
            self.bytes_sent,
            self.headers.get(b"user-agent", b"").decode("latin-1"),
            self.connection,
            self.in_flight,
        )


class Wire(Protocol):
    """What a misbehaving host may do to the connection it answers on."""

    async def answer(
        self, status: int, body: str | bytes, content_type: str = HTML, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Send a well-formed answer."""

    async def raw(self, data: bytes, status: int = 200) -> None:
        """Send these bytes as they are and wait for room; the connection is closed after the answer."""

    def reset(self) -> None:
        """End the connection with a TCP reset."""


Handler = Callable[[Exchange, Wire], Awaitable[None]]


def head(status: int, content_type: str, length: int | None, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """Status line and header of an answer, up to and with the empty line."""
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:
        reason = "Unknown"
    lines = [f"HTTP/1.1 {status} {reason}", "Server: opilio-localweb", f"Date: {formatdate(usegmt=True)}"]
    if content_type:
        lines.append(f"Content-Type: {content_type}")
    if length is not None:
        lines.append(f"Content-Length: {length}")
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
