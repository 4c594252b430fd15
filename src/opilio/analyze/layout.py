"""The layout of a rendered page, read line by line: its visible text, its main text, and the place of each link.

A line is a block of the page (paragraph, list item, table row). The text around a link comes from its own line.

The *main text* leaves out navigation, asides, footers, page headers, and lines that consist of links. If the page marks
its main part, only that part is used. If nothing is left, the main text is the whole text.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from opilio.analyze.markup import BLANK, Span
from opilio.model import Region
from opilio.model.visit import REGIONS

MAX_TEXT_CHARS = 500_000
MAX_ANCHOR_CHARS = 200
MAX_CONTEXT_CHARS = 200
CONTEXT_WORDS = 10
"""Words before a link, and as many after it."""

_WINDOW_CHARS = 100
"""How far from a link the text around it reaches."""
_MAX_REGIONS = 2000
MAX_LINK_SHARE = 0.5
"""A line with a larger share of its characters inside links is navigation."""
MIN_MAIN_CHARS = 150
"""A main part with less text is an empty frame; then the whole page is used."""

_DROPPED, _REST, _MAIN = range(3)  # the quality of a line as main text
_LINE_ENDS = ("", "\n")
# Invisible characters: blanks for links, soft hyphen, zero-width space, byte order mark.
_INVISIBLE = (BLANK, "\xad", "\u200b", "\ufeff")
_REGION_OF = {"article": Region.MAIN} | {region.value: region for region in Region}
_BOILERPLATE = {Region.NAV, Region.ASIDE, Region.FOOTER}
_REGION_CODES = {region: bytes([code]) for code, region in enumerate(REGIONS)}


class Places(NamedTuple):
    """The places of links, column by column."""

    anchors: list[str]
    contexts: list[str]
    """The text around each link."""
    regions: bytes
    """For each link, the place in `REGIONS`."""


def fold_lines(text: str) -> str:
    """`text` with single spaces between words and without empty lines."""
    folded = [" ".join(line.split()) for line in text.splitlines()]
    return "\n".join(filter(None, folded))


class Layout:
    """A rendered page, read from top to bottom."""

    def __init__(self, text: str, regions: list[Span], links: list[Span]) -> None:
        """Read a rendered `text`; `regions` and `links` are spans of it, sorted by their start, outer before inner."""
        self._source = text
        self._spans = links
        self._regions = bytearray()
        self._lines: list[str] = []
        self._main: list[str] = []
        self._rest: list[str] = []  # all that is not boilerplate
        for start, end, region, quality in _segments(min(len(text), MAX_TEXT_CHARS), regions):
            self._read(start, end, region, quality)

    @property
    def text(self) -> str:
        """The visible text."""
        return "\n".join(self._lines)

    @property
    def main_text(self) -> str:
        """The visible text without boilerplate."""
        main = "\n".join(self._main)
        return main if len(main) >= MIN_MAIN_CHARS else "\n".join(self._rest) or self.text

    def _read(self, start: int, end: int, region: Region, quality: int) -> None:
        """Read one part of the page."""
        part = self._source[start:end]
        spans, link = self._spans, len(self._regions)
        if link == len(spans) or spans[link][0] >= end:
            lines = kept = _folded(part)
        elif quality == _DROPPED:
            lines = kept = _folded(part)
            last_line = start + len(part.rstrip("\n"))
            if last_line > start:
                self._regions += _REGION_CODES[region] * (bisect_left(spans, (last_line,), link) - link)
        else:
            lines, kept = self._read_linked(part, start, region)
        self._lines += lines
        if quality != _DROPPED:
            self._rest += kept
            if quality == _MAIN:
                self._main += kept

    def _read_linked(self, part: str, start: int, region: Region) -> tuple[list[str], list[str]]:
        """Read a part of the page that has links. Returns its lines, and those that do not consist of links."""
        spans, first = self._spans, len(self._regions)
        link, next_link = first, spans[first][0]
        never = start + len(part)
        lines: list[str] = []
        kept: list[str] = []
        for raw in part.split("\n"):
            if not raw:
                start += 1
                continue
            line_end = start + len(raw)
            line = raw.strip(" ") if "  " not in raw and raw.isprintable() else _fold(raw)
            if line:
                lines.append(line)
            if next_link < line_end:
                linked = 0
                while next_link < line_end:
                    linked += min(spans[link][1], line_end) - next_link
                    link += 1
                    next_link = spans[link][0] if link < len(spans) else never
                if line and linked <= MAX_LINK_SHARE * len(raw):
                    kept.append(line)
            elif line:
                kept.append(line)
            start = line_end + 1
        self._regions += _REGION_CODES[region] * (link - first)
        return lines, kept

    def places(self, context: bool = True) -> Places:
        """The place of each link, in order; with the text around it if `context`."""
        spans, regions = self._spans[: len(self._regions)], bytes(self._regions)  # cut text: fewer regions
        source = self._source
        anchors = [source[start:end] for start, end, _ in spans]
        if max(map(len, anchors), default=0) <= MAX_ANCHOR_CHARS:
            anchors = _fold_each(anchors)
        else:
            anchors = [_fold(anchor[: 2 * MAX_ANCHOR_CHARS])[:MAX_ANCHOR_CHARS] for anchor in anchors]
        if not context:
            return Places(anchors, [""] * len(anchors), regions)
        contexts = []
        for start, end, _ in spans:
            before = [] if not start or source[start - 1] == "\n" else self._before(start)
            after = [] if source[end : end + 1] in _LINE_ENDS else self._after(end)
            contexts.append(_fold(" ".join(before + after))[:MAX_CONTEXT_CHARS] if before or after else "")
        return Places(anchors, contexts, regions)

    def _before(self, start: int) -> list[str]:
        """The words before a link, within its line."""
        window = max(0, start - _WINDOW_CHARS)
        line_start = self._source.rfind("\n", window, start) + 1
        words = self._source[line_start or window : start].split()
        if not line_start and window and len(words) <= CONTEXT_WORDS:
            del words[:1]  # the window cut this word
        return words[-CONTEXT_WORDS:]

    def _after(self, end: int) -> list[str]:
        """The words after a link, within its line."""
        window = end + _WINDOW_CHARS
        line_end = self._source.find("\n", end, window)
        words = self._source[end : line_end if line_end >= 0 else window].split()
        if line_end < 0 and window < len(self._source) and len(words) <= CONTEXT_WORDS:
            del words[-1:]
        return words[:CONTEXT_WORDS]


def _fold(text: str) -> str:
    """`text` with single spaces and without invisible characters."""
    if text.isprintable():  # then it has neither invisible characters nor other kinds of spaces
        return " ".join(text.split()) if "  " in text else text.strip()
    for char in _INVISIBLE:
        text = text.replace(char, "")
    return " ".join(text.split())


def _folded(part: str) -> list[str]:
    """The lines of a part of a page, folded, without empty ones."""
    raw_lines = part.split("\n")
    if "  " not in part and "".join(raw_lines).isprintable():
        lines = [line.strip(" ") for line in raw_lines if line]
    else:
        lines = _fold_each([line for line in raw_lines if line])
    return [line for line in lines if line] if "" in lines else lines


def _fold_each(texts: list[str]) -> list[str]:
    """Each of some texts, folded."""
    return [text.strip(" ") if "  " not in text and text.isprintable() else _fold(text) for text in texts]


def _segments(length: int, regions: list[Span]) -> Iterator[tuple[int, int, Region, int]]:
    """A text of `length`, cut at the borders of nested spans: (start, end, innermost region, quality)."""
    inside = [(length, Region.BODY, _REST)]  # the parts that are open at the current position: end, region, quality
    at = 0
    for start, end, label in regions[:_MAX_REGIONS]:
        while inside[-1][0] <= start and len(inside) > 1:
            done, region, quality = inside.pop()
            if at < done:
                yield at, done, region, quality
            at = done
        outer, region, quality = inside[-1]
        cut = min(start, outer)
        if at < cut:
            yield at, cut, region, quality
        at = cut
        inside.append((min(end, outer), _REGION_OF[label], _quality(label, quality)))
    for done, region, quality in reversed(inside):
        if at < done:
            yield at, done, region, quality
        at = done


def _quality(label: str, outer: int) -> int:
    """The quality of text in a part of the page, given the quality of the part around it."""
    region = _REGION_OF[label]
    if label == "main" or (region is Region.MAIN and outer != _DROPPED):
        return _MAIN
    if region in _BOILERPLATE or (region is Region.HEADER and outer == _REST):
        return _DROPPED
    return outer
