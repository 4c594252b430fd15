"""One exchange with a service that speaks JSON over HTTP: another portal, or the endpoint of a language model.

This is not how pages are fetched. Nothing that comes back is trusted: an answer is read up to a limit of bytes and of
time, whatever the service does; redirects are not followed, because a token would go along; proxies of the environment
are not used; certificates are verified. What goes wrong is an `ExchangeError` that says what.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR, socket
from typing import NamedTuple
from urllib.parse import urlsplit

_CHUNK_BYTES = 2**16


class ExchangeError(Exception):
    """No answer came that could be read; the message goes on after the name of the service: `did not answer`."""


class Reply(NamedTuple):
    """What a service answered, whatever the status is. A redirect is an answer like all others."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


def exchange(
    method: str,
    url: str,
    *,
    path: str,
    body: bytes | None,
    headers: Mapping[str, str],
    timeout_s: float,
    max_bytes: int,
) -> Reply:
    """Send one request to the server of `url`, for `path`; the whole exchange ends within `timeout_s`."""
    deadline_s = time.monotonic() + timeout_s
    sent = {"Accept-Encoding": "gzip", **headers}
    if body is not None:
        sent["Content-Type"] = "application/json"
    connection = _connection(url, timeout_s)
    try:
        connection.connect()
        with _cut_off(connection.sock, deadline_s):
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            found = _bounded(response, max_bytes, deadline_s)
            return Reply(response.status, {name.lower(): value for name, value in response.headers.items()}, found)
    except (OSError, http.client.HTTPException, zlib.error, ValueError) as error:
        if time.monotonic() >= deadline_s or isinstance(error, TimeoutError):
            raise ExchangeError(f"did not answer within {timeout_s:g} s") from None
        raise ExchangeError(_reason(error)) from None
    finally:
        connection.close()


def _connection(url: str, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout_s, context=ssl.create_default_context())
    return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)


def _bounded(response: http.client.HTTPResponse, max_bytes: int, deadline_s: float) -> bytes:
    """The body, unpacked; no more of it than may be, in no more time than there is."""
    unpack = zlib.decompressobj(31) if response.headers.get("Content-Encoding", "") == "gzip" else None
    parts, size = [], 0
    while chunk := response.read1(_CHUNK_BYTES):
        part = unpack.decompress(chunk, max_bytes + 1 - size) if unpack else chunk
        size += len(part)
        parts.append(part)
        if size > max_bytes or (unpack and unpack.unconsumed_tail):
            raise ExchangeError(f"answers with more than {max_bytes // 2**20} MiB")
        if unpack and unpack.unused_data:  # it would be kept, however much it is
            raise ExchangeError("goes on sending after the end of its answer")
        if time.monotonic() >= deadline_s:
            break
    if time.monotonic() >= deadline_s:  # the connection was cut off: what seems to be all of the answer need not be
        raise TimeoutError
    if response.length or (unpack and not unpack.eof):
        raise ExchangeError("broke off in the middle of its answer")
    return b"".join(parts)


@contextmanager
def _cut_off(sock: socket, deadline_s: float) -> Iterator[None]:
    """Let a connection end at a moment, however slowly the other side goes on sending."""

    def cut() -> None:
        with suppress(OSError):  # it has ended by itself
            socket.shutdown(sock, SHUT_RDWR)  # also below TLS, whose own way to end would wait

    timer = threading.Timer(max(0.0, deadline_s - time.monotonic()), cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"shows a certificate that cannot be trusted: {error.verify_message}"
    if isinstance(error, ConnectionRefusedError):
        return "is not there: the connection was refused"
    if isinstance(error, OSError):
        return f"cannot be reached: {error.strerror or error}"
    return f"does not speak HTTP as it should ({type(error).__name__})"
