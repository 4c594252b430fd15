"""The answers to every URL of the web, made before the first request: serving one is a lookup and a write."""

from __future__ import annotations

import hashlib
import zlib
from email.utils import formatdate, parsedate_to_datetime
from html import escape
from http import HTTPStatus

from opilio.localweb.exchange import HTML
from opilio.localweb.web import LocalWeb

# Last-Modified lies between these, by the digest of the content: a made-up past that stays the same.
_FIRST_MODIFIED_S = 1_420_070_400  # 2015-01-01
_MODIFIED_RANGE_S = 9 * 365 * 86_400


class Response:
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


def error_response(status: int, why: str) -> Response:
    """A short page that says what was wrong."""
    reason = HTTPStatus(status).phrase
    body = f"<!DOCTYPE html>\n<title>{status} {reason}</title>\n<h1>{reason}</h1>\n<p>{escape(why)}</p>\n"
    return Response(status, HTML, body.encode())


def responses_of(web: LocalWeb, *, gzip: bool) -> dict[str, Response]:
    """All answers by `host/path`."""
    start = len("http://")
    table = {url[start:]: Response(200, HTML, page.body, gzip=gzip) for url, page in web.pages.items()}
    for url, (content_type, body) in web.files.items():
        table[url[start:]] = Response(200, content_type, body, gzip=gzip)
    for url, (status, target) in web.redirects.items():
        anchor = f'<a href="{escape(target)}">{escape(target)}</a>'
        moved = f"<!DOCTYPE html>\n<title>Moved</title>\n<p>Moved to {anchor}.</p>\n"
        table[url[start:]] = Response(status, HTML, moved.encode(), f"Location: {target}\r\n")
    return table
