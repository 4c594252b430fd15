"""A portal as files: a static site for any web host or USB stick.

The templates are those of the live portal; links between pages are relative (`SiteLinks` instead of `LiveLinks`), and
everything that needs a server is left out. Files are named by hashes, so no foreign title or address becomes the name
of a file. Every page has a Content-Security-Policy that allows it to load the files of the site and nothing else.

A site has a search over the texts of its pages (`site_index.py`), feeds of its newest pages, and tags for social
previews. Where the address of the site is known (`base_url`), links in these are complete, and there is a sitemap.

A site is written to a temporary folder and then moved into place, so readers see the old site or the new one.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import opilio
from opilio.errors import InputError
from opilio.export.feeds import FEED_PAGES, Feed, FeedEntry, atom, rss
from opilio.export.target import replacing
from opilio.model import RELEVANT
from opilio.search.portal import LINKED, PER_PAGE
from opilio.search.snippets import summary_of
from opilio.web.browsing import page_values
from opilio.web.front import front_values
from opilio.web.opensearch import described
from opilio.web.pages import asset, environment, outside
from opilio.web.site_index import SiteIndex

MARKER = "opilio-site.json"
"""This file marks a folder that was made here: only such a folder is replaced."""
PAGES_PER_TOPIC = 100
READ_PAGES = 500
"""How many pages are read at a time."""
DISTILLED = 100
"""Hubs, and authorities, among which those of the front are looked for when no crawl stored any."""
FILES = ("opilio.css", "opilio.svg", "published.js")
READ_PICTURES = 50
PICTURE_ENDINGS = {
    "image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp", "image/x-icon": "ico",
}  # fmt: skip
SITEMAP_URLS = 50_000
"""As many as sitemaps.org allows in one file."""

PublishingProgress = Callable[[int, int], None]


class Browsed(Protocol):
    """What is published: a `Collection`, or anything that can be browsed like one."""

    def portal(self, days: int = 1) -> dict[str, Any]:
        """See `Collection.portal`."""
        ...

    def topic_pages(
        self, topic: str = "", *, order: str, page: int, own: bool, relevant: bool, per_page: int
    ) -> dict[str, Any]:
        """See `Collection.topic_pages`."""
        ...

    def distill(self, topic: str | None = None, method: str = "weighted", top: int = 20) -> dict[str, Any]:
        """See `Collection.distill`."""
        ...

    def pages(self, urls: Sequence[str]) -> list[dict[str, Any]]:
        """See `Collection.pages`."""
        ...

    def pictures(self, urls: Sequence[str]) -> list[dict[str, Any] | None]:
        """See `Collection.pictures`."""
        ...


class PictureFiles:
    """The pictures and icons of a site, each written when the first page shows it."""

    def __init__(self, collection: Browsed, folder: Path) -> None:
        self._collection, self._folder = collection, folder
        self._names: dict[str, str] = {}

    def name(self, url: str) -> str:
        """The file of a picture, relative to the top of the site; '' if it is not stored."""
        if url not in self._names:
            self.write([url])
        return self._names[url]

    def write(self, urls: Sequence[str]) -> None:
        """Write the files of some pictures, as far as they are not there yet."""
        new = [url for url in dict.fromkeys(urls) if url not in self._names]
        for start in range(0, len(new), READ_PICTURES):
            part = new[start : start + READ_PICTURES]
            for url, picture in zip(part, self._collection.pictures(part), strict=True):
                self._names[url] = ""
                if picture is not None:
                    self._names[url] = f"pictures/{file_name(url)}.{PICTURE_ENDINGS[picture['content_type']]}"
                    (self._folder / "pictures").mkdir(exist_ok=True)
                    (self._folder / self._names[url]).write_bytes(base64.b64decode(picture["data"]))


class SiteLinks:
    """Links within a published portal, relative to one of its pages; '' for what is not published."""

    def __init__(self, to_top: str, topics: dict[str, str], pages: dict[str, str], pictures: PictureFiles) -> None:
        self.to_top = to_top
        self._topics, self._pages, self._pictures = topics, pages, pictures

    def front(self, days: int = 0) -> str:
        """The front."""
        return f"{self.to_top}index.html"

    def topic(self, topic: str, page: int = 1, **options: Any) -> str:
        """A list of pages of a topic."""
        name = self._topics.get(topic, "")
        return f"{self.to_top}topics/{numbered(name, page)}" if name else ""

    def page(self, url: str) -> str:
        """A page of the collection."""
        name = self._pages.get(url, "")
        return f"{self.to_top}pages/{name}" if name else ""

    def picture(self, url: str) -> str:
        """A picture."""
        name = self._pictures.name(url)
        return f"{self.to_top}{name}" if name else ""

    def site(self, topic: str, host: str, best: str) -> str:
        """The best page of a topic on a host."""
        return self.page(best)


def numbered(name: str, page: int) -> str:
    """The file of one of the pages of a list."""
    return f"{name}.html" if page == 1 else f"{name}-{page}.html"


def file_name(text: str) -> str:
    """A file name that any file system accepts; the same for the same text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


