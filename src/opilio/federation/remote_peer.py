"""A remote peer: a collection that another server publishes, reached over HTTP with a token.

Nothing that comes back is trusted. An answer is read up to a limit of bytes and of time, whatever the peer does;
redirects are not followed, because the token would go along; proxies of the environment are not used; certificates are
verified; the content is checked (`validation.py`). Whatever goes wrong is a `PeerError` that says what.
"""

from __future__ import annotations

import http.client
import ssl
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR, socket
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from opilio.federation.peers import Offer, PeerAnswer, PeerError, PeerRefusal, PeerSummary
from opilio.federation.validation import check_answer, check_summary

MAX_ANSWER_BYTES = 2**23
MAX_SUMMARY_BYTES = 2**26
MAX_SAID_CHARS = 300
SUMMARY_TIMEOUT_S = 120.0  # one that has to be made first takes seconds, on a busy machine more
CHANGE_TIMEOUT_S = 60.0
_CHUNK_BYTES = 2**16
_PATH_SIGNS = "/%:@!$&'()*+,;=~"  # others are written as a browser would


class RemotePeer:
    """A peer on another server."""

    def __init__(self, name: str, address: str, token: str) -> None:
        """`address` is that of the collection in the portal, as `read_peers` checks it: http://host:8765/c/birds."""
        self.name = name
        self.place = address
        self._token = token
        self._parts = urlsplit(address)
        above, _, collection = self._parts.path.rstrip("/").rpartition("/c/")
        self._base = quote(f"{above}/api/c/{collection}/peer/", safe=_PATH_SIGNS)

    def summary(self, known: PeerSummary | None = None) -> PeerSummary:
        """Its summary; `known` itself when nothing has changed since."""
        headers = {"If-None-Match": f'"{known.version}"'} if known is not None else {}
        status, body = self._request("GET", "summary", None, SUMMARY_TIMEOUT_S, MAX_SUMMARY_BYTES, headers)
        if status == 304 and known is not None:
            return known
        report = self._decoded(body, PeerSummary)
        try:
            return check_summary(report)
        except PeerError as error:
            raise self._error(f"sent a summary that cannot be used: {error.message}") from None

    def ask(
        self,
        question: str,
        *,
        weights: Mapping[str, float] | None,
        filters: Sequence[tuple[str, str]],
        most: int,
        timeout_s: float,
    ) -> PeerAnswer:
        """Its best `most` pages for a question."""
        asked = {"question": question, "weights": weights, "filters": list(filters), "most": most}
        _, body = self._request("POST", "ask", asked, timeout_s, MAX_ANSWER_BYTES)
        return check_answer(self._decoded(body, PeerAnswer), most)

    def feedback(self, url: str, topic: str, *, relevant: bool) -> str:
        """Tell it whether one of its pages is relevant to a topic; returns a sentence for the user."""
        said = self._change("feedback", {"url": url, "topic": topic, "relevant": relevant}, "said", str)
        return "".join(sign for sign in said[:MAX_SAID_CHARS] if sign.isprintable())

    def offer(self, sender: str, offers: Sequence[Offer]) -> int:
        """Offer URLs; returns how many of them were new to it."""
        taken: int = self._change("offer", {"sender": sender, "offers": list(offers)}, "taken", int)
        return max(0, min(taken, len(offers)))

    def _change(self, what: str, asked: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
        _, body = self._request("POST", what, asked, CHANGE_TIMEOUT_S, MAX_ANSWER_BYTES)
        found = self._decoded(body, dict[str, Any]).get(key)
        if not isinstance(found, kind):
            raise self._error("sent another kind of answer than expected")
        return found

    # -- HTTP

    def _request(
        self,
        method: str,
        what: str,
        asked: Mapping[str, Any] | None,
        timeout_s: float,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """The status and the body of a response; PeerError when there is none."""
        sent = {"Authorization": f"Bearer {self._token}", "Accept-Encoding": "gzip", **(headers or {})}
        body = None if asked is None else msgspec.json.encode(asked)
        if body is not None:
            sent["Content-Type"] = "application/json"
        deadline_s = time.monotonic() + timeout_s
        connection = self._connection(timeout_s)
        try:
            connection.connect()
            with _cut_off(connection.sock, deadline_s):
                connection.request(method, self._base + what, body, sent)
                response = connection.getresponse()
                return response.status, self._read(response, max_bytes, deadline_s)
        except (OSError, http.client.HTTPException, zlib.error, ValueError) as error:
            if time.monotonic() >= deadline_s or isinstance(error, TimeoutError):
                raise self._error(f"did not answer within {timeout_s:g} s") from None
            raise self._error(_reason(error)) from None
        finally:
            connection.close()

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        host = self._parts.hostname or ""
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(
                host, self._parts.port, timeout=timeout_s, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(host, self._parts.port, timeout=timeout_s)

    def _read(self, response: http.client.HTTPResponse, max_bytes: int, deadline_s: float) -> bytes:
        body = self._bounded(response, max_bytes, deadline_s)
        status = response.status
        if status in (200, 304):
            return body
        if 300 <= status < 400:
            raise self._error("answers with a redirect, which is not followed")
        said = _said(body)
        if status == 403:
            raise self._error(f"does not let us in{said}", "Is its token in the file of peers the right one?")
        if status in (400, 422):  # the request is wrong, not the state of the peer
            raise PeerRefusal(f"{self.name} ({self.place}) refuses{said}")
        raise self._error(f"answers with status {status}{said}")

    def _bounded(self, response: http.client.HTTPResponse, max_bytes: int, deadline_s: float) -> bytes:
        """The body, unpacked; no more of it than may be, in no more time than there is."""
        unpack = zlib.decompressobj(31) if response.headers.get("Content-Encoding", "") == "gzip" else None
        parts, size = [], 0
        while chunk := response.read1(_CHUNK_BYTES):
            part = unpack.decompress(chunk, max_bytes + 1 - size) if unpack else chunk
            size += len(part)
            parts.append(part)
            if size > max_bytes or (unpack and unpack.unconsumed_tail):
                raise self._error(f"answers with more than {max_bytes // 2**20} MiB")
            if unpack and unpack.unused_data:  # it would be kept, however much it is
                raise self._error("goes on sending after the end of its answer")
            if time.monotonic() >= deadline_s:
                break
        if time.monotonic() >= deadline_s:  # the connection was cut off: what seems to be all of the answer need not be
            raise TimeoutError
        if response.length or (unpack and not unpack.eof):
            raise self._error("broke off in the middle of its answer")
        return b"".join(parts)

    def _decoded(self, body: bytes, kind: Any) -> Any:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._error(f"sent another kind of answer than expected ({error})") from None

    def _error(self, what: str, hint: str = "") -> PeerError:
        return PeerError(f"{self.name} ({self.place}) {what}", hint)


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


def _said(body: bytes) -> str:
    """What an answer of ours says is wrong, if it is one."""
    try:
        said = msgspec.json.decode(body, type=dict[str, Any]).get("error", "")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    text = "".join(sign for sign in str(said)[:MAX_SAID_CHARS] if sign.isprintable())
    return f": {text}" if text else ""
