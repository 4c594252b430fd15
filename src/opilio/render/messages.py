"""The messages between a worker and its browser process, in msgpack.

The first is the setup, answered by a greeting. Then pages go one way, and come back rendered or failed. Meanwhile the
browser process sends the requests of the pages, and the worker answers each.
"""

from __future__ import annotations

import msgspec


class BrowserSetup(msgspec.Struct, frozen=True, array_like=True):
    """All that a browser process needs to know."""

    program: str
    sandbox: bool
    folder: str
    """A folder of its own, for all that the browser writes."""
    user_agent: str
    language: str
    timeout_s: float
    quiet_s: float
    memory_bytes: int
    max_chars: int
    """Of a rendered page."""


class PageOrder(msgspec.Struct, frozen=True, array_like=True, tag="page"):
    """Render a page."""

    page: int
    url: str
    headers: dict[str, str]
    body: bytes


class RequestAnswer(msgspec.Struct, frozen=True, array_like=True, tag="answer"):
    """What a request of a page gets."""

    page: int
    request: int
    status: int = 0
    """0: it is refused."""
    headers: dict[str, str] = {}
    body: bytes = b""


class PageRequest(msgspec.Struct, frozen=True, array_like=True, tag="request"):
    """A request that a page makes."""

    page: int
    request: int
    url: str
    kind: str
    """`script`, `stylesheet` or `fetch`."""
    accept: str = ""
    origin: str = ""


class PageDone(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """A page was rendered."""

    page: int
    html: bytes
    blocked: dict[str, int]
    """Requests that no page may make, by their kind."""
    text_chars: int = 0
    """How many characters it shows."""
    is_quiet: bool = True
    """Whether it was finished; else the time was over, and this is how far it came."""


class PageFailed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """A page could not be rendered, and is itself the cause."""

    page: int
    detail: str


encoder = msgspec.msgpack.Encoder()
setup_decoder = msgspec.msgpack.Decoder(BrowserSetup)
greeting_decoder = msgspec.msgpack.Decoder(tuple[str, str])
"""What is wrong and what to do; ('', ''): nothing."""
order_decoder: msgspec.msgpack.Decoder[PageOrder | RequestAnswer] = msgspec.msgpack.Decoder(PageOrder | RequestAnswer)
report_decoder: msgspec.msgpack.Decoder[PageRequest | PageDone | PageFailed] = msgspec.msgpack.Decoder(
    PageRequest | PageDone | PageFailed
)