@dataclass(frozen=True)
class Card:
    """What a link to one of the pages of a site shows in a chat or a social network."""

    title: str
    description: str = ""
    picture: str = ""
    """Its file, relative to the top of the site."""


def publish(
    collection: Browsed,
    target: Path | str,
    *,
    name: str,
    pages_per_topic: int = PAGES_PER_TOPIC,
    base_url: str = "",
    progress: PublishingProgress = lambda done, total: None,
) -> dict[str, int]:
    """Write the portal of a collection to the folder `target`; how many topics and pages are in it.

    Topics with relevant pages are published, each with its best `pages_per_topic`. `base_url` is where the site will
    be: then it has a sitemap, and previews with pictures. `progress` is called with the number of files written and the
    total. An existing folder is replaced if it was made by this function, else refused.
    """
    base_url = _checked_base(base_url)
    with replacing(
        Path(target).resolve(), MARKER, "opilio publish"
    ) as folder:  # follow a symbolic link: the site may be elsewhere
        site = _Site(collection, folder, name, pages_per_topic, base_url)
        return site.write(progress)


def _checked_base(url: str) -> str:
    """The address of a site, with a slash at its end; '' when none is given."""
    if not url:
        return ""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InputError(f"{url}: not the address of a site", "Give one such as https://example.org/birds/.")
    return url if url.endswith("/") else f"{url}/"


