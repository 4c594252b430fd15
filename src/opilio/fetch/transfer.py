"""One response as it arrives: head and body are checked piece by piece, and an unwanted response is cut off at once.

This module knows HTTP but no network: it is given header lines and body bytes, and returns STOP if the rest is not
needed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from opilio.fetch.decoding import CodingError, Decoder, codings_of
from opilio.fetch.headers import SNIFF_BYTES, UNKNOWN_TYPES, is_text, media_type, parse_headers, sniff, status_of
from opilio.model import Outcome

# The body of an error or a redirect is cut at this size, because a crawl has no use for it.
MAX_OTHER_BODY_BYTES = 2**16

GO_ON = None
STOP = -1

Ending = tuple[Outcome, str]
"""How a transfer ended other than with a usable response: the outcome and one line of detail."""


@dataclass(frozen=True)
class BodyLimits:
    """Which bodies are accepted."""

    accept: dict[str, int] = field(default_factory=dict)
    """Largest body in bytes for each type; a trailing * matches any ending. Text that is longer is cut there; other
    files, of which a part cannot be read, are rejected. Empty: any type, up to `max_bytes`."""
    max_bytes: int = 0
    cut: bool = False
    """A body that is longer than `max_bytes` is cut instead of rejected."""
    cut_text_bytes: int = 0
    """Text of an accepted type is cut at this size, in place of the size in `accept`. 0: at that size."""

    def limit(self, mime_type: str) -> int:
        """Largest body of a type in bytes; 0 if the type is not accepted."""
        known = self.accept.get(mime_type)
        if known is not None:
            return known
        return next(
            (size for name, size in self.accept.items() if name[-1:] == "*" and mime_type.startswith(name[:-1])), 0
        )


class Transfer:
    """The state of one response. When the transfer has ended, call `finish`, then read the attributes."""

    def __init__(self, limits: BodyLimits) -> None:
        self.limits = limits
        self.lines: list[bytes] = []
        self.headers: dict[str, str] = {}
        self.status = 0
        self.content_type = ""
        self.raw_bytes = 0
        self.active_s = 0.0
        """When the last piece arrived (monotonic); 0 before the first."""
        self.was_cut = False
        """We stopped the transfer on purpose and keep what we have."""
        self.rejection: Ending | None = None
        """Why we reject the response, if we do."""
        self._raw: list[bytes] = []
        self._max_bytes = MAX_OTHER_BODY_BYTES
        self._cuts = limits.cut
        self._decoder: Decoder | None = None
        self._head_done = False
        self._sniffed = True

    @property
    def raw_body(self) -> bytes:
        """The body as received."""
        return b"".join(self._raw)

    def on_header(self, line: bytes) -> int | None:
        """Process one header line. If there are several heads (100 Continue, 103 Early Hints), the last one counts."""
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
        """Process a piece of the body."""
        self.active_s = time.monotonic()
        self._raw.append(data)
        self.raw_bytes += len(data)
        decoder, fits = self._decoder, True
        if decoder is not None:
            try:
                fits = decoder.feed(data)
            except CodingError as error:
                if self._bad_encoding(error) is STOP:
                    return STOP
        excess = self._excess(fits)
        if excess and (self._is_bomb or not self._may_cut):
            return self._too_long(excess)
        # Whether text is cut, and where, is known once its type is.
        has_start = excess or (decoder.body_bytes if decoder else self.raw_bytes) >= SNIFF_BYTES
        if has_start and not self._sniffed and self._check_bytes(self._body()) is STOP:
            return STOP
        excess = self._excess(fits)
        return self._too_long(excess) if excess else GO_ON

    def _excess(self, fits: bool) -> str:
        """How the body so far is too long, in words; empty if it is not. `fits`: as far as it was decoded."""
        if not fits:
            return f"more than {self._max_bytes} bytes when decoded"
        return f"more than {self._max_bytes} bytes received" if self.raw_bytes > self._max_bytes else ""

    def finish(self) -> bytes:
        """Check the complete (or cut) body and return it decoded; `rejection` is final now."""
        if self.rejection is None and self._decoder is not None and not self.was_cut:
            try:
                self._decoder.finish()
            except CodingError as error:
                self._bad_encoding(error)
        if self.rejection is None and not self._sniffed:
            self._check_bytes(self._body())
        return self._body() if self.rejection is None else b""

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
        if 200 <= status < 300 and not self._apply_limits():
            return STOP
        length = self.headers.get("content-length", "")
        promised_bytes = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else 0
        if promised_bytes > self._max_bytes and not (self._may_cut and self._is_success):
            return self._too_long(f"Content-Length is {length} bytes, the limit {self._max_bytes}")
        codings = codings_of(self.headers.get("content-encoding", ""))
        if codings:
            self._decoder = Decoder(codings, self._max_bytes)
        return GO_ON

    def _apply_limits(self) -> bool:
        """Set the size limit by the type; False if the type is not accepted."""
        limits = self.limits
        self._max_bytes = limits.max_bytes
        if not limits.accept:
            return True
        self._sniffed = False
        if not self.content_type:
            self._max_bytes = max(limits.accept.values())
        else:
            self._max_bytes = limits.limit(self.content_type)
        if not self._max_bytes:
            self.rejection = Outcome.WRONG_TYPE, f"{self.content_type} is not accepted"
            return False
        if self._may_cut:  # where, is decided when the bytes are known to be text
            self._max_bytes = max(self._max_bytes, limits.cut_text_bytes)
        return True

    @property
    def _may_cut(self) -> bool:
        """Whether the body is cut when it is too long; a body of unknown type may turn out to be text."""
        may_be_text = is_text(self.content_type) or (not self._sniffed and self.content_type in UNKNOWN_TYPES)
        return self._cuts or (bool(self.limits.accept) and may_be_text)

    @property
    def _is_bomb(self) -> bool:
        """Whether the body is a decompression bomb. What is cut at a size that was set for it does no harm."""
        is_short = self.limits.cut or self.limits.cut_text_bytes > 0
        return self._decoder is not None and self._decoder.is_bomb and not is_short

    @property
    def _is_success(self) -> bool:
        return 200 <= self.status < 300

    def _too_long(self, detail: str) -> int:
        if not self._is_success or (self._cuts and not self._is_bomb):
            self.was_cut = True
        elif self._is_bomb:
            self.rejection = Outcome.BOMB, f"{self.raw_bytes} bytes decompress to {detail}"
        else:
            self.rejection = Outcome.TOO_LARGE, detail
        return STOP

    def _bad_encoding(self, error: CodingError) -> int | None:
        if self._is_success:
            self.rejection = Outcome.BAD_ENCODING, str(error)
            return STOP
        self._decoder = None  # the body of an error page does not matter
        return GO_ON

    def _check_bytes(self, start: bytes) -> int | None:
        """Compare the bytes with the declared type, or set the type if none was declared."""
        self._sniffed = True
        found = sniff(start, self.headers.get("content-type", ""))
        is_declared = self.content_type not in UNKNOWN_TYPES
        if not is_declared or (is_text(self.content_type) and not is_text(found)):
            limit = self.limits.limit(found) if found not in UNKNOWN_TYPES else 0
            if not limit:
                sent = f"sent as {self.content_type}" if self.content_type else "sent without a type"
                self.rejection = Outcome.WRONG_TYPE, f"{sent}, but the bytes are {found}, which is not accepted"
                return STOP
            self.content_type = found
            self._max_bytes = limit
        if is_text(self.content_type):
            self._cuts = True
            self._max_bytes = self.limits.cut_text_bytes or self._max_bytes
        if self._decoder is not None:
            self._decoder.max_bytes = self._max_bytes
        if len(start) > self._max_bytes:
            return self._too_long(f"more than {self._max_bytes} bytes of {self.content_type}")
        return GO_ON
