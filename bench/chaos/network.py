"""The network between the crawl and the servers: a forwarder on loopback that can refuse, stall and cut connections."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

BUFFER = 2**16
CUT_SHARE = 0.02
"""Of the connections: cut after some bytes while the network is bad."""
_REQUEST = re.compile(rb"\w+ (\S+) .*?^host: ([^\r:]+)", re.IGNORECASE | re.MULTILINE | re.DOTALL)


@dataclass
class SeenRequest:
    """A request that passed. As far as the network can tell, it ended with the last byte that came back, or, when none
    did, with its connection, if that was not closed by the crawl."""

    host: str
    target: str
    """What it asks for: a path, or a URL if it is sent to a proxy."""
    started_s: float
    ended_s: float
    is_answered: bool = False


async def _read(reader: asyncio.StreamReader) -> bytes:
    """The next bytes; none when the connection has ended, however it did."""
    try:
        return await reader.read(BUFFER)
    except OSError:
        return b""


class Network:
    """Forwards connections to servers, each through a port of its own; can refuse, stall and cut all of them."""

    def __init__(self, targets: dict[str, int], seed: int) -> None:
        self._targets = targets
        self.ports = dict.fromkeys(targets, 0)
        """Where to connect instead of to the server of a name."""
        self._draw = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._is_flowing = asyncio.Event()
        self.is_cutting = False
        self.requests: list[SeenRequest] = []
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Network:
        self._thread.start()
        self._do(self._listen)
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._refuse)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _do(self, step: Callable[[], object]) -> None:
        async def run() -> None:
            result = step()
            if asyncio.iscoroutine(result):
                await result

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(30)

    async def _listen(self) -> None:
        self._is_flowing.set()
        for name, target in self._targets.items():
            forward = functools.partial(self._forward, target)
            server = await asyncio.start_server(forward, "127.0.0.1", self.ports[name], backlog=512)
            self.ports[name] = server.sockets[0].getsockname()[1]
            self._servers.append(server)

    def _refuse(self) -> None:
        while self._servers:
            self._servers.pop().close()
        for writer in list(self._open):
            writer.transport.abort()

    async def _forward(self, target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self._draw.randrange(40_000) if self.is_cutting and self._draw.random() < CUT_SHARE else -1
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, far_writer}
        try:
            seen: list[SeenRequest] = []
            await asyncio.gather(
                self._copy(reader, far_writer, -1, lambda data: self._note_request(seen, data)),
                self._copy(far_reader, writer, left, lambda data: self._note_answer(seen, reader, data)),
            )
        finally:
            self._open -= {writer, far_writer}
            writer.transport.abort()
            far_writer.transport.abort()

    def _note_request(self, seen: list[SeenRequest], data: bytes) -> None:
        if found := _REQUEST.match(data):
            target, host = (part.decode("latin-1") for part in found.groups())
            seen.append(SeenRequest(host.lower(), target, time.time(), time.time()))
            self.requests.append(seen[-1])

    @staticmethod
    def _note_answer(seen: list[SeenRequest], reader: asyncio.StreamReader, data: bytes) -> None:
        """Bytes came back, or the end of the connection; what comes when the crawl has gone does not count."""
        if seen and not reader.at_eof() and (data or not seen[-1].is_answered):
            seen[-1].ended_s, seen[-1].is_answered = time.time(), bool(data)

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: int, note: Callable[[bytes], None]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await _read(reader):
                note(data)
                await self._is_flowing.wait()
                if 0 <= left < len(data):
                    writer.transport.abort()
                    return
                left -= len(data) if left >= 0 else 0
                writer.write(data)
                await writer.drain()
            note(b"")
            if writer.can_write_eof():
                writer.write_eof()

    def refuse(self) -> None:
        """Refuse all connections from now on, and cut those that are open."""
        self._do(self._refuse)

    def stall(self) -> None:
        """Accept connections, and let nothing through."""
        self._do(self._is_flowing.clear)

    def restore(self) -> None:
        """Work again."""
        self._do(self._is_flowing.set)
        if not self._servers:
            self._do(self._listen)
