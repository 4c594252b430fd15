"""Peers of all kinds for tests: such as answer, are slow, fail, or say what they like over HTTP."""

import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from opilio.federation.peers import Offer, PeerAnswer, PeerError, PeerHit, PeerSummary, WordStatistics


def summary_of(name: str, pages: int = 100, **words: int) -> PeerSummary:
    """A summary in which so many pages have each word."""
    told = {word: WordStatistics(count, 1.5, 0.4) for word, count in words.items()}
    return PeerSummary(name, f"{name}-1", pages, 100.0, [], told, lengths={"stems": 100.0, "text": 100.0})


def found(url: str, **words: float) -> PeerHit:
    """A page that has these words so often."""
    result = {
        "oid": 1, "url": url, "title": url, "host": "h", "topic": "Birds", "relevance": 0.5, "authority": 0.0,
        "visited": "2026-01-01T00:00:00", "language": "en", "type": "html", "title_pieces": [(url, False)],
        "snippet": [("a ", False), ("owl", True)], "score": 0.5, "folded": 0,
        "parts": {"bm25": 1.0, "cosine": 0.0, "relevance": 0.5, "authority": 0.0},
    }  # fmt: skip
    return PeerHit(result, {f"stems:{word}": count for word, count in words.items()}, {"stems": 100.0})


class FakePeer:
    """A peer that has one page with an owl, unless it is told to be slow or to fail."""

    def __init__(self, name: str, told: PeerSummary | None = None) -> None:
        self.name, self.place = name, f"place of {name}"
        self.told = told or summary_of(name, owl=10)
        self.fails = self.summary_fails = False
        self.slow_s = 0.0
        self.asked = self.summary_asked = 0

    def summary(self, known: PeerSummary | None = None) -> PeerSummary:
        self.summary_asked += 1
        if self.summary_fails:
            raise PeerError(f"{self.name} is silent")
        return known if known is not None and known.version == self.told.version else self.told

    def ask(
        self,
        question: str,
        *,
        weights: Mapping[str, float] | None,
        filters: Sequence[tuple[str, str]],
        most: int,
        timeout_s: float,
    ) -> PeerAnswer:
        self.asked += 1
        time.sleep(self.slow_s)
        if self.fails:
            raise PeerError(f"{self.name} has failed")
        page = found(f"http://{self.name}.example/", owl=3.0)
        return PeerAnswer(10, [page], pages_indexed=100, frequencies={"stems:owl": 10}, lengths={"stems": 100.0})

    def feedback(self, url: str, topic: str, *, relevant: bool) -> str:
        return "learned"

    def offer(self, sender: str, offers: Sequence[Offer]) -> int:
        return len(offers)


class RawServer:
    """Answers each connection on loopback by a function of the socket and the request's first bytes."""

    def __init__(self, answer: Callable[[socket.socket, bytes], None], tls: ssl.SSLContext | None = None) -> None:
        self._answer, self._tls = answer, tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        scheme = "https" if tls else "http"
        self.address = f"{scheme}://localhost:{self._listener.getsockname()[1]}/c/birds"
        self.requests: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(connection,), daemon=True).start()

    def _one(self, connection: socket.socket) -> None:
        with connection:
            try:
                if self._tls:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                request = _whole(connection)
                self.requests.append(request)
                self._answer(connection, request)
            except OSError:
                return

    def close(self) -> None:
        self._listener.close()


def _whole(connection: socket.socket) -> bytes:
    """A request with its body."""
    request = connection.recv(2**16)
    length = re.search(rb"(?i)content-length: (\d+)", request)
    while length and len(request.partition(b"\r\n\r\n")[2]) < int(length[1]):
        request += connection.recv(2**16)
    return request


def response(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """An HTTP answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
