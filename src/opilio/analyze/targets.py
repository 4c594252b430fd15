"""Where links point: addresses as written on a page, resolved to URLs in normal form.

Sites repeat their addresses, menus above all, on every page. A relative address depends on nothing but the *folder* of
the page it stands on, so that resolved addresses are remembered by folder and address.
"""

from __future__ import annotations

from typing import NamedTuple

from opilio.model import normalize, url_key

MAX_HREF_CHARS = 4000
"""Longer addresses are passed over: data in disguise. (Frontiers refuse far shorter ones, and count them.)"""

_MAX_REMEMBERED = 100_000
# What a URL parser strips from both ends of an address before it looks at it.
_BLANK = "".join(map(chr, range(33)))


class Target(NamedTuple):
    """A URL in normal form and its key. A target without URL is no page."""

    url: str
    key: int


NOWHERE = Target("", 0)


class Targets:
    """Resolves addresses, remembering the most recent ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Target] = {}

    def resolve(self, href: str, base: str, folder: str) -> Target:
        """Where `href` on the page `base`, whose folder is `folder`, leads to."""
        known = self._known.get((folder, href))
        if known is not None:
            return known
        if len(href) > MAX_HREF_CHARS:
            return NOWHERE
        stripped = href.strip(_BLANK)
        if not stripped or stripped[0] in "?#":  # the only addresses for which the rest of the page's own URL matters
            return _target(normalize(stripped, base))
        if len(self._known) >= _MAX_REMEMBERED:
            self._known.clear()
        target = self._known[folder, href] = _target(normalize(stripped, folder))
        return target


def _target(url: str) -> Target:
    return Target(url, url_key(url)) if url else NOWHERE


def folder_of(url: str) -> str:
    """A URL in normal form up to the last slash of its path."""
    path = url.partition("?")[0]
    return path[: path.rindex("/") + 1]
