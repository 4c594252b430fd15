"""The finished local web as a value: pages by URL, and what is known about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from opilio.errors import InputError
from opilio.lab.webs.server import HTML


@dataclass(frozen=True)
class WebPage:
    """One page. `topic` is empty for hubs, welcome pages and noise."""

    url: str
    body: bytes
    topic: str
    title: str
    content_type: str = HTML


@dataclass(frozen=True)
class LocalWeb:
    """All pages with the truth about them, which tests and benchmarks measure a crawl against."""

    # By URL without a port: http://host.test/path.
    pages: dict[str, WebPage]
    # URL -> status and URL.
    redirects: dict[str, tuple[int, str]]
    # robots.txt, sitemap.xml, feeds and pictures by URL: content type and body.
    files: dict[str, tuple[str, bytes]]
    # Exact copies (mirror) and near copies (print views): URL -> URL of the original.
    copies: dict[str, str]
    # Pages whose meta tag says noindex.
    noindex: frozenset[str]
    hosts: list[str]
    topics: list[str]
    # For each topic its pages, the best seeds first.
    ranked: dict[str, list[str]]
    seed: int = 0
    # Addresses that pages link to on purpose although nothing is there.
    dead: frozenset[str] = frozenset()
    # The file this web was read from or written to, for other processes to load it.
    cache_file: Path | None = field(default=None, compare=False)

    def seeds(self, topic: str, n: int) -> list[str]:
        """The `n` best pages to start a crawl for `topic` from, spread over its hosts."""
        if topic not in self.ranked:
            raise InputError(f"the local web has no topic {topic!r}", f"It has: {', '.join(self.topics)}.")
        return self.ranked[topic][:n]

    def bookmarks(self, topics: list[str] | None = None, per_topic: int = 5) -> str:
        """A bookmark file as browsers export it: a folder for each topic, one inside the other at each slash."""
        tree: dict[str, list[str]] = {}
        for topic in topics if topics is not None else self.topics:
            tree[topic] = [self._bookmark(url) for url in self.seeds(topic, per_topic)]
        lines = [
            "<!DOCTYPE NETSCAPE-Bookmark-file-1>",
            '<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=UTF-8">',
            "<TITLE>Bookmarks</TITLE>",
            "<H1>Bookmarks</H1>",
            "<DL><p>",
        ]
        open_folders: list[str] = []
        for topic in sorted(tree):
            lines += _move(open_folders, topic.split("/"))
            open_folders = topic.split("/")
            lines += tree[topic]
        return "\n".join([*lines, *_move(open_folders, []), "</DL><p>", ""])

    def _bookmark(self, url: str) -> str:
        return f'<DT><A HREF="{escape(url)}">{escape(self.pages[url].title)}</A>'


def _move(old: list[str], new: list[str]) -> list[str]:
    """The lines that close the folders of `old` and open those of `new`, as far as they differ."""
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    opened = [line for name in new[same:] for line in (f"<DT><H3>{escape(name)}</H3>", "<DL><p>")]
    return ["</DL><p>"] * (len(old) - same) + opened
