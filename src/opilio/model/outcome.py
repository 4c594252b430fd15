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
    RESERVED = "rights-reserved"
    FORGOTTEN = "forgotten"
    LOCKED = "locked-domain"
    OUT_OF_SCOPE = "out-of-scope"
    TOO_DEEP = "too-deep"
    HOST_LIMIT = "host-limit"
    DOMAIN_LIMIT = "domain-limit"
    URL_TOO_LONG = "url-too-long"
    TRAP = "trap"
    REPETITIVE = "repetitive"
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
    SOFT_404 = "soft-404"
    TOO_MANY_REQUESTS = "http-429"
    SERVER_ERROR = "http-5xx"
    WORKER_LOST = "worker-lost"
    NEEDS_JAVASCRIPT = "needs-javascript"
    RENDER_FAILED = "render-failed"
    BROWSER_LOST = "browser-lost"
    UNREADABLE = "unreadable"

    @property
    def kind(self) -> OutcomeKind:
        """The group that this outcome is counted in."""
        return _KIND[self]

    @property
    def meaning(self) -> str:
        """What it means, in one or two sentences."""
        return _MEANING[self]

    @property
    def is_dead(self) -> bool:
        """Whether the server said that there is no page: other URLs like this one may be dead links too."""
        return self in (Outcome.CLIENT_ERROR, Outcome.SOFT_404)

    @property
    def is_unreachable(self) -> bool:
        """Whether no server could be reached: it has said nothing, not even no."""
        return self in _UNREACHABLE

    @property
    def may_retry(self) -> bool:
        """Whether another attempt may succeed."""
        return self in _RETRY

    @property
    def is_lost(self) -> bool:
        """Whether a process of ours ended that had it, perhaps because of another page."""
        return self in _LOST

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
    def is_repeat(self) -> bool:
        """Whether a page that was fetched, and ended so, has nothing that we do not have."""
        return self in _REPEATS

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
    Outcome.SOFT_404,
    Outcome.TOO_MANY_REQUESTS,
    Outcome.SERVER_ERROR,
    Outcome.WORKER_LOST,
    Outcome.NEEDS_JAVASCRIPT,
    Outcome.RENDER_FAILED,
    Outcome.BROWSER_LOST,
    Outcome.UNREADABLE,
}


def _kind(outcome: Outcome) -> OutcomeKind:
    if outcome in _STORED:
        return OutcomeKind.STORED
    if outcome in _FAILED:
        return OutcomeKind.FAILED
    return OutcomeKind.DUPLICATE if "duplicate" in outcome else OutcomeKind.REFUSED


