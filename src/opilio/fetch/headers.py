"""Heads of requests and responses, between bytes and meaning. Nothing here waits or opens anything."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from http import HTTPStatus

MAX_RETRY_AFTER_S = 10.0 * 365 * 86_400

_STATUS_LINE = re.compile(rb"HTTP/([0-9.]+) +([0-9]{3})(?: +([^\r\n]*))?")
_REASONS = {status.value: status.phrase for status in HTTPStatus}


def status_of(line: bytes) -> int:
    """The status of a status line, 0 when it is none."""
    found = _STATUS_LINE.match(line)
    return int(found.group(2)) if found else 0


def parse_headers(lines: Sequence[bytes]) -> dict[str, str]:
    """Header lines (without the status line) by lower-case name; repeated ones are joined by a comma."""
    headers: dict[str, str] = {}
    name = ""
    for line in lines:
        text = line.decode("latin-1")
        if text[:1] in (" ", "\t"):  # a folded line goes on with the header before it
            if name:
                headers[name] = f"{headers[name]} {text.strip()}".strip()
            continue
        head, colon, value = text.partition(":")
        if not colon:
            continue
        name = head.strip().lower()
        value = value.strip()
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def raw_head(lines: Sequence[bytes]) -> bytes:
    """The head as received, ending in an empty line; the status line of HTTP/2 written in the form of HTTP/1.1."""
    if not lines:
        return b""
    first = lines[0]
    found = _STATUS_LINE.match(first)
    if found and not found.group(1).startswith(b"1"):
        reason = found.group(3) or _REASONS.get(int(found.group(2)), "").encode()
        first = b"HTTP/1.1 %s %s\r\n" % (found.group(2), reason)
    head = first + b"".join(lines[1:])
    return head if head.endswith((b"\r\n\r\n", b"\n\n")) else head + b"\r\n"


def request_head(host: str, target: str, headers: Sequence[str]) -> bytes:
    """The head of a GET request, as libcurl sends it when all its other headers are ours."""
    return "\r\n".join((f"GET {target} HTTP/1.1", f"Host: {host}", *headers, "", "")).encode("latin-1", "replace")


def retry_after_s(value: str, now_s: float) -> float:
    """Seconds that a Retry-After header (seconds or a date) asks to wait; 0 when it says nothing usable."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return min(float(value), MAX_RETRY_AFTER_S) if len(value) < 12 else MAX_RETRY_AFTER_S
    try:
        when = parsedate_to_datetime(value)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return min(max(when.timestamp() - now_s, 0.0), MAX_RETRY_AFTER_S)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0


def safe_value(value: str) -> str:
    """A header value made of what a server once sent us: no line ends or other controls may get back out."""
    return "".join(char for char in value if char.isprintable())
