"""The analyzer: picks a reader for the bytes, and adds to its content what is common to all formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

import xxhash

from opilio.analyze import html, plain  # readers register on import
from opilio.analyze.content import Content, Source
from opilio.analyze.directives import Directives, decide, from_header
from opilio.analyze.formats import FORMATS, Reader
from opilio.analyze.language import language_of
from opilio.analyze.sketch import sketch
from opilio.analyze.targets import Targets, base_of
from opilio.analyze.terms import Terms, Vocabulary
from opilio.analyze.tokens import tokenize
from opilio.model import Document
from opilio.settings import Robots, Storage, Traps

__all__ = ["Analyzer", "html", "plain"]

_CHARSET = re.compile(r"charset\s*=\s*[\"']?([^\s\"';,]+)", re.IGNORECASE)
_LINK_HEADER = re.compile(r"<([^<>]*)>([^<]*)")
_LINK_CANONICAL = re.compile(r";\s*rel\s*=\s*(?:canonical\b|\"[^\"]*\bcanonical\b)", re.IGNORECASE)
_HTML_STARTS = (b"<!doctype html", b"<html", b"<head", b"<body", b"<title", b"<!--")
_NO_TERMS = Terms(b"", b"", [])
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Analyzer:
    """Makes documents of bytes. Keeps what it has learned of words and addresses; one per worker, not thread-safe."""

    def __init__(self, traps: Traps, robots: Robots, store: Storage) -> None:
        self._traps = traps
        self._robots = robots
        self._store = store
        self._targets = Targets()
        self._vocabulary = Vocabulary()
        self._readers: dict[str, Reader] = {mime: FORMATS.get(mime) for mime in FORMATS}

    def analyze(
        self, body: bytes, content_type: str, url: str, headers: Mapping[str, str] = _NO_HEADERS
    ) -> Document | None:
        """The document that `body`, fetched from `url` (normal form), holds; None when we cannot read it.

        `content_type` is the header's whole value; `headers` have lower-case names. What a site asks of crawlers is in
        the document only as far as the settings say that it is obeyed.
        """
        mime, charset = _media_type(content_type, body)
        reader = self._readers.get(mime)
        if reader is None:
            return None
        source = Source(
            url,
            charset,
            self._targets,
            self._traps.max_links_per_page,
            self._store.link_context,
            self._robots.obey_rel_nofollow,
        )
        content = reader(body, source)
        return None if content is None else self._document(content, source, headers)

    def _document(self, content: Content, source: Source, headers: Mapping[str, str]) -> Document:
        text = content.text
        language = language_of(content.main_text, content.language)
        title_words = tokenize(content.title)
        numbers = self._vocabulary.numbers(title_words + tokenize(text), language)
        terms = self._vocabulary.terms(numbers) if self._store.terms else _NO_TERMS
        directives = self._directives(content, headers)
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
            canonical=self._canonical(content, source, headers),
            noindex=directives.noindex,
            nofollow=directives.nofollow,
            links_dropped=content.links_dropped,
        )

    def _directives(self, content: Content, headers: Mapping[str, str]) -> Directives:
        if not self._robots.obey_meta:
            return Directives(noindex=False, nofollow=False)
        return decide([*content.robots, *from_header(headers.get("x-robots-tag", ""))])

    def _canonical(self, content: Content, source: Source, headers: Mapping[str, str]) -> str:
        """The page's own word, else the Link header's; the latter is relative to the page's URL, not to its base."""
        base = source.url
        if content.canonical:
            base = content.base or base
        href = content.canonical or _header_canonical(headers.get("link", ""))
        return self._targets.seen_from(base_of(base))[href].url if href else ""


def content_hash(text: str) -> int:
    """The 64-bit hash of a text, its line breaks not counting; 0 for no text, which is not a duplicate of anything."""
    return xxhash.xxh3_64_intdigest(text.replace("\n", " ").encode()) if text else 0


def _media_type(content_type: str, body: bytes) -> tuple[str, str]:
    """MIME type and charset of a Content-Type header; without one, what the bytes look like."""
    mime = content_type.partition(";")[0].strip().lower()
    found = _CHARSET.search(content_type)
    if not mime:
        mime = "text/html" if body[:512].lstrip().lower().startswith(_HTML_STARTS) else "text/plain"
    return mime, found.group(1) if found else ""


def _header_canonical(value: str) -> str:
    return next((href for href, rest in _LINK_HEADER.findall(value) if _LINK_CANONICAL.search(rest)), "")
