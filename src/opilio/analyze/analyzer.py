"""The analyzer: picks a reader for the bytes, and adds to its content what all formats share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import xxhash

from opilio.analyze import draft  # noqa: F401  # readers register on import
from opilio.analyze.content import Content, Source
from opilio.analyze.formats import DOCUMENT_KINDS, DOCUMENTS, FORMATS, FormatReader, charset_of, kind_of, media_type
from opilio.analyze.language import language_of
from opilio.analyze.rights import (
    NOAI,
    Directives,
    directives_for_us,
    distinct,
    header_rights,
    reservation,
    robots_header,
)
from opilio.analyze.sketch import sketch
from opilio.analyze.targets import Targets, base_of
from opilio.analyze.terms import LinkWords, Terms, Vocabulary, link_words, tokenize
from opilio.model import Document, Links
from opilio.model.url import ascii_address
from opilio.settings import RobotsSettings, StoreSettings, TrapSettings

_LINK_HEADER = re.compile(r"<([^<>]*)>([^<]*)")
_LINK_CANONICAL = re.compile(r";\s*rel\s*=\s*(?:canonical\b|\"[^\"]*\bcanonical\b)", re.IGNORECASE)
_NO_TERMS = Terms(b"", b"", [])
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Analyzer:
    """Turns bytes into documents. It caches words and addresses; each worker has one, and it is not thread-safe."""

    def __init__(self, traps: TrapSettings, robots: RobotsSettings, store: StoreSettings) -> None:
        self._traps = traps
        self._robots = robots
        self._store = store
        self.gives_link_words = False
        """Whether documents include the words of their links as hash codes."""
        self._targets = Targets()
        self._vocabulary = Vocabulary()
        self._readers: dict[str, FormatReader] = {mime: FORMATS.get(mime) for mime in FORMATS}
        self._risky = frozenset({*DOCUMENT_KINDS, *DOCUMENTS})

    def is_risky(self, body: bytes, content_type: str, url: str) -> bool:
        """Whether `body` is in a format that an `Extractor` must read."""
        return kind_of(media_type(content_type), body, url) in self._risky

    def analyze(
        self, body: bytes, content_type: str, url: str, headers: Mapping[str, str] = _NO_HEADERS
    ) -> Document | None:
        """The document in `body`, fetched from `url` (normal form); None if its format cannot be read here.

        `content_type` is the full value of the header; `headers` have lower-case names. The document contains the
        site's directives for crawlers only as far as the settings obey them.
        """
        reader = self._readers.get(kind_of(media_type(content_type), body, url))
        if reader is None:
            return None
        source = Source(
            url,
            charset_of(content_type),
            self._targets,
            self._traps.max_links_per_page,
            self._store.link_context,
            self._robots.obey_rel_nofollow,
            self._traps.hidden_links,
        )
        content = reader(body, source)
        return None if content is None else self.document_of(content, url, headers)

    def document_of(self, content: Content, url: str, headers: Mapping[str, str] = _NO_HEADERS) -> Document:
        """The document made of the content that a reader found at `url`; an empty one if it may not be kept."""
        asked = directives_for_us([*content.robots, *robots_header(headers.get("x-robots-tag", ""))])
        rights = distinct([*content.rights, *header_rights(headers)])
        reserved = reservation(asked, rights, self._robots.obey_rights)
        if reserved:  # before its words are counted: nothing of it is kept
            return Document("", "", "", "", "", "", Links(), b"", b"", [], 0, b"", rights=rights, reserved=reserved)
        directives = asked if self._robots.obey_meta else Directives()
        shows_picture = not (asked.noimageai and NOAI in self._robots.obey_rights)
        text = content.text
        language = language_of(content.main_text, content.language)
        title_words = tokenize(content.title)
        numbers = self._vocabulary.numbers(title_words + tokenize(text), language)
        terms = self._vocabulary.terms(numbers) if self._store.terms else _NO_TERMS
        words = link_words(content.links, language, self._vocabulary) if self.gives_link_words else LinkWords()
        return Document(
            title=content.title,
            description=content.description,
            language=language,
            charset=content.charset,
            text=text,
            main_text=content.main_text,
            links=content.links,
            term_ids=terms.ids,
            term_counts=terms.counts,
            new_terms=terms.new,
            content_hash=content_hash(text),
            shingles=sketch(numbers[len(title_words) :]),
            canonical=self._canonical(content, url, headers),
            noindex=directives.noindex,
            nofollow=directives.nofollow,
            links_dropped=content.links_dropped,
            stems=numbers.astype("<u4").tobytes() if self._store.terms else b"",
            link_words=words.stems,
            link_words_in=words.inside,
            link_words_around=words.around,
            picture=self._resolved(content.picture, content, url) if shows_picture else "",
            icon=self._resolved(content.icon, content, url),
            rights=rights,
            needs_javascript=content.needs_javascript,
        )

    def _resolved(self, href: str, content: Content, url: str) -> str:
        """The URL of a picture or icon; '' if there is none, or it is embedded in the page."""
        return self._targets.relative_to(base_of(content.base or url))[href].url if href else ""

    def _canonical(self, content: Content, url: str, headers: Mapping[str, str]) -> str:
        """The canonical URL in the page, else in the Link header, which is relative to the page's URL, not its base."""
        base = url
        if content.canonical:
            base = content.base or base
        href = content.canonical or _header_canonical(ascii_address(headers.get("link", "")))
        return self._targets.relative_to(base_of(base))[href].url if href else ""


def content_hash(text: str) -> int:
    """The 64-bit hash of a text, ignoring line breaks; 0 for an empty text, which is no duplicate of anything."""
    return xxhash.xxh3_64_intdigest(text.replace("\n", " ").encode()) if text else 0


def _header_canonical(value: str) -> str:
    return next((href for href, rest in _LINK_HEADER.findall(value) if _LINK_CANONICAL.search(rest)), "")
