"""Which URLs may be fetched at all: scope, and bounds on what an endless site can make us fetch."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable

import xxhash

from opilio.model import Outcome
from opilio.model.url import MAX_HOST_CHARS, host_name
from opilio.settings import ScopeSettings, TrapSettings

# A date at the end of the path (/events/2024/05/) or named parts of one in path or query: pages of a calendar. A date
# with a name after it (/2024/05/12/title) is an article, not a calendar.
_CALENDAR = re.compile(
    r"/(?:19|20)\d\d[-/]W?\d{1,2}(?:[-/]\d{1,2})?/?(?:\?|$)"
    r"|/(?:year|month|week|day)[/-]\d+(?:/(?:year|month|week|day)[/-]\d+)*/?(?:\?|$)"
    r"|[?&](?:year|month|week|day|date|cal|y|m|d)=[\d-]+(?:&|$)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"/(?:page|pages|pg|p|seite|pagina|strona|offset|start)[/_-]?\d+(?:\.\w+)?/?$", re.IGNORECASE)
_ID = re.compile(r"[0-9A-Za-z]*\d[0-9A-Za-z]*")  # a number, or an id such as that of a session
PAGES_PER_URL = 4
"""A host may have one more URL of a calendar, or of a list, for each 4 pages: so a site that has nothing else comes to
an end a third beyond the limit."""
REPEATS_PER_PAGE = 3
"""A host or folder may give 3 repeated pages for each new one."""


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
    """Bounds sites without end. Remembers one number per path with queries, per list and per host with a calendar."""

    def __init__(self, traps: TrapSettings) -> None:
        self._traps = traps
        self._queries: Counter[int] = Counter()  # by path
        self._lists: Counter[int] = Counter()  # by path before the number
        self._calendar: Counter[int] = Counter()  # by host

    def rejection(self, url: str, sid: int, pages: int = 0, *, counts: bool = True) -> Outcome | None:
        """Why a new URL is taken for a trap; None when it is not. Unless it `counts`, it leaves room for others.

        `pages` are those that its host has given.
        """
        traps = self._traps
        if len(url) > traps.max_url_chars:
            return Outcome.URL_TOO_LONG
        path, _, query = url.partition("?")
        segments = path.count("/") - 2
        if segments > traps.max_path_segments:
            return Outcome.TRAP
        if segments > traps.max_repeated_segments:
            names = path.split("/")[3:]
            again = len(names) - len(set(names))
            if again and max(again + 1, _most_repeated(names)) > traps.max_repeated_segments:
                return Outcome.TRAP
        if query.count("&") >= traps.max_query_params or path.count(";") > traps.max_query_params:
            return Outcome.TRAP
        return self.count(url, sid, pages, 1 if counts else 0)

    def count(self, url: str, sid: int, pages: int = 0, n: int = 1) -> Outcome | None:
        """Count a URL `n` times against its path, its list and its host's calendar; also used after a restart.

        Parameters of a path (/list;page=2) are as endless as a query.
        """
        more = pages // PAGES_PER_URL
        path = url.partition("?")[0]
        bare = path.partition(";")[0]
        if bare != url and _over(self._queries, _key(bare), n, self._traps.max_queries_per_path):
            return Outcome.TRAP
        numbered = _NUMBERED.search(path)
        if numbered and _over(self._lists, _key(path[: numbered.start()]), n, self._traps.max_pages_per_list + more):
            return Outcome.TRAP
        if _CALENDAR.search(url) and _over(self._calendar, sid, n, self._traps.max_calendar_urls_per_host + more):
            return Outcome.TRAP
        return None


class RepeatGuard:
    """Ends the fetching from hosts and folders that give hardly anything but pages we have (near-duplicate farms,
    session ids in paths). Remembers two numbers per host and folder."""

    def __init__(self, traps: TrapSettings) -> None:
        self._limit = traps.max_repeats
        self._new: Counter[int] = Counter()
        self._repeated: Counter[int] = Counter()

    def note(self, url: str, sid: int, *, is_new: bool) -> None:
        """A page was fetched that is new, or repeats one that we have."""
        (self._new if is_new else self._repeated).update((sid, _key(folder_form(url))))

    def rejects(self, url: str, sid: int) -> bool:
        """Whether nothing more should be fetched from the host or the folder of a URL."""
        return self._limit > 0 and (self._is_over(sid) or self._is_over(_key(folder_form(url))))

    def _is_over(self, key: int) -> bool:
        repeated = self._repeated.get(key, 0)
        return repeated >= self._limit and repeated >= self._limit + REPEATS_PER_PAGE * self._new[key]


def folder_form(url: str) -> str:
    """The folder of a URL, with a star for each number or id in its path: what URLs of one kind have in common."""
    scheme, _, rest = url.partition("?")[0].partition("://")
    host, _, path = rest.partition("/")
    return f"{scheme}://{host}/{_ID.sub('*', path.rpartition('/')[0])}"


def _key(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode())


def _over(counter: Counter[int], key: int, n: int, limit: int) -> bool:
    """Whether one more URL is too many; `n` is added to the count."""
    before = counter[key]
    if n:
        counter[key] = before + n
    return before >= limit


def _most_repeated(names: list[str]) -> int:
    return max(Counter(name for name in names if name).values(), default=0)
