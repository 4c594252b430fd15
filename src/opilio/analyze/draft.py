"""Building content from pieces, for all formats except HTML.

A reader collects text, line ends and links in a `Draft`, which becomes content at the end. `join` combines several
contents into one: the chapters of a book, the members of an archive. Plain text, the simplest format, is read here: it
has no title, and its links are the URLs in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from opilio.analyze.content import Content, Source
from opilio.analyze.formats import FORMATS, is_binary
from opilio.analyze.html import MAX_DESCRIPTION_CHARS, MAX_TITLE_CHARS
from opilio.analyze.layout import MAX_ANCHOR_CHARS, MAX_TEXT_CHARS, Layout, fold_lines
from opilio.analyze.markup import Span, decode
from opilio.analyze.targets import base_of
from opilio.model import Link, Links, Region

INSIDE = "http://inside.invalid/"
"""The base URL of members of archives and chapters of books, which marks links that lead to other members."""

_FIRST_LINE_CHARS = 200
_MAX_COLLECTED_LINKS = 20_000
"""Links that are collected, including repeated ones; further ones are ignored."""
_LINK = "link"
_LINES = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_TO_BLANK = {
    **dict.fromkeys(map(chr, (*range(32), *range(127, 160))), " "),
    **dict.fromkeys(_LINES, "\n"),
    **dict.fromkeys("\xad\u200b\ufeff\ufffe\uffff"),
}
_CLEAN = str.maketrans(_TO_BLANK)
_SURROGATE = re.compile("[\ud800-\udfff]")
_BARE_URL = re.compile(r"https?://[^\s<>\"'\\^`{|}\u2018-\u201f]{4,1000}", re.IGNORECASE)
_AFTER_URL = ".,;:!?*_)]"
# Titles that programs generate.
_NO_TITLE = re.compile(
    r"(?:untitled|no title|document|presentation|powerpoint presentation|slide)\s*\d*"
    r"|.*\.(?:docx?|dotx?|pptx?|dvi|e?ps|tex|pdf|rtf|od[tps]|indd|qxd|html?|fm|wpd)",
    re.IGNORECASE,
)

FoundLink = tuple[str, str, str]
"""A link: its address as written, its anchor text, and the text around it."""


class Draft:
    """Collects the text and links of a document. Once it is full, readers should stop; further text is dropped."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._chars = 0
        self._spans: list[Span] = []
        self._hrefs: list[str] = []
        self._open: tuple[int, str] | None = None
        self._loose: list[FoundLink] = []

    @property
    def full(self) -> bool:
        """Whether the text has reached the limit for a document."""
        return self._chars >= MAX_TEXT_CHARS

    def add(self, text: str) -> None:
        """Append text to the current line."""
        if text and self._chars < MAX_TEXT_CHARS:
            text = clean(text[: MAX_TEXT_CHARS - self._chars])
            self._parts.append(text)
            self._chars += len(text)

    def end_line(self) -> None:
        """End the line: the next text starts a new block."""
        self.add("\n")

    def begin_link(self, href: str) -> None:
        """Start a link: the text added from here on is its anchor text."""
        self.end_link()
        self._open = (self._chars, href)

    def end_link(self) -> None:
        """End the open link, if there is one."""
        if self._open is None:
            return
        (start, href), self._open = self._open, None
        if start == self._chars:
            self.add_link(href)
        elif len(self._spans) < _MAX_COLLECTED_LINKS:
            self._spans.append((start, self._chars, _LINK))
            self._hrefs.append(href)

    def add_link(self, href: str, anchor: str = "") -> None:
        """Add a link whose place in the text is unknown."""
        if len(self._loose) < _MAX_COLLECTED_LINKS:
            self._loose.append((href, _one_line(anchor, MAX_ANCHOR_CHARS), ""))

    def content(
        self, source: Source, *, title: str = "", language: str = "", description: str = "", bare_urls: bool = False
    ) -> Content:
        """The finished content; with `bare_urls`, URLs in the text are links too."""
        self.end_link()
        layout = Layout("".join(self._parts), [], self._spans)
        places = layout.places(source.link_context)
        found = list(zip(self._hrefs, places.anchors, places.contexts, strict=False))
        found += self._loose
        text = layout.text
        if bare_urls:
            found += urls_in(text, source)
        links, dropped = collect(found, source)
        return Content(
            text=text,
            main_text=layout.main_text,
            title=title_of(title, text),
            description=_one_line(description, MAX_DESCRIPTION_CHARS),
            language=_one_line(language, 35),
            links=links,
            links_dropped=dropped,
        )


def clean(text: str) -> str:
    """`text` without surrogates and control characters, with every line separator as a line end."""
    if text.isprintable() and text.isascii():
        return text
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.translate(_CLEAN)


