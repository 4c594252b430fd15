"""One response as it arrives: head and body are judged piece by piece, and what we do not want is cut off at once.

This module knows HTTP but no network: it is fed header lines and body bytes and answers STOP when enough was seen.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from opilio.fetch.decoding import CodingError, Decoder, codings_of
from opilio.fetch.headers import SAYS_NOTHING, SNIFF_BYTES, is_text, media_type, parse_headers, sniff, status_of
from opilio.model import Outcome

# The body of an error or a redirect is kept to this size; what is longer is cut, for it is of no use to a crawl.
MAX_OTHER_BODY_BYTES = 2**16

GO_ON = None
STOP = -1

Verdict = tuple[Outcome, str]


@dataclass(frozen=True)
class BodyLimits:
    """Which bodies are taken."""

    accept: dict[str, int] = field(default_factory=dict)
    """Largest body in bytes for each type, a * standing for any rest of it; empty: any type, to `max_bytes`."""
    max_bytes: int = 0
    cut: bool = False
    """A body that is too long is cut at the limit, not refused."""

    def limit(self, mime_type: str) -> int:
        """Largest body of a type; 0 when it is not accepted."""
        known = self.accept.get(mime_type)
        if known is not None:
            return known
        return next(
            (size for name, size in self.accept.items() if name[-1:] == "*" and mime_type.startswith(name[:-1])), 0
        )


class Transfer:
    """The state of one response. After the transfer ended: `finish`, then read the attributes."""

    def __init__(self, terms: BodyLimits) -> None:
        self.terms = terms
        self.lines: list[bytes] = []
        self.headers: dict[str, str] = {}
        self.status = 0
        self.content_type = ""
        self.raw_bytes = 0
        self.active_s = 0.0
        """When the last piece came (monotonic); 0 before the first."""
        self.was_cut = False
        """We stopped the transfer on purpose and take what we have."""
        self.verdict: Verdict | None = None
        """Why we refuse the response, when we do."""
        self._raw: list[bytes] = []
        self._max_bytes = MAX_OTHER_BODY_BYTES
        self._decoder: Decoder | None = None
        self._head_done = False
        self._sniffed = True

    @property
    def raw_body(self) -> bytes:
        """The body as received."""
        return b"".join(self._raw)

    def on_header(self, line: bytes) -> int | None:
        """Take one header line. Several heads may come (100 Continue, 103 Early Hints): the last one counts."""
        self.active_s = time.monotonic()
        if self._head_done:
            if self.status or not line.startswith(b"HTTP/"):
                return GO_ON  # a trailer
            self._head_done = False
            self.lines.clear()
        self.lines.append(line)
        if line in (b"\r\n", b"\n"):
            return self._head_complete()
        return GO_ON

    def on_body(self, data: bytes) -> int | None:
        """Take a piece of the body."""
        self.active_s = time.monotonic()
        self._raw.append(data)
        self.raw_bytes += len(data)
        if self.raw_bytes > self._max_bytes:
            return self._too_long(f"more than {self._max_bytes} bytes received")
        decoder = self._decoder
        if decoder is not None:
            try:
                if not decoder.feed(data):
                    return self._too_long(f"more than {self._max_bytes} bytes when decoded")
            except CodingError as error:
                return self._bad_encoding(error)
        if not self._sniffed and (decoder.body_bytes if decoder else self.raw_bytes) >= SNIFF_BYTES:
            return self._check_bytes(self._body())
        return GO_ON

    def finish(self) -> bytes:
        """Judge the complete (or cut) body and give it decoded; the verdict is final now."""
        if self.verdict is None and self._decoder is not None and not self.was_cut:
            try:
                self._decoder.finish()
            except CodingError as error:
                self._bad_encoding(error)
        body = self._body() if self.verdict is None else b""
        if self.verdict is None and not self._sniffed:
            self._check_bytes(body)
        return body if self.verdict is None else b""

    def _body(self) -> bytes:
        if self._decoder is not None:
            return self._decoder.body
        raw = self._raw[0] if len(self._raw) == 1 else self.raw_body
        return raw[: self._max_bytes] if len(raw) > self._max_bytes else raw

    def _head_complete(self) -> int | None:
        self._head_done = True
        status = status_of(self.lines[0])
        if 100 <= status < 200:
            return GO_ON
        self.status = status
        self.headers = parse_headers(self.lines[1:-1])
        self.content_type = media_type(self.headers.get("content-type", ""))
        if 200 <= status < 300 and not self._agree_on_terms():
            return STOP
        length = self.headers.get("content-length", "")
        promised_bytes = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0
        if promised_bytes > self._max_bytes and not (self.terms.cut and self._is_success):
            return self._too_long(f"Content-Length is {length} bytes, the limit {self._max_bytes}")
        codings = codings_of(self.headers.get("content-encoding", ""))
        if codings:
            self._decoder = Decoder(codings, self._max_bytes)
        return GO_ON

    def _agree_on_terms(self) -> bool:
        """Settle the size limit by the type; False when the type is not wanted."""
        terms = self.terms
        self._max_bytes = terms.max_bytes
        if not terms.accept:
            return True
        self._sniffed = False
        if not self.content_type:
            self._max_bytes = max(terms.accept.values())
        else:
            self._max_bytes = terms.limit(self.content_type)
        if not self._max_bytes:
            self.verdict = Outcome.WRONG_TYPE, f"{self.content_type} is not accepted"
            return False
        return True

    @property
    def _is_success(self) -> bool:
        return 200 <= self.status < 300

    def _too_long(self, detail: str) -> int:
        if self.terms.cut or not self._is_success:
            self.was_cut = True
        elif self._decoder is not None and self._decoder.is_bomb:
            self.verdict = Outcome.BOMB, f"{self.raw_bytes} bytes unfold to {detail}"
        else:
            self.verdict = Outcome.TOO_LARGE, detail
        return STOP

    def _bad_encoding(self, error: CodingError) -> int | None:
        if self._is_success:
            self.verdict = Outcome.BAD_ENCODING, str(error)
            return STOP
        self._decoder = None  # the body of an error page is not worth an error of its own
        return GO_ON

    def _check_bytes(self, start: bytes) -> int | None:
        """Compare the bytes with the type that was promised, or settle the type when none was."""
        self._sniffed = True
        found = sniff(start, self.headers.get("content-type", ""))
        says_something = self.content_type not in SAYS_NOTHING
        if says_something and (is_text(found) or not is_text(self.content_type)):
            return GO_ON
        limit = self.terms.limit(found) if found not in SAYS_NOTHING else 0
        if not limit:
            sent = f"sent as {self.content_type}" if self.content_type else "sent without a type"
            self.verdict = Outcome.WRONG_TYPE, f"{sent}, but the bytes are {found}, which is not accepted"
            return STOP
        self.content_type = found
        self._max_bytes = limit
        if self._decoder is not None:
            self._decoder.max_bytes = self._max_bytes
        if len(start) > self._max_bytes:
            return self._too_long(f"more than {self._max_bytes} bytes of {found}")
        return GO_ON
