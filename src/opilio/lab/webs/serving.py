"""Replay over HTTP: a recorded web on loopback, served by a process of its own.

Answers go out as they were recorded, with not a line added.
"""

from __future__ import annotations

import subprocess
import zlib
from pathlib import Path
from typing import Any

import msgspec

from opilio.errors import InputError
from opilio.lab.webs.loopback import LoopbackServer
from opilio.lab.webs.recorded import ABSENT, RecordedWeb
from opilio.lab.webs.server import Exchange, Handler, Request, ServerSetup, run_server
from opilio.lab.webs.transport import answer_of
from opilio.model import normalize
from opilio.process import Channel

__all__ = ["Request", "Serving"]

_MAKE_CERTIFICATE = (
    "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
    "-subj", "/CN=a recorded web",
)  # fmt: skip
_NO_BODY = (204, 304)
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_NOT_ALLOWED = b"HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\nContent-Length: 0\r\n\r\n"


class Serving(LoopbackServer):
    """Serves a recorded web as long as the context lasts.

    with Serving(web, latency_s=0.05) as serving:
        Collection.create("try", seeds="seeds.txt", settings=serving.settings).crawl()

    Each answer takes `latency_s`, give or take up to `latency_spread_s`: the same every time for the same URL. https
    is answered with a certificate that nobody trusts, made by the program `openssl`; where that is missing, https is
    not answered. The server keeps the log, so it shows the requests of a killed crawler too.
    """

    title = "the recorded web"
    target = "opilio.lab.webs.serving:serve_recorded_web"
    hosts = "*"

    def __init__(
        self,
        web: RecordedWeb,
        *,
        latency_s: float = 0.0,
        latency_spread_s: float = 0.0,
        port: int = 0,
        log: bool = True,
    ) -> None:
        if not 0 <= latency_spread_s <= latency_s:
            raise InputError(
                f"the latency cannot spread by {latency_spread_s:g} s around {latency_s:g} s",
                "The spread is at most the latency itself.",
            )
        super().__init__(port=port, log=log)
        self.web, self.latency_s, self.latency_spread_s = web, latency_s, latency_spread_s

    @property
    def speaks_tls(self) -> bool:
        """Whether https is answered; known once the server has started."""
        return bool(self.certificate)

    @property
    def settings(self) -> dict[str, Any]:
        """All that a crawl of this web needs, by dotted name."""
        return {"fetch.connect_to": self.connect_to, "fetch.verify_tls": False}

    def _options(self, folder: Path) -> dict[str, Any]:
        self.certificate = _certificate(folder)
        web = str(self.web.folder.absolute())
        return {"web": web, "latency_s": self.latency_s, "latency_spread_s": self.latency_spread_s}


def _certificate(folder: Path) -> str:
    """A file with a new key and a certificate for it; '' when they cannot be made here."""
    key, certificate, both = folder / "key.pem", folder / "certificate.pem", folder / "both.pem"
    command = [*_MAKE_CERTIFICATE, "-keyout", str(key), "-out", str(certificate)]
    try:
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        both.write_bytes(key.read_bytes() + certificate.read_bytes())
    except (OSError, subprocess.CalledProcessError):
        return ""
    return str(both)


# -- in the server process


class ServedRecordedWeb:
    """What the server answers with: the recorded answers."""

    def __init__(self, web: RecordedWeb, latency_s: float, latency_spread_s: float) -> None:
        self._web, self._latency_s, self._latency_spread_s = web, latency_s, latency_spread_s

    def latency_s(self, exchange: Exchange) -> float:
        """How long the answer to a URL takes: the same every time."""
        if not self._latency_s:
            return 0.0
        share = zlib.crc32(exchange.url.encode("latin-1", "replace")) / 2**31 - 1  # -1 to 1
        return max(0.0, self._latency_s + share * self._latency_spread_s)

    def handler(self, exchange: Exchange) -> Handler | None:
        """No host misbehaves."""
        return None

    def answer(self, exchange: Exchange) -> bytes:
        """What was recorded; the connection is closed after a body whose length is not given."""
        if not exchange.method:
            exchange.status = 400
            return _BAD_REQUEST
        if exchange.method not in ("GET", "HEAD"):
            exchange.status = 405
            return _NOT_ALLOWED
        url = exchange.url
        if self._web.number(url) == ABSENT:
            url = normalize(url) or url
        head, body, exchange.status = answer_of(self._web, url)
        if exchange.status not in _NO_BODY and b"\r\ncontent-length:" not in head.lower():
            exchange.keep_alive = False
        return head if exchange.method == "HEAD" else head + body


def serve_recorded_web(channel: Channel, setup: str, options: str) -> None:
    """The work of the server process."""

    def make_web() -> ServedRecordedWeb:
        given = msgspec.json.decode(options)
        return ServedRecordedWeb(RecordedWeb.open(Path(given["web"])), given["latency_s"], given["latency_spread_s"])

    run_server(channel, msgspec.json.decode(setup, type=ServerSetup), make_web)
