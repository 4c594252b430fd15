"""The HTTP server on loopback, as it runs in a process of its own. It serves recorded webs and the local web alike.

What it answers with is a `ServedWeb`; the server does the rest: HTTP/1.1 with or without TLS, kept connections, latency
and the log. It is a protocol on the bare event loop, as it must be faster than any crawler that is measured against it.
Requests on one connection are answered in their order, whatever each of them waits for. A request in absolute form
(`GET http://host.test/ HTTP/1.1`) is answered as by a proxy. The process ends when the channel to its parent closes
(`opilio.process`), so it never outlives the process that started it (`loopback.py`).
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import socket
import ssl
import struct
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol, cast

import msgspec

from opilio.errors import OpilioError
from opilio.process import Channel, frame, read_message

HTML = "text/html; charset=utf-8"
LOG, CLEAR = b"log", b"clear"
MAX_HEAD_BYTES = 64 * 2**10
CONNECTIONS_PER_WORKER = 10**9
TLS_HANDSHAKE = 0x16  # the first byte of a connection that begins with TLS


class ServerSetup(msgspec.Struct, frozen=True):
    """What a server process needs to know besides its web."""

    listen_fd: int
    worker: int
    keep_log: bool
    certificate: str
    """File with a key and a certificate; '' when the server has no TLS."""


class Request(msgspec.Struct, frozen=True):
    """One line of the log. Times are those of `time.time()`."""

    url: str
    """Empty for a request without a host."""
    method: str
    """Empty for a request that cannot be understood."""
    started_s: float
    ended_s: float = math.inf
    """Infinite while the answer is under way."""
    status: int = 0
    """0: no answer was sent, or one without a status line."""
    bytes: int = 0
    host: str = ""
    path: str = ""
    user_agent: str = ""
    connection: int = 0
    in_flight: int = 1
    """Requests open on this host when this one arrived, itself included."""


class Exchange:
    """A request that was read and waits for its answer, with its line of the log in the making."""

    __slots__ = (
        "authority", "bytes_sent", "connection", "ended_s", "headers", "host", "in_flight", "keep_alive", "method",
        "path", "scheme", "started_s", "status",
    )  # fmt: skip

    def __init__(
        self, method: str, scheme: str, authority: str, path: str, headers: dict[bytes, bytes], keep_alive: bool
    ) -> None:
        self.method, self.scheme, self.authority, self.path, self.headers = method, scheme, authority, path, headers
        self.host = authority.partition(":")[0].lower().rstrip(".")
        self.keep_alive = keep_alive
        """False: the connection is closed after the answer."""
        self.started_s = 0.0
        self.ended_s = math.inf
        self.status = self.bytes_sent = self.connection = self.in_flight = 0

    @property
    def url(self) -> str:
        """The address that was requested; '' without a host."""
        return f"{self.scheme}://{self.authority.lower()}{self.path}" if self.host else ""

    def as_request(self) -> Request:
        """The line of the log as it stands."""
        return Request(
            url=self.url,
            method=self.method,
            started_s=self.started_s,
            ended_s=self.ended_s,
            status=self.status,
            bytes=self.bytes_sent,
            host=self.host,
            path=self.path,
            user_agent=self.headers.get(b"user-agent", b"").decode("latin-1"),
            connection=self.connection,
            in_flight=self.in_flight,
        )


class Wire(Protocol):
    """What a handler may do to the connection it answers on."""

    async def answer(
        self, status: int, body: str | bytes, content_type: str = HTML, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Send a well-formed answer."""

    async def raw(self, data: bytes, status: int = 200) -> None:
        """Send these bytes as they are and wait for room; the connection is closed after the answer."""

    def reset(self) -> None:
        """End the connection with a TCP reset."""


Handler = Callable[[Exchange, Wire], Awaitable[None]]


class ServedWeb(Protocol):
    """What the server answers with."""

    def answer(self, exchange: Exchange) -> bytes:
        """The answer as it is sent. Sets the status of the exchange, and its `keep_alive` to False to close after it.

        Requests that cannot be understood have no method.
        """
        ...

    def handler(self, exchange: Exchange) -> Handler | None:
        """Who writes the answer piece by piece, for hosts that misbehave; None: `answer` gives it."""
        ...

    def latency_s(self, exchange: Exchange) -> float:
        """How long to wait before the answer is sent."""
        ...


