"""The seam of this package: a `Transport` turns a lease into a `Response`.

A finished transfer becomes an outcome and a `Response` here, in the same way for live and for recorded responses.
Status codes and libcurl errors map to outcomes.
"""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

import pycurl

from opilio.fetch.headers import raw_head, retry_after_s
from opilio.fetch.transfer import BodyLimits, Ending, Transfer
from opilio.model import Fetch, Lease, LeaseKind, Outcome, normalize
from opilio.model.url import ascii_address
from opilio.settings import Settings

MAX_SITEMAP_BYTES = 50 * 2**20  # sitemaps.org
MAX_PROBE_BYTES = 1024  # that something comes is all that matters
ICON_SHARE = 10
"""An icon may have a tenth of the bytes of a picture."""


class Response(NamedTuple):
    """What came back for one lease. The bodies are empty if the response failed or was rejected."""

    fetch: Fetch
    body: bytes = b""
    """Decoded: without content encodings."""
    headers: dict[str, str] = {}
    """Lower-case names; repeated headers joined by a comma."""
    raw_head: bytes = b""
    """Status line and headers as received; an HTTP/2 status line is written in the form of HTTP/1.1."""
    raw_body: bytes = b""
    """As received, without chunking but still with content encodings."""
    request_head: bytes = b""
    """As sent; a request over HTTP/2 or a proxy is written as if over HTTP/1.1 to the origin."""


class Transport(Protocol):
    """Carries out leases, on the web or on a recording of it."""

    async def fetch(self, lease: Lease) -> Response:
        """Make one request. Raises no exception for what the web does; a redirect is an outcome and is not followed.

        For a lease of the kind HOST, the body is cut at the size limit of robots.txt; if robots.txt is not obeyed, only
        the host name is resolved. For a lease of the kind SITEMAP, any type is accepted. For one of the kind PROBE, the
        host name is looked up again, whatever is cached, and the body is cut.
        """

    async def aclose(self) -> None:
        """Close connections and cancel open requests."""


REDIRECTS = frozenset({301, 302, 303, 307, 308})

_OUTCOMES: dict[int, Outcome] = {
    pycurl.E_COULDNT_RESOLVE_HOST: Outcome.DNS_FAILED,
    pycurl.E_COULDNT_RESOLVE_PROXY: Outcome.CONNECT_FAILED,
    pycurl.E_COULDNT_CONNECT: Outcome.CONNECT_FAILED,
    pycurl.E_INTERFACE_FAILED: Outcome.CONNECT_FAILED,
    pycurl.E_NO_CONNECTION_AVAILABLE: Outcome.CONNECT_FAILED,
    97: Outcome.CONNECT_FAILED,  # CURLE_PROXY: the proxy refused
    pycurl.E_SSL_CONNECT_ERROR: Outcome.TLS_FAILED,
    pycurl.E_PEER_FAILED_VERIFICATION: Outcome.TLS_FAILED,
    pycurl.E_SSL_CERTPROBLEM: Outcome.TLS_FAILED,
    pycurl.E_SSL_CIPHER: Outcome.TLS_FAILED,
    pycurl.E_SSL_CACERT_BADFILE: Outcome.TLS_FAILED,
    pycurl.E_SSL_ISSUER_ERROR: Outcome.TLS_FAILED,
    pycurl.E_SSL_INVALIDCERTSTATUS: Outcome.TLS_FAILED,
    pycurl.E_USE_SSL_FAILED: Outcome.TLS_FAILED,
    pycurl.E_OPERATION_TIMEDOUT: Outcome.TIMED_OUT,
    pycurl.E_BAD_CONTENT_ENCODING: Outcome.BAD_ENCODING,
    # libcurl rejects a URL that we accept: neither a retry nor blaming the host would help.
    pycurl.E_URL_MALFORMAT: Outcome.UNREADABLE,
}


