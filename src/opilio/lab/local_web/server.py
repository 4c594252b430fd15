"""The server process: HTTP/1.1 on a loopback socket it is handed, answering for every host of the local web.

It is a protocol on the bare event loop, as it must be faster than any crawler that is measured against it. Requests on
one connection are answered in their order, whatever each of them waits for; a request in absolute form (`GET
http://host.test/ HTTP/1.1`) is answered as by a proxy. The process ends when its standard input does, so it never
outlives the process that started it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import struct
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable
from email.utils import formatdate
from pathlib import Path
from typing import cast

import msgspec

from opilio.lab.local_web.builder import load
from opilio.lab.local_web.exchange import (
    HTML,
    Config,
    Exchange,
    Handler,
    PreparedResponse,
    error_response,
    head,
    responses_of,
)
from opilio.lab.local_web.trouble import trouble_handlers
from opilio.lab.webs.server_pipe import listen_to_parent, run

MAX_HEAD_BYTES = 64 * 2**10
CONNECTIONS_PER_WORKER = 10**9

_NOT_FOUND = error_response(404, "No such page in the local web.")
_BAD_REQUEST = error_response(400, "This request cannot be understood.")
_NOT_ALLOWED = error_response(405, "Only GET and HEAD are answered here.")


class Server:
    """What all connections of one process share."""

    def __init__(self, table: dict[str, PreparedResponse], handlers: dict[str, Handler], config: Config) -> None:
        self.table, self.handlers, self.config = table, handlers, config
        self.log: list[Exchange] = []
        self.open_on_host: Counter[str] = Counter()
        self.connection_ids = itertools.count(config.worker * CONNECTIONS_PER_WORKER + 1)
        self._date = (0, b"")

    def arrived(self, exchange: Exchange) -> None:
        """Note a request."""
        exchange.started_s = time.time()
        self.open_on_host[exchange.host] += 1
        exchange.in_flight = self.open_on_host[exchange.host]
        if self.config.keep_log:
            self.log.append(exchange)

    def ended(self, exchange: Exchange) -> None:
        """Note that its answer is out, or will never be."""
        exchange.ended_s = time.time()
        self.open_on_host[exchange.host] -= 1

    def dump_log(self) -> bytes:
        """The log as a message."""
        return msgspec.msgpack.encode([exchange.as_request() for exchange in self.log])

    def clear_log(self) -> None:
        """Forget what was asked so far."""
        self.log = []

    def find(self, exchange: Exchange) -> PreparedResponse:
        """The answer to a request; a query string that names no page of its own is ignored, as by a file server."""
        if exchange.method not in ("GET", "HEAD"):
            return _NOT_ALLOWED if exchange.method else _BAD_REQUEST
        key = exchange.host + exchange.path
        return self.table.get(key) or self.table.get(key.partition("?")[0]) or _NOT_FOUND

    def date_line(self) -> bytes:
        """The Date line and the empty line, made once a second."""
        now_s = int(time.time())
        if self._date[0] != now_s:
            self._date = (now_s, f"Date: {formatdate(now_s, usegmt=True)}\r\n\r\n".encode())
        return self._date[1]


class Connection(asyncio.Protocol):
    """One client. `_pending` holds what was asked and not answered, in order; one at a time is being answered."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.id = next(server.connection_ids)
        self._buffer = b""
        self._body_bytes_to_skip = 0
        self._pending: deque[Exchange] = deque()
        self._is_answering = False
        self._is_closing = False
        self._room = asyncio.Event()
        self._room.set()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: nothing that was pending is answered."""
        self._is_closing = True
        self._room.set()
        if self._task is not None:
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        while self._pending:
            self.server.ended(self._pending.popleft())

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self._room.clear()

    def resume_writing(self) -> None:
        """There is room again."""
        self._room.set()
        self._answer_next()

    def data_received(self, data: bytes) -> None:
        """Read every request that is complete, then answer."""
        self._buffer = self._buffer + data if self._buffer else data
        while self._buffer and not self._is_closing:
            if self._body_bytes_to_skip:
                skipped = min(self._body_bytes_to_skip, len(self._buffer))
                self._buffer = self._buffer[skipped:]
                self._body_bytes_to_skip -= skipped
                continue
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                if len(self._buffer) > MAX_HEAD_BYTES:
                    self._take(b"")
                break
            request_head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            self._take(request_head)
        self._answer_next()

    def _take(self, request_head: bytes) -> None:
        exchange = parse_request(request_head)
        exchange.connection = self.id
        length = exchange.headers.get(b"content-length", b"0")
        self._body_bytes_to_skip = int(length) if length.isdigit() else 0
        if not exchange.keep_alive:
            self._buffer = b""
            self._is_closing = True  # whatever follows on this connection is not a request
        self.server.arrived(exchange)
        self._pending.append(exchange)

    def _answer_next(self) -> None:
        while self._pending and not self._is_answering and self._room.is_set() and not self.transport.is_closing():
            exchange = self._pending[0]
            handler = self.server.handlers.get(exchange.host)
            wait_s = exchange.started_s + self.server.config.latency_s - time.time()
            self._is_answering = True
            if handler is not None and exchange.method in ("GET", "HEAD"):
                self._task = asyncio.ensure_future(self._misbehave(handler, exchange))
            elif self.server.config.latency_s > 0 and wait_s > 0:
                self._timer = asyncio.get_running_loop().call_later(wait_s, self._answer_late, exchange)
            else:
                self._answer(exchange)

    def _answer_late(self, exchange: Exchange) -> None:
        self._answer(exchange)
        self._answer_next()

    def _answer(self, exchange: Exchange) -> None:
        """Write a ready answer in the form the request asks for."""
        response = self.server.find(exchange)
        response_head, body, exchange.status = response.head, response.body, response.status
        if response.is_unchanged(exchange.headers):
            response_head, body, exchange.status = response.unchanged_head, b"", 304
        elif response.gzip_body and b"gzip" in exchange.headers.get(b"accept-encoding", b""):
            response_head, body = response.gzip_head, response.gzip_body
        if exchange.method == "HEAD":
            body = b""
        connection = b"" if exchange.keep_alive else b"Connection: close\r\n"
        data = b"".join((response_head, connection, self.server.date_line(), body))
        exchange.bytes_sent = len(data)
        self.transport.write(data)
        self._end(exchange, close=not exchange.keep_alive)

    def _end(self, exchange: Exchange, *, close: bool) -> None:
        self.server.ended(exchange)
        self._pending.popleft()
        self._is_answering = False
        if close:
            self._is_closing = True
            self.transport.close()

    async def _misbehave(self, handler: Handler, exchange: Exchange) -> None:
        wire = TransportWire(self.transport, self._room, exchange)
        await asyncio.sleep(self.server.config.latency_s)
        await handler(exchange, wire)
        if self._pending and self._pending[0] is exchange:
            self._end(exchange, close=wire.must_close or not exchange.keep_alive)
            self._answer_next()


class TransportWire:
    """What misbehaving hosts write to: a `Wire` on a transport."""

    def __init__(self, transport: asyncio.Transport, room: asyncio.Event, exchange: Exchange) -> None:
        self.transport, self.room, self.exchange = transport, room, exchange
        self.must_close = False

    async def answer(
        self, status: int, body: str | bytes, content_type: str = HTML, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Send a well-formed answer."""
        data = body.encode() if isinstance(body, str) else body
        shown = b"" if self.exchange.method == "HEAD" else data
        self._write(head(status, content_type, len(data), headers) + shown, status)

    async def raw(self, data: bytes, status: int = 200) -> None:
        """Send bytes as they are."""
        self.must_close = True
        self._write(data, status)
        await self.room.wait()
        await asyncio.sleep(0)  # other connections have their turn between two pieces of an endless body

    def reset(self) -> None:
        """End the connection with a TCP reset: linger zero, then close."""
        self.must_close = True
        real = self.transport.get_extra_info("socket")
        with socket.socket(fileno=os.dup(real.fileno())) as twin:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _write(self, data: bytes, status: int) -> None:
        self.exchange.status = status
        self.exchange.bytes_sent += len(data)
        self.transport.write(data)


