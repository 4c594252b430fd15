"""A recorded answer, judged as if it came from the web just now."""

from __future__ import annotations

from opilio.fetch.ending import response_of
from opilio.fetch.transfer import Terms, Transfer
from opilio.fetch.transport import Response
from opilio.model import Lease
from opilio.settings import Settings


def replay(lease: Lease, ip: str, started_s: float, raw_head: bytes, raw_body: bytes, settings: Settings) -> Response:
    """The response that the recorded head and body of a page amount to; no network is asked."""
    transfer = Transfer(Terms(accept=settings.fetch.accept))
    for line in raw_head.splitlines(keepends=True):
        transfer.on_header(line)
    if raw_body and transfer.verdict is None:  # else the head was refused already
        transfer.on_body(raw_body)
    return response_of(transfer, lease, ip=ip, started_s=started_s)