def body_limits(settings: Settings) -> dict[LeaseKind, BodyLimits]:
    """What is accepted for each kind of lease."""
    fetching = settings.fetch
    return {
        LeaseKind.PAGE: BodyLimits(accept=fetching.accept, cut_text_bytes=fetching.cut_bytes),
        LeaseKind.HOST: BodyLimits(max_bytes=settings.robots.max_bytes, cut=True),
        LeaseKind.RIGHTS: BodyLimits(max_bytes=settings.robots.max_bytes, cut=True),
        LeaseKind.SITEMAP: BodyLimits(max_bytes=MAX_SITEMAP_BYTES),
        LeaseKind.MISSING: BodyLimits(accept=fetching.accept, cut_text_bytes=fetching.cut_bytes),
        LeaseKind.PROBE: BodyLimits(max_bytes=MAX_PROBE_BYTES, cut=True),
        LeaseKind.PICTURE: BodyLimits(max_bytes=fetching.max_picture_bytes),
        LeaseKind.SEEDS: BodyLimits(max_bytes=settings.seeds.max_bytes),
        LeaseKind.ICON: BodyLimits(max_bytes=fetching.max_picture_bytes // ICON_SHARE),
        LeaseKind.SUBRESOURCE: BodyLimits(max_bytes=settings.render.max_bytes),
    }


def outcome_of_status(status: int, location: str, url: str) -> tuple[Outcome, str, str]:
    """Outcome, detail and redirect target of a complete response."""
    if 200 <= status < 300:
        return Outcome.OK, "", ""
    if status == 304:
        return Outcome.NOT_MODIFIED, "", ""
    if 300 <= status < 400:
        target = normalize(ascii_address(location), base=url) if location and status in REDIRECTS else ""
        if target:
            return Outcome.REDIRECT, "", target
        reason = f"Location {location[:200]!r} is not usable" if location else "there is no Location"
        return Outcome.BAD_REDIRECT, f"status {status}, but {reason}", ""
    if status == 429:
        return Outcome.TOO_MANY_REQUESTS, "status 429", ""
    if 500 <= status < 600:
        return Outcome.SERVER_ERROR, f"status {status}", ""
    return Outcome.CLIENT_ERROR, f"status {status}", ""


def outcome_of_error(code: int, message: str, request_sent: bool) -> tuple[Outcome, str]:
    """Outcome and detail of a transfer that failed in libcurl. Errors that are not in the table are `BROKEN`."""
    outcome = _OUTCOMES.get(code, Outcome.BROKEN)
    message = " ".join(message.split())
    if outcome is Outcome.TIMED_OUT:
        phase = "total" if request_sent else "connect"
        return outcome, f"{phase} timeout: {message}"
    return outcome, message or f"libcurl error {code}"


def response_of(
    transfer: Transfer,
    lease: Lease,
    *,
    ip: str,
    started_s: float,
    took_ms: float = 0.0,
    failure: Ending | None = None,
    request: bytes = b"",
) -> Response:
    """The response of a finished transfer; `failure` is what went wrong during it, if anything did."""
    body = transfer.finish() if failure is None else b""
    failure = failure or transfer.rejection
    headers = transfer.headers
    if failure is not None:
        (outcome, detail), redirect_url = failure, ""
    else:
        outcome, detail, redirect_url = outcome_of_status(transfer.status, headers.get("location", ""), lease.url)
        if transfer.was_cut and outcome is Outcome.OK:
            detail = f"cut at {len(body)} bytes"
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
        cut=transfer.was_cut and failure is None,
    )
    return Response(fetch, body, headers, head, raw, request)


def replay(
    lease: Lease, ip: str, started_s: float, raw_head: bytes, raw_body: bytes, settings: Settings, *, cut: bool = False
) -> Response:
    """The response for a recorded head and body, checked as if it had just been received; `cut`: it is a beginning."""
    transfer = Transfer(body_limits(settings)[lease.kind])
    for line in raw_head.splitlines(keepends=True):
        transfer.on_header(line)
    if raw_body and transfer.rejection is None:
        transfer.on_body(raw_body)
    transfer.was_cut = transfer.was_cut or cut
    return response_of(transfer, lease, ip=ip, started_s=started_s)
