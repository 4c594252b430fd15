"""The process that serves a recorded web: HTTP/1.1, with or without TLS, on a loopback socket it is handed.

Requests on one connection are answered in their order, each when its latency has passed; a request in absolute form is
answered as by a proxy. Heads go out as they were recorded, with not a line added. The process ends when its standard
input does, so it never outlives the process that started it.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import time
import zlib
from collections import deque
from pathlib import Path
from typing import cast

import msgspec

from opilio.lab.webs.recorded import ABSENT, RecordedWeb
from opilio.lab.webs.server_pipe import listen_to_parent, run
from opilio.lab.webs.transport import answer_of
from opilio.model import normalize

MAX_HEAD_BYTES = 64 * 2**10
TLS_HANDSHAKE = 0x16  # the first byte of a connection that begins with TLS
_NO_BODY = (204, 304)
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_NOT_ALLOWED = b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\n\r\n"


class Request(msgspec.Struct):
    """One line of the log. Times are those of `time.time()`."""

    url: str
    method: str
    started_s: float
    ended_s: float = 0.0
    """When the answer was written; 0 while it is awaited."""
    status: int = 0
    bytes: int = 0
    keep_alive: bool = True


class Config(msgspec.Struct, frozen=True):
    """What the process is told when it starts."""

    web: str
    listen_fd: int
    latency_s: float
    latency_spread_s: float
    keep_log: bool
    certificate: str
    """File with a key and a certificate; '' when TLS is not spoken."""


class Server:
    """What all connections share."""

    def __init__(self, web: RecordedWeb, config: Config) -> None:
        self.web, self.config = web, config
        self.log: list[Request] = []
        self.tls: ssl.SSLContext | None = None
        if config.certificate:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(config.certificate)

    def dump_log(self) -> bytes:
        """The log as a message."""
        return msgspec.msgpack.encode(self.log)

    def clear_log(self) -> None:
        """Forget what was asked so far."""
        self.log = []

    def latency_s(self, url: str) -> float:
        """How long the answer to a URL takes: always as long as the last time."""
        share = zlib.crc32(url.encode("latin-1", "replace")) / 2**31 - 1  # -1 to 1
        return max(0.0, self.config.latency_s + share * self.config.latency_spread_s)

    def answer(self, request: Request) -> tuple[bytes, bool]:
        """The bytes of an answer, and whether the connection ends with it."""
        if not request.url:
            request.status = 400
            return _BAD_REQUEST, True
        if request.method not in ("GET", "HEAD"):
            request.status = 405
            return _NOT_ALLOWED, not request.keep_alive
        url = request.url
        if self.web.number(url) == ABSENT:
            url = normalize(url) or url
        head, body, request.status = answer_of(self.web, url)
        open_end = b"\r\ncontent-length:" not in head.lower() and request.status not in _NO_BODY
        data = head if request.method == "HEAD" else head + body
        return data, open_end or not request.keep_alive


class Tls:
    """TLS over bytes: what comes from the client goes in, what is for the client comes out."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._connection = context.wrap_bio(self._in, self._out, server_side=True)

    def opened(self, data: bytes) -> bytes:
        """The plain bytes in what the client sent; raises ssl.SSLError."""
        self._in.write(data)
        plain: list[bytes] = []
        try:
            while piece := self._connection.read(2**16):  # shakes hands first when that is not done yet
                plain.append(piece)
        except ssl.SSLWantReadError:
            pass
        return b"".join(plain)

    def sealed(self, plain: bytes = b"") -> bytes:
        """What must be sent to the client, `plain` with it."""
        if plain:
            self._connection.write(plain)
        return self._out.read()


class Connection(asyncio.Protocol):
    """One client. The first request that waits is the one whose latency runs."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._tls: Tls | None = None
        self._begun = False
        self._buffer = b""
        self._waiting: deque[Request] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Take every request that is complete."""
        if not self._begun:
            self._begun = True
            if data[0] == TLS_HANDSHAKE and self._server.tls is not None:
                self._tls = Tls(self._server.tls)
        if self._tls is not None:
            try:
                data = self._tls.opened(data)
            except ssl.SSLError:
                self._transport.close()
                return
            self._transport.write(self._tls.sealed())
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n")) >= 0:
            self._take(self._buffer[:end])
            self._buffer = self._buffer[end + 4 :]
        if len(self._buffer) > MAX_HEAD_BYTES:
            self._take(b"")

    def _take(self, head: bytes) -> None:
        request = parse_request(head, "https" if self._tls else "http")
        if self._server.config.keep_log:
            self._server.log.append(request)
        self._waiting.append(request)
        if len(self._waiting) == 1:
            self._answer_next()

    def _answer_next(self) -> None:
        while self._waiting and not self._transport.is_closing():
            request = self._waiting[0]
            left_s = request.started_s + self._server.latency_s(request.url) - time.time()
            if left_s > 0:
                self._timer = asyncio.get_running_loop().call_later(left_s, self._answer_next)
                return
            data, last = self._server.answer(request)
            self._transport.write(self._tls.sealed(data) if self._tls else data)
            request.bytes, request.ended_s = len(data), time.time()
            self._waiting.popleft()
            if last:
                self._transport.close()


def parse_request(head: bytes, scheme: str) -> Request:
    """A request; one that cannot be understood has no URL."""
    line, *rest = head.lstrip(b"\r\n").decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
    request = Request("", "", time.time())
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return request
    request.method, target, version = words
    connection = headers.get("connection", headers.get("proxy-connection", "")).lower()
    request.keep_alive = connection != "close" if version == "HTTP/1.1" else connection == "keep-alive"
    if target.lower().startswith(("http://", "https://")):  # we are asked as a proxy
        request.url = target
    elif headers.get("host") and target.startswith("/"):
        request.url = f"{scheme}://{headers['host'].lower()}{target}"
    return request


async def _serve(config: Config) -> None:
    server = Server(RecordedWeb.open(Path(config.web)), config)
    listening = socket.socket(fileno=config.listen_fd)
    await asyncio.get_running_loop().create_server(lambda: Connection(server), sock=listening, backlog=4096)
    await listen_to_parent(server.dump_log, server.clear_log)


def main(arguments: list[str]) -> None:
    """The body of the process; its configuration is the one argument, as JSON."""
    run(_serve(msgspec.json.decode(arguments[0], type=Config)))


if __name__ == "__main__":
    main(sys.argv[1:])