def parse_request(request_head: bytes) -> Exchange:
    """A request from its head; one that cannot be understood has an empty method and ends the connection."""
    line, *header_lines = request_head.lstrip(b"\r\n").split(b"\r\n")
    headers: dict[bytes, bytes] = {}
    for header_line in header_lines:
        name, _, value = header_line.partition(b":")
        headers[name.lower()] = value.strip()
    words = line.decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return Exchange("", "", line.decode("latin-1")[:200], headers, False)
    method, target, version = words
    host = headers.get(b"host", b"").decode("latin-1")
    if target[:7].lower() == "http://":  # absolute form: we are asked as a proxy
        host, _, path = target[7:].partition("/")
        target = "/" + path
    host = host.partition(":")[0].lower().rstrip(".")
    connection = headers.get(b"connection", headers.get(b"proxy-connection", b"")).lower()
    keep_alive = connection != b"close" if version == "HTTP/1.1" else connection == b"keep-alive"
    if not host:
        return Exchange("", "", target, headers, False)
    return Exchange(method, host, target, headers, keep_alive)


async def _serve(config: Config) -> None:
    web = load(Path(config.web_file))
    if web is None:
        sys.exit(f"{config.web_file}: not a local web")
    handlers = trouble_handlers(web.seed) if config.misbehaving else {}
    server = Server(responses_of(web, gzip=config.gzip), handlers, config)
    listening = socket.socket(fileno=config.listen_fd)
    await asyncio.get_running_loop().create_server(lambda: Connection(server), sock=listening, backlog=4096)
    await listen_to_parent(server.dump_log, server.clear_log)


def main(arguments: list[str]) -> None:
    """The body of a server process; its configuration is the one argument, as JSON."""
    run(_serve(msgspec.json.decode(arguments[0], type=Config)))


if __name__ == "__main__":
    main(sys.argv[1:])
