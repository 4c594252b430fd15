"""What a transfer that has ended amounts to: the same for one from the web and one from a recording."""

from __future__ import annotations

import time

from opilio.fetch import verdicts
from opilio.fetch.headers import raw_head, retry_after_s
from opilio.fetch.transfer import Transfer, Verdict
from opilio.fetch.transport import Response
from opilio.model import Fetch, Lease


def response_of(
    transfer: Transfer,
    lease: Lease,
    *,
    ip: str,
    started_s: float,
    took_ms: float = 0.0,
    failure: Verdict | None = None,
    request: bytes = b"",
) -> Response:
    """The response made of a transfer; `failure` is what went wrong on the way, if anything did."""
    body = transfer.finish() if failure is None else b""
    failure = failure or transfer.verdict
    headers = transfer.headers
    if failure is not None:
        (outcome, detail), redirect_url = failure, ""
    else:
        outcome, detail, redirect_url = verdicts.of_status(transfer.status, headers.get("location", ""), lease.url)
    head = raw_head(transfer.lines)
    raw = b"" if failure is not None else body if "content-encoding" not in headers else transfer.raw_body
    fetch = Fetch(
        outcome=outcome,
        status=transfer.status,
        ip=ip,
        content_type=transfer.content_type,
        received_bytes=len(head) + transfer.raw_bytes,
        body_bytes=len(body),
        started_s=started_s,
        took_ms=took_ms,
        redirect_url=redirect_url,
        retry_after_s=retry_after_s(headers["retry-after"], time.time()) if "retry-after" in headers else 0.0,
        etag=headers.get("etag", ""),
        last_modified=headers.get("last-modified", ""),
        detail=detail,
    )
    return Response(fetch, body, headers, head, raw, request)
