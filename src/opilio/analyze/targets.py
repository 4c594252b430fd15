"""Link targets: addresses as written on a page, resolved to URLs in normal form.

Sites repeat the same addresses on every page, above all in their menus. What a relative address resolves to depends
only on the *folder* of its page; for one that starts with a slash, only on the root of the site; for an absolute one,
on nothing at all. So resolved addresses are cached by what they depend on. Most of the others are plain (letters,
digits and a few signs), and parsing would not change them.

Queries are special: a browser sends them in the charset of the page (URL standard, 5.1), paths always in UTF-8. A
caller that knows the charset passes addresses through `encode_query` first.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from opilio.model import normalize, url_key

MAX_HREF_CHARS = 4000
"""Longer addresses are ignored: they are embedded data. (The frontier rejects far shorter ones, and counts them.)"""

_MAX_CACHED = 100_000
# Addresses that need no parser. Relative: a slash, or some `./` and `../`, then a name with folders before it (none of
# them `.` or `..`), without a word before a colon, which would be a scheme. Absolute: also a host whose last label
# begins with a letter, so that it is not a number, and without labels in punycode, which only a parser can check. A
# fragment is left out. Semicolons are missing because they may begin a session.
_SIGNS = "A-Za-z0-9_~!$&'()*+,=@:%-"
_PATH = rf"(?:[{_SIGNS}][{_SIGNS}.]*/)*(?:[{_SIGNS}][{_SIGNS}.]*)?"
_PLAIN = re.compile(rf"(/|(?:\.\.?/)+|(?![^/#]*:))({_PATH})(?:#.*)?", re.DOTALL)
_PLAIN_ABSOLUTE = re.compile(
    rf"(https?://(?:(?!xn--)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9]*/{_PATH})(?:#.*)?", re.DOTALL
)
_ESCAPED_DOT = "%2e"
"""A parser reads it as a dot."""
_HOST_FOLLOWS = ("//", "/\\")
_ABSOLUTE = ("http://", "https://")
# Characters that a URL parser strips from both ends of an address.
_BLANK = "".join(map(chr, range(33)))
_NOT_ASCII = re.compile("[^\x00-\x7f]+")
_LINE_BREAKS = str.maketrans("", "", "\t\n\r")  # a URL parser drops them anywhere
_ESCAPED_IN_QUERY = frozenset({*range(33), *b"\"#<>'", *range(127, 256)})
_UNICODE = ("utf-", "replacement")
# Charsets as the Encoding standard names them -> Python's codecs, where these have another name or know less.
_CODECS = {
    "big5": "big5hkscs",
    "euc-kr": "cp949",
    "iso-8859-8-i": "iso-8859-8",
    "shift_jis": "cp932",
    "windows-874": "cp874",
    "x-mac-cyrillic": "mac_cyrillic",
}


class Target(NamedTuple):
    """A URL in normal form and its key. The URL is '' if the address does not lead to a page."""

    url: str
    key: int


NOWHERE = Target("", 0)


class Base(NamedTuple):
    """What addresses are relative to: a URL, its folder (up to the last slash) and its root (scheme and host)."""

    url: str
    folder: str
    root: str


class Folder(dict[str, Target]):
    """The targets of addresses on pages of one folder: `folder[href]`. A known address costs one look-up."""

    def __init__(self, targets: Targets, folder: str, root: str) -> None:
        super().__init__()
        self._targets = targets
        self._folder = folder
        self._root = root
        self.url = folder
        """The page that is being read. Only addresses that start with a query or a fragment depend on it."""

    def __missing__(self, href: str) -> Target:
        if len(href) > MAX_HREF_CHARS:
            return NOWHERE
        stripped = href.strip(_BLANK)
        if not stripped or stripped[0] in "?#":
            return _target(normalize(stripped, self.url))
        target = self[href] = self._resolve(href, stripped)
        self._targets.cached += 1
        return target

    def _resolve(self, href: str, stripped: str) -> Target:
        if self._folder and href.startswith(_ABSOLUTE):
            return self._targets.absolute[href]
        if self._root and href.startswith("/") and not href.startswith(_HOST_FOLLOWS):
            return self._targets.folder(f"{self._root}/", "")[href]
        if _ESCAPED_DOT in href.lower():
            return _target(normalize(stripped, self._folder))
        if not self._folder:
            absolute = _PLAIN_ABSOLUTE.fullmatch(href)
            return _target(absolute[1] if absolute else normalize(stripped))
        plain = _PLAIN.fullmatch(href)
        if not plain:
            return _target(normalize(stripped, self._folder))
        start, path = plain.groups()
        folder = self._folder
        for _ in range(start.count("../")):
            folder = _above(folder)
        return _target(folder + path)


class Targets:
    """Resolves addresses, with a cache of recent ones."""

    def __init__(self) -> None:
        self._folders: dict[str, Folder] = {}
        self.absolute = Folder(self, "", "")
        """The targets of absolute addresses."""
        self.cached = 0

    def relative_to(self, base: Base) -> Folder:
        """The targets of addresses on a page with this base; valid until the next call."""
        if self.cached > _MAX_CACHED:
            self._folders.clear()
            self.absolute.clear()
            self.cached = 0
        folder = self.folder(base.folder, base.root)
        folder.url = base.url
        return folder

    def folder(self, folder: str, root: str) -> Folder:
        """The targets of addresses in a folder of the site at `root`; `root` is empty for the root's own folder."""
        known = self._folders.get(folder)
        if known is None:
            known = self._folders[folder] = Folder(self, folder, "" if folder == f"{root}/" else root)
        return known


def encode_query(href: str, charset: str) -> str:
    """An address from a page in `charset`, with its query encoded as a browser does. Python knows all charsets of the
    web but `x-user-defined`; with that, or in Unicode, the address stays as it is."""
    if href.isascii() or not charset or charset.lower().startswith(_UNICODE):
        return href
    before, question, rest = href.partition("?")
    if not question or "#" in before:
        return href
    query, hash_sign, fragment = rest.partition("#")
    codec = _CODECS.get(charset.lower(), charset)

    def encoded(found: re.Match[str]) -> str:
        octets = found[0].encode(codec, _AS_REFERENCE)
        return "".join([f"%{octet:02X}" if octet in _ESCAPED_IN_QUERY else chr(octet) for octet in octets])

    try:
        query = _NOT_ASCII.sub(encoded, query.translate(_LINE_BREAKS))
    except LookupError:
        return href
    return before + question + query + hash_sign + fragment


def _as_reference(error: UnicodeError) -> tuple[str, int]:
    """What a charset lacks becomes a character reference, escaped."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join([f"%26%23{ord(char)}%3B" for char in missing]), error.end


_AS_REFERENCE = "opilio-reference"
codecs.register_error(_AS_REFERENCE, _as_reference)


def _above(folder: str) -> str:
    """The folder that holds a folder; a root stays what it is."""
    above = folder[: folder.rindex("/", 0, -1) + 1]
    return folder if above.endswith("//") else above


def _target(url: str) -> Target:
    return Target(url, url_key(url)) if url else NOWHERE


def base_of(url: str) -> Base:
    """The base of addresses on a page at `url` (normal form)."""
    path = url.partition("?")[0]
    return Base(url, path[: path.rindex("/") + 1], url[: url.index("/", 8)])
