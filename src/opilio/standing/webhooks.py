"""Webhooks: a report is sent as JSON by POST, signed, to addresses that may be contacted.

The signature is the HMAC-SHA256 of the time, a dot and the body, with a secret that both sides know. Who receives it
compares the signature in constant time, and refuses old times, so that a message cannot be sent again by others.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import ipaddress
import json
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import pycurl

from opilio.errors import OpilioError, SettingsError
from opilio.fetch.addresses import is_public
from opilio.fetch.certificates import ca_certificates, set_trust

SECRET = "OPILIO_WEBHOOK_SECRET"
"""The environment variable with the secret."""
TIMEOUT_S = 20
WAITS_S = (1.0, 4.0, 16.0, 60.0)
"""Before the tries after the first."""
MAX_ANSWER_BYTES = 2**16


class WebhookError(OpilioError):
    """A report that could not be delivered."""


def check_webhook(url: str) -> None:
    """Refuse what no report can be sent to."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"{url!r} is no address for a webhook", "Give an http or https URL.")


def signature(secret: str, sent_s: int, body: bytes) -> str:
    """What the header X-Opilio-Signature has."""
    return "sha256=" + hmac.new(secret.encode(), b"%d." % sent_s + body, hashlib.sha256).hexdigest()


def post_report(
    url: str,
    report: Mapping[str, Any],
    *,
    secret: str = "",
    allow_private: bool = False,
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Deliver a report; tries again when the other side is out of reach, busy or broken. Raises WebhookError."""
    body = json.dumps(report).encode()
    for wait_s in (*WAITS_S, None):
        problem, may_retry = _post(url, body, secret, allow_private=allow_private)
        if not problem:
            return
        if not may_retry or wait_s is None:
            raise WebhookError(
                f"webhook {_shown(url)}: {problem}", "The next report has everything that was not delivered."
            )
        sleep(wait_s)


def _post(url: str, body: bytes, secret: str, *, allow_private: bool) -> tuple[str, bool]:
    """Send once. What went wrong, '' for nothing, and whether another try may help."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError as error:
        return f"its name cannot be resolved ({error.strerror})", True
    addresses = [ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found]
    if not allow_private:
        addresses = [address for address in addresses if is_public(address)]
        if not addresses:
            return "it has a private address; --allow-private sends there", False
    sent_s = int(time.time())
    headers = ["Content-Type: application/json", "User-Agent: Opilio", f"X-Opilio-Timestamp: {sent_s}", "Expect:"]
    if secret:
        headers.append(f"X-Opilio-Signature: {signature(secret, sent_s, body)}")
    curl = pycurl.Curl()
    answer = io.BytesIO()

    def take(data: bytes) -> int | None:
        return None if answer.tell() < MAX_ANSWER_BYTES and answer.write(data) else 0

    try:
        curl.setopt(pycurl.URL, url)
        curl.setopt(pycurl.POST, 1)
        curl.setopt(pycurl.POSTFIELDS, body)
        curl.setopt(pycurl.HTTPHEADER, headers)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.PROXY, "")
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.TIMEOUT, TIMEOUT_S)
        curl.setopt(pycurl.WRITEFUNCTION, take)
        # Connect to an address that was checked, whatever the name means a moment later.
        checked = addresses[0]
        shown = f"[{checked}]" if checked.version == 6 else str(checked)
        curl.setopt(pycurl.CONNECT_TO, [f"::{shown}:{port}"])
        set_trust(curl, ca_certificates(""), verify=True)
        curl.perform()
        status = int(curl.getinfo(pycurl.RESPONSE_CODE))
    except pycurl.error as error:
        return " ".join(str(error.args[-1]).split()), True
    finally:
        curl.close()
    if 200 <= status < 300:
        return "", False
    return f"status {status}", status in (408, 425, 429) or status >= 500


def _shown(url: str) -> str:
    """The URL without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}{parts.path[:40]}"
