"""Real servers on loopback for the tests of `opilio.fetch`: HTTP that may misbehave, DNS, and a proxy."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rrset

from opilio import settings
from opilio.fetch import Client, Response
from opilio.model import Lease, LeaseKind

Handler = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def reply(body: bytes = b"", status: str = "200 OK", length: int | None = None, **headers: str) -> bytes:
    """A complete response; keywords are headers (`Content_Type="text/html"`), a length may be a lie."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def html(body: bytes = b"<html>hello</html>", **headers: str) -> bytes:
    """A complete HTML response."""
    return reply(body, Content_Type="text/html; charset=utf-8", **headers)


class WebServer:
    """Answers paths from a table of bytes (sent as they are) or coroutines (which do as they like)."""

    def __init__(
        self,
        routes: dict[str, bytes | Handler],
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.routes = routes
        self.requests: list[bytes] = []
        self.connections = 0
        self.host = host
        self.port = port
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> WebServer:
        self._thread.start()
        assert self._ready.wait(5)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def answer(self, head: bytes) -> bytes | Handler:
        """What a request gets."""
        return self.routes.get(head.split(b" ", 2)[1].decode(), reply(status="404 Not Found"))

    def paths(self) -> list[str]:
        """The paths that were asked for."""
        return [request.split(b" ", 2)[1].decode() for request in self.requests]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(lambda loop, context: None)  # cut connections are what we are here for
        self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()
        if self._server is not None:
            self._server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.host, self.port, ssl=self._tls, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _deafen(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in list(self._open):
            reset(writer)

    def switch(self, *, on: bool) -> None:
        """Refuse connections from now on and cut those that are open, or listen again on the same port."""
        work = self._listen() if on else self._deafen()
        asyncio.run_coroutine_threadsafe(work, self._loop).result(5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._open.add(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head)
                answer = self.answer(head)
                if not isinstance(answer, bytes):
                    await answer(head, reader, writer)
                    break
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._open.discard(writer)
            writer.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection the hard way, with a TCP reset."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class DnsServer:
    """A name server on UDP. `zone` maps a name to (TTL, addresses); other names do not exist."""

    def __init__(self, zone: dict[str, tuple[int, list[str]]], silent: bool = False) -> None:
        self.zone = zone
        self.asked: list[tuple[str, str]] = []
        self.silent = silent
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(0.1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> DnsServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(5)
        self._socket.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                data, peer = self._socket.recvfrom(4096)
            except TimeoutError:
                continue
            query = dns.message.from_wire(data)
            name = query.question[0].name.to_text(omit_final_dot=True).lower()
            kind = dns.rdatatype.to_text(query.question[0].rdtype)
            self.asked.append((name, kind))
            if not self.silent:
                self._socket.sendto(self._answer(query, name, kind).to_wire(), peer)

    def _answer(self, query: Any, name: str, kind: str) -> Any:
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        if name not in self.zone:
            answer.set_rcode(dns.rcode.NXDOMAIN)
            return answer
        ttl_s, addresses = self.zone[name]
        wanted = [address for address in addresses if (":" in address) == (kind == "AAAA")]
        if wanted:
            answer.answer.append(dns.rrset.from_text(query.question[0].name, ttl_s, "IN", kind, *wanted))
        return answer


class ProxyServer(WebServer):
    """A small HTTP proxy: passes GETs on and opens tunnels, always to one origin, whatever the name."""

    def __init__(self, origin_port: int, tls: ssl.SSLContext | None = None) -> None:
        super().__init__({}, tls)
        self._origin_port = origin_port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        self.requests.append(head)
        there, onward = await asyncio.open_connection("127.0.0.1", self._origin_port)
        method, target, rest = head.split(b" ", 2)
        if method == b"CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n")
        else:
            path = b"/" + target.split(b"/", 3)[3]
            onward.write(b" ".join((method, path, rest)))
        await asyncio.gather(pump(reader, onward), pump(there, writer))


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Pass bytes on until they end."""
    try:
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    finally:
        sink.close()


def make_certificate(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """A self-signed certificate for `name`, and a server's TLS context that shows it."""
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return cert, context


def make_authority(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """The certificate of an authority, and the TLS context of a server for `name`, and for 127.0.0.1, whose certificate
    it signed."""
    make_certificate(folder, "Test Authority")
    authority, cert, request = folder / "cert.pem", folder / "signed.pem", folder / "request.pem"
    for command in (
        f"req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} "
        f"-addext subjectAltName=DNS:{name},IP:127.0.0.1 -keyout {folder / 'signed.key'} -out {request}",
        f"x509 -req -in {request} -CA {authority} -CAkey {folder / 'key.pem'} -days 2 -copy_extensions copy -out {cert}",
    ):
        subprocess.run(["openssl", *command.split()], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, folder / "signed.key")
    return authority, context


@contextmanager
def closed_port() -> Iterator[int]:
    """A port on loopback that refuses connections: bound, so that nobody else gets it, but not listening."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


def to_server(address: str, **fetching: Any) -> settings.Settings:
    """Settings that send every host in .test to one address, with timeouts fit for tests."""
    table: dict[str, Any] = {
        "connect_to": {"*.test": address},
        "connect_timeout_s": 2.0,
        "read_timeout_s": 2.0,
        "total_timeout_s": 5.0,
    }
    return settings.from_table({"fetch": table | fetching})


def fetch(
    config: settings.Settings, url: str, kind: LeaseKind = LeaseKind.PAGE, etag: str = "", last_modified: str = ""
) -> Response:
    """Carry out one lease with a client of its own."""

    async def run() -> Response:
        client = Client(config)
        try:
            return await client.fetch(Lease(1, url, kind, etag, last_modified))
        finally:
            await client.aclose()

    return asyncio.run(run())
