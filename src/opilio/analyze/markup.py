"""The seam to the HTML parser. It returns plain strings and numbers; only `markdown.py` knows the library as well.

The library renders a whole page as text and reports the *spans* of elements in it, all in C. The tree has to be
prepared for this in two ways. Elements without text have no span, so links without text (images) get a BLANK, a control
character that is removed later. And the renderer handles blocks in its own way: it drops stray text in lists, runs
table cells together, does not know some blocks, and does not end a block inside an inline element. So lists, tables and
unknown blocks are turned into plain blocks, and a control character ends the blocks that would not be ended. The same
is done with preformatted text that contains links, which would have no spans.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter

import msgspec
from turbohtml import Document, Element, Namespace, PlainText, Text, parse
from turbohtml.detect import detect, detect_language

from opilio.model import LinkKind

BLANK = "\x01"
"""Represents a link without text in the rendered text."""
_BREAK = "\x02"
MIN_WIDTH, MIN_HEIGHT = 200, 120
"""Pixels: smaller pictures in a page are decoration."""
MAX_PICTURES = 200
MAX_SCRIPTS = 20
FEED_TYPES = ("application/rss+xml", "application/atom+xml")
READ_PER_LINK = 4
"""Links that are read for each one that a page may have, because repeated ones count once."""

_OPTIONS = PlainText(layout="strict", bullet="", table_cell_separator=" ")
# Never shown, whatever scripts do with the page.
_INERT = (
    *("script", "style", "template", "noembed", "noframes", "rp", "select", "textarea", "datalist"),
    *("canvas", "audio", "video"),
)
_INERT_OR_DRAWING = (*_INERT, "svg")
_ALL_INERT = ",".join([*_INERT, "svg title", "svg desc", "svg metadata"])
# Not shown yet, or only without scripts.
_HIDDEN = ",".join(
    [
        *("noscript", "dialog:not([open])", "[hidden]:not(body)"),
        *(f'[style*="{css}" i]:not(body)' for css in ("display:none", "display: none", "visibility:hidden")),
    ]
)
# Without frames: those that are hidden count visitors.
_HIDDEN_LINKS = f":is({_HIDDEN}) :is(a, area), :is(a, area):is({_HIDDEN})"
_PLAIN_BLOCKS = frozenset(
    [
        *("address", "article", "aside", "blockquote", "dd", "details", "div", "dt", "figcaption", "figure", "footer"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "header", "main", "nav", "p", "pre", "section", "summary"),
    ]
)
_OTHER_BLOCKS = frozenset(
    [
        *("table", "thead", "tbody", "tfoot", "tr", "caption", "ul", "ol", "menu", "dir", "li", "dl", "center"),
        *("fieldset", "legend", "form", "dialog", "hgroup", "search", "listing", "xmp", "marquee"),
    ]
)
BLOCKS = _PLAIN_BLOCKS | _OTHER_BLOCKS
_PLAIN, _OTHERS = tuple(_PLAIN_BLOCKS), tuple(_OTHER_BLOCKS)
_ENDING_BLOCKS = _PLAIN_BLOCKS | {"body", "html"}
_FIGURES, _FRAME = frozenset({"figure"}), frozenset({"header", "nav", "footer", "aside"})
_MAX_ABOVE = 32
_SHADOW_HOSTS = frozenset(
    [
        *("article", "aside", "blockquote", "body", "div", "footer", "h1", "h2", "h3", "h4", "h5", "h6", "header"),
        *("main", "nav", "p", "section", "span"),
    ]
)
# Where frameworks for pages that are written by scripts put them.
_MOUNTS = ",".join(
    [
        *("#root", "#app", "#__next", "#__nuxt", "#___gatsby", "#react-root", "#app-root", "#ember-app", "#svelte"),
        *(
            "#mount",
            "#application",
            "#app-container",
            "#app-mount",
            "#q-app",
            "app-root",
            "[ng-app]",
            "[data-reactroot]",
        ),
    ]
)
_TABLE_CELLS = frozenset({"td", "th"})
_CELLS = (*_TABLE_CELLS, "button", "label")
_HEAD = ("title", "meta", "base", "link")
_DRAWINGS = ("svg", "math")
# Whether a page has these decides what has to be looked for: a walk over a page costs as much as a hundred elements.
_FRAMES = ("area", "iframe", "frame")
_SIGNS = (*_CELLS, *_DRAWINGS, *_FRAMES, "img", "pre", "noscript", "dialog")
_HEAD_AND_SIGNS = (*_HEAD, *_SIGNS)
_LINKS = {
    "a": ("href", LinkKind.ANCHOR),
    "area": ("href", LinkKind.AREA),
    "iframe": ("src", LinkKind.FRAME),
    "frame": ("src", LinkKind.FRAME),
}
_UNUSUAL = frozenset({*_DRAWINGS, *_FRAMES})
"""Where there are none of these, all links are `a` elements of HTML."""
_LINK = "link"
_ROLES = {"main": "main", "banner": "header", "navigation": "nav", "complementary": "aside", "contentinfo": "footer"}
_SPANS = {"a#href": [_LINK], "area#href": [_LINK], "iframe#src": [_LINK]} | {
    rule: [region]
    for region, rules in {
        "main": ("main", "#role=main"),
        "article": ("article",),
        "header": ("header", "#role=banner"),
        "nav": ("nav", "#role=navigation"),
        "aside": ("aside", "#role=complementary"),
        "footer": ("footer", "#role=contentinfo"),
    }.items()
    for rule in rules
}
_SPANS_WITHOUT_ROLES = {rule: labels for rule, labels in _SPANS.items() if "#role" not in rule}


Span = tuple[int, int, str]
"""Start, end, label."""


@dataclass(slots=True)
class RawLinks:
    """The links of a page as written, column by column: to make an object of each would cost as much as to read it."""

    hrefs: list[str] = field(default_factory=list)
    rels: list[str] = field(default_factory=list)
    kinds: list[LinkKind] = field(default_factory=list)
    elements: list[Element] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.hrefs)

    def add(self, href: str, kind: LinkKind, element: Element) -> None:
        """Append a link."""
        self.hrefs.append(href)
        self.rels.append(element.attr("rel") or "")
        self.kinds.append(kind)
        self.elements.append(element)

    def extend(self, others: RawLinks) -> None:
        """Append links."""
        self.hrefs += others.hrefs
        self.rels += others.rels
        self.kinds += others.kinds
        self.elements += others.elements


def label_of(element: Element) -> str:
    """A text for a link without one: the alternative texts of its images, or its title."""
    alts = [image.attr("alt") or "" for image in element.iter_elements("img")]
    own = (element.attr(name) or "" for name in ("alt", "title", "aria-label"))
    return next((words for words in (" ".join(alts), *own) if words and not words.isspace()), "")


class Relation(msgspec.Struct):
    """A `link` element."""

    rel: str
    href: str
    hreflang: str
    title: str


@dataclass(slots=True)
class Markup:
    """A parsed page, rendered."""

    charset: str
    language: str
    title: str = ""
    base: str = ""
    metas: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of lower-case name (or property, or http-equiv with a leading '@') and content."""
    relations: list[Relation] = field(default_factory=list)
    picture: str = ""
    """The address of the first large picture of the content."""
    license_items: list[str] = field(default_factory=list)
    """Addresses or texts of elements with itemprop=license."""
    json_ld: list[str] = field(default_factory=list)
    """The text of scripts that hold JSON-LD and mention a licence."""
    links: RawLinks = field(default_factory=RawLinks)
    links_ignored: int = 0
    text: str = ""
    """The visible text; blocks are separated by line ends, and links without text are blanks."""
    link_spans: list[Span] = field(default_factory=list)
    """Where the links are in `text`; empty if this is unknown."""
    regions: list[Span] = field(default_factory=list)
    """Where the parts of the page are in `text`: main, article, header, nav, aside, footer. Outer before inner."""


