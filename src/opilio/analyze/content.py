"""What a reader is told (`Source`) and what it makes of the bytes (`Content`), whatever the format."""

from __future__ import annotations

from dataclasses import dataclass, field

from opilio.analyze.targets import Targets
from opilio.model import Link, Outcome


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
