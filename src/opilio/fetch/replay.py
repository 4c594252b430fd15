"""A recorded answer, judged as if it came from the web just now."""

from __future__ import annotations

from opilio.fetch import verdicts
from opilio.fetch.headers import retry_after_s
from opilio.fetch.transfer import Terms, Transfer
from opilio.fetch.transport import Response
from opilio.model import Fetch, Lease
from opilio.settings import Settings


def replay(lease: Lease, ip: str, started_s: float, raw_head: bytes, raw_body: bytes, settings: Settings) -> Response:
    """The response that a recorded head and body amount to; no network is asked."""
    transfer = Transfer(Terms(accept=settings.fetch.accept))
    for line in raw_head.splitlines(keepends=True):
        transfer.on_header(line)
    if raw_body:
        transfer.on_body(raw_body)
    body = transfer.finish()
    headers = transfer.headers
    if transfer.verdict is not None:
        (outcome, detail), redirect_url = transfer.verdict, ""
    else:
        outcome, detail, redirect_url = verdicts.of_status(transfer.status, headers.get("location", ""), lease.url)
    fetch = Fetch(
        outcome=outcome,
        status=transfer.status,
        ip=ip,
        content_type=transfer.content_type,
        received_bytes=len(raw_head) + len(raw_body),
        body_bytes=len(body),
        started_s=started_s,
        redirect_url=redirect_url,
        retry_after_s=retry_after_s(headers["retry-after"], started_s) if "retry-after" in headers else 0.0,
        etag=headers.get("etag", ""),
        last_modified=headers.get("last-modified", ""),
        detail=detail,
    )
    return Response(fetch, body, headers, raw_head, raw_body)
