"""Messages between a parent and its child: each is its length in eight bytes, then its bytes."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_LENGTH_BYTES = 8
_SMALL_BYTES = 2**16
"""Up to this size, length and message are copied together and sent at once: the other side wakes up once."""


def frame(message: bytes) -> bytes:
    """A message with its length before it, as it is sent."""
    return len(message).to_bytes(_LENGTH_BYTES) + message


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """The next message of a stream; b'' at its end."""
    try:
        size = int.from_bytes(await reader.readexactly(_LENGTH_BYTES))
        return await reader.readexactly(size)
    except (EOFError, ConnectionError):  # an incomplete read is an EOFError
        return b""


class Channel:
    """One end of the connection between a parent and its child. No message is empty.

    Deadlines are times of `time.monotonic()`; after one, TimeoutError is raised and the channel is of no more use.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._is_in_loop = False

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._socket.fileno()

    def send(self, message: bytes, deadline_s: float | None = None) -> None:
        """Send a message. Raises BrokenPipeError or ConnectionError when the other end is closed."""
        self._limit(deadline_s)
        if len(message) <= _SMALL_BYTES:
            self._socket.sendall(frame(message))
        else:
            self._socket.sendall(len(message).to_bytes(_LENGTH_BYTES))
            self._socket.sendall(message)

    def receive(self, deadline_s: float | None = None, max_bytes: int = 0) -> bytearray:
        """The next message; empty when the other end is closed, or sends more than `max_bytes`."""
        size = int.from_bytes(self._exactly(_LENGTH_BYTES, deadline_s))
        if max_bytes and size > max_bytes:
            return bytearray()
        return self._exactly(size, deadline_s)

    async def streams(self, limit: int = 2**16) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The channel for use in an event loop, with `read_message` and `frame`: from now on the writer closes it."""
        import asyncio  # noqa: PLC0415  (a process without a loop does not need it)

        self._is_in_loop = True
        return await asyncio.open_connection(sock=self._socket, limit=limit)

    def close(self) -> None:
        """Close this end: the other one sees the end of the stream."""
        if not self._is_in_loop:
            self._socket.close()

    def _limit(self, deadline_s: float | None) -> None:
        if deadline_s is None:
            return
        left_s = deadline_s - time.monotonic()
        if left_s <= 0.0:
            raise TimeoutError
        self._socket.settimeout(left_s)

    def _exactly(self, size: int, deadline_s: float | None) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            self._limit(deadline_s)
            try:
                got = self._socket.recv_into(view)
            except ConnectionError:
                got = 0
            if not got:
                return bytearray()
            view = view[got:]
        return data
