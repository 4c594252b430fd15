"""A visit to a URL and its parts: lease, fetch, document, links and judgement. Engine and workers exchange these."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec

from opilio.model.outcome import Outcome

RELEVANT = 0.5
"""A page whose relevance is at least this counts as relevant, whatever the classifier."""

BORDERLINE_WITHIN = 0.25
"""A page is borderline when its relevance is at most this far from `RELEVANT`. Calibrated, relevance is a probability
moved so that its odds are 1 where pages begin to be accepted: there its odds are at most 3 times more, or less."""
SURE = 0.9
"""A page is sure from this relevance on: the odds are 9 times those at which pages begin to be accepted. In four crawls
with four topics each, 91 % of the sure pages were right, 89 % of the likely ones, 64 % of those borderline pages that
were accepted, and 6 % of the others (docs/results/log.md, 2026-11-18)."""


def certainty(relevance: float | None) -> str:
    """How sure it is that a page is on topic, in the words of all lists: sure, likely, borderline; else off topic."""
    if relevance is None:
        return "not judged"
    if relevance >= SURE:
        return "sure"
    if relevance > RELEVANT + BORDERLINE_WITHIN:
        return "likely"
    return "borderline" if relevance >= RELEVANT - BORDERLINE_WITHIN else "off topic"


class Judgement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The topic that a classifier assigned to a page, and how confident it is."""

    topic: int = 0
    """The deepest topic that accepted the page; the root if none did."""
    accepted: bool = False
    """Whether a topic accepted it. If not, it is in OTHERS, directly below the root."""
    relevance: float = 0.0
    """How relevant it is to a good topic, 0 to 1; relevant from `RELEVANT` on."""
    confidence: float = 0.0
    """In the classifier's own unit: distance from the hyperplane, log odds or cosine. Positive: accepted."""
    votes: dict[str, float] = {}
    """The confidence of each feature space, or the value of each metric; those that abstained are missing."""
    agreed: list[str] = []
    """The spaces or metrics that voted for the topic."""
    undoubted: bool = False
    """Two or more independent metrics agreed (OASIS), or all feature spaces did (BINGO)."""
    model_version: int = 0
    """The model that judged the page; 0: the keywords of the topics, before any training."""

    @property
    def is_relevant(self) -> bool:
        """Whether the page counts as found."""
        return self.relevance >= RELEVANT


class LeaseKind(StrEnum):
    """What a worker has to fetch."""

    PAGE = "page"
    HOST = "host"
    """First contact with an origin: resolve the name of its host and read its robots.txt."""
    SITEMAP = "sitemap"
    PROBE = "probe"
    """Does a host answer? Its name is looked up again, and robots.txt is requested, whatever it says."""
    MISSING = "missing"
    """A page that should not exist. What a host answers to it shows its soft 404s."""
    PICTURE = "picture"
    """The picture of a relevant page."""
    ICON = "icon"
    """The icon of a site that has one."""
    RIGHTS = "rights"
    """A file in which a site reserves rights: /.well-known/tdmrep.json or /ai.txt."""
    SEEDS = "seeds"
    """A request of a seed provider, whose service the user has named. No crawl makes one."""
    SUBRESOURCE = "subresource"
    """A file that the script of a rendered page requests, such as another script or data."""


SUBRESOURCE_OID = -(2**55)
"""Requests of a rendered page have this oid minus that of the page."""


class LinkKind(StrEnum):
    """The element or header that a link came from."""

    ANCHOR = "a"
    AREA = "area"
    FRAME = "frame"
    REFRESH = "refresh"
    CANONICAL = "canonical"
    ALTERNATE = "alternate"


class Region(StrEnum):
    """The part of the page that a link is in, by its nearest sectioning ancestor."""

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
    """One request that the engine gives to a worker."""

    oid: int
    """The number of the URL. A first contact has -1 - sid, a sitemap one below -2^40, a probe one below -2^41, a
    page that should not exist one below -2^42, a file of rights one below -2^45, a picture or icon one below -2^50, and
    a request of a rendered page -2^55 - the number of that page: they are no URLs of the crawl."""
    url: str
    kind: LeaseKind = LeaseKind.PAGE
    etag: str = ""
    last_modified: str = ""
    attempt: int = 1
    anchor: str = ""
    """The anchor text of the link that led here."""
    neighbours: bytes = b""
    """Hash codes (uint32 little-endian) of significant stems of the page that the link was found on."""
    stored_s: float = 0.0
    """When the page that is stored was fetched; 0: none is."""
    accept: str = ""
    """The header Accept, if it is not the one that the settings make."""
    delay_s: float = 0.0
    """The delay between requests to the host: how long to wait before a request that got lost is sent again."""

    @classmethod
    def first_contact(cls, sid: int, scheme: str, host: str) -> Lease:
        """The lease of an origin's robots.txt."""
        return cls(-1 - sid, f"{scheme}://{host}/robots.txt", LeaseKind.HOST)

    @property
    def sid(self) -> int:
        """The host of a first contact."""
        return -1 - self.oid


