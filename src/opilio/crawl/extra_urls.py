"""URLs that do not come from the links of pages: the folders above a page, and known links to it.

Both are tried for relevant pages only (Focus 3.2). The URLs are offered to the frontier like any others: scope, traps,
limits and robots rules apply to them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from opilio.distill.back_links import BackLinks
from opilio.model import host_of
from opilio.model.url import path_of
from opilio.settings import FrontierSettings

STEP_DECAY = 0.5
"""What is left of a page's relevance one step away from it; as for tunnelled links (BINGO 4.2)."""
FROM_PATHS, FROM_BACK_LINKS = "URLs from truncated paths", "URLs from back-links"


class ExtraUrl(NamedTuple):
    """A URL that is worth a try because of a relevant page."""

    url: str
    steps: int
    """How far it is from that page."""
    counter: str
    """The counter for such URLs."""


class Sources:
    """The sources of URLs that the settings ask for."""

    def __init__(self, settings: FrontierSettings, known_hosts: Callable[[], Iterable[str]] = list) -> None:
        """`known_hosts` gives the names of the hosts that the crawl knows, to which back-links may lead."""
        self._truncates = settings.truncate_paths
        self._path = settings.back_links
        self._known_hosts = known_hosts

    @functools.cached_property
    def back_links(self) -> BackLinks | None:
        """Known links from outside the crawl, if the settings name any; read at the first call."""
        return BackLinks.load(Path(self._path), self._known_hosts()) if self._path else None

    def around(self, url: str) -> Iterator[ExtraUrl]:
        """The URLs that are worth a try because of a relevant page."""
        if self._truncates:
            for steps, folder in enumerate(folders_above(url), 1):
                yield ExtraUrl(folder, steps, FROM_PATHS)
        if self.back_links is not None:
            for source in self.back_links.to(url):
                yield ExtraUrl(source, 1, FROM_BACK_LINKS)


def folders_above(url: str) -> list[str]:
    """The folders above a page, the nearest first; the last is the home page of its host."""
    path = path_of(url).partition("?")[0]
    top = url[: url.index("//") + 2] + host_of(url)
    ends = [at for at, char in enumerate(path) if char == "/"]
    folders = [top + path[: end + 1] for end in reversed(ends)]
    return [folder for folder in folders if folder != url]
