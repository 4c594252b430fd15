"""HTML and XHTML: from a page to content."""

from __future__ import annotations

import re
from collections.abc import Iterator

from opilio.analyze.content import Content, Source
from opilio.analyze.formats import FORMATS
from opilio.analyze.layout import MAX_ANCHOR_CHARS, Layout
from opilio.analyze.markup import BLANK, Markup, label_of, read_markup
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

_HEAD, _BODY = (bytes([REGIONS.index(region)]) for region in (Region.HEAD, Region.BODY))
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
    text = layout.text
    canonical = next((relation.href for relation in page.relations if "canonical" in relation.rel.split()), "")
    picture = metas.get("og:image") or metas.get("twitter:image") or metas.get("og:image:url") or page.picture
    return Content(
        text=text,
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
        needs_javascript=is_empty_shell(body, source.charset, text, len(links)),
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
        raw, targets, own_url = self._page.links, self.targets, self._source.url
        head = list(self._head())
        anchors, contexts, regions = layout.places(self._source.link_context)
        if len(anchors) < len(raw):  # the text was cut, or the renderer lost a link: then its own text is used
            unknown = raw.elements[len(anchors) :]
            anchors += [_fold(element.text.replace(BLANK, ""), MAX_ANCHOR_CHARS) for element in unknown]
            contexts += [""] * len(unknown)
            regions += _BODY * len(unknown)
        hrefs, kinds, rels = raw.hrefs, raw.kinds, raw.rels
        if head:
            hrefs = [href for href, _, _ in head] + hrefs
            kinds = [kind for _, kind, _ in head] + kinds
            anchors = [title for _, _, title in head] + anchors
            contexts, rels = [""] * len(head) + contexts, [""] * len(head) + rels
            regions = _HEAD * len(head) + regions
        if not "".join(hrefs).isascii():
            hrefs = [encode_query(href, self._page.charset) for href in hrefs]
        keys: list[int] = []
        urls: list[str] = []
        positions: list[int] = []
        kept: list[int] = []
        seen: set[tuple[str, str]] = set()
        position = dropped = 0
        for place, href in enumerate(hrefs):
            if href[0] == "#":
                continue
            url, key = targets[href]
            if not url or url == own_url:
                continue
            anchor = anchors[place]
            if not anchor and place >= len(head):
                anchor = anchors[place] = _fold(label_of(raw.elements[place - len(head)]), MAX_ANCHOR_CHARS)
            position += 1
            pair = (url, anchor)
            if pair in seen:
                continue
            seen.add(pair)
            if len(kept) < self._source.max_links:
                kept.append(place)
                keys.append(key)
                urls.append(url)
                positions.append(position - 1)
            else:
                dropped += 1
        links = Links.from_columns(
            keys,
            urls,
            [anchors[place] for place in kept],
            [contexts[place] for place in kept],
            bytes([regions[place] for place in kept]),
            positions,
            bytes([_KIND_CODES[kinds[place]] for place in kept]),
            bytes([rels[place] != "" and self._is_nofollow(rels[place]) for place in kept]),
        )
        return links, dropped + self._page.links_ignored

    def _head(self) -> Iterator[tuple[str, LinkKind, str]]:
        """The address, kind and title of each link in the head of the page."""
        for name, value in self._page.metas:
            if (
                name == "@refresh"
                and (found := _REFRESH.match(value))
                and (href := next(filter(None, found.groups()), ""))
            ):
                yield href, LinkKind.REFRESH, ""
        for relation in self._page.relations:
            rels = relation.rel.split()
            if "canonical" in rels:
                yield relation.href, LinkKind.CANONICAL, ""
            elif "alternate" in rels and relation.hreflang:
                yield relation.href, LinkKind.ALTERNATE, _fold(relation.title, MAX_ANCHOR_CHARS)

    def _is_nofollow(self, rel: str) -> bool:
        return self._source.obey_rel_nofollow and not _NOFOLLOW.isdisjoint(rel.lower().split())
