"""Where links point: addresses as written on a page, resolved to URLs in normal form.

Sites repeat their addresses, menus above all, on every page. A relative address depends on nothing but the *folder* of
the page it stands on, one that begins with a slash on the site's root, an absolute one on nothing at all; so resolved
addresses are remembered by what they depend on. Of the rest, most are plain (letters, digits and a few signs):
parsing would not change them.

What a reader is told (`Source`) and what it makes of the bytes (`Content`), whatever the format.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from opilio.model import Link, Outcome, normalize, url_key

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


class Folder(dict[str, Target]):
    """Where the addresses on pages of one folder lead to: `folder[href]`. A known address costs one look-up."""

    def __init__(self, targets: Targets, folder: str, root: str) -> None:
        super().__init__()
        self._targets = targets
        self._folder = folder
        self._root = root
        self.url = folder
        """The page that is being read. Only an address that is nothing but a query or a fragment depends on it."""

    def __missing__(self, href: str) -> Target:
        if len(href) > MAX_HREF_CHARS:
            return NOWHERE
        stripped = href.strip(_BLANK)
        if not stripped or stripped[0] in "?#":
            return _target(normalize(stripped, self.url))
        target = self[href] = self._resolve(href, stripped)
        self._targets.remembered += 1
        return target

    def _resolve(self, href: str, stripped: str) -> Target:
        if self._folder and href.startswith(_ABSOLUTE):
            return self._targets.anywhere[href]
        if self._root and href.startswith("/") and not href.startswith(_HOST_FOLLOWS):
            return self._targets.folder(f"{self._root}/", "")[href]
        if (_PLAIN if self._folder else _PLAIN_ABSOLUTE).fullmatch(href):
            return _target((self._folder[:-1] if href.startswith("/") else self._folder) + href)
        return _target(normalize(stripped, self._folder))


class Targets:
    """Resolves addresses, remembering the most recent ones."""

    def __init__(self) -> None:
        self._folders: dict[str, Folder] = {}
        self.anywhere = Folder(self, "", "")
        """Where absolute addresses lead to."""
        self.remembered = 0

    def seen_from(self, base: Base) -> Folder:
        """Where the addresses on a page with this base lead to; good until the next page is asked for."""
        if self.remembered > _MAX_REMEMBERED:
            self._folders.clear()
            self.anywhere.clear()
            self.remembered = 0
        folder = self.folder(base.folder, base.root)
        folder.url = base.url
        return folder

    def folder(self, folder: str, root: str) -> Folder:
        """The addresses met in a folder of the site at `root`; of the root's own folder when `root` is empty."""
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = Folder(self, folder, "" if folder == f"{root}/" else root)
        return known


def _target(url: str) -> Target:
    return Target(url, url_key(url)) if url else NOWHERE


def base_of(url: str) -> Base:
    """What addresses on a page at `url`, in normal form, are relative to."""
    path = url.partition("?")[0]
    return Base(url, path[: path.rindex("/") + 1], url[: url.index("/", 8)])


@dataclass(frozen=True, slots=True)
class Source:
    """Where bytes came from, and how much of them is wanted."""

    url: str
    """Normal form."""
    charset: str
    """As the server named it; '' when it did not."""
    targets: Targets
    max_links: int
    link_context: bool = True
    obey_rel_nofollow: bool = True


@dataclass(frozen=True, slots=True)
class Content:
    """The readable part of a page. Strings are UTF-8 encodable, whitespace is folded, lines separate blocks."""

    text: str
    main_text: str
    charset: str = ""
    title: str = ""
    description: str = ""
    language: str = ""
    """As the author declared it, unchecked."""
    links: list[Link] = field(default_factory=list)
    links_dropped: int = 0
    canonical: str = ""
    """As written, not yet resolved."""
    base: str = ""
    """What addresses of the page are relative to, when not its own URL."""
    robots: tuple[tuple[str, str], ...] = ()
    """What the page asks of crawlers: pairs of whom ('robots' or a crawler's name) and what ('noindex, nofollow')."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a file has no content."""

    detail: str
    """One line for the user: what is wrong with the file, or what to install."""
    outcome: Outcome = Outcome.UNREADABLE
