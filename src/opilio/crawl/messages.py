"""What engine and worker processes say to each other, and how it goes over a socket.

A message is its length in four bytes, then msgpack: first the setup of a worker, then orders one way (leases, a new
model) and lists of visits the other. A process that may have to wait for others before it is ready says so first, with
a greeting.
"""

from __future__ import annotations

import asyncio

import msgspec

from opilio.model import Lease, Visit


class WorkerSetup(msgspec.Struct, frozen=True):
    """All a worker must be told, as one message."""

    settings: dict[str, object]
    model: bytes
    """What pages are judged by until an order brings another; b'': nothing, pages are not judged."""
    warc_folder: str
    name: str
    link_words: bool = False
    """Whether the strategy looks at the words of links."""
    earlier: int = 0
    """How many processes had this place before in this crawl."""


class WorkerOrder(msgspec.Struct, frozen=True, array_like=True):
    """What the engine asks of a worker that runs."""

    leases: list[Lease] = []
    model: bytes = b""
    link_words: bool = False
    """Send the words of links from now on: the strategy that was chosen looks at them."""


encoder = msgspec.msgpack.Encoder()
visits_decoder = msgspec.msgpack.Decoder(list[Visit])
order_decoder = msgspec.msgpack.Decoder(WorkerOrder)
greeting_decoder = msgspec.msgpack.Decoder(tuple[str, str])  # what is wrong, and what to do; ('', ''): nothing
setup_decoder = msgspec.msgpack.Decoder(WorkerSetup)


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """One message; b'' at the end of the stream."""
    try:
        size = int.from_bytes(await reader.readexactly(4), "big")
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


def frame(message: bytes) -> bytes:
    """A message as it goes over the socket."""
    return len(message).to_bytes(4, "big") + message
