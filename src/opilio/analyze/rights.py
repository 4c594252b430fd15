"""Rights signals: what a page says about how it may be used, in its markup and in the headers of its response.

All signals are recorded. Which of them forbid keeping the page is a setting (`robots.obey_rights`). What a whole site
says in a file is read elsewhere (`fetch/site_rights.py`).

Directives addressed to us (`<meta name="opilio">`, `X-Robots-Tag: opilio: ...`) replace those addressed to everyone.
Those for other crawlers are recorded, and do not bind us.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from opilio.analyze.markup import Markup
from opilio.analyze.targets import Target
from opilio.fetch.site_rights import AI_TXT
from opilio.model import Right
from opilio.model.visit import TDM_POLICY, TDM_RESERVATION

OUR_NAME = "opilio"
EVERYONE = "robots"
ROBOTS, LICENSE = "robots", "license"
NOAI, TDM = "noai", "tdm"
"""In `robots.obey_rights`."""

MAX_RIGHTS = 20  # of one page
MAX_VALUE_CHARS = 300
MAX_JSON_CHARS = 256 * 2**10
MAX_JSON_NODES = 10_000

# Directives with a value after a colon; any other word before a colon in the header is the name of a crawler.
_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_RESTRICTING = frozenset(
    [
        *("noindex", "nofollow", "none", "noarchive", "nocache", "nosnippet", "noimageindex", "notranslate"),
        *("noai", "noimageai", "unavailable_after"),
    ]
)
# Words of directives that restrict nothing. A meta element of another name is for a crawler if it has no other words.
_OTHER_DIRECTIVES = frozenset({"index", "follow", "all", "archive", "max-snippet", "max-image-preview", "noodp"})
_DIRECTIVES = _RESTRICTING | _OTHER_DIRECTIVES
_LICENSE_METAS = frozenset({"dc.rights", "dcterms.rights", "dcterms.license", "dc.rights.license", "license"})
_CREATIVE_COMMONS = re.compile(r"(?:https?:)?//(?:www\.)?creativecommons\.org/(?:licenses|publicdomain)/", re.I)
_LINK_HEADER = re.compile(r"<([^<>]*)>([^<]*)")
_LINK_LICENSE = re.compile(r";\s*rel\s*=\s*(?:license\b|\"[^\"]*\blicense\b)", re.IGNORECASE)


class Directives(NamedTuple):
    """What a page asks of us: not to store it, not to follow its links, not to use it or its pictures for AI."""

    noindex: bool = False
    nofollow: bool = False
    noai: bool = False
    noimageai: bool = False


def robots_header(value: str) -> list[tuple[str, str]]:
    """The pairs of addressee and value in X-Robots-Tag headers, one on each line.

    An addressee applies until the next one in the same header.
    """
    pairs = []
    for line in value.splitlines():
        addressee = EVERYONE
        for part in line.split(","):
            name, colon, rest = part.lower().partition(":")
            if colon and name.strip() not in _WITH_VALUE:
                addressee = name.strip()
                pairs.append((addressee, rest))
            else:
                pairs.append((addressee, part))
    return pairs


def directives_for_us(pairs: Iterable[tuple[str, str]]) -> Directives:
    """The directives that apply to us, from pairs of addressee and value."""
    given: dict[str, set[str]] = {}
    for addressee, value in pairs:
        given.setdefault(addressee, set()).update(value.replace(",", " ").lower().split())
    words = given.get(OUR_NAME, given.get(EVERYONE, set()))
    return Directives(
        "noindex" in words or "none" in words, "nofollow" in words or "none" in words, "noai" in words,
        "noimageai" in words,
    )  # fmt: skip


def markup_rights(page: Markup, targets: Mapping[str, Target]) -> list[Right]:
    """The signals in a page. `targets` resolves addresses as written."""
    return [*_meta_rights(page.metas), *_licenses(page, targets)]


def header_rights(headers: Mapping[str, str]) -> list[Right]:
    """The signals in the headers of a response, which have lower-case names."""
    found: dict[str, list[str]] = {}
    for addressee, value in robots_header(headers.get("x-robots-tag", "")):
        found.setdefault(addressee, []).append(value.strip())
    rights = [
        Right(ROBOTS, _fold(", ".join(values)), _of_header("X-Robots-Tag", addressee))
        for addressee, values in found.items()
        if _restricts(", ".join(values))
    ]
    rights += [Right(name, _fold(headers[name]), "header") for name in (TDM_RESERVATION, TDM_POLICY) if name in headers]
    rights += [
        Right(LICENSE, _fold(href), "header Link")
        for href, rest in _LINK_HEADER.findall(headers.get("link", ""))
        if _LINK_LICENSE.search(rest)
    ]
    return rights


def reservation(directives: Directives, rights: Iterable[Right], obeyed: Collection[str]) -> str:
    """The first signal by which a page may not be kept, of those that are obeyed; '' when it may be.

    What the markup says about text and data mining counts more than the header. A value other than 0 and 1 says
    nothing (TDMRep).
    """
    if NOAI in obeyed and directives.noai:
        return NOAI
    if TDM in obeyed:
        said = [right.value for right in rights if right.signal == TDM_RESERVATION and right.value in ("0", "1")]
        if said and said[0] == "1":
            return TDM_RESERVATION
    return ""


def reserved_use(rights: Iterable[Mapping[str, str]]) -> str:
    """The first stored signal by which a page reserves its use for text and data mining or AI; '' for none.

    Signals are as stored: signal, value and source. Those to other crawlers by name do not count.
    """
    stored = [Right(one["signal"], one["value"], one["source"]) for one in rights]
    directives = directives_for_us((_addressee(one.source), one.value) for one in stored if one.signal == ROBOTS)
    reserved = reservation(directives, stored, (NOAI, TDM))
    return reserved or next((one.signal for one in stored if one.signal == AI_TXT), "")


def distinct(rights: Iterable[Right]) -> list[Right]:
    """The signals without repetitions, at most as many as one page may have."""
    return list(dict.fromkeys(right for right in rights if right.value))[:MAX_RIGHTS]


def _fold(text: str) -> str:
    return " ".join(text[: 4 * MAX_VALUE_CHARS].split())[:MAX_VALUE_CHARS]


def _of_header(header: str, addressee: str) -> str:
    return f"header {header}" if addressee == EVERYONE else f"header {header}, to {addressee}"


def _addressee(source: str) -> str:
    """Whom a directive is for, by the source that is stored with it: `meta NAME`, or see `_of_header`."""
    if source.startswith("meta "):
        return source.removeprefix("meta ")
    return source.partition(", to ")[2] or EVERYONE


def _words(value: str) -> set[str]:
    return {word.partition(":")[0] for word in value.replace(",", " ").lower().split()}


def _restricts(value: str) -> bool:
    value = value.lower()
    # Most values, of all elements that describe a page, contain neither.
    return ("no" in value or "unavailable" in value) and not _RESTRICTING.isdisjoint(_words(value))


def _meta_rights(metas: Iterable[tuple[str, str]]) -> Iterator[Right]:
    for name, value in metas:
        if name in (TDM_RESERVATION, TDM_POLICY):
            yield Right(name, _fold(value), "meta")
        elif name in _LICENSE_METAS:
            yield Right(LICENSE, _fold(value), f"meta {name}")
        elif name and name[0] != "@" and _restricts(value) and _is_for_crawlers(name, value):
            yield Right(ROBOTS, _fold(value), f"meta {_fold(name)}")


def _is_for_crawlers(name: str, value: str) -> bool:
    """Whether a meta element is for us, or, by its words, for some other crawler."""
    if name in (EVERYONE, OUR_NAME):
        return True
    return len(value) <= MAX_VALUE_CHARS and _words(value) <= _DIRECTIVES


def _licenses(page: Markup, targets: Mapping[str, Target]) -> Iterator[Right]:
    for relation in page.relations:
        if LICENSE in relation.rel.split():
            yield _license(relation.href, "link rel=license", targets)
    links = page.links
    if any(links.rels) or "ommons" in "\n".join(links.hrefs):
        for href, rel in zip(links.hrefs, links.rels, strict=True):
            if LICENSE in rel.lower().split():
                yield _license(href, "a rel=license", targets)
            elif _CREATIVE_COMMONS.match(href):
                yield _license(href, "a to Creative Commons", targets)
    for value in page.license_items:
        yield _license(value, "itemprop=license", targets)
    for text in page.json_ld:
        for value in _licenses_in_json(text):
            yield _license(value, "JSON-LD", targets)


def _license(value: str, source: str, targets: Mapping[str, Target]) -> Right:
    """A licence is an address, or the name of one or a sentence."""
    written = value.strip()
    is_address = written.startswith(("http:", "https:", "/", ".")) and not any(char.isspace() for char in written)
    return Right(LICENSE, _fold((targets[written].url if is_address else "") or written), source)


def _licenses_in_json(text: str) -> Iterator[str]:
    """The values of `license` anywhere in a JSON-LD document."""
    if len(text) > MAX_JSON_CHARS:
        return
    try:
        nodes: list[Any] = [msgspec.json.decode(text)]
    except (msgspec.DecodeError, RecursionError):
        return
    seen = 0
    while nodes and seen < MAX_JSON_NODES:
        node = nodes.pop()
        seen += 1
        if isinstance(node, list):
            nodes += node
        elif isinstance(node, dict):
            nodes += [value for key, value in node.items() if key != LICENSE and isinstance(value, (list, dict))]
            yield from _license_values(node.get(LICENSE))


def _license_values(value: Any) -> Iterator[str]:
    for one in value if isinstance(value, list) else [value]:
        named = (one.get("@id") or one.get("url") or one.get("name")) if isinstance(one, dict) else one
        if isinstance(named, str):
            yield named