def read_markup(body: bytes, charset: str, max_links: int, hidden_links: bool = True) -> Markup:
    """Parse and render a page. With `hidden_links`, links in hidden elements come last, after those that are shown."""
    document = _parse(body, charset)
    root = document.root
    page = Markup(document.encoding or "", (root.attr("lang") or root.attr("xml:lang") or "") if root else "")
    inert = list(document.iter_elements(_INERT_OR_DRAWING))
    _read_licenses(document, inert, page)
    _remove_inert(document, inert)
    if not hidden_links:
        document.remove(_HIDDEN)
    signs = _read_head(document, page)  # including what is there for programs without scripts, such as this one
    hidden: list[Element] = []
    if hidden_links and _may_hide(document, signs) and document.select_one(_HIDDEN) is not None:
        hidden = document.select(_HIDDEN_LINKS)
        document.remove(_HIDDEN)
    if "img" in signs:
        page.picture = _first_large_picture(document)
    expected = _read_links(document, signs, page, max_links * READ_PER_LINK)
    _read_hidden_links(hidden, page, max_links * READ_PER_LINK)
    has_breaks = _flatten(document, signs)
    page.text, spans = document.to_annotated_text(_rules(document), _OPTIONS)
    if has_breaks:
        page.text = page.text.replace(_BREAK, "\n")
    # The library lists inner spans before outer ones; reversed, a stable sort puts outer ones first.
    spans.reverse()
    spans.sort(key=itemgetter(0))
    page.regions = [span for span in spans if span[2] != _LINK]
    links = [span for span in spans if span[2] == _LINK]
    if len(links) == expected:
        page.link_spans = links
    return page


