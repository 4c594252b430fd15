"""A remote peer: a collection that another server publishes, reached over HTTP with a token.

Nothing that comes back is trusted: the exchange is bounded in bytes and time (`fetch/exchange.py`), and the content is
checked (`validation.py`). Whatever goes wrong is a `PeerError` that says what.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from opilio.federation.peers import Offer, PeerAnswer, PeerError, PeerRefusal, PeerSummary
from opilio.federation.validation import check_answer, check_summary
from opilio.fetch.exchange import ExchangeError, exchange

MAX_ANSWER_BYTES = 2**23
MAX_SUMMARY_BYTES = 2**26
MAX_SAID_CHARS = 300
SUMMARY_TIMEOUT_S = 120.0  # one that has to be made first takes seconds, on a busy machine more
CHANGE_TIMEOUT_S = 60.0
_PATH_SIGNS = "/%:@!$&'()*+,;=~"  # others are written as a browser would


class RemotePeer:
    """A peer on another server."""

    def __init__(self, name: str, address: str, token: str) -> None:
        """`address` is that of the collection in the portal, as `read_peers` checks it: http://host:8765/c/birds."""
        self.name = name
        self.place = address
        self._token = token
        above, _, collection = urlsplit(address).path.rstrip("/").rpartition("/c/")
        self._base = quote(f"{above}/api/c/{collection}/peer/", safe=_PATH_SIGNS)

    def summary(self, known: PeerSummary | None = None) -> PeerSummary:
        """Its summary; `known` itself when nothing has changed since."""
        headers = {"If-None-Match": f'"{known.version}"'} if known is not None else {}
        status, body = self._request("GET", "summary", None, SUMMARY_TIMEOUT_S, MAX_SUMMARY_BYTES, headers)
        if status == 304 and known is not None:
            return known
        report = self._decoded(body, PeerSummary)
        try:
            return check_summary(report)
        except PeerError as error:
            raise self._error(f"sent a summary that cannot be used: {error.message}") from None

    def ask(
        self,
        question: str,
        *,
        weights: Mapping[str, float] | None,
        filters: Sequence[tuple[str, str]],
        most: int,
        timeout_s: float,
    ) -> PeerAnswer:
        """Its best `most` pages for a question."""
        asked = {"question": question, "weights": weights, "filters": list(filters), "most": most}
        _, body = self._request("POST", "ask", asked, timeout_s, MAX_ANSWER_BYTES)
        return check_answer(self._decoded(body, PeerAnswer), most)

    def feedback(self, url: str, topic: str, *, relevant: bool) -> str:
        """Tell it whether one of its pages is relevant to a topic; returns a sentence for the user."""
        said = self._change("feedback", {"url": url, "topic": topic, "relevant": relevant}, "said", str)
        return "".join(sign for sign in said[:MAX_SAID_CHARS] if sign.isprintable())

    def offer(self, sender: str, offers: Sequence[Offer]) -> int:
        """Offer URLs; returns how many of them were new to it."""
        taken: int = self._change("offer", {"sender": sender, "offers": list(offers)}, "taken", int)
        return max(0, min(taken, len(offers)))

    def _change(self, what: str, asked: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
        _, body = self._request("POST", what, asked, CHANGE_TIMEOUT_S, MAX_ANSWER_BYTES)
        found = self._decoded(body, dict[str, Any]).get(key)
        if not isinstance(found, kind):
            raise self._error("sent another kind of answer than expected")
        return found

    # -- HTTP

    def _request(
        self,
        method: str,
        what: str,
        asked: Mapping[str, Any] | None,
        timeout_s: float,
        max_bytes: int,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """The status and the body of a response; PeerError when there is none."""
        sent = {"Authorization": f"Bearer {self._token}", **(headers or {})}
        body = None if asked is None else msgspec.json.encode(asked)
        try:
            reply = exchange(
                method, self.place, path=self._base + what, body=body, headers=sent, timeout_s=timeout_s,
                max_bytes=max_bytes,
            )  # fmt: skip
        except ExchangeError as error:
            raise self._error(str(error)) from None
        return reply.status, self._checked(reply.status, reply.body)

    def _checked(self, status: int, body: bytes) -> bytes:
        """The body of an answer that is one."""
        if status in (200, 304):
            return body
        if 300 <= status < 400:
            raise self._error("answers with a redirect, which is not followed")
        said = _said(body)
        if status == 403:
            raise self._error(f"does not let us in{said}", "Is its token in the file of peers the right one?")
        if status in (400, 422):  # the request is wrong, not the state of the peer
            raise PeerRefusal(f"{self.name} ({self.place}) refuses{said}")
        raise self._error(f"answers with status {status}{said}")

    def _decoded(self, body: bytes, kind: Any) -> Any:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._error(f"sent another kind of answer than expected ({error})") from None

    def _error(self, what: str, hint: str = "") -> PeerError:
        return PeerError(f"{self.name} ({self.place}) {what}", hint)


def _said(body: bytes) -> str:
    """What an answer of ours says is wrong, if it is one."""
    try:
        said = msgspec.json.decode(body, type=dict[str, Any]).get("error", "")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    text = "".join(sign for sign in str(said)[:MAX_SAID_CHARS] if sign.isprintable())
    return f": {text}" if text else ""
