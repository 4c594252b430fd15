"""Sitemaps: URLs that a site publishes about itself, as XML, plain text, RSS or Atom, optionally gzipped.

The XML is scanned for the few elements that matter and never parsed: no entity is expanded, no DTD is read, and a file
that breaks off still yields the URLs before the break.
"""

from __future__ import annotations

import codecs
import contextlib
import html
import re
from collections.abc import Iterator

from opilio.fetch.decoding import CodingError, Decoder
from opilio.model import host_of, normalize, registered_domain

MAX_DECODED_BYTES = 50 * 2**20  # sitemaps.org

# <loc> with any namespace prefix except those of images and videos, which are not pages.
_LOC = re.compile(r"<(?!image:|video:|news:)(?:[\w.-]{1,40}:)?loc\s*>\s*(?:<!\[CDATA\[([^\]<]*)|([^<]*))")
_FEED_LINK = re.compile(r"<link\b([^<>]*)>\s*(?:<!\[CDATA\[([^\]<]*)|([^<]*))")
_HREF = re.compile(r"""\bhref\s*=\s*["']([^"'<>]*)["']""")
_REL = re.compile(r"""\brel\s*=\s*["']([^"'<>]*)["']""")
_ROOT = re.compile(r"<(?:[\w.-]{1,40}:)?(sitemapindex|urlset|rss|feed|RDF)\b")
_ROOT_WITHIN_CHARS = 65_536
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def parse_sitemap(body: bytes, url: str, max_urls: int) -> tuple[list[str], bool]:
    """The URLs in the sitemap at `url`, in normal form and in order, and whether they are further sitemaps.

    Only URLs of the sitemap's own registered domain are taken: a site can only list its own pages.
    """
    text = _text(_unzipped(body))
    root = _ROOT.search(text, 0, _ROOT_WITHIN_CHARS)
    kind = root.group(1) if root else ""
    if kind in ("rss", "feed", "RDF"):
        found = _feed_links(text)
    elif kind or "<loc" in text:
        found = (match.group(1) or match.group(2) or "" for match in _LOC.finditer(text))
    else:
        found = (line for line in text.splitlines() if line.lstrip().startswith(("http://", "https://")))
    return _own_urls(found, url, max_urls), kind == "sitemapindex"


def _own_urls(found: Iterator[str], base: str, max_urls: int) -> list[str]:
    domain = registered_domain(host_of(base))
    urls: dict[str, None] = {}
    for raw in found:
        if len(urls) >= max_urls:
            break
        target = normalize(html.unescape(raw).strip(), base=base) if raw.strip() else ""
        if target and registered_domain(host_of(target)) == domain:
            urls[target] = None
    return list(urls)


def _feed_links(text: str) -> Iterator[str]:
    """The links in a feed: RSS writes them as text, Atom as attributes."""
    for match in _FEED_LINK.finditer(text):
        attributes = match.group(1)
        href = _HREF.search(attributes)
        if href is None:
            yield match.group(2) or match.group(3) or ""
            continue
        rel = _REL.search(attributes)
        if rel is None or rel.group(1) == "alternate":
            yield href.group(1)


def _unzipped(body: bytes) -> bytes:
    """`body` without gzip compression, as far as it can be read."""
    if not body.startswith(b"\x1f\x8b"):
        return body
    decoder = Decoder(["gzip"], MAX_DECODED_BYTES)
    with contextlib.suppress(CodingError):  # keep what comes before the break
        decoder.feed(body)
    return decoder.body


def _text(body: bytes) -> str:
    for bom, encoding in _BOMS:
        if body.startswith(bom):
            return body[len(bom) :].decode(encoding, "replace")
    return body.decode("utf-8", "replace")