def feed_links(body: bytes, charset: str) -> list[str]:
    """The addresses of the feeds that a page names in its head, as written."""
    document = _parse(body, charset)
    return [
        link.attr("href") or ""
        for link in document.iter_elements("link")
        if "alternate" in (link.attr("rel") or "").lower().split()
        and (link.attr("type") or "").partition(";")[0].strip().lower() in FEED_TYPES
    ]


def shown_document(body: bytes, charset: str) -> Document:
    """A page parsed, without what is never shown or hidden."""
    document = _parse(body, charset)
    _remove_inert(document, list(document.iter_elements(_INERT_OR_DRAWING)))
    document.remove(_HIDDEN)
    return document


@dataclass(slots=True)
class ShellSigns:
    """What shows whether a script writes the text of a page."""

    files: int = 0
    """Scripts that are files or modules."""
    inline_chars: int = 0
    """Characters of scripts in the page itself."""
    has_mount: bool = False
    """Whether an element that scripts usually fill is there, and all but empty."""
    asks_for_scripts: bool = False
    """Whether its `<noscript>` speaks of JavaScript."""


def read_shell(body: bytes, charset: str, max_chars: int) -> ShellSigns:
    """Read these signs; an element with at most `max_chars` characters counts as empty."""
    document, signs = _parse(body, charset), ShellSigns()
    for script in document.iter_elements("script"):
        kind = (script.attr("type") or "").lower()
        if kind and kind != "module" and "javascript" not in kind:
            continue  # data
        if script.attr("src") or kind == "module":
            signs.files += 1
        else:
            signs.inline_chars += len(script.text)
    signs.asks_for_scripts = any("javascript" in one.text.lower() for one in document.iter_elements("noscript"))
    document.remove(_ALL_INERT)
    document.remove("noscript")
    own = [one for one in document.select("body > *") if "-" in one.tag]
    signs.has_mount = any(len(one.text.strip()) <= max_chars for one in [*document.select(_MOUNTS), *own])
    return signs


def decode(body: bytes, charset: str) -> tuple[str, str]:
    """Bytes as text, and the charset used: by byte order mark, else as declared by the server, else as detected."""
    found = detect(body)
    if charset and not found.bom:
        try:
            return body.decode(f"whatwg-{charset}", "replace"), charset.lower()
        except (LookupError, ValueError):
            pass
    text = body.decode(found.codec, "replace") if found.codec else ""
    return text.removeprefix("\ufeff"), (found.encoding or "").removesuffix("-SIG").lower()


def detected_language(sample: str) -> tuple[str, float]:
    """ISO 639-3 code of the language of `sample` ('' if there is none) and the confidence, 0 to 1."""
    match = detect_language(sample)
    return match.language or "", match.confidence


def _parse(body: bytes, charset: str) -> Document:
    if charset:
        try:
            document = _parse_as(body, charset)
        except (LookupError, ValueError):
            pass
        else:
            if document.encoding != "replacement":
                return document
    return _parse_as(body, None)


