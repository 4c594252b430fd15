"""Judgement: what a classifier says of a page.

Lease, visit, fetch, document, link: what engine and workers hand each other.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from opilio.model.outcome import Outcome

RELEVANT = 0.5
"""A page is relevant from this relevance on, whatever the classifier."""


class Judgement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The topic a page belongs to, and how sure that is."""

    topic: int = 0
    """The deepest topic that took the page; the root when none did."""
    accepted: bool = False
    """Whether a topic took it. If not, it is in OTHERS, right below the root."""
    relevance: float = 0.0
    """How much it is about a good topic, 0 to 1; from `RELEVANT` on it is."""
    confidence: float = 0.0
    """In the classifier's own measure: the distance from the hyperplane, the log odds, the cosine. Positive: a yes."""
    votes: dict[str, float] = {}
    """The confidence by feature space, or the value by metric; one that abstained is missing."""
    agreed: list[str] = []
    """The spaces or metrics that said yes."""
    undoubted: bool = False
    """Two or more independent metrics agreed (OASIS), or all feature spaces did (BINGO)."""
    model_version: int = 0
    """The model that judged; 0: the keywords of the topics, before anything was learned."""

    @property
    def is_relevant(self) -> bool:
        """Whether the page counts as found."""
        return self.relevance >= RELEVANT


class LeaseKind(StrEnum):
    """What a worker is asked to do."""

    PAGE = "page"
    HOST = "host"
    """Make the acquaintance of a host: resolve its name and read its robots.txt."""
    SITEMAP = "sitemap"


class LinkKind(StrEnum):
    """The element or statement a link came from."""

    ANCHOR = "a"
    AREA = "area"
    FRAME = "frame"
    REFRESH = "refresh"
    CANONICAL = "canonical"
    ALTERNATE = "alternate"


class Region(StrEnum):
    """The part of the page a link stands in, by its nearest sectioning ancestor."""

    HEAD = "head"
    HEADER = "header"
    NAV = "nav"
    MAIN = "main"
    ASIDE = "aside"
    FOOTER = "footer"
    BODY = "body"
    """None of the others."""


class _Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of the records: immutable, and an array on the wire."""


class Lease(_Record, frozen=True):
    """One request the engine asks a worker to make."""

    oid: int
    url: str
    kind: LeaseKind = LeaseKind.PAGE
    etag: str = ""
    last_modified: str = ""
    attempt: int = 1
    anchor: str = ""
    """The words of the link that led here."""
    neighbours: bytes = b""
    """Hash codes (uint32 little-endian) of significant stems of the page it was found on."""


class Link(_Record, frozen=True):
    """A link of a page: its target in normal form, its own words, the words around it and its place."""

    url: str
    key: int
    anchor: str
    context: str
    region: Region
    position: int
    """How many links stand before it on the page."""
    kind: LinkKind = LinkKind.ANCHOR
    nofollow: bool = False


class Document(_Record, frozen=True):
    """All that later stages need of a page, so that none of them parses it again."""

    title: str
    description: str
    language: str
    """ISO 639-1 code, or '' when the text is too short to tell."""
    charset: str
    text: str
    """The visible text."""
    main_text: str
    """The visible text without boilerplate (navigation, footers, link lists)."""
    links: list[Link]
    term_ids: bytes
    """uint32 little-endian: the 32-bit hash codes of the page's stems, ascending."""
    term_counts: bytes
    """uint16 little-endian, parallel to `term_ids`."""
    new_terms: list[tuple[int, str]]
    """Stems this worker has not reported before, for the lexicon."""
    content_hash: int
    """64-bit hash of the visible text, whitespace folded."""
    shingles: bytes
    """MinHash sketch over 5-word shingles (uint32 little-endian), b'' when the page is too short to compare."""
    canonical: str = ""
    noindex: bool = False
    nofollow: bool = False
    links_dropped: int = 0
    """Links past the limit of links a page may have."""
    significant: bytes = b""
    """uint32 little-endian: the stems that speak for this page among its neighbours; b'' when nobody asks for them."""
    stems: bytes = b""
    """uint32 little-endian: the stems of title and text in their order, 0 for words that are no terms. Stays with the
    worker."""
    link_words: bytes = b""
    """uint32 little-endian, for each link in turn: the stems of its words and its URL, then those of the words around
    it. b'' when no strategy asks for them, and so are the two below."""
    link_words_in: bytes = b""
    """uint8: how many of them are the link's own and its URL's."""
    link_words_around: bytes = b""
    """uint8: how many are from around it."""


class HostReport(_Record, frozen=True):
    """What the first visit to a host told: its robots.txt."""

    robots_status: int
    """HTTP status of robots.txt, 0 when it could not be asked for, -1 when robots are not obeyed."""
    robots: str = ""
    crawl_delay_s: float = 0.0
    sitemaps: list[str] = []


class Fetch(_Record, frozen=True):
    """One request and what came of it."""

    outcome: Outcome
    status: int = 0
    ip: str = ""
    content_type: str = ""
    received_bytes: int = 0
    body_bytes: int = 0
    """After content decoding."""
    started_s: float = 0.0
    """Seconds since the epoch."""
    took_ms: float = 0.0
    redirect_url: str = ""
    """Normal form of the Location, for a redirect."""
    retry_after_s: float = 0.0
    etag: str = ""
    last_modified: str = ""
    detail: str = ""
    """One line for the user: what exactly went wrong."""
    warc_file: str = ""
    warc_offset: int = -1
    warc_bytes: int = 0


class Visit(_Record, frozen=True):
    """A worker's answer to a lease."""

    lease: Lease
    fetch: Fetch
    document: Document | None = None
    host: HostReport | None = None
    judgement: Judgement | None = None
    """None when the crawl has no idea of its topics."""
    sitemap_urls: list[str] = []
    """Page URLs (normal form) of a sitemap, or further sitemaps when `sitemap_is_index`."""
    sitemap_is_index: bool = False
    fatal: str = ""
    """Why the crawl cannot go on: the worker cannot write its WARC file."""