class _Site:
    """Writes the files of one site."""

    def __init__(self, collection: Browsed, folder: Path, name: str, pages_per_topic: int, base_url: str) -> None:
        self._collection, self._folder, self._name, self._most = collection, folder, name, pages_per_topic
        self._base_url = base_url
        self._environment = environment()
        self._index = SiteIndex(folder)
        self._pictures = PictureFiles(collection, folder)
        self._feed: list[FeedEntry] = []
        self._written: list[tuple[str, str]] = []
        """Every page of the site with the time of its content, '' for now: for the sitemap."""
        self._front = collection.portal()
        if not self._front["hubs"] and not self._front["authorities"]:  # no crawl kept a link analysis
            best = collection.distill(top=DISTILLED)
            for kind in ("hubs", "authorities"):
                relevant = [page for page in best[kind] if page["relevance"] >= RELEVANT and page["state"] == "fetched"]
                self._front[kind] = relevant[:LINKED]
        self._topics: dict[str, str] = {}
        self._named: dict[str, str] = {}
        """The files of topics by all that lists call them: the root has no path, and goes by its name."""
        self._lists: dict[str, dict[str, Any]] = {}
        self._pages: dict[str, str] = {}

    def write(self, progress: PublishingProgress) -> dict[str, int]:
        """Read the lists first: they decide what is published, and so what can be linked to."""
        for node in _with_pages(self._front["tree"]):
            self._read_list(node)
        if not self._pages:
            raise InputError(
                "no page of this collection is relevant: there is nothing to publish",
                "Give its topics examples (opilio topics add), and crawl on.",
            )
        root = self._front["tree"]["name"]
        self._named = {root: self._topics[""]} | self._topics
        total = len(self._topics) + len(self._pages)
        for folder in ("topics", "pages"):
            (self._folder / folder).mkdir()
        for done, topic in enumerate(self._topics):
            progress(done, total)
            self._write_list(topic)
        urls = list(self._pages)
        for start in range(0, len(urls), READ_PAGES):
            progress(len(self._topics) + start, total)
            self._write_pages(urls[start : start + READ_PAGES])
        front = front_values(self._front)
        pictures = [page["picture"]["url"] for topic in front["wanted"] for page in topic["best"] if page["picture"]]
        card = Card(self._name, front["headline"], self._pictures.name(pictures[0]) if pictures else "")
        self._write("index.html", "portal.html", "", card, **front, since_visit=False)
        self._write("search.html", "published_search.html", "", Card(f"Search {self._name}"))
        self._index.finish()
        self._write_feeds()
        self._write_sitemap()
        self._write_assets()
        progress(total, total)
        return {"topics": len(self._topics), "pages": len(self._pages)}

    def _read_list(self, node: dict[str, Any]) -> None:
        report = self._collection.topic_pages(
            node["topic"], order="confidence", page=1, own=False, relevant=True, per_page=self._most
        )
        report["total"] = min(report["total"], len(report["results"]))
        self._pictures.write([page["picture"]["url"] for page in report["results"] if page["picture"]])
        self._pictures.write([page["icon"] for page in report["results"] if page["icon"]])
        self._lists[node["topic"]] = report
        self._topics[node["topic"]] = file_name(node["topic"])
        for page in report["results"]:
            self._pages.setdefault(page["url"], f"{file_name(page['url'])}.html")

    def _write_list(self, topic: str) -> None:
        report = self._lists[topic]
        results, last = report["results"], max(1, -(-len(report["results"]) // PER_PAGE))
        for number in range(1, last + 1):
            part = {"results": results[(number - 1) * PER_PAGE : number * PER_PAGE], "page": number, "last_page": last}
            path = f"topics/{numbered(self._topics[topic], number)}"
            about = report["about"]
            card = Card(about["name"], about["description"] or f"{about['relevant']:,} relevant pages")
            self._write(path, "topic.html", "../", card, **(report | part), analysed=False)

    def _write_pages(self, urls: list[str]) -> None:
        for url, report in zip(urls, self._collection.pages(urls), strict=True):
            if not report["stored"]:
                raise InputError(f"{url}: it was removed while the site was written", "Publish again.")
            self._write_page(report, f"pages/{self._pages[url]}")

    def _write_page(self, report: dict[str, Any], path: str) -> None:
        url, title, topic = report["url"], report["title"], report["topic"]
        summary = summary_of(title, report["description"], report["main_text"] or report["text"])
        picture = self._pictures.name(report["picture"]["url"]) if report["picture"] else ""
        card = Card(title or url, summary, picture)
        self._write(path, "page.html", "../", card, report["visited"], **page_values(report))
        topic_file = self._named.get(topic, "")
        result = {
            "title": title, "url": url, "file": self._pages[url], "topic": topic,
            "topic_file": topic_file and f"{topic_file}.html", "picture": picture,
        }  # fmt: skip
        self._index.add(result, title, report["text"], f"{url} {topic}", report["main_text"] or report["text"])
        visited = datetime.datetime.fromisoformat(report["visited"])
        related = f"{self._base_url}{path}" if self._base_url else ""
        self._feed.append(FeedEntry(outside(url), title or url, summary, topic, visited, related))

    def _write(self, path: str, template: str, to_top: str, card: Card, visited: str = "", **values: Any) -> None:
        shown: dict[str, Any] = {
            "name": self._name, "place": "", "base": "published_base.html", "live": False, "choices": (),
            "links": SiteLinks(to_top, self._named, self._pages, self._pictures), "card": card,
            "base_url": self._base_url, "path": "" if path == "index.html" else path,
        }  # fmt: skip
        self._render(path, template, {**shown, **values})
        self._written.append((shown["path"], visited))

    def _render(self, path: str, template: str, values: dict[str, Any]) -> None:
        text = self._environment.get_template(template).render(values)
        (self._folder / path).write_text(text, encoding="utf-8", errors="replace")

    def _write_feeds(self) -> None:
        """The pages of the site that were fetched last, newest first."""
        newest = sorted(self._feed, key=lambda entry: (entry.visited, entry.url), reverse=True)[:FEED_PAGES]
        for name, form in (("rss.xml", rss), ("atom.xml", atom)):
            address = f"{self._base_url}{name}" if self._base_url else ""
            text = form(Feed(self._name, newest, self._base_url, address))
            (self._folder / name).write_text(text, encoding="utf-8", errors="replace")
        if self._base_url:
            self._render("opensearch.xml", "opensearch.xml", described(self._name, self._base_url))

    def _write_sitemap(self) -> None:
        """The addresses of all pages, in several files where there are too many for one."""
        if not self._base_url:
            return
        values: dict[str, Any] = {"base_url": self._base_url, "files": []}
        starts = range(0, len(self._written), SITEMAP_URLS)
        if len(starts) > 1:
            values["files"] = [f"sitemap-{number}.xml" for number in range(1, len(starts) + 1)]
            self._render("sitemap.xml", "published_sitemap.xml", values | {"pages": []})
        for start, file in zip(starts, values["files"] or ["sitemap.xml"], strict=True):
            pages = self._written[start : start + SITEMAP_URLS]
            self._render(file, "published_sitemap.xml", values | {"files": [], "pages": pages})

    def _write_assets(self) -> None:
        for name in FILES:
            (self._folder / name).write_bytes(asset(name))
        about = {"made_by": "opilio publish", "version": opilio.__version__, "name": self._name}
        (self._folder / MARKER).write_text(json.dumps(about) + "\n", "utf-8")


def _with_pages(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The topics that have relevant pages, from the root down."""
    if node["relevant"]:
        yield node
        for child in node["children"]:
            yield from _with_pages(child)
