"""Are the bookmarks still there? A look at each, before a crawl starts from them.

Each bookmark is fetched once, as a crawl would: robots.txt is obeyed, each host gets one request at a time with the
usual delay, and private addresses are refused. Redirects are followed inside the host only; what is moved to another
host is there, but its language is not known.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from opilio.crawl.messages import WorkerSetup
from opilio.crawl.worker import Worker
from opilio.fetch import RobotsRules
from opilio.model import Lease, Outcome, host_of
from opilio.settings import Settings

MAX_HOSTS = 32
"""How many hosts are looked at at a time."""
MAX_REDIRECTS = 5
MAX_TIME_S = 120.0
"""A preview that takes longer is of no use; the crawl looks at the rest."""
_GONE = frozenset({Outcome.CLIENT_ERROR, Outcome.DNS_FAILED, Outcome.CONNECT_FAILED, Outcome.BAD_REDIRECT})


@dataclass(frozen=True)
class CheckedBookmark:
    """What became of one bookmark."""

    url: str
    outcome: str
    """An outcome of the reference; `robots` if robots.txt forbids it, '' if there was no time to look."""
    detail: str = ""
    language: str = ""
    """ISO 639-1; '' if not known."""

    @property
    def is_dead(self) -> bool:
        """Whether nothing is there: the host is not found or refuses, or it says that there is no such page."""
        return self.outcome in _GONE


@dataclass(frozen=True)
class BookmarkReport:
    """What a look at all bookmarks found."""

    checked: int
    unchecked: int
    """There was no time for these."""
    dead: list[CheckedBookmark]
    trouble: list[CheckedBookmark]
    """Those that may be there, but could not be read now."""
    languages: dict[str, int]
    """How many pages are in each language, the most frequent first."""

    @classmethod
    def of(cls, bookmarks: list[CheckedBookmark]) -> BookmarkReport:
        """Sum up what was found."""
        looked = [one for one in bookmarks if one.outcome]
        bad = [one for one in looked if one.outcome not in (Outcome.OK, Outcome.REDIRECT)]
        languages = Counter(one.language for one in looked if one.language)
        return cls(
            checked=len(looked),
            unchecked=len(bookmarks) - len(looked),
            dead=[one for one in bad if one.is_dead],
            trouble=[one for one in bad if not one.is_dead],
            languages=dict(languages.most_common()),
        )


def check_bookmarks(
    urls: Iterable[str],
    settings: Settings,
    *,
    max_time_s: float = MAX_TIME_S,
    on_checked: Callable[[CheckedBookmark], object] = lambda checked: None,
) -> BookmarkReport:
    """Look at each bookmark; `on_checked` is called with each as it is known."""
    return BookmarkReport.of(asyncio.run(_Check(settings, max_time_s, on_checked).run(list(urls))))


class _Check:
    """One look at many bookmarks, host by host."""

    def __init__(self, settings: Settings, max_time_s: float, on_checked: Callable[[CheckedBookmark], object]) -> None:
        self._settings = settings
        self._worker = Worker(WorkerSetup(dataclasses.asdict(settings), b"", "", "check"), archive=False)
        self._ends_s = time.monotonic() + max_time_s
        self._on_checked = on_checked
        self._hosts = asyncio.Semaphore(MAX_HOSTS)

    async def run(self, urls: list[str]) -> list[CheckedBookmark]:
        by_host: dict[tuple[str, str], list[str]] = {}
        for url in urls:
            by_host.setdefault((url.partition(":")[0], host_of(url)), []).append(url)
        found: dict[str, CheckedBookmark] = {}
        try:
            for checked in await asyncio.gather(*(self._host(*host, those) for host, those in by_host.items())):
                found.update(checked)
        finally:
            await self._worker.aclose()
        return [found[url] for url in urls]

    async def _host(self, scheme: str, host: str, urls: list[str]) -> dict[str, CheckedBookmark]:
        async with self._hosts:
            contact = await self._worker.visit(Lease.first_contact(0, scheme, host))
            if contact.host is None or not contact.fetch.outcome.tells_rules:
                return {url: self._say(url, contact.fetch.outcome, contact.fetch.detail) for url in urls}
            rules = RobotsRules(contact.host, self._settings.user_agent)
            delay_s = max(self._settings.fetch.host_delay_s, contact.host.crawl_delay_s)
            return {url: await self._page(url, rules, delay_s) for url in urls}

    async def _page(self, url: str, rules: RobotsRules, delay_s: float) -> CheckedBookmark:
        target = url
        for _ in range(MAX_REDIRECTS):
            if not rules.allows(target):
                return self._say(url, "robots", "robots.txt forbids it")
            if time.monotonic() + delay_s > self._ends_s:
                return self._say(url, "", "there was no time to look")
            await asyncio.sleep(delay_s)
            visit = await self._worker.visit(Lease(0, target))
            if visit.fetch.outcome is not Outcome.REDIRECT:
                language = visit.document.language if visit.document is not None else ""
                return self._say(url, visit.fetch.outcome, visit.fetch.detail, language)
            if host_of(visit.fetch.redirect_url) != host_of(url):
                return self._say(url, Outcome.REDIRECT, f"moved to {visit.fetch.redirect_url}")
            target = visit.fetch.redirect_url
        return self._say(url, Outcome.TOO_MANY_REDIRECTS, f"more than {MAX_REDIRECTS} redirects")

    def _say(self, url: str, outcome: str, detail: str, language: str = "") -> CheckedBookmark:
        checked = CheckedBookmark(url, str(outcome), detail, language)
        self._on_checked(checked)
        return checked