def title_of(declared: str, text: str) -> str:
    """The declared title of a document, unless a program generated it; else its first line."""
    title = _one_line(declared, MAX_TITLE_CHARS)
    if title and not _NO_TITLE.fullmatch(title):
        return title
    return text.partition("\n")[0][:_FIRST_LINE_CHARS].strip()


def urls_in(text: str, source: Source) -> list[FoundLink]:
    """The URLs in a text, each once, with the text around them."""
    spans: dict[str, Span] = {}
    for found in _BARE_URL.finditer(text):
        url = found.group()
        while url[-1] in _AFTER_URL and not (url[-1] == ")" and url.count("(") >= url.count(")")):
            url = url[:-1]
        spans.setdefault(url, (found.start(), found.start() + len(url), _LINK))
        if len(spans) > _MAX_COLLECTED_LINKS:
            break
    if not spans:
        return []
    places = Layout(text, [], list(spans.values())).places(source.link_context)
    return [(url, "", around) for url, around in zip(spans, places.contexts, strict=False)]


def collect(found: Iterable[FoundLink], source: Source) -> tuple[Links, int]:
    """Links with distinct pairs of target and anchor text, at most `max_links`, and how many more there were.

    A link without anchor text is left out if the same target occurred before.
    """
    links: list[Link] = []
    seen: set[tuple[str, str]] = set()
    known: set[str] = set()
    position = dropped = 0
    for url, key, anchor, context in _resolved(found, source):
        position += 1
        if (url, anchor) in seen or (not anchor and url in known):
            continue
        seen.add((url, anchor))
        known.add(url)
        if len(links) < source.max_links:
            links.append(Link(url, key, anchor, context, Region.BODY, position - 1))
        else:
            dropped += 1
    return Links.of(links), dropped


def _resolved(found: Iterable[FoundLink], source: Source) -> Iterator[tuple[str, int, str, str]]:
    targets = source.targets.relative_to(base_of(source.url))
    for href, anchor, context in found:
        stripped = clean(href).strip()
        if stripped and not stripped.startswith("#"):
            url, key = targets[stripped]
            if url and url != source.url and not url.startswith(INSIDE):
                yield url, key, anchor, context


def _one_line(text: str, max_chars: int) -> str:
    return " ".join(clean(text[: 4 * max_chars]).split())[:max_chars]


def join(
    parts: Iterable[tuple[str, Content]],
    source: Source,
    *,
    title: str = "",
    language: str = "",
    description: str = "",
    name: str = "",
) -> Content | None:
    """One content with the text and links of all parts, each below its heading; None if there are no parts.

    Without a title, that of the first part with one is used, else `name`. Parts are consumed one by one until the text
    reaches the limit for a document.
    """
    read: list[Content] = []
    texts: list[str] = []
    main_texts: list[str] = []
    chars = 0
    for heading, part in parts:
        read.append(part)
        texts.append("\n".join(filter(None, (heading, part.text))))
        main_texts.append("\n".join(filter(None, (heading, part.main_text))))
        chars += len(texts[-1])
        if chars >= MAX_TEXT_CHARS:
            break
    if not read:
        return None
    text = "\n".join(filter(None, texts))[:MAX_TEXT_CHARS]
    links = list(_distinct(read))
    return Content(
        text=text,
        main_text="\n".join(filter(None, main_texts))[:MAX_TEXT_CHARS],
        title=title or next(filter(None, (part.title for part in read)), "") or name,
        description=description or next(filter(None, (part.description for part in read)), ""),
        language=language or next(filter(None, (part.language for part in read)), ""),
        links=Links.of(links[: source.max_links]),
        links_dropped=max(0, len(links) - source.max_links) + sum(part.links_dropped for part in read),
    )


def _distinct(parts: Iterable[Content]) -> Iterator[Link]:
    """The links that lead out of all parts, renumbered."""
    seen: set[tuple[str, str]] = set()
    for part in parts:
        for link in part.links:
            if (
                (link.url, link.anchor) not in seen
                and not link.url.startswith(INSIDE)
                and link.region is not Region.HEAD
            ):
                seen.add((link.url, link.anchor))
                position = len(seen) - 1
                yield Link(
                    link.url, link.key, link.anchor, link.context, link.region, position, link.kind, link.nofollow
                )


@FORMATS.register("text/plain")
def read_plain(body: bytes, source: Source) -> Content | None:
    """Read a text file; None if it is binary, because servers often send unknown files as text/plain."""
    if not source.charset.lower().startswith("utf-16") and is_binary(body):
        return None
    text, charset = decode(body, source.charset)
    text = fold_lines(text[:MAX_TEXT_CHARS])
    links, dropped = collect(urls_in(text, source), source)
    return Content(text, text, charset, links=links, links_dropped=dropped)
