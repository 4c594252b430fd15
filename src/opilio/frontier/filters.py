"""Which URLs may be fetched at all: scope, and bounds on what an endless site can make us fetch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable

import xxhash

from opilio.model import Outcome
from opilio.model.url import MAX_HOST_CHARS, host_name
from opilio.settings import ScopeSettings, TrapSettings

# A date at the end of the path (/events/2024/05/) or named parts of one in the query: pages of a calendar. A date with
# a name after it (/2024/05/12/title) is an article, not a calendar.
_CALENDAR = re.compile(
    r"/(?:19|20)\d\d[-/]\d{1,2}(?:[-/]\d{1,2})?/?(?:\?|$)"
    r"|[?&](?:year|month|week|day|date|cal|y|m|d)=[\d-]+(?:&|$)",
    re.IGNORECASE,
)


class ScopeFilter:
    """Decides on a host once, when it is first seen, and again when the user locks or unlocks a domain."""

    def __init__(self, scope: ScopeSettings, seed_domains: frozenset[str] = frozenset()) -> None:
        self.lock(scope.locked_domains, scope.locked_urls)
        self._only = frozenset(scope.only_domains) | (seed_domains if scope.stay_on_seed_domains else frozenset())
        self._restricted = bool(self._only)

    def lock(self, domains: Iterable[str], urls: Iterable[str]) -> None:
        """Lock these domains and the URLs that begin so, and no others."""
        self.locked = frozenset(domains)
        found: dict[str, set[str]] = {}
        for url in urls:
            start = _without_scheme(url)
            found.setdefault(start.partition("/")[0], set()).add(start)
        self.locked_urls = {host: tuple(sorted(starts)) for host, starts in found.items()}
        """By host: beginnings of URLs that are locked, without their scheme."""

    def is_locked(self, url: str) -> bool:
        """Whether a URL begins as one that is locked; its host need not be."""
        if not self.locked_urls:
            return False
        rest = _without_scheme(url)
        starts = self.locked_urls.get(rest.partition("/")[0])
        return starts is not None and rest.startswith(starts)

    def rejection(self, host: str) -> Outcome | None:
        """Why nothing may be fetched from `host`; None when it may."""
        name = host_name(host)
        if len(name) > MAX_HOST_CHARS:
            return Outcome.URL_TOO_LONG
        if covering(name, self.locked):
            return Outcome.LOCKED
        if self._restricted and not covering(name, self._only):
            return Outcome.OUT_OF_SCOPE
        return None


def _without_scheme(url: str) -> str:
    return url.partition("://")[2]


def covering(name: str, domains: Container[str]) -> str:
    """`name`, or the nearest domain above it, that is in `domains`; '' when none is."""
    while name and name not in domains:
        name = name.partition(".")[2]
    return name


class TrapGuard:
    """Bounds sites without end. Remembers one number per path with queries and per host with a calendar."""

    def __init__(self, traps: TrapSettings) -> None:
        self._traps = traps
        self._queries: Counter[int] = Counter()  # by path
        self._calendar: Counter[int] = Counter()  # by host

    def rejection(self, url: str, sid: int, *, counts: bool = True) -> Outcome | None:
        """Why a new URL is taken for a trap; None when it is not. Unless it `counts`, it leaves room for others."""
        traps = self._traps
        if len(url) > traps.max_url_chars:
            return Outcome.URL_TOO_LONG
        path, question, query = url.partition("?")
        segments = path.count("/") - 2
        if segments > traps.max_path_segments:
            return Outcome.TRAP
        if segments > traps.max_repeated_segments:
            names = path.split("/")[3:]
            if len(set(names)) < len(names) and _most_repeated(names) > traps.max_repeated_segments:
                return Outcome.TRAP
        if question and query.count("&") >= traps.max_query_params:
            return Outcome.TRAP
        return self.count(url, sid, 1 if counts else 0)

    def count(self, url: str, sid: int, n: int = 1) -> Outcome | None:
        """Count a URL `n` times against its path and its host's calendar; also used after a restart."""
        question = url.find("?")
        if question >= 0:
            path = xxhash.xxh3_64_intdigest(url[:question].encode())
            if _over(self._queries, path, n, self._traps.max_queries_per_path):
                return Outcome.TRAP
        if _CALENDAR.search(url) and _over(self._calendar, sid, n, self._traps.max_calendar_urls_per_host):
            return Outcome.TRAP
        return None


def _over(counter: Counter[int], key: int, n: int, limit: int) -> bool:
    """Whether one more URL is too many; `n` is added to the count."""
    before = counter[key]
    if n:
        counter[key] = before + n
    return before >= limit


def _most_repeated(names: list[str]) -> int:
    return max(Counter(name for name in names if name).values(), default=0)
