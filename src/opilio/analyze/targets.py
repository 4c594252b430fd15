"""Where links point: addresses as written on a page, resolved to URLs in normal form.

Sites repeat their addresses, menus above all, on every page. A relative address depends on nothing but the *folder* of
the page it stands on, one that begins with a slash on the site's root, an absolute one on nothing at all; so resolved
addresses are remembered by what they depend on. Most others are plain (letters, digits and a few signs), and parsing
would not change them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from opilio.model import normalize, url_key

MAX_HREF_CHARS = 4000
"""Longer addresses are passed over: data in disguise. (Frontiers refuse far shorter ones, and count them.)"""

_MAX_REMEMBERED = 100_000
# Addresses that are in normal form as they are. Relative: a name, folders before it (none of them `.` or `..`); a word
# followed by a colon would be a scheme. Absolute: also a host whose last label begins with a letter, so that it is no
# number, and none of whose labels is in punycode, which is checked by parsing.
_PATH = r"(?:[A-Za-z0-9_~-][A-Za-z0-9_.~-]*/)*(?:[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)?"
_PLAIN = re.compile(rf"/?{_PATH}")
_PLAIN_ABSOLUTE = re.compile(rf"https?://(?:(?!xn--)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9]*/{_PATH}")
_HOST_FOLLOWS = ("//", "/\\")
_ABSOLUTE = ("http://", "https://")
# What a URL parser strips from both ends of an address before it looks at it.
_BLANK = "".join(map(chr, range(33)))


class Target(NamedTuple):
    """A URL in normal form and its key. A target without URL is no page."""

    url: str
    key: int


NOWHERE = Target("", 0)


class Base(NamedTuple):
    """What addresses are relative to: a URL, its folder (up to the last slash), its root (scheme and host)."""

    url: str
    folder: str
    root: str


class Targets:
    """Resolves addresses, remembering the most recent ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Target] = {}

    def resolve(self, href: str, base: Base) -> Target:
        """Where `href` on a page with this base leads to."""
        url, folder, root = base
        if href.startswith("/") and not href.startswith(_HOST_FOLLOWS):
            folder = root  # the path of the page does not matter
        elif href.startswith(_ABSOLUTE):
            folder = ""
        known = self._known.get((folder, href))
        if known is not None:
            return known
        if len(href) > MAX_HREF_CHARS:
            return NOWHERE
        if len(self._known) >= _MAX_REMEMBERED:
            self._known.clear()
        if href and (_PLAIN if folder else _PLAIN_ABSOLUTE).fullmatch(href):
            target = self._known[folder, href] = _target(folder + href)
            return target
        stripped = href.strip(_BLANK)
        if not stripped or stripped[0] in "?#":  # the only addresses for which the rest of the page's own URL matters
            return _target(normalize(stripped, url))
        target = self._known[folder, href] = _target(normalize(stripped, folder or url))
        return target


def _target(url: str) -> Target:
    return Target(url, url_key(url)) if url else NOWHERE


def base_of(url: str) -> Base:
    """What addresses on a page at `url`, in normal form, are relative to."""
    path = url.partition("?")[0]
    return Base(url, path[: path.rindex("/") + 1], url[: url.index("/", 8)])
