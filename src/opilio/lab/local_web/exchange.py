"""One request and its answer, as the server's parts speak of them.

The answers to every URL of the web, made before the first request: serving one is a lookup and a write.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Awaitable, Callable, Iterable
from email.utils import formatdate, parsedate_to_datetime
from html import escape
from http import HTTPStatus
from typing import Protocol

import msgspec

from opilio.lab.local_web.web import LocalWeb

HTML = "text/html; charset=utf-8"


class Request(msgspec.Struct, frozen=True):
    """One line of the server's log. Times are those of `time.time()`."""

    host: str
    path: str
    status: int  # 0: no answer was sent, or one without a status line
    started_s: float
    ended_s: float  # infinite while the answer is under way
    bytes: int
    user_agent: str
    connection: int
    in_flight: int  # requests open on this host when this one arrived, itself included


class Config(msgspec.Struct, frozen=True):
    """What a server process is told when it starts."""

    web_file: str
    listen_fd: int
    worker: int
    latency_s: float
    keep_log: bool
    misbehaving: bool
    gzip: bool


class Exchange:
    """A request that was read and waits for its answer, with its line of the log in the making."""

    __slots__ = (
        "bytes_sent", "connection", "ended_s", "headers", "host", "in_flight", "keep_alive", "method", "path",
        "started_s", "status",
    )  # fmt: skip

    def __init__(self, method: str, host: str, path: str, headers: dict[bytes, bytes], keep_alive: bool) -> None:
        self.method, self.host, self.path, self.headers = method, host, path, headers
        self.keep_alive = keep_alive
        self.started_s = 0.0
        self.ended_s = math.inf
        self.status = self.bytes_sent = self.connection = self.in_flight = 0

    def as_request(self) -> Request:
        """The line of the log as it stands."""
        return Request(
            self.host,
            self.path,
            self.status,
            self.started_s,
            self.ended_s,
            self.bytes_sent,
            self.headers.get(b"user-agent", b"").decode("latin-1"),
            self.connection,
            self.in_flight,
        )


class Wire(Protocol):
    """What a misbehaving host may do to the connection it answers on."""

    async def answer(
        self, status: int, body: str | bytes, content_type: str = HTML, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        """Send a well-formed answer."""

    async def raw(self, data: bytes, status: int = 200) -> None:
        """Send these bytes as they are and wait for room; the connection is closed after the answer."""

    def reset(self) -> None:
        """End the connection with a TCP reset."""


Handler = Callable[[Exchange, Wire], Awaitable[None]]


def head(status: int, content_type: str, length: int | None, headers: Iterable[tuple[str, str]] = ()) -> bytes:
    """Status line and header of an answer, up to and with the empty line."""
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


# Last-Modified lies between these, by the digest of the content: a made-up past that stays the same.
_FIRST_MODIFIED_S = 1_420_070_400  # 2015-01-01
_MODIFIED_RANGE_S = 9 * 365 * 86_400


class PreparedResponse:
    """One answer in its forms: whole, unchanged (304), compressed. Heads lack the Date line, which is written last."""

    __slots__ = ("body", "etag", "gzip_body", "gzip_head", "head", "modified_s", "status", "unchanged_head")

    def __init__(self, status: int, content_type: str, body: bytes, extra: str = "", *, gzip: bool = False) -> None:
        digest = hashlib.blake2b(body, digest_size=8)
        self.status, self.body = status, body
        self.etag = f'"{digest.hexdigest()}"'.encode()
        self.modified_s = _FIRST_MODIFIED_S + int.from_bytes(digest.digest()) % _MODIFIED_RANGE_S
        validators = ""
        if status == HTTPStatus.OK:
            modified = formatdate(self.modified_s, usegmt=True)
            validators = f"ETag: {self.etag.decode()}\r\nLast-Modified: {modified}\r\n"
        common = f"{validators}{extra}Server: opilio-localweb\r\n"
        self.head = _head(status, content_type, len(body), common)
        self.unchanged_head = f"HTTP/1.1 304 Not Modified\r\n{common}".encode("latin-1")
        self.gzip_head = self.gzip_body = b""
        if gzip and body:
            packer = zlib.compressobj(1, zlib.DEFLATED, 31)
            self.gzip_body = packer.compress(body) + packer.flush()
            encoding = f"Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n{common}"
            self.gzip_head = _head(status, content_type, len(self.gzip_body), encoding)

    def is_unchanged(self, headers: dict[bytes, bytes]) -> bool:
        """Whether the request's validators match; an ETag decides over a date."""
        if self.status != HTTPStatus.OK:
            return False
        tags = headers.get(b"if-none-match")
        if tags is not None:
            return tags.strip() == b"*" or self.etag in [tag.strip().removeprefix(b"W/") for tag in tags.split(b",")]
        since = headers.get(b"if-modified-since")
        if since is None:
            return False
        try:
            return self.modified_s <= parsedate_to_datetime(since.decode("latin-1")).timestamp()
        except (ValueError, TypeError):
            return False


def _head(status: int, content_type: str, length: int, rest: str) -> bytes:
    reason = HTTPStatus(status).phrase
    lines = f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n{rest}"
    return lines.encode("latin-1")


def error_response(status: int, why: str) -> PreparedResponse:
    """A short page that says what was wrong."""
    reason = HTTPStatus(status).phrase
    body = f"<!DOCTYPE html>\n<title>{status} {reason}</title>\n<h1>{reason}</h1>\n<p>{escape(why)}</p>\n"
    return PreparedResponse(status, HTML, body.encode())


def responses_of(web: LocalWeb, *, gzip: bool) -> dict[str, PreparedResponse]:
    """All answers by `host/path`."""
    start = len("http://")
    table = {url[start:]: PreparedResponse(200, HTML, page.body, gzip=gzip) for url, page in web.pages.items()}
    for url, (content_type, body) in web.files.items():
        table[url[start:]] = PreparedResponse(200, content_type, body, gzip=gzip)
    for url, (status, target) in web.redirects.items():
        anchor = f'<a href="{escape(target)}">{escape(target)}</a>'
        moved = f"<!DOCTYPE html>\n<title>Moved</title>\n<p>Moved to {anchor}.</p>\n"
        table[url[start:]] = PreparedResponse(status, HTML, moved.encode(), f"Location: {target}\r\n")
    return table
