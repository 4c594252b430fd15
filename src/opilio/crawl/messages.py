"""The messages between the engine and worker processes, in msgpack.

The first message is the setup of a worker; then orders go one way (leases, a new model) and lists of visits the other.
A process that may have to wait for others before it is ready sends a greeting first.
"""

from __future__ import annotations

import msgspec

from opilio.model import Lease, Visit


class WorkerSetup(msgspec.Struct, frozen=True):
    """All that a worker needs to know, as one message."""

    settings: dict[str, object]
    model: bytes
    """The model that judges pages until an order brings another; b'': pages are not judged."""
    warc_folder: str
    name: str
    link_words: bool = False
    """Whether the strategy looks at the words of links."""
    earlier: int = 0
    """How many processes had this place before in this crawl."""


class WorkerOrder(msgspec.Struct, frozen=True, array_like=True):
    """An order of the engine to a running worker."""

    leases: list[Lease] = []
    model: bytes = b""
    link_words: bool = False
    """Send the words of links from now on: the strategy that was chosen looks at them."""


encoder = msgspec.msgpack.Encoder()
visits_decoder = msgspec.msgpack.Decoder(list[Visit])
order_decoder = msgspec.msgpack.Decoder(WorkerOrder)
greeting_decoder = msgspec.msgpack.Decoder(tuple[str, str])  # what is wrong, and what to do; ('', ''): nothing
setup_decoder = msgspec.msgpack.Decoder(WorkerSetup)
