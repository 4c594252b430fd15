"""The pages of a collection by topic, for other programs: a bookmark file for browsers, OPML for feed readers.

Bookmark files have the form that all browsers read and write (Netscape's): folders are topics, bookmarks are pages, the
surest first. `topics/inputs.py` reads them back into the same topics.

In OPML, outlines are topics, and below them sites. A site whose best pages name a feed is a subscription
(`type="rss"`), any other one a link.
"""

from __future__ import annotations

import datetime
import html
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from opilio.analyze.markdown import HTML_TYPES
from opilio.analyze.markup import feed_links
from opilio.export.feeds import attribute, xml
from opilio.model import normalize
from opilio.store.responses import Responses
from opilio.topics.tree import SEPARATOR

_BOOKMARKS_HEAD = """<!DOCTYPE NETSCAPE-Bookmark-file-1>
<!-- This is an automatically generated file.
     It will be read and overwritten.
     DO NOT EDIT! -->
<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">
<TITLE>Bookmarks</TITLE>
<H1>Bookmarks</H1>
<DL><p>
"""
MAX_FEED_SEARCHES = 3
"""Pages of a site that are looked at for its feed: the surest ones of the topic."""


class OutlinePage(NamedTuple):
    """A page of a topic."""

    topic: str
    url: str
    title: str
    host: str
    visited: datetime.datetime
    content_type: str = ""
    charset: str = ""
    warc_file: str | None = None
    warc_offset: int | None = None


def write_bookmarks(file: BinaryIO, pages: Iterator[OutlinePage], root: str) -> int:
    """Write a bookmark file of pages that come topic after topic; how many. Pages of `root` stand outside folders."""
    file.write(_BOOKMARKS_HEAD.encode())
    folders = _Folders(file)
    count = 0
    for page in pages:
        folders.enter([] if page.topic in ("", root) else page.topic.split(SEPARATOR))
        added_s = int(page.visited.replace(tzinfo=datetime.UTC).timestamp())
        title = _line(page.title) or page.url
        folders.line(f'<DT><A HREF="{html.escape(page.url)}" ADD_DATE="{added_s}">{html.escape(title)}</A>')
        count += 1
    folders.enter([])
    file.write(b"</DL><p>\n")
    return count


class _Folders:
    """The open folders of a bookmark file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._open: list[str] = []

    def enter(self, names: list[str]) -> None:
        """Close and open folders until those of a topic are open."""
        common = 0
        while common < min(len(names), len(self._open)) and names[common] == self._open[common]:
            common += 1
        while len(self._open) > common:
            self._open.pop()
            self.line("</DL><p>")
        for name in names[common:]:
            self.line(f"<DT><H3>{html.escape(_line(name))}</H3>")
            self.line("<DL><p>")
            self._open.append(name)

    def line(self, text: str) -> None:
        """Write a line, indented by the folders around it."""
        self._file.write(f"{'    ' * (len(self._open) + 1)}{text}\n".encode("utf-8", "replace"))


def write_opml(file: BinaryIO, pages: Iterator[OutlinePage], name: str, responses: Responses) -> int:
    """Write OPML 2.0 of pages that come topic after topic; how many pages its sites stand for."""
    now = datetime.datetime.now(datetime.UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    head = ['<?xml version="1.0" encoding="UTF-8"?>', '<opml version="2.0">', f"<head><title>{xml(name)}</title>"]
    head += [f"<dateCreated>{now}</dateCreated></head>", "<body>"]
    file.write("\n".join([*head, ""]).encode("utf-8", "replace"))
    open_names: list[str] = []
    count = 0
    for topic, sites in _sites_by_topic(pages):
        names = topic.split(SEPARATOR) if topic else []
        common = 0
        while common < min(len(names), len(open_names)) and names[common] == open_names[common]:
            common += 1
        _write(file, *["</outline>"] * (len(open_names) - common))
        _write(file, *[f"<outline text={attribute(one)}>" for one in names[common:]])
        open_names = names
        for found in sites.values():
            count += found.pages
            _write(file, _site_outline(found, responses))
    _write(file, *["</outline>"] * len(open_names), "</body>", "</opml>")
    return count


class _Site:
    """The pages of a topic on one host."""

    def __init__(self) -> None:
        self.best: list[OutlinePage] = []
        self.pages = 0

    def add(self, page: OutlinePage) -> None:
        """Count a page, and keep it if it is among the first."""
        self.pages += 1
        if len(self.best) < MAX_FEED_SEARCHES:
            self.best.append(page)


def _sites_by_topic(pages: Iterator[OutlinePage]) -> Iterator[tuple[str, dict[str, _Site]]]:
    topic, sites = "", dict[str, _Site]()
    for page in pages:
        if page.topic != topic and sites:
            yield topic, sites
            sites = {}
        topic = page.topic
        sites.setdefault(page.host, _Site()).add(page)
    if sites:
        yield topic, sites


def _site_outline(site: _Site, responses: Responses) -> str:
    first = site.best[0]
    shown = f"text={attribute(first.host)} title={attribute(_line(first.title) or first.host)}"
    for page in site.best:
        feed = _feed_of(page, responses)
        if feed:
            return f'<outline type="rss" {shown} xmlUrl={attribute(feed)} htmlUrl={attribute(first.url)}/>'
    return f'<outline type="link" {shown} url={attribute(first.url)}/>'


def _feed_of(page: OutlinePage, responses: Responses) -> str:
    """The first feed that a page names, by its address; '' if it names none."""
    if page.content_type.partition(";")[0].strip().lower() not in HTML_TYPES:
        return ""
    body = responses.body(page.warc_file, page.warc_offset)
    found = (normalize(href, page.url) for href in feed_links(body, page.charset)) if body else iter(())
    return next((url for url in found if url), "")


def _write(file: BinaryIO, *lines: str) -> None:
    for line in lines:
        file.write(line.encode("utf-8", "replace") + b"\n")


def _line(text: str) -> str:
    return " ".join(text.split())


def listed_pages(rows: Iterator[dict[str, Any]]) -> Iterator[OutlinePage]:
    """Pages from rows of the database."""
    for row in rows:
        yield OutlinePage(
            row["topic"], row["url"], row["title"], row["host"] or "", row["visited"], row["content_type"] or "",
            row["charset"] or "", row["warc_file"], row["warc_offset"],
        )  # fmt: skip