_REPEATS = frozenset(
    {Outcome.DUP_IP_SIZE, Outcome.DUP_CONTENT, Outcome.DUP_NEAR, Outcome.DUP_CANONICAL, Outcome.SOFT_404}
)
_KIND = {outcome: _kind(outcome) for outcome in Outcome}
_BLAMES_HOST = frozenset({Outcome.DNS_FAILED, Outcome.CONNECT_FAILED, Outcome.TIMED_OUT})
_TELLS_RULES = frozenset(
    {Outcome.OK, Outcome.CLIENT_ERROR, Outcome.BAD_REDIRECT, Outcome.TOO_MANY_REDIRECTS}
)  # status 429 does not: it asks us to come back later
_LOST = frozenset({Outcome.WORKER_LOST, Outcome.BROWSER_LOST})
_RETRY = _BLAMES_HOST | _LOST | {Outcome.BROKEN, Outcome.TOO_MANY_REQUESTS, Outcome.SERVER_ERROR}
_UNREACHABLE = _BLAMES_HOST | {Outcome.TLS_FAILED}
_MEANING = {
    Outcome.OK: "The page was fetched, read and stored.",
    Outcome.NOT_MODIFIED: "A recrawl found the page as it was.",
    Outcome.REDIRECT: "Answered by a redirect; its target is a URL of its own (table `redirects`).",
    Outcome.ROBOTS: "robots.txt forbids it, or asks for a longer delay than we wait.",
    Outcome.NOINDEX: "The page asks not to be kept (meta tag or X-Robots-Tag). Its links are followed.",
    Outcome.RESERVED: "The page or its site reserves rights that `robots.obey_rights` names. Nothing of it is kept, "
    "its links are not followed, and `visits.detail` says which rights.",
    Outcome.FORGOTTEN: "It was forgotten at your request (`opilio forget`). It is not fetched again.",
    Outcome.LOCKED: "Its domain is in `scope.locked_domains`, or it begins with one of `scope.locked_urls`.",
    Outcome.OUT_OF_SCOPE: "Its domain is not in `scope.only_domains`, or not one of the seeds'.",
    Outcome.TOO_DEEP: "More links from a seed than `limits.max_depth`.",
    Outcome.HOST_LIMIT: "Its host has given `limits.max_pages_per_host` pages.",
    Outcome.DOMAIN_LIMIT: "Its registered domain has more hosts than it may have for what they gave "
    "(`limits.max_hosts_per_domain`). Its host is not contacted.",
    Outcome.URL_TOO_LONG: "The URL or its host name is too long. Only counted: it gets no row in `crawl`.",
    Outcome.TRAP: "The URL looks like one of endlessly many (section `traps` of the settings).",
    Outcome.REPETITIVE: "Nearly all that came from its host or folder repeats pages we have (`traps.max_repeats`). It "
    "is not fetched.",
    Outcome.EVICTED: "The worst of too many waiting URLs (`frontier.max_queued`).",
    Outcome.PRIVATE_ADDRESS: "Its host has a loopback, private or reserved address.",
    Outcome.WRONG_TYPE: "Not of a type in `fetch.accept`, by its header or by its bytes.",
    Outcome.TOO_LARGE: "A document larger than `fetch.accept` allows for its type. Text is cut instead.",
    Outcome.BOMB: "A small body that unfolds to more than the limit of its type.",
    Outcome.TOO_MANY_REDIRECTS: "More redirects in a row than `fetch.max_redirects`.",
    Outcome.NOT_FOLLOWED: "Only pages link to it whose links the strategy does not follow. Queued once another page "
    "does, or once such a page is judged relevant.",
    Outcome.ELSEWHERE: "Another part of a collection that was divided has it (`opilio split`). It is not fetched.",
    Outcome.DUP_IP_PATH: "Same address and path as a page of a host that proved to be an alias. It is not fetched.",
    Outcome.DUP_IP_SIZE: "Same address and size as a page we have, and (by default) the same text.",
    Outcome.DUP_CONTENT: "Same visible text as a page we have.",
    Outcome.DUP_NEAR: "Nearly the same text as a page we have. Its links are followed.",
    Outcome.DUP_SUFFIX: "Same name with another suffix as a page of the same host. It is not fetched.",
    Outcome.DUP_CANONICAL: "Its canonical link names a page we have.",
    Outcome.DNS_FAILED: "The name of its host could not be resolved.",
    Outcome.CONNECT_FAILED: "No connection to its host, or to the proxy.",
    Outcome.TLS_FAILED: "No secure connection: a certificate or protocol error.",
    Outcome.TIMED_OUT: "Too slow to connect, too long silent, or too long in all.",
    Outcome.BROKEN: "The connection ended in the middle, or the answer was not HTTP.",
    Outcome.BAD_ENCODING: "The body is not in the Content-Encoding its header names.",
    Outcome.BAD_REDIRECT: "A redirect without a usable Location.",
    Outcome.CLIENT_ERROR: "Status 4xx other than 429.",
    Outcome.SOFT_404: "Status 200, but the page says only what its host answers for addresses that do not exist "
    "(`traps.soft_404`).",
    Outcome.TOO_MANY_REQUESTS: "Status 429. Retry-After is honoured up to `fetch.max_backoff_s`.",
    Outcome.SERVER_ERROR: "Status 5xx.",
    Outcome.WORKER_LOST: "The worker process that had it ended.",
    Outcome.NEEDS_JAVASCRIPT: "The page is empty without JavaScript, and it is not rendered (`render.mode`). Its links "
    "are followed.",
    Outcome.RENDER_FAILED: "Its scripts did not end in time, used too much memory or crashed, or the page is still "
    "empty when rendered; `visits.detail` says which.",
    Outcome.BROWSER_LOST: "The browser that rendered it ended.",
    Outcome.UNREADABLE: "Fetched, but it could not be analysed; `visits.detail` says why.",
}
