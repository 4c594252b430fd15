"""A page as Markdown: its main part with headings, lists, links, tables and code, for people and language models.

What is left out is what the main text leaves out (`layout.py`): navigation, asides, footers, page headers, and lines
that consist of links. Headings stay even when they are links. If the page marks its main part, only that part is used.
A page of which nearly nothing is left that way is a list of links: these stay then. If nothing is left, the whole page
is used.

The Markdown is that of GitHub, and safe to show: text that looks like HTML is escaped, links are complete and lead to
pages (no scripts), and pictures are left out, so that reading it requests nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from turbohtml import Document, Element, Text
from turbohtml import Markdown as Style

from opilio.analyze.layout import MAX_LINK_SHARE, MIN_MAIN_CHARS
from opilio.analyze.markup import BLOCKS, shown_document
from opilio.analyze.targets import encode_query
from opilio.model import normalize

HTML_TYPES = ("text/html", "application/xhtml+xml")
_STYLE = Style(
    images=Style.Images(mode="ignore"),
    tables=Style.Tables(cell_blocks="text"),
    links=Style.Links(autolink=False),
)
_MAIN = "main, [role=main], article"
_INSIDE_MAIN = ":is(main, [role=main], article)"
_BOILERPLATE = "nav, [role=navigation], aside, [role=complementary], footer, [role=contentinfo]"
_PAGE_HEADERS = f"header:not({_INSIDE_MAIN} *), [role=banner]:not({_INSIDE_MAIN} *)"
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_NOT_IN_CELLS = frozenset({*_HEADINGS, "table", "pre", "ul", "ol", "dl", "form", "article", "section"})
"""A table with these is there for the layout of the page."""
_TABLE_PARTS = frozenset({"table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption"})
_KEPT_WITHOUT_TEXT = frozenset({"br", "hr"})
_PERMALINKS = frozenset({"", "#", "\u00b6", "\u00a7", "\U0001f517", "link", "edit", "[edit]"})
_NOT_YAML = re.compile("[\x7f-\x9f\ud800-\udfff\u2028\u2029\ufeff\ufffe\uffff]")
_MARKS_OF_TEXT = re.compile(r"^(\s*)([#>+=~|-]|\d+[.)])", re.MULTILINE)
_SIGNS_OF_TEXT = re.compile(r"([\\`*_\[\]<>])")
_BLANK_LINES = re.compile(r"\n{3,}")


def markdown(html: bytes | str, base_url: str = "", charset: str = "") -> str:
    """The main part of a page as Markdown; '' for a page without text.

    `base_url` is its address, which makes links complete. `charset` is the one that the server declared.
    """
    body = html.encode("utf-8", "replace") if isinstance(html, str) else html
    declared = "utf-8" if isinstance(html, str) else charset
    written = _rendered(shown_document(body, declared), base_url, whole=False, links=False)
    if len(written) < MIN_MAIN_CHARS:
        written = _rendered(shown_document(body, declared), base_url, whole=False, links=True)
    return written or _rendered(shown_document(body, declared), base_url, whole=True, links=True)


def text_markdown(text: str) -> str:
    """A plain text, each line of which is a paragraph, as Markdown that shows exactly this text."""
    escaped = _MARKS_OF_TEXT.sub(_escaped_mark, _SIGNS_OF_TEXT.sub(r"\\\1", text))
    return "\n\n".join(line.strip() for line in escaped.split("\n") if line.strip())


def page_markdown(
    html: bytes | str | None,
    url: str,
    facts: Mapping[str, Any] | None = None,
    *,
    charset: str = "",
    text: str = "",
) -> str:
    """A page with front matter: its address and the given facts as YAML. Without HTML, its `text` is used."""
    body = markdown(html, url, charset) if html else ""
    return f"{front_matter({'url': url, **(facts or {})})}\n{body or text_markdown(text)}\n"


def front_matter(facts: Mapping[str, Any]) -> str:
    """Facts as YAML between two lines of dashes; those that are None or empty are left out.

    Values are written as JSON, which is YAML too, so no title can be taken for anything else.
    """
    lines = [f"{name}: {_yaml(value)}" for name, value in facts.items() if value not in (None, "", [], {})]
    return "\n".join(["---", *lines, "---", ""])


def _yaml(value: Any) -> str:
    written = json.dumps(value, ensure_ascii=False)
    return _NOT_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def _escaped_mark(found: re.Match[str]) -> str:
    mark = found[2]
    return f"{found[1]}\\{mark}" if len(mark) == 1 else f"{found[1]}{mark[:-1]}\\{mark[-1]}"


def _rendered(document: Document, base_url: str, *, whole: bool, links: bool) -> str:
    """The Markdown of a page that was parsed for this: its main part or all of it, with or without lines of links."""
    base = _base(document, base_url)
    document.remove("head, title, button, input, iframe, object, embed, svg, math, picture, img")
    parts: list[Document | Element] = [document]
    if not whole:
        document.remove(_BOILERPLATE)
        document.remove(_PAGE_HEADERS)
    main = [] if whole else document.select(f":is({_MAIN}):not({_INSIDE_MAIN} *)")
    _Outline(document, keeps_links=links).prune()
    if main and sum(len(part.text.strip()) for part in main) >= MIN_MAIN_CHARS:
        parts = list(main)
    for part in parts:
        _complete_links(part, base, document.encoding or "")
    written = (part.to_markdown(_STYLE) for part in parts)
    joined = "\n\n".join(text for text in written if text)
    return _BLANK_LINES.sub("\n\n", "\n".join(_clean(joined)))


def _clean(text: str) -> Iterable[str]:
    """The lines without control characters, and without spaces at their ends but for a line break."""
    for line in text.split("\n"):
        kept = "".join(char for char in line if char >= " " or char == "\t")
        yield kept.rstrip() + ("  " if kept.endswith("  ") and kept.strip() else "")


def _base(document: Document, url: str) -> str:
    first = document.select_one("base[href]")
    href = (first.attr("href") or "") if first is not None else ""
    return (normalize(encode_query(href, document.encoding or ""), url) if href else "") or url


def _complete_links(part: Document | Element, base: str, charset: str) -> None:
    """Make addresses complete. A link within the page, to a script or to nowhere becomes its text."""
    for link in list(part.iter_elements("a")):
        href = (link.attr("href") or "").strip()
        target = normalize(encode_query(href, charset), base) if href and href[0] != "#" else ""
        if target and link.text.strip():
            for name in list(link.attrs):
                del link.attrs[name]
            link.attrs["href"] = target
        elif href[:1] == "#" and link.text.strip().lower() in _PERMALINKS:
            link.decompose()
        else:
            link.unwrap()


@dataclass(slots=True)
class _Line:
    """Text of a block between two others: what the renderer of text writes as a line."""

    nodes: list[Text] = field(default_factory=list)
    chars: int = 0
    linked_chars: int = 0


@dataclass(slots=True)
class _Block:
    """An element that stands in lines of its own."""

    element: Element
    above: int
    """The block around it, by number; -1: none."""
    lines: list[_Line] = field(default_factory=list)
    is_line_open: bool = False
    """Whether the next text belongs to the last line."""
    has_text: bool = False
    is_heading: bool = False


class _Outline:
    """The blocks of a page, and what they consist of. Made in one walk, without recursion."""

    def __init__(self, document: Document, *, keeps_links: bool) -> None:
        self._keeps_links = keeps_links
        self._blocks: list[_Block] = []
        self._tables: dict[int, Element] = {}
        """Tables by number, each as long as it may be one of data."""
        self._layout_tables: set[int] = set()
        if document.root is not None:
            self._walk(document.root)

    def prune(self) -> None:
        """Remove lines of links and blocks without text, and turn tables that are layout into plain blocks."""
        for block in reversed(self._blocks):  # blocks stand behind those around them
            for line in block.lines:
                is_links = line.linked_chars > MAX_LINK_SHARE * line.chars
                if is_links and not self._keeps_links and not block.is_heading:
                    for node in line.nodes:
                        node.decompose()
                else:
                    block.has_text = True
            if block.has_text and block.above >= 0:
                self._blocks[block.above].has_text = True
        for block in self._blocks:
            if not block.has_text and block.above >= 0 and block.element.tag not in ("td", "th"):
                block.element.decompose()
        for number in self._layout_tables:
            self._flatten(self._tables[number])

    def _walk(self, root: Element) -> None:
        open_nodes: list[tuple[Any, int, bool, int]] = [(root, -1, False, -1)]
        while open_nodes:
            node, above, linked, table = open_nodes.pop()
            if isinstance(node, Text):
                self._add_text(node, above, linked)
                continue
            if not isinstance(node, Element):
                continue
            tag = node.tag
            if tag == "br" and above >= 0:
                self._blocks[above].is_line_open = False
                continue
            if tag in _NOT_IN_CELLS and table >= 0:
                self._layout_tables.add(table)
            if tag == "table":
                table = len(self._tables)
                self._tables[table] = node
            if tag in BLOCKS or above < 0:
                if above >= 0:
                    self._blocks[above].is_line_open = False
                self._blocks.append(_Block(node, above, is_heading=tag in _HEADINGS))
                above, linked = len(self._blocks) - 1, linked and tag not in _HEADINGS
            linked = linked or (tag == "a" and node.attr("href") is not None)
            open_nodes += [(child, above, linked, table) for child in reversed(node.children)]

    def _add_text(self, node: Text, above: int, linked: bool) -> None:
        chars = len(node.data.strip())
        if not chars:
            return
        block = self._blocks[above]
        if not block.is_line_open:
            block.lines.append(_Line())
            block.is_line_open = True
        line = block.lines[-1]
        line.nodes.append(node)
        line.chars += chars
        line.linked_chars += chars if linked else 0

    def _flatten(self, table: Element) -> None:
        for part in [table, *(one for one in table.iter_elements(tuple(_TABLE_PARTS)))]:
            if part.tag in _TABLE_PARTS:
                part.tag = "div"