class Link(_Record, frozen=True):
    """A link on a page: its target in normal form, its anchor text, the text around it and its place."""

    url: str
    key: int
    anchor: str
    context: str
    region: Region
    position: int
    """The number of links before it on the page."""
    kind: LinkKind = LinkKind.ANCHOR
    nofollow: bool = False


REGIONS, LINK_KINDS = tuple(Region), tuple(LinkKind)
"""A region or kind is written as its place in these."""


class Links(_Record, frozen=True):
    """The links of a page, column by column.

    Most links lead to URLs that are known, and their words are only stored. So a worker sends them as a few long
    strings, which the engine passes on to the database as they are, and nobody makes an object of each link. Where an
    object is handy, indexing and iteration make a `Link`.
    """

    keys: bytes = b""
    """uint64 little-endian: the key of each URL."""
    urls: str = ""
    """Joined by line ends, as are the next two; none of the three has a line end itself."""
    anchors: bytes = b""
    """UTF-8."""
    contexts: bytes = b""
    """UTF-8."""
    regions: bytes = b""
    """uint8: the place in `REGIONS`."""
    positions: bytes = b""
    """uint32 little-endian."""
    kinds: bytes = b""
    """uint8: the place in `LINK_KINDS`."""
    nofollow: bytes = b""
    """uint8: 0 or 1."""

    @classmethod
    def of(cls, links: Iterable[Link]) -> Links:
        """The columns of some links."""
        found = list(links)
        return cls.from_columns(
            [link.key for link in found],
            [link.url for link in found],
            [link.anchor for link in found],
            [link.context for link in found],
            bytes([REGIONS.index(link.region) for link in found]),
            [link.position for link in found],
            bytes([LINK_KINDS.index(link.kind) for link in found]),
            bytes([link.nofollow for link in found]),
        )

    @classmethod
    def from_columns(
        cls,
        keys: Sequence[int],
        urls: Sequence[str],
        anchors: Sequence[str],
        contexts: Sequence[str],
        regions: bytes | bytearray,
        positions: Sequence[int],
        kinds: bytes | bytearray,
        nofollow: bytes | bytearray,
    ) -> Links:
        """Links whose columns are at hand."""
        return cls(
            array("Q", keys).tobytes(),
            _joined(urls),
            _joined(anchors).encode("utf-8", "replace"),
            _joined(contexts).encode("utf-8", "replace"),
            bytes(regions),
            array("I", positions).tobytes(),
            bytes(kinds),
            bytes(nofollow),
        )

    def __len__(self) -> int:
        return len(self.regions)

    def __getitem__(self, place: int) -> Link:
        return self.take([place]).all()[0]

    def __iter__(self) -> Iterator[Link]:
        return iter(self.all())

    def all(self) -> list[Link]:
        """Each link as an object."""
        columns = (
            self.url_list(), self.key_list(), self.anchor_list(), self.context_list(),
            [REGIONS[code] for code in self.regions], self.position_list(),
            [LINK_KINDS[code] for code in self.kinds], map(bool, self.nofollow),
        )  # fmt: skip
        return [Link(*values) for values in zip(*columns, strict=True)]

    def key_list(self) -> list[int]:
        """The key of each URL."""
        return memoryview(self.keys).cast("Q").tolist()

    def url_list(self) -> list[str]:
        """The URL of each link."""
        return self.urls.split("\n") if self.regions else []

    def anchor_list(self) -> list[str]:
        """The anchor text of each link."""
        return self.anchors.decode().split("\n") if self.regions else []

    def context_list(self) -> list[str]:
        """The text around each link."""
        return self.contexts.decode().split("\n") if self.regions else []

    def position_list(self) -> list[int]:
        """The position of each link."""
        return memoryview(self.positions).cast("I").tolist()

    def take(self, places: Sequence[int]) -> Links:
        """The links at some places."""
        keys, positions = memoryview(self.keys).cast("Q"), memoryview(self.positions).cast("I")
        urls, anchors, contexts = self.url_list(), self.anchors.split(b"\n"), self.contexts.split(b"\n")
        return Links(
            array("Q", [keys[at] for at in places]).tobytes(),
            "\n".join([urls[at] for at in places]),
            b"\n".join([anchors[at] for at in places]),
            b"\n".join([contexts[at] for at in places]),
            bytes([self.regions[at] for at in places]),
            array("I", [positions[at] for at in places]).tobytes(),
            bytes([self.kinds[at] for at in places]),
            bytes([self.nofollow[at] for at in places]),
        )


def _joined(texts: Sequence[str]) -> str:
    """Texts joined by line ends. Any line ends in them become spaces; our own readers leave none."""
    joined = "\n".join(texts)
    if joined.count("\n") >= len(texts) > 0:
        joined = "\n".join([" ".join(text.splitlines()) for text in texts])
    return joined


