"""The server of the local web: `LocalServer` for its user, and what the server process answers with.

The answers to all URLs are made before the first request: serving one is a lookup and a write.
"""

from __future__ import annotations

import hashlib
import time
import zlib
from email.utils import formatdate, parsedate_to_datetime
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

from opilio.errors import InputError
from opilio.lab.local_web.builder import Size, build, dump, load
from opilio.lab.local_web.trouble import trouble_handlers
from opilio.lab.local_web.web import LocalWeb
from opilio.lab.webs.loopback import LoopbackServer
from opilio.lab.webs.server import HTML, Exchange, Handler, ServerSetup, run_server
from opilio.process import Channel

# Last-Modified lies between these, by the digest of the content: a made-up past that stays the same.
_FIRST_MODIFIED_S = 1_420_070_400  # 2015-01-01
_MODIFIED_RANGE_S = 9 * 365 * 86_400


class LocalServer(LoopbackServer):
    """Serves a local web from processes of its own, on loopback only.

    The server keeps the log, so it shows the requests of a killed crawler too. With several workers each keeps a log,
    and `requests` merges them.
    """

    title = "the local web"
    target = "opilio.lab.local_web.server:serve_local_web"
    hosts = "*.test"

    def __init__(
        self,
        web: LocalWeb | Size = "full",
        *,
        latency_s: float = 0.0,
        log: bool = True,
        misbehaving: bool = True,
        port: int = 0,
        workers: int = 1,
        gzip: bool = False,
    ) -> None:
        super().__init__(port=port, workers=workers, log=log)
        self.web = web if isinstance(web, LocalWeb) else build(web)
        self.latency_s, self.misbehaving, self.gzip = latency_s, misbehaving, gzip

    def _options(self, folder: Path) -> dict[str, Any]:
        file = self.web.cache_file
        if file is None or not file.is_file():  # a web that is not cached
            file = folder / "web.zst"
            file.write_bytes(dump(self.web))
        return {"file": str(file), "latency_s": self.latency_s, "misbehaving": self.misbehaving, "gzip": self.gzip}


# -- in the server process


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
    table = {
        url[start:]: PreparedResponse(200, page.content_type, page.body, gzip=gzip) for url, page in web.pages.items()
    }
    for url, (content_type, body) in web.files.items():
        table[url[start:]] = PreparedResponse(200, content_type, body, gzip=gzip)
    for url, (status, target) in web.redirects.items():
        anchor = f'<a href="{escape(target)}">{escape(target)}</a>'
        moved = f"<!DOCTYPE html>\n<title>Moved</title>\n<p>Moved to {anchor}.</p>\n"
        table[url[start:]] = PreparedResponse(status, HTML, moved.encode(), f"Location: {target}\r\n")
    return table


_NOT_FOUND = error_response(404, "No such page in the local web.")
_BAD_REQUEST = error_response(400, "This request cannot be understood.")
_NOT_ALLOWED = error_response(405, "Only GET and HEAD are answered here.")


class ServedLocalWeb:
    """What the server answers with: prepared responses, and the hosts that misbehave."""

    def __init__(self, web: LocalWeb, latency_s: float, *, misbehaving: bool, gzip: bool) -> None:
        self._table = responses_of(web, gzip=gzip)
        self._handlers = trouble_handlers(web.seed) if misbehaving else {}
        self._latency_s = latency_s
        self._date = (0, b"")

    def latency_s(self, exchange: Exchange) -> float:
        """The same for every answer."""
        return self._latency_s

    def handler(self, exchange: Exchange) -> Handler | None:
        """The handler of a host that misbehaves."""
        handler = self._handlers.get(exchange.host)
        return handler if handler is not None and exchange.method in ("GET", "HEAD") else None

    def answer(self, exchange: Exchange) -> bytes:
        """A prepared response in the form that the request accepts."""
        response = self._find(exchange)
        response_head, body, exchange.status = response.head, response.body, response.status
        if response.is_unchanged(exchange.headers):
            response_head, body, exchange.status = response.unchanged_head, b"", 304
        elif response.gzip_body and b"gzip" in exchange.headers.get(b"accept-encoding", b""):
            response_head, body = response.gzip_head, response.gzip_body
        if exchange.method == "HEAD":
            body = b""
        connection = b"" if exchange.keep_alive else b"Connection: close\r\n"
        return b"".join((response_head, connection, self._date_line(), body))

    def _find(self, exchange: Exchange) -> PreparedResponse:
        """The answer to a request; a query string that names no page of its own is ignored, as by a file server."""
        if exchange.method not in ("GET", "HEAD"):
            return _NOT_ALLOWED if exchange.method else _BAD_REQUEST
        key = exchange.host + exchange.path
        return self._table.get(key) or self._table.get(key.partition("?")[0]) or _NOT_FOUND

    def _date_line(self) -> bytes:
        """The Date line and the empty line, made once a second."""
        now_s = int(time.time())
        if self._date[0] != now_s:
            self._date = (now_s, f"Date: {formatdate(now_s, usegmt=True)}\r\n\r\n".encode())
        return self._date[1]


def serve_local_web(channel: Channel, setup: str, options: str) -> None:
    """The work of a server process."""

    def make_web() -> ServedLocalWeb:
        given = msgspec.json.decode(options)
        web = load(Path(given["file"]))
        if web is None:
            raise InputError(f"{given['file']}: not a local web")
        return ServedLocalWeb(web, given["latency_s"], misbehaving=given["misbehaving"], gzip=given["gzip"])

    run_server(channel, msgspec.json.decode(setup, type=ServerSetup), make_web)
