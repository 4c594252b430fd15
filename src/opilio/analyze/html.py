"""HTML and XHTML: from a page to content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, repeat

from opilio.analyze.content import Content, Source
from opilio.analyze.formats import FORMATS
from opilio.analyze.layout import MAX_ANCHOR_CHARS, Layout, Place
from opilio.analyze.markup import BLANK, Markup, RawLink, read_markup
from opilio.analyze.pictures import icon_of
from opilio.analyze.rights import EVERYONE, OUR_NAME, markup_rights
from opilio.analyze.shells import is_empty_shell
from opilio.analyze.targets import base_of, encode_query
from opilio.model import LinkKind, Links, Region, normalize
from opilio.model.visit import LINK_KINDS, REGIONS

MAX_TITLE_CHARS = 500
MAX_DESCRIPTION_CHARS = 1000

_NOFOLLOW = frozenset({"nofollow", "ugc", "sponsored"})
_REFRESH = re.compile(r"\s*[\d.]+\s*[;,\s]\s*(?:url\s*=\s*)?(?:'([^']*)|\"([^\"]*)|([^'\"].*))", re.IGNORECASE)
# Files that servers send as text/html by mistake.
_OTHER_FORMATS = (b"%PDF-", b"PK\x03\x04", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"\x1f\x8b", b"\x7fELF", b"RIFF")
# Elements that may be empty in XHTML; an HTML parser would take the rest of the page for their content.
_EMPTY_IN_XHTML = re.compile(rb"<(script|style|title|textarea|iframe|noscript|template|a|div|span|p|td|li)\b([^<>]*)/>")

_IN_HEAD: Place = ("", "", Region.HEAD)
_REGION_CODES = {region: code for code, region in enumerate(REGIONS)}
_KIND_CODES = {kind: code for code, kind in enumerate(LINK_KINDS)}


@FORMATS.register("text/html")
def read_html(body: bytes, source: Source) -> Content | None:
    """Read a page; None if it is a file in another format."""
    if body.startswith(_OTHER_FORMATS):
        return None
    page = read_markup(body, source.charset, source.max_links, source.hidden_links)
    layout = Layout(page.text, page.regions, page.link_spans)
    metas = dict(reversed(page.metas))  # the first of several counts
    found = _Links(page, source)
    links, dropped = found.collect(layout)
    canonical = next((relation.href for relation in page.relations if "canonical" in relation.rel.split()), "")
    picture = metas.get("og:image") or metas.get("twitter:image") or metas.get("og:image:url") or page.picture
    return Content(
        text=layout.text,
        main_text=layout.main_text,
        charset=page.charset.lower(),
        title=_fold(page.title or metas.get("og:title", ""), MAX_TITLE_CHARS),
        description=_fold(metas.get("description") or metas.get("og:description", ""), MAX_DESCRIPTION_CHARS),
        language=page.language or metas.get("@content-language", ""),
        links=links,
        links_dropped=dropped,
        canonical=encode_query(canonical, page.charset),
        base=_base(page, source),
        picture=encode_query(picture, page.charset),
        icon=encode_query(icon_of([(relation.rel, relation.href) for relation in page.relations]), page.charset),
        robots=tuple(pair for pair in page.metas if pair[0] in (EVERYONE, OUR_NAME)),
        rights=tuple(markup_rights(page, found.targets)),
        needs_javascript=is_empty_shell(body, source.charset, layout.text, len(links)),
    )


@FORMATS.register("application/xhtml+xml")
def read_xhtml(body: bytes, source: Source) -> Content | None:
    """Read XHTML as HTML, which also reads XHTML that is not well-formed."""
    return read_html(_EMPTY_IN_XHTML.sub(rb"<\1\2></\1>", body), source)


def _fold(text: str, max_chars: int) -> str:
    return " ".join(text[: 4 * max_chars].split())[:max_chars]


def _base(page: Markup, source: Source) -> str:
    return (normalize(encode_query(page.base, page.charset), source.url) if page.base else "") or source.url


class _Links:
    """Collects the links of one page: distinct pairs of target and anchor text, at most `max_links`."""

    def __init__(self, page: Markup, source: Source) -> None:
        self._page = page
        self._source = source
        self.targets = source.targets.relative_to(base_of(_base(page, source)))

    def collect(self, layout: Layout) -> tuple[Links, int]:
        """The links, and how many more there were."""
        places: Iterable[Place | None] = chain(layout.places(self._source.link_context), repeat(None))
        targets, own_url, max_links = self.targets, self._source.url, self._source.max_links
        charset = self._page.charset
        keys: list[int] = []
        urls: list[str] = []
        anchors: list[str] = []
        contexts: list[str] = []
        positions: list[int] = []
        regions, kinds, nofollow = bytearray(), bytearray(), bytearray()
        seen: set[tuple[str, str]] = set()
        position = dropped = 0
        for raw, place in chain(self._head(), zip(self._page.links, places, strict=False)):
            href = raw.href
            if href[0] == "#":
                continue
            url, key = targets[href if href.isascii() else encode_query(href, charset)]
            if not url or url == own_url:
                continue
            # Its place is unknown if the text was cut or the renderer lost a link; then its own text is used.
            anchor, context, region = place or _own_place(raw)
            if not anchor:
                anchor = _fold(raw.label(), MAX_ANCHOR_CHARS)
            position += 1
            pair = (url, anchor)
            if pair in seen:
                continue
            seen.add(pair)
            if len(keys) < max_links:
                keys.append(key)
                urls.append(url)
                anchors.append(anchor)
                contexts.append(context)
                regions.append(_REGION_CODES[region])
                positions.append(position - 1)
                kinds.append(_KIND_CODES[raw.kind])
                nofollow.append(raw.rel != "" and self._is_nofollow(raw.rel))
            else:
                dropped += 1
        links = Links.from_columns(keys, urls, anchors, contexts, regions, positions, kinds, nofollow)
        return links, dropped + self._page.links_ignored

    def _head(self) -> Iterator[tuple[RawLink, Place]]:
        for name, value in self._page.metas:
            if (
                name == "@refresh"
                and (found := _REFRESH.match(value))
                and (href := next(filter(None, found.groups()), ""))
            ):
                yield RawLink(href, LinkKind.REFRESH), _IN_HEAD
        for relation in self._page.relations:
            rels = relation.rel.split()
            if "canonical" in rels:
                yield RawLink(relation.href, LinkKind.CANONICAL), _IN_HEAD
            elif "alternate" in rels and relation.hreflang:
                title = _fold(relation.title, MAX_ANCHOR_CHARS)
                yield RawLink(relation.href, LinkKind.ALTERNATE), (title, "", Region.HEAD)

    def _is_nofollow(self, rel: str) -> bool:
        return self._source.obey_rel_nofollow and not _NOFOLLOW.isdisjoint(rel.lower().split())


def _own_place(raw: RawLink) -> Place:
    return _fold(raw.own_text().replace(BLANK, ""), MAX_ANCHOR_CHARS), "", Region.BODY
