"""What a worker and the process that reads its documents say to each other.

A message is its length in four bytes, then msgpack. First comes the setup, answered by `READY`; then requests one way
and replies the other, strictly in turn. `BEGUN` goes before each reply, as soon as the request has arrived: a process
that ends without having said it was lost for other reasons than the file.
"""

from __future__ import annotations

import socket
import time

import msgspec

from opilio.analyze.content import Content, Failure
from opilio.settings import Documents

READY, BEGUN = b"ready", b"begun"
MAX_REPLY_BYTES = 1 << 26
"""Far above what any content can have: 500,000 characters of text, twice, and some thousand links."""


class Request(msgspec.Struct, frozen=True, array_like=True):
    """A file to be read."""

    kind: str
    body: bytes
    url: str
    name: str
    charset: str
    max_links: int
    link_context: bool
    obey_rel_nofollow: bool


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """What came of it: one of the two."""

    content: Content | None = None
    failure: Failure | None = None
    is_last: bool = False
    """The process is not to be used again: it ran out of memory."""


encoder = msgspec.msgpack.Encoder()
documents_decoder = msgspec.msgpack.Decoder(Documents)
request_decoder = msgspec.msgpack.Decoder(Request)
reply_decoder = msgspec.msgpack.Decoder(Reply)


def send(connection: socket.socket, message: bytes) -> None:
    """Send a message."""
    connection.sendall(len(message).to_bytes(4, "big"))
    connection.sendall(message)


def receive(connection: socket.socket, deadline_s: float | None = None, max_bytes: int = 0) -> bytes:
    """The next message; b'' at the end of the stream. Raises TimeoutError at `deadline_s` (monotonic)."""
    size = int.from_bytes(_exactly(connection, 4, deadline_s), "big")
    if max_bytes and size > max_bytes:
        return b""
    return bytes(_exactly(connection, size, deadline_s))


def _exactly(connection: socket.socket, size: int, deadline_s: float | None) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        if deadline_s is not None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0.0:
                raise TimeoutError
            connection.settimeout(left_s)
        got = connection.recv_into(view)
        if not got:
            return bytearray()
        view = view[got:]
    return data