def head(status: int, content_type: str, length: int | None, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """Status line and header of an answer, including the empty line."""
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


def parse_request(request_head: bytes, scheme: str) -> Exchange:
    """A request from its head; one that cannot be understood has an empty method and ends the connection."""
    line, *header_lines = request_head.lstrip(b"\r\n").split(b"\r\n")
    headers: dict[bytes, bytes] = {}
    for header_line in header_lines:
        name, _, value = header_line.partition(b":")
        headers[name.lower()] = value.strip()
    words = line.decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return Exchange("", scheme, "", line.decode("latin-1")[:200], headers, False)
    method, target, version = words
    authority, path = headers.get(b"host", b"").decode("latin-1"), target
    if target[:1] != "/":  # absolute form: we are used as a proxy
        scheme, _, rest = target.partition("://")
        scheme = scheme.lower()
        authority, _, path = rest.partition("/") if scheme in ("http", "https") else ("", "", target)
        path = f"/{path}"
    if not authority:
        return Exchange("", scheme, "", target[:200], headers, False)
    connection = headers.get(b"connection", headers.get(b"proxy-connection", b"")).lower()
    keep_alive = connection != b"close" if version == "HTTP/1.1" else connection == b"keep-alive"
    return Exchange(method, scheme, authority, path, headers, keep_alive)


class HttpServer:
    """What all connections of one process share."""

    def __init__(self, web: ServedWeb, setup: ServerSetup) -> None:
        self.web = web
        self.log: list[Exchange] = []
        self.open_on_host: Counter[str] = Counter()
        self.connection_ids = itertools.count(setup.worker * CONNECTIONS_PER_WORKER + 1)
        self._keep_log = setup.keep_log
        self.tls: ssl.SSLContext | None = None
        if setup.certificate:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(setup.certificate)

    def arrived(self, exchange: Exchange) -> None:
        """Note a request."""
        exchange.started_s = time.time()
        self.open_on_host[exchange.host] += 1
        exchange.in_flight = self.open_on_host[exchange.host]
        if self._keep_log:
            self.log.append(exchange)

    def ended(self, exchange: Exchange) -> None:
        """Note that its answer is out, or will never be."""
        exchange.ended_s = time.time()
        self.open_on_host[exchange.host] -= 1


class TlsLayer:
    """TLS over bytes: what comes from the client goes in, what is for the client comes out."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._connection = context.wrap_bio(self._in, self._out, server_side=True)

    def opened(self, data: bytes) -> bytes:
        """The plain bytes in what the client sent; raises ssl.SSLError."""
        self._in.write(data)
        plain: list[bytes] = []
        try:
            while piece := self._connection.read(2**16):  # does the handshake first when that is not done yet
                plain.append(piece)
        except ssl.SSLWantReadError:
            pass
        return b"".join(plain)

    def sealed(self, plain: bytes = b"") -> bytes:
        """What must be sent to the client, `plain` with it."""
        if plain:
            self._connection.write(plain)
        return self._out.read()


class HttpConnection(asyncio.Protocol):
    """One client. `_pending` are the requests without an answer, in order; one at a time is being answered."""

    def __init__(self, server: HttpServer) -> None:
        self.server = server
        self.id = next(server.connection_ids)
        self._tls: TlsLayer | None = None
        self._scheme = "http"
        self._has_begun = False
        self._buffer = b""
        self._body_bytes_to_skip = 0
        self._pending: deque[Exchange] = deque()
        self._is_answering = False
        self._is_closing = False
        self.room = asyncio.Event()
        self.room.set()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: nothing that was pending is answered."""
        self._is_closing = True
        self.room.set()
        if self._task is not None:
            self._task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        while self._pending:
            self.server.ended(self._pending.popleft())

    def pause_writing(self) -> None:
        """The client reads more slowly than we write."""
        self.room.clear()

    def resume_writing(self) -> None:
        """There is room again."""
        self.room.set()
        self._answer_next()

    def data_received(self, data: bytes) -> None:
        """Read every request that is complete, then answer."""
        if not self._has_begun:
            self._has_begun = True
            if data[0] == TLS_HANDSHAKE and self.server.tls is not None:
                self._tls, self._scheme = TlsLayer(self.server.tls), "https"
        if self._tls is not None:
            try:
                data = self._tls.opened(data)
            except ssl.SSLError:
                self.transport.close()
                return
            self.transport.write(self._tls.sealed())
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

    def write(self, data: bytes) -> None:
        """Send bytes to the client."""
        self.transport.write(data if self._tls is None else self._tls.sealed(data))

    def _take(self, request_head: bytes) -> None:
        exchange = parse_request(request_head, self._scheme)
        exchange.connection = self.id
        length = exchange.headers.get(b"content-length", b"0")
        self._body_bytes_to_skip = int(length) if length.isdigit() else 0
        if not exchange.keep_alive:
            self._buffer = b""
            self._is_closing = True  # whatever follows on this connection is not a request
        self.server.arrived(exchange)
        self._pending.append(exchange)

    def _answer_next(self) -> None:
        while self._pending and not self._is_answering and self.room.is_set() and not self.transport.is_closing():
            exchange = self._pending[0]
            self._is_answering = True
            handler = self.server.web.handler(exchange)
            latency_s = self.server.web.latency_s(exchange)
            if handler is not None:
                self._task = asyncio.ensure_future(self._handle(handler, exchange, latency_s))
            elif latency_s > 0 and (left_s := exchange.started_s + latency_s - time.time()) > 0:
                self._timer = asyncio.get_running_loop().call_later(left_s, self._answer_late, exchange)
            else:
                self._answer(exchange)

    def _answer_late(self, exchange: Exchange) -> None:
        self._answer(exchange)
        self._answer_next()

    def _answer(self, exchange: Exchange) -> None:
        data = self.server.web.answer(exchange)
        exchange.bytes_sent = len(data)
        self.write(data)
        self._end(exchange, close=not exchange.keep_alive)

    def _end(self, exchange: Exchange, *, close: bool) -> None:
        self.server.ended(exchange)
        self._pending.popleft()
        self._is_answering = False
        if close:
            self._is_closing = True
            self.transport.close()

    async def _handle(self, handler: Handler, exchange: Exchange, latency_s: float) -> None:
        wire = ConnectionWire(self, exchange)
        await asyncio.sleep(latency_s)
        await handler(exchange, wire)
        if self._pending and self._pending[0] is exchange:
            self._end(exchange, close=wire.must_close or not exchange.keep_alive)
            self._answer_next()


class ConnectionWire:
    """What handlers write to: a `Wire` on a connection."""

    def __init__(self, connection: HttpConnection, exchange: Exchange) -> None:
        self.connection, self.exchange = connection, exchange
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
        await self.connection.room.wait()
        await asyncio.sleep(0)  # other connections have their turn between two pieces of an endless body

    def reset(self) -> None:
        """End the connection with a TCP reset: linger zero, then close."""
        self.must_close = True
        real = self.connection.transport.get_extra_info("socket")
        with socket.socket(fileno=os.dup(real.fileno())) as twin:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.transport.abort()

    def _write(self, data: bytes, status: int) -> None:
        self.exchange.status = status
        self.exchange.bytes_sent += len(data)
        self.connection.write(data)


# -- the process


def run_server(channel: Channel, setup: ServerSetup, make_web: Callable[[], ServedWeb]) -> None:
    """The work of a server process: serve until the channel closes, in the fastest event loop there is.

    The first message says what is wrong, and what to do about it: empty words when connections are accepted.
    """
    try:
        web = make_web()
    except OpilioError as error:
        channel.send(msgspec.msgpack.encode((error.message, error.hint)))
        return
    serving = _serve(channel, HttpServer(web, setup), socket.socket(fileno=setup.listen_fd))
    try:
        import uvloop  # noqa: PLC0415  (not on every platform)
    except ImportError:
        asyncio.run(serving)
    else:
        uvloop.run(serving)


async def _serve(channel: Channel, server: HttpServer, listening: socket.socket) -> None:
    await asyncio.get_running_loop().create_server(lambda: HttpConnection(server), sock=listening, backlog=4096)
    reader, writer = await channel.streams()
    writer.write(frame(msgspec.msgpack.encode(("", ""))))
    while message := await read_message(reader):
        log = server.log
        if message == CLEAR:
            log = server.log = []
        writer.write(frame(msgspec.msgpack.encode([exchange.as_request() for exchange in log])))