def _parse_as(body: bytes, charset: str | None) -> Document:
    detects = charset is None
    return parse(body, encoding=charset, detect_encoding=detects, positions=False, allow_declarative_shadow_roots=False)


def _remove_inert(document: Document, inert: list[Element]) -> None:
    """Remove what is never shown; `inert` are the elements of `_INERT_OR_DRAWING`."""
    tags = {element.tag for element in inert}
    if "template" in tags:
        _show_shadow_roots(document)
    if "template" in tags or "svg" in tags:
        document.remove(_ALL_INERT)
    else:
        for element in inert:
            element.decompose()


def _may_hide(document: Document, signs: set[str]) -> bool:
    """Whether elements may be hidden. Most pages have none of these signs, which are found faster than `_HIDDEN`."""
    return "noscript" in signs or "dialog" in signs or document.select_one("[hidden], [style]") is not None


def _read_head(document: Document, page: Markup) -> set[str]:
    """Read title, base, meta and link elements, wherever they are: a broken head often ends before them.

    Returns the tags of `_SIGNS` that the page has.
    """
    signs: set[str] = set()
    for element in list(document.iter_elements(_HEAD_AND_SIGNS)):
        tag = element.tag
        if tag == "meta":
            http_equiv = element.attr("http-equiv")
            name = f"@{http_equiv}" if http_equiv else element.attr("name") or element.attr("property") or ""
            page.metas.append((name.strip().lower(), element.attr("content") or ""))
        elif tag == "link":
            rel, href = element.attr("rel"), element.attr("href")
            if rel and href:
                hreflang, title = element.attr("hreflang") or "", element.attr("title") or ""
                page.relations.append(Relation(rel.lower(), href, hreflang, title))
        elif tag == "title":
            page.title = page.title or element.text
            element.clear()  # never visible, wherever it is
        elif tag != "base":
            signs.add(tag)
        elif not page.base:
            page.base = element.attr("href") or ""
    return signs


def _read_licenses(document: Document, inert: list[Element], page: Markup) -> None:
    """Read what names a licence outside the text: scripts with JSON-LD, and items of microdata."""
    scripts = [one for one in inert if one.tag == "script" and "ld+json" in (one.attr("type") or "").lower()]
    page.json_ld = [text for script in scripts[:MAX_SCRIPTS] if "icense" in (text := script.text)]
    for element in islice(document.select('[itemprop="license"]'), MAX_SCRIPTS):
        page.license_items.append(element.attr("href") or element.attr("content") or element.text)


def _rules(document: Document) -> dict[str, list[str]]:
    """What to report the spans of. Rules about roles cost much, and most roles are those that the elements have."""
    for element in document.select("[role]"):
        for role in (element.attr("role") or "").lower().split():
            if _ROLES.get(role, element.tag) != element.tag:
                return _SPANS
    return _SPANS_WITHOUT_ROLES


def _first_large_picture(document: Document) -> str:
    """The address of the first picture that is declared to be large, or stands in a figure without a size."""
    for image in islice(document.iter_elements("img"), MAX_PICTURES):
        src, width, height = image.attr("src") or "", image.attr("width") or "", image.attr("height") or ""
        if not src or src.startswith("data:"):
            continue
        if width.isdecimal() and height.isdecimal():
            is_large = int(width[:5]) >= MIN_WIDTH and int(height[:5]) >= MIN_HEIGHT
        else:
            is_large = _is_below(image, _FIGURES) and not width and not height
        if is_large and not _is_below(image, _FRAME):
            return src
    return ""


def _is_below(element: Element, tags: frozenset[str]) -> bool:
    """Whether an element is inside one with such a tag, a few steps above it."""
    above = element.parent
    for _ in range(_MAX_ABOVE):
        if not isinstance(above, Element):
            return False
        if above.tag in tags:
            return True
        above = above.parent
    return False


def _show_shadow_roots(document: Document) -> None:
    """Put the content of declarative shadow roots in place of their templates, as a browser shows it."""
    for template in list(document.iter_elements("template")):
        host = template.parent
        if (
            isinstance(host, Element)
            and (host.tag in _SHADOW_HOSTS or "-" in host.tag)
            and (template.attr("shadowrootmode") or "").lower() in ("open", "closed")
        ):
            for node in [node for fragment in template.children for node in fragment.children]:
                template.insert_before(node)


