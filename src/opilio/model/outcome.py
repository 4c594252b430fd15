"""Outcomes: how a URL ended. What the web does is a value, never an exception."""

from __future__ import annotations

from enum import StrEnum

from opilio.model.state import UrlState


class OutcomeKind(StrEnum):
    """The group that an outcome is counted in."""

    STORED = "stored"
    REFUSED = "refused by us"
    DUPLICATE = "duplicate"
    FAILED = "failed"


class Outcome(StrEnum):
    """How a fetch, or the decision not to fetch, ended. The columns `crawl.outcome` and `visits.outcome` hold these
    values."""

    # The server answered
    OK = "ok"
    NOT_MODIFIED = "not-modified"
    REDIRECT = "redirect"
    # We rejected the URL, before or after the fetch
    ROBOTS = "robots"
    NOINDEX = "noindex"
    LOCKED = "locked-domain"
    OUT_OF_SCOPE = "out-of-scope"
    TOO_DEEP = "too-deep"
    HOST_LIMIT = "host-limit"
    URL_TOO_LONG = "url-too-long"
    TRAP = "trap"
    EVICTED = "evicted"
    PRIVATE_ADDRESS = "private-address"
    WRONG_TYPE = "wrong-type"
    TOO_LARGE = "too-large"
    BOMB = "decompression-bomb"
    TOO_MANY_REDIRECTS = "too-many-redirects"
    ELSEWHERE = "elsewhere"
    NOT_FOLLOWED = "not-followed"
    # The collection already has the page
    DUP_IP_PATH = "duplicate-ip-path"
    DUP_IP_SIZE = "duplicate-ip-size"
    DUP_CONTENT = "duplicate-content"
    DUP_NEAR = "near-duplicate"
    DUP_SUFFIX = "duplicate-suffix"
    DUP_CANONICAL = "duplicate-canonical"
    # The fetch failed
    DNS_FAILED = "dns-failed"
    CONNECT_FAILED = "connect-failed"
    TLS_FAILED = "tls-failed"
    TIMED_OUT = "timed-out"
    BROKEN = "broken-response"
    BAD_ENCODING = "bad-encoding"
    BAD_REDIRECT = "bad-redirect"
    CLIENT_ERROR = "http-4xx"
    TOO_MANY_REQUESTS = "http-429"
    SERVER_ERROR = "http-5xx"
    WORKER_LOST = "worker-lost"
    UNREADABLE = "unreadable"

    @property
    def kind(self) -> OutcomeKind:
        """The group that this outcome is counted in."""
        return _KIND[self]

    @property
    def may_retry(self) -> bool:
        """Whether another attempt may succeed."""
        return self in _RETRY

    @property
    def blames_host(self) -> bool:
        """Whether this outcome makes its origin `slow` and, if repeated, `bad`."""
        return self in _BLAMES_HOST

    @property
    def tells_rules(self) -> bool:
        """Whether a request for robots.txt that ended so tells what may be fetched.

        A file that is not there allows everything. Any other end means "unreachable" in the words of RFC 9309: nothing
        may be fetched until a later request tells more.
        """
        return self in _TELLS_RULES

    @property
    def final_state(self) -> UrlState:
        """The state of a URL whose final outcome this is."""
        if self.kind is OutcomeKind.STORED:
            return UrlState.FETCHED
        return UrlState.FAILED if self.kind is OutcomeKind.FAILED else UrlState.DROPPED


_STORED = {Outcome.OK, Outcome.NOT_MODIFIED, Outcome.REDIRECT}
_FAILED = {
    Outcome.DNS_FAILED,
    Outcome.CONNECT_FAILED,
    Outcome.TLS_FAILED,
    Outcome.TIMED_OUT,
    Outcome.BROKEN,
    Outcome.BAD_ENCODING,
    Outcome.BAD_REDIRECT,
    Outcome.CLIENT_ERROR,
    Outcome.TOO_MANY_REQUESTS,
    Outcome.SERVER_ERROR,
    Outcome.WORKER_LOST,
    Outcome.UNREADABLE,
}


def _kind(outcome: Outcome) -> OutcomeKind:
    if outcome in _STORED:
        return OutcomeKind.STORED
    if outcome in _FAILED:
        return OutcomeKind.FAILED
    return OutcomeKind.DUPLICATE if "duplicate" in outcome else OutcomeKind.REFUSED


_KIND = {outcome: _kind(outcome) for outcome in Outcome}
_BLAMES_HOST = frozenset({Outcome.DNS_FAILED, Outcome.CONNECT_FAILED, Outcome.TIMED_OUT})
_TELLS_RULES = frozenset(
    {Outcome.OK, Outcome.CLIENT_ERROR, Outcome.BAD_REDIRECT, Outcome.TOO_MANY_REDIRECTS}
)  # status 429 does not: it asks us to come back later
_RETRY = _BLAMES_HOST | {Outcome.BROKEN, Outcome.TOO_MANY_REQUESTS, Outcome.SERVER_ERROR, Outcome.WORKER_LOST}
