"""HTML and XHTML: from markup to content."""

from __future__ import annotations

import re
from collections.abc import Iterator

from opilio.analyze.content import Content, Source
from opilio.analyze.directives import EVERYONE, OUR_NAME
from opilio.analyze.formats import FORMATS
from opilio.analyze.layout import MAX_ANCHOR_CHARS, Layout, Place
from opilio.analyze.markup import BLANK, Markup, RawLink, read_markup
from opilio.analyze.targets import base_of
from opilio.model import Link, LinkKind, Region, normalize

MAX_TITLE_CHARS = 500
MAX_DESCRIPTION_CHARS = 1000

_NOFOLLOW = frozenset({"nofollow", "ugc", "sponsored"})
_REFRESH = re.compile(r"\s*[\d.]+\s*[;,\s]\s*(?:url\s*=\s*)?(?:'([^']*)|\"([^\"]*)|([^'\"].*))", re.IGNORECASE)
# Files that servers send as text/html by mistake.
_OTHER_FORMATS = (b"%PDF-", b"PK\x03\x04", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"\x1f\x8b", b"\x7fELF", b"RIFF")
# In XHTML these may be empty; an HTML parser would take the rest of the page for their content.
_EMPTY_IN_XHTML = re.compile(rb"<(script|style|title|textarea|iframe|noscript|template|a|div|span|p|td|li)\b([^<>]*)/>")


@FORMATS.register("text/html")
def read_html(body: bytes, source: Source) -> Content | None:
    """Read a page; None when it is a file of some other format."""
    if body.startswith(_OTHER_FORMATS):
        return None
    page = read_markup(body, source.charset, source.max_links)
    layout = Layout(page.text, page.regions, page.link_spans)
    metas = dict(reversed(page.metas))  # of several, the first holds
    links, dropped = _Links(page, source).collect(layout)
    return Content(
        text=layout.text,
        main_text=layout.main_text,
        charset=page.charset.lower(),
        title=_fold(page.title or metas.get("og:title", ""), MAX_TITLE_CHARS),
        description=_fold(metas.get("description") or metas.get("og:description", ""), MAX_DESCRIPTION_CHARS),
        language=page.language or metas.get("@content-language", ""),
        links=links,
        links_dropped=dropped,
        canonical=next((relation.href for relation in page.relations if "canonical" in relation.rel.split()), ""),
        base=_base(page, source),
        robots=tuple(pair for pair in page.metas if pair[0] in (EVERYONE, OUR_NAME)),
    )


@FORMATS.register("application/xhtml+xml")
def read_xhtml(body: bytes, source: Source) -> Content | None:
    """Read XHTML as HTML, which also reads XHTML that is not well-formed."""
    return read_html(_EMPTY_IN_XHTML.sub(rb"<\1\2></\1>", body), source)


def _fold(text: str, max_chars: int) -> str:
    return " ".join(text[: 4 * max_chars].split())[:max_chars]


def _base(page: Markup, source: Source) -> str:
    return (normalize(page.base, source.url) if page.base else "") or source.url


class _Links:
    """Gathers the links of one page: distinct pairs of target and anchor, at most `max_links` of them."""

    def __init__(self, page: Markup, source: Source) -> None:
        self._page = page
        self._source = source
        self._base = base_of(_base(page, source))
        self._seen: set[tuple[str, str]] = set()
        self._links: list[Link] = []
        self._position = 0
        self._dropped = 0

    def collect(self, layout: Layout) -> tuple[list[Link], int]:
        """The links, and how many more there were."""
        resolve, base = self._source.targets.resolve, self._base
        for kind, href, title in self._head():
            url, key = resolve(href, base)
            self._add(url, key, (_fold(title, MAX_ANCHOR_CHARS), "", Region.HEAD), kind, False)
        places, own_url, seen = layout.places(self._source.link_context), self._source.url, self._seen
        for number, raw in enumerate(self._page.links):
            href = raw.href
            if href[0] == "#":
                continue
            url, key = resolve(href, base)
            if not url or url == own_url:
                continue
            # Without a place, because the text was cut or the renderer lost a link, its own text must do.
            place = places[number] if number < len(places) else _own_place(raw)
            if not place[0]:
                place = (_fold(raw.label(), MAX_ANCHOR_CHARS), *place[1:])
            if (url, place[0]) in seen:
                self._position += 1
            else:
                self._add(url, key, place, raw.kind, raw.rel != "" and self._is_nofollow(raw.rel))
        return self._links, self._dropped + self._page.links_passed_over

    def _is_nofollow(self, rel: str) -> bool:
        return self._source.obey_rel_nofollow and not _NOFOLLOW.isdisjoint(rel.lower().split())

    def _head(self) -> Iterator[tuple[LinkKind, str, str]]:
        for name, value in self._page.metas:
            if name == "@refresh" and (found := _REFRESH.match(value)):
                yield LinkKind.REFRESH, next(filter(None, found.groups()), ""), ""
        for relation in self._page.relations:
            rels = relation.rel.split()
            if "canonical" in rels:
                yield LinkKind.CANONICAL, relation.href, ""
            elif "alternate" in rels and relation.hreflang:
                yield LinkKind.ALTERNATE, relation.href, relation.title

    def _add(self, url: str, key: int, place: Place, kind: LinkKind, nofollow: bool) -> None:
        if not url or url == self._source.url:
            return
        position = self._position
        self._position += 1
        anchor, context, region = place
        pair = (url, anchor)
        if pair in self._seen:
            return
        self._seen.add(pair)
        if len(self._links) >= self._source.max_links:
            self._dropped += 1
            return
        self._links.append(Link(url, key, anchor, context, region, position, kind, nofollow))


def _own_place(raw: RawLink) -> Place:
    return _fold(raw.own_text().replace(BLANK, ""), MAX_ANCHOR_CHARS), "", Region.BODY