def _read_links(document: Document, signs: set[str], page: Markup, max_links: int) -> int:
    """List the links in document order and give each some text; returns the number of spans to expect."""
    if not signs.isdisjoint(_UNUSUAL):
        return _read_unusual_links(document, page, max_links)
    elements = list(document.iter_elements("a"))
    hrefs = [element.attr("href") or "" for element in elements]
    if "" in hrefs:
        elements = [element for element, href in zip(elements, hrefs, strict=True) if href]
        hrefs = list(filter(None, hrefs))
    expected = len(hrefs)
    rels = [element.attr("rel") or "" for element in elements]
    page.links_ignored = max(0, expected - max_links)
    page.links = RawLinks(
        hrefs[:max_links], rels[:max_links], [LinkKind.ANCHOR] * min(expected, max_links), elements[:max_links]
    )
    for element in elements:
        if not (text := element.text) or text.isspace():
            element.append(Text(BLANK))
    return expected


def _read_unusual_links(document: Document, page: Markup, max_links: int) -> int:
    """Read links of all kinds. Those without a span come last: those in framesets and in drawings."""
    expected = 0
    links, without_span = page.links, RawLinks()
    for element in list(document.iter_elements(_LINKS)):
        href, kind, has_span = _unusual_link(element)
        if not href:
            continue
        if has_span:
            expected += 1
        if expected + len(without_span) <= max_links:
            (links if has_span else without_span).add(href, kind, element)
        else:
            page.links_ignored += 1
        if element.tag != "a":
            element.clear()
            element.append(Text(BLANK))
        elif not (text := element.text) or text.isspace():
            element.append(Text(BLANK))
    links.extend(without_span)
    return expected


def _read_hidden_links(hidden: list[Element], page: Markup, max_links: int) -> None:
    for element in hidden:
        if href := element.attr("href"):
            if len(page.links) < max_links:
                page.links.add(href, _LINKS[element.tag][1], element)
            else:
                page.links_ignored += 1


def _unusual_link(element: Element) -> tuple[str, LinkKind, bool]:
    """The address and kind of a link, which may be in a drawing, and whether it has a span."""
    attribute, kind = _LINKS[element.tag]
    in_drawing = element.namespace is not Namespace.HTML
    href = element.attr(attribute) or (element.attr("xlink:href") if in_drawing else "")
    return href or "", kind, element.tag != "frame" and not in_drawing


def _flatten(document: Document, signs: set[str]) -> bool:
    """Turn all blocks into plain ones and separate the cells of a row; returns whether breaks were inserted."""
    for element in list(document.iter_elements(_OTHERS)):
        element.tag = "div"
    breaks = False
    for element in list(document.iter_elements(_PLAIN)):
        parent = element.parent
        if isinstance(parent, Element) and parent.tag not in _ENDING_BLOCKS:
            element.insert_after(Text(_BREAK))
            breaks = True
    if not signs.isdisjoint(_CELLS):
        for element in list(document.iter_elements(_CELLS)):
            element.insert_before(Text(" "))
            if element.tag not in _TABLE_CELLS:  # nothing but another cell comes after one
                element.insert_after(Text(" "))
    return ("pre" in signs and _flatten_preformatted(document, signs)) or breaks


def _flatten_preformatted(document: Document, signs: set[str]) -> bool:
    """The renderer gives links in preformatted text no spans. If there are any, turn all of it into plain blocks."""
    preformatted = list(document.iter_elements("pre"))
    links = "pre a" if signs.isdisjoint(_FRAMES) else "pre a, pre area, pre iframe"
    if not preformatted or document.select_one(links) is None:
        return False
    for outer in preformatted:
        if outer.tag == "pre":  # not yet changed as part of an outer one
            for node in [outer, *outer.descendants]:
                if isinstance(node, Text):
                    node.data = node.data.replace("\n", _BREAK)
                elif isinstance(node, Element) and node.tag == "pre":
                    node.tag = "div"
    return True
