"""What a page asks of crawlers, in meta elements and in the X-Robots-Tag header.

Words addressed to us (`<meta name="opilio">`, `X-Robots-Tag: opilio: ...`) replace those addressed to all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

OUR_NAME = "opilio"
EVERYONE = "robots"

# Directives that have a value after a colon; any other word before a colon in the header names a crawler.
_WITH_VALUE = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


class Directives(NamedTuple):
    """May the page be stored, and may its links be followed?"""

    noindex: bool
    nofollow: bool


def from_header(value: str) -> list[tuple[str, str]]:
    """The pairs (whom, what) of an X-Robots-Tag header. A crawler's name holds until the next one."""
    whom, pairs = EVERYONE, []
    for part in value.split(","):
        name, colon, rest = part.lower().partition(":")
        if colon and name.strip() not in _WITH_VALUE:
            whom = name.strip()
            pairs.append((whom, rest))
        else:
            pairs.append((whom, part))
    return pairs


def decide(pairs: Iterable[tuple[str, str]]) -> Directives:
    """What holds for us."""
    said: dict[str, set[str]] = {}
    for whom, what in pairs:
        said.setdefault(whom, set()).update(what.replace(",", " ").lower().split())
    words = said.get(OUR_NAME, said.get(EVERYONE, set()))
    return Directives("noindex" in words or "none" in words, "nofollow" in words or "none" in words)