TDM_RESERVATION, TDM_POLICY = "tdm-reservation", "tdm-policy"
"""Names of signals of TDMRep, as it writes them."""


class Right(_Record, frozen=True):
    """Something that a page or its site says about how the page may be used."""

    signal: str
    """`robots`, `tdm-reservation`, `tdm-policy`, `ai.txt` or `license`."""
    value: str
    source: str
    """Where it stands: an element, a header or a file of the site."""


class Document(_Record, frozen=True):
    """Everything later stages need to know about a page, so that it is parsed only once."""

    title: str
    description: str
    language: str
    """ISO 639-1 code, or '' if it could not be detected."""
    charset: str
    text: str
    """The visible text."""
    main_text: str
    """The visible text without boilerplate (navigation, footers, link lists)."""
    links: Links
    term_ids: bytes
    """uint32 little-endian: 32-bit hash codes of the stems on the page, ascending."""
    term_counts: bytes
    """uint16 little-endian, parallel to `term_ids`."""
    new_terms: list[tuple[int, str]]
    """Stems that this worker has not reported before, for the lexicon."""
    content_hash: int
    """64-bit hash of the visible text, with whitespace collapsed."""
    shingles: bytes
    """MinHash sketch over 5-word shingles (uint32 little-endian), b'' if the page is too short to compare."""
    canonical: str = ""
    noindex: bool = False
    nofollow: bool = False
    links_dropped: int = 0
    """Links beyond the limit for one page."""
    significant: bytes = b""
    """uint32 little-endian: the stems that represent this page as a neighbour of others; b'' if they are not needed."""
    stems: bytes = b""
    """uint32 little-endian: the stems of title and text in their order, 0 for words that are not terms. Sent to the
    engine of a crawl that learns, which learns from the first pages and re-judges them."""
    link_words: bytes = b""
    """uint32 little-endian, for each link in turn: the stems of its anchor text and URL, then those of the text around
    it. This and the next two fields are b'' if the strategy does not use them."""
    link_words_in: bytes = b""
    """uint8, for each link: how many of them come from its anchor text and URL."""
    link_words_around: bytes = b""
    """uint8, for each link: how many come from the text around it."""
    picture: str = ""
    """The URL of the picture that stands for the page, if it has one."""
    icon: str = ""
    """The URL of the icon that it names."""
    rights: list[Right] = []
    reserved: str = ""
    """Why the page may not be kept, by the settings (`robots.obey_rights`): the signal that says so. Then the document
    has nothing but its rights."""
    needs_javascript: bool = False
    """Whether the page is an empty shell: nothing to read, and a script that would write it (`analyze/shells.py`)."""


class Picture(_Record, frozen=True):
    """A picture in a raster format that browsers show."""

    content_type: str
    width: int
    height: int
    data: bytes


class HostReport(_Record, frozen=True):
    """The result of the first contact with an origin: its robots.txt."""

    robots_status: int
    """HTTP status of robots.txt, 0 if it could not be fetched, -1 if robots.txt is not obeyed."""
    robots: str = ""
    crawl_delay_s: float = 0.0
    sitemaps: list[str] = []


class Fetch(_Record, frozen=True):
    """One request and its outcome."""

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
    """Normal form of the Location, if this is a redirect."""
    retry_after_s: float = 0.0
    etag: str = ""
    last_modified: str = ""
    detail: str = ""
    """One line for the user: what exactly went wrong."""
    warc_file: str = ""
    warc_offset: int = -1
    warc_bytes: int = 0
    cut: bool = False
    """The body was longer than a limit, and this is its beginning."""
    looked_up: bool = False
    """The name of the host was looked up for this request: its address was not known before."""

    @property
    def full_bytes(self) -> int:
        """The size of the whole body after content decoding; 0: not known."""
        return 0 if self.cut else self.body_bytes


class Subrequest(_Record, frozen=True):
    """A request that the script of a rendered page caused."""

    url: str
    fetch: Fetch


class Visit(_Record, frozen=True):
    """What a worker returns for a lease."""

    lease: Lease
    fetch: Fetch
    document: Document | None = None
    host: HostReport | None = None
    judgement: Judgement | None = None
    """None while there is nothing to judge by: no model and no keywords."""
    sitemap_urls: list[str] = []
    """URLs in normal form: of pages or, if `sitemap_is_index`, of further sitemaps."""
    sitemap_is_index: bool = False
    fatal: str = ""
    """Why the crawl cannot continue: the worker cannot write its WARC file."""
    picture: Picture | None = None
    rights_file: str = ""
    """The text of a file in which a site reserves rights."""
    subrequests: list[Subrequest] = []
    """Requests that rendering the page took, that of the page itself left out."""
    rendered: bool = False
    """Whether the document is the page as a browser has it once its scripts have run."""
