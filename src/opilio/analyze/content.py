"""What a reader of any format is given (`Source`) and what it returns (`Content`)."""

from __future__ import annotations

from dataclasses import dataclass

from opilio.analyze.targets import Targets
from opilio.model import Links, Outcome, Right

_NO_LINKS = Links()


@dataclass(frozen=True, slots=True)
class Source:
    """Where the bytes came from, and what to extract from them."""

    url: str
    """Normal form."""
    charset: str
    """As declared by the server; '' if it was not."""
    targets: Targets
    max_links: int
    link_context: bool = True
    obey_rel_nofollow: bool = True
    hidden_links: bool = True


@dataclass(frozen=True, slots=True)
class Content:
    """The readable part of a page. Strings can be encoded as UTF-8, whitespace is collapsed, lines separate blocks."""

    text: str
    main_text: str
    charset: str = ""
    title: str = ""
    description: str = ""
    language: str = ""
    """As declared by the author, unchecked."""
    links: Links = _NO_LINKS
    links_dropped: int = 0
    canonical: str = ""
    """As written, not yet resolved."""
    base: str = ""
    """What addresses on the page are relative to, if not its own URL."""
    picture: str = ""
    """As written, like `canonical`; and so is the next."""
    icon: str = ""
    robots: tuple[tuple[str, str], ...] = ()
    """Directives for crawlers: pairs of addressee ('robots' or our name) and value ('noindex, nofollow')."""
    rights: tuple[Right, ...] = ()
    """Signals about how the page may be used, those of other crawlers included."""
    needs_javascript: bool = False
    """Whether it is an empty shell (`shells.py`)."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a file has no content."""

    detail: str
    """One line for the user: what is wrong with the file, or which program to install."""
    outcome: Outcome = Outcome.UNREADABLE
