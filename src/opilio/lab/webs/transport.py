"""Replay inside the crawler's process: a `Transport` that answers from a recorded web."""

from __future__ import annotations

import time

from opilio.fetch.transfer import STOP, Transfer
from opilio.fetch.transport import Response, body_limits, response_of
from opilio.lab.webs.loopback import ADDRESS
from opilio.lab.webs.recorded import RecordedWeb
from opilio.lab.webs.recording import NOT_RECORDED, head_of
from opilio.model import Fetch, Lease, LeaseKind, Outcome
from opilio.settings import Settings


class RecordedTransport:
    """Carries out leases on a recorded web: `collection.crawl(transport=RecordedTransport(web, collection.settings))`.

    What is read of an answer follows the settings, as it does for one from the web: types, sizes, encodings. Every host
    has the address it has when the web is served on loopback: rules that look at addresses see the same.
    """

    def __init__(self, web: RecordedWeb, settings: Settings | None = None) -> None:
        settings = settings or Settings()
        self.web = web
        self._obey_robots = settings.robots.obey
        self._limits = body_limits(settings)

    async def fetch(self, lease: Lease) -> Response:
        """The recorded answer; see `Transport.fetch`."""
        started_s = time.time()
        if lease.kind is LeaseKind.HOST and not self._obey_robots:
            return Response(Fetch(Outcome.OK, ip=ADDRESS, started_s=started_s))
        head, body, _ = answer_of(self.web, lease.url)
        transfer = Transfer(self._limits[lease.kind])
        wanted = True
        for line in head.splitlines(keepends=True):
            wanted = transfer.on_header(line) is not STOP and wanted
        if body and wanted:
            transfer.on_body(body)
        return response_of(transfer, lease, ip=ADDRESS, started_s=started_s)

    async def aclose(self) -> None:
        """Nothing to give back."""


def answer_of(web: RecordedWeb, url: str) -> tuple[bytes, bytes, int]:
    """Head, body and status of the answer to `url`: what was recorded, else 404."""
    n = web.number(url)
    return (web.head(n), web.body(n), web.status(n)) if n >= 0 else (_NOT_FOUND_HEAD, _NOT_FOUND_BODY, 404)


_NOT_FOUND_BODY = b"This URL was not recorded.\n"
_NOT_FOUND_HEAD = head_of(
    404,
    [
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(_NOT_FOUND_BODY))),
        NOT_RECORDED,
    ],
)
